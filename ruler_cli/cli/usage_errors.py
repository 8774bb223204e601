"""Print usage errors of typer as one sentence, with what to write instead."""

from __future__ import annotations

import re
from typing import Any

import typer

from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.errors import RulerError
from ruler_cli.files.location import Location

_KEY_OPTION = "--api-key-env VAR; a key never stands on a command line"
OPTIONS_OF_OTHERS = {
    "--address": "--api-base URL",
    "--api-key": _KEY_OPTION,
    "--api-version": "-p api_version=VALUE",
    "--apikey": _KEY_OPTION,
    "--base-url": "--api-base",
    "--batch-size": "--concurrency",
    "--best": "--keep",
    "--budget": "--max-cost",
    "--cache": "--ledger PATH",
    "--cache-dir": "--ledger PATH",
    "--criteria": "--rubric TEXT|@FILE",
    "--csv": "--json",
    "--drop-tied": "--where live",
    "--dryrun": "--dry-run",
    "--endpoint": "--api-base",
    "--filter": "--where",
    "--group-key": "--group-by PATH",
    "--guidelines": "--rubric TEXT|@FILE",
    "--head": "--limit",
    "--host": "--api-base URL",
    "--html": "--output FILE.html",
    "--id": "--group",
    "--instructions": "--rubric TEXT|@FILE",
    "--jobs": "--concurrency",
    "--json": "--summary FILE",
    "--judge": "--judge-model",
    "--judges": "--judge-model NAME, once for each judge",
    "--key": f"--group | {_KEY_OPTION}",
    "--log-level": "--debug",
    "--max-concurrency": "--concurrency",
    "--max-groups": "--limit",
    "--max-retries": "--retries",
    "--max-samples": "--limit",
    "--max-spend": "--max-cost",
    "--max-tokens": "-p max_tokens=VALUE",
    "--min-score": "--where score=LOW..",
    "--models": "--judge-model",
    "--n": "--limit",
    "--n-jobs": "--concurrency",
    "--no-ledger": "--no-cache",
    "--no-progress": "--quiet",
    "--num-groups": "--limit",
    "--num-passes": "--passes",
    "--num-retries": "--retries",
    "--num-samples": "--passes",
    "--num-workers": "--concurrency",
    "--parallel": "--concurrency",
    "--parallelism": "--concurrency",
    "--port": "--api-base http://localhost:PORT/v1",
    "--prompt-file": "--rubric @FILE",
    "--prompt-template": "--rubric TEXT|@FILE",
    "--provider": "-m PROVIDER/NAME",
    "--qps": "--rpm N, which is per minute",
    "--rate-limit": "--rpm N, requests per minute, or --tpm N, tokens",
    "--reasoning-effort": "-p reasoning_effort=VALUE",
    "--repeat": "--passes",
    "--repeats": "--passes",
    "--retry": "--retries | --retry-failed",
    "--rps": "--rpm N, which is per minute",
    "--runs": "--passes",
    "--sample": "--limit",
    "--samples": "--passes",
    "--save": "--output FILE.html",
    "--score-threshold": "--where score=LOW..",
    "--silent": "--quiet",
    "--system": "--rubric TEXT|@FILE",
    "--system-prompt": "--rubric TEXT|@FILE",
    "--task": "--group",
    "--temp": "-p temperature=VALUE",
    "--temperature": "-p temperature=VALUE",
    "--threads": "--concurrency",
    "--threshold": "--where score=LOW..",
    "--token": _KEY_OPTION,
    "--top": "--keep | --max-groups",
    "--top-p": "-p top_p=VALUE",
    "--trials": "--passes",
    "--url": "--api-base URL",
    "--verbose": "--debug",
    "--verbosity": "--debug",
    "--votes": "--passes",
    "--workers": "--concurrency",
    "-j": "--concurrency",
    "-k": f"--keep | {_KEY_OPTION}",
    "-n": "--limit",
    "-t": "-p temperature=VALUE",
    "-v": "--debug | --version",
    "-w": "--concurrency",
}
"""Options that other tools have, and what to write instead; of several the first that the command has."""
_REPLACED = "OUTPUT is replaced anyway, once the new one is whole"
_SAME_COMMAND = "the same command goes on where it stopped, and pays for no reply twice"
_UNASKED = "nothing is asked before a run"
NO_OPTION = {
    "--append": "OUTPUT is written anew, and replies of earlier runs are kept in the ledger",
    "--async": "calls run at the same time anyway; -c N bounds them",
    "--continue": _SAME_COMMAND,
    "--force": _REPLACED,
    "--no-confirm": _UNASKED,
    "--overwrite": _REPLACED,
    "--restart": _SAME_COMMAND,
    "--resume": _SAME_COMMAND,
    "--stream": "`-` is stdin and stdout, and records flow as they are done",
    "--yes": _UNASKED,
    "-f": _REPLACED,
    "-y": _UNASKED,
}
"""Options that other tools need and this one does not, and why."""
_ARGUMENTS = (
    "--input",
    "--in",
    "--input-file",
    "-i",
    "--output",
    "--output-file",
    "--out",
    "-o",
    "--file",
)
"""Options of other tools for what is an argument here."""
_NEAR = 0.8
"""Likeness, from 0 to 1, of a misspelt option and one that exists: --passs, and not --force and --price."""
_SHORT = 5
"""Characters of an option that begins too many others."""
COMMANDS_OF_OTHERS = {
    "compare": "agree", "cost": "check", "estimate": "check", "evaluate": "score", "filter": "select",
    "grade": "score", "help": "--help", "inspect": "report", "judge": "score", "run": "score",
    "show": "report", "stats": "ledger stats", "status": "batch status", "submit": "batch submit",
    "validate": "check",
}  # fmt: skip
"""Commands that other tools have, and the words for the same here."""
_FILE_NAME = re.compile(r"-$|.*[./*]")
_ADDRESS = re.compile(r"\w+://[^\s')]*[^\s'):]")
_NO_COMMAND = re.compile(r"No such command ['\"](.*?)['\"]")
_MANY, _MISSING = "Got unexpected extra argument", "Missing argument"
_SEVERAL_INPUTS = "; several files are one INPUT as a directory, or as a pattern in quotes: 'part-*.jsonl'"


def report_usage_error(error: Exception) -> int | None:
    """Print a usage error of typer as one sentence; return the exit code, None for any other error.

    typer does not export the classes of its usage errors, so their attributes tell them.
    """
    if isinstance(error, typer.Abort):
        print_note("aborted")
        return 1
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # the help, on stderr
        return 2
    if not isinstance(error, RulerError) and not callable(
        getattr(error, "format_message", None)
    ):
        return None
    print_note(usage_sentence(error))
    return int(getattr(error, "exit_code", 2))


def usage_sentence(error: Any) -> str:
    """Return a usage error of typer, or an error before the command begins, as one sentence."""
    if isinstance(error, RulerError):
        return command_words(error)
    return _ADDRESS.sub(lambda match: Location(match[0]).public, _sentence(error))


def _sentence(error: Any) -> str:
    message, ctx = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if ctx is None:  # an option without its value, or with one too many
        return f"{message}; its command lists what it takes with --help"
    see = f"; `{ctx.command_path} --help` lists what there is"
    if hasattr(error, "possibilities"):
        return (
            _unknown_option(error.option_name, ctx)
            or f"{message.partition(' (Possible')[0]}{see}"
        )
    if (unknown := _NO_COMMAND.match(message)) is not None:
        command = COMMANDS_OF_OTHERS.get(unknown[1], "")
        if not command and _FILE_NAME.match(unknown[1]):
            command = "score INPUT OUTPUT"
        if command.split(" ")[0] in ("--help", *ctx.command.commands):
            return f"{unknown[0]}; did you mean `{ctx.command_path} {command}`?"
    if message.startswith((_MISSING, _MANY)):
        arguments = [
            str(one.metavar)
            for one in ctx.command.params
            if one.param_type_name == "argument"
        ]
        several = (
            _SEVERAL_INPUTS
            if message.startswith(_MANY) and "INPUT" in arguments
            else ""
        )
        return f"{message}; write `{' '.join((ctx.command_path, *arguments))}`{several}"
    return (
        message
        if message.endswith("?")
        else f"{_invalid_value(message, error) or message}{see}"
    )


def _unknown_option(name: str, ctx: Any) -> str | None:
    """Return a sentence with the option to write instead, or the commands that have it; None for neither."""
    from ruler_cli.settings.suggestions import nearest

    own, problem = (
        _options(ctx.command),
        f"{name}: is no option of `{ctx.command_path}`",
    )
    word = f"--{name[2:].replace('_', '-').lower()}" if name.startswith("--") else name
    for instead in OPTIONS_OF_OTHERS.get(word, "").split(" | "):
        if re.split("[ ;]", instead)[0] in own:
            return f"{problem}; write {instead}"
    arguments = [
        str(one.metavar)
        for one in ctx.command.params
        if one.param_type_name == "argument"
    ]
    why = NO_OPTION.get(word, "")
    if why and arguments and ("OUTPUT" in arguments or not why.startswith("OUTPUT")):
        return f"{problem}: {why}; leave it out"
    if word in _ARGUMENTS and arguments:
        return f"{problem}; write `{' '.join((ctx.command_path, *arguments))}`"
    root = ctx.find_root()
    commands = getattr(root.command, "commands", {})
    inner = {
        f"{n} {m}": two
        for n, one in commands.items()
        for m, two in getattr(one, "commands", {}).items()
    }
    for several in (commands, inner):
        if others := [
            f"`{root.command_path} {n}`"
            for n, one in several.items()
            if name in _options(one)
        ]:
            return f"{problem}; it belongs to {', '.join(others)}"
    longer = [one for one in own if len(word) > _SHORT and one.startswith(word)]
    near = nearest(word, own, _NEAR) or (longer[0] if len(longer) == 1 else None)
    return f"{problem}; did you mean {near}?" if near else None


_INVALID = re.compile(
    r"Invalid value for (?P<names>.+?)(?: \(env var: '(?P<variable>\w+)'\))?: '?(?P<value>.*?)'? "
    r"is not (?:a valid (?P<kind>int|float|boolean)\b|in the range (?P<range>\S+)|one of (?P<choices>.+?))",
    re.DOTALL,
)
_KINDS = {"int": "a whole number", "float": "a number", "boolean": "true or false"}


def _invalid_value(message: str, error: Any) -> str | None:
    """Return a sentence on a value of a wrong type, with its option or variable; None for other messages."""
    found = _INVALID.match(message)
    if found is None or (param := getattr(error, "param", None)) is None:
        return None
    kind, least, most = (
        param.type,
        getattr(param.type, "min", None),
        getattr(param.type, "max", None),
    )
    number = _KINDS["int" if "int" in kind.name else "float"]
    bounds = (
        ""
        if least is None
        else f" from {least:g}" + (" on" if most is None else f" to {most:g}")
    )
    choices = " or ".join(", ".join(getattr(kind, "choices", ())).rsplit(", ", 1))
    wanted = choices or (
        _KINDS["boolean"] if found["kind"] == "boolean" else number + bounds
    )
    source = error.ctx.get_parameter_source(param.name) if error.ctx else None
    from_variable = found["variable"] and getattr(source, "name", "") == "ENVIRONMENT"
    name = f"{found['variable']}=" if from_variable else f"{max(param.opts, key=len)} "
    return f"{name}{found['value']}: is not {wanted}"


def _options(command: Any) -> set[str]:
    return {
        name
        for param in command.params
        for name in (*param.opts, *param.secondary_opts)
    }
