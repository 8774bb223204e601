"""The judges of a run: named ones of the file, and models with the options of the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.settings.extensions import judge_function
from ruler_cli.settings.fields import texts
from ruler_cli.settings.models import JudgeSettings
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
_OWN = """azure azure_ai azure_text cloudflare databricks gdc heroku litellm_proxy ragflow snowflake watsonx
 watsonx_text"""
OWN_ADDRESS = _OWN.split()
"""Providers without an address for all: the key in their variable is for the address that the user gives."""
SIGNING = ("bedrock", "sagemaker", "vertex")
"""First words of those whose calls an SDK signs, or gives a token, at any address."""


def judges_of(options: Options) -> list[JudgeSettings]:
    """Return the judges of a run in order, the one of `escalate` last."""
    names = [*texts(options.model)]
    if options.escalate is not None:
        names.append(options.escalate)
    return [_judge(name, options) for name in names]


def _judge(name: str, options: Options) -> JudgeSettings:
    """Return a judge: a table of the file by its name, else a model.

    Settings of the command line and of variables win over a table, which wins over those of the file.
    """
    tables = options.file.judges if options.file else {}
    table = tables.get(name)
    shared: dict[str, Any] = {}
    typed: dict[str, Any] = {}
    file_names = options.judges_named(FILE)
    for field, value in options.values_of(JudgeSettings).items():
        # a price of the file is that of a model of the file
        priced = field != "price" or name in (file_names or [name])
        if options.rank(field) > FILE:
            typed[field] = value
        elif field in ("timeout", "params") or (table is None and priced):
            shared[field] = value
    values: dict[str, Any] = {}
    for field, value in (table or {}).items():
        # `pictures` of a judge tells what it can, the option what is wanted
        if options.rank(field) <= FILE or field == "pictures":
            values[field] = value
    values = shared | values | typed
    params: dict[str, Any] = {}
    for layer in (shared, table or {}, typed):
        params |= params_of(layer.get("params") or {})
    model = name
    if table is not None:
        model = table["model"]
        values["name"] = name
    values |= {"model": model, "params": params}
    values |= _endpoint(model, table, options)
    if "/" not in model and not values["api_base"] and model != "offline":
        values["function"] = judge_function(model)
    return JudgeSettings(**values)


def _endpoint(
    model: str, table: Mapping[str, Any] | None, options: Options
) -> dict[str, Any]:
    """Return the endpoint of a judge, and the name of the variable whose key is sent there.

    `table` is the judge's own. Somebody else may have written the file, so a key goes to no endpoint that it was not
    named for: it is typed, or both are of one source.
    """
    base, base_rank = options.api_base, options.rank("api_base")
    key, key_rank = options.api_key_env, options.rank("api_key_env")
    if table is not None:
        # a command's table is for models without a table of their own
        if base_rank == FILE:
            base, base_rank = None, DEFAULT
        if key_rank == FILE:
            key = None
        if base_rank < COMMAND_LINE and PAIR & table.keys():
            base, base_rank = table.get("api_base"), _TABLE
            if key_rank < COMMAND_LINE:
                key, key_rank = table.get("api_key_env"), _TABLE
    together = key_rank == base_rank or (
        base_rank == COMMAND_LINE and key_rank == VARIABLE
    )
    if base_rank == DEFAULT:
        together = _is_of_provider(model, options, key_rank)
    if not together and key_rank != COMMAND_LINE:
        key = None
    return {"api_base": base, "api_key_env": key}


def _is_of_provider(model: str, options: Options, rank: int) -> bool:
    """Return whether a model is of a provider that the source of a key names models of, if it names any."""
    tables = options.file.judges if options.file else {}
    providers = []
    for name in options.judges_named(rank):
        named = tables[name]["model"] if name in tables else name
        providers.append(named.partition("/")[0])
    bare = "/" not in model
    return not providers or bare or model.partition("/")[0] in providers


def refuse_found_file(
    options: Options, judges: Iterable[JudgeSettings]
) -> None:
    """Raise UsageError for what a file that the user did not name may not set: it may be somebody else's."""
    file = options.file
    if file is None or not file.discovered:
        return
    for judge in judges:
        wrong = [*_risks(judge, options)]
        if wrong and judge.model != "offline":
            in_table = judge.name in file.judges
            place = file.name + f" [judges.{judge.name}]" * in_table
            problem = f"sets {', '.join(wrong)}, and was found, not named"
            remedy = f"read it, and if it is yours, use --config {file.name}"
            raise UsageError(problem, remedy, place=place)


def _risks(judge: JudgeSettings, options: Options) -> Iterator[str]:
    """Yield the settings of a judge by which a file may send a key, a file or a call elsewhere."""
    typed: Mapping[str, Any] = {}
    if options.rank("params") > FILE:
        typed = params_of(options.params)
    for name, value in judge.params.items():
        # e.g. the server of a tool
        if name not in typed and (name not in KNOWN or "://" in str(value)):
            yield name
    typed_base = options.api_base if options.rank("api_base") > FILE else None
    if judge.api_base not in (None, typed_base):
        provider = judge.provider
        logs_in = provider in OWN_ADDRESS or provider.startswith(SIGNING)
        if judge.api_key_env or logs_in:
            yield "api_base"
        rubric = str(options.origin("rubric").value)
        path = Path(rubric[1:])
        # outside of the directory it may be any file of the user's
        outside = rubric[:1] == "@" and Path.cwd() not in path.resolve().parents
        if outside and options.rank("rubric") == FILE:
            yield "rubric"
    names_models = FILE in (options.rank("model"), options.rank("escalate"))
    if "://" in judge.model and (judge.name or names_models):
        yield "model"
