"""What an error that litellm raises tells: the provider's own answer, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ruler_cli.judges.error_body import error_of
from ruler_cli.judges.faults import clean
from ruler_cli.records import Fault

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


def said_by(error: Exception) -> tuple[int, str, str, Mapping[str, str]]:
    """(status, signs, message, headers) of an error: the provider's own, else as litellm tells them."""
    answer = _answer(error)
    if answer:
        status, headers, data = answer
        signs, said = error_of(data)
        return status, signs, said, dict(headers)
    body, told = getattr(error, "body", None), getattr(error, "litellm_response_headers", None)
    code = str(body.get("code") or body.get("type") or "") if isinstance(body, Mapping) else ""
    said = _PREFIX.sub("", str(getattr(error, "message", "") or error).partition("Traceback (most recent")[0])
    status = getattr(error, "status_code", 0)
    status = int(status) if isinstance(status, int) or str(status).isdecimal() else 0
    return status, code, said, dict(told) if isinstance(told, Mapping) else {}


_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?::| -) )+")
"""Class names before litellm's messages; a traceback stands behind some."""


def silent(error: Exception, status: int, said: str, secret: str | None) -> Fault | None:
    """The Fault where nothing has answered; litellm gives such errors the status 500."""
    if isinstance(error, TypeError | AttributeError | KeyError) and not status:
        raise error  # a mistake of ours or of litellm's, not the outside world
    if _answer(error):
        return None
    names = {base.__name__ for cause in _causes(error) for base in type(cause).__mro__}
    why = clean(said, secret)
    lacks = _UNUSABLE.match(said) or (not names & _UNREAD and _LACKS.search(said[:_SENTENCE]))
    if not names & _CONNECTED and (names & _UNEQUIPPED or lacks):
        reason = f"the judge cannot be asked ({why.rstrip('.')}); {_SET}"
        return Fault("refused", reason, "run", sent=False, billed=False)
    if names & _UNREACHED:
        return Fault("transport", f"the judge cannot be reached ({why})", "call", sent=False, billed=False)
    if names & _TOO_LATE:
        return Fault("transport", f"the judge did not answer in time ({why})", "call")
    if names & _BROKEN:
        return Fault("transport", f"the connection to the judge broke ({why})", "call")
    return None
