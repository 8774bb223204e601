"""Read the options of a command line without running its command."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import PanelCommand, options_of, signature
from ruler_cli.errors import UsageError
from ruler_cli.settings.options import PATHS, Options


def read_options(name: str, words: Sequence[str]) -> Options:
    """Return the options of a command line without running it; arguments are passed over.

    UsageError for an option that does not exist, or a value that it does not take.
    """
    try:
        ctx = _read_words(name, words)
    except Exception as error:
        from ruler_cli.cli.usage_errors import usage_sentence

        if not callable(
            getattr(error, "format_message", None)
        ):  # of typer, which does not export the class
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
        key: list(value) or None if isinstance(value, tuple) else value
        for key, value in ctx.params.items()
    }
    return options_of(
        name,
        ctx,
        values | {key: Path(f"{values[key]}") for key in PATHS if values.get(key)},
    )


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
    return typer.main.get_command(app).make_context(
        f"ruler {name}", list(words), **settings
    )
