"""Make a command of a function: its options, from `options.py`, and its help, with the options in panels.

typer's own panels need rich, which is slow to import and lays text out by the width of the terminal.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from ruler_cli.cli.messages import print_note, report_errors, same_command
from ruler_cli.cli.options import PANELS, Options
from ruler_cli.config import LEDGER_VARIABLE
from ruler_cli.errors import UsageError

_FEW = 12
"""Options of a command that need no panels."""
_NAMES_WIDTH = 28
"""Columns for the names of options; text stands beside them."""
_EXAMPLES = ("RULER_MAX_COST=5", "RULER_PASSES=4", "RULER_GROUP_BY=task_id", "RULER_LEDGER=PATH")
_RULE = (
    "Each option also has a variable, RULER_ and its name ({}), except those that are for one run, such as "
    "files."
)
_HINTS = get_type_hints(Options)
_FIELDS = {one.name: one for one in fields(Options)}


class PanelCommand(TyperCommand):
    """A command whose help lists its options in panels: plain text, the same on every terminal."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments without typer's braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, then the options in panels, `--help` last; few options need no panels."""
        given: list[Any] = self.get_params(ctx)
        arguments = [one for one in given if one.param_type_name == "argument"]
        options = [one for one in given if one.param_type_name == "option"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(one.make_metavar(ctx=ctx), one.help or "") for one in arguments])
        rows = [(_panel(one), *_record(one, ctx)) for one in options]
        panels = PANELS if len(options) > _FEW else ("",)
        width = max(len(names) for _, names, _ in rows if len(names) <= _NAMES_WIDTH)
        for panel in panels:
            inside = [
                (names.ljust(width), text) for at, names, text in rows if panel == at or len(panels) < 2
            ]
            if inside:
                with formatter.section(panel or "Options"):
                    formatter.write_dl(inside, col_max=width)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Say once which variables the options have."""
        variables = {one.envvar for one in self.get_params(ctx) if isinstance(one.envvar, str)}
        examples = [one for one in _EXAMPLES if one.partition("=")[0] in {*variables, LEDGER_VARIABLE}]
        self.epilog = _RULE.format(examples[0])
        super().format_epilog(ctx, formatter)


def _panel(option: Any) -> str:
    return PANELS[-1] if option.name == "help" else option.rich_help_panel or ""


def _record(option: Any, ctx: Any) -> tuple[str, str]:
    """Return the names of an option, without other long names for it, and its text with the default."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")]
    names = ", ".join([*short, *long[:1]])
    if not option.is_flag:
        choices = getattr(option.type, "choices", None)
        names += f" {option.metavar or (choices and '|'.join(choices)) or option.make_metavar(ctx=ctx)}"
    default = option.default
    if option.multiple or default is None or default is False or option.name == "help":
        return names, option.help or ""
    shown = f"{default:g}" if isinstance(default, float) else default
    return names, f"{option.help}  [default: {shown}]"


def _typer_parameter(name: str, text: str | None) -> inspect.Parameter:
    """Return a field of Options as typer reads it in a signature, with another help if it is given."""
    more = dict(_FIELDS[name].metadata)
    more["help"] = text or more["help"]
    names = more.pop("names").split() or [f"--{name.rstrip('_').replace('_', '-')}"]
    if more["envvar"] is True:  # of each name: --model is --judge-model
        every = [_variable(long) for long in names if long.startswith("--")]
        more["envvar"] = every[0] if len(every) == 1 else every
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_FIELDS[name].default,
        annotation=Annotated[
            _HINTS[name], typer.Option(*names, **{**more, "envvar": more["envvar"] or None})
        ],
    )


def _variable(option: str) -> str:
    """Return the variable of an option, e.g. RULER_MAX_COST of --max-cost."""
    return "RULER_" + option.removeprefix("--").replace("-", "_").upper()


def with_options(
    names: str, *, resumes: bool = False, **texts: str
) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Give a command options, by the names of fields, in this order; its result is the exit code.

    The command gets them in its parameter `options`; its other parameters stand in front, as arguments do.
    `texts` is the help, by name, of options that differ from those of other commands in nothing else. An
    error is printed as one sentence; for a command that `resumes`, another names the command to go on with.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., None]:
        arguments = dict(inspect.signature(command, eval_str=True).parameters)
        del arguments["options"]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            options = Options(**{name: values.pop(name) for name in names.split()})
            if values.get("source") == "-" and sys.stdin is not None and sys.stdin.isatty():
                print_note("INPUT is the terminal: give it records and then Ctrl-D; Ctrl-C stops")
            with report_errors(same_command(*values.values()) if resumes else None):
                raise typer.Exit(command(options=_without_aliases(options), **values))

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
            [
                *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in arguments.values()),
                *(_typer_parameter(name, texts.get(name)) for name in names.split()),
            ]
        )
        return run

    return decorate


def _without_aliases(options: Options) -> Options:
    """Write options that stand for others as these; UsageError if they contradict one another."""
    if options.quiet:
        options = replace(options, progress="none")
    if options.no_cache:
        if options.ledger and options.ledger != ["none"]:
            raise UsageError(
                f"--no-cache: keeps nothing, so no --ledger {options.ledger[0]} goes with it; leave one out"
            )
        if options.cached_only:
            raise UsageError("--no-cache: the answers of --cached-only are in the ledger; leave one out")
        options = replace(options, ledger=["none"])
    return options
