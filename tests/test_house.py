"""Architecture: imports point down, one file imports litellm, only the command line prints."""

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
"""Top to bottom. A module imports its own layer and lower ones."""
INDEPENDENT = LAYERS[3]
"""None of these imports another."""

MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in MODULES]
TREES = {path: ast.parse(path.read_text()) for path in MODULES}


def layer(part: str) -> int:
    """Return the layer of a module or package, counted from the top."""
    return next(i for i, names in enumerate(LAYERS) if part in names)


def imports(path: Path) -> Iterator[str]:
    """Yield every module that a module imports, anywhere in it."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield str(node.module)


def dependencies(path: Path, known: Collection[str]) -> Iterator[str]:
    """Yield the modules that a module imports, in a package the named ones and not its `__init__`."""
    for node in ast.walk(TREES[path]):
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
        independent = other in INDEPENDENT and part in INDEPENDENT and other != part
        if independent or layer(other) < layer(part):
            yield f"{path.relative_to(PACKAGE)} imports {name}"


def test_imports_point_down() -> None:
    """A module imports its own layer and lower ones; the parts of a request stay independent."""
    assert [sentence for path in MODULES for sentence in violations(path)] == []


def test_no_cycles() -> None:
    """No module imports itself through others, not even in a function or for a type."""
    paths = {
        f"ruler_cli.{name}".removesuffix(".__init__"): path for name, path in zip(NAMES, MODULES, strict=True)
    }
    del paths["ruler_cli"]  # names of `api`, on demand
    graph = {
        name: [other for other in dependencies(path, paths) if other in paths] for name, path in paths.items()
    }
    TopologicalSorter(graph).prepare()  # CycleError names the modules


def litellm_imports(path: Path) -> set[str]:
    """Return a module's imports of litellm; in the litellm judge only those at the top count."""
    if path.name == "litellm.py":
        top = [n for n in TREES[path].body if isinstance(n, ast.Import | ast.ImportFrom)]
        result = {getattr(n, "module", None) or n.names[0].name for n in top}
    else:
        result = set(imports(path))
    return {name for name in result if str(name).split(".")[0] == "litellm"}


def test_one_file_knows_litellm() -> None:
    """Only the litellm judge imports litellm, and inside a function, because it takes seconds."""
    assert {path.name: result for path in MODULES if (result := litellm_imports(path))} == {}


def stdout_calls(path: Path) -> set[str]:
    """Return the calls of a module that write to stdout."""
    called = {ast.unparse(node.func) for node in ast.walk(TREES[path]) if isinstance(node, ast.Call)}
    return called & {"print", "typer.echo", "sys.stdout.write"}


def test_only_the_command_line_prints() -> None:
    """Nothing below the command line writes to stdout, which may be a pipe of records."""
    below = [path for path in MODULES if path.parent.name != "cli"]
    assert {path.name: result for path in below if (result := stdout_calls(path))} == {}


def test_modules_are_short() -> None:
    """No module has more than 400 lines."""
    sizes = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > 400} == {}


def test_no_machine_path() -> None:
    """No module contains a path of a developer's machine."""
    folders = ("/home/", "/work/", "/Users/")
    assert [path.name for path in MODULES if any(folder in path.read_text() for folder in folders)] == []
