"""The exchange with a judge about one request: the first request, corrections, one for scores still missing.

A generator: it yields requests and is sent replies. It decides everything and waits for nothing, so the
pool, a test or a file of replies can drive it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass

from ruler_cli.prompting import templates
from ruler_cli.prompting.prompt import (
    LETTERS,
    ExchangeState,
    PromptLayout,
    RequestPart,
    write_prompt,
)
from ruler_cli.scoring.parse_reply import (
    DefectError,
    ParsedReply,
    parse,
    parse_complete,
)
from ruler_cli.scoring.probability import yes_share
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import CallError, GroupError, PassScores, Reply, Request

CORRECTIONS = 3
"""Corrective requests after a defect: some judges lose one reply in twenty, so four in a row are one group
in 160,000."""
_BRIEF = 32
_BRIEF_PER_ROLLOUT = 48
"""Fewest tokens of an answer, and of each rollout in it: an explanation of ten words."""
_SAFETY = 0.95
"""Share of the judge's stated context that a prompt may fill: tokens per byte are those of the request that
was too long, and a part of it may take more. A window that still does is asked in halves."""


_LETTER = "[0-9A-Za-z_À-ɏ]"
"""A character that a label next to it is part of a word with; scripts without spaces have none."""
_NAMED = re.compile(
    rf"(?<!{_LETTER})(?:(?:(?:the )?(?:trajector(?:y|ies)|rollouts?)(?:[ _]ids?)?|ids?)(?:[:=] ?|[ _]))?"
    rf"(?:[\"'`“](?P<quoted>[{LETTERS}]{{4,}})[\"'`”]|(?P<bare>[{LETTERS}]{{4,}}))(?!{_LETTER})",
    re.IGNORECASE,
)
"""A word that may be a label, with the noun before it and the quotes around it."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """A context of `limit` tokens, named by the server, that the request's `actual` tokens do not fit.

    `target` is the value of `AskSettings.context_tokens` for a layout that fits; `error` is the group's if
    it was laid out anew already. `state` lets the exchange go on.
    """

    limit: int
    actual: int
    target: int
    error: GroupError
    state: ExchangeState


Answer = PassScores | GroupError | Overflow


def exchange(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    state: ExchangeState | None = None,
) -> Generator[Request, Reply | CallError, Answer]:
    """Ask about one part of a group, as often as corrections allow.

    `state` is that of an exchange that ended in an Overflow, so that its corrections still count. The judge's
    number in the result is 0.
    """
    given: dict[str, tuple[float, str]] = {}
    while True:
        request = write_prompt(layout, ask, part, state, given)
        reply = yield request
        defect = ""
        if isinstance(reply, Reply):
            try:
                reading = _read(reply, request, again=bool(given))
            except DefectError as problem:
                defect = str(problem)
            else:
                return _pass_scores(
                    layout, part, request, {**given, **reading.entries}, reading
                )
        state = state or ExchangeState()  # most requests need none
        if isinstance(reply, CallError):
            if reply.context is None:
                return GroupError(reply.kind, reply.reason)
            if not _fits_with_less(*reply.context, request, state):
                return _overflow(*reply.context, reply, layout, part, state)
            continue
        error = _correct(reply, defect, state)
        if error:
            crowded = len(state.cuts) > 2
            return _crowded(error, layout, part, state) if crowded else error
        cut_twice = reply.truncated and len(state.cuts) == 2
        given = parse_complete(reply.text, request.labels) if cut_twice else {}
        state.attempt += not given


def ask_each(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    state: ExchangeState | None = None,
) -> Generator[Request, Reply | CallError, Answer]:
    """Ask the question about one rollout; a corrective request would only say what the first one did."""
    reply = yield write_prompt(layout, ask, part)
    if isinstance(reply, CallError):
        if reply.context is not None:
            return _overflow(
                *reply.context, reply, layout, part, state or ExchangeState()
            )
        return GroupError(reply.kind, reply.reason)
    if reply.refusal is not None:
        return GroupError("refused", f"the judge refused: {reply.refusal}")
    try:
        share = yes_share(reply.likely)
    except DefectError as problem:
        return GroupError("reply", f"the judge's answer could not be used: {problem}")
    explanation = f"Asked alone: Yes with a probability of {share.score:.3f}."
    return PassScores(
        judge=0,
        pass_index=0,
        window=part.window,
        distinct=part.distinct,
        scores=(share.score,),
        explanations=(explanation,),
        each=True,
        error=share.error,
    )


def _fits_with_less(
    limit: int, actual: int, request: Request, state: ExchangeState
) -> bool:
    """Tell if the prompt alone fits the judge's context; the answer then gets the rest of it.

    A corrective request is longer than the one that fitted, and may be refused once more.
    """
    left = limit - actual
    asked = state.max_output_tokens
    if state.fitted and asked is not None and left >= asked:
        return False
    state.fitted = left >= _least(len(request.labels))
    if state.fitted:
        state.max_output_tokens = left
    return state.fitted


def _least(rollouts: int) -> int:
    """Fewest tokens of a whole answer about so many rollouts."""
    return _BRIEF + _BRIEF_PER_ROLLOUT * rollouts


def _read(reply: Reply, request: Request, *, again: bool) -> ParsedReply:
    if reply.refusal is not None:
        raise DefectError(reply.refusal)
    if reply.truncated and not reply.text.rstrip().endswith(("}", "]", "```")):
        # scores before its end may be a draft
        raise DefectError("the answer was cut off")
    reading = parse(reply.text, request.labels)
    if again and reading.rescaled:
        raise DefectError("the scores stood on another scale than those given before")
    return reading


def _correct(reply: Reply, reason: str, state: ExchangeState) -> GroupError | None:
    """Note what the next request must say; return an error if this correction was made already."""
    if reply.refusal is not None:
        if state.refused:
            return GroupError("refused", f"the judge refused twice: {reason}")
        state.refused = True
    elif reply.truncated:
        state.cuts += ((reply.usage.prompt, reply.usage.completion),)
        if len(state.cuts) > 2:
            bound = "the parameter max_tokens bounds it otherwise"
            return GroupError(
                "reply", f"the judge's answer was cut off three times; {bound}"
            )
        state.max_output_tokens = 2 * reply.usage.completion or None
        state.fitted = False
        state.note = templates.SHORTER
    else:
        if state.corrected == CORRECTIONS:
            times = f"{CORRECTIONS + 1} times"
            return GroupError(
                "reply", f"the judge's answer could not be used {times}: {reason}"
            )
        state.corrected += 1
        state.note = templates.corrected(reason)
    return None


def _overflow(
    limit: int,
    actual: int,
    error: CallError,
    layout: PromptLayout,
    part: RequestPart,
    state: ExchangeState,
) -> Overflow:
    """The result if the prompt fills more than the context that the server named."""
    most = min(limit * _SAFETY, max(limit - _least(len(part.distinct)), limit / 2))
    tokens = layout.tokens_of(part.distinct)
    # vLLM counts no further than it must: the length of a prompt that is one token too long is not known
    at_least = min(most, tokens / 2)
    target = at_least if actual == limit + 1 else tokens * most / max(actual, 1)
    group_error = GroupError(error.kind, error.reason)
    return Overflow(limit, actual, int(target), group_error, state)


def _crowded(
    error: GroupError, layout: PromptLayout, part: RequestPart, state: ExchangeState
) -> GroupError | Overflow:
    """The error, unless the context took the prompt and left too few tokens for the answer.

    Prompt and answer then end at the same token each time; a limit of the user's cuts at the same length.
    """
    (_, first), (before, second), (prompt, answer) = state.cuts
    limit = prompt + answer
    by_user = not prompt or first == second == answer or answer >= 2 * second
    if by_user or abs(before + second - limit) > 2:
        return error
    most = max(limit - 3 * _least(len(part.distinct)), limit / 2)
    target = int(layout.tokens_of(part.distinct) * min(most / prompt, 0.75))
    again = ExchangeState(state.attempt + 1, templates.SHORTER)
    return Overflow(limit, limit + answer, target, error, again)


def _pass_scores(
    layout: PromptLayout,
    part: RequestPart,
    request: Request,
    entries: dict[str, tuple[float, str]],
    reading: ParsedReply,
) -> PassScores:
    each = [entries[label] for label in request.shown]
    return PassScores(
        judge=0,
        pass_index=part.pass_index,
        window=part.window,
        distinct=tuple(request.shown.values()),
        scores=tuple([score for score, _ in each]),
        explanations=_with_places([text for _, text in each], layout, request),
        rescaled=reading.rescaled,
        unknown=reading.unknown,
    )


def _with_places(
    texts: list[str], layout: PromptLayout, request: Request
) -> tuple[str, ...]:
    """Explanations that call a rollout by its place in the group, and not by its label in the request."""
    whole = "\n".join(texts).lower()
    shown = request.shown.items()
    places = {label: layout.places[at] for label, at in shown if label in whole}

    def placed(match: re.Match[str]) -> str:
        place = places.get((match["quoted"] or match["bare"]).lower())
        # HTTP is a word, and no text of the request need hold http
        if place is None or match[0].isupper():
            return match[0]
        return f"{'Rollout' if match[0][:2].istitle() else 'rollout'} {place}"

    return tuple([_NAMED.sub(placed, text) for text in texts] if places else texts)
