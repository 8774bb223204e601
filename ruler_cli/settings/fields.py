"""The parts of a section of settings: its class, its kinds of values, and the sentence for a wrong one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from ruler_cli.errors import UsageError
from ruler_cli.settings.keys import HIDDEN, is_key_name, looks_like_key
from ruler_cli.settings.suggestions import instead_of, question, suggestion_for
from ruler_cli.types import shorten, words_of

T = TypeVar("T")
_LONGEST = 60
"""Characters of a wrong value that a sentence repeats."""
NAMES = {
    "as_": "as",
    "as_json": "json",
    "all_batches": "all",
    "page": "output",
    "params": "param",
}
"""Fields whose name on the command line, in a variable and in a file is another one."""
SHORT_NAMES = {
    "model": "-m",
    "params": "-p",
    "concurrency": "-c",
    "page": "-o",
    "yes": "-y",
}
SECTIONS: dict[str, type] = {}
_SETTINGS: dict[str, Setting] = {}
"""The section of each setting, and its help, by its field."""
_UNIONS = (Union, UnionType)
_KINDS: dict[type, dict[str, Any]] = {}
"""The annotations of each section, by its fields."""


@dataclass(frozen=True)
class Setting:
    """The help of a field that the user sets with `--set`, in `ruler.toml` or by a variable.

    `value` is the name of its value, for a field that is neither a flag nor a choice of words. A field of `many` is
    repeated on the command line. One that is `per_run` has no variable.
    """

    help: str
    value: str = ""
    many: bool = False
    per_run: bool = False


@dataclass(frozen=True)
class Option(Setting):
    """The help of a field that is also an option of the command line."""


@dataclass(frozen=True)
class PerRun(Option):
    """The help of an option that is for one run, and has no variable."""

    per_run: bool = True


@dataclass(frozen=True)
class Within:
    """The bounds of a number."""

    least: float
    most: float = math.inf


_FLAGS = dict.fromkeys(words_of("1 on t true y yes"), True)
_FLAGS |= dict.fromkeys(words_of("0 off f false n no"), False)


def _flag(value: Any) -> bool:
    word = str(value).lower()
    if word not in _FLAGS:
        raise ValueError("a valid boolean")
    return _FLAGS[word]


def _number(value: Any, wanted: str = "a number") -> float:
    # Python counts True among the numbers
    if isinstance(value, bool):
        raise ValueError(wanted)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(wanted) from None


def _whole(value: Any) -> int:
    number = _number(value, "a whole number")
    if not number.is_integer():
        raise ValueError("a whole number")
    # of a text as it stands: a float has 53 bits
    with suppress(ValueError):
        return int(value)
    return int(number)


_READERS: Mapping[Any, Any] = {bool: _flag, float: _number, int: _whole}
_OF_TEXT: Mapping[Any, Any] = {str: str, Path: Path, bytes: str.encode}
"""The readers of values by their kind, and of texts."""


def read_value(kind: Any, value: Any) -> Any:
    """Return a value as an annotation has it, whose functions change the value first.

    ValueError says what the value is not.
    """
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin is Annotated:
        return _read_marked(value, *parts)
    if origin in _UNIONS:
        return _read_any(value, parts)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple([read_value(parts[0], item) for item in value])
    if kind in _READERS:
        return _READERS[kind](value)
    if origin is Literal and value not in parts:
        *words, last = map(repr, parts)
        listed = f"{', '.join(words)} or " if words else ""
        raise ValueError(listed + last)
    if origin is Literal or kind is Any or isinstance(value, origin or kind):
        return value
    if kind not in _OF_TEXT:
        raise ValueError(f"an instance of {kind.__name__}")
    if not isinstance(value, str):
        raise ValueError("a text")
    return _OF_TEXT[kind](value)


def _read_marked(value: Any, kind: Any, *marks: Any) -> Any:
    """Return a value that functions change before it is read, within its bounds."""
    for mark in marks:
        if callable(mark):
            value = mark(value)
    value = read_value(kind, value)
    for mark in marks:
        if isinstance(mark, Within) and value is not None:
            # not a number is in no bounds
            if not value >= mark.least:
                raise ValueError(f"{mark.least:g} or more")
            if value > mark.most:
                raise ValueError(f"{mark.most:g} or less")
    return value


def _read_any(value: Any, kinds: Sequence[Any]) -> Any:
    """Return a value as the first of several kinds that has it."""
    if value is None and NoneType in kinds:
        return None
    mistakes = []
    for kind in kinds:
        try:
            return read_value(kind, value)
        except ValueError as mistake:
            mistakes.append(mistake)
    raise mistakes[0]


def kinds_of(section: type) -> dict[str, Any]:
    """Return the annotations of the fields of a section."""
    return _KINDS[section]


def setting_of(name: str) -> Setting:
    """Return the help of a setting, by its field."""
    return _SETTINGS[name]


def option_name(name: str) -> str:
    """Return how a command line names a setting, by its field: `--max-cost`, `-m`, `--set retries`."""
    if name in ("model", "params"):
        return SHORT_NAMES[name]
    if name not in SECTIONS:  # a program sets it
        return name
    if isinstance(setting_of(name), Option):
        return f"--{long_name(name)}"
    return f"--set {name}"


def _kinds_of_setting(name: str) -> tuple[Any, ...]:
    """Return the kinds of values of a setting, by its field, without their marks."""
    kind = get_args(kinds_of(SECTIONS[name])[name])[0]
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def is_flag(name: str) -> bool:
    """Return whether a setting is a flag, by its field."""
    return bool in _kinds_of_setting(name)


def choices_of(name: str) -> list[str]:
    """Return the words that a setting takes, by its field, of one that takes no others."""
    words: list[str] = []
    for kind in _kinds_of_setting(name):
        if get_origin(kind) is Literal:
            words += get_args(kind)
    return words


def public_name(field_name: str) -> str:
    """Return the name of a setting in a file; with dashes it is that of an option."""
    return NAMES.get(field_name, field_name)


def long_name(name: str) -> str:
    """Return the long name of an option, by its field."""
    return public_name(name).replace("_", "-")


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a class a section of settings."""
    section = dataclass(frozen=True)(cls)
    kinds = get_type_hints(section, include_extras=True)
    kinds.pop("_", None)
    _KINDS[section] = kinds
    for name, kind in kinds.items():
        for mark in get_args(kind):
            if isinstance(mark, Setting) and name not in SECTIONS:
                SECTIONS[name] = section
                _SETTINGS[name] = mark
    return section


Limit = Annotated[int | None, Within(1)]
Share = Annotated[float, Within(0, 1)]
Seconds = Annotated[float, Within(0)]


def paths(value: Any) -> Any:
    """Return the paths of a setting that is repeated; one text, or one path of a file, is one of them."""
    if isinstance(value, str | Path):
        return (str(value),)
    if isinstance(value, list | tuple):  # a format is hashed
        return tuple([str(p) if isinstance(p, Path) else p for p in value])
    return () if value is None else value


Paths = Annotated[str | tuple[str, ...], paths]


def texts(value: Any) -> Any:
    """Return the texts of a setting that is repeated; one text holds several, with spaces between them."""
    return tuple(value.split()) if isinstance(value, str) else value


class SettingError(UsageError):
    """A setting has a wrong value; `setting` is its field, by which the source of the value is found."""

    def __init__(
        self,
        setting: str,
        problem: str,
        remedy: str = "",
        value: object = "",
    ) -> None:
        """`value` is shown if it is not empty."""
        place = f"{option_name(setting)} {value}".strip()
        super().__init__(problem, remedy, place=place)
        self.setting = setting


@frozen
class Section:
    """The base of the sections."""

    def __new__(cls, *_: Any, **values: Any) -> Self:
        """Raise UsageError for a name that no field has."""
        refuse_unknown(values, kinds_of(cls))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Read the values; SettingError for the first that is wrong."""
        for name, kind in kinds_of(type(self)).items():
            value = getattr(self, name)
            if value is getattr(type(self), name, MISSING):
                continue
            try:
                read = read_value(kind, value)
            except ValueError as mistake:
                problem = f"{_shown(value)} is not {mistake}"
                raise SettingError(name, problem) from None
            object.__setattr__(self, name, read)


def _shown(value: object) -> str:
    """Return a wrong value as a sentence repeats it."""
    text = repr(value)
    if looks_like_key(text.strip("'")) or "header" in text.lower():
        return HIDDEN
    return shorten(text, _LONGEST)


def refuse_unknown(names: Iterable[str], settings: Collection[str]) -> None:
    """Raise UsageError for a name that no setting has."""
    for name in names:
        if name in settings:
            continue
        if is_key_name(name):
            remedy = (
                "name the variable that holds the key with --api-key-env VAR"
            )
            raise UsageError(f"{name} is not an option", remedy)
        problem = f"no such option: {name}"
        near = question(suggestion_for(name, map(public_name, settings)))
        instead = instead_of(name)
        if instead is None:
            problem += near
        raise UsageError(problem, instead or "")
