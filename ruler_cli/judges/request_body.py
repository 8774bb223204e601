"""Request → a chat completions call: its body, the form and the tokens of its answer, the steps down."""

from __future__ import annotations

import asyncio
import itertools
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from ruler_cli.answer import EXPLANATION, keyed, list_schema
from ruler_cli.config import JudgeSettings
from ruler_cli.judges.pricing import PricedModel, known
from ruler_cli.judges.provider_errors import Refusal, classify, refuses_format
from ruler_cli.types import CallError, Judge, Reply, Request

Form = Literal["keyed", "sized", "list", "json", "text"]
_OWN_ENGINES = ("hosted_vllm", "vllm", "sglang", "ollama", "ollama_chat", "lm_studio")
_OWN_HOSTS = (".local", ".internal", ".lan", ".svc", ".home", ".intranet")
_SIZED = ("openai", "azure", "gemini", "vertex_ai")
"""Providers that know `minItems` and `maxItems`; Anthropic refuses them."""
_LISTS: tuple[Form, ...] = ("list", "json", "text")
_NAMES = ("max_completion_tokens", "max_tokens")
_ANSWER, _PER_ROLLOUT = 256, 320
"""Tokens of an answer, and of each rollout in it: the longest explanation, at a token a letter."""
_THOUGHT = {
    "none": 0,
    "disable": 0,
    "minimal": 4096,
    "low": 4096,
    "medium": 8192,
    "high": 32_768,
    "xhigh": 65_536,
}
"""Tokens for thought, by the effort that is asked for."""
_MEDIUM, _MOST_THOUGHT = 8192, 65_536
_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens|max_new_tokens|maxOutputTokens")


@dataclass(frozen=True, slots=True)
class Answering:
    """The answers that one endpoint and model is asked for: their form and their length.

    `forms` are those still to be tried, the first one is asked for. `limit` names the parameter that
    bounds an answer ("": the endpoint takes none), `thought` is the tokens for what the judge thinks
    before it, `most` those that the model can write at all. `fixed`: the user's own `response_format`
    stands.
    """

    forms: tuple[Form, ...] = _LISTS
    limit: str = "max_tokens"
    thought: int = 0
    most: int | None = None
    fixed: bool = False

    def room(self, request: Request, params: Mapping[str, Any]) -> int | None:
        """The tokens that an answer may take; the user's own number is never passed."""
        own = stated_limit(params)
        if own is None and limit_name(params):
            return None  # what the user gave goes as it is, `null` among it
        usual = _ANSWER + _PER_ROLLOUT * len(request.labels) + self.thought if self.limit else None
        room = max(filter(None, (request.max_output_tokens, usual)), default=None)
        if request.max_output_tokens and request.fitted:
            room = request.max_output_tokens
        if own is not None:
            return own if request.max_output_tokens is None or room is None else min(room, own)
        if not self.limit or room is None:
            return None
        return room if self.most is None else min(room, self.most)

    def refused(self, sent: Answering, status: int, message: str) -> Answering | None:
        """The next to try after a refusal of what was `sent`; None where the refusal is of something else."""
        if refuses_format(status, message):
            if sent.fixed or len(sent.forms) == 1:
                return None
            return self if self.forms != sent.forms else replace(self, forms=self.forms[1:])
        if status not in (400, 422) or not sent.limit or not (named := _LIMIT.findall(message)):
            return None
        if self.limit != sent.limit:
            return self
        other = next((name for name in _NAMES if name != sent.limit and name in named), "")
        return replace(self, limit=other if sent.limit == _NAMES[1] else "")

    def learnt(self, reply: Reply) -> Answering:
        """With more room for thought, where an answer was cut off by it."""
        if not (reply.truncated and reply.thought):
            return self
        thought = min(_MOST_THOUGHT, max(_MEDIUM, 2 * reply.usage.completion))
        return self if thought <= self.thought else replace(self, thought=thought)


@dataclass(slots=True)
class ChatJudge(Judge):
    """A judge behind chat completions; `answering` is what it is asked for, as far as learnt."""

    name: str = field()  # a dataclass takes the property of the base for a default
    model: str
    base: str | None
    key: str | None = field(repr=False)
    timeout: float
    params: Mapping[str, Any]
    answering: Answering
    secret: str | None = field(init=False, repr=False)
    """The key that is cut out of all that is told or kept."""

    def __post_init__(self) -> None:
        self.secret = self.key

    async def ask(self, request: Request) -> Reply | CallError:
        """Post once; once more for each form or limit of the answer that is refused.

        The deadline is one for all of it, from the connection to the last byte.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self._ask(request)
        except TimeoutError:
            return CallError("transport", f"the judge did not answer within {self.timeout:g} s", "call")

    async def _ask(self, request: Request) -> Reply | CallError:
        for posts in itertools.count(1):
            asked = self.answering
            answer = await self._post(request, asked)
            if isinstance(answer, Refusal):
                status, signs, message, headers, form = answer
                fault = classify(status, signs, message, headers, self.secret)
                better = self.answering.refused(asked, status or 400, form or message)
                if fault.context is None and better:
                    self.answering = better
                    continue
                answer = fault
            elif isinstance(answer, Reply):
                self.answering = self.answering.learnt(answer)
            return replace(answer, http_requests=posts) if posts > 1 else answer
        raise AssertionError("a count without end")

    @abstractmethod
    async def _post(self, request: Request, how: Answering) -> Reply | CallError | Refusal:
        """Send one request; a Refusal may be of the form or the limit that it asks for."""


def answering(judge: JudgeSettings, base: str | None) -> Answering:
    """The answers to ask for at first; `base` is an endpoint that is asked directly, None: through litellm.

    An endpoint of one's own is asked for a schema with the group's ids. A provider compiles and keeps each
    new schema, so it gets one for each size of a group, where it knows sizes.
    """
    provider, forms = judge.model.partition("/")[0], _LISTS
    host = (urlsplit(base).hostname or "") if base else ""
    openai = host == "openai.com" or host.endswith(".openai.com")
    if host and not openai and (provider in _OWN_ENGINES or (provider != "litellm_proxy" and _is_own(host))):
        forms = ("keyed", *_LISTS)
    elif openai or (not host and provider in _SIZED and "claude" not in judge.model):
        forms = ("sized", *_LISTS)
    fixed = "response_format" in judge.params
    listed = judge.api_base is None or base is None  # else the name may be anybody's
    model = known(judge.model) if listed or provider == "openai" else PricedModel()
    return Answering(
        _LISTS if fixed else forms,
        _NAMES[0] if openai else _NAMES[1],
        _thought(judge.params, thinks=model.reasoning is True),
        model.max_output if listed else None,
        fixed,
    )


def chat_body(model: str, params: Mapping[str, Any], request: Request, how: Answering) -> bytes:
    """The JSON body; the user's parameters win over what is asked for here."""
    body: dict[str, Any] = {"model": model, "messages": messages(request, how)}
    if (form := response_format(how.forms[0], request.labels)) is not None:
        body["response_format"] = form
    body |= params
    if (room := how.room(request, params)) is not None:
        body[limit_name(params) or how.limit or _NAMES[1]] = room
    return orjson.dumps(body)


def messages(request: Request, how: Answering) -> list[dict[str, str]]:
    """The two messages; the first names the form of the answer that is asked for."""
    system = keyed(request.system) if how.forms[0] == "keyed" else request.system
    return [{"role": "system", "content": system}, {"role": "user", "content": request.user}]


def response_format(form: Form, labels: tuple[str, ...]) -> dict[str, Any] | None:
    """The parameter that holds an answer to a form; None for text, of which the prompt alone tells."""
    if form == "text":
        return None
    if form == "json":
        return {"type": "json_object"}
    schema = _keyed_schema(labels) if form == "keyed" else list_schema(len(labels) if form == "sized" else 0)
    return {"type": "json_schema", "json_schema": {"name": "scores", "strict": True, "schema": schema}}


_SCORE = {"type": "number", "enum": [number / 100 for number in range(101)]}
"""Engines do not hold a number to its bounds, but an answer to a list."""
_ENTRY = {
    "type": "object",
    "properties": {"explanation": {"type": "string", "maxLength": EXPLANATION}, "score": _SCORE},
    "required": ["explanation", "score"],
    "additionalProperties": False,
}


def _keyed_schema(labels: tuple[str, ...]) -> dict[str, Any]:
    """An entry for each id, in their order: no answer can leave one out, or add one."""
    scores = {
        "type": "object",
        "properties": {label: {"$ref": "#/$defs/entry"} for label in labels},
        "required": list(labels),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"scores": scores},
        "required": ["scores"],
        "additionalProperties": False,
        "$defs": {"entry": _ENTRY},
    }


def limit_name(params: Mapping[str, Any]) -> str | None:
    """The name under which the user's own parameters bound an answer."""
    return next((name for name in _NAMES if name in params), None)


def stated_limit(params: Mapping[str, Any]) -> int | None:
    """The most completion tokens that the user's own parameters allow."""
    values = (params.get(name) for name in _NAMES)
    return next((n for n in values if isinstance(n, int) and not isinstance(n, bool) and n > 0), None)


def _thought(params: Mapping[str, Any], *, thinks: bool) -> int:
    """Tokens for thought: as the parameters ask, else where the model is known to think."""
    thinking, effort = params.get("thinking"), params.get("reasoning_effort")
    if isinstance(thinking, Mapping):
        budget = thinking.get("budget_tokens")
        return 0 if thinking.get("type") == "disabled" else budget if isinstance(budget, int) else _MEDIUM
    if effort is None and isinstance(reasoning := params.get("reasoning"), Mapping):
        effort = reasoning.get("effort")
    if effort is not None:
        return _THOUGHT.get(str(effort), _MOST_THOUGHT)
    return _MEDIUM if thinks else 0


def _is_own(host: str) -> bool:
    """Tell if a host is a machine of one's own: loopback, a private network, a bare name."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_OWN_HOSTS)
