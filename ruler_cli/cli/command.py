"""Make a command of a function: its options, from `options.py`, and its help, with the options in panels.

typer's own panels need rich, which is slow to import and lays text out by the width of the terminal.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ruler_cli.cli.arguments import COMPLETIONS, number
from ruler_cli.cli.messages import print_note, report_errors, resume_sentence
from ruler_cli.runs.load_settings import name_sources
from ruler_cli.settings.models import LEDGER_VARIABLE
from ruler_cli.settings.options import (
    COMMANDS,
    FIELDS,
    HINTS,
    PANELS,
    Options,
    Origin,
    load_file,
    long_names,
    option_names,
    variables_of,
    without_aliases,
)

_FEW = 12
"""Options of a command that need no panels."""
_NAMES_WIDTH = 28
"""Columns for the names of options; text stands beside them."""
_EXAMPLES = {
    "max_cost": "RULER_MAX_COST=5",
    "passes": "RULER_PASSES=4",
    "group_by": "RULER_GROUP_BY=task_id",
    "one_ledger": "RULER_LEDGER=PATH",
}
"""Options with a variable, by field; every command with options has one of them."""
_RULE = (
    "Every option can be set in ruler.toml and, except per-run ones such as files, as a variable "
    "({}). `ruler config` prints the settings in effect.{}"
)
_FLAGS = " `--no-FLAG` switches a flag off."
_FILE, _PLACES = "ruler.file", "ruler.places"
"""Names of what is read of the file, among the data of typer's context."""


class PanelCommand(TyperCommand):
    """A command whose help lists its options in panels: plain text, the same on every terminal."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments without typer's braces."""
        return [
            piece.replace("{", "").replace("}", "")
            for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, then the options in panels, `--help` last; few options need no panels."""
        given: list[Any] = self.get_params(ctx)
        arguments = [one for one in given if one.param_type_name == "argument"]
        options = [one for one in given if one.param_type_name == "option"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(
                    [(one.make_metavar(ctx=ctx), one.help or "") for one in arguments]
                )
        rows = [(_panel(one), *_record(one, ctx)) for one in options]
        panels = PANELS if len(options) > _FEW else ("",)
        width = max(len(names) for _, names, _ in rows if len(names) <= _NAMES_WIDTH)
        for panel in panels:
            inside = [
                (names.ljust(width), text)
                for at, names, text in rows
                if panel == at or len(panels) < 2
            ]
            if inside:
                with formatter.section(panel or "Options"):
                    formatter.write_dl(inside, col_max=width)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Say once which variables the options have."""
        names = {one.name for one in self.get_params(ctx)}
        examples = [text for name, text in _EXAMPLES.items() if name in names]
        flags = any(one.secondary_opts for one in self.get_params(ctx))
        self.epilog = (
            _RULE.format(examples[0], _FLAGS if flags else "") if examples else None
        )
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
    more = dict(FIELDS[name].metadata)
    more["help"] = text or more["help"]
    names = option_names(name)
    if HINTS[name] is bool:
        names = [
            f"{one}/--no-{one[2:]}" if _has_opposite(one) else one for one in names
        ]
    del more["names"]
    more["autocompletion"] = COMPLETIONS.get(name)
    numbers = {int: int, int | None: int, float: float, float | None: float}
    if kind := numbers.get(HINTS[name]):
        bounds = more.pop("min", None), more.pop("max", None)
        more["parser"] = number(kind, *bounds, finite=more.pop("finite", False))
    every = variables_of(name)
    more["envvar"] = (every[0] if len(every) == 1 else every) or None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=FIELDS[name].default,
        annotation=Annotated[HINTS[name], typer.Option(*names, **more)],
    )


def _has_opposite(name: str) -> bool:
    return name.startswith("--") and not name.startswith("--no-")


def with_options(
    name: str,
    *,
    resumes: bool = False,
    record: Callable[..., AbstractContextManager[object]] | None = None,
    **texts: str,
) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Give a command its options, those of its name in COMMANDS; its result is the exit code.

    The command gets them in its parameter `options`; its other parameters stand in front, as arguments do.
    `record` makes a context around the command, of its options and arguments, which it gets as `record`.
    `texts` is the help, by field, of options that differ from those of other commands in nothing else. An
    error is printed as one sentence; for a command that `resumes`, another names the command to go on with.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., None]:
        arguments = dict(inspect.signature(command, eval_str=True).parameters)
        del arguments["options"]
        arguments.pop("record", None)

        @functools.wraps(command)
        def run(ctx: typer.Context, **values: Any) -> None:
            options = options_of(name, ctx, values)
            words = [value for value in values.values() if isinstance(value, str)]
            if (
                values.get("source") == "-"
                and sys.stdin is not None
                and sys.stdin.isatty()
            ):
                print_note(
                    "INPUT is the terminal: give it records and then Ctrl-D; Ctrl-C stops"
                )
            ledger = options.ledger
            with ExitStack() as stack:
                stack.enter_context(
                    report_errors(
                        lambda: resume_sentence(ledger, *words) if resumes else None
                    )
                )
                stack.enter_context(name_sources(options))
                if record is not None:
                    values["record"] = stack.enter_context(record(options, **values))
                warn_of_variables()
                options = without_aliases(options)
                ledger = options.ledger
                stack.enter_context(name_sources(options))
                raise typer.Exit(command(options=options, **values))

        run.__signature__ = signature(name, arguments.values(), texts)  # type: ignore[attr-defined]  # typer reads it
        return run

    return decorate


def signature(
    name: str,
    arguments: Iterable[inspect.Parameter],
    texts: Mapping[str, str] = MappingProxyType({}),
) -> inspect.Signature:
    """Return the parameters of a command as typer reads them."""

    def read(ctx: typer.Context, value: str | None) -> str | None:
        return _read_file(name, ctx, value)

    context = inspect.Parameter(
        "ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
    )
    config = _typer_parameter("config", None)
    config.annotation.__metadata__[0].callback = read
    options = [
        _typer_parameter(field, texts.get(field)) for field in COMMANDS[name].split()
    ]
    given = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in arguments]
    return inspect.Signature([context, *given, *options, config])


def _read_file(name: str, ctx: typer.Context, value: str | None) -> str | None:
    """Read `ruler.toml` before the other options, which have their defaults from there."""
    if not ctx.resilient_parsing:  # of the completion
        file = load_file(value)
        ctx.meta[_FILE] = file
        found = (
            [] if file is None else list(file.defaults(name, COMMANDS[name].split()))
        )
        ctx.default_map = {field: value for field, value, _ in found}
        ctx.meta[_PLACES] = {field: place for field, _, place in found}
    return value


def options_of(name: str, ctx: typer.Context, values: dict[str, Any]) -> Options:
    """Take the options of a command out of its values, each with its source."""
    fields = COMMANDS[name].split()
    taken = {field: values.pop(field) for field in (*fields, "config")}
    origins = {}
    for field in fields:
        source = ctx.get_parameter_source(field)
        how = "" if source is None else source.name
        if how == "COMMANDLINE":
            origins[field] = Origin("command line", 3)
        elif field == "ledger" and os.environ.get(LEDGER_VARIABLE):
            taken[field] = [os.environ[LEDGER_VARIABLE]]
            origins[field] = Origin(LEDGER_VARIABLE, 2)
        elif how == "ENVIRONMENT":
            origins[field] = Origin(
                next(one for one in variables_of(field) if os.environ.get(one)), 2
            )
        elif how == "DEFAULT_MAP":
            origins[field] = Origin(ctx.meta[_PLACES][field], 1)
    return Options(**taken, file=ctx.meta.get(_FILE), origins=origins)


def warn_of_variables() -> None:
    """Warn of each variable that is nearly one of an option."""
    given = [name for name in os.environ if name.startswith("RULER_")]
    known = (
        {LEDGER_VARIABLE, *(name for field in FIELDS for name in variables_of(field))}
        if given
        else set()
    )
    for name in given:
        if name in known:
            continue
        from ruler_cli.settings.suggestions import nearest

        words = "--" + name.removeprefix("RULER_").replace("_", "-").lower()
        option = next(
            (long for one in FIELDS for long in long_names(one) if long == words), None
        )
        near = nearest(
            name.removeprefix("RULER_"),
            [one.removeprefix("RULER_") for one in known],
            0.7,
        )
        if option is not None:
            print_note(
                f"warning: {name}: {option} has no variable, as it is for one run; give the option"
            )
        elif near is not None:
            print_note(
                f"warning: {name}: no option has this variable; did you mean RULER_{near}?"
            )
