"""Every other provider, through litellm: the only file that knows it.

litellm is the adapter and not the engine: no retries of its own, our own wall-clock deadline
around it (its timeout never fires on a server that sends a byte at a time), its banners silenced
(it prints them to stdout), and its exceptions mapped by what they carry, not by their names.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from ruler_cli.answer import clean, reply_of
from ruler_cli.config import JudgeSettings
from ruler_cli.errors import UsageError
from ruler_cli.judges.provider_errors import Refusal
from ruler_cli.judges.providers import PROVIDERS, Given, finds_itself, lacking, provider_of, refuse, secret
from ruler_cli.judges.reply_body import MissingKeyError, error_of, unknown_judge
from ruler_cli.judges.request_body import (
    Answering,
    ChatJudge,
    answering,
    limit_name,
    messages,
    response_format,
)
from ruler_cli.suggestions import nearest
from ruler_cli.types import CallError, Reply, Request

_UNREACHED = {"ConnectError", "ClientConnectorError", "ConnectionRefusedError", "gaierror"}
_TOO_LATE = {"Timeout", "TimeoutException", "TimeoutError", "APITimeoutError"}
_BROKEN = {"TransportError", "ClientError", "ConnectionError", "APIConnectionError"}
"""Names of errors in which no answer came, in httpx, aiohttp, the provider SDKs and Python."""
_UNEQUIPPED = {
    *("AuthenticationError", "ImportError", "LiteLLMUnknownProvider"),  # litellm's own, with no answer
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "NoRegionError"),
    *("ProfileNotFound", "DefaultCredentialsError", "RefreshError", "CredentialUnavailableError"),
    *("ClientAuthenticationError", "GetAccessTokenError"),
}
"""Names of errors for which no other try helps, in litellm, the clouds' SDKs and Python."""
_CONNECTED = _UNREACHED | _TOO_LATE | {"TransportError", "ClientError", "ConnectionError"}
_LACKS = re.compile(
    r"missing (?:credentials|required parameters|\w+ (?:account|tenant|jwt|api.?key)|api.?(?:key|base))"
    r"|missing \w+ \w+ (?:key|id)\b|could not resolve (?:authentication|project)|no credentials|no api base"
    r"|credentials not (?:provided|found|set)"
    r"|(?:api[ _]?key|api[ _]?base|\burl)\b.{0,40} (?:required|not set)|project_id.{0,30}not set"
    r"|must be installed|(?:import|importing) .{0,60}failed|import failed",
    re.IGNORECASE,
)
"""Sentences of litellm's, where its error has no class of its own."""
_UNUSABLE = re.compile(
    r"(?:failed|unable) to (?:load|locate|find|parse) [\w ]{0,30}credentials", re.IGNORECASE
)
_UNREAD, _SENTENCE = {"JSONDecodeError", "ValidationError"}, 100
"""Errors that quote what the judge said, and how far a sentence is litellm's own: a rollout must not be able
to have the judge say something that ends the run."""
_SET = "set what the provider needs, name its key with --api-key-env VAR, or try -m offline"


def _causes(error: BaseException) -> list[BaseException]:
    """An error and what led to it, the first cause last."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 20:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes


def _answer(error: Exception) -> tuple[int, Mapping[str, str], bytes] | None:
    """Status, headers and body as the provider sent them: litellm makes 500 of 529 and drops codes."""
    for cause in reversed(_causes(error)):
        response = getattr(cause, "response", None)
        try:
            status, headers, body = response.status_code, response.headers, response.content  # type: ignore[union-attr]  # not every error has one
        except (AttributeError, RuntimeError):  # none, or one that was not read
            continue
        if isinstance(status, int) and isinstance(headers, Mapping) and isinstance(body, bytes) and body:
            return status, headers, body
    return None


def read_error(error: Exception, secret: str | None) -> CallError | Refusal:
    """An error as the answer that the provider gave, else why there is none, else as litellm tells it."""
    if answer := _answer(error):
        status, headers, data = answer
        signs, message = error_of(data)
    else:
        body, told = getattr(error, "body", None), getattr(error, "litellm_response_headers", None)
        signs = str(body.get("code") or body.get("type") or "") if isinstance(body, Mapping) else ""
        said = str(getattr(error, "message", "") or error).partition("Traceback (most recent")[0]
        message, headers = _PREFIX.sub("", said), told if isinstance(told, Mapping) else {}
        status = getattr(error, "status_code", 0)
        status = int(status) if isinstance(status, int) or str(status).isdecimal() else 0
    if isinstance(error, TypeError | AttributeError | KeyError) and not status:
        raise error  # a mistake of ours or of litellm's, not the outside world
    unknown = type(error).__name__ == "UnsupportedParamsError" and "max_tokens" not in message
    form = f"response_format: {message}" if unknown else ""  # litellm may name no parameter
    refusal = Refusal(status, signs, message, dict(headers), form)
    return refusal if answer else _unanswered(error, message, secret) or refusal


_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?::| -) )+")
"""Class names before litellm's messages; a traceback stands behind some."""


def _unanswered(error: Exception, said: str, secret: str | None) -> CallError | None:
    """The CallError where nothing has answered; litellm gives such errors the status 500."""
    names = {base.__name__ for cause in _causes(error) for base in type(cause).__mro__}
    why = clean(said, secret)
    lacks = _UNUSABLE.match(said) or (not names & _UNREAD and _LACKS.search(said[:_SENTENCE]))
    if not names & _CONNECTED and (names & _UNEQUIPPED or lacks):
        reason = f"the judge cannot be asked ({why.rstrip('.')}); {_SET}"
        return CallError("refused", reason, "run", sent=False, billed=False)
    if names & _UNREACHED:
        return CallError(
            "transport", f"the judge cannot be reached ({why})", "call", sent=False, billed=False
        )
    if names & (_TOO_LATE | _BROKEN):
        what = (
            "the judge did not answer in time" if names & _TOO_LATE else "the connection to the judge broke"
        )
        return CallError("transport", f"{what} ({why})", "call")
    return None


@dataclass(slots=True)
class LitellmJudge(ChatJudge):
    """A judge that litellm reaches by its name."""

    _litellm: Any = None
    _finds: bool = False

    async def _post(self, request: Request, how: Answering) -> Reply | CallError | Refusal:
        try:
            return _reply(await self._litellm.acompletion(**self._arguments(request, how)), self.secret)
        except Exception as error:  # noqa: BLE001 - litellm's errors share no base class
            return read_error(error, self.secret)

    def _arguments(self, request: Request, how: Answering) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": messages(request, how),
            "timeout": self.timeout + 5,  # behind our own deadline, which is to be the one that ends it
            "num_retries": 0,
            "max_retries": 0,
        }
        form = response_format(how.forms[0], request.labels)
        if form is not None:
            arguments["response_format"] = form
        if self.key:
            arguments["api_key"] = self.key
        elif self.base and not self._finds:
            arguments["api_key"] = "none"  # litellm would send the provider's key to whatever host this is
        if self.base:
            arguments["api_base"] = self.base
        arguments |= self.params
        if (room := how.room(request, self.params)) is not None:
            arguments[limit_name(self.params) or how.limit or "max_tokens"] = room
        return arguments

    def unsent(self, request: Request, how: Answering) -> dict[str, Any]:
        """Return what would be sent, as litellm's `RawRequestTypedDict`; `error` says why nothing would."""
        from litellm.types.utils import CallTypes
        from litellm.utils import return_raw_request

        arguments = {name: each for name, each in self._arguments(request, how).items() if name != "api_key"}
        return dict(return_raw_request(CallTypes.completion, arguments))

    def check(self) -> None:
        """UsageError where no provider has the name, or something that the provider needs is not there.

        litellm is imported, which takes seconds, only where that may change it.
        """
        provider, given = self._provider, self._given()
        if provider is None or (lacking(provider, self.model, given) and _knows_more()):
            litellm = _litellm()
            if getattr(litellm, "secret_manager_client", None) is not None:
                return
            provider = provider or _resolved(litellm, self.name)
            told = any(v for name, v in vars(litellm).items() if name.endswith("_key") and not callable(v))
            given = self._given(told=told, base=bool(litellm.api_base))
            if provider not in PROVIDERS and not (given.key or given.base):  # of a litellm that is newer
                lost = litellm.validate_environment(self.model).get("missing_keys") or []
                if len(lost) == 1 and lost[0].endswith("_API_KEY"):
                    raise MissingKeyError(self.name, lost[0])
        refuse(self.name, lacking(provider, self.model, given))

    @property
    def _provider(self) -> str | None:
        proxied = os.environ.get("USE_LITELLM_PROXY", "").strip().lower() == "true"
        return "litellm_proxy" if proxied else provider_of(self.model, self.params)

    def _given(self, *, told: bool = False, base: bool = False) -> Given:
        keyed = bool(self.key or self.params.get("api_key") or told)
        there = bool(self.base or self.params.get("api_base") or self.params.get("base_url") or base)
        return Given(self.params, keyed, there)

    async def __aenter__(self) -> Self:
        """Import litellm (seconds): only for a judge that needs it. An old one may not know its provider."""
        provider, litellm = self._provider, _litellm()
        if provider not in {getattr(each, "value", each) for each in litellm.provider_list}:
            _resolved(litellm, self.model)
        self._litellm, self.secret = litellm, self.key or secret(provider)
        self._finds = provider is not None and finds_itself(provider, self._given())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Leave litellm's clients open: it shares them by process, and others may be using them."""


def anthropic_params(settings: JudgeSettings) -> Callable[[Request], bytes]:
    """Request → `params` of the Messages API, as `LitellmJudge` would send them live; there is no call.

    litellm makes them once for each room; texts are put in their places then. UsageError where it refuses
    the model or its parameters, or where they need a header: a row of a batch carries none.
    """
    litellm = _litellm()
    how = answering(settings, None)
    judge = LitellmJudge(settings.model, settings.model, None, None, settings.timeout, settings.params, how)
    try:
        provider = litellm.get_llm_provider(settings.model)[1]
    except Exception:  # noqa: BLE001 - litellm's errors share no base class
        provider = None
    if provider != "anthropic":
        raise UsageError(
            f"--target anthropic: judge {settings.model} is none of Anthropic's; name it anthropic/…"
        )

    @lru_cache(_TEMPLATES)
    def template(room: int | None) -> list[bytes]:
        return _template(judge, room)

    def params(request: Request) -> bytes:
        head, middle, tail = template(judge.answering.room(request, settings.params))
        return b"".join((head, orjson.dumps(request.user), middle, orjson.dumps(request.system), tail))

    template(None)  # what litellm refuses is told before the first request
    return params


def model_at_provider(name: str) -> str:
    """A model's name without its provider's, where litellm knows that one."""
    try:
        return str(_litellm().get_llm_provider(name)[0])
    except Exception:  # noqa: BLE001 - litellm's errors share no base class
        return name


_TEMPLATES = 4096
"""Rooms for which what litellm made is remembered."""
_USER, _SYSTEM = "the place of the request's user text", "the place of the request's system text"
_STRUCTURED = "structured-outputs-"


def _template(judge: LitellmJudge, room: int | None) -> list[bytes]:
    """The JSON of the params around the two texts."""
    raw: dict[str, Any] = {}
    for at in range(len(judge.answering.forms)):
        how = replace(judge.answering, forms=judge.answering.forms[at:])
        raw = judge.unsent(Request(_SYSTEM, _USER, (), room, fitted=True), how)
        if "UnsupportedParamsError" not in str(raw.get("error")):
            break
    body, headers = raw.get("raw_request_body"), raw.get("raw_request_headers") or {}
    if not isinstance(body, dict):
        why = clean(str(raw.get("error") or "litellm makes no request of it"))
        raise UsageError(f"judge {judge.name}: cannot be written as a batch ({why}); check -m and -p")
    betas = [each.strip() for each in str(headers.get("anthropic-beta") or "").split(",")]
    lost = [each for each in betas if each and not each.startswith(_STRUCTURED)]
    if lost:
        raise UsageError(
            f"-p: the header anthropic-beta: {', '.join(lost)} would be needed, which a batch's row cannot "
            "carry; leave out that parameter"
        )
    if "output_format" in body:  # only with that header; under its later name it needs none
        config = body.get("output_config")
        body["output_config"] = {
            **(config if isinstance(config, dict) else {}),
            "format": body["output_format"],
        }
        del body["output_format"]
    found = orjson.dumps(body)
    parts = [part for half in found.split(orjson.dumps(_USER)) for part in half.split(orjson.dumps(_SYSTEM))]
    if len(parts) != 3 or found.find(_USER.encode()) > found.find(_SYSTEM.encode()):
        raise UsageError(
            f"judge {judge.name}: this version of litellm makes a request in which the texts are not found; "
            "update ruler"
        )
    return parts


def _litellm() -> Any:
    """The module, made quiet; its import takes seconds."""
    # its price list and table of headers would be downloaded otherwise
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    loud = "litellm" in sys.modules or "LITELLM_LOG" in os.environ
    import litellm

    if not loud:  # it logs tracebacks of what we tell in a sentence; a caller's own litellm stays as it is
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL + 1)
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


def _knows_more() -> bool:
    """Tell if litellm may have keys that stand in no variable yet: given to it in Python, or in a `.env`.

    It reads the first `.env` above its own folder, or above the current one, as python-dotenv has it.
    """
    found = find_spec("litellm")
    folders = [Path.cwd() / "_", Path(found.origin if found and found.origin else "/_")]
    return "litellm" in sys.modules or any((up / ".env").is_file() for one in folders for up in one.parents)


def _resolved(litellm: Any, name: str) -> str:
    """The provider of a name as litellm has it; UsageError where it has none."""
    try:
        return str(litellm.get_llm_provider(name)[1])
    except Exception:  # noqa: BLE001 - litellm's errors share no base class
        provider, slash, rest = name.partition("/")
        if slash and provider in PROVIDERS:
            raise UsageError(
                f"judge {name}: the litellm that is installed is too old for it; pip install -U litellm"
            ) from None
        meant = nearest(provider, PROVIDERS, 0.7) if slash else None
        near = [f"{meant}/{rest}"] if meant else [] if slash else litellm.model_cost
        raise UsageError(unknown_judge(name, near)) from None


def _reply(answer: Any, key: str | None) -> Reply | CallError:
    """litellm has already put the answer of any provider into the form of a chat completion."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, of fields that litellm fills loosely
            body = answer.model_dump_json().encode()
    except (AttributeError, TypeError, ValueError):
        return CallError("transport", "the provider's answer is no chat completion", "call")
    return reply_of(body, key)
