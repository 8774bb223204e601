"""One part's conversation with its judge, driven by hand."""

from __future__ import annotations

from ruler_cli.config import AskSettings
from ruler_cli.judging.exchange import Overflow, exchange
from ruler_cli.prompting.layout import PromptLayout
from ruler_cli.prompting.prompt import (
    ExchangeState,
    RequestPart,
    build_layout,
    requests_of_pass,
    write_prompt,
)
from ruler_cli.types import GroupError, PassScores, Reply, Request, Usage
from tests.scoring.replies import (
    Answer,
    bad,
    cut,
    fault,
    good,
    long_group,
)


def talked(
    *answers: Answer,
    sheet: PromptLayout,
    part: RequestPart,
    ask: AskSettings | None = None,
    state: ExchangeState | None = None,
) -> tuple[list[Request], PassScores | GroupError | Overflow]:
    """Drive the conversation of one part; the last answer is given for ever."""
    conversation = exchange(sheet, ask or AskSettings(), part, state)
    requests: list[Request] = []
    try:
        request = next(conversation)
        while True:
            requests.append(request)
            assert len(requests) < 10
            request = conversation.send(answers[min(len(requests), len(answers)) - 1](request))
    except StopIteration as end:
        return requests, end.value


def test_room_that_does_not_fit() -> None:
    """A prompt that fits a context beside too long an answer is asked again with the room that is left."""
    sheet = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(sheet, AskSettings(), 0)
    beside = fault(kind="too_long", context=(2000, 1500))
    requests, pass_scores = talked(beside, good, sheet=sheet, part=part)
    assert isinstance(pass_scores, PassScores)
    assert [(request.max_output_tokens, request.fitted) for request in requests] == [
        (None, False),
        (500, True),
    ]
    assert requests[0].user == requests[1].user
    requests, end = talked(beside, beside, sheet=sheet, part=part)
    assert isinstance(end, Overflow)
    longer = fault(kind="too_long", context=(2000, 1540))  # a corrective request says more
    requests, pass_scores = talked(beside, bad, longer, good, sheet=sheet, part=part)
    assert isinstance(pass_scores, PassScores)
    assert [request.max_output_tokens for request in requests] == [None, 500, 500, 460]
    requests, end = talked(fault(kind="too_long", context=(2000, 1990)), sheet=sheet, part=part)
    assert isinstance(end, Overflow)
    assert end.target < sheet.tokens * 2000 / 1990


def ending(*, context: int = 0, most: int = 0) -> Answer:
    """An answer that is cut off where the context ends, or at so many tokens."""

    def answer(request: Request) -> Reply:
        prompt = request.size // 4
        return Reply("{", Usage(prompt, most or context - prompt, 0, 1), truncated=True)

    return answer


def test_no_room_for_the_answer() -> None:
    """A group that leaves no room for its answer in the context is shown in parts; no other cut is one."""
    sheet = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(sheet, AskSettings(), 0)
    context = write_prompt(sheet, AskSettings()).size // 4 + 60
    requests, end = talked(ending(context=context), sheet=sheet, part=part)
    assert isinstance(end, Overflow)
    assert (len(requests), end.limit, end.error.kind) == (3, context, "reply")
    assert end.target < sheet.tokens * 0.8
    (request,), pass_scores = talked(good, sheet=sheet, part=part, state=end.state)
    assert isinstance(pass_scores, PassScores)
    assert request.max_output_tokens is None
    runaway = [ending(most=most) for most in (500, 1000, 2000)]
    for answers in ([ending(most=100)], runaway, [cut(0)]):
        _, end = talked(*answers, sheet=sheet, part=part)
        assert isinstance(end, GroupError)
        assert "cut off three times" in end.reason


def test_overflow_that_was_not_counted() -> None:
    """Of a prompt that was counted no further than the context half is asked for, and what fits it."""
    sheet = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(sheet, AskSettings(), 0)
    for limit in (sheet.tokens // 4, sheet.tokens * 2):
        _, end = talked(fault(kind="too_long", context=(limit, limit + 1)), sheet=sheet, part=part)
        assert isinstance(end, Overflow)
        assert end.target <= min(limit, sheet.tokens / 2)
