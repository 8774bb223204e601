"""The libraries of the report's scripts: pinned, licensed, and equal to their manifest."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from importlib.resources import files
from typing import Any

import pytest

WEB = files("ruler_cli.results.report") / "web"
VENDOR = WEB / "vendor"
MANIFEST: dict[str, Any] = json.loads(
    (VENDOR / "manifest.json").read_text(encoding="utf-8")
)
LIBRARY = (VENDOR / "lib.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(MANIFEST["files"]))
def test_manifest(name: str) -> None:
    """Files that `make vendor` wrote are unchanged."""
    result = sha256((VENDOR / name).read_bytes()).hexdigest()
    assert f"sha256:{result}" == MANIFEST["files"][name], "run `make vendor`"


def test_licences() -> None:
    """LICENSES.txt names each package with the full text of a licence that permits redistribution."""
    text = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    parts = [part for part in text.split("-" * 80) if part.strip()][1:]
    for name, package in MANIFEST["packages"].items():
        (part,) = [
            part
            for part in parts
            if f"{name} {package['version']} ({package['license']})" in part
        ]
        assert re.search(r"copyright|licensed under", part, re.IGNORECASE)
    assert {
        package["license"] for package in MANIFEST["packages"].values()
    } <= {
        *(
            "Apache-2.0",
            "BSD-2-Clause",
            "BSD-3-Clause",
            "ISC",
            "MIT",
            "Unlicense",
        )
    }


@pytest.mark.parametrize(
    "sign",
    ["eval(", "new Function", "Function(", "</script", "<!--", "import("],
)
def test_no_eval(sign: str) -> None:
    """The bundle evaluates no text, loads no code, and does not end its element."""
    result = [m.start() for m in re.finditer(re.escape(sign), LIBRARY)]
    assert not [at for at in result if not LIBRARY[at - 1].isalnum()]


def test_scripts() -> None:
    """Every name that a script takes from `lib` exists, and no two define the same name: they share one scope."""
    used: set[str] = set()
    result: dict[str, str] = {}
    for script in WEB.iterdir():
        if not script.name.endswith(".js"):
            continue
        text = script.read_text(encoding="utf-8")
        used.update(re.findall(r"\blib\.(\w+)", text))
        for names in re.findall(r"\{([^{}]*)\} = lib;", text):
            used.update(re.findall(r"\w+", names))
        for name in re.findall(
            r"^(?:async )?(?:function|const|let|class) (\w+)",
            text,
            re.MULTILINE,
        ):
            assert name not in result, (script.name, name)
            result[name] = script.name
    assert {"route", "Overview", "Groups", "GroupPage"} <= result.keys()
    assert not [
        name for name in used if not re.search(rf"\b{name}:\(\)=>", LIBRARY)
    ]
