"""lm-eval's logged samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ruler_cli.types import CallError, Reply, Request
from tests.runs import BROKEN, Stage, Stub, answer

QUESTION = "What is 2+2?"


def one(**more: Any) -> dict[str, Any]:
    """A document with one answer."""
    return {
        "doc_id": 0,
        "arguments": {"gen_args_0": {"arg_0": QUESTION}},
        "resps": [["4"]],
        **more,
    }


def lines(*filters: str, apart: bool) -> list[dict[str, Any]]:
    """Return two documents with two answers, a line for each filter; `apart` sorts them by filter."""
    answers = {0: ["three", "four"], 1: ["red", "blue"]}
    made = [
        one(
            doc_id=i,
            arguments={"gen_args_0": {"arg_0": f"{i}: {QUESTION}"}},
            resps=[answers[i]],
            filter=name,
        )
        for i in answers
        for name in filters
    ]
    return sorted(made, key=lambda r: str(r["filter"])) if apart else made


def by_length(request: Request) -> Reply | CallError:
    """Score each answer by its length, and fail the group that contains `red`."""
    return (
        BROKEN
        if "red" in request.user
        else answer(request, lambda body: len(body) / 100)
    )


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("how", ["null", "keep", "drop"])
def test_two_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: bool, how: Any
) -> None:
    """The judge scores a document once, and each of its lines gets the scores."""
    judge = Stub(say=by_length)
    documents = lines("strict", "flexible", apart=apart)
    stage = Stage(tmp_path, monkeypatch, documents, judge)
    done = stage.run(on_failure=how)
    assert (
        len(judge.asked),
        [len(request.labels) for request in judge.asked],
    ) == (
        2,
        [2, 2],
    )
    assert (done.summary.scored, dict(done.summary.failed)) == (
        1,
        {"transport": 1},
    )
    out = stage.records()
    left = [
        record for record in documents if how != "drop" or record["doc_id"] == 0
    ]
    assert [
        {k: v for k, v in record.items() if k != "ruler"} for record in out
    ] == left
    scores = [
        [annotation.get("score") for annotation in record["ruler"]["rollouts"]]
        for record in out
    ]
    assert {
        str(s) for s, r in zip(scores, left, strict=True) if r["doc_id"] == 0
    } == {str(scores[0])}
    assert len(set(scores[0])) == 2
    assert all(
        s == [None, None]
        for s, r in zip(scores, left, strict=True)
        if r["doc_id"] == 1
    )
    assert [record["ruler"]["status"] for record in out] == [
        "failed" if record["doc_id"] else "scored" for record in left
    ]


def test_scored_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scored file is read like its dump, and gets the same scores."""
    stage = Stage(
        tmp_path, monkeypatch, lines("strict", "flexible", apart=True), Stub()
    )
    stage.run()
    before = stage.masked()
    stage.run(source="out.jsonl", output="again.jsonl")
    assert stage.masked("again.jsonl") == before
