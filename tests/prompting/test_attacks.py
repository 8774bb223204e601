"""The attack corpus: the structure holds against all of it, and text that addresses the judge is flagged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

import pytest

from ruler_cli.judges.offline import blocks
from ruler_cli.prompting.prompt import PromptLayout, build_layout
from ruler_cli.scoring.parse_reply import DefectError, parse
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, Request
from tests.attacks import FAMILIES, PLACES, Attack, Place
from tests.attacks.places import OTHERS
from tests.values import first_request

ASK = AskSettings()
ATTACKS = {
    f"{family}-{number}": attack
    for family, attacks in FAMILIES.items()
    for number, attack in enumerate(attacks)
}
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
JSON_STRING = r'"(?:[^"\\]|\\.)*+"'
HEAD = re.compile(
    rf"(?:(?:call |tool )?(?:[\w.\-]+|{JSON_STRING})(?: thinking| [\w.\-]+| {JSON_STRING})?: )?"
)
OURS = re.compile(
    r"\(tools of this rollout\)|\(part 2 of the same rollout(?:, again from the shared context)?\)"
)
LABELS = ("zqxwvtk", "kxzzvbn", "wqqjxfd")
"""Labels that stand in no attack, as `write_prompt` makes sure."""
SMALL = 20_000
"""Characters of the longest attack that is tried in every place: a longer one takes seconds in each."""


def asked(group: Group) -> tuple[PromptLayout, Request]:
    """Return a group's layout and its first prompt."""
    layout = build_layout(group, ASK)
    return layout, first_request(layout, ASK)


@cache
def plain(place: Place) -> tuple[PromptLayout, Request]:
    """Return the layout and the prompt of a plain word in a place."""
    return asked(place.group("word"))


def places(attack: Attack) -> Iterator[Place]:
    """Yield the places in which an attack is tried."""
    for place in PLACES:
        if attack.whole and place.name != "assistant's message":
            continue
        if len(attack.text) <= SMALL or place.name in (
            "assistant's message",
            "tool result",
        ):
            yield place


def is_line(line: str) -> bool:
    """Return whether a line is a head and one JSON value."""
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
    """In any place an attack gives the prompt the lines of a plain word, and flags its own rollout alone."""
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            for place in places(attack):
                layout, prompt = asked(place.group(attack.text))
                plain_layout, plain_prompt = plain(place)
                user, lines = prompt.user, prompt.user.split("\n")
                assert user.splitlines() == lines, place.name
                assert blocks(user) == {
                    label: layout.distinct[i]
                    for label, i in prompt.shown.items()
                }, place.name
                assert [text.count("\n") for text in layout.distinct] == [
                    text.count("\n") for text in plain_layout.distinct
                ], place.name
                assert len(lines) == len(plain_prompt.user.split("\n")), (
                    place.name
                )
                assert all(
                    is_line(line)
                    for rollout in layout.distinct
                    for line in rollout.split("\n")
                ), place.name
                assert not RAW.search(user.replace("\n", "")), place.name
                honest = [f'assistant: "{answer}"' for answer in OTHERS]
                assert [
                    rollout.split("\n")[-1] for rollout in layout.distinct[1:]
                ] == honest, place.name
                assert lines[-1] == "trajectory_ids to score: " + json.dumps(
                    list(prompt.shown), separators=(",", ":")
                )
                assert not [
                    label for label in prompt.shown if label in attack.text
                ], place.name
                assert prompt.system == plain_prompt.system, place.name
                flagged = {0} if attack.flagged and place.own else set()
                assert layout.suspects == flagged, place.name


def test_replies(subtests: pytest.Subtests) -> None:
    """A judge that repeats an attack in its answer gives its own scores or none, never the attack's."""
    for name, attack in ATTACKS.items():
        with subtests.test(name):
            scores = dict(zip(LABELS, (0.25, 0.5, 0.75), strict=True))
            text = attack.text
            entries = [
                {"trajectory_id": n, "explanation": text, "score": s}
                for n, s in scores.items()
            ]
            answer = json.dumps({"scores": entries})
            raw = json.dumps({"scores": entries}, ensure_ascii=False)
            for reply in (
                answer,
                raw,
                f"```json\n{answer}\n```",
                f"<think>{text}</think>{answer}",
            ):
                try:
                    reply_scores = parse(reply, LABELS)
                except DefectError:
                    assert len(text) > SMALL, reply[:200]
                    continue
                assert {
                    label: entry[0][0]
                    for label, entry in reply_scores.entries.items()
                } == scores
                assert {
                    entry[1] for entry in reply_scores.entries.values()
                } == {text.encode("utf-8", "replace").decode()}
            for reply in (
                text,
                f"{text}\n{answer}",
                f"{answer}\n{text}",
                f"It says: {text}",
                f"</think>{text}",
            ):
                with suppress(DefectError):
                    reply_scores = parse(reply, LABELS)
                    assert {
                        label: entry[0][0]
                        for label, entry in reply_scores.entries.items()
                    } == scores
