"""A judge's name → the way it is reached."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import EMBEDDED, missing_key, unknown_judge
from ruler_cli.judges.interface import Judge
from ruler_cli.judges.nobody import Nobody
from ruler_cli.judges.prices import Model, Price, known, stated
from ruler_cli.nearest import nearest
from ruler_cli.settings import JudgeSettings

_OPENAI = "https://api.openai.com/v1"
_DIRECT = {"openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"), "hosted_vllm": ("", "HOSTED_VLLM_API_BASE")}
"""Providers on the direct path: the variable of the key, the variable of the endpoint."""
_PREFIXES = ("openai", "hosted_vllm", "vllm", "sglang", "ollama", "ollama_chat", "lm_studio", "litellm_proxy")
"""Provider words in front of a model's own name, which an endpoint does not know."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge, not yet open, with its price and context where they are known; `embedded` needs no call."""

    judge: Judge
    price: Price | None
    context: int | None
    embedded: bool = False


def model_of(settings: JudgeSettings) -> Model:
    """What is known of the judge's price and context; nothing is asked, no key is needed.

    UsageError where an embedded judge's name is misspelt: it would be looked for at providers, for seconds.
    """
    given = stated(settings.price) if settings.price else None
    if settings.model in EMBEDDED:
        return Model(Price(0.0, 0.0, 0.0), reasoning=False)
    if settings.api_base:  # what stands behind an endpoint of one's own is not known by its name
        return Model(given)
    found = known(settings.model)
    if found == Model() and "/" not in settings.model and nearest(settings.model, EMBEDDED, 0.75):
        raise UsageError(unknown_judge(settings.model))
    return replace(found, price=given or found.price)


def choose(settings: JudgeSettings) -> Chosen:
    """Pick the way to the judge; UsageError where its key or endpoint is missing."""
    model = model_of(settings)
    return Chosen(_judge(settings), model.price, model.context, settings.model in EMBEDDED)


def unasked(settings: JudgeSettings) -> Chosen:
    """What is known of a judge whose kept answers are all that counts; UsageError where none are kept."""
    if settings.model in EMBEDDED:
        raise UsageError(
            f"judge {settings.model}: it is asked as it is needed, and the ledger keeps no answers of it; "
            "name the judge whose answers are kept, with -m"
        )
    model = model_of(settings)
    return Chosen(Nobody(settings.model), model.price, model.context)


def _judge(settings: JudgeSettings) -> Judge:
    name = settings.model
    if name == "offline":
        from ruler_cli.judges.offline import Offline

        if settings.params:
            raise UsageError(f"-p {next(iter(settings.params))}: judge offline takes no parameters")
        return Offline()
    if name == "simulated":
        from ruler_cli.judges.simulated import Model as SimulatedModel
        from ruler_cli.judges.simulated import Simulated

        try:
            return Simulated(SimulatedModel.of(settings.params))
        except ValueError as error:
            raise UsageError(str(error)) from None
    provider, _, rest = name.partition("/")
    direct = settings.api_base is not None or provider in _DIRECT
    if settings.via == "litellm" or (settings.via == "auto" and not direct):
        from ruler_cli.judges.through_litellm import LitellmJudge

        key = _named_key(settings)
        return LitellmJudge(name, name, key, settings.api_base, settings.timeout, settings.params)
    from ruler_cli.judges.http import HttpJudge

    key_variable, base_variable = _DIRECT.get(provider, ("", ""))
    base = settings.api_base or os.environ.get(base_variable) or (_OPENAI if provider == "openai" else None)
    if base is None:
        hint = f" or set {base_variable}" if base_variable else ""
        raise UsageError(f"judge {name}: where is it? Give --api-base URL (it usually ends in /v1){hint}")
    _check_address(base)
    key = _named_key(settings)
    # a key goes to another host than its provider's only when it is named for it
    if key is None and key_variable and settings.api_base is None:
        key = os.environ.get(key_variable)
        if not key:
            raise UsageError(missing_key(name, key_variable))
        key = _clean_key(key_variable, key)
    model = rest if rest and provider in _PREFIXES else name
    try:
        orjson.dumps([model, settings.params])
    except TypeError as error:  # told before anything is sent
        raise UsageError(f"-m or -p: cannot be sent to the judge ({error})") from None
    return HttpJudge(name, model, base.rstrip("/"), key, settings.timeout, settings.params)


def _named_key(settings: JudgeSettings) -> str | None:
    if settings.api_key_env is None:
        return settings.api_key
    key = os.environ.get(settings.api_key_env)
    if not key:
        raise UsageError(missing_key(settings.model, settings.api_key_env))
    return _clean_key(settings.api_key_env, key)


def _clean_key(variable: str, key: str) -> str:
    """A key without the line break that mounted secrets end in."""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError(f"the key in {variable} holds characters that no key has; set it anew")
    return key


def _check_address(base: str) -> None:
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
