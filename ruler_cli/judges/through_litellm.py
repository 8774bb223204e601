"""Every other provider, through litellm: the only file that knows it.

litellm is the adapter and not the engine: no retries of its own, our own wall-clock deadline
around it (its timeout never fires on a server that sends a byte at a time), its banners silenced
(it prints them to stdout), and its exceptions mapped by what they carry, not by their names.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import anyio

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import FORMATS, missing_key, reply_of, unknown_judge
from ruler_cli.judges.faults import classify, clean, refuses_format
from ruler_cli.records import Fault, Reply, Request


@dataclass(slots=True)
class LitellmJudge:
    """A judge that litellm reaches by its name."""

    name: str
    model: str
    key: str | None
    base: str | None
    timeout: float
    params: Mapping[str, Any]
    _level: int = 0
    _litellm: Any = None

    async def ask(self, request: Request) -> Reply | Fault:
        """One completion; once more at each step down of the answer format that is refused."""
        while True:
            level = self._level
            try:
                with anyio.fail_after(self.timeout):
                    answer = await self._litellm.acompletion(**self._arguments(request, level))
                return _reply(answer, self.key)
            except TimeoutError:
                return Fault("transport", f"the judge did not answer within {self.timeout:g} s", "call")
            except Exception as error:  # noqa: BLE001 - litellm's errors share no base class
                said = str(getattr(error, "message", "") or error)
                status = int(getattr(error, "status_code", 0) or 0)
                refused = type(error).__name__ == "UnsupportedParamsError" or refuses_format(status, said)
                if refused and level + 1 < len(FORMATS) and "response_format" not in self.params:
                    self._level = max(self._level, level + 1)
                    continue
                return self._fault(error, status, said)

    def _arguments(self, request: Request, level: int) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.user},
            ],
            "timeout": self.timeout,
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

    def _fault(self, error: Exception, status: int, said: str) -> Fault:
        if isinstance(error, TypeError | AttributeError | KeyError) and not status:
            raise error  # a mistake of ours or of litellm's, not the outside world
        if type(error).__name__ == "Timeout" or status == 408:
            return Fault("transport", f"the judge did not answer within {self.timeout:g} s", "call")
        # a refused connection arrives as an InternalServerError: nothing has answered
        unreached = "onnection error" in said or "Cannot connect" in said or "refused" in said.lower()
        if unreached and status in (0, 500, 503):
            why = clean(said, self.key)
            return Fault("transport", f"the judge cannot be reached ({why})", "call", sent=False)
        body = getattr(error, "body", None)
        code = str(body.get("code") or body.get("type") or "") if isinstance(body, Mapping) else ""
        if status == 500 and "overloaded" in said.lower():
            status = 529
        headers = getattr(error, "litellm_response_headers", None)
        return classify(status, code, said, dict(headers) if isinstance(headers, Mapping) else None, self.key)

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
            raise UsageError(unknown_judge(self.name)) from None
        if not self.key and not self.base:
            lost = litellm.validate_environment(self.model).get("missing_keys") or []
            if len(lost) == 1 and lost[0].endswith("_API_KEY") and "mock_response" not in self.params:
                raise UsageError(missing_key(self.name, lost[0]))
        self._litellm = litellm
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Leave litellm's clients open: it shares them by process, and others may be using them."""


def _reply(answer: Any, key: str | None) -> Reply | Fault:
    """litellm has already put the answer of any provider into the form of a chat completion."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydantic's, of fields that litellm fills loosely
            body = answer.model_dump_json().encode()
    except (AttributeError, TypeError, ValueError):
        return Fault("transport", "the provider's answer is no chat completion", "call")
    return reply_of(body, key)
