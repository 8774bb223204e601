"""Architecture: imports point down, one file imports litellm, only the command line prints, and size is bounded."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import ruler_cli
from tests.conftest import ROOT

PACKAGE = Path(ruler_cli.__file__).parent
LAYERS = (
    {"__main__", "cli"},
    {"runs"},
    {"results"},
    {"judging"},
    {"prompting", "scoring", "pool", "judges", "ledger"},
    {"formats"},
    {"messages"},
    {"files"},
    {"settings"},
    {"types", "tokens", "errors"},
)
"""Top to bottom. A module imports its own layer and lower ones."""
INDEPENDENT = LAYERS[4]
"""None of these imports another."""
READERS = {("ledger", "ruler_cli.judges.replies")}
"""But this: a ledger keeps bodies as they came, and the reader of bodies reads them again."""

MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in MODULES
]
KNOWN = frozenset(f"ruler_cli.{name}" for name in NAMES)

MOST_TOKENS = {
    "ruler_cli": 244_600,
    "ruler_cli/formats": 32_100,
    "ruler_cli/messages": 12_900,
    "tests": 398_300,
}
"""Limit of each folder, in tokens of code; comments, docstrings and blanks are free."""
MOST_A_LINE = {"ruler_cli": 7.0}
"""Limit of tokens a line."""
FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@cache
def tree(path: Path) -> ast.Module:
    """Return a module parsed, not before a test asks: every worker imports this file."""
    return ast.parse(path.read_text())


def layer(part: str) -> int:
    """Return the layer of a module or package, counted from the top."""
    return next(i for i, names in enumerate(LAYERS) if part in names)


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a module imports, anywhere in it."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)


def dependencies(path: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the modules that a module imports, in a package the named ones and not its `__init__`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else str(node.module)


def violations(path: Path) -> Iterator[str]:
    """Yield the imports of a module that the layers do not allow."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return  # the names of `api`, on demand
    for name in imports(path):
        other = name.split(".")[1] if name.startswith("ruler_cli.") else part
        independent = (
            other in INDEPENDENT and part in INDEPENDENT and other != part
        )
        independent = independent and (part, name) not in READERS
        if independent or layer(other) < layer(part):
            yield f"{path.relative_to(PACKAGE)} imports {name}"


def test_imports_point_down() -> None:
    """A module imports its own layer and lower ones; the parts of a request stay independent."""
    assert [sentence for path in MODULES for sentence in violations(path)] == []


def test_no_cycles() -> None:
    """No module imports itself through others, not even in a function or for a type."""
    paths = {
        f"ruler_cli.{name}".removesuffix(".__init__"): path
        for name, path in zip(NAMES, MODULES, strict=True)
    }
    del paths["ruler_cli"]  # names of `api`, on demand
    graph = {
        name: [other for other in dependencies(path, paths) if other in paths]
        for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # CycleError names the modules


def litellm_imports(path: Path) -> set[str]:
    """Return a module's imports of litellm; in the litellm judge only those at the top count."""
    if path.name == "litellm.py":
        top = [
            n
            for n in tree(path).body
            if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        result = {getattr(n, "module", None) or n.names[0].name for n in top}
    else:
        result = set(imports(path))
    return {name for name in result if str(name).split(".")[0] == "litellm"}


def test_one_file_knows_litellm() -> None:
    """Only the litellm judge imports litellm, and inside a function, because it takes seconds."""
    assert {
        path.name: result
        for path in MODULES
        if (result := litellm_imports(path))
    } == {}


def stdout_calls(path: Path) -> set[str]:
    """Return the calls of a module that write to stdout."""
    called = {
        ast.unparse(node.func)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
    }
    return called & {"print", "typer.echo", "sys.stdout.write"}


def test_only_the_command_line_prints() -> None:
    """Nothing below the command line writes to stdout, which may be a pipe of records."""
    below = [path for path in MODULES if path.parent.name != "cli"]
    assert {
        path.name: result for path in below if (result := stdout_calls(path))
    } == {}


def test_only_the_command_line_reads_its_words() -> None:
    """Below the command line nothing reads the words of a command line."""
    below = [path for path in MODULES if path.parent.name != "cli"]
    attributes = [
        (path.name, node.attr)
        for path in below
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute)
    ]
    assert [name for name, attribute in attributes if attribute == "argv"] == []


def test_no_machine_path() -> None:
    """No module contains a path of a developer's machine."""
    folders = ("/home/", "/work/", "/Users/")
    assert [
        path.name
        for path in MODULES
        if any(folder in path.read_text() for folder in folders)
    ] == []


def test_class_names() -> None:
    """A class name means one thing in the whole package."""
    classes = [
        node.name
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    ]
    assert [
        name for name, number in Counter(classes).items() if number > 1
    ] == []


PROTOCOLS = {"Container", "Generic", "Protocol"}
"""Classes of a room that others may implement."""
SECTIONS = {("Format", "RecordPaths")}
"""But this: a row of ruler's own is a user's row, with the same words, and more."""


def foreign_bases(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each class of a module that inherits from a class of another room, and that class."""
    room = path.relative_to(PACKAGE).parts[0]
    origins = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins[alias.asname or alias.name] = str(node.module)
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        for base in node.bases:
            name = ast.unparse(base).partition("[")[0]
            parts = origins.get(name, "").split(".")
            # types.py and errors.py stand beside the rooms
            elsewhere = (
                parts[0] == "ruler_cli" and (PACKAGE / parts[1]).is_dir()
            )
            if elsewhere and parts[1] != room and name not in PROTOCOLS:
                yield node.name, name


def test_no_class_of_another_room() -> None:
    """No class inherits from a class of another room, protocols aside."""
    pairs = {pair for path in MODULES for pair in foreign_bases(path)}
    assert pairs == SECTIONS


def test_docstrings() -> None:
    """A docstring begins with a verb or a noun, and with no clause."""
    clause = re.compile(
        r"(What|Where|Whether|Who|Whom|Whose|How|Which|When)\b(?!-)"
    )
    begin = re.compile(rf"[\"']\s*{clause.pattern}")
    wrong = []
    for path in [
        p
        for folder in ("ruler_cli", "tests", "benchmarks")
        for p in (ROOT / folder).rglob("*.py")
    ]:
        source = path.read_text()
        # few files need to be parsed
        if not begin.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Expr) and isinstance(
                node.value, ast.Constant
            ):
                text = node.value.value
                wrong += (
                    [f"{path}: {text}"]
                    if isinstance(text, str) and clause.match(text)
                    else []
                )
    assert wrong == []


def code_lines(path: Path) -> list[int]:
    """Return the line of each token of code of a file; a text that is a statement is a docstring."""
    source = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in FREE
        and not (token.type == tokenize.STRING and token.start[0] in docstrings)
    ]


def test_tokens_of_code() -> None:
    """No folder holds more tokens of code than its limit, so that whoever adds also takes away."""
    for folder, most in MOST_TOKENS.items():
        lines = [code_lines(path) for path in (ROOT / folder).rglob("*.py")]
        assert sum(map(len, lines)) <= most, folder
        if folder in MOST_A_LINE:
            tokens_a_line = sum(map(len, lines)) / sum(
                len(set(of_file)) for of_file in lines
            )
            assert tokens_a_line <= MOST_A_LINE[folder], folder


EMPTY_NAMES = frozenset(
    ["one", "other", "own", "each", "found", "given", "known", "said"]
)
"""Names that do not say what a thing is."""


def test_names() -> None:
    """At most one binding in a hundred has a name that does not say what it holds."""
    bindings = []
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.arg):
                bindings.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bindings.append(node.id)
    empty = [name for name in bindings if name in EMPTY_NAMES]
    assert 100 * len(empty) <= len(bindings)
