"""The recipes of docs/training.md, as a reader copies them."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import blocks, prose, read
from tests.judge_server import JudgeServer

PAGE = "docs/training.md"
JUDGE = "http://localhost:8000/v1"
"""The address of the judge in every recipe."""

Recipe = Callable[..., ModuleType]


@pytest.fixture
def recipe(
    tmp_path: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> Recipe:
    """Import the first block of `py` below a heading, from a file of its own, with the judge of the tests.

    Other texts of the block are replaced by keyword, each by its own: none may be missing.
    """
    numbers = itertools.count(1)
    monkeypatch.syspath_prepend(str(tmp_path))

    def load(
        heading: str, replaced: dict[str, str] | None = None
    ) -> ModuleType:
        text = read(PAGE)
        line = next(
            number
            for number, line in prose(text)
            if re.fullmatch(rf"#+ {re.escape(heading)}", line)
        )
        code = next(
            one.text
            for one in blocks(PAGE, text)
            if one.language == "py" and one.line > line
        )
        for old, new in {JUDGE: server.base, **(replaced or {})}.items():
            assert old in code, f"{PAGE}, {heading}: {old} is gone"
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
