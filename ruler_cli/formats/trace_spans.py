"""Spans of a tracer → their kind (a model call, a tool, another), place, time, input and output.

Dialects differ in names, so they are rows of tables: OTLP (`spanId`, attributes as a list of keys and
values), OpenTelemetry's own JSON (`context.span_id`), Phoenix (`span_kind`, attributes flat, nested or as
columns), Langfuse's observations (`parentObservationId`), LangSmith's runs (`parent_run_id`, `child_runs`),
OpenAI's agents (`span_data`). Traps:
- Attributes with an index (`gen_ai.prompt.10.role`) come in any order; an index may be huge.
- JSON text is decoded only if its writer always writes JSON there, or says so: else a model's answer that is
  JSON would become messages, in its own call or in the next one's prompt.
- OpenTelemetry's first convention wrote messages as events of the span; Strands, which still does, as JSON of parts.
- LiteLLM's log has a call a line; its calls of other models than those that answer in words are left out.
- OpenLLMetry writes thoughts of the Responses API as JSON text, and ids of results that no call has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    Names,
    first,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
    words,
)

_IDS = words("spanId span_id context.span_id id run_id")
_PARENTS = words(
    "parentSpanId parent_span_id parentObservationId parent_run_id parent_id parent.span_id "
    "parent_observation_id"
)
_STARTS = words(
    "startTimeUnixNano start_time_unix_nano start_time startTime started_at dotted_order"
)
_KINDS = words(
    "openinference.span.kind gen_ai.operation.name langfuse.observation.type traceloop.span.kind llm.request.type"
)
_OWN_KINDS = words("run_type span_kind type kind call_type")
_CALLS = words(
    "llm chat chat_model generation generate_content text_completion completion response acompletion atext_completion "
    "responses aresponses anthropic_messages agenerate_content"
)
_OTHER_CALLS = r"_?a?(embedding|image|speech|transcription|moderation|rerank|search|ocr|vector|file|batch)"
"""Pattern of LiteLLM's calls that are no model's turn."""
_TOOLS = words("tool execute_tool function tool_call")
_CALL_MARKS = words(
    "llm.input_messages gen_ai.prompt gen_ai.completion gen_ai.input.messages gen_ai.output.messages"
)
"""Attributes that only a call of a model has, and what holds calls."""
_INPUTS = words(
    "gen_ai.input.messages llm.input_messages gen_ai.prompt langfuse.observation.input input.value"
)
_OUTPUTS = words(
    "gen_ai.output.messages llm.output_messages gen_ai.completion langfuse.observation.output output.value "
    "gen_ai.output"
)
_SYSTEM = "gen_ai.system_instructions"
_SYSTEMS = words("response.instructions model_parameters.instructions")
_TEXTS = words("gen_ai.prompt gen_ai.output input.value output.value")
"""Inputs and outputs that are text, even if it looks like JSON, unless a media type beside them says that they are
JSON; the others are JSON."""
_ARGUMENTS = words(
    "gen_ai.tool.call.arguments gen_ai.tool.args tool.arguments input.value tool.parameters"
)
_RESULTS = words(
    "gen_ai.tool.call.result tool.result output.value gen_ai.output"
)
_ERRORS = words("error status.message status_message statusMessage")
_NAMES = words("gen_ai.tool.name tool.name")
_TITLES = words("name span_name")
_TOOL_LISTS = words("gen_ai.tool.definitions llm.tools")
_OWN_TOOLS = words("extra.invocation_params.tools model_parameters.tools")
_OWN_INPUTS = words("inputs input input_text messages trace.input")
_OWN_OUTPUTS = words("outputs output output_text response trace.output")
_EVENT_ROLES = words("system user tool assistant choice")


@dataclass(slots=True, eq=False)
class Span:
    """One span: `kind` is `call` (of a model), `tool` or `other`, `name` that of its tool."""

    kind: str
    name: str
    identity: str | None
    parent: str | None
    input: Any
    output: Any
    tools: Any
    raw: JsonObject


def spans_of(listed: Any) -> list[Span]:
    """The spans of a list, and those inside them, by their start times if all have comparable ones."""
    spans = []
    raws = objects(listed)
    for raw in raws:
        raws += objects(raw.get("child_runs"))
        # an agent's trace beside its spans, and calls of other models in LiteLLM's log, are none
        is_call = not re.match(_OTHER_CALLS, str(raw.get("call_type")))
        if is_call and raw.get("object") != "trace":
            spans.append(_span(raw))
    # dates sort as the texts that they are, and so do nanoseconds
    try:
        return sorted(spans, key=lambda span: first_at(span.raw, *_STARTS))
    except TypeError:
        return spans


def _span(raw: JsonObject) -> Span:
    raw = {**(raw.get("span_data") or {}), **raw}
    if "run_type" in raw:  # LangSmith's tables write objects as JSON text
        raw = {name: decoded(value) for name, value in raw.items()}
    attributes = {**_event_messages(raw), **_attributes(raw)}
    kind = _kind(raw, attributes)
    is_tool = kind == "tool"
    asked = _ARGUMENTS if is_tool else _INPUTS
    answered = _RESULTS if is_tool else _OUTPUTS
    inputs, outputs = values_of(raw)
    inputs = inputs or _value(attributes, asked)
    if outputs in (None, ""):
        outputs = _value(attributes, answered)
    if is_tool and outputs is None:
        outputs = first_at(raw, *_ERRORS) or None
    # a request and a response of the API, whatever kind it claims
    if lookup(inputs, "messages") and lookup(outputs, "choices"):
        kind = "call"
    _mend(inputs)
    _mend(outputs)
    system = decoded(attributes.get(_SYSTEM)) or first_at(raw, *_SYSTEMS)
    if inputs is not None and system:
        inputs = {"system": system, "messages": inputs}
    schemas = []
    for declared in items(decoded(first_at(attributes, *_TOOL_LISTS))):
        schema = lookup(declared, "tool.json_schema")  # OpenInference
        schemas.append(decoded(schema) or declared)
    return Span(
        kind,
        str(first_at(attributes, *_NAMES) or first_at(raw, *_TITLES)),
        first_at(raw, *_IDS),
        first_at(raw, *_PARENTS),
        inputs,
        outputs,
        first_at(raw, *_OWN_TOOLS) or schemas,
        raw,
    )


def values_of(holder: JsonObject) -> tuple[Any, Any]:
    """Return the input and the output of a span or a trace; of two that are JSON text the values (Langfuse's API)."""
    text = first_at(holder, *_OWN_INPUTS)
    asked = decoded(text)
    answer = first_at(holder, *_OWN_OUTPUTS)
    # else a text in the output is the model's, even if it reads as JSON
    return asked, answer if asked is text else decoded(answer)


def _kind(
    raw: JsonObject,
    attributes: JsonObject,
) -> str:
    stated = [lookup(attributes, name) for name in _KINDS]
    for value in [*stated, *map(raw.get, _OWN_KINDS)]:
        kind = str(value).lower()
        if kind in _CALLS:
            return "call"
        if kind in _TOOLS:
            return "tool"
    # of another kind, it may hold messages of the calls inside it
    is_call = not any(stated) and first_at(attributes, *_CALL_MARKS)
    return "call" if is_call else "other"


def _value(
    attributes: JsonObject,
    names: Names,
) -> Any:
    """The first of these attributes that is not empty; JSON text is decoded unless it may be plain text."""
    for name in names:
        value = lookup(attributes, name)
        mime = lookup(attributes, f"{name.removesuffix('value')}mime_type")
        is_json = name not in _TEXTS or "json" in str(mime)
        # what tools get and return is text
        if is_json and names in (_INPUTS, _OUTPUTS):
            value = decoded(value)
        if value not in EMPTY:
            return value
    return None


def _mend(turns: Any) -> None:
    """Read thoughts that OpenLLMetry wrote as JSON text, and name results, whose ids there may be of no call."""
    called = list[Any]()
    for turn in objects(turns):
        for part in objects(turn.get("parts")):
            if part.get("type") == "reasoning":
                part["content"] = decoded(part.get("content"))
            elif "response" in part and called:
                part.setdefault("name", called.pop(0))
            elif "arguments" in part:
                called.append(part.get("name"))


def _event_messages(raw: JsonObject) -> dict[str, Any]:
    """The attributes of a span's events, and those of them that are messages as attributes."""
    attributes: dict[str, Any] = {}
    for event in objects(raw.get("events")):
        body = _attributes(event)
        attributes |= body
        kind = str(event.get("name"))
        kind = kind.removeprefix("gen_ai.").removesuffix(".message")
        if kind not in _EVENT_ROLES:
            continue
        content = decoded(body.get("message") or body.get("content"))
        side = _INPUTS[0]
        if kind == "choice":
            side = _OUTPUTS[0]
            kind = "assistant"
        message = {**body, "content": content, "role": kind}
        attributes.setdefault(side, []).append(message)
    return attributes


def _attributes(raw: JsonObject) -> dict[str, Any]:
    """A span's attributes by name, from any of the members that hold them; flat messages as lists."""
    attributes = decoded(raw.get("attributes")) or {}
    if is_list(attributes):
        attributes = _pairs(attributes)
    columns = {}
    for key, value in raw.items():
        if key.startswith("attributes."):
            columns[key[11:]] = value
    stated = {}
    # a table has the keys of all its spans in each
    for key, value in {**attributes, **columns}.items():
        if value is not None:
            stated[key] = value
    return {**_unflat(stated), **stated}


def _unflat(flat: JsonObject) -> Any:
    """Flat names as objects and lists; an index only gives an item's order."""
    inside: dict[str, Any] = {}
    for name, value in flat.items():
        head, _, rest = name.partition(".")
        inside.setdefault(head, {})[rest] = value
    values = {}
    for head, inner in inside.items():
        values[head] = inner[""] if "" in inner else _unflat(inner)
    if values and all(map(str.isdecimal, values)):
        return [values[index] for index in sorted(values, key=int)]
    return values


def decoded(value: Any) -> Any:
    """The value of JSON text that holds an object, a list or a text; another value as it is."""
    if is_text(value) and value.lstrip().startswith(("{", "[", '"')):
        return json_value(value, text=True)
    return value


def _pairs(listed: Any) -> dict[str, Any]:
    """The members of an object that OTLP writes as a list of keys and values."""
    return {
        str(pair.get("key")): _any_value(pair.get("value"))
        for pair in objects(listed)
    }


def _any_value(value: Any) -> Any:
    """The value in OTLP's AnyValue; a text, a number or null as it is."""
    inner = first(value.values()) if is_object(value) else value
    if not is_object(inner):
        return inner
    listed = items(inner.get("values"))
    if lookup(listed, "0.key"):
        return _pairs(listed)
    return [*map(_any_value, listed)]
