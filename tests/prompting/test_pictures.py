"""Pictures in the prompts of a group: what is shared, their places, windows, questions, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ruler_cli.prompting.prompt import (
    build_layout,
    requests_of_pass,
    why_unaskable,
    write_prompt,
)
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, Request
from tests.picture_judge import part, png
from tests.values import first_request, group

ASK = AskSettings(judge_model="openai/gpt-4o")


def seen(*scores: float, text: str = "See.") -> list[dict[str, Any]]:
    """Return a task with a picture for all, and an agent that sees these."""
    return [
        {
            "role": "user",
            "content": [part(0.0), {"type": "text", "text": "Go."}],
        },
        {"role": "assistant", "content": "I look."},
        {"role": "user", "content": [*map(part, scores)]},
        {"role": "assistant", "content": text},
    ]


def around(request: Request) -> list[str]:
    """Return the last line before each picture of a request, and the first behind it."""
    text = request.user
    return [
        "|".join(
            (text[:place].split("\n")[-1], text[place + 1 :].split("\n")[0])
        )
        for place, _ in request.pictures
    ]


def request_of(own: Group, ask: AskSettings = ASK) -> Request:
    """Return the first request about a group."""
    return first_request(build_layout(own, ask), ask)


def test_places() -> None:
    """A shared picture stands in the context once, every other right behind its own line, numbered through."""
    request = request_of(group(seen(0.1), seen(0.2, 0.3)))
    begins = sorted(around(request))
    assert begins == [
        '(picture 1)|assistant: "I look."',
        '(picture 2)|(picture 3)',
        '(picture 2)|assistant: "See."',
        '(picture 3)|assistant: "See."',
    ]  # fmt: skip
    assert request.pictures[0][1].data == png(0.0)
    assert request.user.index("<context>") < request.pictures[0][0]


def test_windows() -> None:
    """Pictures count for the context of a judge: a group that exceeds it is shown in windows, each with its own."""
    own = group(*[seen(n / 100, (n + 1) / 100, text=str(n)) for n in range(8)])
    ask = replace(ASK, context_tokens=2800)
    layout = build_layout(own, ask)
    parts = requests_of_pass(layout, ask, 0)
    assert len(parts) > 1
    for each in parts:
        request = write_prompt(layout, ask, each)
        assert len(request.pictures) == 1 + 2 * len(each.distinct)
    tiny = replace(ASK, context_tokens=700)
    assert requests_of_pass(build_layout(own, tiny), tiny, 0) == []
    assert why_unaskable(own, build_layout(own, tiny), tiny).kind == "too_long"
