"""One request's conversation with its judge, as a generator: it yields requests and is sent replies.

It decides everything and waits for nothing, so it can be driven by the pool, by a test, or by a
file of kept replies.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

from ruler_cli.ballots import Ballot
from ruler_cli.records import Failure, Fault, Group, Reply, Request, Usage, Verdict
from ruler_cli.scoring import words
from ruler_cli.scoring.plan import Part, obstacle, parts, too_long
from ruler_cli.scoring.reply import Defect, Reading, read, read_complete
from ruler_cli.scoring.request import Paper, Sheet, compose, first_part, lay_out
from ruler_cli.settings import AskSettings

CORRECTIONS = 3
"""Times that a defect is named and the group asked again: one reply in twenty is lost at some judges, and
four in a row are then one group in 160,000."""
_SAFETY = 0.9
"""Share of the judge's stated context that a shortened prompt may fill: the estimate is one."""


@dataclass(slots=True)
class State:
    """What has happened so far: second chances are given a few times each at most."""

    attempt: int = 0
    note: str = ""
    room: int | None = None
    truncated: int = 0
    refused: bool = False
    corrected: int = 0


@dataclass(frozen=True, slots=True)
class Overflow:
    """The server named a context of `limit` tokens, which the request's `actual` ones do not fit.

    `target` is what `AskSettings.context_tokens` must be for a sheet that fits it; where the group was
    laid out anew already, `failure` is what became of it. `state` lets the conversation go on.
    """

    limit: int
    actual: int
    target: int
    failure: Failure
    state: State

    @property
    def too_long(self) -> Failure:
        """What becomes of a group that `target` cannot be reached for."""
        return Failure("too_long", too_long(self.actual, self.limit))


Conversation = Generator[Request, Reply | Fault, Ballot | Failure | Overflow]
Dialogue = Generator[Request, Reply | Fault, Verdict | Failure]


def converse(sheet: Sheet, ask: AskSettings, part: Part, state: State | None = None) -> Conversation:
    """Ask about a part: a first request, a few corrections, one for what is still missing.

    `state` is that of a conversation which ended in an Overflow, so that what it learnt stays known.
    The ballot's judge is 0.
    """
    state = state or State()
    given: dict[str, tuple[float, str]] = {}
    paper = compose(sheet, ask, part, state.attempt, state.note, room=state.room)
    while True:
        answer = yield paper.request
        if isinstance(answer, Fault):
            return _ended(answer, sheet, part, state)
        reading = _understand(answer, paper, again=bool(given))
        if isinstance(reading, Reading):
            entries = {**given, **reading.entries}
            return _ballot(part, paper, replace(reading, entries=entries))
        failure = _second_chance(answer, reading, state)
        if failure:
            return failure
        given = read_complete(answer.text, paper.request.labels) if state.truncated == 2 else {}
        if answer.truncated and given:
            note = words.missing(given)
        else:
            given, note = {}, state.note
            state.attempt += 1
        paper = compose(sheet, ask, part, state.attempt, note, given, state.room)


def _understand(answer: Reply, paper: Paper, *, again: bool) -> Reading | Defect:
    if answer.refusal is not None:
        return Defect(answer.refusal)
    if answer.truncated and not answer.text.rstrip().endswith(("}", "]", "```")):
        return Defect("the answer was cut off")  # a verdict before its end may be a draft
    reading = read(answer.text, paper.request.labels)
    if again and isinstance(reading, Reading) and reading.rescaled:
        return Defect("the scores stood on another scale than those given before")
    return reading


def _second_chance(answer: Reply, defect: Reading | Defect, state: State) -> Failure | None:
    """Note what the next request must say; a Failure where this chance was already given."""
    reason = defect.reason if isinstance(defect, Defect) else ""
    if answer.refusal is not None:
        if state.refused:
            return Failure("refused", f"the judge refused twice: {reason}")
        state.refused = True
    elif answer.truncated:
        state.truncated += 1
        if state.truncated > 2:
            return Failure("reply", "the judge's answer was cut off three times")
        state.room = 2 * answer.usage.completion or None
        state.note = words.shorter()
    else:
        if state.corrected == CORRECTIONS:
            times = f"{CORRECTIONS + 1} times"
            return Failure("reply", f"the judge's answer could not be used {times}: {reason}")
        state.corrected += 1
        state.note = words.corrected(reason)
    return None


def _ended(fault: Fault, sheet: Sheet, part: Part, state: State) -> Failure | Overflow:
    failure = Failure(fault.kind, fault.reason)
    if fault.context is None:
        return failure
    limit, actual = fault.context
    target = int(sheet.tokens_of(part.bodies) * limit / max(actual, 1) * _SAFETY)
    return Overflow(limit, actual, target, failure, state)


def _ballot(part: Part, paper: Paper, reading: Reading) -> Ballot:
    said = [reading.entries[label] for label in paper.labels]
    return Ballot(
        judge=0,
        turn=part.turn,
        window=part.window,
        bodies=tuple(paper.labels.values()),
        scores=tuple(score for score, _ in said),
        explanations=tuple(text for _, text in said),
        rescaled=reading.rescaled,
        unknown=reading.unknown,
    )


def judge(group: Group, ask: AskSettings) -> Dialogue:
    """Ask for a verdict in one pass, as one request where that fits the judge's context."""
    usage, state, learnt = Usage(), State(), False
    sheet = lay_out(group, ask)
    waiting = _of_one_pass(sheet, ask)
    ballots: list[Ballot] = []
    failure = obstacle(group, sheet, ask)
    while waiting and not failure:
        conversation = converse(sheet, ask, waiting[0], state)
        answer: Reply | Fault | None = None
        try:
            while True:
                request = next(conversation) if answer is None else conversation.send(answer)
                answer = yield request
                usage += answer.usage if isinstance(answer, Reply) else Usage()
        except StopIteration as end:
            said: Ballot | Failure | Overflow = end.value
        if isinstance(said, Ballot):
            ballots.append(said)
            waiting, state = waiting[1:], State()
        elif isinstance(said, Failure) or learnt:
            failure = said if isinstance(said, Failure) else said.failure
        else:
            ask, learnt, state = replace(ask, context_tokens=said.target), True, said.state
            sheet, ballots = lay_out(group, ask), []
            waiting = _of_one_pass(sheet, ask)
            failure = said.too_long if obstacle(group, sheet, ask) else None
    return replace(failure, usage=usage) if failure else _verdict(group, sheet, ballots, usage)


def _of_one_pass(sheet: Sheet, ask: AskSettings) -> tuple[Part, ...]:
    if ask.context_tokens is None or sheet.tokens <= ask.context_tokens:
        return (first_part(sheet, replace(ask, group_size=max(ask.group_size, len(sheet.bodies)))),)
    return parts(sheet, ask, 0)


def _verdict(group: Group, sheet: Sheet, ballots: list[Ballot], usage: Usage) -> Verdict:
    by_body = {
        body: (score, text)
        for ballot in ballots
        for body, score, text in zip(ballot.bodies, ballot.scores, ballot.explanations, strict=True)
    }
    scores: list[float | None] = []
    said: list[str] = []
    for rollout, body in zip(group.rollouts, sheet.owner, strict=True):
        score, text = (None, rollout.fault or "") if body is None else by_body[body]
        scores.append(score)
        said.append(text)
    return Verdict(
        tuple(scores),
        tuple(said),
        frozenset(i for i, body in enumerate(sheet.owner) if body in sheet.suspects),
        tied=sheet.alone,
        rescaled=sum(ballot.rescaled for ballot in ballots),
        unknown=sum(ballot.unknown for ballot in ballots),
        shortened=sheet.shortening,
        usage=usage,
    )
