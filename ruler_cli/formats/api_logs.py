"""Requests to models with their responses, as proxies, gateways and batch APIs write them.

LiteLLM, Helicone, Portkey, Claude Code's tracers. The bodies are those of OpenAI, Anthropic and Gemini, below
`body` or in place, or JSON text. Traps:
- The messages of a request may hold what another rollout said, so all of them are the prompt, unless the record
  names the session that it belongs to.
- A response that is JSON text beside a request that is none is a model's own text.
- The output of a batch has no request: its task stands in the input of the batch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    words,
)
from ruler_cli.formats.chat import make_rollout, read_or_error
from ruler_cli.formats.format import holds
from ruler_cli.formats.keys import hashed_key
from ruler_cli.formats.paths import Rollouts
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.messages.dialects import (
    comparable,
    each_at,
    messages_of,
    offered_tools,
    question_turns,
)
from ruler_cli.messages.endings import first_ending
from ruler_cli.types import Rollout

_BODIES = "request.body|request_body|request|body|input response.body|response_body|response|output"
_SESSIONS = words(
    "session_id sessionId trace_id traceId conversation_id thread_id metadata.session_id metadata.trace_id"
)
_ASKS = "messages[]|contents|input|prompt"
_ENDS = words(
    "choices.-1.finish_reason candidates.-1.finishReason stop_reason status incomplete_details.reason"
)
_STREAMED = ("data:", "event:")
_REPLIES = "choices[]|candidates[]|content[]|output[]"


def _bodies(record: JsonObject) -> tuple[JsonObject, Any]:
    """Return the bodies of a request, {} without one, and of its response; of two that are JSON text the values."""
    request, response = each_at(record, _BODIES)
    if is_text(request):
        request = json_value(request, text=True)
        response = json_value(response, text=True)
    return request if is_object(request) else {}, response


def _choices(record: JsonObject) -> list[Any]:
    """Return the choices in a response; [] if a record is not a request with its response, or one of a batch."""
    request, response = _bodies(record)
    is_asked = holds(request, _ASKS) if request else "custom_id" in record
    is_text_reply = bool(request) and is_text(response)
    is_reply = is_object(response) and holds(response, _REPLIES)
    if not is_asked or not (is_reply or is_text_reply):
        return []
    return items(lookup(response, "choices")) or [response]


def is_exchange(record: JsonObject) -> bool:
    """Return whether a record holds a request to a model and its response."""
    return bool(_choices(record)) and not is_sampled(record)


def is_sampled(record: JsonObject) -> bool:
    """Return whether a record holds a request for several answers, of which one may be left, and its response."""
    least = 0 if lookup(record, "ruler.rollouts") else 1
    return len(_choices(record)) > least


def read_exchange(record: JsonObject) -> Rollout:
    """Read a request to a model and its response.

    Records of one session are parts of one rollout if the agent's first turn in them is the same. Without such an
    id all of a request is the prompt, because another rollout may have begun the conversation.
    """
    rollout = _exchange(*_bodies(record))
    session = first_at(record, *_SESSIONS)
    if session is None:
        return rollout
    begin = first_agent_turn(rollout.messages)
    turns = map(comparable, rollout.messages[begin:])
    first_turn = first([t.text, t.called] for t in turns if t.text or t.called)
    member = hashed_key(str(session), first_turn)
    return replace(rollout, prompt_length=None, member=member)


def read_samples(record: JsonObject) -> Rollouts:
    """Read a request to a model, and each of the answers in its response."""
    request, _ = _bodies(record)
    return [
        read_or_error(
            (i,),
            _exchange,
            request,
            {"choices": [choice]},
        )
        for i, choice in enumerate(_choices(record))
    ]


def _exchange(
    request: JsonObject,
    response: Any,
) -> Rollout:
    """Read a request and an answer."""
    if str(response).startswith(_STREAMED):
        raise UnreadableError(
            "has a stream of events for a response; log it as one object"
        )
    answer = messages_of(response, "assistant")
    if answer is None or not all(
        turn.form.is_own for turn in map(comparable, answer)
    ):
        raise UnreadableError(
            "has no answer in its response, as after a failed call"
        )
    return make_rollout(
        question_turns(request),
        answer,
        tools=offered_tools(request) or None,
        ended=first_ending(_ENDS, partial(lookup, response)),
    )
