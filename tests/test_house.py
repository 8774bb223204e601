"""The house: imports point down, one file knows litellm, only the command line prints."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import ruler_cli

PACKAGE = Path(ruler_cli.__file__).parent
LAYERS = (
    {"__main__", "cli"},
    {"run", "result_writer", "api", "batch", "cluster", "estimate", "results"},
    {"judging"},
    {"prompting", "scoring", "pool", "judges", "ledger"},
    {"reading", "writing", "formats"},
    {"config", "observer", "answer", "types", "errors", "suggestions"},
)
"""Top to bottom. A module imports what stands below it or beside it."""
APART = LAYERS[3]
"""Of these none imports another."""

MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in MODULES]
TREES = {path: ast.parse(path.read_text()) for path in MODULES}


def layer(part: str) -> int:
    """The number of the layer of a module or package, from the top."""
    return next(i for i, names in enumerate(LAYERS) if part in names)


def imported(path: Path) -> Iterator[str]:
    """Every module that a module imports, anywhere in it."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)


def needed(path: Path, known: Collection[str]) -> Iterator[str]:
    """The modules that a module imports: of a package the one that is named, not the package's face."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else str(node.module)


def wrong(path: Path) -> Iterator[str]:
    """Imports of a module that the layers do not allow."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return  # the package's face: names of `api`, on demand
    for name in imported(path):
        other = name.split(".")[1] if name.startswith("ruler_cli.") else part
        apart = other in APART and part in APART and other != part
        if apart or layer(other) < layer(part):
            yield f"{path.relative_to(PACKAGE)} imports {name}"


def test_imports_point_down() -> None:
    """A module imports its own layer and what stands below; the parts of a request stay apart."""
    assert [sentence for path in MODULES for sentence in wrong(path)] == []


def test_no_imports_in_a_circle() -> None:
    """No module needs itself, by whatever way round, not even in a function or for a type."""
    paths = {
        f"ruler_cli.{name}".removesuffix(".__init__"): path for name, path in zip(NAMES, MODULES, strict=True)
    }
    del paths["ruler_cli"]  # names of `api`, on demand
    needs = {name: [other for other in needed(path, paths) if other in paths] for name, path in paths.items()}
    TopologicalSorter(needs).prepare()  # CycleError names the modules


def of_litellm(path: Path) -> set[str]:
    """What a module imports of litellm; of the litellm judge only what it imports at its top."""
    if path.name == "litellm.py":
        top = [n for n in TREES[path].body if isinstance(n, ast.Import | ast.ImportFrom)]
        result = {getattr(n, "module", None) or n.names[0].name for n in top}
    else:
        result = set(imported(path))
    return {name for name in result if str(name).split(".")[0] == "litellm"}


def test_one_file_knows_litellm() -> None:
    """Only the litellm judge imports litellm, and inside a function: it takes seconds."""
    assert {path.name: result for path in MODULES if (result := of_litellm(path))} == {}


def prints(path: Path) -> set[str]:
    """The calls of a module that write to stdout."""
    called = {ast.unparse(node.func) for node in ast.walk(TREES[path]) if isinstance(node, ast.Call)}
    return called & {"print", "typer.echo", "sys.stdout.write"}


def test_only_the_command_line_prints() -> None:
    """Nothing below the command line writes to stdout, which may be a pipe of records."""
    below = [path for path in MODULES if path.parent.name != "cli"]
    assert {path.name: result for path in below if (result := prints(path))} == {}


def test_modules_are_short() -> None:
    """A module can be read in one sitting."""
    sizes = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > 400} == {}


def test_no_machine_path() -> None:
    """No module names a place on somebody's machine."""
    notes = ("/home/", "/work/", "/Users/")
    assert [
        path.name for path in MODULES if any(annotation in path.read_text() for annotation in notes)
    ] == []
