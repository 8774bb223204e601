"""The command `ruler`: a module for each command, which parses options, makes one call and reports."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ruler_cli import __version__

_COMMANDS = {
    "score": "Score each group with a judge, and write the records annotated.",
    "check": "Read INPUT as `score` would, and estimate calls, tokens, cost and time.",
    "prompt": "Print the exact request that `score` would send for a group.",
    "report": "Show a scored file on the terminal, as JSON, or as a page.",
    "compare": "Compare two scored files of the same input, group by group.",
    "trend": "Show the scored files of a training, step by step.",
    "label": "Make a page on which people compare rollouts.",
    "agree": "Compare scores with labels.",
    "select": "Keep groups and rollouts of a scored file by their scores.",
    "formats": "List the formats that ruler reads, and those of ruler.toml.",
    "config": "Print the settings in effect, and where each comes from.",
    "ledger": "Kept replies of judges, so that no request is paid for twice.",
    "batch": "Have a provider's batch API ask the judge, at half the price.",
}
"""Each command, in a module of its name, with its line in the list of commands."""
# plain help needs no terminal library, starts in half the time, and reads the same in a document
_SETTINGS: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
}


class _Root(TyperGroup):
    """The group of all commands; a command is imported when it is used, and `ruler --help` uses none."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(_COMMANDS)

    def get_command(self, _ctx: object, name: str) -> Any:
        """Return a command by its name, None for an unknown one."""
        if name in _COMMANDS and self.commands[name] is None:
            self.commands[name] = _load(name)
        return self.commands.get(name)

    def format_commands(self, _ctx: object, formatter: Any) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _load(name: str) -> Any:
    """Import a command, or a group of commands."""
    from ruler_cli.cli.help import SectionedCommand

    module = import_module(f"ruler_cli.cli.{name}")
    if hasattr(module, "app"):
        command: Any = typer.main.get_group(module.app)
    else:
        alone = typer.Typer(add_completion=False, **_SETTINGS)
        more: Any = getattr(module, "SETTINGS", None)
        alone.command(name, cls=SectionedCommand, context_settings=more)(
            module.command
        )
        command = typer.main.get_command(alone)
    return command


app = typer.Typer(name="ruler", cls=_Root, no_args_is_help=True, **_SETTINGS)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ruler {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Show the version and exit.",
    ),
) -> None:
    """Score groups of agent rollouts with an LLM judge, side by side, from 0 to 1.

    \b
    To try it without a key:
      echo '{"prompt": "Cancel order 17.", "responses": ["Done.", "I cannot."]}' |
        ruler score - - -m offline | ruler report -

    \b
    Example:
      ruler check rollouts.jsonl                estimates calls and cost
      ruler score rollouts.jsonl scored.jsonl   a judge scores each group
      ruler report scored.jsonl                 shows the scores
    """


def main() -> None:
    """Run the command line and exit."""
    if (
        "_RULER_COMPLETE" in os.environ
    ):  # typer would load rich, which takes longer than all the rest
        sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: the module cannot be imported
    # its plugins, of which ruler has none, are looked for in every installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        code = app(prog_name="ruler", standalone_mode=False)
    except KeyboardInterrupt:  # before a run has set its handlers of signals
        code = 130
    except Exception as error:
        from ruler_cli.cli.messages import (
            hide_keys_of_tracebacks,
            report_usage_error,
        )

        code = report_usage_error(error)
        if code is None:
            hide_keys_of_tracebacks()
            raise
    sys.exit(code)
