"""The exchange about one part with its judge, driven by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b

import pytest

from ruler_cli.judging.exchange import Overflow, exchange
from ruler_cli.ledger.reply_cache import key_of
from ruler_cli.prompting.prompt import (
    ExchangeState,
    PromptLayout,
    RequestPart,
    build_layout,
    requests_of_pass,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import GroupError, PassScores, Reply, Request
from tests.scoring.replies import (
    Answer,
    bad,
    call_error,
    cut,
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


def test_cut_off() -> None:
    """An answer that is cut off is asked for with twice the tokens, and is given up after three times."""
    layout = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(layout, AskSettings(), 0)
    requests, end = asked(cut(0), cut(0), cut(0), layout=layout, part=part)
    assert isinstance(end, GroupError)
    assert "cut off three times" in end.reason
    limits = [request.max_output_tokens for request in requests]
    assert limits == [None, 2 * 10, 2 * 10]
    assert len({request.labels for request in requests}) == 3


def scores(request: Request, *values: object) -> str:
    """Write an answer with these scores, the last one for all other ids."""
    row = [*values, *values[-1:] * len(request.labels)]
    entries = [
        {"trajectory_id": label, "explanation": "", "score": value}
        for label, value in zip(request.labels, row, strict=False)
    ]
    return json.dumps({"scores": entries})


def twice(request: Request, value: object, second: object) -> str:
    """Write an answer in which the first id has two scores."""
    answer = json.loads(scores(request, value))
    answer["scores"].append({**answer["scores"][0], "score": second})
    return json.dumps(answer)


REPLIES: dict[str, tuple[Callable[[Request], str], str]] = {
    # the text of every reply, and a digest of the keys of the requests that follow one another
    "empty": (lambda request: "", "42f9e85de1359fd4"),
    "no object": (lambda request: "They are equally good.", "a1167a0795759666"),
    "no list": (lambda request: '{"scores": 1}', "37241a2629731857"),
    "no entry": (lambda request: '{"scores": [0.5]}', "ac0aaa46fa7a5868"),
    "missing": (lambda request: '{"scores": []}', "ad961b064307f61c"),
    "no number": (lambda request: scores(request, "good"), "fa1c5f5422adb618"),
    "null": (lambda request: scores(request, None), "df54c98c58c6bc77"),
    "negative": (lambda request: scores(request, -0.5), "fdc437f4fa921270"),
    "out of range": (lambda request: scores(request, 12), "bb9b186bfe6627fa"),
    "just above": (lambda request: scores(request, 1.5), "f574fcbb13fb4ed5"),
    "mixed": (lambda request: scores(request, 0.5, 8), "6a5d0942e0accde5"),
    "twice": (lambda request: twice(request, 0.5, 0), "8f07277c8439e856"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_corrections_of_old_ledgers(name: str) -> None:
    """The requests that follow a reply which cannot be used have fixed keys, so that ledgers keep their answers."""
    text, digest = REPLIES[name]
    layout = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(layout, AskSettings(), 0)
    requests, end = asked(
        lambda request: Reply(text(request)), layout=layout, part=part
    )
    assert isinstance(end, GroupError)
    keys = [key_of("m", {}, request).hex() for request in requests]
    assert len(set(keys)) == 4
    assert blake2b(" ".join(keys).encode(), digest_size=8).hexdigest() == digest


def test_cuts_and_refusals_of_old_ledgers() -> None:
    """The requests after a cut-off reply, or a refusal, have the keys that they had in every version."""
    layout = build_layout(long_group(), AskSettings())
    (part,) = requests_of_pass(layout, AskSettings(), 0)

    keys = []
    for answers in (
        (cut(1), good),
        (lambda _: Reply("", refusal="no"), good),
    ):
        requests, end = asked(*answers, layout=layout, part=part)
        assert isinstance(end, PassScores)
        keys += [key_of("m", {}, request).hex() for request in requests]
    assert len(set(keys)) == 3  # both begin with the same request
    assert (
        blake2b(" ".join(keys).encode(), digest_size=8).hexdigest()
        == "4bcfef3915b8d4dc"
    )
