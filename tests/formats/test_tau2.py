"""tau2-bench simulations."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.scoring.render import render
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read


def test_reading() -> None:
    """Trials of a task are a group, though tasks lie apart."""
    groups = keyed(*sample("tau2"))
    assert list(groups) == ["train", "tiles"]
    assert [r.reward for r in groups["train"]] == [1.0, 0.0]
    assert said(groups["train"]) == ["Platform 4, at 22:10.", "Platform 7, I think."]


def test_tools() -> None:
    """A result is named by its call, and what the simulated user called is told as the user's."""
    agent, user = (render(read(r)[0].rollouts[0].messages) for r in sample("tau2")[:2])
    assert agent[2:4] == ['call timetable: {"to":"Tromsø"}', 'tool timetable: "22:10 platform 4"']
    assert user[2:4] == [
        'call "measure_floor (the user\'s)": {}',
        'tool "measure_floor (the user\'s)": "2.4 m by 1.8 m"',
    ]


def test_results_at_once() -> None:
    """Results that came at once are one message each."""
    record = sample("tau2")[0]
    calls = [{"id": i, "name": f"f{i}", "arguments": {}} for i in "ab"]
    results = [{"id": i, "content": i, "requestor": "assistant"} for i in "ba"]
    messages = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_messages": results},
    ]
    shown = render(read({**record, "messages": messages})[0].rollouts[0].messages)
    assert shown[1:] == ['tool fb: "b"', 'tool fa: "a"']


def test_written() -> None:
    """Reward and mark stand where its reader keeps them; no score is null."""
    record = sample("tau2")[0]
    done = written(record, SCORED)
    assert changed(record, done) == {"reward_info.reward", "reward_info.info"}
    assert done["reward_info"]["info"]["ruler"]["independent_reward"] == 1.0
    held = {**record, "reward_info": {"reward": 1.0, "info": {"env": 1}}}
    assert changed(held, written(held, SCORED)) == {"reward_info.reward", "reward_info.info.ruler"}
    assert written(record, LOST)["reward_info"]["reward"] is None
    same_twice(record)


@pytest.mark.parametrize("info", [None, {"reward": 1.0, "info": None}])
def test_written_where_nothing_was(info: Any) -> None:
    """A simulation without a reward gets one that its reader takes."""
    done = written({**sample("tau2")[0], "reward_info": info}, SCORED)["reward_info"]
    assert done["reward"] == 0.625
    assert done["info"]["ruler"]["status"] == "scored"
    kept = written({**sample("tau2")[0], "reward_info": info}, LOST, on_failure="keep")["reward_info"]
    assert kept.get("reward") == (1.0 if info else None)


@pytest.mark.parametrize(
    ("more", "says"),
    [({"messages": []}, "when a run crashed"), ({"messages": None, "ticks": [{}]}, "a full-duplex run")],
)
def test_no_messages(more: dict[str, Any], says: str) -> None:
    """A crashed run and a voice run have no messages, each for its own reason."""
    with pytest.raises(UnreadableError, match=says):
        read({**sample("tau2")[0], **more})
