"""Read options without running their command: from the words of a command line, or from Python."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import PanelCommand, option_types, options_of, signature, without_aliases
from ruler_cli.cli.options import Options, Origin
from ruler_cli.errors import UsageError

_PATHS = ("failed", "summary")
"""Options whose values are paths."""


def read_options(name: str, words: Sequence[str]) -> Options:
    """Return the options of a command line without running it; arguments are passed over.

    UsageError for an option that does not exist, or a value that it does not take.
    """
    try:
        ctx = _read_words(name, words)
    except Exception as error:
        from ruler_cli.cli.usage_errors import usage_sentence

        if not callable(getattr(error, "format_message", None)):  # of typer, which does not export the class
            raise
        raise UsageError(usage_sentence(error)) from None
    return _typed(name, ctx)


def readable_options(name: str, words: Sequence[str]) -> tuple[Options, list[str]]:
    """Return the options and the arguments of a command line that is refused, as far as they can be read."""
    ctx = _read_words(name, words, resilient_parsing=True, ignore_unknown_options=True)
    return _typed(name, ctx), [*(ctx.params["rest"] or ())]


def _typed(name: str, ctx: Any) -> Options:
    """Return the options that typer has read, each of the type that the command gets."""
    values = {
        key: list(value) or None if isinstance(value, tuple) else value for key, value in ctx.params.items()
    }
    return options_of(name, ctx, values | {key: Path(f"{values[key]}") for key in _PATHS if values.get(key)})


def _read_words(name: str, words: Sequence[str], **settings: Any) -> Any:
    """Return typer's context for the words of a command; its arguments are `rest`."""

    def nothing(**_: Any) -> None: ...

    rest = inspect.Parameter(
        "rest",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[list[str] | None, typer.Argument(metavar="[ARGUMENT]...")],
    )
    nothing.__signature__ = signature(name, [rest])  # type: ignore[attr-defined]  # as above
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=PanelCommand)(nothing)
    return typer.main.get_command(app).make_context(f"ruler {name}", list(words), **settings)


def check_options(name: str, given: Mapping[str, Any], options: Options) -> Options:
    """Return options with values from Python in the place of theirs; UsageError if one is wrong."""
    from pydantic import ValidationError

    from ruler_cli.config_values import PREFIX, options_model, reason_of

    types = option_types()[name]
    try:
        checked = options_model(types)(**{key.rstrip("_"): value for key, value in given.items()})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = reason_of(first, f"is no option of `ruler {name}`", types)
        raise UsageError(f"{first['loc'][0]}: {reason}") from None
    fields = {types[key.removeprefix(PREFIX)].field: key for key in checked.model_fields_set}
    if len(fields) < len(checked.model_fields_set):
        twice = ", ".join(sorted(key.removeprefix(PREFIX) for key in checked.model_fields_set))
        raise UsageError(f"two names of one option are given among {twice}; leave one out")
    values = {field: getattr(checked, key) for field, key in fields.items()}
    values |= {field: Path(values[field]) for field in _PATHS if values.get(field)}
    origins = {**options.origins, **dict.fromkeys(fields, Origin("Python", 3))}
    return without_aliases(replace(options, **values, origins=origins))
