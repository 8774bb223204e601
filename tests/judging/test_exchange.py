"""The exchange about one part with its judge, driven by hand."""

from __future__ import annotations

from ruler_cli.judging.exchange import Overflow, exchange
from ruler_cli.prompting.prompt import (
    ExchangeState,
    PromptLayout,
    RequestPart,
    build_layout,
    requests_of_pass,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import GroupError, PassScores, Request
from tests.scoring.replies import (
    Answer,
    bad,
    call_error,
    good,
    long_group,
)


def asked(
    *answers: Answer,
    layout: PromptLayout,
    part: RequestPart,
    ask: AskSettings | None = None,
    state: ExchangeState | None = None,
) -> tuple[list[Request], PassScores | GroupError | Overflow]:
    """Drive the exchange about one part; the last answer repeats."""
    calls = exchange(layout, ask or AskSettings(), part, state)
    requests: list[Request] = []
    try:
        request = next(calls)
        while True:
            requests.append(request)
            assert len(requests) < 10
            request = calls.send(
                answers[min(len(requests), len(answers)) - 1](request)
            )
    except StopIteration as end:
        return requests, end.value


def test_answer_that_does_not_fit() -> None:
    """If a prompt fits but its answer does not, the next request limits the answer to the rest."""
    layout = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(layout, AskSettings(), 0)
    beside = call_error(kind="too_long", context=(2000, 1500))
    requests, pass_scores = asked(beside, good, layout=layout, part=part)
    assert isinstance(pass_scores, PassScores)
    assert [
        (request.max_output_tokens, request.fitted) for request in requests
    ] == [
        (None, False),
        (500, True),
    ]
    assert requests[0].user == requests[1].user
    requests, end = asked(beside, beside, layout=layout, part=part)
    assert isinstance(end, Overflow)
    longer = call_error(
        kind="too_long", context=(2000, 1540)
    )  # a corrective request says more
    requests, pass_scores = asked(
        beside, bad, longer, good, layout=layout, part=part
    )
    assert isinstance(pass_scores, PassScores)
    assert [request.max_output_tokens for request in requests] == [
        None,
        500,
        500,
        460,
    ]
    requests, end = asked(
        call_error(kind="too_long", context=(2000, 1990)),
        layout=layout,
        part=part,
    )
    assert isinstance(end, Overflow)
    assert end.target < layout.tokens * 2000 / 1990
