"""Spans of any tracer → their kind (a model call, a tool, another), place, time, input and output.

Dialects differ in names, so they are rows of tables: OTLP (`spanId`, attributes as a list of keys and
values), OpenTelemetry's own JSON (`context.span_id`), Jaeger (`spanID`, `tags`), Phoenix (`span_kind`,
attributes flat, nested or as columns), AgentOps (`span_attributes`), Langfuse's observations
(`parentObservationId`), LangSmith's runs (`parent_run_id`, `child_runs`), MLflow (`mlflow.spanInputs`), Weave
(`op_name`), OpenAI's agents (`span_data`). Traps:
- Attributes with an index (`gen_ai.prompt.10.role`) come in any order; an index may be huge.
- JSON text is decoded only if its writer always writes JSON there, or says so: else a model's answer that is
  JSON would become messages, in its own call or in the next one's prompt.
- OpenTelemetry's first convention wrote messages as events of the span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ruler_cli.formats.fields import items, json_value, lookup, objects

_IDS = ("spanId", "span_id", "spanID", "context.span_id", "id", "run_id")
_PARENTS = (
    "parentSpanId", "parent_span_id", "parentObservationId", "parent_run_id", "parent_id", "parent.span_id",
    "parent_observation_id", "references.0.spanID",
)  # fmt: skip
_STARTS = (
    "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "started_at", "dotted_order",
)  # fmt: skip
_KINDS = (
    "openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind", "mlflow.spanType",
    "langfuse.observation.type", "lmnr.span.type", "llm.request.type", "operation.name",
)  # fmt: skip
_OWN_KINDS = ("run_type", "span_kind", "span_type", "type", "kind")
_CALLS = frozenset((
    "llm", "chat", "chat_model", "generation", "generate_content", "text_completion", "completion",
    "call_llm", "response", "chat_completion", "ai.generatetext.dogenerate", "ai.streamtext.dostream",
))  # fmt: skip
_TOOLS = frozenset(("tool", "execute_tool", "function", "tool_call", "ai.toolcall"))
_AGENTS = frozenset(("agent", "invoke_agent", "chain", "workflow", "span", "task"))
_INPUTS = (
    "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "gcp.vertex.agent.llm_request",
    "ai.prompt.messages", "mlflow.spanInputs", "traceloop.entity.input", "langfuse.observation.input",
    "input.value", "ai.prompt",
)  # fmt: skip
_OUTPUTS = (
    "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "gcp.vertex.agent.llm_response",
    "mlflow.spanOutputs", "traceloop.entity.output", "langfuse.observation.output", "output.value",
    "gen_ai.output", "ai.response.text",
)  # fmt: skip
_TEXTS = ("gen_ai.prompt", "gen_ai.output", "ai.response.text")
"""Inputs and outputs of a model that are text, even if it looks like JSON; the others are JSON."""
_MIMES = {"input.value": "input.mime_type", "output.value": "output.mime_type"}
"""Inputs and outputs of which the writer tells the media type, and where."""
_ARGUMENTS = (
    "gen_ai.tool.call.arguments", "gen_ai.tool.args", "gcp.vertex.agent.tool_call_args", "ai.toolCall.args",
    "tool.arguments", "input.value", "traceloop.entity.input", "mlflow.spanInputs", "tool.parameters",
)  # fmt: skip
_RESULTS = (
    "gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "ai.toolCall.result", "tool.result",
    "output.value", "traceloop.entity.output", "mlflow.spanOutputs", "gen_ai.output",
)  # fmt: skip
_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_TITLES = ("name", "operationName", "op_name", "span_name")
_TOOL_LISTS = (
    "gen_ai.tool.definitions",
    "llm.tools",
    "llm.request.functions",
    "ai.prompt.tools",
)
_OWN_INPUTS = ("inputs", "input", "input_text")
_OWN_OUTPUTS = ("outputs", "output", "output_text")
_EVENTS = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.tool.message": "tool",
    "gen_ai.assistant.message": "assistant", "gen_ai.choice": "choice",
}  # fmt: skip
_NESTED = 100
"""Levels of spans inside spans that are read."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span: `kind` is `call` (of a model), `tool` or `other`; `start` sorts as text or number."""

    kind: str
    name: str
    identity: str | None
    parent: str | None
    start: Any
    input: Any
    output: Any
    tools: Any
    raw: Mapping[str, Any]


def spans_of(listed: Any) -> list[Span]:
    """The spans of a list, and those inside them, by their start times if all have comparable ones."""
    spans = [_span(raw, parent) for raw, parent in _flat(listed)]
    kinds = {type(span.start) for span in spans}
    alike = kinds in ({str}, {int}, {float}, {int, float})
    return sorted(spans, key=lambda span: span.start) if alike else spans


def _span(raw: Mapping[str, Any], parent: str | None) -> Span:
    if isinstance(raw.get("span_data"), Mapping):
        raw = {**raw["span_data"], **raw}
    attributes = _attributes(raw)
    kind = _kind(raw, attributes)
    tool = kind == "tool"
    inputs, outputs = _first(raw, _OWN_INPUTS), _first(raw, _OWN_OUTPUTS)
    if "run_type" in raw:  # LangSmith's tables write objects as JSON text
        inputs, outputs = decoded(inputs), decoded(outputs)
    inputs = (
        _value(attributes, _ARGUMENTS if tool else _INPUTS, text=tool)
        if inputs is None
        else inputs
    )
    outputs = (
        _value(attributes, _RESULTS if tool else _OUTPUTS, text=tool)
        if outputs is None
        else outputs
    )
    exchange = (
        items(lookup(inputs, "messages"))
        and isinstance(outputs, Mapping)
        and "choices" in outputs
    )
    if kind == "other" and exchange:
        kind = "call"
    if kind == "call" and (inputs is None or outputs is None):
        asked, answered = _event_messages(raw, attributes)
        inputs, outputs = (
            asked if inputs is None else inputs,
            answered if outputs is None else outputs,
        )
    if inputs is not None and (
        system := decoded(attributes.get("gen_ai.system_instructions"))
    ):
        inputs = {"system": system, "messages": inputs}
    name = next(
        (n for key in _NAMES if tool and isinstance(n := _find(attributes, key), str)),
        None,
    )
    tools = next(
        (decoded(value) for key in _TOOL_LISTS if (value := attributes.get(key))), None
    )
    return Span(
        kind=kind,
        name=str(name or _first(raw, _TITLES)),
        identity=_first_text(raw, _IDS),
        parent=_first_text(raw, _PARENTS) or parent,
        start=_time(_first(raw, _STARTS)),
        input=inputs,
        output=outputs,
        tools=tools
        if tools is not None
        else lookup(raw, "extra.invocation_params.tools"),
        raw=raw,
    )


def _kind(raw: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    stated = [_find(attributes, key) for key in _KINDS] + [
        raw.get(key) for key in _OWN_KINDS
    ]
    kinds = [str(value).lower() for value in stated if isinstance(value, str)]
    for kind in kinds:
        if kind in _CALLS or kind in _TOOLS:
            return "call" if kind in _CALLS else "tool"
    if any(
        _find(attributes, key)
        for key in ("llm.input_messages", "gen_ai.prompt", "gen_ai.completion")
    ):
        return "call"
    if any(isinstance(_find(attributes, key), str) for key in _NAMES[:3]):
        return "tool"
    messages = any(
        attributes.get(key)
        for key in ("gen_ai.input.messages", "gen_ai.output.messages")
    )
    return "call" if messages and not _AGENTS.intersection(kinds) else "other"


def _value(
    attributes: Mapping[str, Any], names: tuple[str, ...], *, text: bool = False
) -> Any:
    """The first of these attributes that is not empty; JSON text is decoded unless it may be plain text."""
    for name in names:
        value = _find(attributes, name)
        if value not in (None, "", [], {}):
            mime = _find(attributes, _MIMES[name]) if name in _MIMES else "json"
            plain = (
                text
                or name in _TEXTS
                or not isinstance(mime, str)
                or "json" not in mime
            )
            return value if plain else decoded(value)
    return None


def _event_messages(
    raw: Mapping[str, Any], attributes: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The input and output in events, of the span or in an attribute `events` (Logfire)."""
    asked: list[Any] = []
    answered: list[Any] = []
    for event in objects(
        [*items(raw.get("events")), *items(decoded(attributes.get("events")))]
    ):
        body = _attributes(event) or event
        role = _EVENTS.get(
            str(event.get("name") or event.get("event.name") or body.get("event.name"))
        )
        both = _value(body, _INPUTS[:1]), _value(body, _OUTPUTS[:1])
        if any(both):
            return both
        if role == "choice":
            message = decoded(body.get("message"))
            answered.append(
                {
                    "role": "assistant",
                    **(message if isinstance(message, Mapping) else body),
                }
            )
        elif role is not None:
            calls = decoded(body.get("tool_calls"))
            asked.append(
                {
                    "content": None,
                    **body,
                    "role": role,
                    **({"tool_calls": calls} if calls else {}),
                }
            )
    return asked or None, answered or None


def _flat(
    listed: Any, parent: str | None = None, depth: int = 0
) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Spans and those inside them, each with the id of the one around it."""
    for raw in objects(listed):
        yield raw, parent
        for key in ("child_runs", "child_spans", "children"):
            if depth < _NESTED:
                yield from _flat(raw.get(key), _first_text(raw, _IDS), depth + 1)


def _first(raw: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next(
        (value for name in names if (value := lookup(raw, name)) not in (None, "")),
        None,
    )


def _first_text(raw: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return None if (value := _first(raw, names)) is None else str(value)


def _time(value: Any) -> Any:
    """A time that sorts: nanoseconds as a number, a date as its text."""
    if isinstance(value, str):
        return (
            int(value)
            if value.isascii() and value.isdecimal() and len(value) < 30
            else value
        )
    return (
        value
        if isinstance(value, int | float) and not isinstance(value, bool)
        else None
    )


_FLAT = (
    "llm.input_messages.", "llm.output_messages.", "gen_ai.prompt.", "gen_ai.completion.", "llm.tools.",
    "llm.request.functions.",
)  # fmt: skip
_DEEP = 12
"""Parts of a flat name, and levels of OTLP's values, that are read."""


def _attributes(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A span's attributes by name, from any of the members that hold them; flat messages as lists."""
    holders = ("attributes", "span_attributes", "tags")
    named = decoded(next((raw[key] for key in holders if raw.get(key)), None))
    if isinstance(named, list):
        named = {
            str(pair.get("key")): _any_value(pair.get("value"))
            for pair in objects(named)
        }
    own = {
        key[11:]: value for key, value in raw.items() if key.startswith("attributes.")
    }
    attributes = {**named, **own} if isinstance(named, Mapping) else own
    grouped: dict[str, list[tuple[str, Any]]] = {}
    for key, value in attributes.items():
        if key.startswith(_FLAT):
            head = next(name for name in _FLAT if key.startswith(name))
            grouped.setdefault(head[:-1], []).append((key.removeprefix(head), value))
    return {**{head: _unflat(pairs) for head, pairs in grouped.items()}, **attributes}


def _find(attributes: Mapping[str, Any], name: str) -> Any:
    """The value of an attribute, flat or nested; None if there is none."""
    value = attributes.get(name)
    return lookup(attributes, name) if value is None else value


def _unflat(pairs: list[tuple[str, Any]]) -> Any:
    """Flat names as objects and lists; an index only gives an item's order."""
    root: dict[str, Any] = {}
    for name, value in pairs:
        at, parts = root, name.split(".", _DEEP)
        for part in parts[:-1]:
            inner = at.setdefault(part, {})
            at = inner if isinstance(inner, dict) else {}
        at.setdefault(parts[-1], value)
    return _listed(root)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(
        key.isascii() and key.isdecimal() and len(key) < 10 for key in value
    ):
        return [
            _listed(value[key])
            for key in sorted(value, key=lambda key: (int(key), key))
        ]
    return {key: _listed(inner) for key, inner in value.items()}


def decoded(value: Any) -> Any:
    """The value of JSON text that holds an object, a list or a text; another value as it is."""
    looks = isinstance(value, str) and value.lstrip().startswith(("{", "[", '"'))
    return json_value(value, text=True) if looks else value


def _any_value(value: Any, depth: int = 0) -> Any:
    """The value in OTLP's AnyValue; other values, as Jaeger's tags have them, as they are."""
    if not isinstance(value, Mapping) or depth > _DEEP:
        return value
    for key, inner in value.items():
        kind = key.replace("_", "").lower()
        if kind in ("stringvalue", "boolvalue", "doublevalue", "intvalue"):
            return inner
        if kind == "arrayvalue":
            return [_any_value(item, depth + 1) for item in items(inner.get("values"))]
        if kind == "kvlistvalue":
            pairs = objects(inner.get("values"))
            return {
                str(pair.get("key")): _any_value(pair.get("value"), depth + 1)
                for pair in pairs
            }
    return value
