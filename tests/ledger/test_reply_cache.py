"""Stored answers are in the ledger after any end of the process, and only for its owner."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger import database
from ruler_cli.ledger.reply_cache import Ledger, key_of
from ruler_cli.types import CallError, Reply, Request
from tests.conftest import ROOT
from tests.values import texts, values

ASK = Request("system", "user", ("a",), max_output_tokens=100, pass_index=0)
FAILED = CallError("refused", "the judge answered 400: no", "group")
ODD = CallError(
    "transport", "no chat completion", "call", body=b"<html>busy</html>"
)


def reply(text: str = "fine", finish: str = "stop", **message: Any) -> Reply:
    """Return a reply as an endpoint sends it."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    choice = {"message": {"content": text, **message}, "finish_reason": finish}
    answer = reply_of(
        json.dumps({"choices": [choice], "usage": usage}).encode()
    )
    assert isinstance(answer, Reply)
    return answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a ledger to be created."""
    return tmp_path / "new" / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with Ledger(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger that many examples fill."""
    with Ledger(tmp_path_factory.mktemp("shared") / "ledger.sqlite") as opened:
        yield opened


def size(path: Path) -> int:
    """Bytes on disk."""
    return path.stat().st_size


def raw(path: Path, query: str) -> list[Any]:
    """Read or change the file beside the ledger."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# what is stored


@given(text=texts, key=st.binary(max_size=32), model=texts)
def test_round_trip(shared: Ledger, text: str, key: bytes, model: str) -> None:
    """Any reply is found under its own key, as it was parsed at first."""
    read = reply_of(
        json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    )
    if isinstance(read, Reply):
        read = replace(read, seconds=1.5)
    anyio.run(shared.store, key, model, read)
    answer = shared.find(key)
    if isinstance(
        read, CallError
    ):  # lone surrogates are no JSON for the reader of today
        assert answer is None
    else:
        assert isinstance(answer, Reply)
        assert (answer, answer.body, answer.seconds, answer.cached) == (
            read,
            read.body,
            1.5,
            True,
        )


def test_order_of_import(ledger: Ledger) -> None:
    """In any order of import a reply stands over a failed call, and that over an unreadable body.

    Of two replies the first stays, and it alone is new.
    """
    ranks: list[tuple[Reply | CallError, int]] = [
        (reply("one"), 3),
        (reply("two"), 3),
        (FAILED, 2),
        (ODD, 1),
    ]
    for number, order in enumerate(itertools.permutations(ranks)):
        key = bytes([number])
        stored = [(key, "m", answer) for answer, _ in order]
        assert (ledger.keep_all(stored), ledger.keep_all(stored)) == (1, 0)
        first = next(answer for answer, rank in order if rank == 3)
        assert ledger.find(key) == first
    assert ledger.keep_all([]) == 0


def test_many_or_none(ledger: Ledger) -> None:
    """If one of many answers cannot be stored, none is, and the ledger stays writable."""
    again = CallError("transport", "busy", "call")
    with pytest.raises(ValueError, match="not a call that failed for good"):
        ledger.keep_all([(b"one", "m", reply()), (b"two", "m", again)])
    ledger._written.connection.execute("CREATE TRIGGER no BEFORE INSERT ON replies WHEN new.model = 'bad' "
                            "BEGIN SELECT raise(ABORT, 'full'); END")  # fmt: skip
    with pytest.raises(OutputError, match="full"):
        ledger.keep_all([(b"one", "m", reply()), (b"two", "bad", reply())])
    assert ledger.find(b"one") is None
    ledger.keep_all([(b"one", "m", reply())])
    assert ledger.find(b"one") is not None


def test_not_stored(ledger: Ledger) -> None:
    """A request that the next run has to ask again leaves no row."""
    answers: list[Reply | CallError] = [
        *(
            replace(FAILED, scope="run"),
            replace(FAILED, scope="call"),
            replace(FAILED, sent=False),
        ),
        *(
            replace(FAILED, kind="budget"),
            replace(FAILED, kind="interrupted"),
            replace(ODD, scope="run"),
        ),
        Reply("embedded"),
    ]
    for answer in answers:
        with pytest.raises(ValueError, match="not"):
            ledger.keep_all([(b"k", "m", answer)])
    assert not ledger.stats().models


# keys


def test_key_canary() -> None:
    """The key of a request is the same in every version, or every ledger of a user is worthless."""
    params = {
        "temperature": 0.2,
        "stop": ["é\ud800", None],
        "nan": math.nan,
        "deep": {"b": 1, "a": -0.0},
    }
    request = Request(
        "sys\0tem",
        "user \udfff 😀",
        ("x", "y"),
        max_output_tokens=4096,
        pass_index=1,
    )
    assert (
        key_of("openai/o3", params, request).hex()
        == "0586f43374b2de422212db7bab4e75b2"
    )
    assert (
        key_of("m", {}, Request("", "", ())).hex()
        == "c0e34c4639c3fc4e305d7877deb04bb7"
    )
    assert key_of("m", {}, ASK) == key_of(
        "m", {}, replace(ASK, labels=("other",))
    )
    assert (
        len(
            {
                key_of(m, {}, Request(s, u, ()))
                for m, s, u in ("ab ", "a b", " ab")
            }
        )
        == 3
    )


parts = st.tuples(
    texts,
    st.dictionaries(texts, values, max_size=3),
    texts,
    texts,
    st.none() | st.integers(0, 3),
    st.integers(0, 3),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    first=parts,
    second=parts,
    chosen=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_keys_differ(
    first: tuple[Any, ...], second: tuple[Any, ...], chosen: list[bool]
) -> None:
    """Two requests share a key only if every part of them is the same."""
    mixed = tuple(
        b if take else a
        for a, b, take in zip(first, second, chosen, strict=True)
    )
    keys = [
        key_of(p[0], p[1], Request(p[2], p[3], (), p[4], p[5]))
        for p in (first, mixed)
    ]
    looks = [
        json.dumps(p, sort_keys=True, ensure_ascii=False)
        for p in (first, mixed)
    ]
    assert (keys[0] == keys[1]) == (looks[0] == looks[1])


def test_parameter_without_content() -> None:
    """A parameter that is not a JSON value has no key, and the error states that."""
    with pytest.raises(UsageError, match="--ledger none"):
        key_of("m", {"client": object()}, ASK)


# places


def test_owner_only(tmp_path: Path) -> None:
    """No other user can read a ledger, for any umask, from the file's first byte on."""
    code = (
        "import os, sys; os.umask(0)\n"
        "from pathlib import Path\n"
        "from tests.ledger.test_reply_cache import Ledger, reply\n"
        "seen, looking = set(), []\n"
        "def look(event, values):\n"
        "    if looking: return\n"
        "    looking.append(event)\n"
        "    for file in Path(sys.argv[1]).parent.glob('*'): seen.add(oct(file.stat().st_mode & 0o777))\n"
        "    looking.clear()\n"
        "sys.addaudithook(look)\n"
        "with Ledger(Path(sys.argv[1])) as ledger:\n"
        "    ledger.keep_all([(b'k', 'm', reply())])\n"
        "    look('', ())\n"
        "    print(sorted(p.name for p in Path(sys.argv[1]).parent.iterdir()), seen)\n"
    )
    place = tmp_path / "a" / "b" / "ledger.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", code, place],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = [f"ledger.sqlite{end}" for end in ("", "-shm", "-wal")]
    assert done.stdout.decode().strip() == f"{names} {{'0o600'}}"
    assert [
        stat.S_IMODE(p.stat().st_mode)
        for p in (place.parent, place.parent.parent)
    ] == [0o700] * 2


def test_another_users(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger of another user is refused, and a link to one."""
    Ledger(path).close()
    (tmp_path / "link").symlink_to(path)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    for name in (path, tmp_path / "link"):
        with pytest.raises(UsageError, match=r"another user.*--ledger none"):
            Ledger(name)


def test_planted_log(path: Path, tmp_path: Path) -> None:
    """A write-ahead log that is a link is not written."""
    Ledger(path).close()
    path.with_name("ledger.sqlite-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="not a regular file"):
        Ledger(path)
    assert not (tmp_path / "elsewhere").exists()


def test_wrong_file(tmp_path: Path) -> None:
    """A file that is no ledger is refused with both ways out and left as it is."""
    Ledger(tmp_path / "newer").close()
    raw(tmp_path / "newer", "PRAGMA user_version = 99")
    Ledger(tmp_path / "torn").close()
    (tmp_path / "torn").write_bytes(
        (tmp_path / "torn").read_bytes()[:100] + bytes(5000)
    )
    raw(tmp_path / "foreign", "CREATE TABLE notes (text)")
    raw(tmp_path / "numbered", "PRAGMA application_id = 7")
    (tmp_path / "text").write_text("id,score\n1,2\n" * 99)
    (tmp_path / "folder").mkdir()
    for name, says in (
        ("folder", "not a regular file"),
        ("text", "not a database"),
        ("torn", "malformed|disk image|not a"),
        ("foreign", "another program"),
        ("numbered", "another program"),
        ("newer", "newer version"),
    ):
        path = tmp_path / name
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(
            UsageError, match=f"{path}.*{says}.*--ledger PATH.*--ledger none"
        ):
            Ledger(path)
        if name in ("folder", "text", "foreign"):
            with pytest.raises(
                UsageError, match=f"{name}: .*{says}.*; correct --ledger"
            ):
                Ledger(tmp_path / "first", [path])
        assert before is None or path.read_bytes() == before


def test_full_disk(ledger: Ledger) -> None:
    """A reply that cannot be stored is an error with the path, never silence."""
    (pages,) = ledger._written.connection.execute(
        "PRAGMA page_count"
    ).fetchone()
    ledger._written.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(
        OutputError,
        match=r"ledger.sqlite.*full; .*--ledger none",
    ):
        ledger.keep_all([(b"k", "m", reply("x" * 99999))])
    with pytest.raises(OutputError, match="full"):
        anyio.run(ledger.store, b"k", "m", reply("x" * 99999))


def test_damage(path: Path) -> None:
    """A ledger that breaks while it is open is an error in each of its methods."""
    with Ledger(path) as ledger:
        raw(path, "DROP TABLE replies")
        says = r"ledger\.sqlite.*no such table"
        with pytest.raises(OutputError, match=says):
            ledger.find(b"k")
        with pytest.raises(OutputError, match=says):
            ledger.stats()
        with pytest.raises(OutputError, match=says):
            ledger.clear()
        with pytest.raises(OutputError, match=says):
            ledger.keep_all([(b"k", "m", reply())])


# several processes


STORE = """
import sys
from pathlib import Path
import anyio
from tests.ledger.test_reply_cache import Ledger, reply
async def main(path, name, number):
    with Ledger(path) as ledger:
        for at in range(number):
            key = f"{name}-{at}".encode()
            await ledger.store(key, "m", reply("x" * 3000))
            print(key.decode(), flush=True)
anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
"""


def storing(path: Path, name: str, number: int) -> subprocess.Popen[str]:
    """Start a process that prints each key once its reply is stored."""
    command = [sys.executable, "-c", STORE, str(path), name, str(number)]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_killed(path: Path) -> None:
    """After kill -9 at any moment every reply whose `store` returned is there, and the file is whole."""
    chance = random.Random(1)
    stored: list[str] = []
    for run in range(3):
        with storing(path, f"run{run}", 10**6) as process:
            assert process.stdout is not None
            stored.append(process.stdout.readline().strip())
            time.sleep(chance.random() * 0.3)
            process.kill()
            rest = process.stdout.read()
            stored += rest[: rest.rfind("\n") + 1].split()
    assert len(stored) > 3
    with Ledger(path) as ledger:
        assert [
            key for key in stored if ledger.find(key.encode()) is None
        ] == []
        assert sum(ledger.stats().rows.values()) - len(stored) in range(4)
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.long
def test_several_processes(path: Path) -> None:
    """Processes that start and store at once share one ledger: no row is lost, no one has to try again."""
    processes = [storing(path, f"p{n}", 300) for n in range(4)]
    for process in processes:
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, errors, len(out.split())) == (0, "", 300)
    with Ledger(path) as ledger:
        assert ledger.stats().rows["answer"] == 1200
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.anyio
@pytest.mark.parametrize("stopped", [False, True])
async def test_store_waits(stopped: bool, ledger: Ledger, path: Path) -> None:
    """While another process writes, a reply waits in a thread; it is stored even if the run stops."""
    assert ledger._written.connection.execute(
        "PRAGMA busy_timeout"
    ).fetchone() == (0,)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as tasks:
        for key in (b"a", b"b"):
            tasks.start_soon(ledger.store, key, "m", reply())
        await anyio.sleep(0.05)
        assert ledger.find(b"a") is None  # and reading does not wait
        if stopped:
            tasks.cancel_scope.cancel()
        writer.execute("COMMIT")
    writer.close()
    assert ledger.find(b"a") is not None
    assert ledger.find(b"b") is not None


def test_wait_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that locks the ledger for ever is an error in the end."""
    monkeypatch.setattr(database, "WAIT", 0.1)
    with Ledger(path) as ledger:
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match="locked"):
            ledger.keep_all([(b"k", "m", reply())])
        with pytest.raises(OutputError, match="locked"):
            ledger.clear()
        writer.close()
        ledger.keep_all([(b"k", "m", reply())])


@pytest.mark.anyio
async def test_log_stays_short(path: Path) -> None:
    """Replies move into the file during a run; the write-ahead log does not grow with it."""
    log = path.with_name("ledger.sqlite-wal")
    with Ledger(path) as ledger:
        for number in range(700):
            await ledger.store(str(number).encode(), "m", reply("x" * 20000))
        assert size(log) < 6 << 20 < size(path)
        assert ledger.find(b"0") is not None


def removed(path: Path) -> None:
    """Delete a ledger's files."""
    shutil.rmtree(path.parent)
    path.parent.mkdir()


def removed_and_made_anew(path: Path) -> None:
    """Put another ledger in the place of one."""
    removed(path)
    Ledger(path).close()


def removed_for_another_file(path: Path) -> None:
    """Put a file that is no ledger in the place of one."""
    removed(path)
    path.write_text("notes")


VANISHED = "the ledger was deleted or replaced during the run; put it back"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "change", [removed, removed_and_made_anew, removed_for_another_file]
)
async def test_deleted_during_a_run(
    path: Path, change: Callable[[Path], None]
) -> None:
    """A reply, an import and the end of a run say that its ledger is gone, and write nothing in its place."""
    with pytest.raises(OutputError, match=VANISHED), Ledger(path) as ledger:
        ledger.keep_all([(b"before", "m", reply())])
        change(path)
        there = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        with pytest.raises(OutputError, match=VANISHED):
            await ledger.store(b"notices", "m", reply())
        with pytest.raises(OutputError, match=VANISHED):
            ledger.keep_all([(b"more", "m", reply())])
    assert there == {
        file.name: file.read_bytes() for file in path.parent.iterdir()
    }


@pytest.mark.anyio
async def test_clear_beside_a_run(ledger: Ledger, path: Path) -> None:
    """A ledger that one process clears goes on serving another."""
    for number in range(50):
        await ledger.store(str(number).encode(), "m", reply("x" * 9999))
    big = ledger.stats().size
    with Ledger(path) as second:
        assert second.clear() == 50
        assert second.stats().size < big / 2
    assert ledger.find(b"1") is None
    await ledger.store(b"1", "m", reply("new"))
    assert ledger.find(b"1") == reply("new")


# several ledgers as one


def made(path: Path, **rows: Reply | CallError) -> Path:
    """Create a ledger with these answers."""
    with Ledger(path) as ledger:
        for key, answer in rows.items():
            ledger.keep_all([(key.encode(), "m", answer)])
    return path


def text(ledger: Ledger, key: str) -> str | None:
    """The text of a reply, or the reason of a failed call."""
    answer = ledger.find(key.encode())
    if answer is None:
        return None
    return answer.text if isinstance(answer, Reply) else answer.reason


answers = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from(["x", "y", None]), max_size=4
)


@settings(max_examples=10)
@given(st.lists(answers, min_size=1, max_size=4))
def test_order(rows: list[dict[str, str | None]]) -> None:
    """A key's answer is the first reply in the order given, else a failed call, else none."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            made(
                Path(folder) / str(i),
                **{
                    k: FAILED if v is None else reply(v)
                    for k, v in held_rows.items()
                },
            )
            for i, held_rows in enumerate(rows)
        ]
        with Ledger(paths[0], paths[1:]) as ledger:
            for key in "abcd":
                held = [
                    held_rows[key] for held_rows in rows if key in held_rows
                ]
                wanted = next(
                    (value for value in held if value),
                    FAILED.reason if held else None,
                )
                assert text(ledger, key) == wanted


def test_written(tmp_path: Path) -> None:
    """New answers are stored in the first alone; the bytes of the others stay as they were."""
    second = made(tmp_path / "other", a=reply("x"))
    before = second.read_bytes()
    with Ledger(tmp_path / "new" / "first", [second]) as ledger:
        assert text(ledger, "a") == "x"
        ledger.keep_all([(b"b", "m", reply("y"))])
        assert text(ledger, "b") == "y"
    assert second.read_bytes() == before
    with Ledger(tmp_path / "new" / "first") as ledger:
        assert (text(ledger, "a"), text(ledger, "b")) == (None, "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "other"]


WRITER = """
import sys
from pathlib import Path
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import Reply
with Ledger(Path(sys.argv[1])) as made:
    for line in sys.stdin:
        key = line.strip()
        body = '{"choices": [{"message": {"content": "%s"}, "finish_reason": "stop"}]}' % key
        made.keep_all([(key.encode(), "m", Reply(key, body=body.encode()))])
        print("kept", flush=True)
"""


class Writer:
    """Another process, which stores answers on request."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def keep(self, key: str) -> None:
        """Store an answer from there, and wait for that."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{key}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "kept\n"

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that another user may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def writer(folder: Path) -> Iterator[Writer]:
    """A process that writes the ledger `other` there."""
    made = Writer(folder / "other")
    yield made
    made.kill()


def as_other(work: Callable[[], None]) -> None:
    """Run as a user who may not write other users' files, also under root."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # the child needs no thread of this process
        child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def for_all(folder: Path) -> list[str]:
    """Let every user read a ledger, and none write beside it. Return the names of its files."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    return sorted(path.name for path in folder.iterdir())


def test_being_written(writer: Writer, folder: Path, tmp_path: Path) -> None:
    """An answer of another process is found as soon as it is stored, and that process goes on."""
    writer.keep("a")
    with Ledger(tmp_path / "first", [folder / "other"]) as ledger:
        assert (text(ledger, "a"), text(ledger, "b")) == ("a", None)
        writer.keep("b")
        assert text(ledger, "b") == "b"
    writer.keep("c")
    with Ledger(tmp_path / "first", [folder / "other"]) as ledger:
        assert text(ledger, "c") == "c"


def test_of_another_user(writer: Writer, folder: Path) -> None:
    """A read-only ledger is read, and no file is created beside it.

    One with a log that only its owner can read is an error, since its answers would be missed.
    """
    writer.keep("a")
    names = for_all(folder)

    def refused() -> None:
        with pytest.raises(
            UsageError,
            match="other: has a write-ahead log that only its owner can read",
        ):
            Ledger(None, [folder / "other"])

    as_other(refused)
    folder.chmod(0o755)
    writer.process.communicate(timeout=30)
    assert (names, for_all(folder)) == (
        ["other", "other-shm", "other-wal"],
        ["other"],
    )

    def look() -> None:
        with Ledger(None, [folder / "other"]) as ledger:
            assert text(ledger, "a") == "a"
            assert text(ledger, "b") is None

    as_other(look)
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_bad_pages(tmp_path: Path) -> None:
    """A ledger with bad pages is said to be malformed, with the way to save it."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        for number in range(100):
            ledger.keep_all([(bytes([number] * 16), "m", reply("x" * 2000))])
    content = bytearray(path.read_bytes())
    content[8 * 4096 : -4096] = b"\xee" * (len(content) - 9 * 4096)
    path.write_bytes(content)
    with Ledger(path) as ledger, pytest.raises(OutputError) as error:
        ledger.stats()
    assert (
        "`sqlite3 FILE .recover | sqlite3 NEW` saves what a damaged one still holds"
        in str(error.value)
    )
    assert "--ledger PATH" in str(error.value)


@pytest.mark.parametrize("there", ["ledger", "notes", "nothing"])
def test_replaced_without_its_log(path: Path, there: str) -> None:
    """A file that takes a ledger's place keeps its own content, although the ledger's log lies beside it."""
    new, moved = path.with_name("new"), path.with_name("moved")
    with Ledger(new) as newer:
        for number in range(100):
            newer.keep_all([(b"new %d" % number, "m", reply("x" * 500))])
    with pytest.raises(OutputError, match=VANISHED), Ledger(path) as ledger:
        ledger.keep_all([(b"before", "m", reply())])
        if there == "nothing":
            path.rename(moved)
        else:
            if there == "notes":
                new.write_text("notes")
            new.replace(path)
    if there == "notes":
        assert path.read_text() == "notes"
        return
    key, rows = (b"before", 1) if there == "nothing" else (b"new 99", 100)
    with Ledger(moved if there == "nothing" else path) as again:
        assert again.find(key) is not None
        assert again.stats().rows["answer"] == rows
