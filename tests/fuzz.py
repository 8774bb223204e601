"""A fuzzer for dumps: examples are damaged, scored and held to the laws.

`python -m tests.fuzz FILE… --mutations 50000` damages records of the examples at random (bytes, JSON
values, keys, nesting, whole lines), scores the result with the simulated judge, and stops at the
first dump after which

- an exception was raised that is no RulerError,
- an input line is neither in OUTPUT, in its place and with nothing but ruler's own fields changed, nor
  verbatim in the failed file,
- a group that could not be read cost a call,
- a score stands on another rollout than the one that states it.

Dumps are JSON lines, plain or compressed, lists, documents, archives of samples and directories.
The dump that broke a law is left in the working directory. The same seed makes the same dumps.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

from ruler_cli.cli.safe_text import safe
from ruler_cli.errors import RulerError, UnreadableError
from ruler_cli.files.parse import dump, parse
from ruler_cli.runs.file import score
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
)
from ruler_cli.types import Observer
from tests.fuzz_containers import (
    KINDS,
    OUTPUT,
    fits,
    in_files_read,
    pack,
    unpack,
)
from tests.fuzz_truths import EXACT, misplaced, plant
from tests.values import NASTY

OURS = {"ruler", "metrics", "logs"}
REWARDS = {
    "reward", "rewards", "score", "scores", "overall_score", "value", "extra", "result", "reward_info",
    "evaluation_result", "trajectory_json", "explanation", "metadata", "info", "verifier_result",
}  # fmt: skip
"""Members that may hold a reward in some format, and so may change."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**70, -(2**63), float("nan"), float("inf"), "", "x", [], {}, [[]], [{}],
    {"role": "assistant"}, {"message": {}}, [None], [1, "a"], {"": ""}, "[]", "{}", '{"a": [', [[[[[]]]]],
    "assistant", {"role": 7, "content": {"a": 1}}, {"type": "function_call"}, *NASTY,
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def _holder(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path[:-1]:
        value = value[part]
    return value


def change_value(record: bytes, rng: random.Random) -> bytes:
    """One value, at any depth, becomes another."""
    return _at_random(
        record,
        rng,
        lambda holder, key: holder.__setitem__(key, rng.choice(VALUES)),
    )


def drop_value(record: bytes, rng: random.Random) -> bytes:
    """One member or item is missing."""
    return _at_random(record, rng, lambda holder, key: holder.__delitem__(key))


def wrap_value(record: bytes, rng: random.Random) -> bytes:
    """One value stands deeper than before, or as JSON text."""

    def wrap(holder: Any, key: Any) -> None:
        inner = holder[key]
        holder[key] = rng.choice(
            (
                [inner],
                {"message": inner},
                {"role": inner},
                json.dumps(inner),
                [inner] * 3,
            )
        )

    return _at_random(record, rng, wrap)


def rename_key(record: bytes, rng: random.Random) -> bytes:
    """One member has another name."""

    def rename(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder[
                rng.choice(
                    (
                        "",
                        "messages",
                        "ruler",
                        "reward",
                        "x" * 50,
                        "\ud800",
                        "metrics",
                    )
                )
            ] = holder.pop(key)

    return _at_random(record, rng, rename)


def _at_random(
    record: bytes, rng: random.Random, change: Callable[[Any, Any], None]
) -> bytes:
    try:
        value = json.loads(record)
    except ValueError:  # an example of broken lines
        return record
    result = list(places(value))
    if result:
        path = rng.choice(result)
        change(_holder(value, path), path[-1])
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )


def flip_bytes(record: bytes, rng: random.Random) -> bytes:
    """A few bytes change; a line stays one line."""
    data = bytearray(record)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice(
            b'\x00\x7f\x80\xff"{}[]\\,:0e- '
        )
    return bytes(data)


def cut(record: bytes, rng: random.Random) -> bytes:
    """The line ends early or begins late."""
    at = rng.randrange(1, len(record)) if len(record) > 1 else 1
    return record[:at] if rng.random() < 0.7 else record[at:]


def splice(record: bytes, rng: random.Random) -> bytes:
    """A part of the line stands there twice."""
    start = rng.randrange(len(record))
    end = min(len(record), start + rng.randint(1, 200))
    return record[:end] + record[start:]


def nest(record: bytes, rng: random.Random) -> bytes:
    """One value is nested deeply."""
    depth = rng.choice((50, 900, 20_000))
    deep = b"[" * depth + b"]" * depth
    return b'{"deep": ' + deep + b", " + record.lstrip()[1:]


MUTATIONS = (
    change_value, change_value, change_value, drop_value, drop_value, wrap_value, rename_key, flip_bytes, cut,
    splice, nest,
)  # fmt: skip


class BrokenLawError(Exception):
    """A law is broken."""


def dumps(
    files: list[Path], rng: random.Random
) -> Iterator[tuple[Path, str, list[bytes], int]]:
    """Endless damaged dumps: the example, the container's kind, the records, how many are damaged."""
    examples = {
        f: plant([r for r in f.read_bytes().split(b"\n") if r.strip()])
        for f in files
    }
    while True:
        for file, records in examples.items():
            kind = rng.choice(KINDS) if rng.random() < 0.6 else ".jsonl"
            out, damaged = [], 0
            for record in records:
                new = record
                if rng.random() < 0.75:
                    new = rng.choice(MUTATIONS)(record, rng).replace(
                        b"\n", b" "
                    )
                if new != record and fits(kind, new):
                    damaged += 1
                    out.append(new)
                elif fits(kind, record):
                    out.append(record)
            if rng.random() < 0.1:
                rng.shuffle(out)
            yield file, kind, out, max(damaged, 1)


def bare(value: Any) -> Any:
    """A value without ruler's fields."""
    if isinstance(value, dict):
        left = {
            k: bare(v)
            for k, v in value.items()
            if k not in OURS and k not in REWARDS
        }
        return {
            k: v for k, v in left.items() if k != "metadata" or v
        }  # Inspect's, which may hold `ruler`
    return [bare(item) for item in value] if isinstance(value, list) else value


def same(one: bytes, other: bytes) -> bool:
    """Return whether a record is another one, annotated."""
    try:
        return dump(bare(parse(one))) == dump(bare(parse(other)))
    except UnreadableError:
        return False
    except RecursionError:  # too deep to be compared by value
        return one[:40] == other[:40]


class Notes(Observer):
    """Keeps the names of files that a run leaves out."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def note(self, sentence: str) -> None:
        """Take the sentence on a file."""
        name, _, rest = sentence.partition(" holds no record of this format")
        if rest:
            self.left_out.append(name)


def check(source: Path, kind: str, records: list[bytes], folder: Path) -> str:
    """Score one dump, hold it to the laws and return the result in a word."""
    end = OUTPUT[kind]
    out, lost = folder / f"out{end}", folder / f"out{end}.failed.jsonl"
    shutil.rmtree(out, ignore_errors=True)
    for stale in (out, lost):
        stale.unlink(missing_ok=True)
    judge = JudgeSettings("simulated", params=EXACT)
    settings = ScoreSettings(
        InputSettings(str(source)), str(out), judge, pool=_POOL, ledger=None
    )
    notes = Notes()
    try:
        done = anyio.run(score, settings, notes)
    except RulerError as error:
        if not safe(str(error)).isprintable():
            raise BrokenLawError(
                f"a sentence that no terminal should see: {error!r}"
            ) from None
        return "refused"
    written = unpack(out, end) if out.exists() else []
    failed = (
        Counter(map(bytes.strip, lost.read_bytes().split(b"\n")[:-1]))
        if lost.exists()
        else Counter()
    )
    if not kind:
        records = in_files_read(records, notes.left_out)
    _nothing_is_lost(records, written, failed)
    _nothing_is_billed(written)
    for sentence in misplaced(records, written):
        raise BrokenLawError(sentence)
    return "scored" if done.summary.complete else "in part"


_POOL = PoolSettings(concurrency=4)


def _nothing_is_lost(
    records: list[bytes], written: list[bytes], failed: Counter[bytes]
) -> None:
    at = 0
    for number, record in enumerate(records, 1):
        whole = record.removeprefix(b"\xef\xbb\xbf").strip()
        if not whole:
            continue
        if at < len(written) and (
            whole == written[at].strip() or same(whole, written[at])
        ):
            at += 1
        elif failed[whole]:
            failed[whole] -= 1
        else:
            raise BrokenLawError(
                f"record {number} is neither in OUTPUT in its place nor in the failed file"
            )
    if at < len(written):
        raise BrokenLawError(f"record {at + 1} of OUTPUT is no record of INPUT")


def _nothing_is_billed(written: list[bytes]) -> None:
    def walk(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if value.get("kind") == "input" and "usage" in value:
                yield value
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    for record in written:
        try:
            parts = list(walk(parse(record)))
        except RecursionError:
            continue
        if any(part["usage"]["calls"] for part in parts):
            raise BrokenLawError("a group that could not be read cost a call")


def run(files: list[Path], mutations: int, seed: int) -> Counter[str]:
    """Check dumps until so many records were damaged; count the dumps of each result."""
    rng, result, total = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for example, kind, records, damaged in dumps(files, rng):
            source = folder / f"in{kind}"
            shutil.rmtree(source, ignore_errors=True)
            pack(source, kind, records, rng.choice((b"\n", b"\r\n", b"\n\n")))
            try:
                result[check(source, kind, records, folder)] += 1
            except Exception:
                broken = Path(f"broken-{example.stem}-{seed}-{total}{kind}")
                (shutil.copy if kind else shutil.copytree)(source, broken)
                sys.stderr.write(
                    f"{broken} broke a law:\n{traceback.format_exc()}\n"
                )
                raise
            result[f"{example.name}"] += damaged
            total += damaged
            if total >= mutations:
                return result
    return result


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="+", type=Path, help="examples: JSON lines"
    )
    parser.add_argument("--mutations", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    reported = parser.parse_args()
    begun = time.monotonic()
    result = run(reported.files, reported.mutations, reported.seed)
    kinds = {
        kind: result.pop(kind, 0) for kind in ("scored", "in part", "refused")
    }
    print(
        f"{sum(result.values())} damaged records in {sum(kinds.values())} dumps, seed {reported.seed}:"
    )
    print("  " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    for name, count in result.most_common():
        print(f"  {count:>7} {name}")
    print(f"no law was broken ({time.monotonic() - begun:.0f} s)")


if __name__ == "__main__":
    main()
