"""`ruler check` against a bare loop of `orjson.loads`, and `score` on scattered groups against adjacent ones.

Both are measured in CPU seconds of one process each: other programs on the machine affect these least.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import Cost, command, ended, run
from benchmarks.dumps import Shape, write
from benchmarks.inputs import Order, write_small
from benchmarks.results import Result, alone

_MB = 10**6
_MIB = 1 << 20
_PROMISED = 1000 * _MB


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Speed and memory of `check` for two shapes, then the scattered path of `score` for three."""
    shapes: tuple[Shape, ...] = ("texts", "chats")
    small, large = (70 * _MB, 200 * _MB) if quick else (100 * _MB, 1000 * _MB)
    for shape in shapes:
        yield from _checked(folder, shape, small, large)
    for shape in shapes:
        yield _scattered(folder, shape, 30 * _MB if quick else 300 * _MB)
    yield _tiny(folder, 10_000 if quick else 100_000)


def _checked(
    folder: Path, shape: Shape, small: int, large: int
) -> Iterator[Result]:
    few = _check(write(folder / "dump.jsonl", shape, small, "scattered"))
    source = write(folder / "dump.jsonl", shape, large, "scattered")
    run(
        "benchmarks.parse_loop", source
    )  # so that the file is in memory for both
    bare = run("benchmarks.parse_loop", source)
    many = _check(source)
    source.unlink()
    detail = f"{many.cpu:.2f} / {bare.cpu:.2f} s CPU, {many.wall:.2f} / {bare.wall:.2f} s wall"
    what = f"{shape}, {large // _MB} MB"
    limit = (
        0.5 if large >= _PROMISED else None
    )  # with less, the cost of the start is too large a share
    yield Result(
        8,
        f"speed of check / orjson.loads, {what}",
        bare.cpu / many.cpu,
        detail,
        ">=",
        limit,
    )
    detail = f"{many.peak / _MIB:.1f} / {few.peak / _MIB:.1f} MiB"
    what = f"peak memory of check, {shape}, {large // _MB} / {small // _MB} MB"
    yield Result(8, what, many.peak / few.peak, detail, "<=", 1.1)


def _check(source: Path) -> Cost:
    return run("ruler_cli", "check", source, "--ledger", "none")


def _scattered(folder: Path, shape: Shape, size: int) -> Result:
    def cost(order: Order) -> Cost:
        return _score(write(folder / "dump.jsonl", shape, size, order))

    return _ratio(
        f"{shape}, {size // _MB} MB", cost("adjacent"), cost("scattered")
    )


def _tiny(folder: Path, groups: int) -> Result:
    def cost(order: Order) -> Cost:
        return _score(write_small(folder / "small.jsonl", groups, order))

    return _ratio(
        f"{groups:,} groups of 2 short ones",
        cost("adjacent"),
        cost("scattered"),
    )


def _ratio(what: str, adjacent: Cost, scattered: Cost) -> Result:
    detail = f"{scattered.cpu:.1f} / {adjacent.cpu:.1f} s CPU; peak {scattered.peak / _MIB:.1f} MiB"
    return Result(
        8,
        f"score, scattered / adjacent, {what}",
        scattered.cpu / adjacent.cpu,
        detail,
        "<=",
        2.5,
    )


def _score(source: Path) -> Cost:
    output = source.with_name("scored.jsonl")
    cost = ended(command(source, output, None, m="offline")).cost
    source.unlink()
    output.unlink()
    return cost


if __name__ == "__main__":
    sys.exit(alone(measure))
