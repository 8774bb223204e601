"""The recipes of samples/recipes, as a reader copies them."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.judge_server import JudgeServer

RECIPES = Path(__file__).parents[2] / "samples" / "recipes"
JUDGE = "http://localhost:8000/v1"
"""The address of the judge in every recipe."""

Recipe = Callable[..., ModuleType]


@pytest.fixture
def recipe(
    tmp_path: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> Recipe:
    """Import a recipe by the name of its file, with the judge of the tests.

    Other texts of the file are replaced by keyword, each by its own: none may be missing.
    """
    numbers = itertools.count(1)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(
        recipe_name: str, replaced: dict[str, str] | None = None
    ) -> ModuleType:
        code = (RECIPES / f"{recipe_name}.py").read_text(encoding="utf-8")
        for old, new in {JUDGE: server.base, **(replaced or {})}.items():
            assert old in code, f"{recipe_name}: {old} is gone"
            code = code.replace(old, new)
        name = f"recipe_{next(numbers)}"
        path = tmp_path / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    return load
