"""A group as the question put to the judge."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.records import Group, Line, Record, Rollout
from ruler_cli.scoring import words
from ruler_cli.scoring.render import blocks
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings
from tests.values import group, talk, texts

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


def test_members() -> None:
    """Parts of one rollout are shown as one, in their order, and have one owner; a broken part has none."""
    parts = [Rollout(talk(said), (i,), member="one") for i, said in enumerate(("first", "second"))]
    broken = Rollout([], (2,), member="one", fault="is no object")
    sheet = lay_out(group(*parts, Rollout(talk("other"), (3,)), broken), ASK)
    assert sheet.owner == (0, 0, 1, None)
    assert sheet.bodies[0].index("first") < sheet.bodies[0].index("second")
    late = lay_out(group(broken, *parts), ASK)
    assert late.owner == (None, 0, 0)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
def test_identical(answers: list[str]) -> None:
    """Identical rollouts are shown once, and each knows which one it is."""
    sheet = lay_out(group(*map(talk, answers)), ASK)
    assert len(sheet.bodies) == len(set(answers))
    assert [f'"{a}"' in sheet.bodies[i or 0] for a, i in zip(answers, sheet.owner, strict=True)] == [
        True
    ] * len(answers)
    assert sheet.alone is (len(set(answers)) == 1)


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


def test_histories() -> None:
    """Further histories are further parts of the same rollout, without the shared context again."""
    sheet = lay_out(group(Rollout(talk("4"), histories=(talk("5"), talk("6", "Why?"))), talk("7")), ASK)
    assert sheet.bodies[0].split("\n") == [
        'assistant: "4"',
        "(part 2 of the same rollout, again from the shared context)",
        'assistant: "5"',
        "(part 3 of the same rollout)",
        'user: "Why?"',
        'assistant: "6"',
    ]


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


def test_prefix() -> None:
    """A rollout that is the beginning of another keeps a line of its own."""
    long = [*talk("4"), {"role": "user", "content": "ok"}]
    sheet = lay_out(group(talk("4"), long), ASK)
    assert sheet.context == 'user: "What is 2+2?"'
    assert sheet.bodies == ('assistant: "4"', 'assistant: "4"\nuser: "ok"')


def test_equal_in_python_only() -> None:
    """Messages that Python takes for equal and JSON does not are not shared."""
    asks = [[{"role": "user", "content": value}, *talk("4")] for value in (1, True, 1.0)]
    sheet = lay_out(group(*asks), ASK)
    assert not sheet.context
    assert [body.split("\n")[0] for body in sheet.bodies] == ['user: "1"', 'user: "true"', 'user: "1.0"']


def test_opening_of_the_shortest() -> None:
    """A rollout that ends within what all share keeps its last message for itself."""
    sheet = lay_out(group(talk("4"), talk("4") + talk("5")), ASK)
    assert sheet.context == 'user: "What is 2+2?"'
    assert sheet.bodies[0] == 'assistant: "4"'


def test_unreadable_rollout() -> None:
    """A rollout that could not be read is not shown, and moves nobody else."""
    sheet = lay_out(group(talk("a"), Rollout([], fault="is no object"), talk("b")), ASK)
    assert sheet.owner == (0, None, 1)
    assert lay_out(group(Rollout([], fault="is no object")), ASK).bodies == ()


def long_rollout(answer: str) -> list[dict[str, Any]]:
    """A rollout with a long question, tool output, thought and answer."""
    return [
        {"role": "user", "content": "QUESTION " * 100},
        {"role": "assistant", "reasoning": "thought " * 1000, "content": f"Let me look for {answer}."},
        {"role": "tool", "content": "output " * 5000},
        {"role": "assistant", "content": answer + " ANSWER" * 100},
    ]


@pytest.mark.parametrize("tokens", [30_000, 8_000, 3_500, 2_000])
def test_shortened(tokens: int) -> None:
    """What does not fit is cut in the middle of tool outputs, then of thoughts, and marked; no more."""
    made = group(long_rollout("a"), long_rollout("b"))
    ask = replace(ASK, context_tokens=tokens)
    sheet = lay_out(made, ask)
    user = asked(made, ask)
    assert sheet.tokens <= tokens
    assert user.count("QUESTION") == 100
    assert user.count("ANSWER") == 200
    assert (sheet.shortening == 0) is ("left out by ruler" not in user)
    assert (sheet.shortening == 0) is (tokens == 30_000)
    if "thought" in user and tokens > 7_000:
        assert user.count("thought ") == 2000


def test_too_long() -> None:
    """What cannot be cut stays whole, and too long."""
    made = group(long_rollout("a"), long_rollout("b"))
    sheet = lay_out(made, replace(ASK, context_tokens=100))
    assert sheet.tokens > 100


def test_records_apart() -> None:
    """A group in several records is asked like a group in one."""
    rollouts = [Rollout(talk(a)) for a in "abc"]
    apart = Group("g", tuple(Record(Line(i, 0, b""), (r,)) for i, r in enumerate(rollouts)))
    assert asked(apart) == asked(group(*rollouts))
