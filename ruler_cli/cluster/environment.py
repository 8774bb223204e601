"""What a judge needs of the driver's environment, for workers on other machines."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ruler_cli.judges.providers import provider_of, variables
from ruler_cli.settings import JudgeSettings

_OTHER = {
    "bedrock": ("AWS_",),
    "sagemaker": ("AWS_",),
    "gemini": ("GEMINI_", "GOOGLE_"),
    "vertex_ai": ("VERTEX", "GOOGLE_"),
    "azure_ai": ("AZURE_",),
    "together_ai": ("TOGETHER",),
    "huggingface": ("HF_", "HUGGINGFACE_"),
}
"""Providers whose variables do not begin with their own word."""


def needed(judges: Sequence[JudgeSettings]) -> dict[str, str]:
    """The variables that were named for the judges' keys, and those of their providers; no others leave."""
    named = {judge.api_key_env for judge in judges}
    named |= {name for judge in judges for name in variables(provider_of(judge.model, judge.params))}
    words = {judge.model.partition("/")[0].lower() for judge in judges}
    heads = tuple(head for word in words for head in _OTHER.get(word, (f"{word.upper()}_",)))
    return {name: value for name, value in os.environ.items() if name in named or name.startswith(heads)}
