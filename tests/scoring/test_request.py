"""A group as the question put to the judge."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.records import Group, Line, Record, Rollout
from ruler_cli.scoring import words
from ruler_cli.scoring.render import blocks
from ruler_cli.scoring.request import compose, lay_out, parts
from ruler_cli.settings import AskSettings
from tests.values import group, read, talk, texts

SAMPLES = Path(__file__).parents[2] / "samples"
ASK = AskSettings()
TOOL, OTHER = {"name": "f"}, {"name": "g"}


def asked(made: Group, ask: AskSettings = ASK, attempt: int = 0) -> str:
    """The user message of a group."""
    return compose(lay_out(made, ask), ask, attempt=attempt).request.user


def test_shape() -> None:
    """What all share stands first and once, then the tools, the rollouts, and the ids to score."""
    user = asked(group(talk("4"), talk("5"), tools=[TOOL]))
    lines = user.split("\n")
    assert lines[:3] == ["<context>", 'user: "What is 2+2?"', "</context>"]
    assert lines[3:6] == ["<available_tools>", '{"name":"f"}', "</available_tools>"]
    assert sorted(blocks(user).values()) == ['assistant: "4"', 'assistant: "5"']
    assert lines[-1].startswith("trajectory_ids to score: [")


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=5), st.randoms(), st.integers(0, 3))
def test_permuted(answers: list[str], random: Any, attempt: int) -> None:
    """However the input is sorted, the identical question is asked."""
    mixed = list(answers)
    random.shuffle(mixed)
    assert asked(group(*map(talk, answers)), attempt=attempt) == asked(
        group(*map(talk, mixed)), attempt=attempt
    )


def test_seed_and_attempt() -> None:
    """Another seed or attempt changes labels and order; the same ones do not."""
    made = group(*map(talk, "abcdefgh"))
    users = {asked(made, replace(ASK, seed=seed), attempt) for seed in range(3) for attempt in range(3)}
    assert len(users) == 9
    assert len({tuple(blocks(user).values()) for user in users}) == 9
    assert not set.intersection(*(set(blocks(user)) for user in users))
    assert asked(made) == asked(made)


def test_order() -> None:
    """On request the rollouts stand in input order; otherwise every place is as likely."""
    made = group(*map(talk, "abcd"))
    kept = blocks(asked(made, replace(ASK, order="input")))
    assert list(kept.values()) == [f'assistant: "{a}"' for a in "abcd"]
    first = [next(iter(blocks(asked(made, replace(ASK, seed=n))).values())) for n in range(400)]
    assert all(70 < first.count(f'assistant: "{a}"') < 130 for a in "abcd")


def test_labels_in_no_text() -> None:
    """A rollout that holds every label of four letters is answered with longer ones."""
    letters = "bcdfghjkmnpqrstvwxz"
    every = " ".join(map("".join, itertools.product(letters, repeat=4)))
    paper = compose(lay_out(group(talk(every), talk("x"), talk("y")), ASK), ASK)
    assert len(paper.labels) == 3
    assert all(len(label) > 4 and label not in every for label in paper.labels)


def test_tools() -> None:
    """Tools that all share stand once, also against the group's; where they differ each shows its own."""
    one = [Rollout(talk(a), tools=[TOOL]) for a in "ab"]
    assert asked(group(*one)).count('{"name":"f"}') == 1
    assert asked(group(*one, tools=[TOOL])).count('{"name":"f"}') == 1
    differ = asked(group(one[0], Rollout(talk("b"), tools=[OTHER])))
    assert "<available_tools>" not in differ
    assert sorted(b.split("\n")[:2] for b in blocks(differ).values()) == [
        ["(tools of this rollout)", '{"name":"f"}'],
        ["(tools of this rollout)", '{"name":"g"}'],
    ]
    assert "<available_tools>\n" + '{"name":"f"}' in asked(group(*one, tools=[OTHER]))
    some = asked(group(one[0], talk("b"), tools=[OTHER]))
    assert "<available_tools>\n" + '{"name":"g"}' in some
    assert some.count('(tools of this rollout)\n{"name":"f"}') == 1


def test_rubric() -> None:
    """The group's own rubric wins over the option, the option over the built-in one."""
    made = group(talk("a"), talk("b"))
    own = group(talk("a"), talk("b"), rubric="OWN")
    ask = replace(ASK, rubric="OPTION")
    systems = [compose(lay_out(g, a), a).request.system for g, a in ((own, ask), (made, ask), (made, ASK))]
    assert ["OWN" in s for s in systems] == [True, False, False]
    assert ["OPTION" in s for s in systems] == [False, True, False]
    assert [words.RUBRIC in s for s in systems] == [False, False, True]


def test_alone() -> None:
    """One rollout is judged absolutely: the prompt up to the agent's first turn is its context."""
    sheet = lay_out(group(talk("4")), ASK)
    assert (sheet.context, sheet.bodies, sheet.alone) == ('user: "What is 2+2?"', ('assistant: "4"',), True)
    system = compose(sheet, ASK).request.system
    assert system.startswith("You are grading a rollout")
    only = lay_out(group([{"role": "user", "content": "x"}]), ASK)
    assert (only.context, only.bodies) == ("", ('user: "x"',))


OURS = {
    # seed, attempt, order: digest of the requests for samples/groups.jsonl
    (0, 0, "random"): "39a0e58d35dcb770242780a40f090237",
    (0, 1, "random"): "585d6c3bdd3b22c1578f1c146e36f6e4",
    (7, 2, "random"): "d9aaf596b772e2ffe5f3c86ea9482840",
    (0, 0, "input"): "9ff463d396069a9ac74fef7d28d1254b",
}
"""Requests of the first pass as ledgers in the field hold them: another byte, and they are paid for again."""


@pytest.mark.parametrize("case", OURS)
def test_first_pass_of_old_ledgers(case: tuple[int, int, Any]) -> None:
    """What the first pass asks is, to the byte, what was asked before there were passes."""
    seed, attempt, order = case
    ask = AskSettings(seed=seed, order=order)
    lines = (SAMPLES / "groups.jsonl").read_bytes().splitlines()
    whole = blake2b(digest_size=16)
    for record in read(*map(json.loads, lines)):
        sheet = lay_out(Group("g", (record,)), ask)
        request = compose(sheet, ask, attempt=attempt, note="n" * bool(attempt)).request
        whole.update("\0".join([request.system, request.user, *request.labels]).encode())
        assert request.turn == 0
    assert whole.hexdigest() == OURS[case]


answers = st.lists(texts, min_size=2, max_size=9, unique=True)


@settings(deadline=None)
@given(answers, st.integers(0, 9), st.integers(1, 3), st.integers(0, 1))
def test_labels_are_fresh(given_answers: list[str], turn: int, later: int, attempt: int) -> None:
    """Two passes, and two attempts of one, show the same rollouts under labels of their own.

    Of 130,000 labels the same may be drawn twice by chance, so of four one may be.
    """
    sheet = lay_out(group(*map(talk, given_answers)), ASK)
    one, other, corrected = (
        compose(sheet, ASK, parts(sheet, ASK, t)[0], a)
        for t, a in ((turn, attempt), (turn + later, attempt), (turn, attempt + 1))
    )
    chance = len(one.labels) // 4
    assert len(set(one.labels) & set(other.labels)) <= chance
    assert len(set(one.labels) & set(corrected.labels)) <= chance
    assert set(one.labels.values()) == set(other.labels.values()) == set(range(len(sheet.bodies)))
    assert (one.request.turn, other.request.turn) == (turn, turn + later)


def test_labels_tell_no_place() -> None:
    """Labels sorted by the alphabet are in no order that the places have."""
    sheet = lay_out(group(*map(talk, "abcdefgh")), ASK)
    agree = total = 0
    for seed in range(60):
        ask = replace(ASK, seed=seed)
        for turn in range(2):
            shown = list(compose(sheet, ask, parts(sheet, ask, turn)[0]).labels)
            agree += sum(a < b for a, b in itertools.combinations(shown, 2))
            total += 28
    assert 0.45 < agree / total < 0.55


def test_correction_within_a_pass() -> None:
    """A correction shows the rollouts of its part in an order of its own, or in input order on request."""
    sheet = lay_out(group(*map(talk, "abcdefgh")), ASK)
    for turn in range(3):
        part = parts(sheet, ASK, turn)[0]
        orders = {tuple(compose(sheet, ASK, part, attempt).labels.values()) for attempt in range(4)}
        assert len(orders) == 4
        assert part.bodies in orders
    kept = replace(ASK, order="input")
    for attempt in range(2):
        paper = compose(sheet, kept, parts(sheet, kept, 1)[0], attempt)
        assert list(paper.labels.values()) == list(range(8))


def test_part_of_a_group() -> None:
    """A request for a window shows the context, the window's rollouts and nothing of the others."""
    ask = replace(ASK, group_size=4)
    sheet = lay_out(group(*(talk(f"answer {n}") for n in range(10))), ask)
    for part in parts(sheet, ask, 1):
        paper = compose(sheet, ask, part)
        assert tuple(paper.labels.values()) == part.bodies
        assert list(blocks(paper.request.user).values()) == [sheet.bodies[body] for body in part.bodies]
        assert paper.request.user.count("answer") == len(part.bodies)
        assert "What is 2+2?" in paper.request.user


def test_records_apart() -> None:
    """A group in several records is asked like a group in one."""
    rollouts = [Rollout(talk(a)) for a in "abc"]
    apart = Group("g", tuple(Record(Line(i, 0, b""), (r,)) for i, r in enumerate(rollouts)))
    assert asked(apart) == asked(group(*rollouts))
