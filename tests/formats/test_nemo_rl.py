"""NeMo-RL's logs of training and validation."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.marking import marked, sample, without
from tests.values import line, read, reader, talk


def row(*content: Any, **changed: Any) -> dict[str, Any]:
    """One line; every value stands in a list of one."""
    return {"content": [list(content)], "rewards": [1.0], "token_ids": [[1, 2]], "idx": 0, **changed}


def test_texts() -> None:
    """Of texts without roles the first is the prompt, the others are one turn."""
    found = read(row("q", "a", "<|im_start|>tool\n72", "b"))[0].rollouts[0]
    assert found.messages == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a<|im_start|>tool\n72b"},
    ]
    assert found.reward == 1.0


def test_messages() -> None:
    """In validation the content is messages."""
    assert read(row(*talk("4")))[0].rollouts[0].messages == talk("4")


def test_key() -> None:
    """Equal prompts are a group: of messages all that stand before the answer, not the first alone."""
    one, same, other = read(row("q", "a"), row("q", "b", "c"), row("p", "a"))
    assert one.key == same.key != other.key
    system = {"role": "system", "content": "Be brief."}
    one, same, other = read(*(row(system, *talk(a, q)) for a, q in (("4", "x"), ("5", "x"), ("4", "y"))))
    assert one.key == same.key != other.key


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "neither texts nor messages"),
        (None, "neither texts nor messages"),
        ([["q", "a"], ["q", "b"]], "neither texts nor messages"),
        ([[1]], "neither texts nor messages"),
        ([["q"]], "no answer"),
    ],
)
def test_unreadable(content: Any, says: str) -> None:
    """What is no wrapped conversation is told."""
    with pytest.raises(UnreadableError, match=says):
        reader(row("q", "a")).read(line(row(content=content)))


def test_written_back() -> None:
    """The score is wrapped as it was; only it and `ruler` change."""
    for record in [*sample("nemo_rl"), *sample("nemo_rl_validation")]:
        done = marked(record)
        assert without(done, ("rewards",), ("ruler",)) == without(record, ("rewards",))
        assert (done["rewards"], done["ruler"]["independent_reward"]) == ([0.5], record["rewards"])
        assert marked(record, None)["rewards"] == [None]


def test_sample() -> None:
    """The samples are two groups each."""
    for name in ("nemo_rl", "nemo_rl_validation"):
        assert len({r.key for r in read(*sample(name))}) == 2
