"""The attack corpus: the structure holds against all of it, and what only a judge can resist is flagged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from ruler_cli.config import AskSettings
from ruler_cli.judges.offline import blocks
from ruler_cli.prompting.layout import PromptLayout
from ruler_cli.prompting.prompt import build_layout, write_prompt
from ruler_cli.scoring.parse_reply import DefectError, read, read_complete
from ruler_cli.types import Group, Request
from tests.attacks import FAMILIES, PLACES, Attack, Place
from tests.attacks.places import OTHERS

ASK = AskSettings()
ATTACKS = {
    f"{family}-{number}": attack
    for family, attacks in FAMILIES.items()
    for number, attack in enumerate(attacks)
}
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
JSON_STRING = r'"(?:[^"\\]|\\.)*+"'
HEAD = re.compile(
    rf"(?:(?:call |tool )?(?:[\w.\-]+|{JSON_STRING})(?: thinking| [\w.\-]+| {JSON_STRING})?: )?"
)
OURS = re.compile(
    r"\(tools of this rollout\)|\(part 2 of the same rollout(?:, again from the shared context)?\)"
)
LABELS = ("zqxwvtk", "kxzzvbn", "wqqjxfd")
"""Labels that stand in no attack, which `compose` sees to."""
SMALL = 20_000
"""Characters up to which an attack is tried in every place: larger ones take seconds in each."""


def asked(group: Group) -> tuple[PromptLayout, Request]:
    """A group's sheet and its first question."""
    sheet = build_layout(group, ASK)
    return sheet, write_prompt(sheet, ASK)


def places(attack: Attack) -> Iterator[Place]:
    """Where an attack is tried."""
    for place in PLACES:
        if attack.whole and place.name != "assistant's message":
            continue
        if len(attack.text) <= SMALL or place.name in ("assistant's message", "tool result"):
            yield place


def is_line(line: str) -> bool:
    """Whether a line is a head and one JSON value."""
    if OURS.fullmatch(line):
        return True
    head = HEAD.match(line)
    try:
        json.loads(line[head.end() if head else 0 :], strict=True)
    except RecursionError:  # of the standard library's reader, not of the line
        return line.count("\n") == 0
    except ValueError:
        return False
    return True


def test_structure(subtests: pytest.Subtests) -> None:
    """Wherever an attack stands, the prompt has the lines that a plain word there gives it."""
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            for place in places(attack):
                sheet, paper = asked(place.group(attack.text))
                plain_sheet, plain = asked(place.group("word"))
                user, lines = paper.user, paper.user.split("\n")
                assert user.splitlines() == lines, place.name
                assert blocks(user) == {label: sheet.distinct[i] for label, i in paper.shown.items()}, (
                    place.name
                )
                assert [b.count("\n") for b in sheet.distinct] == [
                    b.count("\n") for b in plain_sheet.distinct
                ], place.name
                assert len(lines) == len(plain.user.split("\n")), place.name
                assert all(is_line(line) for body in sheet.distinct for line in body.split("\n")), place.name
                assert not RAW.search(user.replace("\n", "")), place.name
                honest = [f'assistant: "{answer}"' for answer in OTHERS]
                assert [body.split("\n")[-1] for body in sheet.distinct[1:]] == honest, place.name
                assert lines[-1] == "trajectory_ids to score: " + json.dumps(
                    list(paper.shown), separators=(",", ":")
                )
                assert not [label for label in paper.shown if label in attack.text], place.name
                system = write_prompt(plain_sheet, ASK).system
                assert paper.system == system, place.name


def test_flags(subtests: pytest.Subtests) -> None:
    """What speaks to the judge marks its own rollout, wherever it stands in it, and no other."""
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            for place in places(attack):
                flagged = {0} if attack.flagged and place.own else set()
                assert asked(place.group(attack.text))[0].suspects == flagged, place.name


def test_replies(subtests: pytest.Subtests) -> None:
    """A judge that repeats an attack in its answer gives its own scores or none, never the attack's."""
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            scores = dict(zip(LABELS, (0.25, 0.5, 0.75), strict=True))
            text = attack.text
            entries = [{"trajectory_id": n, "explanation": text, "score": s} for n, s in scores.items()]
            verdict = json.dumps({"scores": entries})
            raw = json.dumps({"scores": entries}, ensure_ascii=False)
            for reply in (verdict, raw, f"```json\n{verdict}\n```", f"<think>{text}</think>{verdict}"):
                try:
                    found = read(reply, LABELS)
                except DefectError:
                    assert len(text) > SMALL, reply[:200]
                    continue
                assert {label: entry[0] for label, entry in found.entries.items()} == scores
                assert {entry[1] for entry in found.entries.values()} == {
                    text.encode("utf-8", "replace").decode()
                }
            for reply in (
                text,
                f"{text}\n{verdict}",
                f"{verdict}\n{text}",
                f"It says: {text}",
                f"</think>{text}",
            ):
                with suppress(DefectError):
                    found = read(reply, LABELS)
                    assert {label: entry[0] for label, entry in found.entries.items()} == scores
                assert set(read_complete(reply, LABELS).items()) <= {
                    (n, (s, text)) for n, s in scores.items()
                }
