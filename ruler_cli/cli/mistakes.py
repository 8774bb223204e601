"""A command line that cannot be taken → one sentence: where it is wrong, and what may have been meant.

Loaded on the way to an error only. typer keeps the classes of its usage errors to itself, so they are
known here by what they carry (`format_message`, `ctx`, `param`, `option_name`) and by their names; what
is not known is told in typer's own words. A value is shown where an option takes one of a few words or a
number, and never of an option that is not known: it may be a key.
"""

from __future__ import annotations

import itertools
import os
import re
from typing import Any

import typer

from ruler_cli.cli.command_line import (
    Line,
    arguments_of,
    commands_below,
    followed,
    given,
    is_option,
    long_options,
    options_of,
    shown_word,
    usage,
)
from ruler_cli.cli.console import say
from ruler_cli.cli.meant import CHOICES, COMMANDS, OPTIONS, SAID
from ruler_cli.nearest import nearest, question

_CALL = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "reasoning_effort")
"""Parameters of a judge call that people take for options."""
_TRUTHS = ("true", "false", "yes", "no", "on", "off", "1", "0")
_FILE = re.compile(r"-$|.*[./*]")


def explain(error: Exception, app: typer.Typer, words: list[str]) -> int | None:
    """Tell on stderr what is wrong with a command line; the exit code, None where that is not what failed."""
    if isinstance(error, typer.Abort):
        say("ruler: aborted")
        return 1
    if not callable(getattr(error, "format_message", None)):
        return None
    line = followed(error, app, words)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]  # the help, on stderr
    else:
        say(f"ruler: {_sentence(error, line)}")
    return int(getattr(error, "exit_code", 2))


def _sentence(error: Any, line: Line) -> str:
    if found := _one_dash(line) or _swallowed(line):
        return found
    kind, param = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return _option(error.option_name, line)
    if kind == "BadOptionUsage":
        return _lone(error.option_name, line)
    if kind == "MissingParameter" and param is not None:
        return _missing(param, error.ctx, line)
    if kind == "BadParameter" and param is not None:
        return _value(error, param, line)
    if not hasattr(line.command, "commands"):
        return _extra(error, line)
    words = itertools.dropwhile(is_option, line.rest)
    positional = list(itertools.takewhile(lambda word: not is_option(word), words))
    return _command(positional, line) if positional else _as_it_is(error, line)


def _as_it_is(error: Any, line: Line) -> str:
    """What typer says, where nothing better is known."""
    return f"{str(error.format_message()).rstrip('.')}{line.see}"


def _one_dash(line: Line) -> str | None:
    """A long option with one dash, which is read as a row of short ones or as the value of one."""
    mine, options = long_options(line.command), options_of(line.command)
    for word in itertools.takewhile(lambda word: word != "--", line.rest):
        name = word.partition("=")[0].replace("_", "-")
        if re.fullmatch("-[A-Za-z][A-Za-z-]{2,}", name):
            ends = [option for option in mine if option.endswith(name)]
            short = options.get(name[:2])
            near = nearest(name, mine, 0.7) if short is None or short.is_flag else None
            meant = f"-{name}" if f"-{name}" in mine else ends[0] if len(ends) == 1 else near
            if meant is not None:
                return f"{word.partition('=')[0]}: a long option has two dashes; did you mean {meant}?"
    return None


def _swallowed(line: Line) -> str | None:
    """An option that got another option for its value."""
    options = options_of(line.command)
    for word, after in zip(line.rest, line.rest[1:], strict=False):
        param = options.get(word)
        name = after.partition("=")[0]
        if param is not None and not param.is_flag and name in options:
            return f"{word}: its value is missing in front of {name}; {_write(word, param)}"
    return None


def _option(given: str, line: Line) -> str:
    """An option that the command does not have."""
    name = _whole(given, line)
    others = [called for called, command in commands_below(line.root) if name in options_of(command)]
    mine, here = long_options(line.command), f"{name}: is no option of `{line.called}`"
    if name == "--key" and "--group" in mine:
        return f"{here}{question('--group')}"
    if name.replace("_", "-") in ("--api-key", "--key", "--token"):
        takes = "--api-key-env" in mine
        way = "; name its variable with --api-key-env VAR" if takes else f", and `{line.called}` needs none"
        return f"{name}: a key never stands on a command line{way}"
    if name.replace("_", "-") in mine:
        return f"{here}{question(name.replace('_', '-'))}"
    bare = name.lstrip("-").replace("-", "_")
    for argument in arguments_of(line.command):
        if bare and str(argument.metavar).lower().startswith(bare):
            return f"{here}: {argument.metavar} has no option; write `{usage(line)}`"
    if others:
        return _elsewhere(name, others, line)
    if (said := _said(name, mine)) is not None:
        return f"{here}: {said}"
    if name.startswith("--no-") and "--" + name[5:] in mine:
        return f"{here}: --{name[5:]} is off unless it is given; leave it out"
    if OPTIONS.get(name) in mine:
        return f"{here}{question(OPTIONS[name])}"
    if bare in _CALL and "--param" in mine:
        return f"{here}: it is a parameter of the judge call; write -p {bare}=VALUE"
    meant = nearest(name, mine) if name.startswith("--") else None
    return here + (question(meant) if meant else line.see)


def _said(name: str, mine: list[str]) -> str | None:
    """What to do instead of an option, where the command is the one that it is said about."""
    needed, said = SAID.get(name, ("", ""))
    return said if needed in mine else None


def _whole(given: str, line: Line) -> str:
    """An unknown option as it was meant: `-j` out of `-json` is `--json`."""
    found = (word for word in line.rest if word.startswith(given) and len(word) > 3)
    return given if given.startswith("--") else next((f"-{word}" for word in found), given)


def _elsewhere(name: str, others: list[str], line: Line) -> str:
    """An option of other commands, or one that stands in front of its command."""
    listed = " and ".join(", ".join(f"`{other}`" for other in others).rsplit(", ", 1))
    if hasattr(line.command, "commands"):
        return f"{name}: is an option of {listed}; write it behind the command"
    mine = long_options(line.command)
    said = _said(name, mine)
    instead = question(OPTIONS[name]) if OPTIONS.get(name) in mine else f"; {said}" if said else line.see
    return f"{name}: is an option of {listed}, not of `{line.called}`{instead}"


def _lone(name: str, line: Line) -> str:
    """An option without its value, or with one that it does not take."""
    param = options_of(line.command).get(name)
    if param is None or param.is_flag:
        return f"{name}: takes no value; write {name} alone, or leave it out"
    return f"{name}: its value is missing; {_write(name, param)}"


def _write(name: str, param: Any) -> str:
    choices = getattr(param.type, "choices", None)
    if choices:
        return f"write {name} and one of {', '.join(choices)}"
    return f"write {name} {param.metavar or 'N'}"


def _missing(param: Any, ctx: Any, line: Line) -> str:
    """An argument that is not there: what is, and what belongs behind it."""
    if param.param_type_name != "argument":
        return f"{param.opts[0]}: is missing; {_write(param.opts[0], param)}"
    wanted = [one for one in arguments_of(line.command) if one.required]
    lost = wanted[wanted.index(param) :] if param in wanted else [param]
    given = [getattr(ctx, "params", {}).get(one.name) for one in wanted[: len(wanted) - len(lost)]]
    if given == ["help"]:
        return f"did you mean `{line.called} --help`?"
    words = [*map(shown_word, given), *(str(one.metavar) for one in lost)]
    names = " and ".join(str(one.metavar) for one in lost)
    stdin = ", where `-` is stdout" if names == "OUTPUT" else ""
    verb = "is" if len(lost) == 1 else "are"
    return f"{names} {verb} missing; write `{' '.join((line.called, *words))}`{stdin}"


def _value(error: Any, param: Any, line: Line) -> str:
    """A value that an option does not take."""
    value, where = given(param, line)
    choices = getattr(param.type, "choices", None)
    if choices:
        other = CHOICES.get((value or "").casefold())
        meant = other if other in choices else nearest(value or "", choices)
        return f"{where}: is none of {', '.join(choices)}{question(meant)}"
    kind = type(param.type).__name__
    if kind.startswith("Bool"):
        return f"{where}: is neither 1 nor 0"
    if not kind.startswith(("Int", "Float")):
        return f"{where}: {str(error.message).rstrip('.')}{line.see}"
    low, high = getattr(param.type, "min", None), getattr(param.type, "max", None)
    what = "a whole number" if kind.startswith("Int") else "a number"
    least = "" if low is None else f" of {low:g} or more" if high is None else f" from {low:g} to {high:g}"
    return f"{where}: is not {what}{least}"


def _command(positional: list[str], line: Line) -> str:
    """A command that there is not."""
    name, behind = positional[0], positional[1:]
    shown = shown_word(name)
    if name == "help":
        return f"help: is no command; did you mean `{' '.join(('ruler', *behind[:1]))} --help`?"
    if name == "version":
        return "version: is no command; did you mean `ruler --version`?"
    every = commands_below(line.command, line.names)
    known = {called.removeprefix(f"{line.called} "): called for called, _ in every}
    inner = {called.rsplit(" ", 1)[-1]: called for called in known.values()}
    meant = known.get(COMMANDS.get(name, "")) or inner.get(name)
    if name == "stats" and behind:  # of a file; those of the ledger need none
        meant = known.get("report", meant)
    looks = _FILE.match(name) is not None or os.path.exists(name)  # noqa: PTH110 - no error where too long
    if not meant and looks and not line.names:
        return _forgotten(positional)
    near = nearest(name, known)
    meant = meant or (known[near] if near else None)
    if meant is None and looks and "submit" in known:
        meant = f"{known['submit']} {shown}"
    if meant is None:
        return f"{shown}: is no command of `{line.called}`{line.see}"
    rest = [*map(shown_word, behind), *(["…"] if len(line.rest) > len(positional) else [])]
    return f"{shown}: is no command of `{line.called}`; did you mean `{' '.join((meant, *rest))}`?"


def _forgotten(positional: list[str]) -> str:
    """Files where a command belongs."""
    first, *more = map(shown_word, positional)
    if more:
        return f"{first}: is no command; did you mean `ruler score {' '.join((first, *more))}`?"
    return f"{first}: is no command; did you mean `ruler check {first}`, or `ruler score {first} OUTPUT`?"


def _extra(error: Any, line: Line) -> str:
    """More arguments than the command takes."""
    wanted, options = arguments_of(line.command), options_of(line.command)
    found, before, words = [], "", iter(line.rest)
    for word in words:
        if not is_option(word):
            found.append((before, word))
        elif (param := options.get(word)) is not None and not param.is_flag:
            next(words, None)
        before = word
    if len(found) <= len(wanted):
        return _as_it_is(error, line)
    flags = [pair for pair in found if pair[0] in options and pair[1].lower() in _TRUTHS]
    if flags:
        return f"{' '.join(flags[0])}: takes no value; write {flags[0][0]} alone, or leave it out"
    lost = shown_word(found[len(wanted)][1])
    if not wanted:
        return f"{lost}: is one argument too many, `{line.called}` takes none{line.see}"
    words_found = [word for _, word in found]
    return f"{lost}: is one argument too many, {_too_many(words_found, line)}"


def _too_many(found: list[str], line: Line) -> str:
    """What may have been meant by more arguments than there are."""
    wanted, options = arguments_of(line.command), options_of(line.command)
    if "--where" in options:
        from ruler_cli.selection.conditions import NAMES

        lost = [word for word in found if re.split("[=<>]", word)[0] in NAMES]
        if lost:
            return f"each condition has a --where of its own; did you mean --where {shown_word(lost[0])}?"
    page = next((word for word in found if word.endswith((".html", ".htm"))), None)
    if "--output" in options and page is not None:
        return f"write `{usage(line)}`; did you mean -o {shown_word(page)}?"
    said = f"write `{usage(line)}`"
    name = wanted[0].metavar
    if name in ("INPUT", "SCORED"):
        said += f"; several files are one {name} as a directory, or as a pattern in quotes: 'part-*.jsonl'"
    return said
