"""The exchange with a judge about one request: the first request and its corrections.

A generator: it yields requests and is sent replies. It decides everything and waits for nothing, so the
pool, a test or a file of replies can drive it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ruler_cli.prompting import templates
from ruler_cli.prompting.prompt import (
    LETTERS,
    ExchangeState,
    PromptLayout,
    RequestPart,
    write_prompt,
)
from ruler_cli.prompting.questions import (
    Subject,
    question_requests,
    subjects_of,
)
from ruler_cli.scoring.criteria import weighted
from ruler_cli.scoring.parse_reply import (
    SCALE,
    CutOffError,
    DefectError,
    ParsedReply,
    ScaleError,
    parse,
)
from ruler_cli.scoring.probability import Share, word_share
from ruler_cli.scoring.typed_answers import typed_shares
from ruler_cli.settings.models import AskSettings
from ruler_cli.tokens import BRIEF_ANSWER
from ruler_cli.types import (
    NO_ANSWERS,
    UNANSWERED,
    CallError,
    GroupError,
    PassScores,
    Reply,
    Request,
    Rubric,
    Standards,
    name_of,
    value,
)

CORRECTIONS = 3
"""Corrective requests after a defect: some judges lose one reply in twenty, so four in a row are one group
in 160,000."""
_UNKNOWN_SCALE = (
    f"its scores were only 0 and 1, and may stand on another scale: {SCALE}"
)
_OTHER_SCALE = "the judge keeps to a scale other than 0 to 1, and its scores of only 0 and 1 may be on it"
_TIMES = 2
"""Number of times that a decision model is asked a question that it leaves out."""
_SAFETY = 0.95
"""Share of the judge's stated context that a prompt may fill: tokens per byte are those of the request that
was too long, and a part of it may take more. A window that still does is asked in halves."""


@dataclass(slots=True)
class Scale:
    """The scale of a judge in a run: `left` is 1 once a score stood outside 0 to 1, 2 if one did although the request
    named the scale. Scores of only 0 and 1 are then of unknown scale, as `PassScores.bounds` says.
    """

    left: int = 0


_LETTER = "[0-9A-Za-z_À-ɏ]"
"""A character that a label next to it is part of a word with; scripts without spaces have none."""
_NAMED = re.compile(
    rf"(?<!{_LETTER})(?:(?:(?:the )?(?:trajector(?:y|ies)|rollouts?|criteri(?:on|a))(?:[ _]ids?)?|ids?)"
    r"(?:[:=] ?|[ _]))?"
    rf"(?:[\"'`“](?P<quoted>[{LETTERS}]{{4,}})[\"'`”]|(?P<bare>[{LETTERS}]{{4,}}))(?!{_LETTER})",
    re.IGNORECASE,
)
"""A word that may be a label, with the noun before it and the quotes around it."""


@value
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
T = TypeVar("T")


Steps = Generator[Request, Reply | CallError, T]
"""Requests, of which each is sent its reply, up to a result."""


def exchange(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    state: ExchangeState | None = None,
    scale: Scale | None = None,
) -> Steps[Answer]:
    """Ask about one part of a group, as often as corrections allow.

    `state` is that of an exchange that ended in an Overflow, so that its corrections still count; `scale` is the
    judge's in this run. The judge's number in the result is 0.
    """
    scale = scale or Scale()
    unsure: PassScores | None = None
    while True:
        request = write_prompt(layout, ask, part, state)
        reply = yield replace(request, cached_only=True) if unsure else request
        if unsure and isinstance(reply, CallError):
            return unsure
        unsure = None
        defect = ""
        if isinstance(reply, Reply):
            named = state is not None and SCALE in state.note
            try:
                reading = read_reply(reply, request)
            except DefectError as problem:
                defect = str(problem)
                if isinstance(problem, ScaleError):
                    scale.left = max(scale.left, 1 + named)
                if isinstance(problem, ScaleError | CutOffError):
                    cut = isinstance(problem, CutOffError)
                    reply = replace(reply, truncated=cut)
            else:
                bounds = (1 + named) * reading.bounds
                read = _read_scores(layout, part, request, reading, bounds)
                # the run that kept it may have asked again
                if not 0 < bounds <= max(scale.left, reply.cached):
                    return read
                if named:
                    return GroupError("reply", _OTHER_SCALE)
                unsure = None if scale.left else read
                defect = _UNKNOWN_SCALE
                reply = replace(reply, truncated=False)
        state = state or ExchangeState()  # most requests need none
        if isinstance(reply, CallError):
            if not (
                reply.context
                and _fits_with_less(*reply.context, request, state)
            ):
                return _failed(reply, request, layout, part, state)
            continue
        error = _correct(reply, defect, state)
        if error:
            return unsure or error
        state.attempt += 1


def ask_questions(
    layout: PromptLayout,
    ask: AskSettings,
    part: RequestPart,
    state: ExchangeState | None = None,
) -> Steps[Answer]:
    """Ask the questions about a part of a group, and read the answers by probability.

    What a decision model leaves out, or answers with what is not a probability, is asked once more; a rollout that
    still lacks an answer has no score in this pass. A model that is read by one word would only say the same again.
    """
    shares: dict[Subject, Share] = {}
    wanted: Sequence[Subject] = subjects_of(layout, part)
    model = ""
    missing: CallError | None = None
    for attempt in range(_TIMES if ask.typed else 1):
        defect = ""
        for request, subjects in question_requests(
            layout, ask, part, wanted, attempt
        ):
            reply = yield request
            if reply is UNANSWERED:  # all that is missing is to be known
                missing = reply
                continue
            if isinstance(reply, CallError):
                return _failed(
                    reply, request, layout, part, state or ExchangeState()
                )
            if reply.refusal is not None:
                return GroupError(
                    "refused", f"the judge refused: {reply.refusal}"
                )
            model = reply.model or ask.judge_model
            try:
                read = read_shares(reply, request)
            except DefectError as problem:
                defect = str(problem)
                continue
            named = zip(subjects, read, strict=True)
            shares |= {subject: share for subject, share in named if share}
        if missing:
            return GroupError(missing.kind, missing.reason)
        wanted = [subject for subject in wanted if subject not in shares]
        if not wanted:
            break
    if defect:
        times = " twice" if ask.typed else ""
        reason = f"the judge's answer could not be used{times}: {defect}"
        return GroupError("reply", reason)
    unanswered = {subject.rollout for subject in wanted}
    if len(unanswered) == len(part.distinct) and ask.ask != "each":
        return NO_ANSWERS
    rows: dict[int, list[float]] = {}
    for subject in subjects_of(layout, part):
        if subject.rollout not in unanswered:
            row = rows.setdefault(subject.rollout, [])
            row.append(shares[subject].score)
    by = f", by {model}; decision models give no reasons." if ask.typed else "."
    return replace(
        _pass_scores(
            layout,
            part,
            rows,
            [_probabilities(row, layout.rubric) + by for row in rows.values()],
        ),
        asked_alone=ask.ask == "each",
        error=max([share.error for share in shares.values()], default=0.0),
        unanswered=tuple([at for at in part.distinct if at in unanswered]),
    )


def read_shares(
    reply: Reply,
    request: Request,
) -> list[Share | None]:
    """Return the answer to each question of a request, None for one that was refused or left out.

    DefectError if the reply cannot be used.
    """
    if not request.questions:
        return [word_share(reply.likely, request.words)]
    shares = typed_shares(reply.answers, request.questions)
    return [shares.get(question.name) for question in request.questions]


def _probabilities(
    values: Sequence[float],
    rubric: Standards,
) -> str:
    """The probabilities of a rollout in words."""
    if not isinstance(rubric, Rubric):
        return f"P(yes) {values[0]:.3g}"
    named = zip(rubric.names, values, strict=True)
    listed = ", ".join(f"“{name}” {value:.3g}" for name, value in named)
    return f"By probability: {listed}"


def _fits_with_less(
    limit: int, actual: int, request: Request, state: ExchangeState
) -> bool:
    """Return whether the prompt alone fits the judge's context; the answer then gets the rest of it.

    A corrective request is longer than the one that fitted, and may be refused once more.
    """
    left = limit - actual
    asked = state.max_output_tokens
    if state.fitted and asked is not None and left >= asked:
        return False
    least = request.answer_tokens(BRIEF_ANSWER)
    state.fitted = left >= least
    if state.fitted:
        state.max_output_tokens = left
    return state.fitted


def read_reply(reply: Reply, request: Request) -> ParsedReply:
    """Read the entries of a reply; DefectError if it cannot be used."""
    if reply.refusal is not None:
        raise DefectError(reply.refusal)
    # scores before the end of a thought, or of an answer that was cut off, may be a draft
    whole = reply.truncated or reply.beside
    reading = parse(
        reply.text,
        request.labels,
        request.criteria,
        whole=whole,
    )
    for label, (numbers, _) in reading.entries.items():
        for number, criterion in zip(
            numbers, request.criteria.values(), strict=bool(request.criteria)
        ):
            if criterion.levels and round(number, 2) not in criterion.values:
                values = ", ".join(f"{value:g}" for value in criterion.values)
                raise DefectError(
                    f"`{label}` has {number:g}, no level ({values})"
                )
    return reading


def is_usable(reply: Reply, request: Request) -> bool:
    """Return whether the entries of a reply can be read, or its probabilities give a score."""
    try:
        if request.by_probability:
            read_shares(reply, request)
        else:
            read_reply(reply, request)
    except DefectError:
        return False
    return True


def _correct(
    reply: Reply,
    reason: str,
    state: ExchangeState,
) -> GroupError | None:
    """Note what the next request must say; return an error if this correction was made already."""
    if reply.refusal is not None:
        if state.refused:
            return GroupError("refused", f"the judge refused twice: {reason}")
        state.refused = True
    elif reply.truncated:
        state.cuts += ((reply.usage.prompt, reply.usage.completion),)
        if len(state.cuts) > 2:
            remedy = "a larger context, -p max_tokens=N or a smaller --group-size leaves it more room"
            return GroupError(
                "reply", f"the judge's answer was cut off three times; {remedy}"
            )
        state.max_output_tokens = 2 * reply.usage.completion or None
        state.fitted = False
        state.note = templates.SHORTER
    else:
        if state.corrected == CORRECTIONS:
            times = f"{CORRECTIONS + 1} times"
            return GroupError(
                "reply",
                f"the judge's answer could not be used {times}: {reason}",
            )
        state.corrected += 1
        state.note = templates.corrected(reason)
    return None


def _failed(
    error: CallError,
    request: Request,
    layout: PromptLayout,
    part: RequestPart,
    state: ExchangeState,
) -> GroupError | Overflow:
    """Return the error of a call, or an overflow if the prompt fills more than the server takes."""
    group_error = GroupError(
        error.kind, error.reason, cut=error.cut is not None
    )
    if error.context is None:
        return group_error
    limit, actual = error.context
    # a prompt alone was cut, or no answer is written
    alone = error.cut or request.by_probability
    least = 0 if alone else int(request.answer_tokens(BRIEF_ANSWER))
    most = min(limit * _SAFETY, max(limit - least, limit / 2))
    tokens = layout.tokens_of(part.distinct)
    # vLLM counts no further than it must: the length of a prompt that is one token too long is not known
    at_least = min(most, tokens / 2)
    target = at_least if actual == limit + 1 else tokens * most / max(actual, 1)
    return Overflow(limit, actual, int(target), group_error, state)


def _pass_scores(
    layout: PromptLayout,
    part: RequestPart,
    rows: Mapping[int, Sequence[float]],
    explanations: Sequence[str],
) -> PassScores:
    """The scores of a pass; `rows` has the numbers of each rollout, one for each criterion."""
    rubric = layout.rubric
    scores = []
    criteria = []
    for numbers in rows.values():
        if isinstance(rubric, Rubric):
            scores.append(weighted(rubric, numbers))
            criteria.append(tuple(numbers))
        else:
            scores.append(numbers[0])
    return PassScores(
        judge=0,
        pass_index=part.pass_index,
        window=part.window,
        distinct=tuple(rows),
        scores=tuple(scores),
        explanations=tuple(explanations),
        criteria=tuple(criteria),
    )


def _read_scores(
    layout: PromptLayout,
    part: RequestPart,
    request: Request,
    reading: ParsedReply,
    bounds: int,
) -> PassScores:
    """The scores that a reply has; `bounds` is that of the reply on this judge's scale."""
    rows = {}
    texts = []
    for label, at in request.shown.items():
        rows[at], text = reading.entries[label]
        texts.append(text)
    return replace(
        _pass_scores(layout, part, rows, _with_places(texts, layout, request)),
        bounds=bounds,
        mended=reading.mended,
        unknown=reading.unknown,
    )


def _with_places(
    texts: list[str], layout: PromptLayout, request: Request
) -> list[str]:
    """Explanations that call a rollout by its place in the group, and a criterion by its name, not by their ids."""
    places = {}
    for label, at in request.shown.items():
        places[label] = f"rollout {layout.places[at]}"
    for label, criterion in request.criteria.items():
        places[label] = f"“{name_of(criterion)}”"
    whole = "\n".join(texts).lower()
    if not any(label in whole for label in places):
        return texts

    def placed(match: re.Match[str]) -> str:
        place = places.get((match["quoted"] or match["bare"]).lower())
        # HTTP is a word, and no text of the request need hold http
        if place is None or match[0].isupper():
            return match[0]
        return place[0].upper() + place[1:] if match[0][:2].istitle() else place

    return [_NAMED.sub(placed, text) for text in texts]
