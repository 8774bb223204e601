"""One request's conversation with its judge, as a generator: it yields requests and is sent replies.

It decides everything and waits for nothing, so it can be driven by the pool, by a test, or by a
file of kept replies.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from ruler_cli.config import AskSettings
from ruler_cli.prompting import templates
from ruler_cli.prompting.layout import PromptLayout
from ruler_cli.prompting.prompt import ExchangeState, Prompt, RequestPart, write_prompt
from ruler_cli.scoring.parse_reply import DefectError, ParsedReply, parse, parse_complete
from ruler_cli.types import CallError, GroupError, PassScores, Reply, Request

CORRECTIONS = 3
"""Times that a defect is named and the group asked again: one reply in twenty is lost at some judges, and
four in a row are then one group in 160,000."""
_BRIEF, _BRIEF_PER_ROLLOUT = 32, 48
"""Tokens that an answer needs at least, and each rollout in it: an explanation of ten words."""
_SAFETY = 0.95
"""Share of the judge's stated context that a prompt may fill: tokens for its length are those of the request
that was too long, and a part of it may take more. Of a window that still does the halves are asked."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """The server named a context of `limit` tokens, which the request's `actual` ones do not fit.

    `target` is what `AskSettings.context_tokens` must be for a sheet that fits it; where the group was
    laid out anew already, `failure` is what became of it. `state` lets the conversation go on.
    """

    limit: int
    actual: int
    target: int
    failure: GroupError
    state: ExchangeState


Conversation = Generator[Request, Reply | CallError, PassScores | GroupError | Overflow]


def exchange(
    sheet: PromptLayout, ask: AskSettings, part: RequestPart, state: ExchangeState | None = None
) -> Conversation:
    """Ask about a part: a first request, a few corrections, one for what is still missing.

    `state` is that of a conversation which ended in an Overflow, so that what it learnt stays known.
    The ballot's judge is 0.
    """
    state = state or ExchangeState()
    given: dict[str, tuple[float, str]] = {}
    while True:
        paper = write_prompt(sheet, ask, part, state, given)
        answer = yield paper.request
        if isinstance(answer, CallError):
            if _fits(answer, paper, state):
                continue
            return _ended(answer, sheet, part, state)
        try:
            reading = _understand(answer, paper, again=bool(given))
        except DefectError as defect:
            failure = _second_chance(answer, str(defect), state)
        else:
            return _ballot(part, paper, {**given, **reading.entries}, reading)
        if failure:
            return _crowded(failure, sheet, part, state) if len(state.cuts) > 2 else failure
        cut_twice = answer.truncated and len(state.cuts) == 2
        given = parse_complete(answer.text, paper.request.labels) if cut_twice else {}
        state.attempt += not given


def _fits(fault: CallError, paper: Prompt, state: ExchangeState) -> bool:
    """Whether the prompt fits the judge's context and the answer's room did not: the rest is its room now.

    A corrective request is longer than the one that fitted, and may be refused once more.
    """
    if fault.context is None:
        return False
    limit, actual = fault.context
    left = limit - actual
    if state.fitted and state.max_output_tokens is not None and left >= state.max_output_tokens:
        return False
    state.fitted = left >= _least(len(paper.request.labels))
    if state.fitted:
        state.max_output_tokens = left
    return state.fitted


def _least(rollouts: int) -> int:
    """Tokens without which no answer about so many rollouts is whole."""
    return _BRIEF + _BRIEF_PER_ROLLOUT * rollouts


def _understand(answer: Reply, paper: Prompt, *, again: bool) -> ParsedReply:
    if answer.refusal is not None:
        raise DefectError(answer.refusal)
    if answer.truncated and not answer.text.rstrip().endswith(("}", "]", "```")):
        raise DefectError("the answer was cut off")  # a verdict before its end may be a draft
    reading = parse(answer.text, paper.request.labels)
    if again and reading.rescaled:
        raise DefectError("the scores stood on another scale than those given before")
    return reading


def _second_chance(answer: Reply, reason: str, state: ExchangeState) -> GroupError | None:
    """Note what the next request must say; a GroupError where this chance was already given."""
    if answer.refusal is not None:
        if state.refused:
            return GroupError("refused", f"the judge refused twice: {reason}")
        state.refused = True
    elif answer.truncated:
        state.cuts += ((answer.usage.prompt, answer.usage.completion),)
        if len(state.cuts) > 2:
            told = "the judge's answer was cut off three times; -p max_tokens=N bounds it otherwise"
            return GroupError("reply", told)
        state.max_output_tokens, state.fitted = 2 * answer.usage.completion or None, False
        state.note = templates.shorter()
    else:
        if state.corrected == CORRECTIONS:
            times = f"{CORRECTIONS + 1} times"
            return GroupError("reply", f"the judge's answer could not be used {times}: {reason}")
        state.corrected += 1
        state.note = templates.corrected(reason)
    return None


def _ended(
    fault: CallError, sheet: PromptLayout, part: RequestPart, state: ExchangeState
) -> GroupError | Overflow:
    failure = GroupError(fault.kind, fault.reason)
    if fault.context is None:
        return failure
    limit, actual = fault.context
    most = min(limit * _SAFETY, max(limit - _least(len(part.distinct)), limit / 2))
    tokens = sheet.tokens_of(part.distinct)
    # vLLM counts no further than it must: of a prompt that is one too long nobody knows the length
    target = int(min(most, tokens / 2) if actual == limit + 1 else tokens * most / max(actual, 1))
    return Overflow(limit, actual, target, failure, state)


def _crowded(
    failure: GroupError, sheet: PromptLayout, part: RequestPart, state: ExchangeState
) -> GroupError | Overflow:
    """The failure, unless a context that took the prompt had no room left for the answer.

    Prompt and answer then end at the same token each time; a bound of the user's cuts at the same length.
    """
    (_, first), (before, second), (prompt, answer) = state.cuts
    limit = prompt + answer
    if not prompt or first == second == answer or answer >= 2 * second or abs(before + second - limit) > 2:
        return failure
    most = max(limit - 3 * _least(len(part.distinct)), limit / 2)
    target = int(sheet.tokens_of(part.distinct) * min(most / prompt, 0.75))
    again = ExchangeState(state.attempt + 1, templates.shorter())
    return Overflow(limit, limit + answer, target, failure, again)


def _ballot(
    part: RequestPart, paper: Prompt, entries: dict[str, tuple[float, str]], reading: ParsedReply
) -> PassScores:
    said = [entries[label] for label in paper.labels]
    return PassScores(
        judge=0,
        pass_index=part.pass_index,
        window=part.window,
        distinct=tuple(paper.labels.values()),
        scores=tuple(score for score, _ in said),
        explanations=tuple(text for _, text in said),
        rescaled=reading.rescaled,
        unknown=reading.unknown,
    )
