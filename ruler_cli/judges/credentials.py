"""Whether a judge behind litellm has what it needs to be called, and the sentence where it has not.

Nothing that could work is refused: an SDK that finds credentials by itself is asked whether it does.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import MissingKeyError
from ruler_cli.judges.providers import NO_CHAT, Need, Way, homeless, needs_of

_FREE = ("mock_response", "client", "litellm_credential_name", "extra_headers", "headers", "fallbacks")
"""Parameters with which a call may need none of it, or has it from elsewhere."""
_BEARERS = ("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_MANTLE_API_KEY")
_PACKAGES = {
    "google.auth": "google-auth",
    "databricks.sdk": "databricks-sdk",
    "azure.identity": "azure-identity",
}
_ASKING = 10.0
"""Seconds that an SDK may look for credentials; one that takes longer may find some."""
_SHOWN = 3
"""Ways to meet a need that a sentence names."""


@dataclass(frozen=True, slots=True)
class Given:
    """All that a judge is given beside the environment."""

    params: Mapping[str, Any]
    key: bool
    base: bool


def secret(provider: str | None) -> str | None:
    """The key that litellm finds by itself, to be cut out of what is told."""
    needs = needs_of(provider or "", "")
    words = (word for way in (needs[0] if needs else ()) for word in way if word.isupper())
    return next((value for word in words if (value := os.environ.get(word))), None)


def lacking(provider: str, model: str, given: Given) -> tuple[Need, ...]:
    """What is not there of what a provider needs; nothing where that cannot be known.

    At an address that is not the provider's own no key is needed, unless one is always sent.
    """
    if any(given.params.get(name) for name in _FREE):
        return ()
    needs = needs_of(provider, model)
    if given.base and (not homeless(provider) or provider == "litellm_proxy"):  # a proxy may take none
        needs = tuple(need for need in needs if ("api_key",) not in need)
    return tuple(_told(need, given) for need in needs if not any(_there(way, given) for way in need))


def finds_itself(provider: str, given: Given) -> bool:
    """Whether the key for an address that the user named may be left to litellm to find.

    It may for a provider that has no address of its own and a key that is there, and where an SDK signs
    the call or asks for a token. A bearer key of a variable may not; litellm takes OpenAI's for some.
    """
    needs = needs_of(provider, "")
    if homeless(provider):
        keys = next((need for need in needs if ("api_key",) in need), ())
        return any(_there(way, given) for way in keys)
    signed = next((need for need in needs if any(way[0][0] == "@" for way in need)), ())
    if ("api_key",) not in signed:
        return bool(signed)
    ways = [way for way in signed if way[0] not in _BEARERS]
    return not any(os.environ.get(name) for name in _BEARERS) and any(_there(way, given) for way in ways)


def refuse(name: str, provider: str, unmet: Iterable[Need] = ()) -> None:
    """UsageError where a provider has no chat, or something is lacking: what it is, and the ways out."""
    if provider in NO_CHAT:
        raise UsageError(
            f"judge {name}: litellm asks {provider} for no chat completions about text; name another with -m"
        )
    needs = tuple(unmet)
    if len(needs) == 1 and len(needs[0]) == 2 and needs[0][0] == ("api_key",):
        raise MissingKeyError(name, needs[0][1][0])
    if needs:
        raise UsageError(
            f"judge {name} needs {_needed(needs)}; {', '.join(_ways_out(needs))}, or try the pipeline "
            "without a model: -m offline"
        )


def _there(way: Way, given: Given) -> bool:
    return all(_has(word, given) for word in way)


def _has(word: str, given: Given) -> bool:
    if word == "api_key":
        return given.key
    if word == "api_base":
        return given.base
    if word.isupper():
        return bool(os.environ.get(word) or given.params.get(word.lower()))
    if word[0] == "+":
        return _installed(word[1:])
    if word[0] == "~":
        return Path(word).expanduser().exists()
    if word[0] == "@":
        return _finds(word, frozenset(os.environ.items()))
    return bool(given.params.get(word))


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


@lru_cache(maxsize=16)
def _finds(what: str, _environment: frozenset[tuple[str, str]]) -> bool:
    """Whether an SDK finds credentials, asked in the way in which the call itself will ask it.

    That includes the metadata service of a machine in a cloud, which is on the network: where there is
    none that takes a second or two, and after `_ASKING` seconds the run may try for itself.
    """
    found = [True]

    def look() -> None:
        found[0] = _SDKS[what]()

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(_ASKING)
    return found[0]


def _aws() -> bool:
    try:
        sdk, exceptions = import_module("boto3"), import_module("botocore.exceptions")
    except ImportError:
        return any(os.environ.get(name) for name in ("AWS_PROFILE", "AWS_ROLE_ARN"))
    try:
        return sdk.Session().get_credentials() is not None
    except exceptions.BotoCoreError:  # a profile that is not there, a part of a key
        return False


def _google() -> tuple[bool, bool]:
    """Whether there are Google's application default credentials, and a project with them."""
    try:
        sdk, exceptions = import_module("google.auth"), import_module("google.auth.exceptions")
    except ImportError:
        named = bool(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"))
        return named, named or bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))
    try:
        return True, sdk.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[1] is not None
    except exceptions.GoogleAuthError:
        return False, bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))


_SDKS: dict[str, Callable[[], bool]] = {
    "@aws": _aws,
    "@google": lambda: _google()[0],
    "@project": lambda: _google()[1],
}
_SDK_NAMES = {"@aws": "an AWS login", "@google": "Google's application default credentials"}
_LOGINS = {"@aws": "aws configure", "@google": "gcloud auth application-default login"}


def _told(need: Need, given: Given) -> Need:
    """A need, or only the package where that is all that one of its ways lacks."""
    for way in need:
        rest = tuple(word for word in way if not _has(word, given))
        if len(way) > len(rest) and all(word[0] == "+" for word in rest):
            return (rest,)
    return need


def _needed(needs: tuple[Need, ...]) -> str:
    """The needs as a sentence names them, each way once."""
    parts, named = list[str](), set[str]()
    for need in needs:
        words = [word for way in need for word in way]
        fresh = [way for way in _shown(need) if way not in named]
        named.update(fresh)
        kind = "a key" if "api_key" in words else "an address" if "api_base" in words else ""
        parts.append(f"{kind} ({_or(fresh)})" if kind and fresh else kind or _or(fresh))
    return ", and ".join(parts)


def _shown(need: Need) -> list[str]:
    """A few ways to meet a need; those by parameter are left to the ways out."""
    shown = [" + ".join(word for word in way if word.isupper()) for way in need if way[0].isupper()][:_SHOWN]
    for word in (way[0] for way in need):
        if word[0] == "+":
            shown.append(f"the package {_package(word)}")
        elif word[0] == "~":
            shown.insert(0, f"a login in {word}")
        elif word in _SDK_NAMES:
            shown.append(_SDK_NAMES[word])
    return shown


def _ways_out(needs: tuple[Need, ...]) -> list[str]:
    words = [word for need in needs for way in need for word in way]
    firsts = [next((way for way in need if all(map(str.isupper, way))), ()) for need in needs]
    exports = " ".join(f"{word}=…" for word in dict.fromkeys(word for way in firsts for word in way))
    packages = " ".join(_package(word) for need in needs for word in need[0] if word[0] == "+")
    named = next((word for need in needs if (word := _parameter(need))), None)
    ways = {
        f"pip install {packages}": packages,
        f"set what is missing (export {exports})": exports,
        "name the key's variable with --api-key-env VAR": "api_key" in words,
        "give the address with --api-base URL": "api_base" in words,
        f"give what is no secret with -p, as in -p {named}=…": named,
        **{f"log in ({login})": word in words for word, login in _LOGINS.items()},
        "log in once with litellm": any(word[0] == "~" for word in words),
    }
    return [way for way, holds in ways.items() if holds]


def _parameter(need: Need) -> str | None:
    """The parameter that meets a need which is none of a key, an address or a login."""
    words = [way[0] for way in need if len(way) == 1]
    if any(word in ("api_key", "api_base", "@aws", "@google") or word[0] in "~+" for word in words):
        return None
    return words[0].lower() if words else None


def _package(word: str) -> str:
    return _PACKAGES.get(word[1:], word[1:])


def _or(parts: list[str]) -> str:
    return ", ".join(parts[:-1]) + " or " * (len(parts) > 1) + parts[-1]
