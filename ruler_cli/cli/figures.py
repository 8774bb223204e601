"""A template of lines, `name: text with {figures}` → names and values; lines without a figure are left out."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruler_cli.cli.messages import print_note
from ruler_cli.cli.units import count

Row = tuple[str, str]
"""A name and a value."""


class _Figures(string.Formatter):
    """Format figures by their kind; the format of a number may be its noun, or `%`."""

    def format_field(self, value: Any, form: str) -> str:
        if hasattr(value, "expected"):
            low = f"{value.low:,.0f}"
            middle = f"{value.expected:,.0f}"
            high = f"{value.high:,.0f}"
            if low == high:
                return middle
            return f"{middle} (from {low} to {high})"
        if isinstance(value, dict):
            return ", ".join(f"{name} {n:,}" for name, n in value.items() if n)
        if isinstance(value, list):
            return ", ".join(value)
        if form == "%":
            return f"{value:.0%}"
        if isinstance(value, float):
            return f"{value:.4g}"
        if isinstance(value, int):
            if form:
                return number_of(value, form)
            return f"{value:,}"
        return str(value)


_FIGURES = _Figures()


def rows(template: str, figures: Mapping[str, Any], *objects: Any) -> Iterator[Row]:
    """Fill the lines of a template, and divide them into name and value."""
    for line in _known(template, figures, objects):
        name, _, value = line.partition(": ")
        yield (
            _FIGURES.vformat(name, objects, figures),
            _FIGURES.vformat(value, objects, figures),
        )


def lines(template: str, figures: Mapping[str, Any], *objects: Any) -> Iterator[str]:
    """Fill the lines of a template; `{0.name}` is an attribute of the first object.

    A line is left out if one of its figures is absent, 0, or empty, unless it stands as `{figure!s}`.
    """
    for line in _known(template, figures, objects):
        yield _FIGURES.vformat(line, objects, figures)


def _known(
    template: str, figures: Mapping[str, Any], objects: Sequence[Any]
) -> Iterator[str]:
    for line in template.strip().splitlines():
        parsed = _FIGURES.parse(line)
        fields = [field for _, field, _, empty in parsed if field and not empty]
        try:
            values = [_FIGURES.get_field(name, objects, figures)[0] for name in fields]
        except (AttributeError, KeyError, TypeError):
            continue
        if all(value or isinstance(value, float) for value in values):
            yield line


def number_of(number: int, noun: str) -> str:
    """Return a number with its noun, and commas between its thousands."""
    return count(number, noun).replace(str(number), f"{number:,}", 1)


def print_figures(template: str, *objects: Any) -> None:
    """Print the lines of a template on stderr."""
    print_note(*lines(template, {}, *objects))
