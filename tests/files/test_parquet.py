"""Parquet as records, and annotated records as Parquet."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files.arrow import TableWriter
from ruler_cli.files.containers.parquet import Parquet
from ruler_cli.files.parse import parse
from ruler_cli.files.splice import read_object
from ruler_cli.types import Line
from tests.conftest import Ruler, write
from tests.values import talk

UTC = datetime.UTC
WORDS = pa.dictionary(pa.int32(), pa.string())
Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def packed(table: pa.Table, **how: Any) -> io.BytesIO:
    """Write a table as a Parquet file."""
    file = io.BytesIO()
    pq.write_table(table, file, **how)
    return file


def rows(file: io.BytesIO) -> list[Line]:
    """Read every row as a record."""
    return list(Parquet("in.parquet", file).records())


def read(file: io.BytesIO) -> list[dict[str, Any]]:
    """Read every row as a value."""
    return [parse(line.raw) for line in rows(file)]


def rewritten(file: io.BytesIO, change: Change) -> io.BytesIO:
    """Write the file with each record changed, or left out if `change` returns None."""
    source, out = Parquet("in.parquet", file), io.BytesIO()
    writer = TableWriter(out, "out.parquet", source)
    for line in source.records():
        record = change(parse(line.raw))
        if record is not None:
            writer.put(line.number, patched(line.raw, record))
    writer.end()
    return out


def patched(raw: bytes, record: dict[str, Any]) -> bytes:
    """Return a record that has its own bytes for the unchanged fields."""
    old = parse(raw)
    same = {
        k: raw_value(raw, k)
        for k, v in record.items()
        if k in old and json.dumps(old[k]) == json.dumps(v)
    }
    parts = (
        json.dumps(k).encode() + b": " + same.get(k, json.dumps(v).encode())
        for k, v in record.items()
    )
    return b"{" + b", ".join(parts) + b"}"


def raw_value(raw: bytes, key: str) -> bytes:
    """Return a field's bytes."""
    return raw[slice(*read_object(raw).members[key][1:])]


def setting(**values: Any) -> Change:
    """Make a change that sets fields."""
    return lambda record: record | values


def kinds(file: io.BytesIO) -> dict[str, str]:
    """Return each column's type."""
    return {field.name: str(field.type) for field in pq.read_schema(file)}


EVERY = pa.table(
    {
        "i": pa.array([1, None, -(2**63)]),
        "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
        "f": [float("nan"), float("-inf"), None],
        "h": pa.array([1.5, None, float("inf")], pa.float16()),
        "dec": pa.array(
            [decimal.Decimal("0.100"), None, decimal.Decimal("-12.5")],
            pa.decimal128(30, 3),
        ),
        "s": ["a", None, '"\n\u2028é\\'],
        "ls": pa.array(["x", None, ""], pa.large_string()),
        "sv": pa.array(["x", None, "y"], pa.string_view()),
        "d": pa.array(["p", None, "p"]).dictionary_encode(),
        "b": [b"abc", None, b""],
        "fb": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "l": [[1, None], None, []],
        "fl": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
        "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "mi": pa.array(
            [[(1, "a")], None, []], pa.map_(pa.int32(), pa.string())
        ),
        "st": [{"a": {"b": [{"c": 1.5}]}}, None, {"a": None}],
        "ts": pa.array(
            [datetime.datetime(2024, 1, 1, 1, 2, 3, 4), None, None],
            pa.timestamp("us"),
        ),
        "tz": pa.array(
            [datetime.datetime(2024, 1, 1, tzinfo=UTC), None, None],
            pa.timestamp("ms", "UTC"),
        ),
        "da": pa.array(
            [datetime.date(2024, 1, 1), None, datetime.date(1, 1, 1)]
        ),
        "ti": pa.array([datetime.time(1, 2, 3), None, None]),
        "du": pa.array(
            [datetime.timedelta(seconds=1), None, None], pa.duration("s")
        ),
        "n": pa.nulls(3),
        "bo": [True, None, False],
        "id": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([bytes(16), None, bytes(16)], pa.binary(16))
        ),
        "a.b": [1, 2, 3],
    }
)


def test_values() -> None:
    """A row is one object in the order of the columns, with any types; nothing is rounded."""
    first, second, third = rows(packed(EVERY, row_group_size=2))
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert (third.where, third.offset) == ("row 3", 2)
    assert first.raw == (
        b'{"i":1,"u":18446744073709551615,"f":NaN,"h":1.5,"dec":0.1,"s":"a","ls":"x","sv":"x","d":"p",'
        b'"b":"<3 bytes>","fb":"<2 bytes>","l":[1,null],"fl":[1,2],"m":{"a":1},"mi":{"1":"a"},'
        b'"st":{"a":{"b":[{"c":1.5}]}},"ts":"2024-01-01T01:02:03.000004","tz":"2024-01-01T00:00:00+00:00",'
        b'"da":"2024-01-01","ti":"01:02:03","du":1.0,"n":null,"bo":true,"id":"00000000-0000-0000-0000-000000000000","a.b":1}'
    )
    assert second.raw.count(b"null") == len(EVERY.schema) - 3
    assert b'"f":-Infinity' in second.raw
    assert parse(third.raw)["s"] == '"\n\u2028é\\'
    assert parse(third.raw)["i"] == -(2**63)


KEPT = ["i", "u", "f", "h", "s", "ls", "d", "l", "fl", "st", "ts", "tz", "da", "ti", "bo", "a.b"]  # fmt: skip
"""Columns whose values JSON holds."""


def test_untouched() -> None:
    """Unchanged columns keep every value, as JSON has it, and the table its metadata."""
    metadata = {b"art.trajectory_parquet.version": b"2"}
    table = EVERY.select(KEPT).replace_schema_metadata(
        {**metadata, b"huggingface": b"{}"}
    )
    file = packed(table, row_group_size=2)
    out = rewritten(file, setting(ruler={"score": 0.5}))
    assert pq.read_schema(out).metadata == metadata
    assert pq.read_schema(out).names == [*KEPT, "ruler"]
    assert (
        pq.read_table(out).column("ruler").to_pylist() == [{"score": 0.5}] * 3
    )
    for before, after in zip(read(file), read(out), strict=True):
        # NaN is not NaN
        assert str(after) == str(before | {"ruler": {"score": 0.5}})


def test_large_integers() -> None:
    """An integer that a float would round becomes text, beside or below a score that is no integer."""
    large, nested = (
        2**53 + 1,
        pa.array([[{"reward": 2**53 + 1}], [{"reward": 3}]]),
    )
    for file in (
        packed(
            pa.table({"reward": [large, 3], "t": nested}), row_group_size=size
        )
        for size in (1, 2)
    ):
        out = rewritten(
            file,
            lambda r: (
                r
                if r["reward"] > 3
                else {"reward": 0.7, "t": [{"reward": 0.7}]}
            ),
        )
        assert pq.read_table(out)["reward"].to_pylist() == [str(large), "0.7"]
        assert means(
            [row["t"] for row in read(out)],
            [[{"reward": large}], [{"reward": 0.7}]],
        )


def test_equal_names() -> None:
    """Columns with equal names are refused: a record would contain only one of them."""
    columns = [pa.array([1, 2]), pa.array([3, 4])]
    with pytest.raises(UsageError, match="two columns are named `x`"):
        rows(packed(pa.Table.from_arrays(columns, names=["x", "x"])))


def test_empty() -> None:
    """A file without rows or without columns has no records, and can be written again."""
    for table in (pa.table({}), pa.table({"a": pa.array([], pa.int64())})):
        assert rows(packed(table)) == []
        assert (
            pq.read_table(
                rewritten(packed(table), lambda record: record)
            ).column_names
            == table.column_names
        )


def test_surrogates() -> None:
    """A lone surrogate, which Parquet cannot represent, becomes its escape in OUTPUT."""
    source, out = Parquet("in", packed(pa.table({"s": ["a"]}))), io.BytesIO()
    writer = TableWriter(out, "out.parquet", source)
    writer.put(1, rb'{"s":"\ud800"}')
    writer.end()
    assert pq.read_table(out)["s"].to_pylist() == ['"\\ud800"']
    out = io.BytesIO()
    writer = TableWriter(out, "out.parquet", None)
    writer.put(1, rb'{"\ud800":{"\ud801":1}}')
    writer.end()
    assert pq.read_table(out).to_pylist() == [{"\\ud800": '{"\\ud801":1}'}]


def test_deep() -> None:
    """A column that is nested as deeply as a record may be is JSON text; one of some levels is not."""
    deep = [
        b'{"a":' * 950 + b"1" + b"}" * 950,
        b"[" * 950 + rb'"\ud800"' + b"]" * 950,
    ]
    out = io.BytesIO()
    writer = TableWriter(out, "out.parquet", None)
    for number, raw in enumerate([*deep, b"null", b'"text"', b"7"], 1):
        writer.put(number, b'{"x":%s,"y":{"a":[{"b":1}]}}' % raw)
    writer.end()
    table = pq.read_table(out)
    texts = [raw.decode() for raw in deep]
    assert table["x"].to_pylist() == [*texts, None, '"text"', "7"]
    assert table["y"].to_pylist() == [{"a": [{"b": 1}]}] * 5


def test_group_rows() -> None:
    """A group in one row gets annotations in the list of structs, whose other fields have the same JSON."""
    at = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    before_values = {
        "messages": [{"role": "user", "content": "q", "at": at}],
        "reward": 1,
    }
    annotation = {"reward": 0.7, "ruler": {"score": 0.7}}
    table = pa.table(
        {
            "group_id": ["g", "h"],
            "trajectories": [[before_values, before_values], [before_values]],
        }
    )
    before = read(packed(table))
    out = rewritten(
        packed(table),
        lambda r: (
            r
            | {
                "trajectories": [
                    r["trajectories"][0] | annotation,
                    *r["trajectories"][1:],
                ]
            }
        ),
    )
    first = before[1]["trajectories"][0]
    now = [row["trajectories"] for row in read(out)]
    assert now == [
        [first | annotation, first | {"ruler": None}],
        [first | annotation],
    ]


@pytest.mark.parametrize("name", ["dec", "b", "fb", "m", "mi", "du", "id"])
def test_no_json(name: str) -> None:
    """A table with a column that JSON does not hold is refused as OUTPUT: its values would change."""
    refused = rf"column `{name}` of INPUT is .*give OUTPUT a name that ends in \.jsonl"
    tables = [EVERY.select([name])]
    if name != "id":
        kind = pa.struct([("x", EVERY.schema.field(name).type)])
        tables.append(
            pa.table({name: pa.array([[{"x": None}]], pa.list_(kind))})
        )
    for table in tables:
        with pytest.raises(UsageError, match=refused):
            rewritten(packed(table), setting(ruler=1))


LEAVES = st.sampled_from(
    [pa.string(), pa.large_string(), pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(),
     pa.bool_(), pa.date32(), pa.timestamp("us"), pa.null(), WORDS]
)  # fmt: skip
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct(
                [(f"m{i}", kind) for i, kind in enumerate(kinds)]
            )
        )
    ),
    max_leaves=4,
)
MADE = {
    "float": 0.1, "double": 0.1, "bool": True, "date32[day]": datetime.date(2024, 2, 29),
    "timestamp[us]": datetime.datetime(2024, 1, 1, 1),
}  # fmt: skip


def of(kind: pa.DataType, rng: random.Random) -> Any:
    """Draw a value of a type, null one time in four."""
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
    st.sampled_from(
        [
            0.7,
            1,
            True,
            "text",
            None,
            {"a": 1, "ruler": {"b": 2}},
            ["x"],
            [0.5, {"y": None}],
        ]
    ),
)
def test_any_schema(
    types: list[Any], rng: random.Random, count: int, new: Any
) -> None:
    """For any schema and new value, unchanged values are equal, and no new value is lost."""
    columns = {
        f"c{i}": pa.array([of(t, rng) for _ in range(count)], t)
        for i, t in enumerate(types)
    }
    file = packed(pa.table(columns), row_group_size=5)
    struck = {i for i in range(count) if rng.random() < 0.5}
    numbers = iter(range(count))
    out = rewritten(
        file,
        lambda r: (
            r | {"c0": new, "ruler": {"s": 1}} if next(numbers) in struck else r
        ),
    )
    before_values, now = read(file), read(out)
    for i in range(count):
        for name in columns.keys() - {"c0"}:
            assert means(now[i][name], before_values[i][name])
        expected = new if i in struck else before_values[i]["c0"]
        assert means(now[i]["c0"], expected), (now[i]["c0"], expected)
        assert now[i].get("ruler") == ({"s": 1} if i in struck else None)


def means(value: Any, expected: Any) -> bool:
    """Return whether a value means the same: numbers by value, JSON text by its content, absent as null."""
    if isinstance(value, str) and value != expected:
        return means(json.loads(value), expected)
    if isinstance(value, dict) and isinstance(expected, dict):
        return all(
            means(value.get(k), expected.get(k))
            for k in value.keys() | expected.keys()
        )
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(means, value, expected))
    return bool(value == expected)


def test_contents_of_two_kinds(ruler: Ruler, tmp_path: Path) -> None:
    """A group with texts and parts as contents is written as JSON text, and read again as what it was."""
    parts = [{"type": "text", "text": "Rome."}]
    rollouts: list[dict[str, Any]] = [
        {"messages": talk("Paris."), "meta": {}, "passed": True},
        {"messages": talk("Rome."), "meta": {"n": 1 << 70}, "passed": 0.5},
    ]
    rollouts[1]["messages"][-1]["content"] = parts
    write(tmp_path / "in.jsonl", [{"group_id": "g", "trajectories": rollouts}])
    done = ruler("score", "in.jsonl", "out.parquet", "-m", "offline")
    assert done.returncode == 0, done.stderr
    written = io.BytesIO((tmp_path / "out.parquet").read_bytes())
    (row,) = read(written)
    for before, after in zip(rollouts, row["trajectories"], strict=True):
        assert after.items() >= before.items()
    assert read(rewritten(written, setting(i=1))) == [row | {"i": 1}]
    page = json.loads(ruler("report", "out.parquet", "--json").stdout)
    assert page["figures"]["rollouts"]["scored"] == 2
