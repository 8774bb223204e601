"""Tell typer what the table of options does not hold: arguments, completions, values that are refused."""

from __future__ import annotations

import math
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


def finite(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which typer lets pass every bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number; give one such as 60")
    return value


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
