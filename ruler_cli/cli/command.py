"""Make a command of a function: its options, from `options.py`, and its help, with the options in panels.

typer's own panels need rich, which is slow to import and lays text out by the width of the terminal.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from ruler_cli.cli.messages import print_note, report_errors, resume_sentence
from ruler_cli.cli.options import PANELS, Options, Origin, ScoreOptions
from ruler_cli.config import LEDGER_VARIABLE
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from ruler_cli.config_file import ConfigFile
    from ruler_cli.config_values import OptionType

_REQUEST = (
    "model api_base passes rubric param fallback escalate adaptive order seed group_size single "
    "limit format_ group_by grouping messages prompt reward outcome max_record"
)
"""Options that decide on the requests of a run; `check`, `render` and `batch submit` share them."""
_SCORED = "labels format_ group_by grouping messages prompt max_record"
"""Options on how a scored file is read."""
COMMANDS = {
    "score": " ".join(one.name for one in fields(ScoreOptions)),
    "check": f"{_REQUEST} api_key_env via price ledger no_cache batch as_json",
    "prompt": "group pass_ window model api_base passes rubric order seed group_size single "
    "limit format_ group_by grouping messages prompt max_record",
    "render": f"target {_REQUEST} shard ledger no_cache retry_failed",
    "agree": f"{_SCORED} as_json",
    "report": f"output open_page group as_json max_groups one_ledger {_SCORED}",
    "select": f"where keep by answer {_SCORED}",
    "ledger path": "one_ledger",
    "ledger stats": "one_ledger stats_json",
    "ledger clear": "one_ledger older_than yes",
    "ledger import": "one_ledger imported_model as_json",
    "batch submit": f"{_REQUEST} api_key_env max_cost price one_ledger retry_failed wait wait_timeout settle",
    "batch status": "one_ledger api_key_env every as_json settle",
    "batch collect": "one_ledger api_key_env wait wait_timeout settle",
    "batch cancel": "every forget one_ledger api_key_env settle",
}
"""Each command with the fields of its options, beside `config`, which every one has."""
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
    "Each option also has a line in ruler.toml and, unless it is for one run as a file is, a variable, "
    "RULER_ and its name ({}). `ruler config` prints the settings in effect.{}"
)
_FLAGS = " `--no-FLAG` switches a flag off."
_HINTS = get_type_hints(Options, localns={"ConfigFile": object})
_FIELDS = {one.name: one for one in fields(Options) if one.metadata}
_FILE, _PLACES = "ruler.file", "ruler.places"
"""Names of what is read of the file, among the data of typer's context."""


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
        names = {one.name for one in self.get_params(ctx)}
        examples = [text for name, text in _EXAMPLES.items() if name in names]
        flags = any(one.secondary_opts for one in self.get_params(ctx))
        self.epilog = _RULE.format(examples[0], _FLAGS if flags else "") if examples else None
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
    names = option_names(name)
    if _HINTS[name] is bool:
        names = [f"{one}/--no-{one[2:]}" if _has_opposite(one) else one for one in names]
    del more["names"]
    every = _variables(name)
    more["envvar"] = (every[0] if len(every) == 1 else every) or None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_FIELDS[name].default,
        annotation=Annotated[_HINTS[name], typer.Option(*names, **more)],
    )


def _has_opposite(name: str) -> bool:
    return name.startswith("--") and not name.startswith("--no-")


def option_names(name: str) -> list[str]:
    """Return the names of an option, by its field, e.g. `--judge-model`, `--model` and `-m`."""
    return _FIELDS[name].metadata["names"].split() or [f"--{name.rstrip('_').replace('_', '-')}"]


def _variables(name: str) -> list[str]:
    """Return the variables of an option, by its field: one for each of its long names."""
    variable = _FIELDS[name].metadata["envvar"]
    if variable is True:
        return [f"RULER_{long[2:].replace('-', '_').upper()}" for long in long_names(name)]
    return [variable] if variable else []


def long_names(name: str) -> list[str]:
    """Return the names of an option that begin with `--`, by its field."""
    return [one for one in option_names(name) if one.startswith("--")]


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
            if values.get("source") == "-" and sys.stdin is not None and sys.stdin.isatty():
                print_note("INPUT is the terminal: give it records and then Ctrl-D; Ctrl-C stops")
            ledger = options.ledger
            with ExitStack() as stack:
                stack.enter_context(
                    report_errors(lambda: resume_sentence(ledger, *words) if resumes else None)
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


@contextmanager
def name_sources(options: Options) -> Iterator[None]:
    """Begin a UsageError about an option with the line or the variable that sets it, if nobody typed it."""
    try:
        yield
    except UsageError as error:
        names = set(re.split(r" or |:? ", str(error), maxsplit=2)[:2])  # of `-m or --escalate x: …`
        found = [one for field, one in options.origins.items() if names & {*option_names(field)}]
        if str(error).startswith("-") and found and all(origin.rank < 3 for origin in found):
            error.args = (f"{found[0].place}: {error}",)
        raise with_named_judges(error, options) from None


def with_named_judges(error: UsageError, options: Options) -> UsageError:
    """Return an error; one of an unknown judge says which names the file of settings has."""
    from ruler_cli.judges.providers import UnknownJudgeError

    if not isinstance(error, UnknownJudgeError) or "/" in error.name:
        return error
    file = options.file
    if file is not None:
        hint = (
            f"the judges of {file.name} are {', '.join(file.judges)}"
            if file.judges
            else f"{file.name} names no judge"
        )
    elif options.config == "none":
        hint = "--config none reads no ruler.toml, which could name it"
    else:
        hint = "there is no ruler.toml here that names it"
    return UsageError(f"{error}; {hint}")


def signature(
    name: str, arguments: Iterable[inspect.Parameter], texts: Mapping[str, str] = MappingProxyType({})
) -> inspect.Signature:
    """Return the parameters of a command as typer reads them."""

    def read(ctx: typer.Context, value: str | None) -> str | None:
        return _read_file(name, ctx, value)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    config = _typer_parameter("config", None)
    config.annotation.__metadata__[0].callback = read
    options = [_typer_parameter(field, texts.get(field)) for field in COMMANDS[name].split()]
    given = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in arguments]
    return inspect.Signature([context, *given, *options, config])


def _read_file(name: str, ctx: typer.Context, value: str | None) -> str | None:
    """Read `ruler.toml` before the other options, which have their defaults from there."""
    if not ctx.resilient_parsing:  # of the completion
        file = load_file(value)
        ctx.meta[_FILE] = file
        found = [] if file is None else list(file.defaults(name, COMMANDS[name].split()))
        ctx.default_map = {field: value for field, value, _ in found}
        ctx.meta[_PLACES] = {field: place for field, _, place in found}
    return value


def load_file(given: str | None) -> ConfigFile | None:
    """Read the file of settings; None if there is none. UsageError for a mistake in it."""
    if given is None and not (os.path.isfile("ruler.toml") or _in_pyproject()):  # noqa: PTH113 - no import
        return None
    from ruler_cli.config_file import find_file, read_file

    path = find_file(given)
    file = None if path is None else read_file(path, option_types())
    if file is None and given not in (None, "none"):
        raise UsageError(f"--config {given}: has no table [tool.ruler]; name a file with settings, or `none`")
    return file


def _in_pyproject() -> bool:
    """Tell if `pyproject.toml` here has a table of ours; most have none, and are not parsed."""
    try:
        with open("pyproject.toml", "rb") as file:  # noqa: PTH123 - as above
            return re.search(rb"\btool\b(?s:.*)\bruler\b", file.read()) is not None
    except OSError:
        return False


def option_types() -> dict[str, dict[str, OptionType]]:
    """Return the options of every command by their names in the file, with their types."""
    from ruler_cli.config_values import OptionType

    def one(field: str) -> OptionType:
        more = _FIELDS[field].metadata
        return OptionType(field, _HINTS[field], more.get("min"), more.get("max"))

    return {
        command: {
            long[2:].replace("-", "_"): one(field) for field in names.split() for long in long_names(field)
        }
        for command, names in COMMANDS.items()
    }


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
            origins[field] = Origin(next(one for one in _variables(field) if os.environ.get(one)), 2)
        elif how == "DEFAULT_MAP":
            origins[field] = Origin(ctx.meta[_PLACES][field], 1)
    return Options(**taken, file=ctx.meta.get(_FILE), origins=origins)


def warn_of_variables() -> None:
    """Warn of each variable that is nearly one of an option."""
    given = [name for name in os.environ if name.startswith("RULER_")]
    known = {LEDGER_VARIABLE, *(name for field in _FIELDS for name in _variables(field))} if given else set()
    for name in given:
        if name in known:
            continue
        from ruler_cli.suggestions import nearest

        words = "--" + name.removeprefix("RULER_").replace("_", "-").lower()
        option = next((long for one in _FIELDS for long in long_names(one) if long == words), None)
        near = nearest(name.removeprefix("RULER_"), [one.removeprefix("RULER_") for one in known], 0.7)
        if option is not None:
            print_note(f"warning: {name}: {option} has no variable, as it is for one run; give the option")
        elif near is not None:
            print_note(f"warning: {name}: no option has this variable; did you mean RULER_{near}?")


def without_aliases(options: Options) -> Options:
    """Write options that stand for others as these; UsageError if they contradict one another."""
    pairs = (("quiet", "progress"), ("no_cache", "ledger"))
    lost: dict[str, Any] = {one: False for one, other in pairs if options.rank(one) < options.rank(other)}
    origins = {field: origin for field, origin in options.origins.items() if field not in lost}
    options = replace(options, **lost, origins=origins)
    if options.quiet:
        origins["progress"] = options.origins.get("quiet", Origin())
        options = replace(options, progress="none", origins=origins)
    if options.no_cache:
        same = options.rank("no_cache") == options.rank("ledger")
        if same and options.ledger and options.ledger != ["none"]:
            raise UsageError(
                f"--no-cache: keeps nothing, so no --ledger {options.ledger[0]} goes with it; leave one out"
            )
        if options.cached_only:
            raise UsageError("--no-cache: the answers of --cached-only are in the ledger; leave one out")
        origins["ledger"] = options.origins.get("no_cache", Origin())
        options = replace(options, ledger=["none"], origins=origins)
    return options
