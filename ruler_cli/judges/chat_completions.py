"""Calls of the chat completions protocol: the body, the format and the tokens of the answer, the fallbacks.

`ChatJudge` is the base of the judges that are asked by this protocol.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urlsplit

import orjson

from ruler_cli.judges.network import in_time
from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    classify,
    refuses_format,
)
from ruler_cli.judges.providers import (
    LIMITS,
    OWN_ENGINES,
    limit_name,
    model_info,
    stated_limit,
)
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.settings.parameters import body_of
from ruler_cli.tokens import LONG_ANSWER
from ruler_cli.types import (
    CallError,
    Judge,
    Reply,
    Request,
    Secret,
    clean,
    value,
)

Form = Literal["keyed", "list", "json", "text"]
_OWN_HOST = re.compile(
    r"[^.]*|127\..*|10\..*|192\.168\..*|172\.(?:1[6-9]|2\d|3[01])\..*"
    r"|.*\.(?:local|internal|lan|svc|home|intranet)"
)
"""A machine of one's own: loopback, a private network, a bare name."""
_LISTS: tuple[Form, ...] = ("list", "json", "text")
_MEDIUM = 8192
_MOST_THINKING = 65_536
_THINKING = {
    **dict.fromkeys(("none", "disable"), 0),
    **dict.fromkeys(("minimal", "low"), 4096),
    "medium": _MEDIUM,
    "high": 32_768,
}
"""Tokens for thinking, by the effort that the parameters ask for."""
_LIKELY = 20
"""Likely tokens that are asked for: as many as OpenAI and vLLM list at most."""
_NO_WORDS = re.compile("log_?probs", re.IGNORECASE)
_LIMIT = re.compile(
    r"max_(?:completion_|output_)?tokens|max_new_tokens|maxOutputTokens"
)

_REFUSING = (400, 404, 405, 415, 422, 500, 501)
"""Statuses of refusals of something that a template, a server or a model does not know."""
_ROLE = r"(?:\bsystem[ _-]?(?:role|message|prompt|instruction)|\brole\W{1,3}system|['\"`]system)"
_SYSTEM = re.compile(
    rf"{_ROLE}.{{0,60}}\b(?:not|un\w+|must|cannot)\b|(?:\bnot|n't|\bun\w+|\binvalid)\b.{{0,40}}{_ROLE}"
    r"|roles? must alternate|developer instruction|messages?\W{1,3}0\W{1,3}role"
    r"|\b(?:only|one of|should be|expected)\b.{0,40}\buser\b.{0,30}\b(?:assistant|model)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Words of a refusal of a system message, after which both messages are sent as one."""


def limits_named(status: int, message: str) -> list[str]:
    """Return the names of parameters that bound an answer, if an endpoint refuses one."""
    return _LIMIT.findall(message) if status in (400, 422) else []


@value
class AnswerFormat:
    """The format and the length of the answers that one endpoint and model is asked for.

    `forms` are those not refused so far; the first is asked for. `limit` names the parameter that bounds
    an answer ("": the endpoint has none). `thinking` is in tokens, for the judge's thoughts before the
    answer; `max_output` are the tokens that the model can write. `merged`: both messages are sent as one of the user.
    """

    forms: tuple[Form, ...] = _LISTS
    limit: str = "max_tokens"
    thinking: int = 0
    max_output: int | None = None
    merged: bool = False

    def max_tokens(
        self,
        request: Request,
        params: Mapping[str, Any],
    ) -> int | None:
        """The tokens that an answer may have, never more than the user's own limit; None: do not send any."""
        users_limit = stated_limit(params)
        asked = request.max_output_tokens
        if users_limit is None and (limit_name(params) or not self.limit):
            return None  # the user's value is sent as it is, even `null`
        tokens = asked or 0
        if self.limit and not (asked and request.fitted):
            usual = request.answer_tokens(LONG_ANSWER)
            # a request that names tokens follows a cut: at least twice as many, whatever the usage says
            tokens = max(tokens, int(usual) * (1 + bool(asked)) + self.thinking)
        if users_limit is not None:
            return users_limit if asked is None else min(tokens, users_limit)
        return (
            tokens if self.max_output is None else min(tokens, self.max_output)
        )

    def after_refusal(
        self, sent: AnswerFormat, status: int, message: str
    ) -> AnswerFormat | None:
        """The format to try after a refusal of the one that was `sent`; None if something else is refused."""
        refused = status in _REFUSING and not sent.merged
        if refused and _SYSTEM.search(message):
            return replace(self, merged=True)
        if refuses_format(status, message):
            if len(sent.forms) == 1:
                return None
            # another call may have stepped down meanwhile
            rest = self.forms[1:] if self.forms == sent.forms else self.forms
            return replace(self, forms=rest)
        named = limits_named(status, message)
        if not sent.limit or not named:
            return None
        if self.limit != sent.limit:
            return self
        other_name = sent.limit == LIMITS[1] and LIMITS[0] in named
        return replace(self, limit=LIMITS[0] if other_name else "")

    def after_reply(self, reply: Reply) -> AnswerFormat:
        """The format with more tokens for thinking, if thoughts cut the answer off."""
        if not (reply.truncated and reply.thought):
            return self
        thinking = min(_MOST_THINKING, max(_MEDIUM, 2 * reply.usage.completion))
        return replace(self, thinking=max(thinking, self.thinking))


WORDLESS = AnswerFormat(("text",), "", merged=True)
"""The format of a judge that writes nothing; there is no other."""


@dataclass(slots=True)
class ChatJudge(Judge):
    """A judge behind chat completions; `answer_format` changes with its refusals and replies."""

    model: str
    timeout: float
    params: Mapping[str, Any]
    answer_format: AnswerFormat
    secret: Secret = field(default=None, repr=False)
    """The key, and texts of the parameters that may be secrets: they are removed from every message and reply."""

    async def ask(self, request: Request) -> Reply | CallError:
        """Post once, and once more for each form or limit of the answer that is refused.

        One deadline holds for all of it, from the connection to the last byte.
        """
        return await in_time(self.timeout, self._ask(request))

    async def _ask(self, request: Request) -> Reply | CallError:
        http_requests = 0
        while True:
            http_requests += 1
            sent = self.answer_format
            answer = await self._post(request, sent)
            if isinstance(answer, ErrorResponse):
                if request.words and _NO_WORDS.search(answer.message):
                    answer = no_probabilities(
                        clean(answer.message, self.secret)
                    )
                    break
                error = classify(*answer, self.secret)
                changed = self.answer_format.after_refusal(
                    sent, answer.status or 400, answer.message
                )
                if error.context is None and changed:
                    self.answer_format = changed
                    continue
                answer = error
            elif isinstance(answer, Reply):
                if not request.words:
                    self.answer_format = self.answer_format.after_reply(answer)
                elif not (answer.likely or answer.refusal):
                    answer = no_probabilities("", answer.body)
            break
        if http_requests > 1:
            return replace(answer, http_requests=http_requests)
        return answer

    @abstractmethod
    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        """Send one request; an ErrorResponse may refuse the form or the limit that it asks for."""


def no_probabilities(why: str, body: bytes = b"") -> CallError:
    """Return the error that ends a run: the endpoint returns no probabilities of words. `body` is its reply."""
    detail = f" ({why})" if why else ""
    reason = (
        f"the judge returns no probabilities of its words (`logprobs`){detail}; "
        "use -p top_logprobs=5 if it lists fewer than 20, --read text, or an endpoint that returns them"
    )
    return CallError("reply", reason, "run", body=body)


def first_format(judge: JudgeSettings, base: str | None) -> AnswerFormat:
    """The format to try first; `base` is the address of a direct endpoint, None if litellm is used.

    An endpoint of one's own gets a schema with the group's ids. A provider compiles and stores each new
    schema, so it gets one for all groups.
    """
    provider = judge.provider
    params = body_of(judge.params)
    host = urlsplit(base or "").hostname or ""
    openai = f".{host}".endswith(".openai.com")
    own_engine = provider in OWN_ENGINES or (
        provider != "litellm_proxy" and _OWN_HOST.fullmatch(host)
    )
    forms = _LISTS
    if "response_format" in params:  # the user's own is sent
        forms = ("text",)
    elif host and own_engine:
        forms = ("keyed", *_LISTS)
    model = model_info(judge.model)
    # else another model may have that name
    listed = judge.api_base is None or base is None
    thinks = model.reasoning is True and (listed or provider == "openai")
    return AnswerFormat(
        forms,
        LIMITS[0] if openai else LIMITS[1],
        thinking_tokens(params, thinks=thinks),
        model.max_output if listed else None,
    )


def chat_body(
    model: str, params: Mapping[str, Any], request: Request, how: AnswerFormat
) -> bytes:
    """The JSON body of a call."""
    return orjson.dumps(chat_arguments(model, params, request, how))


def chat_arguments(
    model: str, params: Mapping[str, Any], request: Request, how: AnswerFormat
) -> dict[str, Any]:
    """The arguments of a call; the user's parameters replace all others."""
    body: dict[str, Any] = {"model": model, "messages": messages(request, how)}
    if request.words:
        body |= {"logprobs": True, "top_logprobs": _LIKELY}
    elif (form := response_format(how.forms[0], request)) is not None:
        body["response_format"] = form
    body |= params
    if (tokens := how.max_tokens(request, params)) is not None:
        body[limit_name(params) or how.limit or LIMITS[1]] = tokens
    return body


def messages(
    request: Request,
    how: AnswerFormat,
) -> list[dict[str, Any]]:
    """The system message, which describes the form of the answer, and the user message; or both as one of the user."""
    system = request.system
    if how.forms[0] == "keyed":
        system = request.keyed_system or system
    if how.merged:
        begin = f"{system}\n\n"
        content = request.content
        if isinstance(content, str):
            content = begin + content
        else:
            content = [{"type": "text", "text": begin}, *content]
        return [{"role": "user", "content": content}]
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": request.content},
    ]


def response_format(
    form: Form,
    request: Request,
) -> dict[str, Any] | None:
    """The parameter that enforces a form; None for text, which only the prompt describes."""
    if form == "text":
        return None
    if form == "json":
        return {"type": "json_object"}
    labels = request.labels
    if form == "keyed":
        # an entry for each id, in their order: an answer cannot omit or add one
        scores = exactly(dict.fromkeys(labels, _ENTRY))
        answer = {"score": _SCORE}
        types = {}
        if request.criteria:
            values = dict.fromkeys(request.criteria, _VALUE)
            for name, criterion in request.criteria.items():
                levels = [f"{value:g}" for value in criterion.values]
                if levels:
                    values[name] = {"type": "string", "enum": levels}
            answer = {"criteria": exactly(values)}
            types = {"value": _SCORE}
        entry = exactly({"explanation": _EXPLANATION, **answer})
        schema = {
            **exactly({"scores": scores}),
            "$defs": {"entry": entry, **types},
        }
    else:
        schema = list_schema(request.criteria)
    named = {"name": "scores", "strict": True, "schema": schema}
    return {"type": "json_schema", "json_schema": named}


_STEPS = sorted(
    {f"{n / 100:.2f}" for n in range(101)}
    | {f"{n / 10:.1f}" for n in range(11)}
    | {"0", "1"}
)
_SCORE = {"type": "string", "enum": _STEPS}
"""All spellings of a score with up to two decimals, as strings.

Engines enforce a list of values, but not the bounds of a number. xgrammar writes a number of a list with 17
digits, so it would forbid 0.8 and allow 0.80000000000000004; it takes strings as they are.
"""


_ENTRY = {"$ref": "#/$defs/entry"}
_VALUE: dict[str, Any] = {"$ref": "#/$defs/value"}


_EXPLANATION = {"type": "string", "maxLength": 300}
"""An explanation, where the form can bound it: one or two sentences."""


def exactly(members: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object with exactly these members."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def list_schema(criteria: Iterable[str] = ()) -> dict[str, Any]:
    """The schema of an answer with a list of entries.

    An entry has a score, or a value for each of the `criteria`. Without them it is the same for every group, so that
    providers compile it once.
    """
    number = {"type": "number"}
    string = {"type": "string"}
    values = dict.fromkeys(criteria, number)
    answer = {"criteria": exactly(values)} if values else {"score": number}
    entry = {"trajectory_id": string, "explanation": string, **answer}
    return exactly({"scores": {"type": "array", "items": exactly(entry)}})


def thinking_tokens(params: Mapping[str, Any], *, thinks: bool) -> int:
    """Tokens for thinking: those that the parameters ask for, else some if the model `thinks`."""
    thinking = params.get("thinking")
    if isinstance(thinking, Mapping):
        if thinking.get("type") == "disabled":
            return 0
        budget = thinking.get("budget_tokens")
        return budget if isinstance(budget, int) else _MEDIUM
    effort = params.get("reasoning_effort")
    if effort is None:
        return _MEDIUM if thinks else 0
    return _THINKING.get(str(effort), _MOST_THINKING)
