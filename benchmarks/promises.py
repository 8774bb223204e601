"""The promises that are ratios of two runs on one machine, each measured and held to its limit."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.child import LIMIT, PYTHON, ROOT, Cost, run, seconds_to_first_byte
from benchmarks.inputs import Layout, write_rich, write_small
from benchmarks.results import Result
from tests.judge_server import JudgeServer

TAU_BENCH = ROOT.parent / "shared" / "data" / "tau_bench_gpt4o_airline.jsonl"
_IN_FLIGHT = "32"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is run: groups of the short and the long run of each kind, and repeats."""

    direct: tuple[int, int] = (200, 1_200)
    litellm: tuple[int, int] = (60, 360)
    memory: tuple[int, int] = (1_000, 100_000)
    several: tuple[int, int] = (1_000, 4_000)
    repeats: int = 3
    starts: int = 7


QUICK = Sizes(
    direct=(100, 500), litellm=(20, 100), memory=(1_000, 10_000), several=(1_000, 3_000), repeats=1, starts=3
)


def speed(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Promise 1: a long run less a short one, so that start-up is in neither cost nor rate."""
    yield from _speed(folder, sizes, rollouts=3, size="9 kB", floors=4.0)
    yield from _speed(folder, sizes, rollouts=8, size="22 kB", floors=2.5)


def _speed(folder: Path, sizes: Sizes, rollouts: int, size: str, floors: float) -> Iterator[Result]:
    contenders: dict[str, tuple[Callable[..., list[str]], tuple[int, int]]] = {
        "floor": (partial(_loop, "floor"), sizes.direct),
        "ruler": (_ruler, sizes.direct),
        "litellm": (partial(_loop, "litellm_loop"), sizes.litellm),
    }
    needed = sorted({*sizes.direct, *sizes.litellm})
    files = {n: write_rich(folder / f"rich-{rollouts}-{n}.jsonl", n, rollouts) for n in needed}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    with JudgeServer(lifetime=3600) as server:
        for _ in range(sizes.repeats):
            for name, (command, (few, many)) in contenders.items():
                short, long = (_whole(command, files[n], n, server.base) for n in (few, many))
                cpu[name].append((long.cpu - short.cpu) / (many - few))
                wall[name].append((long.wall - short.wall) / (many - few))
    ms = {name: 1000 * statistics.median(values) for name, values in cpu.items()}
    rate = {name: 1 / statistics.median(values) for name, values in wall.items()}
    name = f"CPU per group of {size}, ruler / bare aiohttp loop"
    detail = f"{ms['ruler']:.2f} / {ms['floor']:.2f} ms"
    yield Result(1, name, ms["ruler"] / ms["floor"], detail, "<=", floors)
    name = f"groups of {size} per second, ruler / litellm loop"
    detail = f"{rate['ruler']:.0f} / {rate['litellm']:.0f} per s; floor {rate['floor']:.0f}"
    yield Result(1, name, rate["ruler"] / rate["litellm"], detail, ">=", 5.0)


def passes(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """CPU of a call where a group has four, against a group's only one; a long run less a short one."""
    few, many = (n // 2 for n in sizes.direct)
    files = {n: write_rich(folder / f"rich-{n}.jsonl", n) for n in (few, many)}
    cpu = []
    with JudgeServer(lifetime=3600) as server:
        for number in (1, 4):
            make = partial(_ruler, base=server.base, passes=number)
            short, long = (_whole(make, files[n], n) for n in (few, many))
            cpu.append(1000 * (long.cpu - short.cpu) / (many - few))
    one, four = cpu
    detail = f"{four / 4:.2f} / {one:.2f} ms; {four:.2f} ms per group"
    yield Result(None, "CPU per call, 4 passes / 1 pass", four / 4 / one, detail)


def memory(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Promise 4: peak memory does not grow with the file, however its groups lie and are judged."""
    with JudgeServer(lifetime=3600) as server:
        yield _peaks(folder, sizes.memory, "line", "server", partial(_ruler, base=server.base))
    layouts: tuple[Layout, ...] = ("line", "adjacent", "scattered")
    for layout in layouts:
        yield _peaks(folder, sizes.memory, layout, "offline", partial(_embedded, "offline"))
    several: dict[str, Callable[[str, str], list[str]]] = {
        "2 passes to a file": partial(_embedded, "simulated", passes=2),
        "4 passes --adaptive to stdout": _piped,
    }
    for what, make in several.items():
        yield _peaks(folder, sizes.several, "line", f"simulated, {what}", make)


def _peaks(
    folder: Path,
    numbers: tuple[int, int],
    layout: Layout,
    judge: str,
    command: Callable[[str, str], list[str]],
) -> Result:
    costs = []
    for groups in numbers:
        path = write_small(folder / "small.jsonl", groups, layout)
        costs.append(_whole(command, path, groups if layout == "line" else 2 * groups))
        path.unlink()
    few, many = costs
    detail = f"{many.peak / _MIB:.1f} / {few.peak / _MIB:.1f} MiB; {many.wall:.0f} s"
    name = f"peak memory, {numbers[1]:,} / {numbers[0]:,} groups, {layout}, {judge}"
    return Result(4, name, many.peak / few.peak, detail, "<=", 1.1)


def starts(folder: Path, sizes: Sizes) -> Iterator[Result]:
    """Promise 5: the best of several starts, since only noise makes one slower."""
    times = range(sizes.starts)
    shown = min(run([PYTHON, "-m", "ruler_cli", "--help"]).wall for _ in times)
    typer = min(run([PYTHON, "-c", "import typer"]).wall for _ in times)
    detail = f"{1000 * shown:.0f} / {1000 * typer:.0f} ms"
    yield Result(5, "start, ruler --help / import typer", shown / typer, detail, "<=", 2.0)
    source = str(write_rich(folder / "rich-1.jsonl", 1))
    command = [*_score(source, str(folder / "scored.jsonl"), "-m", "openai/good"), "--api-base"]
    first = min(seconds_to_first_byte(command) for _ in times)
    litellm = min(run([PYTHON, "-c", "import litellm"]).wall for _ in times)
    detail = f"{1000 * first:.0f} / {1000 * litellm:.0f} ms"
    yield Result(5, "start, first request / import litellm", first / litellm, detail, "<=", 0.1)


def tokens(_folder: Path, _sizes: Sizes) -> Iterator[Result]:
    """Promise 6: what a judge is billed for, on real rollouts."""
    what = "prompt size, ruler / json.dumps, tau-bench"
    if not TAU_BENCH.exists():
        yield Result(6, what, None, f"skipped: {TAU_BENCH} is not there", "<=", 0.72)
        return
    command = [PYTHON, "-m", "benchmarks.tokens", str(TAU_BENCH)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=LIMIT, check=True)
    n = json.loads(done.stdout)
    detail = f"{n['ours']:,} / {n['dumped']:,} {n['unit']}; ours {n['bytes'] / n['ours']:.2f} bytes each"
    yield Result(6, what, n["ours"] / n["dumped"], detail, "<=", 0.72)


def _loop(module: str, source: str, output: str, base: str) -> list[str]:
    return [PYTHON, "-m", f"benchmarks.{module}", source, output, base, _IN_FLIGHT]


def _ruler(source: str, output: str, base: str, passes: int = 1) -> list[str]:
    return _score(source, output, "-m", "openai/good", "--api-base", base, "--passes", str(passes))


def _embedded(judge: str, source: str, output: str, passes: int = 1) -> list[str]:
    return _score(source, output, "-m", judge, "--passes", str(passes))


def _piped(source: str, output: str) -> list[str]:
    """To stdout, which a shell sends there and then is the command itself."""
    line = _score(source, "-", "-m", "simulated", "--passes", "4", "--adaptive")
    return ["sh", "-c", 'exec "$@" >"$0"', output, *line]


def _score(source: str, output: str, *options: str) -> list[str]:
    common = ["-c", _IN_FLIGHT, "--progress", "none", "--ledger", f"{output}.ledger"]
    return [PYTHON, "-m", "ruler_cli", "score", source, output, *common, *options]


def _whole(make: Callable[..., list[str]], source: Path, lines: int, *more: str) -> Cost:
    """Run a command that scores a file; SystemExit where it did not write so many lines."""
    output = source.with_name("scored.jsonl")
    command = make(str(source), str(output), *more)
    cost = run(command)
    for kept in source.parent.glob("*.ledger*"):  # the next run is to ask again
        kept.unlink()
    with output.open("rb") as file:
        written = sum(1 for _ in file)
    output.unlink()
    if written != lines:
        raise SystemExit(f"{' '.join(command)} wrote {written} of {lines} lines")
    return cost
