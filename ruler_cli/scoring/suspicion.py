"""Does a rollout's text speak to the judge? A flag for people to look at, never a penalty."""

from __future__ import annotations

import re

_HINTS = (
    "trajectory",
    "judge",
    "grader",
    "grading",
    "evaluator",
    "score",
    "instructions",
    "available_tools",
)
_PATTERNS = re.compile(
    r"trajectory_id"
    r"|</?\s*(?:trajectory|available_tools)\b"
    r"|\b(?:dear|hey|attention|note to(?: the)?)\s+(?:judge|grader|evaluator)"
    r"|\b(?:you are|as) (?:the|a|an) (?:judge|grader|evaluator)\b"
    r"|\b(?:ignore|disregard|forget)\s+(?:all |any |the |your )*(?:previous|prior|above|earlier)"
    r"[^.]{0,40}\binstructions?"
    r"|\b(?:score|rate|grade|give)\s+(?:this|me|it|us)\b[^.]{0,60}"
    r"(?:\b1\.0\b|\b10/10\b|\b100\s?%|\bfull (?:marks|score)"
    r"|\b(?:highest|maximum|perfect|top) (?:score|marks|reward))"
    r"|[\"\\]+scores[\"\\]+\s*:\s*\[",
)


def suspect(body: str) -> bool:
    """Whether rendered text addresses a judge or carries the answer's own form."""
    low = body.lower()
    return any(hint in low for hint in _HINTS) and _PATTERNS.search(low) is not None
