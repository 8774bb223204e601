"""A command line that typer refuses → one sentence with a way out.

typer keeps the classes of its usage errors to itself, so they are known here by their attributes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer

from ruler_cli.cli.messages import print_stderr
from ruler_cli.reading.location import Location

OPTIONS = {
    "--api-key": "--api-key-env VAR; a key never stands on a command line",
    "--base-url": "--api-base",
    "--best": "--keep",
    "--budget": "--max-cost",
    "--endpoint": "--api-base",
    "--filter": "--where",
    "--html": "--output FILE.html",
    "--json": "--summary FILE",
    "--key": "--group",
    "--max-tokens": "-p max_tokens=VALUE",
    "--min-score": "--where score=LOW..",
    "--model": "--judge-model",
    "--reasoning-effort": "-p reasoning_effort=VALUE",
    "--samples": "--passes",
    "--temperature": "-p temperature=VALUE",
    "--threads": "--concurrency",
    "--token": "--api-key-env VAR; a key never stands on a command line",
    "--top": "--keep",
    "--top-p": "-p top_p=VALUE",
    "--verbose": "--debug",
    "--votes": "--passes",
    "--workers": "--concurrency",
    "-v": "--version",
}
"""Options that other tools have, and what to write instead."""
COMMANDS = {
    "compare": "agree", "cost": "check", "estimate": "check", "evaluate": "score", "filter": "select",
    "grade": "score", "help": "--help", "inspect": "report", "judge": "score", "run": "score",
    "show": "report", "stats": "ledger stats", "status": "batch status", "submit": "batch submit",
    "validate": "check",
}  # fmt: skip
"""Commands that other tools have, and ours for the same."""
_FILE = re.compile(r"-$|.*[./*]")
_ADDRESS = re.compile(r"\w+://[^\s')]*[^\s'):]")
_NO_COMMAND = re.compile(r"No such command ['\"](.*?)['\"]")
_MANY, _MISSING = "Got unexpected extra argument", "Missing argument"
_SEVERAL = "; several files are one INPUT as a directory, or as a pattern in quotes: 'part-*.jsonl'"


def explain(error: Exception) -> int | None:
    """Report on stderr what is wrong with a command line; the exit code, None for any other error."""
    if isinstance(error, typer.Abort):
        print_stderr("ruler: aborted")
        return 1
    if not callable(getattr(error, "format_message", None)):
        return None
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # the help, on stderr
    else:
        print_stderr(f"ruler: {_ADDRESS.sub(lambda found: Location(found[0]).public, _sentence(error))}")
    return int(getattr(error, "exit_code", 2))


def _sentence(error: Any) -> str:
    message, ctx = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if ctx is None:  # an option without its value, or with one too many
        return f"{message}; its command lists what it takes with --help"
    see = f"; `{ctx.command_path} --help` lists what there is"
    if hasattr(error, "possibilities"):
        return _option(error.option_name, error.possibilities, ctx) or f"{message}{see}"
    if (found := _NO_COMMAND.match(message)) is not None:
        meant = COMMANDS.get(found[1]) or ("score INPUT OUTPUT" if _FILE.match(found[1]) else "")
        if meant.split(" ")[0] in ("--help", *ctx.command.commands):
            return f"{found[0]}; did you mean `{ctx.command_path} {meant}`?"
    if message.startswith((_MISSING, _MANY)):
        arguments = [str(one.metavar) for one in ctx.command.params if one.param_type_name == "argument"]
        several = _SEVERAL if message.startswith(_MANY) and "INPUT" in arguments else ""
        return f"{message}; write `{' '.join((ctx.command_path, *arguments))}`{several}"
    return message if message.endswith("?") else f"{message}{see}"


def _option(name: str, near: Sequence[str] | None, ctx: Any) -> str | None:
    """An unknown option: ours for the same, the commands that have it, or the nearest one."""
    instead, here = OPTIONS.get(name), f"{name}: is no option of `{ctx.command_path}`"
    if instead and re.split("[ ;]", instead)[0] in _options(ctx.command):
        return f"{here}; write {instead}"
    root = ctx.find_root()
    others = [
        f"`{root.command_path} {n}`" for n, one in root.command.commands.items() if name in _options(one)
    ]
    if others:
        return f"{here}; it belongs to {', '.join(others)}"
    return f"{here}; did you mean {near[0]}?" if near and not instead else None


def _options(command: Any) -> set[str]:
    return {name for param in command.params for name in param.opts}
