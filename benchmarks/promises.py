"""The promises that are ratios of two runs on one machine, each measured and compared with its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.commands import (
    PYTHON,
    ROOT,
    Cost,
    command,
    ended,
    printed,
    run,
    seconds_to_first_byte,
)
from benchmarks.inputs import Layout, write_rich, write_small
from benchmarks.results import Result
from tests.judge_server import JudgeServer

TAU_BENCH = ROOT.parent / "shared" / "data" / "tau_bench_gpt4o_airline.jsonl"
_IN_FLIGHT = 32
Make = Callable[..., list[str]]
"""The command line for a source, an output and an endpoint."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the runs: groups of the short and the long run of each kind, and repeats."""

    direct: tuple[int, int] = (200, 1_200)
    litellm: tuple[int, int] = (60, 360)
    memory: tuple[int, int] = (1_000, 100_000)
    several: tuple[int, int] = (1_000, 4_000)
    repeats: int = 5
    starts: int = 7


QUICK = Sizes(
    direct=(100, 500),
    litellm=(20, 100),
    memory=(1_000, 10_000),
    several=(1_000, 3_000),
    repeats=1,
    starts=3,
)


def speed(folder: Path, quick: bool) -> Iterator[Result]:
    """Promise 1: a long run less a short one, so that start-up is in neither cost nor rate."""
    sizes = QUICK if quick else Sizes()
    yield from _speed(folder, sizes, rollouts=3, size="9 kB", floors=3.5)
    yield from _speed(folder, sizes, rollouts=8, size="22 kB", floors=3.0)


def _speed(
    folder: Path, sizes: Sizes, rollouts: int, size: str, floors: float
) -> Iterator[Result]:
    contenders: dict[str, tuple[Make, tuple[int, int]]] = {
        "floor": (partial(_loop, "floor"), sizes.direct),
        "ruler": (_score, sizes.direct),
        "litellm": (partial(_loop, "litellm_loop"), sizes.litellm),
    }
    needed = sorted({*sizes.direct, *sizes.litellm})
    files = {
        n: write_rich(folder / f"rich-{rollouts}-{n}.jsonl", n, rollouts)
        for n in needed
    }
    costs: dict[tuple[str, int], list[Cost]] = {}
    with JudgeServer(lifetime=3600) as server:
        for _ in range(sizes.repeats):
            for name, (make, groups) in contenders.items():
                for n in groups:
                    costs.setdefault((name, n), []).append(
                        _run_to_the_end(make, files[n], n, server.base)
                    )
    ms, rate = dict[str, float](), dict[str, float]()
    for (
        name,
        (
            _,
            (few, many),
        ),
    ) in (
        contenders.items()
    ):  # the least of several: only noise makes one slower
        cpu, wall = (
            {
                n: min(getattr(c, kind) for c in costs[name, n])
                for n in (few, many)
            }
            for kind in ("cpu", "wall")
        )
        ms[name] = 1000 * (cpu[many] - cpu[few]) / (many - few)
        rate[name] = (many - few) / (wall[many] - wall[few])
    name = f"CPU per group of {size}, ruler / bare aiohttp loop"
    detail = f"{ms['ruler']:.2f} / {ms['floor']:.2f} ms"
    yield Result(1, name, ms["ruler"] / ms["floor"], detail, "<=", floors)
    name = f"groups of {size} per second, ruler / litellm loop"
    detail = f"{rate['ruler']:.0f} / {rate['litellm']:.0f} per s; floor {rate['floor']:.0f}"
    yield Result(1, name, rate["ruler"] / rate["litellm"], detail, ">=", 5.0)


def passes(folder: Path, quick: bool) -> Iterator[Result]:
    """Compare the CPU of a call in groups of four passes and of one; a long run less a short one."""
    sizes = QUICK if quick else Sizes()
    few, many = (n // 2 for n in sizes.direct)
    files = {n: write_rich(folder / f"rich-{n}.jsonl", n) for n in (few, many)}
    cpu = []
    with JudgeServer(lifetime=3600) as server:
        for number in (1, 4):
            make = partial(_score, passes=number)
            short, long = (
                _run_to_the_end(make, files[n], n, server.base)
                for n in (few, many)
            )
            cpu.append(1000 * (long.cpu - short.cpu) / (many - few))
    one, four = cpu
    detail = f"{four / 4:.2f} / {one:.2f} ms; {four:.2f} ms per group"
    yield Result(
        None, "CPU per call, 4 passes / 1 pass", four / 4 / one, detail
    )


def memory(folder: Path, quick: bool) -> Iterator[Result]:
    """Promise 4: peak memory does not grow with the file, in any layout of groups and with any judge."""
    sizes = QUICK if quick else Sizes()
    with JudgeServer(lifetime=3600) as server:
        yield _peaks(
            folder, sizes.memory, "line", "server", _score, server.base
        )
    layouts: tuple[Layout, ...] = ("line", "adjacent", "scattered")
    for layout in layouts:
        yield _peaks(
            folder,
            sizes.memory,
            layout,
            "offline",
            partial(_score, m="offline"),
        )
    several: dict[str, Make] = {
        "2 passes to a file": partial(_score, m="simulated", passes=2),
        "4 passes --set adaptive=true to stdout": _piped,
    }
    for what, make in several.items():
        yield _peaks(folder, sizes.several, "line", f"simulated, {what}", make)


def _peaks(
    folder: Path,
    numbers: tuple[int, int],
    layout: Layout,
    judge: str,
    make: Make,
    base: str | None = None,
) -> Result:
    costs = []
    for groups in numbers:
        path = write_small(folder / "small.jsonl", groups, layout)
        costs.append(
            _run_to_the_end(
                make, path, groups if layout == "line" else 2 * groups, base
            )
        )
        path.unlink()
    few, many = costs
    detail = (
        f"{many.peak / _MIB:.1f} / {few.peak / _MIB:.1f} MiB; {many.wall:.0f} s"
    )
    name = f"peak memory, {numbers[1]:,} / {numbers[0]:,} groups, {layout}, {judge}"
    return Result(4, name, many.peak / few.peak, detail, "<=", 1.1)


def starts(folder: Path, quick: bool) -> Iterator[Result]:
    """Promise 5: the best of several starts, since only noise makes one slower."""
    sizes = QUICK if quick else Sizes()
    times = range(sizes.starts)
    shown = min(run("ruler_cli", "--help").wall for _ in times)
    typer = min(ended([PYTHON, "-c", "import typer"]).cost.wall for _ in times)
    detail = f"{1000 * shown:.0f} / {1000 * typer:.0f} ms"
    yield Result(
        5,
        "start, ruler --help / import typer",
        shown / typer,
        detail,
        "<=",
        1.2,
    )
    source = write_rich(folder / "rich-1.jsonl", 1)
    line = [*_score(source, folder / "scored.jsonl", None), "--api-base"]
    first = min(seconds_to_first_byte(line) for _ in times)
    litellm = min(
        ended([PYTHON, "-c", "import litellm"]).cost.wall for _ in times
    )
    detail = f"{1000 * first:.0f} / {1000 * litellm:.0f} ms"
    yield Result(
        5,
        "start, first request / import litellm",
        first / litellm,
        detail,
        "<=",
        0.15,
    )


def tokens(_folder: Path, _quick: bool) -> Iterator[Result]:
    """Promise 6: the tokens that a judge bills, on real rollouts."""
    what = "prompt size, ruler / json.dumps, tau-bench"
    if not TAU_BENCH.exists():
        yield Result(
            6, what, None, f"skipped: {TAU_BENCH} is not there", "<=", 0.72
        )
        return
    n = printed("benchmarks.tokens", TAU_BENCH)
    detail = f"{n['ours']:,} / {n['dumped']:,} {n['unit']}; ours {n['bytes'] / n['ours']:.2f} bytes each"
    yield Result(6, what, n["ours"] / n["dumped"], detail, "<=", 0.72)


def _loop(module: str, source: Path, output: Path, base: str) -> list[str]:
    return [
        PYTHON,
        "-m",
        f"benchmarks.{module}",
        str(source),
        str(output),
        base,
        str(_IN_FLIGHT),
    ]


def _score(
    source: Path, output: Path, base: str | None, **options: object
) -> list[str]:
    return command(
        source, output, base, c=_IN_FLIGHT, ledger=f"{output}.ledger", **options
    )


def _piped(source: Path, output: Path, base: None) -> list[str]:
    """Write to stdout, which a shell redirects before it becomes the command itself."""
    line = command(
        source,
        Path("-"),
        base,
        c=_IN_FLIGHT,
        m="simulated",
        passes=4,
        adaptive=True,
    )
    return ["sh", "-c", 'exec "$@" >"$0"', str(output), *line]


def _run_to_the_end(
    make: Make, source: Path, lines: int, base: str | None
) -> Cost:
    """Run a command that scores a file; SystemExit if it does not write so many lines."""
    output = source.with_name("scored.jsonl")
    line = make(source, output, base)
    cost = ended(line).cost
    for ledger_file in source.parent.glob(
        "*.ledger*"
    ):  # so that the next run asks again
        ledger_file.unlink()
    with output.open("rb") as file:
        written = sum(1 for _ in file)
    output.unlink()
    if written != lines:
        raise SystemExit(f"{' '.join(line)} wrote {written} of {lines} lines")
    return cost
