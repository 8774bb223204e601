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
_SENT: dict[Source, tuple[bool | str, bool | str, bool | str, bool | str]] = {
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
    base: Named, key: Named, table: Mapping[str, Any] | None, *, same: bool
) -> tuple[str | None, str | None]:
    """Return the endpoint of a judge, and the name of the variable whose key is sent there.

    `base` and `key` are those of the options, `table` the judge's own. `same` tells if the source of `key`
    names models of the judge's provider, or no model.
    """
    own = table or {}
    if table is not None and "file" in (base.source, key.source):
        # a command's table is for models without a table of their own
        base = base if base.source != "file" else Named(None, "provider")
        key = key if key.source != "file" else Named(None, "provider")
    if base.source != "command line" and ("api_base" in own or "api_key_env" in own):
        base = Named(own.get("api_base"), "judge")
    keys = (key, Named(own.get("api_key_env"), "judge"))
    for name, source in keys:
        sent = _SENT[base.source][_KEYS.index(source)] if name else False
        if sent is True or (sent == "same" and same):
            return base.value, name
    return base.value, None


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges of a run in order, the one of `escalate` last."""
    names = [*(options.model or [_DEFAULT_MODEL])]
    if options.escalate is not None:
        names.append(options.escalate)
    prices = _prices(names, options)
    return [_judge(name, prices[i], options) for i, name in enumerate(names)]


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
        values |= {field: own for field, own in table.items() if field not in given}
        mine = table.get("params", {})
        params = {**mine, **params} if "param" in given else {**params, **mine}
        values["name"] = name
    values |= {"model": model, "api_base": api_base, "api_key_env": api_key_env}
    return JudgeSettings(**values | {"params": params})


def _same_provider(model: str, options: Options) -> bool:
    """Tell if the source of the key names models of this one's provider, or no model; a bare name is of any."""
    if options.rank("api_key_env") == VARIABLE:
        names = " ".join(os.environ.get(name, "") for name in _MODEL_VARIABLES).split()
    else:
        tables = {} if options.file is None else options.file.tables
        names = [name for table in tables.values() for name in _named(table)]
    providers = {name.partition("/")[0] if "/" in name else None for name in names}
    mine = model.partition("/")[0] if "/" in model else None
    return not providers or None in providers or mine is None or mine in providers


def _named(table: Mapping[str, Any]) -> list[str]:
    """Return the judges that a table of the file names, the one of `escalate` last."""
    models = table.get("model", table.get("judge_model", []))
    models = [models] if isinstance(models, str) else models
    return [*models, *([table["escalate"]] if "escalate" in table else [])]


def _prices(names: Sequence[str], options: Options) -> list[Price | None]:
    """Return the price of each judge; one of the file is for the judges that the file names, if any."""
    prices: list[Price] = [*options.price]
    named = names
    others = max(options.rank("model"), options.rank("escalate")) > FILE
    if others and options.rank("price") == FILE and options.file is not None:
        named = _named(options.file.tables.get("score", {})) or names
    if len(prices) not in (0, 1, len(named)):
        problem = f"has {len(prices)} values for {len(named)} judges"
        remedy = "give one for all, or one for each; that of {escalate} is the last"
        raise UsageError(problem, Sentence(remedy), option="price")
    each = prices * len(named) if len(prices) == 1 else prices
    known = dict(zip(named, each, strict=False))
    return [known.get(name) for name in names]
