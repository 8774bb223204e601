"""One pass of one judge over a group, driven through stub calls."""

from __future__ import annotations

import json
from typing import get_args

import anyio

from ruler_cli.judging.exchange import CORRECTIONS
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.combine import combine
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
    Kind,
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


def run_group(
    *answers: Answer, made: Group = GROUP, ask: AskSettings | None = None
) -> tuple[list[Request], GroupScores | GroupError, Usage]:
    """Score a group with these answers; the last one repeats."""
    requests: list[Request] = []

    async def call(
        request: Request, *, again: bool = False
    ) -> Reply | CallError:
        requests.append(request)
        assert len(requests) < 10
        return answers[min(len(requests), len(answers)) - 1](request)

    settings = ScoreSettings(InputSettings("-"), "-", ask=ask or AskSettings())
    result = anyio.run(
        GroupRun(JudgeRunner(settings, [StubJudge(call)]), made).judge
    )
    return (
        requests,
        combine(result, CombineSettings(), BatchStatistics()),
        result.usage,
    )


def scored(scores: GroupScores | GroupError) -> list[float | None]:
    """Return the scores of a scored group."""
    assert isinstance(scores, GroupScores), scores
    return list(scores.scores)


def ending(words: str) -> Answer:
    """Answer in full, with these words behind it, and say that it is cut off."""

    def answer(request: Request) -> Reply:
        text = json.dumps({"scores": entries(request)})
        return reply(text + words, truncated=True)

    return answer


ANSWERED: dict[str, list[Answer]] = {
    "at once": [good],
    "with a defect": [bad, good],
    "refused": [refusal, good],
    "cut off": [cut(2), good],
    "cut off twice": [cut(1), cut(2), good],
    "a draft": [ending(" But wait, on reflection"), good],
    "cut off at its end": [ending("")],
}


def test_answered() -> None:
    """A reply that cannot be used is asked for again, in new labels and another order; no old label counts."""
    asked = {}
    for name, answers in ANSWERED.items():
        requests, scores, usage = run_group(*answers)
        assert scored(scores) == [0.1, 0.5, 0.9], name
        assert usage == Usage(
            100 * len(answers), 10 * len(answers), 0, len(answers)
        )
        labels = {label for request in requests for label in request.labels}
        assert len(labels) == 3 * len(requests), name
        asked[name] = requests
    first, second = asked["with a defect"]
    assert "1 of 3 ids had no score" in second.user
    assert "could not be used" not in first.user
    first, second = asked["cut off"]
    assert (first.max_output_tokens, second.max_output_tokens) == (None, 20)
    assert "cut off" in second.user


def test_failed() -> None:
    """A group without a usable answer is an error of its kind, with the usage before it."""
    for kind in get_args(Kind):
        _, error, usage = run_group(bad, call_error(kind=kind))
        assert error == GroupError(kind, "it broke")
        assert usage == Usage(100, 10, 0, 1)
    rows = (
        (bad, "reply", CORRECTIONS + 1, "1 of 3 ids had no score"),
        (refusal, "refused", 2, "refused twice: I will not"),
        (cut(0), "reply", 3, "cut off three times"),
    )
    for answer, kind, number, reason in rows:
        requests, error, usage = run_group(answer)
        assert isinstance(error, GroupError)
        assert (error.kind, usage.calls) == (kind, number)
        assert len({request.labels for request in requests}) == number
        assert reason in error.reason


def test_context() -> None:
    """If the judge names its context, the request is shortened to it, once; if nothing fits the numbers are told."""
    too_long = call_error(kind="too_long", context=(2000, 10_000))
    (first, second), scores, _ = run_group(too_long, good, made=long_group())
    assert scored(scores) == [0.1, 0.5, 0.9]
    assert second.size < first.size / 4
    assert "left out by ruler" in second.user
    requests, error, _ = run_group(too_long, made=long_group())
    assert isinstance(error, GroupError)
    assert (len(requests), error.kind) == (2, "too_long")
    small = call_error(kind="too_long", context=(100, 10_000))
    _, error, _ = run_group(small, made=long_group())
    assert isinstance(error, GroupError)
    assert "about 10000 tokens, more than the 100" in error.reason
    requests, error, _ = run_group(good, ask=AskSettings(context_tokens=10))
    assert isinstance(error, GroupError)
    assert (requests, error.kind) == ([], "too_long")


def test_shared_scores() -> None:
    """Identical rollouts share a score, an unreadable one has none, and the others have their own."""
    made = group(
        talk("a"), Rollout([], error="is not an object"), talk("b"), talk("a")
    )
    (request,), scores, _ = run_group(good, made=made)
    assert len(request.labels) == 2
    assert scored(scores) == [0.1, None, 0.5, 0.1]
    assert isinstance(scores, GroupScores)
    assert (scores.rollouts[1].explanation, scores.tied) == (
        "is not an object",
        False,
    )


def test_reward_and_outcome_of_parts() -> None:
    """A reward is a number or None, an outcome a bool or None; of parts the last with a value counts."""
    made = group(
        Rollout(talk("a"), member="m", reward="0.5", outcome=False),
        Rollout(talk("b"), reward=[1, 2], outcome="passed"),
        Rollout(talk("c"), member="m", reward=1, outcome=True),
        Rollout(talk("d"), member="m", reward=float("nan")),
        Rollout([], error="is not an object", member="other"),
    )

    async def call(
        request: Request, *, again: bool = False
    ) -> Reply | CallError:
        return CallError("transport", "it broke", "call")

    outcomes = {}
    for check in ("outcome", "reward", None):
        where = InputSettings(
            "-", outcome="outcome" if check == "outcome" else None
        )
        settings = ScoreSettings(
            where,
            "-",
            combine=CombineSettings(order_by_outcome=check == "reward"),
        )
        result = anyio.run(
            GroupRun(JudgeRunner(settings, [StubJudge(call)]), made).judge
        )
        assert result.rewards == (1.0, 3.0, 1.0, 1.0, None)
        outcomes[check] = result.outcomes
    assert outcomes == {
        "outcome": (True, True, True, True, None),
        "reward": (True, True, True, True, None),
        None: (None,) * 5,
    }
