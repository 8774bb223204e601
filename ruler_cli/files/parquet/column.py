"""One column on its way out: what it held, what it must hold now, and its new values in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ruler_cli.files.parquet.cells import cells, values
from ruler_cli.files.parquet.types import OURS, Misfit, fitted, is_nested, is_text, told, widened
from ruler_cli.files.parse import parse_text

if TYPE_CHECKING:
    from ruler_cli.files.parquet.rows import Rows


class Column:
    """A column of the source, or a new one.

    `kind` is the type that it is written with, known from `settle` on.
    """

    def __init__(self, name: str, at: int | None, field: Any) -> None:
        """`at` is its place in the source and `field` its Arrow field; None where it is new."""
        import pyarrow as pa

        self.name, self.at, self.field = name, at, field
        self.kind: Any = field.type if field is not None else pa.null()
        self.changed = 0
        self.gains_null = False
        self._key = len(_member(name))
        self._blank = 0
        self._anew: Any = pa.null()
        self._fits = self._anew_fits = True
        self._alone = False
        self._nested = is_nested(self.kind)
        self._verbatim = name == OURS

    def sees(self, fields: list[bytes], value: bytes) -> bool:
        """Learn a row's value; whether it is another than its own."""
        own = b"" if self.at is None else fields[self.at][self._key :]
        if value == own:
            self._blank += value == b"null"
            return False
        self.changed += 1
        self.gains_null = self.gains_null or value == b"null"
        read = None if self._verbatim or value == b"null" else _read(value)
        before = _read(own) if self._nested and own else None
        self.kind, self._fits = _or_not(self.kind, read, self.name, self._fits, before)
        self._anew, self._anew_fits = _or_not(self._anew, read, self.name, self._anew_fits)
        return True

    def settle(self, rows: int, source: Rows) -> None:
        """Decide on the type, once all `rows` rows are seen."""
        import pyarrow as pa

        if not self.changed:
            return
        self._alone = self.at is None or self.changed + self._blank == rows
        if not self._fits and self._alone and self._anew_fits:
            self.kind, self._fits = self._anew, True
        if self._fits and not self._alone and not self.kind.equals(self.field.type):
            self._fits = self._converts(source)
        if self.at is None:
            self.kind = told(self.kind)
        if not self._fits or (self._verbatim and not is_text(_plain(self.kind))):
            self.kind, self._verbatim = (
                pa.string(),
                self.field is None or not is_text(_plain(self.field.type)),
            )

    def place(self, arrays: list[Any]) -> int:
        """Where it stands among a batch's arrays, made longer for a new one."""
        if self.at is not None:
            return self.at
        arrays.append(None)
        return len(arrays) - 1

    def array(self, batch: Any, changes: list[dict[str, bytes]]) -> Any:
        """Its values for the rows of a batch, given what changed in each."""
        import pyarrow as pa

        own = pa.nulls(len(changes)) if self.at is None else batch.column(self.at)
        if not self.changed:
            return own
        rows = [row for row, change in enumerate(changes) if self.name in change]
        plain = _plain(self.kind)
        old = _Old(own, rows) if self.at is not None and is_nested(own.type) else None
        texts = [changes[row][self.name].decode("utf-8", "surrogatepass") for row in rows]
        new = pa.array(
            [self._value(text, plain, old.pair(i) if old else None) for i, text in enumerate(texts)], plain
        )
        if len(rows) < len(changes):
            order = list(range(len(changes)))
            for i, row in enumerate(rows):
                order[row] = len(changes) + i
            new = pa.concat_arrays([self._base(own, plain), new]).take(pa.array(order))
        return _wrapped(new, self.kind)

    def _value(self, text: str, plain: Any, old: tuple[Any, Any] | None) -> Any:
        if text == "null":
            return None
        if is_text(plain) and (self._verbatim or text[:1] != '"'):
            return _encodable(text)
        value = parse_text(text)
        if isinstance(value, str) and is_text(plain):
            return _encodable(value)
        return fitted(value, plain, *(old or ()))

    def _base(self, own: Any, plain: Any) -> Any:
        """The column's own values in the type that it is written with."""
        import pyarrow as pa

        if self._alone:  # nothing but null is left of it
            return pa.nulls(len(own), plain)
        held = own.storage if isinstance(own.type, pa.BaseExtensionType) else own
        if is_text(plain) and not is_text(_plain(own.type)):
            texts = (None if cell == b"null" else _encodable(cell.decode()) for cell in cells(own))
            return pa.array(list(texts), plain)
        return held if held.type.equals(plain) else held.cast(plain)

    def _converts(self, source: Rows) -> bool:
        import pyarrow as pa

        try:
            unique = source.schema.names.count(self.name) == 1
            for _, batch in source.batches([self.name] if unique else None):
                at = batch.schema.get_field_index(self.name) if unique else self.at
                self._base(batch.column(at), _plain(self.kind))
        except (pa.ArrowException, ValueError):
            return False
        return True


class _Old:
    """What stood in the rows that change, as Arrow has it and as JSON."""

    def __init__(self, own: Any, rows: list[int]) -> None:
        import pyarrow as pa

        taken = own.take(pa.array(rows, pa.int64()))
        self._arrow, self._json = taken.to_pylist(), values(taken)

    def pair(self, at: int) -> tuple[Any, Any]:
        """Both, for one of the rows."""
        return self._arrow[at], self._json[at]


def _member(name: str) -> bytes:
    """A member's name with its colon, as a row's JSON has it."""
    import orjson

    return orjson.dumps(name) + b":"


def _read(value: bytes) -> Any:
    return parse_text(value.decode("utf-8", "surrogatepass"))


def _or_not(kind: Any, value: Any, name: str, fits: bool, before: Any = None) -> tuple[Any, bool]:
    if not fits:
        return kind, False
    try:
        return widened(kind, value, name, before), True
    except Misfit:
        return kind, False


def _plain(kind: Any) -> Any:
    """The type of the values, without dictionary or extension."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _wrapped(array: Any, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(array)
    return array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array


def _encodable(text: str) -> str:
    r"""Text that Arrow takes: it is UTF-8, so a lone surrogate becomes its \u escape."""
    return text.encode("utf-8", "backslashreplace").decode()
