"""A judge inside the program: deterministic, without network, key or model; a rule of thumb.

It counts faults in a rendered rollout and adds two shares, each known from one place:

    points = .1 · faults − .1 · goal + .2 · (share before the first tool call) + .2 · (1 − likeness)
    score  = .8 · exp(−points)

Faults: tool errors and repeated calls (each at most three), handing off, refusing without a try,
ending in mid-work, being half as long again as the typical sibling.  Likeness is the Dice overlap
of the state changes with those of the siblings: self-consistency (Wang et al. 2022, "Self-Consistency
Improves Chain of Thought Reasoning") on what was done instead of what was said.  A rollout with no
fault at all is no proof of success, hence .8; exp keeps order and never clips.

The weights are round and none is fitted: a fault is worth .1, a whole share two faults.  The choice of
the two shares, however, was made with a look at the file that `tests/judges/agreement.py` is run on,
so its figure there flatters.  Words are everyday English and JSON, of no one domain.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import orjson

from ruler_cli.types import Judge, Reply, Request, Usage

BEST = 0.8
FAULT = 0.1
SHARE = 0.2
MOST = 3
LONG = 1.5

_EDGE = 400


def _vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WRITES = _vocabulary(
    """
    add append apply assign book buy cancel change charge close commit create delete deploy disable drop
    edit enable exchange execute insert install kill merge modify move pay place post publish purchase
    push put refund register remove rename replace reply reserve reset return revoke save schedule send
    set start stop submit transfer undo uninstall update upload upsert write
    """
)
_READS = _vocabulary(
    """
    browse calculate check compute count describe fetch find get inspect list load look lookup open
    query read retrieve scan search show think view
    """
)
_PEOPLE = _vocabulary(
    """
    agent agents human humans operator person staff support
    """
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
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
    r'"(?:success|solved|won)\\?":true|\b(?:you (?:have )?w[io]n|goal (?:was )?reached|all tests pass)', re.I
)
_REFUSAL = re.compile(
    r"\b(?:cannot|can['’]?t|unable to|not able to|not (?:possible|allowed)|won['’]t be able)\b", re.I
)
_HANDING = re.compile(
    r"\b(?:transfer|connect|hand|escalat)\w{0,4} (?:you|this|it|your \w+) (?:over )?(?:to|with)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs in one rollout by itself; `outcome` is the set of things that it brought about."""

    messages: int
    lead: int
    calls: int
    errors: int
    repeats: int
    handed_off: bool
    refused: bool
    unfinished: bool
    goal: bool
    outcome: frozenset[str]


class _Group:
    """Figures of the distinct rollouts of a request; equal in whatever order they come."""

    def __init__(self, members: Iterable[Signs]) -> None:
        signs = list(members)
        self.siblings = len(signs) - 1
        self.calls = any(s.calls for s in signs)
        self.typical = median(s.messages for s in signs) if signs else 0
        self.tally = Counter(thing for s in signs for thing in s.outcome)
        self.total = sum(len(s.outcome) for s in signs)

    def likeness(self, signs: Signs) -> float:
        """Dice overlap with the siblings, pooled: 2 · Σ shared / Σ (own + theirs), in linear time."""
        if self.siblings < 2:
            return 1.0
        own = len(signs.outcome)
        shared = sum(self.tally[thing] - 1 for thing in signs.outcome)
        return 2 * shared / (self.siblings * own + self.total - own)


def observe(body: str) -> Signs:
    """Read the signs off one rendered rollout, in one pass over its lines."""
    seen: set[str] = set()
    outcome: set[str] = set()
    messages = calls = errors = lead = 0
    handed_off = goal = False
    spoken = kind = ""
    for line in body.split("\n"):
        head, found, value = line.partition(": ")
        kind, _, name = head.partition(" ")
        if not found or name == "thinking":
            continue
        messages += 1
        if kind == "call":
            lead = lead or messages
            calls += 1
            call = f"{name}: {_canonical(value)}"
            seen.add(call)
            if _hands_off(name):
                handed_off = True
            elif _changes(name):
                outcome.add(call)
        elif kind == "tool":
            edges = value if len(value) <= 2 * _EDGE else f"{value[:_EDGE]} {value[-_EDGE:]}"
            errors += bool(_ERROR.search(edges))
            goal = bool(_GOAL.search(edges))
        elif kind not in ("user", "system", "developer"):
            spoken = value
    handed_off = handed_off or bool(_HANDING.search(spoken))
    if handed_off:
        outcome.add("handed off")
    return Signs(
        messages=messages,
        lead=lead - 1 if calls else messages,
        calls=calls,
        errors=errors,
        repeats=calls - len(seen),
        handed_off=handed_off,
        refused=not calls and bool(_REFUSAL.search(spoken)),
        unfinished=not messages or (kind in ("call", "tool") and not handed_off),
        goal=goal,
        outcome=frozenset(outcome or {"changed nothing"}),
    )


def rate(bodies: Iterable[str]) -> dict[str, tuple[float, str]]:
    """Each distinct rollout's score and one sentence; the order and number of copies do not count."""
    signs = {body: observe(body) for body in bodies}
    group = _Group(signs.values())
    return {body: _verdict(s, group) for body, s in signs.items()}


@dataclass(frozen=True, slots=True)
class Offline(Judge):
    """The rule of thumb as a judge."""

    name: str = "offline"

    async def ask(self, request: Request) -> Reply:
        """Score the labels from the rollouts in the prompt; a label without a rollout has an empty one."""
        bodies = blocks(request.user)
        asked = {label: bodies.get(label, "") for label in request.labels}
        verdicts = rate([*bodies.values(), *asked.values()])
        entries = [
            {"trajectory_id": label, "explanation": verdicts[body][1], "score": verdicts[body][0]}
            for label, body in asked.items()
        ]
        return Reply(orjson.dumps({"scores": entries}).decode(), Usage(calls=1))


def _verdict(signs: Signs, group: _Group) -> tuple[float, str]:
    long = group.siblings > 0 and signs.messages > LONG * group.typical
    late = signs.lead / max(1, signs.messages) if group.calls else 0.0
    alike = group.likeness(signs)
    faults = (
        min(signs.errors, MOST)
        + min(signs.repeats, MOST)
        + sum((signs.handed_off, signs.refused, signs.unfinished, long))
        - signs.goal
    )
    points = FAULT * faults + SHARE * late + SHARE * (1 - alike)
    said = [
        _count(signs.errors, "tool error"),
        _count(signs.repeats, "repeated call"),
        "ended by handing off" if signs.handed_off else "",
        "refused without trying a tool" if signs.refused else "",
        "no messages" if not signs.messages else "ended in mid-work" if signs.unfinished else "",
        "much longer than its siblings" if long else "",
        "a tool reported success at the end" if signs.goal else "",
        f"{late:.0%} of it before the first tool call" if late else "",
        f"{alike:.0%} of its state changes shared with siblings" if group.siblings > 1 else "",
    ]
    seen = ", ".join(filter(None, said)) or "nothing amiss"
    return round(min(1.0, BEST * math.exp(-points)), 3), f"No LLM judged this: {seen}; rule of thumb."


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number > 1)}" if number else ""


def _canonical(arguments: str) -> str:
    """Arguments with their keys in order, so that equal calls are equal text."""
    try:
        return orjson.dumps(orjson.loads(arguments), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, TypeError):  # no JSON, or deeper than orjson writes
        return arguments


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name[:_EDGE])]


def _changes(name: str) -> bool:
    """Tell if a tool's name says that it changes something: its first verb, reading or writing, decides."""
    return next((word in _WRITES for word in _words(name) if word in _WRITES | _READS), False)


def _hands_off(name: str) -> bool:
    words = set(_words(name))
    return bool(words & {"escalate", "handoff", "handover"} or ("transfer" in words and words & _PEOPLE))


_OPEN = r'<trajectory id="([a-z]+)">'


def blocks(user: str) -> dict[str, str]:
    """The rollouts of a rendered prompt: label → lines between its delimiters."""
    found: dict[str, str] = {}
    label: str | None = None
    body: list[str] = []
    for line in user.split("\n"):
        opened = re.fullmatch(_OPEN, line)
        if opened:
            label, body = opened[1], []
        elif line == "</trajectory>" and label:
            found[label] = "\n".join(body)
            label = None
        elif label:
            body.append(line)
    return found
