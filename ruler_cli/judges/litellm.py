"""Judges of all other providers, through litellm: the only module that imports it.

litellm is only an adapter here. It makes no retries, our own wall-clock deadline is around it (its timeout
never fires on a server that sends a byte at a time), and its banners are off (it prints them to stdout). Its
exceptions are read by the responses that they carry, not by their names.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import orjson
from dotenv import load_dotenv

from ruler_cli.errors import UsageError
from ruler_cli.judges.chat_completions import (
    AnswerFormat,
    ChatJudge,
    chat_arguments,
    first_format,
)
from ruler_cli.judges.decisions import systemone_body, unshown
from ruler_cli.judges.network import UNTRUSTED, advice
from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    error_of,
    read_response,
)
from ruler_cli.judges.providers import (
    finds_key,
    key_variables,
    missing_key,
    provider_of,
    refuse_needs,
    unknown_judge,
)
from ruler_cli.judges.replies import without_key
from ruler_cli.settings.model_list import beside_litellm
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.tokens import CHARACTERS_PER_TOKEN
from ruler_cli.types import (
    CallError,
    Reply,
    Request,
    Secret,
    clean,
    secret_texts,
    words_of,
)

_UNREACHED = {
    *words_of(
        "ConnectError ClientConnectorError ConnectionRefusedError gaierror"
    )
}
_TOO_LATE = {*words_of("Timeout TimeoutException TimeoutError APITimeoutError")}
_BROKEN = {*words_of("TransportError ClientError ConnectionError")}
"""Names of errors without a response, in httpx, httpx2, aiohttp, the provider SDKs and Python."""
_ANSWERLESS = (
    (_UNREACHED, "the judge cannot be reached"),
    (_TOO_LATE, "the judge did not answer in time"),
    # the last is litellm's, for any error
    (_BROKEN | {"APIConnectionError"}, "the connection to the judge broke"),
)
_UNEQUIPPED = {
    *words_of("""
AuthenticationError ImportError LiteLLMUnknownProvider NoCredentialsError PartialCredentialsError
CredentialRetrievalError NoRegionError ProfileNotFound DefaultCredentialsError RefreshError
CredentialUnavailableError ClientAuthenticationError GetAccessTokenError
""")
}
"""Names of errors that recur with every try, in litellm (without a response), the clouds' SDKs and Python."""
_LACKS = re.compile(
    r"missing (?:credentials|required parameters|\w+ (?:account|tenant|jwt|api.?key)|api.?(?:key|base))"
    r"|missing \w+ \w+ (?:key|id)\b|could not resolve (?:authentication|project)|no credentials|no api base"
    r"|credentials not (?:provided|found|set)"
    r"|(?:api[ _]?key|api[ _]?base|\burl)\b.{0,40} (?:required|not set)|project_id.{0,30}not set"
    r"|must be installed|(?:import|importing) .{0,60}failed|import failed",
    re.IGNORECASE,
)
"""Messages of litellm whose error has no class of its own."""
_UNUSABLE = re.compile(
    r"(?:failed|unable) to (?:load|locate|find|parse) [\w ]{0,30}credentials",
    re.IGNORECASE,
)
_UNREAD = {"JSONDecodeError", "ValidationError"}
"""Errors that quote the judge's reply: no rollout may make a judge write a reply that ends the run."""
_SENTENCE = 100
"""Characters of such a message that are litellm's own."""
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?::| -) )+")
"""Class names before litellm's messages; a traceback stands behind some."""


def read_error(
    error: Exception,
    secret: Secret,
) -> CallError | ErrorResponse:
    """Return the provider's response that an error carries, else a CallError, else litellm's message."""
    causes: list[BaseException] = [error]
    while len(causes) < 20:
        cause = causes[-1].__cause__ or causes[-1].__context__
        if cause is None:
            break
        causes.append(cause)
    for cause in reversed(causes):
        # as the provider sent it: litellm changes 529 to 500 and drops codes
        response: Any = getattr(cause, "response", None)
        # not every error has one, and not every one was read
        with suppress(AttributeError, RuntimeError):
            if content := response.content:
                headers = dict(response.headers)
                codes = error_of(without_key(content, secret))
                return ErrorResponse(response.status_code, *codes, headers)
    stated = str(getattr(error, "status_code", 0))
    status = int(stated) if stated.isdecimal() else 0
    if isinstance(error, TypeError | AttributeError | KeyError) and not status:
        raise error  # a mistake of ours or of litellm's, not the outside world
    texts = [str(cause) for cause in causes if UNTRUSTED in str(cause)]
    text = texts[0] if texts else str(getattr(error, "message", "") or error)
    message = _PREFIX.sub("", text.partition("Traceback (most recent")[0])
    names = {base.__name__ for cause in causes for base in type(cause).__mro__}
    if call_error := _unanswered(names, message, clean(message, secret)):
        return call_error
    unsupported = type(error).__name__ == "UnsupportedParamsError"
    if unsupported and "max_tokens" not in message:
        message = f"response_format: {message}"  # litellm may name no parameter
    body = getattr(error, "body", None)
    headers = dict(getattr(error, "litellm_response_headers", None) or {})
    code = None
    if isinstance(body, Mapping):
        code = body.get("code") or body.get("type")
    return ErrorResponse(status, str(code or ""), message, headers)


def _unanswered(
    names: set[str],
    message: str,
    why: str,
) -> CallError | None:
    """The CallError if no provider has answered; litellm gives such errors the status 500."""
    quoted = names & _UNREAD or not _LACKS.search(message[:_SENTENCE])
    lacks = not quoted or _UNUSABLE.match(message) or names & _UNEQUIPPED
    if lacks and not names & (_UNREACHED | _TOO_LATE | _BROKEN):
        unequipped = (
            f"the judge cannot be asked ({why.rstrip('.')}); set what the provider needs, name its "
            "key with --api-key-env VAR, or try -m offline"
        )
        return CallError("refused", unequipped, "run", sent=False, billed=False)
    for classes, reason in _ANSWERLESS:
        if names & classes:
            sent = classes is not _UNREACHED
            sentence = f"{reason} ({why})"
            if UNTRUSTED in message:
                sentence = f"{sentence}; {advice(message)}"
            return CallError(
                "transport", sentence, "call", sent=sent, billed=sent
            )
    return None


@dataclass(slots=True)
class LitellmJudge(ChatJudge):
    """A judge that litellm calls by its name."""

    base: str | None = field(default=None, kw_only=True)
    key: str | None = field(default=None, kw_only=True, repr=False)
    _litellm: Any = None
    _finds: bool = False
    _marks: bool = False

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        if any(picture.address for _, picture in request.pictures):
            # it would open them for some providers
            reason = "pictures with web addresses are sent only to judges that are asked directly"
            remedy = f"{reason}; put their bytes into the data, or use --pictures leave"
            return CallError(
                "input", remedy, "group", sent=False, billed=False, kept=False
            )
        arguments = self.arguments(request, how)
        return await self._called(self._litellm.acompletion(**arguments))

    async def _called(
        self, call: Awaitable[Any]
    ) -> Reply | CallError | ErrorResponse:
        """Return the answer of a call of litellm's."""
        try:
            return _reply(await call, self.secret)
        except Exception as error:  # noqa: BLE001 - litellm's errors share no base class
            return read_error(error, self.secret)

    def arguments(
        self,
        request: Request,
        how: AnswerFormat,
    ) -> dict[str, Any]:
        """The arguments of `litellm.completion`."""
        asked = chat_arguments(self.model, self.params, request, how)
        arguments = self._conduct() | asked
        plain = not (how.merged or request.pictures)
        if self._marks and plain and request.common >= _LEAST_CACHED:
            # Anthropic caches the marked part, and the system message before it
            arguments["messages"][-1]["content"] = [
                {
                    "type": "text",
                    "text": request.user[: request.shared],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": request.user[request.shared :]},
            ]
        return arguments

    def _conduct(self) -> dict[str, Any]:
        """The arguments of any call: where it goes, and that it is made once."""
        # litellm would send the provider's key to any host
        hidden = "none" if self.base and not self._finds else None
        return {
            "timeout": self.timeout + 5,  # our own deadline is to end the call
            "num_retries": 0,
            "max_retries": 0,
            "api_key": self.key or hidden,
            "api_base": self.base,
        }

    def check(self, name: str) -> None:
        """Raise UsageError if no provider has the name, or if the provider has unmet needs.

        litellm, whose import takes seconds, is asked about names and needs that are not listed here.
        """
        provider = provider_of(self.model) or read_name(self.model)[1]
        if provider is None:
            raise unknown_judge(self.model)
        load_dotenv()  # as litellm does at its import
        key = self.key or getattr(sys.modules.get("litellm"), "api_key", None)
        named = {"key": bool(key), "base": bool(self.base)}
        if refuse_needs(name, provider, self.params, **named):
            return
        needed = _litellm().validate_environment(self.model)
        keys = needed.get("missing_keys") or []
        if len(keys) == 1 and keys[0].endswith("_API_KEY"):
            raise missing_key(name, keys[0])

    async def __aenter__(self) -> Self:
        """Import litellm, which takes seconds."""
        self._litellm = _litellm()
        _, named_provider, named_key = read_name(self.model)
        provider = provider_of(self.model) or named_provider
        keys = map(os.environ.get, key_variables(provider))
        # a key that litellm finds by itself is removed from messages, too
        key = self.key or next(filter(None, keys), named_key)
        self.secret = (*secret_texts(self.secret), key or "")
        self._finds = finds_key(provider)
        self._marks = provider == "anthropic"
        return self


@dataclass(slots=True)
class LitellmDecisionJudge(LitellmJudge):
    """A decision model that litellm asks by System One."""

    def check(self, name: str) -> None:
        """Raise UsageError if litellm is too old, or as any judge of it does."""
        if not beside_litellm("systemone/main.py"):
            problem = "needs a litellm that speaks System One"
            remedy = "pip install 'litellm>=1.106.2'"
            raise UsageError(problem, remedy, place=f"judge {name}")
        LitellmJudge.check(self, name)

    async def _post(
        self, request: Request, how: AnswerFormat
    ) -> Reply | CallError | ErrorResponse:
        if error := unshown(request):
            return error
        asked = {"model": self.model, **systemone_body(request), **self.params}
        call = self._litellm.asystemone(**self._conduct(), **asked)
        return await self._called(call)


_LEAST_CACHED = 1024 * CHARACTERS_PER_TOKEN
"""Characters of the shortest prompt that Anthropic's models cache; some take more, and ignore a shorter one."""


def anthropic_params(settings: JudgeSettings) -> Callable[[Request], bytes]:
    """A function Request → `params` of the Messages API, as `LitellmJudge` would send them, without a call.

    litellm makes them once for each limit of the answer, and then the texts are replaced. UsageError if it refuses the
    model or its parameters, or if they need a header, which a row of a batch cannot have.
    """
    how = first_format(settings, None)
    judge = LitellmJudge(settings.model, settings.timeout, settings.params, how)

    @lru_cache(4096)
    def template(max_tokens: int | None) -> dict[str, Any]:
        return _raw(
            judge, Request("system", "user", (), max_tokens, fitted=True)
        )

    def params(request: Request) -> bytes:
        if request.pictures:
            return orjson.dumps(_raw(judge, request))
        user = [{"type": "text", "text": request.user}]
        body = {
            **template(how.max_tokens(request, settings.params)),
            "system": [{"type": "text", "text": request.system}],
            "messages": [{"role": "user", "content": user}],
        }
        return orjson.dumps(body)

    template(None)  # a refusal of litellm is reported before the first request
    return params


_STRUCTURED = "structured-outputs-"


def _raw(judge: LitellmJudge, request: Request) -> dict[str, Any]:
    """The params of a request, for which litellm takes a tenth of a second."""
    _litellm()  # nothing of it is imported earlier, or it would download its lists
    from litellm.types.utils import CallTypes
    from litellm.utils import return_raw_request

    arguments = judge.arguments(request, judge.answer_format)
    del arguments["api_key"]
    raw = return_raw_request(CallTypes.completion, arguments)
    body = raw.get("raw_request_body")
    headers = raw.get("raw_request_headers") or {}
    if not isinstance(body, dict):
        raise _not_in_a_batch(judge, clean(str(raw.get("error"))))
    betas = str(headers.get("anthropic-beta") or "").replace(",", " ").split()
    needed = [beta for beta in betas if not beta.startswith(_STRUCTURED)]
    if needed:
        header = f"anthropic-beta: {', '.join(needed)}"
        raise _not_in_a_batch(judge, f"it needs the header {header}")
    if "output_format" in body:  # its later name needs no header
        form = body.pop("output_format")
        body.setdefault("output_config", {})["format"] = form
    return body


def _not_in_a_batch(judge: LitellmJudge, why: str) -> UsageError:
    remedy = "check -m and -p"
    problem = f"cannot be written as a batch ({why})"
    return UsageError(problem, remedy, place=f"judge {judge.model}")


def _litellm() -> Any:
    """Import litellm, which takes seconds, without its log and its banners."""
    # litellm would download its price list and its table of headers otherwise
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    loud = "litellm" in sys.modules or "LITELLM_LOG" in os.environ
    import litellm

    if not loud:  # it logs tracebacks of errors that we report; a caller's own litellm stays as it is
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL + 1)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


def read_name(name: str) -> tuple[str, str | None, str | None]:
    """(model, provider, key) of a name, as litellm reads it; no provider and no key if it knows none."""
    try:
        model, provider, key, _ = _litellm().get_llm_provider(name)
    except Exception:  # noqa: BLE001 - litellm's errors share no base class
        return name, None, None
    return str(model), str(provider), key


def _reply(
    answer: Any,
    key: Secret,
) -> Reply | CallError | ErrorResponse:
    """Read litellm's answer, which is a chat completion for any provider."""
    # litellm has no public name for a response's headers
    hidden = getattr(answer, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") or {}
    try:
        with warnings.catch_warnings():
            # pydantic's, about types of litellm's fields
            warnings.simplefilter("ignore")
            value = answer.model_dump()
            # escaped: pydantic's own JSON cannot hold a lone surrogate
            body = json.dumps(value, default=str)
    except (AttributeError, TypeError, ValueError):
        broken = "the provider's answer is not a chat completion"
        return CallError("transport", broken, "call")
    return read_response(200, body.encode(), headers, key)
