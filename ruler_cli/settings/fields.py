"""The parts of a section of settings: its class, its kinds of values, and the sentence for a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, get_args

import pydantic.dataclasses
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)

from ruler_cli.errors import UsageError, WrongShapeError
from ruler_cli.settings.keys import HIDDEN, is_key_name, looks_like_key
from ruler_cli.settings.suggestions import instead_of, nearest, question

T = TypeVar("T")
_LONGEST = 60
"""Characters of a wrong value that a sentence repeats."""
_TECHNICAL = re.compile("Value error, |, (unable|got) .*| for <.*")
"""Parts of pydantic's sentences that say how a value was read."""
_NUMBERS = {
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "{le:g} or less",
}
"""Numbers that are right, by pydantic's kinds of mistakes."""
# a class is built when its first value is checked: most commands need few
_CONFIG = ConfigDict(
    extra="forbid",
    arbitrary_types_allowed=True,
    defer_build=True,
)
NAMES = {
    "as_": "as",
    "as_json": "json",
    "all_batches": "all",
    "open_page": "open",
    "page": "output",
    "params": "param",
    "pass_": "pass",
    "wait_timeout": "timeout",
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
"""The section of each setting, by its field."""


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


def fields_of(section: type) -> dict[str, Any]:
    """Return the fields of a section, as pydantic describes them."""
    members: dict[str, Any] = section.__pydantic_fields__  # type: ignore[attr-defined]  # pydantic adds it
    return members


@cache
def settings_of(section: type) -> dict[str, Setting]:
    """Return the settings of a section: its fields with a help."""
    settings = {}
    for name, member in fields_of(section).items():
        for mark in member.metadata:
            if isinstance(mark, Setting):
                settings[name] = mark
    return settings


def setting_of(name: str) -> Setting:
    """Return the help of a setting, by its field."""
    return settings_of(SECTIONS[name])[name]


def option_name(name: str) -> str:
    """Return how a command line names a setting, by its field: `--max-cost`, `-m`, `--set retries`."""
    if name in ("model", "params"):
        return SHORT_NAMES[name]
    if name not in SECTIONS:  # a program sets it
        return name
    if not isinstance(setting_of(name), Option):
        return f"--set {public_name(name)}"
    return f"--{public_name(name).replace('_', '-')}"


def is_flag(section: type, name: str) -> bool:
    """Return whether a field is a flag."""
    annotation = fields_of(section)[name].annotation
    return annotation is bool or bool in get_args(annotation)


def choices_of(section: type, name: str) -> list[str]:
    """Return the words that a field takes, of one that takes no others."""
    annotation = fields_of(section)[name].annotation
    words: list[str] = []
    for kind in (annotation, *get_args(annotation)):
        words += [word for word in get_args(kind) if isinstance(word, str)]
    return [*dict.fromkeys(words)]


def public_name(field_name: str) -> str:
    """Return the name of a setting in a file; with dashes it is that of an option."""
    return NAMES.get(field_name, field_name)


@dataclass_transform(field_specifiers=(Field, field), frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a class a section of settings."""
    section: Any = pydantic.dataclasses.dataclass(frozen=True, config=_CONFIG)(
        cls
    )
    for name in settings_of(section):
        SECTIONS.setdefault(name, section)
    return cast("type[T]", section)


def _no_flag(value: Any) -> Any:
    """Return True and False, which Python counts among the numbers, as words that are none."""
    return str(value) if isinstance(value, bool) else value


Whole = Annotated[int, BeforeValidator(_no_flag)]
Number = Annotated[float, BeforeValidator(_no_flag)]
Limit = Annotated[Whole | None, Field(ge=1)]
Share = Annotated[Number, Field(ge=0, le=1)]
Seconds = Annotated[Number, Field(ge=0)]


def paths(value: Any) -> Any:
    """Return the paths of a setting that is repeated; one text, or one path of a file, is one of them."""
    if isinstance(value, str | Path):
        return (str(value),)
    if isinstance(value, list):  # a format is hashed
        return tuple(value)
    return () if value is None else value


Paths = Annotated[str | Sequence[str], BeforeValidator(paths)]


def texts(value: Any) -> Any:
    """Return the texts of a setting that is repeated; one text holds several, with spaces between them."""
    return tuple(value.split()) if isinstance(value, str) else value


Texts = Annotated[str | Sequence[str], BeforeValidator(texts)]


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


class SettingShapeError(SettingError, WrongShapeError):
    """A setting has a value of another kind than it takes."""


@frozen
class Section:
    """The base of the sections."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_mistake(
        cls, values: Any, check: ValidatorFunctionWrapHandler
    ) -> Any:
        """Check the values; SettingError for the first mistake, in pydantic's words."""
        try:
            return check(values)
        except ValidationError as error:
            mistakes = error.errors(include_url=False)
            # a misspelt name is why another one is missing
            mistake = min(mistakes, key=lambda item: item["type"] == "missing")
            if not mistake["loc"]:  # whatever holds the value names it
                raise
        members = fields_of(cls)
        place = mistake["loc"][0]
        name = [*members][place] if isinstance(place, int) else place
        if name not in members:
            raise unknown_setting(name, members)
        if mistake["type"] == "missing":
            raise SettingError(name, "is missing", "set it")
        value = repr(mistake["input"])
        if looks_like_key(value.strip("'")) or "header" in value.lower():
            value = HIDDEN
        if len(value) > _LONGEST:
            value = f"{value[:_LONGEST]}…"
        problem = _TECHNICAL.sub("", mistake["msg"]).replace(
            "should be", "is not"
        )
        if mistake["type"] in _NUMBERS:
            wanted = _NUMBERS[mistake["type"]].format(**mistake.get("ctx", {}))
            problem = f"Input is not {wanted}"
        wrong_type = mistake["type"].endswith("_type")
        kind = SettingShapeError if wrong_type else SettingError
        raise kind(name, problem.replace("Input", value, 1))


def long_name(name: str) -> str:
    """Return the long name of an option, by its field."""
    return public_name(name).replace("_", "-")


def unknown_setting(name: str, names: Iterable[str]) -> UsageError:
    """Return the error for a name that no setting has."""
    if is_key_name(name):
        remedy = "name the variable that holds the key with --api-key-env VAR"
        return UsageError(f"{name} is not an option", remedy)
    problem = f"no such option: {name}"
    instead = instead_of(name)
    if instead is not None:
        return UsageError(problem, instead)
    return UsageError(
        f"{problem}{question(nearest(name, map(public_name, names)))}"
    )
