"""The APIs of decision models, System One and OpenAI's Decisions: a POST holds a text and typed questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.settings.keys import snake_case
from ruler_cli.settings.parameters import body_of
from ruler_cli.types import (
    CallError,
    Request,
    words_of,
)

_OF_TEXT = words_of("""
temperature top_p max_tokens max_completion_tokens max_output_tokens response_format reasoning_effort reasoning
service_tier logprobs top_logprobs stream stream_options n stop tools tool_choice
""")
"""Parameters of judges that write."""


def systemone_body(request: Request) -> dict[str, Any]:
    """Return the body of a request to System One, without any field that some server refuses."""
    questions = {}
    for question in request.questions:
        asked: dict[str, Any] = {"type": "noul", "instructions": question.text}
        if question.levels:
            asked |= {"type": "score", "criteria": [*question.levels]}
        questions[question.name] = asked
    return {"state": request.state, "questions": questions}


def decisions_body(request: Request) -> dict[str, Any]:
    """Return the body of a request to OpenAI's Decisions."""
    questions = []
    for question in request.questions:
        asked: dict[str, Any] = {
            "type": "predicate",
            "name": question.name,
            "instructions": question.text,
        }
        if question.levels:
            levels = [{"label": level} for level in question.levels]
            asked |= {"type": "score", "levels": levels}
        questions.append(asked)
    return {"input": request.state, "questions": questions}


class Route(NamedTuple):
    """The path of an endpoint, and the function that writes the body of its requests."""

    path: str
    write: Callable[[Request], dict[str, Any]]

    def body(
        self,
        model: str,
        params: Mapping[str, Any],
        request: Request,
    ) -> bytes:
        """Return the JSON body of a call; the user's parameters replace all others."""
        return orjson.dumps({"model": model, **self.write(request), **params})


ROUTES = {
    "systemone": Route("systemone", systemone_body),
    "decisions": Route("decisions", decisions_body),
    "perplexity": Route("decisions", systemone_body),
}
"""The way to ask by the API, or by the provider with a way of its own."""


def refuse_parameters(params: Mapping[str, Any]) -> None:
    """Raise UsageError for a parameter of judges that write."""
    for name in body_of(params):
        if snake_case(name) in _OF_TEXT:
            problem = "has no meaning: a decision model writes nothing"
            raise UsageError(problem, "leave it out", place=f"-p {name}")


def unshown(request: Request) -> CallError | None:
    """Return the error of a request with pictures."""
    if not request.pictures:
        return None
    reason = "decision models are sent no pictures; use --pictures leave"
    return CallError(
        "input",
        reason,
        "group",
        sent=False,
        billed=False,
        kept=False,
    )
