"""The arguments and options of commands. A command names the settings that it takes; their fields have the rest.

Numbers are taken as text: settings check them, whatever their source, and word the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

import typer

from ruler_cli.settings.fields import (
    SECTIONS,
    SHORT_NAMES,
    choices_of,
    is_flag,
    long_name,
    setting_of,
)
from ruler_cli.settings.load import RUN_FIELDS
from ruler_cli.types import words_of

F = TypeVar("F", bound=Callable[..., Any])

# Arguments
Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="JSON lines, a document, CSV, Parquet or .eval; .gz and .zst; a directory or a pattern; `-` is stdin.",
    ),
]
Scored = Annotated[
    str,
    typer.Argument(
        metavar="SCORED", help="A file that `ruler score` wrote; `-` is stdin."
    ),
]
OtherScored = Annotated[
    str,
    typer.Argument(
        metavar="OTHER", help="Another scored file of the same input."
    ),
]
ScoredSteps = Annotated[
    list[str],
    typer.Argument(
        metavar="STEP...",
        help="The files that `ruler score` wrote for the steps, three or more.",
    ),
]

SCORE = {
    "": words_of("model api_base limit rubric passes max_cost"),
    "Judge": words_of("params api_key_env api escalate escalate_gap"),
    "Quality": words_of("seed group_size ask read pictures"),
    "Limits and cost": words_of(
        "concurrency rpm tpm timeout max_failures price ledger retry_failed cached_only"
    ),
    "Input": words_of(
        "group_by format grouping messages prompt reference reward outcome"
    ),
    "Output": words_of("on_failure force summary progress debug"),
    "Scale": words_of("shard engine ray_address"),
}
"""The options of `score`, by the section of its help; the first section has no title."""
PANELS = (*SCORE, "Other")
"""The sections of a command's help."""
SCORE_OPTIONS = tuple(name for names in SCORE.values() for name in names)
RECORD_OPTIONS = words_of("format group_by grouping messages prompt")
"""Options by which the records of a scored file are read."""
REQUEST_OPTIONS = (
    *words_of(
        "model api_base passes rubric seed group_size api ask read pictures limit reference"
    ),
    *RECORD_OPTIONS,
)
"""Options of `score` that choose the groups of INPUT or change a request."""
RUN_OPTIONS = (*REQUEST_OPTIONS, "params", "escalate", "escalate_gap")
"""Options of `score` that change which requests a run makes."""
PAGE_OPTIONS = (
    *words_of("page force as_json max_groups ledger labels"),
    *RECORD_OPTIONS,
)
"""Options of the commands that show scored files."""
RECORD_SETTINGS = words_of("tools max_record")
REQUEST_SETTINGS = (
    *RECORD_SETTINGS,
    *words_of("records order single question most_pictures"),
)
RUN_SETTINGS = (*REQUEST_SETTINGS, "adaptive", "reward", "outcome")
SCORE_SETTINGS = (*(RUN_FIELDS - {*SCORE_OPTIONS}),)
"""Further settings of the same commands, which `--set`, a variable or the file names."""


def takes(*names: str, settings: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Give a command options, by the fields of their settings; `settings` are taken by `--set` alone."""

    def take(function: F) -> F:
        vars(function)["takes"] = (names, settings)
        return function

    return take


def options_of_command(callback: Any) -> list[Any]:
    """Return the options of a command for its command line."""
    names, settings = getattr(callback, "takes", ((), None))
    if settings is None:
        return []
    params = [_option(name) for name in names]
    if "progress" in names:
        params.append(_param("quiet", bool, "-q", hidden=True))
    if settings:
        further = _param(
            "settings",
            list[str],
            "--set",
            metavar="NAME=VALUE",
            help="Any further setting; `ruler config --all` lists them. Repeatable.",
            rich_help_panel="Other",
        )
        params.append(further)
    params.append(
        _param(
            "config",
            str,
            "--config",
            metavar="FILE|none",
            help="Defaults of options, and named judges.  [default: ruler.toml]",
            rich_help_panel="Other",
        )
    )

    # typer makes options of a signature only; those of its classes change from version to version
    def signed() -> None:
        """Stand for the signature."""

    vars(signed)["__signature__"] = Signature(params)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(signed)
    command: Any = typer.main.get_command(app)
    options: list[Any] = command.params
    return options


def _param(name: str, kind: Any, *words: str, **more: Any) -> Parameter:
    """Return an option as a parameter of a signature; its value is None if it is not given."""
    option = typer.Option(None, *words, show_default=False, **more)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=option, annotation=kind | None
    )


def _option(name: str) -> Parameter:
    """Return the option of a setting, by its field."""
    setting = setting_of(name)
    panel = next((title for title, names in SCORE.items() if name in names), "")
    words = choices_of(name)
    names = [f"--{long_name(name)}"]
    if name in SHORT_NAMES:
        names.append(SHORT_NAMES[name])
    if is_flag(name):
        names[0] += f"/--no-{long_name(name)}"
        return _param(
            name, bool, *names, help=setting.help, rich_help_panel=panel
        )

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    text = setting.help
    default = default_of(name)
    if default not in (None, ()):
        shown = f"{default:g}" if isinstance(default, float) else default
        text += f"  [default: {shown}]"
    return _param(
        name,
        list[str] if setting.many else str,
        *names,
        metavar=setting.value or "|".join(words),
        help=text,
        autocompletion=complete,
        rich_help_panel=panel,
    )


def default_of(name: str) -> Any:
    """Return the default of a setting, by its field; None if it is computed, or nothing."""
    return getattr(SECTIONS[name], name, None)
