"""One pass of one judge over a group, driven through stub calls."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from ruler_cli.judges.offline import blocks
from ruler_cli.judging.exchange import CORRECTIONS
from ruler_cli.judging.group_run import JudgeRunner
from ruler_cli.scoring.combine import BatchStatistics, combine
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    InputSettings,
    ScoreSettings,
)
from ruler_cli.types import (
    CallError,
    Group,
    GroupError,
    GroupScores,
    Reply,
    Request,
    Rollout,
    Usage,
)
from tests.scoring.replies import (
    GROUP,
    Answer,
    StubJudge,
    bad,
    call_error,
    cut,
    entries,
    good,
    long_group,
    refusal,
    reply,
)
from tests.values import group, talk


def run_with_usage(
    *answers: Answer, made: Group = GROUP, ask: AskSettings | None = None
) -> tuple[list[Request], GroupScores | GroupError, Usage]:
    """Score a group with these answers; the last one repeats."""
    requests: list[Request] = []

    async def call(request: Request, *, again: bool = False) -> Reply | CallError:
        requests.append(request)
        assert len(requests) < 10
        return answers[min(len(requests), len(answers)) - 1](request)

    settings = ScoreSettings(InputSettings("-"), "-", ask=ask or AskSettings())
    result = anyio.run(JudgeRunner(settings, [StubJudge(call)]).start(made).judge)
    return requests, combine(result, CombineSettings(), BatchStatistics()), result.usage


def run_group(
    *answers: Answer, made: Group = GROUP, ask: AskSettings | None = None
) -> tuple[list[Request], GroupScores | GroupError]:
    """Do the same without the usage."""
    requests, scores, _ = run_with_usage(*answers, made=made, ask=ask)
    return requests, scores


def scored(scores: GroupScores | GroupError) -> list[float | None]:
    """The scores of a scored group."""
    assert isinstance(scores, GroupScores), scores
    return list(scores.scores)


def test_correction() -> None:
    """A reply without scores is asked for once more, with its defect, a new order and new labels."""
    (first, second), scores, usage = run_with_usage(bad, good)
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert "1 of 3 ids had no score" in second.user
    assert "could not be used" not in first.user
    assert not set(first.labels) & set(second.labels)
    assert usage == Usage(200, 20, 0, 2)


def test_never_corrected() -> None:
    """A judge that never gives scores is an error that names the defect and counts the usage."""
    requests, error, usage = run_with_usage(bad)
    assert isinstance(error, GroupError)
    assert (len(requests), error.kind, usage.calls) == (
        CORRECTIONS + 1,
        "reply",
        CORRECTIONS + 1,
    )
    assert len({request.labels for request in requests}) == CORRECTIONS + 1
    assert "1 of 3 ids had no score" in error.reason


def test_refusal() -> None:
    """A refused group is asked about once more in a new order; a second refusal is its own error."""
    (first, second), scores = run_group(refusal, good)
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert first.labels != second.labels
    requests, error = run_group(refusal)
    assert isinstance(error, GroupError)
    assert (len(requests), error.kind) == (2, "refused")
    assert "refused twice: I will not" in error.reason


def test_cut_off() -> None:
    """After a cut-off answer the next may take twice the tokens and is asked to be brief, in a new order."""
    (first, second), scores = run_group(cut(2), good)
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert (first.max_output_tokens, second.max_output_tokens) == (None, 20)
    assert "cut off" in second.user
    assert not set(first.labels) & set(second.labels)


def test_cut_off_twice() -> None:
    """After a second cut-off answer its complete entries count, and only the others are asked for."""
    (_, second, third), scores, usage = run_with_usage(cut(1), cut(2), good)
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert third.labels == second.labels[2:]
    assert blocks(third.user) == blocks(second.user)
    assert all(f"{label} " in third.user for label in second.labels[:2])
    assert usage.calls == 3


@pytest.mark.parametrize("wrong", [bad, refusal, lambda r: reply("prose")])
def test_rest_without_scores(wrong: Answer) -> None:
    """If the rest is answered without scores, the whole group is asked about, and no old label counts."""
    (*_, third, fourth), scores = run_group(cut(1), cut(1), wrong, good)
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert len(fourth.labels) == 3
    assert not set(third.labels) & set(fourth.labels)


def test_draft() -> None:
    """Scores in the middle of a reply that was cut off may be a draft, and do not count."""

    def draft(request: Request) -> Reply:
        return reply(
            json.dumps({"scores": entries(request)}) + " But wait, on reflection",
            truncated=True,
        )

    requests, _ = run_group(draft, good)
    assert len(requests) == 2

    def to_the_end(request: Request) -> Reply:
        return reply(json.dumps({"scores": entries(request)}), truncated=True)

    assert len(run_group(to_the_end)[0]) == 1


@pytest.mark.parametrize(
    "kind", ["transport", "refused", "too_long", "budget", "interrupted"]
)
def test_errors(kind: Any) -> None:
    """A call without an answer is an error of its kind, with the usage before it."""
    _, error, usage = run_with_usage(bad, call_error(kind=kind))
    assert error == GroupError(kind, "it broke")
    assert usage == Usage(100, 10, 0, 1)


def test_context() -> None:
    """If the judge names its context, the request is shortened to it, once."""
    too_long = call_error(kind="too_long", context=(2000, 10_000))
    (first, second), scores = run_group(too_long, good, made=long_group())
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert second.size < first.size / 4
    assert "left out by ruler" in second.user
    requests, error = run_group(too_long, made=long_group())
    assert isinstance(error, GroupError)
    assert (len(requests), error.kind) == (2, "too_long")


def test_context_too_small() -> None:
    """A group that no shortening makes fit fails with the numbers, without a call if the context is known."""
    _, error = run_group(
        call_error(kind="too_long", context=(100, 10_000)), made=long_group()
    )
    assert isinstance(error, GroupError)
    assert error.kind == "too_long"
    assert "about 10000 tokens, more than the 100" in error.reason
    requests, error = run_group(good, ask=AskSettings(context_tokens=10))
    assert (requests, isinstance(error, GroupError) and error.kind) == ([], "too_long")


def test_shared_scores() -> None:
    """Identical rollouts share a score, an unreadable one has none, and the others have their own."""
    made = group(talk("a"), Rollout([], error="is no object"), talk("b"), talk("a"))
    (request,), scores = run_group(good, made=made)
    assert len(request.labels) == 2
    assert scored(scores) == [0.1, None, 0.5, 0.1]
    assert isinstance(scores, GroupScores)
    assert (scores.rollouts[1].explanation, scores.tied) == ("is no object", False)


def test_reward_and_outcome_of_parts() -> None:
    """A reward is a number or None, an outcome a bool or None; of parts the last with a value counts."""
    made = group(
        Rollout(talk("a"), member="m", reward="0.5", outcome=False),
        Rollout(talk("b"), reward=[1, 2], outcome="passed"),
        Rollout(talk("c"), member="m", reward=1, outcome=True),
        Rollout(talk("d"), member="m", reward=float("nan")),
        Rollout([], error="is no object", member="other"),
    )

    async def call(request: Request, *, again: bool = False) -> Reply | CallError:
        return CallError("transport", "it broke", "call")

    outcomes = {}
    for check in ("outcome", "reward", None):
        where = InputSettings("-", outcome="outcome" if check == "outcome" else None)
        settings = ScoreSettings(
            where, "-", combine=CombineSettings(order_by_outcome=check == "reward")
        )
        result = anyio.run(JudgeRunner(settings, [StubJudge(call)]).start(made).judge)
        assert result.rewards == (1.0, 3.0, 1.0, 1.0, None)
        outcomes[check] = result.outcomes
    assert outcomes == {
        "outcome": (True, True, True, True, None),
        "reward": (True, True, True, True, None),
        None: (None,) * 5,
    }
