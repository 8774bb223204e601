"""Every other provider, through litellm: the only file that knows it.

litellm is the adapter and not the engine: no retries of its own, our own wall-clock deadline
around it (its timeout never fires on a server that sends a byte at a time), its banners silenced
(it prints them to stdout), and its exceptions mapped by what they carry, not by their names.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import anyio

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import FORMATS, missing_key, reply_of, unknown_judge
from ruler_cli.judges.error_body import error_of
from ruler_cli.judges.faults import classify, clean, refuses_format
from ruler_cli.nearest import nearest
from ruler_cli.records import Fault, Reply, Request


@dataclass(slots=True)
class LitellmJudge:
    """A judge that litellm reaches by its name."""

    name: str
    model: str
    key: str | None = field(repr=False)
    base: str | None
    timeout: float
    params: Mapping[str, Any]
    _level: int = 0
    _litellm: Any = None
    _found: str | None = field(default=None, repr=False)

    async def ask(self, request: Request) -> Reply | Fault:
        """One completion; once more at each step down of the answer format that is refused.

        The deadline is one for all of it, from the connection to the last byte.
        """
        try:
            with anyio.fail_after(self.timeout):
                return await self._ask(request)
        except TimeoutError:
            return Fault("transport", f"the judge did not answer within {self.timeout:g} s", "call")

    async def _ask(self, request: Request) -> Reply | Fault:
        for posts in itertools.count(1):
            level = self._level
            try:
                answer = await self._litellm.acompletion(**self._arguments(request, level))
                return replace(_reply(answer, self._secret), posts=posts)
            except Exception as error:  # noqa: BLE001 - litellm's errors share no base class
                status, signs, said, headers = _said(error)
                refused = type(error).__name__ == "UnsupportedParamsError" or refuses_format(status, said)
                if refused and level + 1 < len(FORMATS) and "response_format" not in self.params:
                    self._level = max(self._level, level + 1)
                    continue
                fault = self._silent(error, status, said) or classify(
                    status, signs, said, headers, self._secret
                )
                return replace(fault, posts=posts)
        raise AssertionError("a count without end")

    def _arguments(self, request: Request, level: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.user},
            ],
            "timeout": self.timeout + 5,  # behind our own deadline, which is to be the one that ends it
            "num_retries": 0,
            "max_retries": 0,
        }
        if FORMATS[level]:
            arguments["response_format"] = FORMATS[level]
        if self.key:
            arguments["api_key"] = self.key
        elif self.base:
            arguments["api_key"] = "none"  # litellm would send the provider's key to whatever host this is
        if self.base:
            arguments["api_base"] = self.base
        arguments |= self.params
        if request.room:
            arguments["max_tokens"] = request.room
        return arguments

    @property
    def _secret(self) -> str | None:
        """The key that is cut out of whatever is told or kept, also where litellm found it itself."""
        return self.key or self._found

    def _silent(self, error: Exception, status: int, said: str) -> Fault | None:
        """The Fault where nothing has answered; litellm gives such errors the status 500."""
        if isinstance(error, TypeError | AttributeError | KeyError) and not status:
            raise error  # a mistake of ours or of litellm's, not the outside world
        if _answer(error):
            return None
        names = {base.__name__ for cause in _causes(error) for base in type(cause).__mro__}
        why = clean(said, self._secret)
        if names & _UNREACHED:
            return Fault(
                "transport", f"the judge cannot be reached ({why})", "call", sent=False, billed=False
            )
        if names & _TOO_LATE:
            return Fault("transport", f"the judge did not answer in time ({why})", "call")
        if names & _BROKEN:
            return Fault("transport", f"the connection to the judge broke ({why})", "call")
        return None

    async def __aenter__(self) -> Self:
        """Import litellm (seconds): only here, only for a judge that needs it."""
        # its price list would be downloaded at import otherwise
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm

        litellm.suppress_debug_info = True
        litellm.telemetry = False
        try:
            litellm.get_llm_provider(self.model)
        except Exception:  # noqa: BLE001 - litellm's errors share no base class
            provider, slash, rest = self.name.partition("/")
            providers = (getattr(each, "value", str(each)) for each in litellm.provider_list)
            meant = nearest(provider, providers, 0.7) if slash else None
            near = [f"{meant}/{rest}"] if meant else [] if slash else litellm.model_cost
            raise UsageError(unknown_judge(self.name, near)) from None
        if not self.key and not self.base:
            lost = litellm.validate_environment(self.model).get("missing_keys") or []
            provider = litellm.get_llm_provider(self.model)[1]
            self._found = os.environ.get(f"{provider.upper()}_API_KEY") or None
            if len(lost) == 1 and lost[0].endswith("_API_KEY") and "mock_response" not in self.params:
                raise UsageError(missing_key(self.name, lost[0]))
        self._litellm = litellm
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Leave litellm's clients open: it shares them by process, and others may be using them."""


_UNREACHED = {"ConnectError", "ClientConnectorError", "ConnectionRefusedError", "gaierror"}
_TOO_LATE = {"Timeout", "TimeoutException", "TimeoutError", "APITimeoutError"}
_BROKEN = {"TransportError", "ClientError", "ConnectionError", "APIConnectionError"}
"""Names of errors in which no answer came, in httpx, aiohttp, the provider SDKs and Python."""


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


def _said(error: Exception) -> tuple[int, str, str, Mapping[str, str]]:
    """(status, signs, message, headers) of an error: the provider's own, else as litellm tells them."""
    answer = _answer(error)
    if answer:
        status, headers, data = answer
        signs, said = error_of(data)
        return status, signs, said, dict(headers)
    body, told = getattr(error, "body", None), getattr(error, "litellm_response_headers", None)
    code = str(body.get("code") or body.get("type") or "") if isinstance(body, Mapping) else ""
    said = str(getattr(error, "message", "") or error)
    status = getattr(error, "status_code", 0)
    status = int(status) if isinstance(status, int) or str(status).isdecimal() else 0
    return status, code, said, dict(told) if isinstance(told, Mapping) else {}


def _reply(answer: Any, key: str | None) -> Reply | Fault:
    """litellm has already put the answer of any provider into the form of a chat completion."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, of fields that litellm fills loosely
            body = answer.model_dump_json().encode()
    except (AttributeError, TypeError, ValueError):
        return Fault("transport", "the provider's answer is no chat completion", "call")
    return reply_of(body, key)
