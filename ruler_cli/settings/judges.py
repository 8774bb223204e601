"""The judges of a run: named ones of the file, and models with the options of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.models import JudgeSettings, Price
from ruler_cli.settings.options import (
    COMMAND_LINE,
    DEFAULT,
    FILE,
    VARIABLE,
    Options,
)

_DEFAULT_MODEL = JudgeSettings().model
_LIMITS = ("rpm", "tpm", "concurrency", "max_outage")
"""Options of a judge that the pool has for all judges."""
_MODEL_VARIABLES = ("RULER_JUDGE_MODEL", "RULER_MODEL", "RULER_ESCALATE")

Source = Literal["command line", "variable", "file", "judge", "provider"]
"""The source of an endpoint, or of a key's name.

`file` is a command's table of `ruler.toml`, `judge` the judge's own; `provider`: nobody names an endpoint.
"""
_SOURCES: dict[int, Source] = {
    COMMAND_LINE: "command line",
    VARIABLE: "variable",
    FILE: "file",
    DEFAULT: "provider",
}

# Is a key sent to an endpoint? Somebody else may have written the file, so a key goes to no endpoint that it was
# not named for. `same`: if its source names models of this provider, or no model.
#
#    endpoint        key: command line, variable, file,   judge
_SENT: dict[Source, tuple[bool | str, ...]] = {
    "command line":     (True,         True,     False,  False),
    "variable":         (True,         True,     False,  False),
    "file":             (True,         False,    True,   False),
    "judge":            (True,         False,    False,  True),
    "provider":         (True,         "same",   "same", False),
}  # fmt: skip
_KEYS: tuple[Source, ...] = ("command line", "variable", "file", "judge")


class Named(NamedTuple):
    """An endpoint, or the name of a key's variable; None if nobody names it."""

    value: str | None
    source: Source


def way_to_judge(
    base: Named,
    key: Named,
    table: Mapping[str, Any] | None,
    *,
    same: bool,
) -> tuple[str | None, str | None]:
    """Return the endpoint of a judge, and the name of the variable whose key is sent there.

    `base` and `key` are those of the options, `table` the judge's own. `same` tells if the source of `key`
    names models of the judge's provider, or no model.
    """
    own = table or {}
    if table is not None:
        # a command's table is for models without a table of their own
        if base.source == "file":
            base = Named(None, "provider")
        if key.source == "file":
            key = Named(None, "provider")
    if base.source != "command line" and ("api_base" in own or "api_key_env" in own):
        base = Named(own.get("api_base"), "judge")
    own_key = Named(own.get("api_key_env"), "judge")
    for name, source in (key, own_key):
        if not name:
            continue
        sent = _SENT[base.source][_KEYS.index(source)]
        if sent is True or (sent == "same" and same):
            return base.value, name
    return base.value, None


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges of a run in order, the one of `escalate` last."""
    names = list(options.model or [_DEFAULT_MODEL])
    if options.escalate is not None:
        names.append(options.escalate)
    prices = _prices(names, options)
    return [
        _judge(name, price, options) for name, price in zip(names, prices, strict=True)
    ]


def other_judges(
    options: Options, judges: Sequence[JudgeSettings]
) -> list[JudgeSettings]:
    """Return the judges of the file beside those of a run."""
    used = {judge.name for judge in judges}
    names = [] if options.file is None else options.file.judges
    return [_judge(name, None, options) for name in names if name not in used]


def _judge(name: str, price: Price | None, options: Options) -> JudgeSettings:
    """Return a judge: a table of the file by its name, else a model.

    Options of the command line and of variables win over a table, which wins over those of the file.
    """
    table = None if options.file is None else options.file.judges.get(name)
    model = name if table is None else table["model"]
    base, key = (
        Named(getattr(options, field), _SOURCES[options.rank(field)])
        for field in ("api_base", "api_key_env")
    )
    same = _same_provider(model, options)
    api_base, api_key_env = way_to_judge(base, key, table, same=same)
    values: dict[str, Any] = {
        "via": options.via,
        "timeout": options.timeout,
        "price": price,
    }
    params: dict[str, Any] = dict(options.param)  # type: ignore[arg-type]  # the option's own form is wider
    if table is not None:
        given = {field for field in options.origins if options.rank(field) > FILE}
        for field in {"via", "price"} - given:
            del values[field]  # a command's table is for models without a table
        for field, own in table.items():
            if field not in given:
                values[field] = own
        own_params = table.get("params", {})
        # what is typed wins over a table, and that over `[score]`
        if "param" in given:
            params = own_params | params
        else:
            params |= own_params
        values["name"] = name
    values["model"] = model
    values["api_base"] = api_base
    values["api_key_env"] = api_key_env
    values["params"] = params
    return JudgeSettings(**values)


def _same_provider(model: str, options: Options) -> bool:
    """Tell if the source of the key names models of this one's provider, or no model; a bare name is of any."""
    names = list[str]()
    if options.rank("api_key_env") == VARIABLE:
        for variable in _MODEL_VARIABLES:
            names += os.environ.get(variable, "").split()
    elif options.file is not None:
        for table in options.file.tables.values():
            names += _named(table)
    if not names or not all("/" in name for name in (model, *names)):
        return True
    return model.partition("/")[0] in {name.partition("/")[0] for name in names}


def _named(table: Mapping[str, Any]) -> list[str]:
    """Return the judges that a table of the file names, the one of `escalate` last."""
    models = table.get("model", table.get("judge_model", []))
    names = [models] if isinstance(models, str) else list(models)
    if "escalate" in table:
        names.append(table["escalate"])
    return names


def _prices(names: Sequence[str], options: Options) -> list[Price | None]:
    """Return the price of each judge; one of the file is for the judges that the file names, if any."""
    prices: list[Price] = [*options.price]
    named = names
    others = max(options.rank("model"), options.rank("escalate")) > FILE
    if others and options.rank("price") == FILE and options.file is not None:
        table = options.file.tables.get("score", {})
        named = _named(table) or names
    if len(prices) not in (0, 1, len(named)):
        problem = f"has {len(prices)} values for {len(named)} judges"
        remedy = "give one for all, or one for each; that of {escalate} is the last"
        raise UsageError(problem, Sentence(remedy), option="price")
    if len(prices) == 1:
        prices *= len(named)
    known = dict(zip(named, prices, strict=False))
    return [known.get(name) for name in names]
