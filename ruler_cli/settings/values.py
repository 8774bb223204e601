"""Values in `ruler.toml`: the keys of a judge, the options of a command, and sentences on mistakes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from ruler_cli.errors import UsageError, named
from ruler_cli.settings.keys import is_key_name, is_variable_name, refuse_key
from ruler_cli.settings.models import param_mistake
from ruler_cli.settings.suggestions import nearest, question

NO_KEY_IN_FILE = (
    "a key never stands in a file; name the variable that holds it: api_key_env"
)
_IN_PYTHON = {
    "ask": "takes a function, which is given in Python: JudgeSettings(NAME, ask=FUNCTION)"
}
"""Names of what only a program can give."""
PREFIX = "option_"
"""Prefix of an option's name in its model: `json` and others have a meaning there."""
_RULES = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class OptionType:
    """An option as a table may set it: the field of its value, the value's type and bounds."""

    field: str
    hint: Any
    low: float | None = None
    high: float | None = None
    finite: bool = False


def _mistake(reason: str) -> PydanticCustomError:
    return PydanticCustomError("ruler", "{reason}", {"reason": reason})


def _price(value: Any) -> Any:
    """Return the two numbers of `[2, 8]` or `"2,8"`."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        prompt, completion = (
            float(part) for part in parts if not isinstance(part, bool)
        )
    except (TypeError, ValueError):
        prompt = completion = math.nan
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        raise _mistake(
            "write two numbers, USD per million prompt and completion tokens, e.g. [2, 8]"
        )
    return prompt, completion


def _variable(value: Any) -> Any:
    """Return the name of a variable; what is none may be a key, so it is not repeated."""
    if isinstance(value, str) and not is_variable_name(value):
        raise _mistake(
            "is no name of a variable; write the variable that holds the key, not the key"
        )
    return value


def _model(value: Any) -> Any:
    """Refuse a key in the place of a model's name."""
    try:
        refuse_key(value if isinstance(value, str) else "", "")
    except UsageError:
        raise _mistake(
            "looks like a key; put that into a variable, named by api_key_env"
        ) from None
    return value


def _beside(field: str, _value: str) -> str:
    """Return the name of a key in the same table."""
    return f"`{field}`, beside it"


def _params(value: Any) -> Any:
    """Refuse parameters that name a key, an endpoint or a model, and values that JSON does not have."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            if is_key_name(name):
                raise _mistake(
                    f"{name}: is no parameter; name the variable that holds the key: api_key_env"
                )
            if mistake := param_mistake(name, one):
                raise _mistake(f"{name}: {named(mistake, _beside)}")
            try:
                json.dumps(one, allow_nan=False)
            except (TypeError, ValueError):
                raise _mistake(
                    f"{name}: holds a value that JSON does not have"
                ) from None
    return value


class JudgeTable(BaseModel):
    """A table `[judges.NAME]`; None leaves a value to the options of the command."""

    model_config = _RULES

    model: Annotated[str, Field(min_length=1), BeforeValidator(_model)]
    api_base: str | None = None
    api_key_env: Annotated[str | None, BeforeValidator(_variable)] = None
    via: Literal["auto", "http", "litellm"] | None = None
    params: Annotated[dict[str, Any], BeforeValidator(_params)] = {}
    price: Annotated[tuple[float, float] | None, BeforeValidator(_price)] = None
    rpm: Annotated[float | None, Field(ge=0.01)] = None
    tpm: Annotated[float | None, Field(ge=1)] = None
    concurrency: Annotated[int | None, Field(ge=1)] = None
    timeout: Annotated[float | None, Field(ge=0.001)] = None
    max_outage: Annotated[float | None, Field(ge=0)] = None


def options_model(options: Mapping[str, OptionType]) -> type[BaseModel]:
    """Return a model of the options of a command; values that are not given are not set."""
    fields: dict[str, Any] = {
        f"{PREFIX}{key}": (_annotation(one), Field(None, alias=key))
        for key, one in options.items()
    }
    return create_model("OptionTable", __config__=_RULES, **fields)


def value_type(hint: Any) -> Any:
    """Return the type of an option's value if it is given: a hint without None."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    return next(one for one in get_args(hint) if one is not type(None))


def _annotation(option: OptionType) -> Any:
    """Return the type of an option's value in the file, from that of its field."""
    hint = value_type(option.hint)
    if option.field in _OWN_FORMS:
        return Annotated[list[str], BeforeValidator(_OWN_FORMS[option.field])]
    if option.field == "api_key_env":
        return Annotated[str, BeforeValidator(_variable)]
    if hint in (int, float):
        bounds = Field(ge=option.low, le=option.high)
        endless = (
            [Field(allow_inf_nan=True)] if hint is float and not option.finite else []
        )
        return Annotated[hint, bounds, *endless, BeforeValidator(_number)]
    if hint is bool or get_origin(hint) is Literal:
        return hint
    if get_origin(hint) is list:
        return Annotated[list[str], BeforeValidator(_texts)]
    return Annotated[str, BeforeValidator(_text)]


def _number(value: Any) -> Any:
    """Return a number of numpy, say, as one of Python; other values as they are."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _text(value: Any) -> Any:
    """Return a number as the text that a command line has; other values as they are."""
    value = _number(value)
    if isinstance(value, float):
        return f"{value:.17g}"
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole or isinstance(value, Path) else value


def _texts(value: Any) -> Any:
    return [
        _text(one) for one in (value if isinstance(value, list | tuple) else [value])
    ]


def _price_texts(value: Any) -> Any:
    """Return the price of all judges, or of each, as `--price` takes it."""
    several = isinstance(value, list | tuple) and any(
        isinstance(one, list | tuple | str) for one in value
    )
    prices = [_price(one) for one in (value if several else [value])]
    return [f"{prompt:.17g},{completion:.17g}" for prompt, completion in prices]


def _param_texts(value: Any) -> Any:
    """Return parameters, a table or texts `KEY=VALUE`, as `-p` takes them."""
    if isinstance(value, Mapping):
        return [f"{name}={json.dumps(one)}" for name, one in _params(value).items()]
    return _texts(value)


_OWN_FORMS = {"price": _price_texts, "param": _param_texts}


def reason_of(
    error: ErrorDetails,
    unknown: str,
    known: Iterable[str],
    no_key: str = NO_KEY_IN_FILE,
) -> str:
    """Return a sentence on one mistake, without the value: it may be a key.

    `unknown` is for a name that is none of the `known`, `no_key` for one of a key itself.
    """
    name, context = str(error["loc"][0]), error.get("ctx") or {}
    if error["type"] == "extra_forbidden":
        elsewhere = _IN_PYTHON.get(name, f"{unknown}{question(nearest(name, known))}")
        return no_key if is_key_name(name) else elsewhere
    bound = next(
        (value for key, value in context.items() if key in ("ge", "le", "gt", "lt")), 0
    )
    reasons = {
        "ruler": str(context.get("reason")),
        "literal_error": f"write one of {context.get('expected')}",
        "bool_type": "write true or false",
        "int_type": "write a whole number",
        "int_from_float": "write a whole number",
        "float_type": "write a number",
        "finite_number": "write a number that is finite",
        "string_type": "write text, in quotes",
        "string_too_short": "is empty",
        "greater_than_equal": f"write {bound:g} or more",
        "less_than_equal": f"write {bound:g} or less",
        "dict_type": "write a table, { name = value }",
    }
    return reasons.get(error["type"], "is of the wrong type")
