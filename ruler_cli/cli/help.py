"""The help of a command: its options in sections, as plain text.

typer's own sections need rich, which takes longer to import than all the rest: with it `ruler --help` takes 2.4 times
`import typer`, without it 1.0 times.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from ruler_cli.cli.options import OTHER, PANELS
from ruler_cli.settings.names import PER_RUN

_ALWAYS = ("help", "config", "as_json")
"""Options that are no example of one that is set elsewhere."""
_FEW = 12
"""Options of a command that need no sections."""
_NAMES_WIDTH = 28
"""Columns for the names of options."""
_RULE = (
    "Every option can be set in ruler.toml and, except per-run ones such as {per_run}, as {variable}. "
    "`ruler config` prints the settings in effect."
)


class SectionedCommand(TyperCommand):
    """A command whose help lists its options in sections."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, arguments without typer's braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.strip("{}") for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the arguments, then the options in sections, `--help` last."""
        given: list[Any] = self.get_params(ctx)
        options = [one for one in given if one.param_type_name == "option"]
        arguments = [
            (one.metavar, one.help or "")
            for one in given
            if one.param_type_name == "argument"
        ]
        sections: dict[str, list[tuple[str, str]]] = {
            "Arguments": arguments,
            "Options": [],
        }
        sections |= {panel: [] for panel in PANELS}
        for option in options:
            panel = OTHER if option.name == "help" else option.rich_help_panel
            few = len(options) <= _FEW
            sections["Options" if few or not panel else panel].append(_row(option))
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=_NAMES_WIDTH)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Tell how options are set without the command line."""
        names = [
            one.name
            for one in self.get_params(ctx)
            if one.param_type_name == "option" and one.name not in _ALWAYS
        ]
        variable = next((name for name in names if name not in PER_RUN), None)
        if variable is not None:
            per_run = next((name for name in names if name in PER_RUN), "config")
            self.epilog = _RULE.format(
                per_run=f"--{per_run.strip('_').replace('_', '-')}",
                variable=f"RULER_{variable.upper()}",
            )
        super().format_epilog(ctx, formatter)


def _row(option: Any) -> tuple[str, str]:
    """Return the names of an option, the short and the first long one, and its text with the default."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")]
    names = ", ".join([*short, *long[:1]])
    if not option.is_flag:
        names += f" {option.metavar}"
    default = option.default
    if option.multiple or option.is_flag or default is None:
        return names, option.help or ""
    return names, f"{option.help}  [default: {default}]"
