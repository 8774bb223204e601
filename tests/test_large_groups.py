"""Groups that no judge reads at once, before a judge that says so and counts tokens in its own way."""

from __future__ import annotations

import json
from collections import Counter

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.config import AskSettings, InputSettings, ScoreSettings
from ruler_cli.judging.group_run import JudgeRunner
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.types import CallError, GroupResult, Reply, Request, Usage
from tests.scoring.replies import StubJudge
from tests.values import group, talk

PLAIN, DENSE = "plain text ", "稠密的文字"


class Strict:
    """A judge of `context` tokens: one for four bytes of plain text, and for one of the dense."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.answered: list[Request] = []
        self.refused = 0

    def tokens(self, request: Request) -> int:
        """As it counts."""
        text = request.system + request.user
        dense = text.count(DENSE) * len(DENSE.encode())
        return dense + (len(text.encode()) - dense) // 4

    async def call(self, request: Request, *, again: bool = False) -> Reply | CallError:
        """Score all alike, or refuse with the numbers."""
        tokens = self.tokens(request)
        if tokens > self.context:
            self.refused += 1
            return CallError("too_long", "HTTP 400", "group", sent=True, context=(self.context, tokens))
        self.answered.append(request)
        output = [{"trajectory_id": label, "explanation": "", "score": 0.5} for label in request.labels]
        return Reply(json.dumps({"scores": output}), Usage(tokens, 10, 0, 1))


def judged(judge: Strict, texts: list[str], known: int | None = None) -> GroupResult:
    """What becomes of a group of these answers."""
    runner = JudgeRunner(ScoreSettings(InputSettings("-"), "-"), [StubJudge(judge.call, known)])
    return anyio.run(runner.start(group(*map(talk, texts))).judge)


@settings(max_examples=10)
@given(
    st.lists(st.booleans(), min_size=16, max_size=60),
    st.sampled_from([None, 20_000, 40_000]),
)
def test_dense_text(dense: list[bool], known: int | None) -> None:
    """However unevenly text takes tokens, each rollout is scored in two passes, and whole."""
    judge = Strict(20_000)
    texts = [f"{n} {DENSE * 130 if each else PLAIN * 180}" for n, each in enumerate(dense)]
    outcome = judged(judge, texts, known)
    assert outcome.failed_calls == ()
    assert outcome.shortened == 0
    seen = Counter(
        (body, pass_scores.pass_index) for pass_scores in outcome.pass_scores for body in pass_scores.distinct
    )
    passes = {turn for _, turn in seen}
    assert seen == Counter((body, turn) for body in range(len(texts)) for turn in passes)
    assert len(passes) == 2 or len(judge.answered) == 1
    windows = [(pass_scores.pass_index, pass_scores.window) for pass_scores in outcome.pass_scores]
    assert len(set(windows)) == len(windows)


def test_context_is_kept() -> None:
    """What one request tells of the judge's context holds for all that follow."""
    judge = Strict(20_000)
    judged(judge, [f"{PLAIN * 500} {n}" for n in range(40)])
    assert judge.refused == 1
    assert len(judge.answered) > 4


def test_one_that_never_fits() -> None:
    """A final answer that fits no request beside another fails the group, with the judge's numbers."""
    judge = Strict(8_000)
    texts = [f"0 {DENSE * 600}", *(PLAIN * 100 + str(n) for n in range(12))]
    misses = judged(judge, texts, 10_000).failed_calls
    assert {miss.error.kind for miss in misses} == {"too_long"}
    assert judge.refused < 10


def test_order_does_not_matter() -> None:
    """However the group is sorted, the same questions are asked, also in halves."""
    texts = [f"{DENSE * 130 if n % 3 else PLAIN * 180}{n}" for n in range(40)]
    asked = []
    for some in (texts, texts[::-1]):
        judge = Strict(20_000)
        judged(judge, some, 20_000)
        asked.append(sorted(request.user for request in judge.answered))
        assert judge.refused
        assert build_layout(group(*map(talk, some)), AskSettings()).shortening == 0
    assert asked[0] == asked[1]
