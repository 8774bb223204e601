"""Offline judge: a deterministic rule of thumb without network, key or model.

It counts defects in a rendered rollout and adds two shares:

    points = .1 · defects − .1 · goal + .2 · (share before the first tool call) + .2 · (1 − overlap)
    score  = .8 · exp(−points)

Defects: tool errors and repeated calls (each at most three), a handoff, a refusal without any tool call, an end in
mid-work, and more than 1.5 times the median number of messages. The overlap is the Dice coefficient of the rollout's
state changes with those of its siblings: self-consistency (Wang et al. 2022, "Self-Consistency Improves Chain of
Thought Reasoning") on actions instead of answers. A rollout without any defect is not a proof of success, hence .8; exp
keeps the order and never clips.

The weights are round and none is fitted: a defect is worth .1, a whole share two defects. docs/trust.md says
how good it is. The words are everyday English and JSON, of no one domain.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.types import (
    Criterion,
    Judge,
    Reply,
    Request,
    Usage,
    value,
    words_of,
)

BEST = 0.8
DEFECT = 0.1
SHARE = 0.2
MOST = 3
LONG = 1.5

_EDGE = 400


_WRITES = frozenset(
    words_of("""
    add append apply assign book buy cancel change charge close commit create delete deploy disable drop
    edit enable exchange execute insert install kill merge modify move pay place post publish purchase
    push put refund register remove rename replace reply reserve reset return revoke save schedule send
    set start stop submit transfer undo uninstall update upload upsert write
    """)
)
_READS = frozenset(
    words_of("""
    browse calculate check compute count describe fetch find get inspect list load look lookup open
    query read retrieve scan search show think view
    """)
)
_PEOPLE = {*words_of("agent agents human humans operator person staff support")}
_HANDOFFS = {"escalate", "handoff", "handover"}
_VERBS = _WRITES | _READS
"""Verbs in the names of tools: the first one tells if a tool changes something."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBER = re.compile(r"[0-9]+ ")
"""The number before the name of one of several calls made at once."""
_ERROR = re.compile(
    r"""^[\s"\[\\]*(?:error|exception|failed|failure|fatal|forbidden|invalid|timed?\ ?out|unauthori[sz]ed)\b
    | Traceback\ \(most\ recent
    | (?-i:[A-Z][A-Za-z]{2,60}(?:Error|Exception):)
    | "(?:error|exception)s?\\?":(?!null|false|0\b|\\?"\\?"|\[\]|\{\})
    | "(?:success|ok)\\?":false
    | "status\\?":\\?"(?:error|failed|failure)
    | "(?:exit_?code|returncode)\\?":-?[1-9]
    | command\ not\ found""",
    re.VERBOSE | re.IGNORECASE,
)
_GOAL = re.compile(
    r'"(?:success|solved|won)\\?":true|\b(?:you (?:have )?w[io]n|goal (?:was )?reached|all tests pass)',
    re.I,
)
_REFUSAL = re.compile(
    r"\b(?:cannot|can['’]?t|unable to|not able to|not (?:possible|allowed)|won['’]t be able)\b",
    re.I,
)
_HANDING = re.compile(
    r"\b(?:transfer|connect|hand|escalat)\w{0,4} (?:you|this|it|your \w+) (?:over )?(?:to|with)\b",
    re.I,
)


@value
class RolloutSignals:
    """Signals in one rollout by itself.

    `before_tools` counts the messages before the first tool call, all if there is none. `defects` are
    numbers with what they count; 0: it has none. `changes` are the calls that changed something, and a
    handoff.
    """

    messages: int
    before_tools: int
    calls: int
    defects: tuple[tuple[int, str], ...]
    goal: bool
    changes: frozenset[str]


def observe(rollout: str) -> RolloutSignals:
    """The signals in one rendered rollout, in one pass over its lines."""
    distinct_calls: set[str] = set()
    changes: set[str] = set()
    messages = calls = errors = first_call = 0
    handed_off = goal = False
    last_text = kind = ""
    for line in rollout.split("\n"):
        head, colon, value = line.partition(": ")
        kind, _, name = head.partition(" ")
        if not colon or name == "thinking":
            continue
        messages += 1
        if kind == "call":
            first_call = first_call or messages
            calls += 1
            name = _NUMBER.sub("", name, count=1)
            call = f"{name}: {_canonical(value)}"
            distinct_calls.add(call)
            words = [word.lower() for word in _WORD.findall(name[:_EDGE])]
            if not _HANDOFFS.isdisjoint(words) or (
                "transfer" in words and not _PEOPLE.isdisjoint(words)
            ):
                handed_off = True
            elif next(
                (word in _WRITES for word in words if word in _VERBS), False
            ):
                changes.add(call)
        elif kind == "tool":
            edges = value
            if len(value) > 2 * _EDGE:
                edges = f"{value[:_EDGE]} {value[-_EDGE:]}"
            errors += bool(_ERROR.search(edges))
            goal = bool(_GOAL.search(edges))
        elif kind not in ("user", "system", "developer"):
            last_text = value
    handed_off = handed_off or bool(_HANDING.search(last_text))
    if handed_off:
        changes.add("handed off")
    repeats = calls - len(distinct_calls)
    refused = not calls and _REFUSAL.search(last_text)
    unfinished = not messages or (kind in ("call", "tool") and not handed_off)
    defects = (
        (min(errors, MOST), f"{errors} tool error{'s' * (errors > 1)}"),
        (min(repeats, MOST), f"{repeats} repeated call{'s' * (repeats > 1)}"),
        (handed_off, "ended by handing off"),
        (bool(refused), "refused without trying a tool"),
        (unfinished, "ended in mid-work" if messages else "no messages"),
    )
    before = first_call - 1 if calls else messages
    changed = frozenset(changes or {"changed nothing"})
    return RolloutSignals(messages, before, calls, defects, goal, changed)


def rate(rollouts: Iterable[str]) -> dict[str, tuple[float, str]]:
    """Rendered rollout → (score, one sentence); the order and the number of copies do not count."""
    signals = {rollout: observe(rollout) for rollout in rollouts}
    group = list(signals.values())
    siblings = len(group) - 1
    calls = any(member.calls for member in group)
    typical = median(member.messages for member in group)
    counts = Counter(change for member in group for change in member.changes)
    ratings = {}
    for rollout, signal in signals.items():
        defects = [
            *signal.defects,
            (
                siblings and signal.messages > LONG * typical,
                "much longer than its siblings",
            ),
            (-signal.goal, "a tool reported success at the end"),
        ]
        late = signal.before_tools / max(1, signal.messages) if calls else 0.0
        points = DEFECT * sum(number for number, _ in defects) + SHARE * late
        phrases = [phrase for number, phrase in defects if number]
        if late:
            phrases.append(f"{late:.0%} of it before the first tool call")
        if siblings > 1:
            # the pooled Dice coefficient, 2 · Σ shared / Σ (own + theirs), in linear time
            shared = sum(counts[change] - 1 for change in signal.changes)
            number = len(signal.changes)
            overlap = 2 * shared / (siblings * number + counts.total() - number)
            points += SHARE * (1 - overlap)
            phrases.append(
                f"{overlap:.0%} of its state changes shared with siblings"
            )
        score = round(min(1.0, BEST * math.exp(-points)), 3)
        listed = ", ".join(phrases) or "nothing amiss"
        ratings[rollout] = (
            score,
            f"No LLM judged this: {listed}; rule of thumb.",
        )
    return ratings


def _canonical(arguments: str) -> str:
    """Arguments with sorted keys, so that equal calls have equal text."""
    try:
        return orjson.dumps(
            orjson.loads(arguments), option=orjson.OPT_SORT_KEYS
        ).decode()
    except (
        orjson.JSONDecodeError,
        TypeError,
    ):  # no JSON, or too deep for orjson
        return arguments


class Offline(Judge):
    """The rule of thumb as a judge."""

    async def ask(self, request: Request) -> Reply:
        """Score the labels from the rollouts in the prompt."""
        shown = blocks(request.user)
        ratings = rate(shown.values())
        asked = {label: ratings[shown[label]] for label in request.labels}
        return reply_with(asked, request)


def judge_of(params: Mapping[str, Any]) -> Offline:
    """Return the judge; UsageError for any parameter."""
    if params:
        raise UsageError("takes no parameters", place="judge offline")
    return Offline()


def reply_with(
    ratings: Mapping[str, tuple[float, str]],
    request: Request,
) -> Reply:
    """The reply of a judge without a model that gives each label a score and an explanation.

    It understands no criterion: each has the score for its value, that of a mistake what is left to 1.
    """
    entries = []
    for label, (score, explanation) in ratings.items():
        values = {
            criterion: _value(1 - score if stated.weight < 0 else score, stated)
            for criterion, stated in request.criteria.items()
        }
        answer = {"criteria": values} if values else {"score": score}
        head = {"trajectory_id": label, "explanation": explanation}
        entries.append(head | answer)
    return Reply(orjson.dumps({"scores": entries}).decode(), Usage(calls=1))


def _value(score: float, criterion: Criterion) -> float:
    """The score, or the value of the level that is nearest to it."""
    return min(
        criterion.values or [score], key=lambda value: abs(value - score)
    )


_BLOCK = re.compile(
    r'^<(trajectory|shared_messages)(?: number="\d+")?(?: ids?="([a-z ]+)")?>\n((?:.*\n)*?)</\1>$',
    re.MULTILINE,
)


def blocks(user: str) -> dict[str, str]:
    """The rollouts of a user message: label → their lines, with the shared messages that they begin with."""
    blocks_shown = _BLOCK.findall(user)
    whole: dict[str, str] = {}
    for _, labels, lines in blocks_shown:
        for label in labels.split(" "):
            if (
                label in whole
            ):  # a note of what stands before takes the first line
                whole[label] += lines.partition("\n")[2]
            else:
                whole[label] = lines
    return {
        label: whole[label].removesuffix("\n")
        for kind, label, _ in blocks_shown
        if kind == "trajectory"
    }
