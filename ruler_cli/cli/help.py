"""The help of a command: its options in sections, as plain text.

typer's own sections need rich, which takes longer to import than all the rest: with it `ruler --help` takes 2.4 times
`import typer`, without it 1.0 times.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from ruler_cli.cli.options import PANELS, options_of_command
from ruler_cli.errors import UsageError

_FEW = 14
"""Arguments and options of a command that needs no sections."""
_NAMES_WIDTH = 28
"""Columns for the names of options."""
_HOMES = (
    "Every option can be set in ruler.toml and, except per-run ones such as --limit, as a variable "
    "such as RULER_MAX_COST. `ruler config` prints the settings in effect, `ruler config --all` all there are."
)


class SectionedCommand(TyperCommand):
    """A command with the options that its function `takes`; its help lists them in sections."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Take the arguments from the function's signature, and the options from their settings."""
        super().__init__(*args, **settings)
        self._of_signature = [str(param.name) for param in self.params]
        self.params += options_of_command(self.callback)

    def invoke(self, ctx: Any) -> Any:
        """Call the command with what its signature names; it reads its options from the context."""
        arguments = {name: ctx.params[name] for name in self._of_signature}
        return ctx.invoke(self.callback, **arguments)

    def parse_args(
        self,
        ctx: Any,
        args: list[str],
    ) -> list[str]:
        """Read a command line; UsageError for more paths than the command takes: a shell made them of a pattern."""
        ctx.allow_extra_args = True
        more = super().parse_args(ctx, args)
        if not more or ctx.resilient_parsing:  # for a shell's completion
            return more
        remedy = f"`{ctx.command_path} --help` lists what it takes"
        if self.params[0].metavar in ("INPUT", "SCORED"):
            remedy = "name several files by one pattern in quotes, e.g. 'runs/*.jsonl'"
        if self.name == "report":
            remedy = "use `ruler compare A B` for two, `ruler trend STEP…` for those of a training"
        problem = "more paths than the command takes"
        raise UsageError(
            problem,
            remedy,
            place=" ".join(more),
        )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments by their bare names."""
        pieces = [self.options_metavar or ""]
        for param in self.params:
            if param.param_type_name == "argument":
                pieces.append(str(param.metavar))
        return pieces

    def format_options(
        self,
        ctx: Any,
        formatter: Any,
    ) -> None:
        """List the arguments, then the options in sections, `--help` last."""
        params: list[Any] = self.get_params(ctx)
        titles = ("Arguments", "Options", *PANELS[1:])
        sections: dict[str, list[tuple[str, str]]] = {
            title: [] for title in titles
        }
        for param in params:
            if param.param_type_name == "argument":
                sections["Arguments"].append((param.metavar, param.help or ""))
                continue
            if param.hidden:
                continue
            panel = "Other" if param.name == "help" else param.rich_help_panel
            few = len(params) <= _FEW
            sections["Options" if few or not panel else panel].append(
                _row(param)
            )
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=_NAMES_WIDTH)

    def format_epilog(
        self,
        ctx: Any,
        formatter: Any,
    ) -> None:
        """Tell how options are set without the command line."""
        self.epilog = _HOMES
        super().format_epilog(ctx, formatter)


def _row(option: Any) -> tuple[str, str]:
    """Return the names of an option, the short one first, and its text."""
    names = ", ".join(sorted(option.opts, key=len))
    if not option.is_flag:
        names += f" {option.metavar}"
    return names, option.help or ""
