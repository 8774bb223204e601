"""Scored groups as `ruler score` writes them, and groups whose text is hostile."""

from __future__ import annotations

from typing import Any

from tests.attacks import FAMILIES
from tests.conftest import rollout

HOSTILE = (
    "[bold]x[/bold]", "[/red]", ":smile:", "\x1b[31mred\x1b[0m\x07\x1b]0;title\x07", "\u202egnp.exe\u2066",
    "\ud800 lone", "a\x00b", "\r\nrollout 9: score 1.00", "tab\tand\x0bmore", "日本語" * 40,
    "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 30, "\u2714\ufe0f" * 90, "\U0001f1e9\U0001f1ea" * 50,
    "e\u0301" * 100, "\u200b\u200d\ufeff", "x" * 5000, "", " ", "$'a'", "it's", "-o", "\x85\u2028",
)  # fmt: skip
"""Texts that a rollout or a key may hold."""


def scored(
    name: str, *scores: float | None, labels: tuple[Any, ...] = (), **own: Any
) -> dict[str, Any]:
    """A group with these scores; a rollout without a score failed."""
    trajectories = []
    for i, score in enumerate(scores):
        label = labels[i] if labels else None
        annotation: dict[str, Any] = {"independent_reward": label, "judge": "m"}
        if score is None:
            annotation |= {
                "status": "failed",
                "kind": "reply",
                "reason": "the reply was cut short",
            }
        else:
            annotation |= {
                "status": "scored",
                "score": score,
                "explanation": f"about {score}",
            }
        trajectories.append(
            {
                **rollout(0.5, f"{name}-{i}"),
                "reward": score,
                "ruler": annotation,
            }
        )
    status = "scored" if any(s is not None for s in scores) else "failed"
    lost = (
        {"kind": "reply", "reason": "the reply was cut short"}
        if status == "failed"
        else {}
    )
    return {
        "group_id": name,
        "trajectories": trajectories,
        "ruler": {"status": status, **lost, **own},
    }


def hostile() -> list[dict[str, Any]]:
    """Every attack as a key, a task, a message, a tool's name and its result, an explanation and a reason."""
    texts = [
        *HOSTILE,
        *(
            a.text
            for family in FAMILIES.values()
            for a in family
            if len(a.text) < 3000
        ),
    ]
    return [_hostile(text, number) for number, text in enumerate(texts)]


def _hostile(text: str, number: int) -> dict[str, Any]:
    group = scored(
        text, 0.9, 0.2, labels=(0, 1), judge=text, kind=text, reason=text
    )
    one, other = group["trajectories"]
    call = {"id": "1", "function": {"name": text, "arguments": text}}
    one["messages"] = [
        {"role": "user", "content": f"Task: {text}"},
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": text},
        {
            "role": text,
            "content": {text: text, "more": [text, {text: f"two\n{text}"}]},
        },
    ]
    one["ruler"] |= {"explanation": text, "judges": {text: 0.5, "other": 0.1}}
    other["messages"] = [
        one["messages"][0],
        {"role": "assistant", "content": "honest"},
    ]
    other["tools"] = [{"name": text, "description": f"one\n{text}"}]
    if number % 3 == 2:
        other["ruler"] = {"status": "failed", "kind": text, "reason": text}
    return {**group, "rubric": text}
