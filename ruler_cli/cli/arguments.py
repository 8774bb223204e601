"""Tell typer what the table of options does not hold: arguments, completions, values that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

_JUDGES = (
    "offline", "simulated", "openai/o3", "openai/", "hosted_vllm/", "anthropic/", "azure/", "bedrock/",
    "deepseek/", "gemini/", "groq/", "litellm_proxy/", "mistral/", "ollama_chat/", "openrouter/",
    "together_ai/", "vertex_ai/", "xai/",
)  # fmt: skip
"""Judges without a model, and the most used providers, for the shell's completion."""


def _complete_judge(incomplete: str) -> list[str]:
    import tomllib

    try:
        own = tomllib.loads(Path("ruler.toml").read_text(encoding="utf-8")).get(
            "judges", {}
        )
    except (OSError, ValueError):  # the command itself names a mistake
        own = {}
    names = (*(own if isinstance(own, dict) else ()), *_JUDGES)
    return [name for name in names if name.startswith(incomplete)]


def _complete_format(incomplete: str) -> list[str]:
    from ruler_cli.formats.detect import families

    return [name for name in ("auto", *families()) if name.startswith(incomplete)]


def _complete_condition(incomplete: str) -> list[str]:
    from ruler_cli.results.conditions import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def _complete_rubric(incomplete: str) -> list[str]:
    """Complete the name of a file behind `@`."""
    import glob

    if not incomplete.startswith("@"):
        return []
    return ["@" + name for name in glob.glob(glob.escape(incomplete[1:]) + "*")]  # noqa: PTH207 - keeps `./`


def number(
    kind: type[int] | type[float],
    low: float | None,
    high: float | None,
    *,
    finite: bool,
) -> Callable[[str | float], float]:
    """Return a reader of numbers with bounds, for typer; `finite` refuses `inf`."""
    noun = "a whole number" if kind is int else "a number"
    if low is not None:
        noun += f" of {low:g} or more" if high is None else f" from {low:g} to {high:g}"

    def read(text: str | float) -> float:
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            raise typer.BadParameter(f"{text!r} is not {noun}") from None
        below = low is not None and not value >= low  # nan is none of the numbers
        above = high is not None and not value <= high
        if below or above:
            raise typer.BadParameter(f"{text!r} is not {noun}")
        if finite and not math.isfinite(value):
            raise typer.BadParameter(f"{text!r} is not a finite number")
        return value

    return read


COMPLETIONS = {
    "model": _complete_judge,
    "escalate": _complete_judge,
    "rubric": _complete_rubric,
    "format_": _complete_format,
    "where": _complete_condition,
}
"""Completions of values, by the field of the option."""

Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="JSON lines or a JSON document, plain, .gz or .zst; .eval, Parquet; a directory, a pattern; "
        "`-` is stdin.",
    ),
]
Scored = Annotated[
    str,
    typer.Argument(
        metavar="SCORED",
        help="A file written by `ruler score`, in any format; `-` is stdin.",
    ),
]

Second = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCORED2]",
        help="The same input scored by another judge.",
        show_default=False,
    ),
]
