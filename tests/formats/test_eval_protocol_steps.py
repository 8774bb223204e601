"""eval-protocol's recordings: a line for each step of an environment, with all messages so far."""

from __future__ import annotations

from typing import Any

from ruler_cli.records import Group, compared
from ruler_cli.scoring.request import lay_out
from ruler_cli.settings import AskSettings
from tests.values import read, talk


def steps(*answers: str, env: int = 0, **more: Any) -> list[dict[str, Any]]:
    """The lines of one environment, one for each answer."""
    said = [{"role": "assistant", "content": text} for text in answers]
    asked = talk("")[:1]
    return [
        {"env_index": env, "step": i, "messages": [*asked, *said[: i + 1]], **more} for i in range(len(said))
    ]


def shown(*records: dict[str, Any]) -> list[str]:
    """The rollouts of a group as the judge sees them."""
    found = read(*records)
    assert len({record.key for record in found}) == 1
    return list(lay_out(Group("g", tuple(found)), AskSettings()).bodies)


def test_longest() -> None:
    """The judge sees each rollout once, to its end, also where threads wrote its steps in no order."""
    one, other = steps("a", "b", "c", env=0), steps("d", "e", env=1)
    wanted = {'assistant: "a"\nassistant: "b"\nassistant: "c"', 'assistant: "d"\nassistant: "e"'}
    for records in ([*one, *other], [one[2], other[1], one[0], other[0], one[1]]):
        assert set(shown(*records)) == wanted


def test_next_run() -> None:
    """An index that comes again in the next run is another rollout, and nothing of either is hidden."""
    assert shown(*steps("a", "b"), *steps("c", "d")) == [
        'assistant: "a"\nassistant: "b"',
        'assistant: "c"\nassistant: "d"',
    ]
    same = shown(*steps("a", "b"), *steps("a", "d"), *steps("x", env=1))
    assert all(f'"{text}"' in same[0] for text in "abd")


def test_episodes() -> None:
    """What tells two rollouts of an environment apart is not merged, however they begin."""
    records = [*steps("a", "b", episode=0), *steps("a", "c", episode=1), *steps("a", "c", epoch=2)]
    assert compared([rollout for record in read(*records) for rollout in record.rollouts]) == 3


def test_other_names() -> None:
    """`env_idx` is the same; an index or a step that is no number makes no recording."""
    record = steps("a")[0]
    named = {"env_idx": 0, **{k: v for k, v in record.items() if k != "env_index"}}
    assert read(named)[0].rollouts[0].member is not None
    for other in ({**record, "step": "x"}, {**record, "env_index": "gsm8k"}):
        assert read(other)[0].rollouts[0].member is None


def test_results_only() -> None:
    """A recording without the agent's turns, as old ones are, still is one rollout of one task."""
    results = [{"role": "tool", "content": text} for text in "ab"]
    asked = talk("")[:1]
    records = [{"env_index": 0, "step": i, "messages": asked + results[: i + 1]} for i in (0, 1)]
    found = read(*records)
    assert found[0].key == found[1].key
    assert compared([rollout for record in found for rollout in record.rollouts]) == 1
