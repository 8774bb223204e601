"""Parquet as records, and annotated records as Parquet."""

from __future__ import annotations

import builtins
import datetime
import decimal
import errno
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ruler_cli.annotate import annotate
from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.parquet.table import Parquet
from ruler_cli.files.parse import parse
from ruler_cli.formats.detect import detect
from ruler_cli.records import Line, Mark
from ruler_cli.settings import InputSettings
from tests.conftest import SHARED

UTC = datetime.UTC
WORDS = pa.dictionary(pa.int32(), pa.string())
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def packed(table: pa.Table, **how: Any) -> io.BytesIO:
    """A table as the bytes of a Parquet file."""
    file = io.BytesIO()
    pq.write_table(table, file, **how)
    return file


def rows(file: io.BytesIO) -> list[Line]:
    """Every row as a record."""
    return list(Parquet("in.parquet", file).records())


def read(file: io.BytesIO) -> list[dict[str, Any]]:
    """Every row as a value."""
    return [parse(line.raw) for line in rows(file)]


def rewritten(file: io.BytesIO, change: Change) -> io.BytesIO:
    """The file with each record changed, or left out where that is None."""
    source, out = Parquet("in.parquet", file), io.BytesIO()
    encoder = source.encoder(out)
    for line in source.records():
        record = change(parse(line.raw))
        if record is not None:
            encoder.put(line.number, patched(line.raw, record))
    encoder.end()
    return out


def patched(raw: bytes, record: dict[str, Any]) -> bytes:
    """The record's own bytes, but for members that have another value now."""
    old = parse(raw)
    kept = {k: orig(raw, k) for k, v in record.items() if k in old and json.dumps(old[k]) == json.dumps(v)}
    parts = (json.dumps(k).encode() + b": " + kept.get(k, json.dumps(v).encode()) for k, v in record.items())
    return b"{" + b", ".join(parts) + b"}"


def orig(raw: bytes, key: str) -> bytes:
    """A member's bytes."""
    from ruler_cli.files.splice import read_object

    _, at, end = read_object(raw).members[key]
    return raw[at:end]


def with_(**values: Any) -> Change:
    """A change that sets members."""
    return lambda record: record | values


def kinds(file: io.BytesIO) -> dict[str, str]:
    """The columns' types by name."""
    return {field.name: str(field.type) for field in pq.read_schema(file)}


EVERY = pa.table(
    {
        "i": pa.array([1, None, -(2**63)]),
        "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "f": [float("nan"), float("-inf"), None],
        "h": pa.array([1.5, None, float("inf")], pa.float16()),
        "dec": pa.array([decimal.Decimal("0.100"), None, decimal.Decimal("-12.5")], pa.decimal128(30, 3)),
        "s": ["a", None, '"\n\u2028é\\'],
        "ls": pa.array(["x", None, ""], pa.large_string()),
        "sv": pa.array(["x", None, "y"], pa.string_view()),
        "d": pa.array(["p", None, "p"]).dictionary_encode(),
        "b": [b"abc", None, b""],
        "fb": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "l": [[1, None], None, []],
        "fl": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "mi": pa.array([[(1, "a")], None, []], pa.map_(pa.int32(), pa.string())),
        "st": [{"a": {"b": [{"c": 1.5}]}}, None, {"a": None}],
        "ts": pa.array([datetime.datetime(2024, 1, 1, 1, 2, 3, 4), None, None], pa.timestamp("us")),
        "tz": pa.array([datetime.datetime(2024, 1, 1, tzinfo=UTC), None, None], pa.timestamp("ms", "UTC")),
        "da": pa.array([datetime.date(2024, 1, 1), None, datetime.date(1, 1, 1)]),
        "ti": pa.array([datetime.time(1, 2, 3), None, None]),
        "du": pa.array([datetime.timedelta(seconds=1), None, None], pa.duration("s")),
        "n": pa.nulls(3),
        "bo": [True, None, False],
        "bj": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
        "a.b": [1, 2, 3],
    }
)


def test_values() -> None:
    """A row is one object in the order of the columns, whatever their types; nothing is rounded."""
    first, second, third = rows(packed(EVERY, row_group_size=2))
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert (third.where, third.offset) == ("row 3", 2)
    assert first.raw == (
        b'{"i":1,"u":18446744073709551615,"f":NaN,"h":1.5,"dec":0.100,"s":"a","ls":"x","sv":"x","d":"p",'
        b'"b":"<3 bytes>","fb":"<2 bytes>","l":[1,null],"fl":[1,2],"m":{"a":1},"mi":[[1,"a"]],'
        b'"st":{"a":{"b":[{"c":1.5}]}},"ts":"2024-01-01T01:02:03.000004","tz":"2024-01-01T00:00:00.000Z",'
        b'"da":"2024-01-01","ti":"01:02:03.000000","du":1,"n":null,"bo":true,"bj":true,"a.b":1}'
    )
    assert second.raw.count(b"null") == len(EVERY.schema) - 3
    assert b'"f":-Infinity' in second.raw
    assert parse(third.raw)["s"] == '"\n\u2028é\\'
    assert parse(third.raw)["i"] == -(2**63)


def test_untouched() -> None:
    """What nobody changed is written as it was: every type, value, codec, row group and note."""
    schema = EVERY.schema.with_metadata({b"art.trajectory_parquet.version": b"2"})
    codecs = {field.name: "ZSTD" for field in schema} | {"s": "GZIP", "ls": "NONE"}
    leaves = pq.read_metadata(packed(EVERY)).schema
    compression = {c.path: codecs[c.path.split(".")[0]] for c in leaves if c.path != "a.b"} | {"a.b": "ZSTD"}
    file = packed(EVERY.cast(schema), row_group_size=2, compression=compression)
    out = rewritten(file, with_(ruler={"score": 0.5}))
    was, now = pq.read_metadata(file), pq.read_metadata(out)
    assert pq.read_schema(out).remove(len(schema)).equals(pq.read_schema(file), check_metadata=True)
    assert [now.row_group(i).num_rows for i in range(now.num_row_groups)] == [2, 1]
    for at in range(was.num_columns):
        chunk, same = was.row_group(0).column(at), now.row_group(0).column(at)
        assert (chunk.path_in_schema, chunk.compression) == (same.path_in_schema, same.compression)
    assert now.row_group(0).column(was.num_columns).compression == "ZSTD"
    before, after = pq.read_table(file), pq.read_table(out)
    assert after.column("ruler").to_pylist() == ['{"score": 0.5}'] * 3
    for name in before.column_names:
        assert str(after[name].to_pylist()) == str(before[name].to_pylist()), name  # NaN is not NaN


@pytest.mark.parametrize(
    ("kind", "held", "new", "becomes"),
    [
        (pa.float64(), [0.25, None], 0.7, "double"),
        (pa.float32(), [0.25, None], 0.7, "double"),
        (pa.float16(), [0.25, None], 0.7, "double"),
        (pa.int64(), [1, None], 0.7, "double"),
        (pa.int8(), [1, None], 2, "int8"),
        (pa.int8(), [1, None], 200, "double"),
        (pa.uint8(), [1, None], -1, "double"),
        (pa.bool_(), [True, None], 0.7, "double"),
        (pa.bool_(), [True, None], False, "bool"),
        (pa.decimal128(5, 2), [decimal.Decimal("0.25"), None], 0.7, "double"),
        (pa.null(), [None, None], 0.7, "double"),
        (pa.null(), [None, None], {"a": 1}, "string"),
        (pa.string(), ["a", None], "b", "string"),
        (pa.large_string(), ["a", None], "b", "large_string"),
        (pa.string_view(), ["a", None], "b", "string"),
        (WORDS, ["a", None], "b", str(WORDS)),
        (pa.string(), ["a", None], 0.7, "string"),
        (pa.string(), ["a", None], {"a": 1}, "string"),
        (pa.list_(pa.int64()), [[1], None], [0.7], "list<element: double>"),
        (pa.list_(pa.string()), [["a"], None], ["a", "RULER"], "list<element: string>"),
        (pa.list_(pa.int64(), 2), [[1, 2], None], [0.5, 1], "fixed_size_list<element: double>[2]"),
        (pa.struct([("a", pa.int64())]), [{"a": 1}, None], {"a": 1, "b": 0.7}, "struct<a: int64, b: double>"),
        (pa.struct([("a", pa.int64())]), [{"a": 1}, None], 0.7, "string"),
        (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None], {"a": 0.7}, "map<string, double ('x')>"),
        (pa.timestamp("us"), [datetime.datetime(2024, 1, 1), None], 0.7, "string"),
    ],
    ids=str,
)  # fmt: skip
def test_replaced(kind: pa.DataType, held: list[Any], new: Any, becomes: str) -> None:
    """A column keeps its type where it holds the new value exactly, and widens where it does not."""
    table = pa.table({"x": pa.array([held[0], held[1], held[0]], kind), "i": [0, 1, 2]})
    file = packed(table)
    own = read(file)
    found = rewritten(file, lambda record: record | {"x": new} if record["i"] == 2 else record)
    assert kinds(found)["x"] == becomes
    last = pq.read_table(found)["x"].to_pylist()[2]
    if becomes == "string" and not isinstance(new, str):
        assert json.loads(last) == new
    else:
        after = read(found)
        assert after[2]["x"] == new
        assert means(after[0]["x"], own[0]["x"])
        assert after[1]["x"] is None


def test_replaced_whole() -> None:
    """A column whose every value is replaced takes the type of the new ones."""
    file = packed(pa.table({"reward": ["1.0", "TimeoutError", None], "i": [0, 1, 2]}))
    scored = rewritten(file, lambda r: r if r["reward"] is None else r | {"reward": r["i"] / 4})
    assert kinds(scored)["reward"] == "double"
    assert pq.read_table(scored)["reward"].to_pylist() == [0.0, 0.25, None]


def test_large_integers() -> None:
    """An integer that a float would round is kept, as text, beside a score that is none."""
    file = packed(pa.table({"reward": [2**53 + 1, 3]}))
    out = rewritten(file, lambda r: r if r["reward"] > 3 else {"reward": 0.7})
    assert pq.read_table(out)["reward"].to_pylist() == ["9007199254740993", "0.7"]


def test_required() -> None:
    """A column that must hold a value and gets null may be null afterwards, and only then."""
    schema = pa.schema([pa.field("reward", pa.float64(), nullable=False), pa.field("s", pa.string(), False)])
    file = packed(pa.table({"reward": [1.0, 2.0], "s": ["a", "b"]}, schema=schema))
    out = rewritten(file, lambda r: r | {"reward": None if r["s"] == "a" else 0.5})
    assert [field.nullable for field in pq.read_schema(out)] == [True, False]
    assert pq.read_table(out)["reward"].to_pylist() == [None, 0.5]


def test_new_columns_late() -> None:
    """A value that only the last row brings has its column, and the others have null there."""
    file = packed(pa.table({"i": list(range(1000))}), row_group_size=100)
    out = rewritten(file, lambda r: r | ({"reward": 1, "logs": ["x"]} if r["i"] == 999 else {}))
    table = pq.read_table(out)
    assert kinds(out) == {"i": "int64", "reward": "double", "logs": "list<element: string>"}
    assert table["reward"].to_pylist() == [None] * 999 + [1.0]
    assert table["logs"].to_pylist()[998:] == [None, ["x"]]


def test_rows_left_out() -> None:
    """Rows that are left out are missing, and a row group without any is, too."""
    file = packed(pa.table({"i": list(range(1000)), "s": ["x"] * 1000}), row_group_size=300)
    out = rewritten(file, lambda r: None if r["i"] < 300 or r["i"] % 3 else r)
    assert pq.read_table(out)["i"].to_pylist() == list(range(300, 1000, 3))
    assert pq.read_metadata(out).num_row_groups == 3


def test_binary_inside() -> None:
    """Bytes and dates beside a changed member of a struct come out as they went in."""
    image = {"bytes": b"\x89PNG", "at": datetime.datetime(2024, 1, 1), "reward": 1}
    file = packed(pa.table({"x": [image, None], "list": [[image, image], []]}))
    out = rewritten(
        file,
        lambda r: r if r["x"] is None else {
            "x": r["x"] | {"reward": 0.7}, "list": [i | {"ruler": {"score": 0.7}} for i in r["list"]]
        },
    )  # fmt: skip
    assert pq.read_table(out).to_pylist() == [
        {"x": image | {"reward": 0.7}, "list": [image | {"ruler": '{"score":0.7}'}] * 2},
        {"x": None, "list": []},
    ]


def test_equal_names() -> None:
    """Of columns with equal names the last is the record's value and the one that is written."""
    columns = [pa.array([1, 2]), pa.array([3, 4])]
    file = packed(pa.Table.from_arrays(columns, names=["x", "x"]))
    assert rows(file)[0].raw == b'{"x":1,"x":3}'
    source, out = Parquet("in", file), io.BytesIO()
    encoder = source.encoder(out)
    encoder.put(1, b'{"x":1,"x":0.5}')
    encoder.put(2, b'{"x":2,"x":4}')
    encoder.end()
    written = next(pq.ParquetFile(out).iter_batches())
    assert [c.to_pylist() for c in written.columns] == [[1, 2], [0.5, 4.0]]


@pytest.mark.parametrize(
    "table", [pa.table({}), pa.table({"a": pa.array([], pa.int64())})], ids=["no columns", "no rows"]
)
def test_empty(table: pa.Table) -> None:
    """A file without rows or without columns has no records, and is written again."""
    file = packed(table)
    assert rows(file) == []
    assert pq.read_table(rewritten(file, lambda record: record)).equals(table)


def test_no_row_groups() -> None:
    """A file without a row group has no records."""
    file = io.BytesIO()
    pq.ParquetWriter(file, pa.schema([("a", pa.int64())])).close()
    assert rows(file) == []


def test_not_utf8() -> None:
    """Text that is no UTF-8 makes a record that cannot be read, its bytes kept, beside good ones."""
    raw = pa.array([b'\xff"\n', b"good", None])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    bad, good, none = rows(packed(pa.table({"s": text})))
    with pytest.raises(Exception, match="is not UTF-8"):
        parse(bad.raw)
    assert bad.raw == b'{"s":"\xff\\u0022\\u000a"}'
    assert (good.raw, none.raw) == (b'{"s":"good"}', b'{"s":null}')


def test_surrogates() -> None:
    """A lone surrogate, which Parquet cannot hold, stands in OUTPUT as its escape."""
    source, out = Parquet("in", packed(pa.table({"s": ["a"]}))), io.BytesIO()
    encoder = source.encoder(out)
    encoder.put(1, rb'{"s":"\ud800"}')
    encoder.end()
    assert pq.read_table(out)["s"].to_pylist() == ["\\ud800"]


@settings(max_examples=2 * settings().max_examples)
@given(st.randoms(use_true_random=False), st.booleans())
def test_damaged(rng: random.Random, cut: bool) -> None:
    """A damaged or cut file is read, or refused in one sentence that names it."""
    data = bytearray(packed(EVERY).getvalue())
    if cut:
        del data[rng.randrange(len(data)) :]
    else:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        for line in rows(io.BytesIO(bytes(data))):
            assert line.raw
    except UsageError as error:
        assert str(error).startswith("in.parquet: is damaged")
        assert str(error).isprintable()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"{}\n" * 9, b"PAR1" + b"\xff" * 50 + b"PAR1"], ids=repr)
def test_no_parquet(tmp_path: Path, data: bytes) -> None:
    """What is no Parquet file is refused when it is opened."""
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"x\.parquet: is damaged, or no whole Parquet file"):
        Parquet(str(path))


def test_absent(tmp_path: Path) -> None:
    """A file that is not there, or a directory, is refused with the system's reason."""
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Parquet(str(tmp_path / "x.parquet"))
    with pytest.raises(UsageError, match="cannot be read"):
        Parquet(str(tmp_path))


def test_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the sentence names the extra to install."""
    real = builtins.__import__

    def without(name: str, *args: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"install the reader with: pip install 'ruler-cli\[parquet\]'"):
        Parquet("x.parquet")


def test_changed_meanwhile() -> None:
    """A row that is not there when it is written is told."""
    encoder = Parquet("in.parquet", packed(pa.table({"a": [1]}))).encoder(io.BytesIO())
    with pytest.raises(UsageError, match="changed while it was read"):
        encoder.put(2, b'{"a":1}')


def test_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that pyarrow reads and does not write is a sentence with a way out."""

    def refuse(*_: Any, **_more: Any) -> None:
        raise pa.ArrowNotImplementedError("no lists of that kind")

    file = packed(pa.table({"a": [1]}))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    with pytest.raises(OutputError, match=r"cannot write it again \(no lists of that kind\); update pyarrow"):
        rewritten(file, lambda r: r)


def test_full_disk() -> None:
    """What the stream raises while the file is written reaches the caller as it is."""

    class Full(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    encoder = Parquet("in.parquet", packed(pa.table({"a": [1]}))).encoder(Full())
    encoder.put(1, b'{"a":1}')
    with pytest.raises(OSError, match="No space left") as error:
        encoder.end()
    assert error.value.errno == errno.ENOSPC


def test_large_spool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that memory should not hold wait on disk, and come out the same."""
    monkeypatch.setattr("ruler_cli.files.parquet.encoder._IN_MEMORY", 100)
    out = rewritten(packed(pa.table({"a": list(range(500))})), lambda r: r | {"ruler": {"score": r["a"]}})
    assert pq.read_table(out)["ruler"].to_pylist() == [f'{{"score": {i}}}' for i in range(500)]


def test_large_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group that memory should not hold becomes several."""
    monkeypatch.setattr("ruler_cli.files.parquet.encoder._GROUP", 10_000)
    table = pa.table({"s": ["x" * 100] * 1000})
    out = rewritten(packed(table), lambda r: r)
    assert pq.read_metadata(out).num_row_groups == 4
    assert pq.read_table(out).equals(table)


def scored(file: io.BytesIO, score: float | None = 0.7) -> io.BytesIO:
    """The file as a run writes it, with the same score for all."""
    source, out = Parquet("in.parquet", file), io.BytesIO()
    lines = list(source.records())
    reader = detect("in.parquet", lines, InputSettings("in.parquet"))
    encoder = source.encoder(out)
    mark = Mark(score, {"status": "scored", "score": score, "explanation": "good"})
    for line in lines:
        (record,) = reader.read(line)
        marked = [(rollout, mark) for rollout in record.rollouts]
        encoder.put(line.number, annotate(line.raw, reader.format, marked, {"status": "scored"}, "null"))
    encoder.end()
    return out


MESSAGE = pa.struct(
    [("role", pa.string()), ("content", pa.string()), ("tool_calls", pa.string()),
     ("tool_call_id", pa.string()), ("trainable", pa.bool_())]
)  # fmt: skip
ART = pa.schema(
    [("group_index", pa.int64()), ("group_metadata", pa.string()), ("group_metrics", pa.string()),
     ("group_logs", pa.list_(pa.string())), ("reward", pa.float64()), ("metrics", pa.string()),
     ("metadata", pa.string()), ("tools", pa.string()), ("logs", pa.list_(pa.string())),
     ("messages", pa.list_(MESSAGE))]
)  # fmt: skip
SAID = [
    {"role": "user", "content": "2+2?", "tool_calls": None, "tool_call_id": None, "trainable": False},
    {"role": "assistant", "content": "4", "tool_calls": None, "tool_call_id": None, "trainable": True},
]
ROW = {
    "group_index": 0, "group_metadata": '{"scenario_id": "s1"}', "group_metrics": "{}", "group_logs": ["g"],
    "reward": 1.0, "metrics": '{"correct": true}', "metadata": "{}", "tools": None, "logs": ["log 1"],
    "messages": SAID,
}  # fmt: skip


def test_art_first_version() -> None:
    """ART's table keeps its schema: JSON text stays text, logs a list, the first reward in metrics."""
    file = packed(pa.Table.from_pylist([ROW, ROW | {"reward": 0.5, "logs": None}], ART), compression="ZSTD")
    out = scored(file)
    assert pq.read_schema(out).remove(len(ART)).equals(ART)
    one, two = pq.read_table(out).to_pylist()
    assert one["reward"] == two["reward"] == 0.7
    assert json.loads(one["metrics"]) == {"correct": True, "ruler_score": 0.7, "independent_reward": 1.0}
    assert one["logs"] == ["log 1", "RULER explanation: good"]
    assert two["logs"] == ["RULER explanation: good"]
    assert json.loads(two["ruler"])["independent_reward"] == 0.5
    ours = ("reward", "metrics", "logs", "ruler")
    assert all(one[key] == value for key, value in ROW.items() if key not in ours)


def test_art_second_version() -> None:
    """In the second version the payload holds the score too, and the file's own metadata stays."""
    schema = pa.schema([pa.field("format_version", pa.int16()), ("trajectory_index", pa.int64()),
                        ("trajectory_json", pa.string()), *ART],
                       {b"art.trajectory_parquet.version": b"2"})  # fmt: skip
    payload = {"messages_and_choices": [{"role": "user", "content": "q"}], "reward": 1.0}
    row = ROW | {"format_version": 2, "trajectory_index": 0, "trajectory_json": json.dumps(payload)}
    out = scored(packed(pa.Table.from_pylist([row], schema)))
    found = pq.read_table(out)
    assert found.schema.metadata == schema.metadata
    assert found.schema.remove(len(schema)).equals(schema)
    inner = json.loads(found["trajectory_json"][0].as_py())
    assert inner["reward"] == 0.7
    assert inner["messages_and_choices"] == payload["messages_and_choices"]


def test_scored_again() -> None:
    """A scored file scored again has one `ruler`, the new score, and the first reward still."""
    once = scored(packed(pa.Table.from_pylist([ROW], ART)))
    twice = scored(once, 0.2)
    assert pq.read_schema(twice).equals(pq.read_schema(once))
    row = pq.read_table(twice).to_pylist()[0]
    ruler, metrics = json.loads(row["ruler"]), json.loads(row["metrics"])
    assert (row["reward"], ruler["score"], ruler["independent_reward"]) == (0.2, 0.2, 1.0)
    assert metrics == {"correct": True, "ruler_score": 0.2, "independent_reward": 1.0}
    assert row["logs"] == ["log 1", "RULER explanation: good"]


def test_failed() -> None:
    """A row without a score has null, and the reason in `ruler`."""
    row = pq.read_table(scored(packed(pa.Table.from_pylist([ROW], ART)), None)).to_pylist()[0]
    assert row["reward"] is None
    assert json.loads(row["ruler"])["independent_reward"] == 1.0


def test_group_rows() -> None:
    """A group in one row has its marks inside the list of structs."""
    rollout = {
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        "reward": 1,
    }
    file = packed(pa.table({"group_id": ["g"], "trajectories": [[rollout, rollout | {"reward": 0}]]}))
    again = scored(scored(file), 0.2)
    found = pq.read_table(again).to_pylist()[0]["trajectories"]
    assert [t["reward"] for t in found] == [0.2, 0.2]
    assert [json.loads(t["ruler"])["independent_reward"] for t in found] == [1, 0]
    assert [t["messages"] for t in found] == [rollout["messages"]] * 2


@pytest.mark.parametrize("reward", ["float64", "int64", "Int64", "bool", "category"])
def test_pandas(reward: str) -> None:
    """pandas reads the result with its index and its types, and the new reward as a number."""
    frame = pd.DataFrame({"task": ["a", "b"], "reward": pd.Series([1, 0], dtype=reward)}, index=["x", "y"])
    file = io.BytesIO()
    frame.to_parquet(file)
    out = rewritten(file, lambda r: r | {"reward": 0.7})
    found = pd.read_parquet(out)
    assert list(found.index) == ["x", "y"]
    assert [float(x) for x in found["reward"]] == [0.7, 0.7]
    assert list(found["task"]) == ["a", "b"]


def test_trl() -> None:
    """TRL's completions, as pandas wrote them, keep every column and value."""
    path = SHARED / "formats" / "trl_completions_00040.parquet"
    if not path.exists():
        pytest.skip("the shared examples are not here")
    with Parquet(str(path)) as source:
        out = io.BytesIO()
        encoder = source.encoder(out)
        lines = list(source.records())
        for line in lines:
            encoder.put(line.number, line.raw[:-1] + b', "reward": 0.7, "ruler": {"score": 0.7}}')
        encoder.end()
    before, after = pd.read_parquet(path), pd.read_parquet(out)
    pd.testing.assert_frame_equal(after[list(before.columns)], before)
    assert len(lines) == len(before)
    assert list(after["reward"]) == [0.7] * len(before)


LEAVES = st.sampled_from(
    [pa.string(), pa.large_string(), pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
     pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.decimal128(20, 4), pa.null(), WORDS]
)  # fmt: skip
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"m{i}", kind) for i, kind in enumerate(kinds)])
        )
    ),
    max_leaves=4,
)
MADE = {
    "float": 0.1, "double": 0.1, "bool": True, "binary": b"\xff", "date32[day]": datetime.date(2024, 2, 29),
    "timestamp[us]": datetime.datetime(2024, 1, 1, 1), "decimal128(20, 4)": decimal.Decimal("1.5"),
}  # fmt: skip


def of(kind: pa.DataType, rng: random.Random) -> Any:
    """A value of a type, null one time in four."""
    if rng.random() < 0.25 or pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        return [of(kind.value_type, rng) for _ in range(rng.randint(0, 3))]
    if pa.types.is_struct(kind):
        return {field.name: of(field.type, rng) for field in kind}
    if pa.types.is_integer(kind):
        return rng.choice([0, 1, 100])
    return MADE.get(str(kind), rng.choice(["", 'a"é\n', "{}"]))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(TYPES, min_size=1, max_size=4),
    st.randoms(use_true_random=False),
    st.integers(1, 12),
    st.sampled_from([0.7, 1, True, "text", None, {"a": 1, "ruler": {"b": 2}}, ["x"], [0.5, {"y": None}]]),
)
def test_any_schema(types: list[Any], rng: random.Random, count: int, new: Any) -> None:
    """Whatever the schema and the new value: what is untouched is equal, and no new value is lost."""
    columns = {f"c{i}": pa.array([of(t, rng) for _ in range(count)], t) for i, t in enumerate(types)}
    file = packed(pa.table(columns), row_group_size=5)
    struck = {i for i in range(count) if rng.random() < 0.5}
    numbers = iter(range(count))
    out = rewritten(file, lambda r: r | {"c0": new, "ruler": {"s": 1}} if next(numbers) in struck else r)
    before, after = pq.read_table(file), pq.read_table(out)
    for name in before.column_names[1:]:
        assert after[name].equals(before[name])
        assert after.schema.field(name).equals(before.schema.field(name))
    own, now = read(file), read(out)
    for i in range(count):
        expected = new if i in struck else own[i]["c0"]
        assert means(now[i]["c0"], expected), (now[i]["c0"], expected)
        assert now[i].get("ruler") == ({"s": 1} if i in struck else None)


def means(found: Any, expected: Any) -> bool:
    """Whether a value says the same: numbers by value, JSON text as what it holds, absent as null."""
    if isinstance(found, str) and found != expected:
        return means(json.loads(found), expected)
    if isinstance(found, dict) and isinstance(expected, dict):
        return all(means(found.get(k), expected.get(k)) for k in found.keys() | expected.keys())
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(means, found, expected))
    return bool(found == expected)
