"""`ruler.toml`: defaults of options and judges with names, checked; each mistake is a sentence with its line.

A table `[score]`, `[check]`, `[batch.submit]` and so on holds defaults of a command's options by their long
names. A table `[judges.NAME]` holds one judge: its endpoint, the name of its key's variable, its parameters,
its price and its limits. A key itself never stands in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from pydantic import ValidationError

from ruler_cli.errors import UsageError
from ruler_cli.settings.suggestions import nearest, other_file, question
from ruler_cli.settings.values import (
    PREFIX,
    JudgeTable,
    OptionType,
    options_model,
    reason_of,
)

KeyPath = tuple[str, ...]
JUDGES = "judges"


Commands = Mapping[str, Mapping[str, OptionType]]
"""Command, as `batch submit` → option, as `max_cost` → its type."""


_PAIR = ("api_base", "api_key_env")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A checked file: `tables` by command, of values by the field of their option; judges by name.

    `name` stands for the file in sentences, `path` is its absolute path.
    """

    name: str
    path: Path
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judges: Mapping[str, JudgeTable] = field(default_factory=dict)
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Command and field, or `judges` and the judge's name → line."""

    def place(self, table: str, name: str) -> str:
        """Return the place of a value or of a judge for a sentence, e.g. `ruler.toml line 7`."""
        return f"{self.name} line {self.lines[table, name]}"

    def defaults(
        self, command: str, names: Iterable[str]
    ) -> Iterator[tuple[str, Any, str]]:
        """Yield field, value and place of the options of a command that the file sets.

        What `[score]` says holds for other commands with the same option, so that they agree with the run; a
        command's own table wins. Endpoint and key are a pair, of one table, and a price goes with its model.
        A command without judges takes no key of the run's.
        """
        own, shared, names = (
            self.tables.get(command, {}),
            self.tables.get("score", {}),
            list(names),
        )
        left = set(_PAIR) if any(name in own for name in _PAIR) else set()
        left |= set() if "model" in names else {"api_key_env"}
        left |= {"price"} if "model" in own else set()
        for name in names:
            if name in own:
                yield name, own[name], self.place(command, name)
            elif name in shared and name not in left:
                yield name, shared[name], self.place("score", name)
            elif name == "one_ledger" and shared.get("ledger"):
                yield name, shared["ledger"][0], self.place("score", "ledger")


def find_file(given: str | None) -> Path | None:
    """Return the file that is read: the one given, else `ruler.toml` or `pyproject.toml` here; None for none.

    UsageError if the file that is given does not exist, or cannot be looked for.
    """
    if given is not None:
        if given == "none":
            return None
        path, wrong = Path(given), partial(UsageError, option="config", value=given)
        try:
            directory = S_ISDIR(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            advice = other_file(given, "check the path, or leave it out")
            raise wrong("no such file", advice) from None
        except (
            OSError
        ) as error:  # in a directory of somebody else, or a name that is too long
            raise wrong(f"cannot be read: {error.strerror}") from None
        if directory:
            raise wrong("is a directory", "name a file in it")
        return path
    return next(
        (
            path
            for path in map(Path, ("ruler.toml", "pyproject.toml"))
            if path.is_file()
        ),
        None,
    )


def read_file(path: Path, commands: Commands) -> ConfigFile | None:
    """Read and check a file; None for a `pyproject.toml` without `[tool.ruler]`. UsageError for a mistake."""
    name, inside = str(path), ("tool", "ruler") if path.name == "pyproject.toml" else ()
    try:
        text = path.read_text(encoding="utf-8-sig")
        whole = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{name}: cannot be read: {reason}") from None
    except RecursionError:
        raise UsageError(
            f"{name}: is nested too deeply; write what is inside as tables"
        ) from None
    except tomllib.TOMLDecodeError as error:
        if inside and "tool.ruler" not in text:  # another program reports it
            return None
        raise UsageError(_syntax_error(name, text, str(error))) from None
    except ValueError:  # of a number with thousands of digits
        raise UsageError(
            f"{name}: holds a number that is too long; write fewer digits"
        ) from None
    for key in inside:
        whole = whole.get(key, {})
        if not isinstance(whole, dict) or not whole:
            return None
    lines: dict[KeyPath, int] = {}
    for found, line in key_lines(text):
        if found[: len(inside)] == inside:
            lines.setdefault(found[len(inside) :], line)
    return _Reader(name, path.absolute(), whole, lines, commands).read()


def _syntax_error(name: str, text: str, message: str) -> str:
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    line = (
        int(match[1])
        if match and match[1]
        else text.count("\n") + (not text.endswith("\n"))
    )
    reason = message[: match.start()] if match else message
    return f"{name} line {line}: is no TOML: {reason[:1].lower()}{reason[1:]}"


class _Reader:
    """The check of a file that is parsed: values against the options of commands and the keys of judges."""

    def __init__(
        self,
        name: str,
        path: Path,
        whole: dict[str, Any],
        lines: Mapping[KeyPath, int],
        commands: Commands,
    ) -> None:
        self._name, self._path, self._whole, self._commands = (
            name,
            path,
            whole,
            commands,
        )
        self._lines = lines
        self._mistakes: list[tuple[int, str]] = []

    def read(self) -> ConfigFile:
        """Return the values; UsageError with the first mistake, by line."""
        judges = self._judges(self._whole.get(JUDGES, {}))
        tables, lines = dict[str, Mapping[str, Any]](), dict[tuple[str, str], int]()
        for command, path, table in self._tables():
            tables[command] = self._options(command, path, table)
            options = self._commands[command]
            for key in table:
                if (option := options.get(_plain(key))) is not None:
                    lines[command, option.field] = self._line((*path, key))
        lines |= {(JUDGES, name): self._line((JUDGES, name)) for name in judges}
        if self._mistakes:
            line, sentence = min(self._mistakes)
            more = len(self._mistakes) - 1
            others = f" (and {more} more mistake{'s' * (more > 1)})" if more else ""
            raise UsageError(f"{self._name} line {line}: {sentence}{others}")
        return ConfigFile(self._name, self._path, tables, judges, lines)

    def _line(self, path: KeyPath) -> int:
        """Return the line of a key; that of its table, or of the first key, for one that has no own line."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, min(self._lines.values(), default=1))

    def _wrong(self, path: KeyPath, reason: str, *, table: int = 1) -> None:
        """Note a mistake; the first `table` keys of the path are the table's name."""
        where = f"[{'.'.join(path[:table])}] " if table else ""
        key = ".".join(path[table:])
        self._mistakes.append(
            (self._line(path), f"{where}{key}{': ' if key else ''}{reason}")
        )

    def _judges(self, tables: Any) -> dict[str, JudgeTable]:
        judges: dict[str, JudgeTable] = {}
        if not isinstance(tables, dict):
            self._wrong((JUDGES,), "is a table of tables, [judges.NAME]", table=0)
            return {}
        for name, table in tables.items():
            path = (JUDGES, name)
            if not isinstance(table, dict):
                self._wrong(path, "write a table, [judges.NAME]", table=1)
            elif (
                name in ("offline", "simulated", "none")
                or not name
                or name.startswith("-")
            ):
                self._wrong(
                    path, "is no name for a judge of yours; choose another", table=2
                )
            else:
                judge = self._checked(
                    JudgeTable,
                    path,
                    table,
                    "is no key of a judge",
                    JudgeTable.model_fields,
                )
                judges |= {name: judge} if judge is not None else {}
        return judges

    def _tables(self) -> Iterator[tuple[str, KeyPath, dict[str, Any]]]:
        """Yield each table of a command, with the command's name and the table's path."""
        groups = {command.split(" ")[0] for command in self._commands}
        for name, table in self._whole.items():
            if name == JUDGES:
                continue
            if not isinstance(table, dict):
                way = "stands outside of a table; write it below [score]"
                self._wrong((name,), way, table=0)
            elif name in self._commands:
                yield name, (name,), table
            elif name in groups:
                for inner, options in table.items():
                    command = f"{name} {inner}"
                    if command in self._commands and isinstance(options, dict):
                        yield command, (name, inner), options
                    else:
                        near = nearest(command, self._commands, 0.8)
                        way = question(near and f"[{near.replace(' ', '.')}]")
                        self._wrong(
                            (name, inner),
                            f"is no command of `ruler {name}`{way}",
                            table=1,
                        )
            else:
                near = nearest(name, (JUDGES, *self._commands))
                way = question(near and f"[{near.replace(' ', '.')}]")
                self._wrong(
                    (name,),
                    f"is no table of this file: they are judges and commands{way}",
                )

    def _options(
        self, command: str, path: KeyPath, table: dict[str, Any]
    ) -> Mapping[str, Any]:
        options = self._commands[command]
        values = {_plain(key): value for key, value in table.items()}
        spelled = {_plain(key): key for key in table}
        model = options_model(options)
        unknown = f"is no option of `ruler {command}`"
        checked = self._checked(model, path, values, unknown, options, spelled)
        first: dict[str, str] = {}
        for key in table:  # two spellings would leave it open which one holds
            if (option := options.get(_plain(key))) is not None and first.setdefault(
                option.field, key
            ) != key:
                other = first[option.field]
                self._wrong(
                    (*path, key),
                    f"is the option {other} again; leave one out",
                    table=len(path),
                )
        if checked is None:
            return {}
        given = [
            (key.removeprefix(PREFIX), getattr(checked, key))
            for key in checked.model_fields_set
        ]
        return {options[key].field: value for key, value in given}

    def _checked(
        self,
        model: type[Any],
        path: KeyPath,
        values: dict[str, Any],
        unknown: str,
        known: Iterable[str],
        spelled: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the values as a model; None if there are mistakes, which are noted."""
        try:
            return model(**values)
        except ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                first = str(each["loc"][0])
                key = (spelled or {}).get(first, first)
                if each["type"] == "missing":
                    self._wrong(
                        path,
                        f'names no {first}; write {first} = "openai/o3"',
                        table=len(path),
                    )
                else:
                    self._wrong(
                        (*path, key), reason_of(each, unknown, known), table=len(path)
                    )
            return None


def _plain(key: str) -> str:
    return key.replace("-", "_")


_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")
_VALUE = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'{3}.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|.''',
    re.DOTALL,
)


def key_lines(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Yield the path of each key and table of a TOML document with its line; the document is well-formed.

    Keys inside inline tables and arrays have no line of their own.
    """
    at, line, table = 0, 1, KeyPath()
    text = text.replace("\r\n", "\n") + "\n"
    while at < len(text):
        if text[at] in " \t\n":
            line += text[at] == "\n"
            at += 1
        elif text[at] == "#":
            at = text.index("\n", at)
        else:
            header = text[at] == "["
            keys, at = _dotted(text, at)
            path = keys if header else (*table, *keys)
            table = keys if header else table
            yield from (
                (path[:length], line)
                for length in range(1, len(path) + 1)
                if header or length > len(table)
            )
            at, depth = (at, 0) if header else (text.index("=", at) + 1, 0)
            while depth or text[at] != "\n":
                match = _VALUE.match(text, at)
                token = match[0] if match else "\n"
                depth += (
                    (token in ("[", "{")) - (token in ("]", "}")) if not header else 0
                )
                line += token.count("\n")
                at += len(token)


def _dotted(text: str, at: int) -> tuple[KeyPath, int]:
    """Return a dotted key, or the one inside of brackets, and the offset behind it."""
    keys: list[str] = []
    while True:
        while text[at] in "[ \t.":
            at += 1
        match = _KEY.match(text, at)
        if match is None:
            return tuple(keys), at
        keys += tomllib.loads(f"{match[0]} = 0")
        at = match.end()
        end = at
        while text[end] in " \t":
            end += 1
        if text[end] != ".":
            return tuple(keys), at
