"""A large input from some of its groups, held to what laying out all of them gives."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.estimate.bill import Seat
from ruler_cli.estimate.extrapolate import extrapolate
from ruler_cli.estimate.notes import Notes
from ruler_cli.estimate.whole import Estimate, Range, estimate
from ruler_cli.judges.prices import Model, Price
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Fault, Reply
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings, InputSettings
from tests.estimate.one import estimate_one, extrapolate_one
from tests.values import talk

ASK = AskSettings()
PLAIN = Model(Price(2e-6, 8e-6, 5e-7), reasoning=False)
BODY = b'{"choices": [{"message": {"content": "{}"}}]}'
Record = dict[str, Any]


def dump(path: Path, groups: int, make: Callable[[random.Random, int], list[Record]], lie: str) -> Path:
    """A file of groups: a line each, or their rollouts adjacent, or scattered."""
    dice = random.Random(7)
    made = [make(dice, i) for i in range(groups)]
    if lie == "line":
        rows: list[Record] = [{"group_id": f"g{i}", "trajectories": each} for i, each in enumerate(made)]
    else:
        pairs = [(k, i, rollout) for i, each in enumerate(made) for k, rollout in enumerate(each)]
        order = sorted(pairs, key=lambda pair: pair[:2]) if lie == "scattered" else pairs
        rows = [{"group_id": f"g{i}", **rollout} for _, i, rollout in order]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def uneven(dice: random.Random, number: int) -> list[Record]:
    """Two to six rollouts of very different lengths; what they say is not all that is in the record."""
    asked = f"Task {number}: " + "why " * dice.randint(1, 60)
    return [
        {
            "messages": talk("so " * int(dice.triangular(5, 900, 60)) + f"{k}", asked),
            "reward": dice.random(),
            "logprobs": [0.125] * dice.randint(20, 60),
        }
        for k in range(dice.randint(2, 6))
    ]


@contextmanager
def noted(path: Path) -> Iterator[tuple[Notes, Input]]:
    """An input that is surveyed and noted."""
    notes = Notes()
    with ExitStack() as stack:
        stack.callback(notes.close)
        yield notes, open_input(InputSettings(str(path)), stack, lambda p: None, on_record=notes.add)


def both(path: Path, ask: AskSettings = ASK, model: Model = PLAIN, **more: Any) -> tuple[Estimate, Estimate]:
    """What all groups come to, laid out and extrapolated."""
    with noted(path) as (notes, found):
        guessed = extrapolate_one(notes, notes.overview(), found.picked, ask, model, **more)
        return estimate_one(found.groups, ask, model, **more), guessed


@pytest.mark.parametrize("lie", ["line", "adjacent", "scattered"])
def test_close(lie: str, tmp_path: Path) -> None:
    """Expected figures are near those of all groups, and the highest are no lower than theirs."""
    exact, guessed = both(dump(tmp_path / "in.jsonl", 900, uneven, lie))
    assert guessed.groups == exact.groups == exact.laid_out == 900
    assert 32 <= guessed.laid_out <= 200
    assert guessed.calls == exact.calls
    assert guessed.completion_tokens == exact.completion_tokens
    assert guessed.prompt_tokens.expected == pytest.approx(exact.prompt_tokens.expected, rel=0.1)
    assert guessed.prompt_tokens.high >= exact.prompt_tokens.high
    assert guessed.cost_usd is not None
    assert exact.cost_usd is not None
    assert guessed.cost_usd.low <= guessed.cost_usd.expected <= guessed.cost_usd.high
    assert guessed.cap_usd is not None
    assert exact.cap_usd is not None
    assert guessed.cap_usd >= exact.cap_usd
    assert guessed.lengths.total() == exact.lengths.total()
    assert abs(guessed.shared - exact.shared) < 0.05


def repeated(dice: random.Random, number: int) -> list[Record]:
    """Three rollouts; in every fifth group two are the same and in every tenth all; ids of calls differ."""

    def one(text: str) -> Record:
        identity = f"call_{dice.getrandbits(64):016x}"
        call = {"id": identity, "function": {"name": "look", "arguments": "{}"}}
        middle: list[Any] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": identity, "content": "found it " * 9},
        ]
        asked, answer = talk(text, f"Task {number}?")
        return {"messages": [asked, *middle, answer]}

    texts = {0: "aaa", 5: "aab"}.get(number % 10, "abc")
    return [one(f"It is {letter * 3}." * 9) for letter in texts]


def test_identical(tmp_path: Path) -> None:
    """Rollouts that repeat another, and groups of such alone, are found in every group."""
    exact, guessed = both(dump(tmp_path / "in.jsonl", 500, repeated, "scattered"))
    assert (exact.identical_rollouts, exact.tied_groups) == (150, 50)
    assert (guessed.identical_rollouts, guessed.tied_groups) == (150, 50)


def test_only_alike_at_a_look(tmp_path: Path) -> None:
    """What looks the same at first is not told as identical where laying out shows that it differs."""

    def alike(dice: random.Random, number: int) -> list[Record]:
        texts = [f"{k} or so " + "and so on " * 80 for k in range(3)]
        return [{"messages": talk(text, f"Task {number}?")} for text in texts]

    _, guessed = both(dump(tmp_path / "in.jsonl", 300, alike, "adjacent"))
    assert (guessed.identical_rollouts, guessed.tied_groups) == (0, 0)


@pytest.mark.parametrize("every", [100, 3])
def test_too_long(every: int, tmp_path: Path) -> None:
    """Groups that the judge cannot hold are counted, named and not paid for, where they are few exactly."""

    def some_long(dice: random.Random, number: int) -> list[Record]:
        words = 4_500 if number % every == 0 else 100
        return [{"messages": talk(f"{k} " + "word " * words)} for k in range(2)]

    path = dump(tmp_path / "in.jsonl", 600, some_long, "scattered")
    exact, guessed = both(path, AskSettings(context_tokens=4_000), Model(PLAIN.price, 4_000, reasoning=False))
    assert exact.too_long == 600 / every
    assert guessed.too_long == exact.too_long
    assert guessed.calls.expected == pytest.approx(exact.calls.expected)
    assert guessed.calls.high >= exact.calls.high
    assert guessed.laid_out < 300
    assert all(int(key[1:]) % every == 0 for key in guessed.too_long_keys)
    assert guessed.too_long_keys
    assert guessed.prompt_tokens.expected == pytest.approx(exact.prompt_tokens.expected, rel=0.1)


def test_kept(tmp_path: Path) -> None:
    """What the ledger answers of the sample is taken for its part of all; the highest figures ignore it."""
    path = dump(tmp_path / "in.jsonl", 600, uneven, "adjacent")
    with Ledger(tmp_path / "l.sqlite") as ledger:
        shelf = ReplyCache(ledger, "m", {})
        with noted(path) as (_, found):
            for i, group in enumerate(found.groups):
                if i % 2:
                    request = compose(lay_out(group, ASK), ASK).request
                    ledger.keep(shelf.key(request), "m", Reply("{}", body=BODY), 1.0)
        exact, guessed = both(path, kept=shelf)
        _, fresh = both(path)
    assert exact.kept == 300
    assert 180 < guessed.kept < 420
    assert guessed.kept + guessed.calls.expected == pytest.approx(600, abs=1)
    assert guessed.calls.high == fresh.calls.high
    assert guessed.cap_usd == fresh.cap_usd


def same(one: Range, other: Range) -> bool:
    """Whether two figures are one, but for what parts of a call lose in a sum."""
    return (one.low, one.expected, one.high) == pytest.approx((other.low, other.expected, other.high), abs=1)


def test_passes_and_windows(tmp_path: Path) -> None:
    """Passes, judges and windows of many rollouts are counted, not guessed, and none is laid out for it."""
    path = dump(tmp_path / "in.jsonl", 300, uneven, "adjacent")
    ask = AskSettings(passes=3, group_size=2)
    judges = [Seat("a", PLAIN), Seat("b", Model(reasoning=True)), Seat("c", PLAIN, role="escalation")]
    with noted(path) as (notes, found):
        guessed = extrapolate(notes, notes.overview(), found.picked, ask, judges, adaptive=True)
        exact = estimate(found.groups, ask, judges, adaptive=True)
    assert guessed.laid_out < 150
    assert 0 < exact.windowed < 300
    assert guessed.windowed == exact.windowed
    assert same(guessed.window_calls, exact.window_calls)
    for one, other in zip(guessed.judges, exact.judges, strict=True):
        assert same(one.calls, other.calls)
        assert one.prompt_tokens.expected == pytest.approx(other.prompt_tokens.expected, rel=0.1)
        assert one.prompt_tokens.high >= other.prompt_tokens.high
        assert same(one.completion_tokens, other.completion_tokens)


def test_windows_of_a_context(tmp_path: Path) -> None:
    """Windows that a context makes necessary are told about right, and such groups are not too long."""

    def large(dice: random.Random, number: int) -> list[Record]:
        sizes = dice.randint(10, 40) if number % 2 else 3
        return [{"messages": talk(f"{k} " + "word " * dice.randint(100, 300))} for k in range(sizes)]

    path = dump(tmp_path / "in.jsonl", 300, large, "adjacent")
    model = Model(PLAIN.price, 4_000, reasoning=False)
    exact, guessed = both(path, AskSettings(), model)
    assert guessed.laid_out < 250
    assert exact.too_long == guessed.too_long == 0
    assert guessed.windowed == pytest.approx(exact.windowed, rel=0.05)
    assert guessed.calls.expected == pytest.approx(exact.calls.expected, rel=0.1)
    assert guessed.prompt_tokens.expected == pytest.approx(exact.prompt_tokens.expected, rel=0.1)


def test_huge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group too large to be laid out here is too long only where its rollouts are."""
    monkeypatch.setattr("ruler_cli.estimate.extrapolate._HUGE", 100_000)

    def huge(dice: random.Random, number: int) -> list[Record]:
        many = {0: (40, 1_000), 1: (2, 30_000)}.get(number, (3, 100))
        return [{"messages": talk("word " * many[1] + f"{k}")} for k in range(many[0])]

    path = dump(tmp_path / "in.jsonl", 300, huge, "adjacent")
    exact, guessed = both(path, AskSettings(), Model(PLAIN.price, 8_000, reasoning=False))
    assert exact.too_long == guessed.too_long == 1
    assert exact.windowed == guessed.windowed == 1
    assert guessed.calls.expected == pytest.approx(exact.calls.expected, abs=4)


def test_refused_before(tmp_path: Path) -> None:
    """Where the ledger knows the first judge to refuse the sample, the next is expected to be asked."""
    path = dump(tmp_path / "in.jsonl", 200, uneven, "adjacent")
    with Ledger(tmp_path / "l.sqlite") as ledger, noted(path) as (notes, found):
        shelf = ReplyCache(ledger, "a", {})
        for i, group in enumerate(found.groups):
            if i % 2:
                request = compose(lay_out(group, ASK), ASK).request
                ledger.keep(shelf.key(request), "a", Fault("refused", "no", "group"), 1.0)
        judges = [Seat("a", PLAIN, kept=shelf), Seat("b", PLAIN, role="fallback")]
        guessed = extrapolate(notes, notes.overview(), found.picked, ASK, judges)
    assert 60 < guessed.judges[1].calls.expected < 140
    assert guessed.judges[1].calls.high == 400


def test_compressed(tmp_path: Path) -> None:
    """Groups of a file in which nothing can be looked up are found by reading it again."""
    import gzip

    path = dump(tmp_path / "in.jsonl", 300, uneven, "adjacent")
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert both(packed)[1] == both(path)[1]


def test_same_each_time(tmp_path: Path) -> None:
    """What is told of a file does not change from run to run: the sample is drawn by the groups' keys."""
    import os
    import subprocess
    import sys

    path = dump(tmp_path / "in.jsonl", 300, uneven, "scattered")
    code = "import ruler_cli.estimate.extrapolate as e; e.SMALL = 0; from ruler_cli.cli import main; main()"
    said = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        line = [sys.executable, "-c", code, "check", str(path), "--ledger", "none"]
        done = subprocess.run(line, capture_output=True, env=env, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1
    assert b"of 300 groups, spread over all" in said.pop()
