"""Groups that no judge reads at once, with a judge that reports its context and counts its own tokens."""

from __future__ import annotations

import json
from collections import Counter

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.settings.models import InputSettings, ScoreSettings
from ruler_cli.types import CallError, GroupResult, Reply, Request, Usage
from tests.scoring.replies import StubJudge
from tests.values import group, talk

PLAIN, DENSE = "plain text ", "稠密的文字"


class Strict:
    """A judge of `context` tokens: one for four bytes of plain text, and for one byte of dense text."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.answered: list[Request] = []
        self.refused = 0

    def tokens(self, request: Request) -> int:
        """The tokens of a text by its own count."""
        text = request.system + request.user
        dense = text.count(DENSE) * len(DENSE.encode())
        return dense + (len(text.encode()) - dense) // 4

    async def call(
        self, request: Request, *, again: bool = False
    ) -> Reply | CallError:
        """Give all the same score, or refuse with the numbers."""
        tokens = self.tokens(request)
        if tokens > self.context:
            self.refused += 1
            return CallError(
                "too_long",
                "HTTP 400",
                "group",
                sent=True,
                context=(self.context, tokens),
            )
        self.answered.append(request)
        output = [
            {"trajectory_id": label, "explanation": "", "score": 0.5}
            for label in request.labels
        ]
        return Reply(json.dumps({"scores": output}), Usage(tokens, 10, 0, 1))


def result_of(
    judge: Strict, texts: list[str], known: int | None = None
) -> GroupResult:
    """The result of a group of these answers."""
    runner = JudgeRunner(
        ScoreSettings(InputSettings("-"), "-"), [StubJudge(judge.call, known)]
    )
    return anyio.run(GroupRun(runner, group(*map(talk, texts))).judge)


@settings(max_examples=10)
@given(
    st.lists(st.booleans(), min_size=16, max_size=60),
    st.sampled_from([None, 20_000, 40_000]),
)
def test_dense_text(dense: list[bool], known: int | None) -> None:
    """For any token density of the texts, each rollout is scored whole in two passes."""
    judge = Strict(20_000)
    texts = [
        f"{n} {DENSE * 130 if each else PLAIN * 180}"
        for n, each in enumerate(dense)
    ]
    result = result_of(judge, texts, known)
    assert result.failed_calls == ()
    assert result.shortened == 0
    seen = Counter(
        (rollout, pass_scores.pass_index)
        for pass_scores in result.pass_scores
        for rollout in pass_scores.distinct
    )
    passes = {pass_index for _, pass_index in seen}
    assert seen == Counter(
        (rollout, pass_index)
        for rollout in range(len(texts))
        for pass_index in passes
    )
    assert len(passes) == 2 or len(judge.answered) == 1
    windows = [
        (scores.pass_index, scores.window) for scores in result.pass_scores
    ]
    assert len(set(windows)) == len(windows)


def test_context_is_remembered() -> None:
    """The context that one refusal names holds for all later requests."""
    judge = Strict(20_000)
    result_of(judge, [f"{PLAIN * 500} {n}" for n in range(40)])
    assert judge.refused == 1
    assert len(judge.answered) > 4


def test_one_that_never_fits() -> None:
    """A final answer that fits no request beside another fails the group, with the judge's numbers."""
    judge = Strict(8_000)
    texts = [f"0 {DENSE * 600}", *(PLAIN * 100 + str(n) for n in range(12))]
    failed_calls = result_of(judge, texts, 10_000).failed_calls
    assert {call.error.kind for call in failed_calls} == {"too_long"}
    assert judge.refused < 10
