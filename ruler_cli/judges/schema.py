"""The JSON schema of an answer with a list of entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

EXPLANATION = 300
"""Characters of an explanation, if the form can bound them: one or two sentences."""
_NUMBER = {"type": "number"}
_STRING = {"type": "string"}


def exactly(members: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def list_schema(
    size: int = 0,
    criteria: Iterable[str] = (),
) -> dict[str, Any]:
    """The schema of an answer with a list of entries, `size` of them if that is not 0.

    An entry has a score, or a value for each of the `criteria`. Without both it is the same for every group, so that
    providers compile it once.
    """
    values = dict.fromkeys(criteria, _NUMBER)
    answer = {"criteria": exactly(values)} if values else {"score": _NUMBER}
    entry = {"trajectory_id": _STRING, "explanation": _STRING, **answer}
    scores: dict[str, Any] = {"type": "array", "items": exactly(entry)}
    if size:
        scores |= {"minItems": size, "maxItems": size}
    return exactly({"scores": scores})
