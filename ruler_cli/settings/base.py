"""The base of all settings: frozen values that are checked when they are made.

A mistake is a UsageError that names the setting by its field, whoever made the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from ruler_cli.errors import Sentence, UsageError, WrongShapeError
from ruler_cli.settings.keys import HIDDEN, is_key_name, looks_like_key
from ruler_cli.settings.suggestions import nearest, question

T = TypeVar("T")
_LONGEST = 60
"""Characters of a wrong value that a sentence repeats."""
_NOUNS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Mapping: "a table",
    Sequence: "a list",
}


_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass_transform(field_specifiers=(Field,), frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a class a kind of settings."""
    made: Any = dataclass(frozen=True, config=_CONFIG)(cls)
    return cast("type[T]", made)


@dataclass_transform(
    field_specifiers=(Field,), frozen_default=True, kw_only_default=True
)
def frozen_options(cls: type[T]) -> type[T]:
    """Make a class a kind of settings that are given by their names."""
    made: Any = dataclass(frozen=True, kw_only=True, config=_CONFIG)(cls)
    return cast("type[T]", made)


def _no_flag(value: Any) -> Any:
    """Refuse True and False, which Python counts among the numbers."""
    if isinstance(value, bool):
        raise ValueError
    return value


Whole = Annotated[int, BeforeValidator(_no_flag)]
Number = Annotated[float, BeforeValidator(_no_flag)]


@frozen
class Settings:
    """The base of settings."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_mistake(cls, values: Any, check: ValidatorFunctionWrapHandler) -> Any:
        """Check the values; UsageError for the first mistake."""
        try:
            return check(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if not first["loc"]:  # whatever holds the value names it
                raise
        raise cls._mistake(first)

    @classmethod
    def _mistake(cls, error: ErrorDetails) -> UsageError:
        """Return an error of pydantic as one of ours."""
        fields: dict[str, Any] = cls.__pydantic_fields__  # type: ignore[attr-defined]  # pydantic adds it
        first = error["loc"][0]
        positional = isinstance(first, int) and first < len(fields)
        name = [*fields][int(first)] if positional else str(first)
        if name not in fields:
            return unknown_option(name, fields)
        field = fields[name]
        kind = WrongShapeError if error["type"].endswith("_type") else UsageError
        value = repr(error["input"])
        if looks_like_key(str(error["input"])):
            value = HIDDEN
        elif len(value) > _LONGEST:
            value = f"{value[:_LONGEST]}…"
        noun = _noun(field.annotation, field.metadata)
        return kind(f"{value} is not {noun}", option=name)


def unknown_option(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that no option has."""
    if is_key_name(name):
        remedy = Sentence("name the variable that holds the key with {api_key_env:VAR}")
        return UsageError("is no option", remedy, place=name)
    return UsageError(f"no such option: {name}{question(nearest(name, known))}")


def _noun(annotation: Any, metadata: Iterable[Any]) -> str:
    """Return what a field takes, in words."""
    kinds = [annotation]
    if NoneType in get_args(annotation):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    kind = kinds[0]
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    kind = get_origin(kind) or kind
    noun = _NOUNS.get(kind, f"of type {getattr(kind, '__name__', kind)}")
    least = next((one.ge for one in metadata if hasattr(one, "ge")), None)
    most = next((one.le for one in metadata if hasattr(one, "le")), None)
    if least is not None:
        bounds = (
            f"of {least:g} or more" if most is None else f"from {least:g} to {most:g}"
        )
        noun = f"{noun} {bounds}"
    return noun
