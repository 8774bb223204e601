"""lm-eval's logged samples."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, talk

ASKED = "What is 2+2?"


def one(**more: Any) -> dict[str, Any]:
    """A document with one answer."""
    return {"doc_id": 0, "arguments": {"gen_args_0": {"arg_0": ASKED}}, "resps": [["4"]], **more}


def test_reading() -> None:
    """The line is the group; of a document that comes again with another filter each line has a key."""
    groups = keyed(*sample("lm_eval"))
    assert list(groups) == ["0 strict-match", "0 flexible-extract", "1 strict-match"]
    assert said(groups["0 strict-match"]) == said(groups["0 flexible-extract"])
    assert [r.messages[0] for r in groups["1 strict-match"]] == [
        {"role": "user", "content": "How many 30 cm tiles cover a floor of 2.4 m by 1.8 m?"}
    ] * 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"gen_args_0": {"arg_0": ASKED}},
        [[ASKED, {"until": []}]],
        {"gen_args_0": {"arg_0": json.dumps(talk("x")[:1])}},
        {"gen_args_0": {"arg_0": [json.dumps(talk("x")[:1])]}},
    ],
)
def test_prompts(arguments: Any) -> None:
    """A prompt is text or a chat as JSON text, in the newer files and in the older ones."""
    assert read(one(arguments=arguments))[0].rollouts[0].messages == talk("4")


def test_bracket() -> None:
    """A prompt that begins with a bracket and is no chat is text."""
    (rollout,) = read(one(arguments=[["[1, 2] has", {}]]))[0].rollouts
    assert rollout.messages[0]["content"] == "[1, 2] has"


@pytest.mark.parametrize("resps", [[[[-3.2, False]], [[-1.0, True]]], [], None, [[]], [[None]]])
def test_no_texts(resps: Any) -> None:
    """Log-likelihoods of choices are no rollouts."""
    with pytest.raises(UnreadableError, match="log-likelihoods"):
        read(one(resps=resps))


def test_written() -> None:
    """There is no room for a score but `ruler`, which names each answer's in its order."""
    record = sample("lm_eval")[0]
    done = written(record, SCORED)
    assert changed(record, done) == {"ruler"}
    assert [m["score"] for m in done["ruler"]["rollouts"]] == [0.625] * 3
    same_twice(record)


def test_no_document() -> None:
    """A line without its document's number cannot be named."""
    with pytest.raises(UnreadableError, match="no group key"):
        read(one(), one(doc_id=None))
