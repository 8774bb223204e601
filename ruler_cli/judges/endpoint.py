"""Where an endpoint is, which key goes there and by which proxy: one set of rules for all that is sent."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import MissingKeyError
from ruler_cli.settings import JudgeSettings

OPENAI = "https://api.openai.com/v1"
HERE = "http://localhost"
"""Where an engine of one's own is, if nothing is said of it."""
DIRECT = {"openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"), "hosted_vllm": ("", "HOSTED_VLLM_API_BASE")}
"""Providers on the direct path: the variable of the key, the variable of the endpoint."""
PREFIXES = ("openai", "hosted_vllm", "vllm", "sglang", "ollama", "ollama_chat", "lm_studio", "litellm_proxy")
"""Provider words in front of a model's own name, which an endpoint does not know."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address up to `/v1`, without a slash at its end, the key, and the model as it is known there."""

    base: str
    key: str | None = field(repr=False)
    model: str


def direct(settings: JudgeSettings) -> Endpoint:
    """The OpenAI-compatible endpoint of a judge; UsageError where its key or address is missing."""
    name = settings.model
    provider, _, rest = name.partition("/")
    key_variable, base_variable = DIRECT.get(provider, ("", ""))
    base = address_of(settings)
    if base is None:
        hint = f" or set {base_variable}" if base_variable else ""
        raise UsageError(f"judge {name}: where is it? Give --api-base URL (it usually ends in /v1){hint}")
    check_address(base)
    key = key_for(settings, key_variable)
    return Endpoint(base.rstrip("/"), key, rest if rest and provider in PREFIXES else name)


def address_of(settings: JudgeSettings) -> str | None:
    """The address as it is given, by a variable, or known; None where it is not."""
    provider = settings.model.partition("/")[0]
    given = settings.api_base or os.environ.get(DIRECT.get(provider, ("", ""))[1])
    return given or (OPENAI if provider == "openai" else None)


def model_there(settings: JudgeSettings) -> str:
    """The name by which an endpoint knows the model; UsageError where name or parameters are no JSON."""
    provider, _, rest = settings.model.partition("/")
    model = rest if rest and provider in PREFIXES else settings.model
    try:
        orjson.dumps([model, settings.params])
    except TypeError as error:  # told before anything is sent
        raise UsageError(f"-m or -p: cannot be sent to the judge ({error})") from None
    return model


def key_for(settings: JudgeSettings, variable: str) -> str | None:
    """The key that is named, else the provider's own, from its variable (`""`: it needs none).

    A key goes to another host than its provider's only when it is named for it. UsageError where it is
    needed and not there.
    """
    key = named_key(settings)
    if key is None and variable and settings.api_base is None:
        key = _read_key(settings.model, variable)
    return key


def named_key(settings: JudgeSettings) -> str | None:
    """The key that the user named, if any; UsageError where its variable is not set."""
    if settings.api_key_env is None:
        return settings.api_key
    return _read_key(settings.model, settings.api_key_env)


def _read_key(name: str, variable: str) -> str:
    """A key without the line break that mounted secrets end in."""
    key = os.environ.get(variable)
    if not key:
        raise MissingKeyError(name, variable)
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError(f"the key in {variable} holds characters that no key has; set it anew")
    return key


def check_address(base: str) -> None:
    """UsageError unless an endpoint can be called; it is not shown, since it may hold a password."""
    try:
        parts = urlsplit(base)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise UsageError(
            "--api-base: is no http:// or https:// address with a host, e.g. http://localhost:8000/v1"
        )
    if parts.username or parts.password:
        raise UsageError("--api-base: holds a name or password; name a key with --api-key-env instead")


def proxy_of(base: str) -> str | None:
    """The proxy that the environment names for an endpoint, if any."""
    parts = urlsplit(base)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)
