"""Every format there is: each module here that has `FORMATS` or `REFUSALS` is found by itself."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import ruler_cli.formats
from ruler_cli.formats.interface import Format, Refusal


@cache
def formats() -> tuple[Format, ...]:
    """All formats, in the order of their modules' names."""
    return tuple(f for module in _modules() for f in getattr(module, "FORMATS", ()))


@cache
def refusals() -> tuple[Refusal, ...]:
    """Shapes that cannot be scored, each with the way out."""
    return tuple(r for module in _modules() for r in getattr(module, "REFUSALS", ()))


@cache
def families() -> tuple[str, ...]:
    """What `--format` takes beside `auto`."""
    return tuple(dict.fromkeys(f.family for f in formats()))


@cache
def _modules() -> tuple[object, ...]:
    found = sorted(m.name for m in pkgutil.iter_modules(ruler_cli.formats.__path__))
    plain = (n for n in found if n not in {"catalog", "detect", "reader"})
    return tuple(importlib.import_module(f"ruler_cli.formats.{name}") for name in plain)
