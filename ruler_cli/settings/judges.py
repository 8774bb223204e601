"""The judges of a run: named ones of the file, and models with the options of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.settings.extensions import judge_function
from ruler_cli.settings.fields import SettingError, texts
from ruler_cli.settings.models import DEFAULT_MODEL, JudgeSettings
from ruler_cli.settings.options import (
    COMMAND_LINE,
    DEFAULT,
    FILE,
    VARIABLE,
    Options,
)
from ruler_cli.settings.parameters import KNOWN, params_of

PAIR = {"api_base", "api_key_env"}
"""Settings that are of one table."""
_TABLE = 4
"""The rank of a judge's own table in the file, beside those of the sources of options."""

# Somebody else may have written the file, so a key goes to no endpoint that it was not named for.
_SENT = {
    COMMAND_LINE: (COMMAND_LINE, VARIABLE),
    VARIABLE: (COMMAND_LINE, VARIABLE),
    FILE: (COMMAND_LINE, FILE),
    _TABLE: (COMMAND_LINE, _TABLE),
    DEFAULT: (COMMAND_LINE, VARIABLE, FILE),
}
"""The ranks of the sources of the keys that an endpoint gets, by that of its own source; DEFAULT: it is the provider's.

The provider's own endpoint gets a key of a variable or of the file only if that names models of this
provider, or no model.
"""


_OWN = """azure azure_ai azure_text cloudflare databricks gdc heroku litellm_proxy ragflow snowflake watsonx
 watsonx_text"""
OWN_ADDRESS = _OWN.split()
"""Providers without an address for all: the key in their variable is for the address that the user gives."""
SIGNING = ("bedrock", "sagemaker", "vertex")
"""First words of those whose calls an SDK signs, or gives a token, at any address."""


class UntrustedFileError(UsageError):
    """A `file` that the user did not name would send a call, or a key, somewhere: it has to be named."""

    def __init__(
        self, file: str, problem: str, remedy: str, place: str
    ) -> None:
        self.file = file
        super().__init__(problem, remedy, place=place)


def _way_to_judge(
    table: Mapping[str, Any] | None, options: Options, *, same: bool
) -> dict[str, str | None]:
    """Return the endpoint of a judge, and the name of the variable whose key is sent there.

    `table` is the judge's own. `same` tells if the source of the key's name names models of the judge's provider, or
    no model.
    """
    base = options.api_base
    base_rank = options.rank("api_base")
    keys = {options.rank("api_key_env"): options.api_key_env}
    if table is not None:
        # a command's table is for models without a table of their own
        if base_rank == FILE:
            base, base_rank = None, DEFAULT
        keys.pop(FILE, None)
        keys[_TABLE] = table.get("api_key_env")
        if base_rank != COMMAND_LINE and not PAIR.isdisjoint(table):
            base, base_rank = table.get("api_base"), _TABLE
    sent = None
    for rank, key in keys.items():
        foreign = base_rank == DEFAULT and rank != COMMAND_LINE and not same
        if key and rank in _SENT[base_rank] and not foreign:
            sent = sent or key
    return {"api_base": base, "api_key_env": sent}


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges of a run in order, the one of `escalate` last."""
    names = options.models or [DEFAULT_MODEL]
    if options.escalate is not None:
        names.append(options.escalate)
    prices = _prices(names, options)
    return [_judge(name, prices.get(name), options) for name in names]


def _judge(name: str, price: Any, options: Options) -> JudgeSettings:
    """Return a judge: a table of the file by its name, else a model.

    Settings of the command line and of variables win over a table, which wins over those of the file.
    """
    table = None if options.file is None else options.file.judges.get(name)
    model = name if table is None else table["model"]
    values: dict[str, Any] = {"price": price}
    for field in ("api", "via", "timeout"):
        if options.rank(field):
            values[field] = getattr(options, field)
    params = _params(options)
    if table is not None:
        # `api`, `via` and `price` of a command's table are for models without a table
        for field in ("api", "via", "price"):
            if options.rank(field) <= FILE:
                values.pop(field, None)
        for field, value in table.items():
            # `pictures` of a judge tells what it can, the option what is wanted
            if options.rank(field) <= FILE or field == "pictures":
                values[field] = value
        values["name"] = name
        table_params = table.get("params", {})
        if options.rank("params") > FILE:
            params = table_params | params
        else:
            params = params | table_params
    same = _same_provider(model, options)
    values |= _way_to_judge(table, options, same=same)
    if "/" not in model and not values["api_base"] and model != "offline":
        values["function"] = judge_function(model)
    return JudgeSettings(**values | {"model": model, "params": params})


def _params(options: Options) -> dict[str, Any]:
    """Return the parameters that are for every judge."""
    return dict(params_of(options.params or {}))


def refuse_found_file(
    options: Options, judges: Sequence[JudgeSettings]
) -> None:
    """Raise UntrustedFileError for what a file that the user did not name may not set: it may be somebody else's."""
    file = options.file
    if file is None or not file.discovered:
        return
    allowed = {*KNOWN}
    if options.rank("params") > FILE:
        allowed.update(_params(options))
    typed_base = options.api_base if options.rank("api_base") > FILE else None
    rubric = str(options.origin("rubric").value)
    elsewhere = False
    if options.rank("rubric") == FILE and rubric[:1] == "@":
        # outside of the directory it may be any file of the user's
        elsewhere = Path.cwd() not in Path(rubric[1:]).resolve().parents
    names_models = FILE in (options.rank("model"), options.rank("escalate"))
    for judge in judges:
        if judge.model == "offline":
            continue
        table = file.judges.get(judge.name, {})
        wrong = [name for name in judge.params if name not in allowed]
        keyed = judge.api_key_env or judge.provider in OWN_ADDRESS
        moved = judge.api_base not in (None, typed_base)
        if moved and (keyed or judge.provider.startswith(SIGNING)):
            wrong.append("api_base")
        if moved and elsewhere:
            wrong.append("rubric")
        if "://" in judge.model and (table or names_models):
            wrong.append("model")
        if wrong:
            place = f"{file.name} [judges.{judge.name}]" if table else file.name
            problem = f"sets {', '.join(wrong)}, and was not named but found"
            remedy = f"read it, and if it is yours, use --config {file.name}"
            raise UntrustedFileError(file.name, problem, remedy, place)


def listed_prices(options: Options) -> list[Any]:
    """Return the prices as they were named; a list of two numbers is one price."""
    prices = [*texts(options.price or ())]
    if prices and isinstance(prices[0], int | float):
        return [prices]
    return prices


def _same_provider(model: str, options: Options) -> bool:
    """Return whether the source of the key names models of this one's provider, or no model; a bare name is of any."""
    rank = options.rank("api_key_env")
    names = options.judges_named(rank) if rank in (FILE, VARIABLE) else []
    if not names or not all("/" in name for name in (model, *names)):
        return True
    provider = model.partition("/")[0]
    return any(name.startswith(f"{provider}/") for name in names)


def _prices(names: Sequence[str], options: Options) -> dict[str, Any]:
    """Return the prices of judges; one of the file is for the judges that the file names, if any."""
    priced = names
    others = max(options.rank("model"), options.rank("escalate")) > FILE
    if others and options.rank("price") == FILE:
        priced = options.judges_named(FILE) or names
    prices = listed_prices(options)
    if len(prices) == 1:
        prices *= len(priced)
    if len(prices) not in (0, len(priced)):
        problem = f"has {len(prices)} values for {len(priced)} judges"
        remedy = (
            "use one for all, or one for each; that of --escalate is the last"
        )
        raise SettingError("price", problem, remedy)
    return dict(zip(priced, prices, strict=False))
