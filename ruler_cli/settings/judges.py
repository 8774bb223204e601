"""The judges of a run: named ones of the file, and models with the options of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.settings.models import DEFAULT_MODEL, JudgeSettings, Price
from ruler_cli.settings.options import FILE, VARIABLE, Options
from ruler_cli.settings.parameters import KNOWN

Source = Literal["provider", "file", "variable", "command line", "judge"]
"""The source of an endpoint, or of a key's name.

`file` is a command's table of `ruler.toml`, `judge` the judge's own; `provider`: nobody names an endpoint.
"""
_SOURCES: tuple[Source, ...] = ("provider", "file", "variable", "command line")
"""The source of an option, by its rank."""

# Somebody else may have written the file, so a key goes to no endpoint that it was not named for.
_SENT: dict[Source, tuple[Source, ...]] = {
    "command line": ("command line", "variable"),
    "variable": ("command line", "variable"),
    "file": ("command line", "file"),
    "judge": ("command line", "judge"),
    "provider": ("command line", "variable", "file"),
}
"""The sources of the keys that an endpoint gets, by its own source.

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

    file = ""


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
    nobody = Named(None, "provider")
    if table is not None:
        # a command's table is for models without a table of their own
        base = nobody if base.source == "file" else base
        key = nobody if key.source == "file" else key
    if base.source != "command line" and ("api_base" in own or "api_key_env" in own):
        base = Named(own.get("api_base"), "judge")
    for name, source in (key, Named(own.get("api_key_env"), "judge")):
        other = base.source == "provider" and source != "command line" and not same
        if name and source in _SENT[base.source] and not other:
            return base.value, name
    return base.value, None


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges of a run in order, the one of `escalate` last."""
    names = list(options.model or [DEFAULT_MODEL])
    if options.escalate is not None:
        names.append(options.escalate)
    prices = _prices(names, options)
    return [_judge(name, prices.get(name), options) for name in names]


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
        "api": options.api,
        "via": options.via,
        "timeout": options.timeout,
        "price": price,
    }
    params: dict[str, Any] = dict(options.param)  # type: ignore[arg-type]  # the option's own form is wider
    if table is not None:
        # `pictures` of a judge tells what it can, the option what is wanted
        own = {
            one: value
            for one, value in table.items()
            if options.rank(one) <= FILE or one == "pictures"
        }
        # `api`, `via` and `price` of a command's table are for models without a table
        typed = {
            one: value for one, value in values.items() if options.rank(one) > FILE
        }
        values = {"timeout": options.timeout, **own, **typed, "name": name}
        own_params = table.get("params", {})
        typed_params = options.rank("param") > FILE
        params = own_params | params if typed_params else params | own_params
    values |= {"model": model, "api_base": api_base, "api_key_env": api_key_env}
    values["params"] = params
    return JudgeSettings(**values)


def refuse_found_file(options: Options, judges: Sequence[JudgeSettings]) -> None:
    """Raise UntrustedFileError for what a file that the user did not name may not set: it may be somebody else's."""
    file = options.file
    if file is None or not file.found:
        return
    params: dict[str, Any] = dict(options.param)  # type: ignore[arg-type]  # as above
    typed, shared = (params, {}) if options.rank("param") > FILE else ({}, params)
    typed_base = options.api_base if options.rank("api_base") > FILE else None
    for judge in judges:
        if judge.model in ("offline", "simulated"):
            continue
        table = file.judges.get(judge.name, {})
        names = {**table.get("params", {}), **shared}
        wrong = [name for name in names if name not in KNOWN and name not in typed]
        provider = judge.model.partition("/")[0]
        keyed = judge.api_key_env or provider in OWN_ADDRESS
        moved = judge.api_base not in (None, typed_base)
        if moved and (keyed or provider.startswith(SIGNING)):
            wrong.append("api_base")
        if moved and _reads_elsewhere(options):
            wrong.append("rubric")
        named = FILE in (options.rank("model"), options.rank("escalate"))
        if "://" in judge.model and (table or named):
            wrong.append("model")
        if wrong:
            place = f"{file.name} [judges.{judge.name}]" if table else file.name
            problem = f"sets {', '.join(wrong)}, and was not named but found"
            remedy = f"read it, and if it is yours, use --config {file.name}"
            error = UntrustedFileError(problem, remedy, place=place)
            error.file = file.name
            raise error


def _reads_elsewhere(options: Options) -> bool:
    """Tell if the file names a rubric that stands outside of the directory, and may be any file of the user's."""
    path = str(options.rank("rubric") == FILE and options.origins["rubric"].given)
    directory = Path.cwd()
    return path[:1] == "@" and directory not in Path(path[1:]).resolve().parents


def _same_provider(model: str, options: Options) -> bool:
    """Tell if the source of the key names models of this one's provider, or no model; a bare name is of any."""
    rank = options.rank("api_key_env")
    names = options.judges_named(rank) if rank in (FILE, VARIABLE) else []
    if not names or not all("/" in name for name in (model, *names)):
        return True
    return model.partition("/")[0] in {name.partition("/")[0] for name in names}


def _prices(names: Sequence[str], options: Options) -> dict[str, Price]:
    """Return the prices of judges; one of the file is for the judges that the file names, if any."""
    named = names
    others = max(options.rank("model"), options.rank("escalate")) > FILE
    if others and options.rank("price") == FILE:
        named = options.judges_named(FILE) or names
    prices: list[Any] = [*options.price]
    if len(prices) == 1:
        prices *= len(named)
    if len(prices) not in (0, len(named)):
        problem = f"has {len(prices)} values for {len(named)} judges"
        remedy = "use one for all, or one for each; that of --escalate is the last"
        raise UsageError(problem, remedy, place="--price")
    return dict(zip(named, prices, strict=False))
