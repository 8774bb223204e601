"""One group's conversation with its judge, as a generator: it yields requests and is sent replies.

It decides everything and waits for nothing, so it can be driven by the pool, by a test, or by a
file of kept replies.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace

from ruler_cli.records import Failure, Fault, Group, Reply, Request, Usage, Verdict
from ruler_cli.scoring import words
from ruler_cli.scoring.reply import Defect, Reading, read, read_complete
from ruler_cli.scoring.request import Paper, Sheet, compose, lay_out
from ruler_cli.settings import AskSettings

Dialogue = Generator[Request, Reply | Fault, Verdict | Failure]
CORRECTIONS = 3
"""Times that a defect is named and the group asked again: one reply in twenty is lost at some judges, and
four in a row are then one group in 160,000."""
_SAFETY = 0.9
"""Share of the judge's stated context that a shortened prompt may fill: the estimate is one."""


@dataclass(slots=True)
class _State:
    """What has happened so far: second chances are given a few times each at most."""

    attempt: int = 0
    note: str = ""
    usage: Usage = field(default_factory=Usage)
    room: int | None = None
    truncated: int = 0
    refused: bool = False
    corrected: int = 0
    shrunk: bool = False


def judge(group: Group, ask: AskSettings) -> Dialogue:
    """Ask for a verdict: a first request, a few corrections, one for what is still missing."""
    sheet = lay_out(group, ask)
    if not sheet.bodies:
        return Failure("input", _nothing_to_judge(group))
    if ask.context_tokens is not None and sheet.tokens > ask.context_tokens:
        return Failure("too_long", _too_long(sheet.tokens, ask.context_tokens))
    state = _State()
    given: dict[str, tuple[float, str]] = {}
    paper = compose(sheet, ask)
    while True:
        answer = yield paper.request
        if isinstance(answer, Fault):
            smaller = _shrink(group, ask, sheet, answer, state)
            if isinstance(smaller, Failure):
                return smaller
            sheet, given = smaller, {}
            paper = compose(sheet, ask, state.attempt, state.note, room=state.room)
            continue
        state.usage += answer.usage
        reading = _understand(answer, paper, again=bool(given))
        if isinstance(reading, Reading):
            entries = {**given, **reading.entries}
            return _verdict(group, sheet, paper, replace(reading, entries=entries), state)
        failure = _second_chance(answer, reading, state)
        if failure:
            return failure
        given = read_complete(answer.text, paper.request.labels) if state.truncated == 2 else {}
        if answer.truncated and given:
            paper = compose(sheet, ask, state.attempt, words.missing(given), given, state.room)
        else:
            given = {}
            state.attempt += 1
            paper = compose(sheet, ask, state.attempt, state.note, room=state.room)


def _understand(answer: Reply, paper: Paper, *, again: bool) -> Reading | Defect:
    if answer.refusal is not None:
        return Defect(answer.refusal)
    if answer.truncated and not answer.text.rstrip().endswith(("}", "]", "```")):
        return Defect("the answer was cut off")  # a verdict before its end may be a draft
    reading = read(answer.text, paper.request.labels)
    if again and isinstance(reading, Reading) and reading.rescaled:
        return Defect("the scores stood on another scale than those given before")
    return reading


def _second_chance(answer: Reply, defect: Reading | Defect, state: _State) -> Failure | None:
    """Note what the next request must say; a Failure where this chance was already given."""
    reason = defect.reason if isinstance(defect, Defect) else ""
    if answer.refusal is not None:
        if state.refused:
            return Failure("refused", f"the judge refused twice: {reason}", state.usage)
        state.refused = True
    elif answer.truncated:
        state.truncated += 1
        if state.truncated > 2:
            return Failure("reply", "the judge's answer was cut off three times", state.usage)
        state.room = 2 * answer.usage.completion or None
        state.note = words.shorter()
    else:
        if state.corrected == CORRECTIONS:
            times = f"{CORRECTIONS + 1} times"
            return Failure("reply", f"the judge's answer could not be used {times}: {reason}", state.usage)
        state.corrected += 1
        state.note = words.corrected(reason)
    return None


def _shrink(group: Group, ask: AskSettings, sheet: Sheet, fault: Fault, state: _State) -> Sheet | Failure:
    """A shorter sheet after the judge named its context, once; else the fault as a Failure."""
    if fault.context is None or state.shrunk:
        return Failure(fault.kind, fault.reason, state.usage)
    limit, actual = fault.context
    state.shrunk = True
    target = int(sheet.tokens * limit / max(actual, 1) * _SAFETY)
    smaller = lay_out(group, replace(ask, context_tokens=target))
    if smaller.tokens > target:
        return Failure("too_long", _too_long(actual, limit), state.usage)
    return smaller


def _verdict(group: Group, sheet: Sheet, paper: Paper, reading: Reading, state: _State) -> Verdict:
    by_body = {paper.labels[label]: entry for label, entry in reading.entries.items()}
    scores: list[float | None] = []
    said: list[str] = []
    for rollout, body in zip(group.rollouts, sheet.owner, strict=True):
        score, text = (None, rollout.fault or "") if body is None else by_body[body]
        scores.append(score)
        said.append(text)
    suspects = frozenset(i for i, body in enumerate(sheet.owner) if body in sheet.suspects)
    return Verdict(
        tuple(scores),
        tuple(said),
        suspects,
        tied=sheet.alone,
        rescaled=int(reading.rescaled),
        unknown=reading.unknown,
        shortened=sheet.shortening,
        usage=state.usage,
    )


def _nothing_to_judge(group: Group) -> str:
    faults = [r.fault for r in group.rollouts if r.fault]
    return (
        f"no trajectory can be judged; the first: {faults[0]}" if faults else "the group has no trajectories"
    )


def _too_long(tokens: int, limit: int) -> str:
    return (
        f"about {tokens} tokens, more than the {limit} that the judge takes, even with the middle "
        "of tool outputs and reasoning left out"
    )
