"""A judge's name → the way it is reached: live, with which key at which address, or by lines of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import orjson

from ruler_cli.config import JudgeSettings
from ruler_cli.errors import UsageError
from ruler_cli.judges.pricing import Price, PricedModel, known, stated
from ruler_cli.judges.providers import provider_of, variables
from ruler_cli.judges.reply_body import EMBEDDED, MissingKeyError, unknown_judge
from ruler_cli.judges.request_body import Answering, answering
from ruler_cli.suggestions import nearest
from ruler_cli.types import Judge

OPENAI = "https://api.openai.com/v1"
HERE = "http://localhost"
"""Address of an engine of one's own, if none is given."""
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
    key_variable, base_variable = DIRECT.get(settings.model.partition("/")[0], ("", ""))
    base = address_of(settings)
    if base is None:
        hint = f" or set {base_variable}" if base_variable else ""
        raise UsageError(
            f"judge {settings.model}: where is it? Give --api-base URL (it usually ends in /v1){hint}"
        )
    check_address(base)
    key = key_for(settings, key_variable)
    return Endpoint(base.rstrip("/"), key, model_there(settings))


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


def environment(judges: Iterable[JudgeSettings]) -> dict[str, str]:
    """Return the variables with which another machine can ask: those named for keys, the providers' own."""
    named, heads = {judge.api_key_env for judge in judges}, set[str]()
    for judge in judges:
        own, word = list(variables(provider_of(judge.model, judge.params))), judge.model.partition("/")[0]
        named.update(own)
        heads |= {f"{word.upper()}_", *_ALSO.get(word, ())}
        heads |= {f"{name.partition('_')[0]}_" for name in own[:1]}
    begin = tuple(heads)
    return {name: value for name, value in os.environ.items() if name in named or name.startswith(begin)}


_ALSO = {"gemini": ("GOOGLE_",), "vertex_ai": ("VERTEX_", "GOOGLE_")}
"""Beginnings of a provider's variables, beside its name and the first word of its key's variable."""


@dataclass(frozen=True, slots=True)
class ResolvedJudge:
    """A judge, not yet open, with its price and context if they are known; `embedded`: no endpoint.

    `judge` is None if only its cached replies count.
    """

    judge: Judge | None
    price: Price | None
    context: int | None
    embedded: bool = False


def model_of(settings: JudgeSettings) -> PricedModel:
    """Look up a judge's price and context; nothing is asked, no key is needed.

    UsageError where an embedded judge's name is misspelt: it would be looked for at providers, for seconds.
    """
    given = stated(settings.price) if settings.price else None
    if settings.model in EMBEDDED:
        return PricedModel(Price(0.0, 0.0, 0.0), reasoning=False)
    if settings.api_base:  # what stands behind an endpoint of one's own is not known by its name
        return PricedModel(given)
    found = known(settings.model)
    if found == PricedModel() and "/" not in settings.model and nearest(settings.model, EMBEDDED, 0.75):
        raise UsageError(unknown_judge(settings.model))
    return replace(found, price=given or found.price)


def resolve(settings: JudgeSettings) -> ResolvedJudge:
    """Pick the way to the judge; UsageError where its key, its endpoint or its SDK is missing."""
    model = model_of(settings)
    return ResolvedJudge(_judge(settings), model.price, model.context, settings.model in EMBEDDED)


def answers_of(settings: JudgeSettings) -> Answering:
    """The form of the answers that a judge is asked for at first; no key is needed."""
    return answering(settings, (address_of(settings) or HERE) if _straight(settings) else None)


def cached_only(settings: JudgeSettings) -> ResolvedJudge:
    """Resolve a judge of whom only cached replies count; UsageError if none are cached."""
    if settings.model in EMBEDDED:
        raise UsageError(
            f"judge {settings.model}: it is asked as it is needed, and the ledger keeps no answers of it; "
            "name the judge whose answers are kept, with -m"
        )
    model = model_of(settings)
    return ResolvedJudge(None, model.price, model.context)


def _judge(settings: JudgeSettings) -> Judge:
    name = settings.model
    if name == "offline":
        from ruler_cli.judges.offline import Offline

        if settings.params:
            raise UsageError(f"-p {next(iter(settings.params))}: judge offline takes no parameters")
        return Offline()
    if name == "simulated":
        from ruler_cli.judges.simulated import Simulated, SimulatedModel

        try:
            return Simulated(SimulatedModel.of(settings.params))
        except ValueError as error:
            raise UsageError(str(error)) from None
    if not _straight(settings):
        from ruler_cli.judges.litellm import LitellmJudge

        if settings.api_base is not None:
            check_address(settings.api_base)
        key = named_key(settings)
        how = answering(settings, None)
        judge = LitellmJudge(name, name, settings.api_base, key, settings.timeout, settings.params, how)
        judge.check()
        return judge
    from ruler_cli.judges.openai_http import HttpJudge

    there = direct(settings)
    how = answering(settings, there.base)
    return HttpJudge(name, there.model, there.base, there.key, settings.timeout, settings.params, how)


def _straight(settings: JudgeSettings) -> bool:
    """Tell if a judge is asked by OpenAI's protocol: where its provider has another, litellm knows it.

    A first word that is no provider's belongs to the model's name at an endpoint of one's own.
    """
    provider = provider_of(settings.model, settings.params)
    if settings.via != "auto" or provider in DIRECT:
        return settings.via != "litellm"
    return settings.api_base is not None and (provider is None or provider in PREFIXES)
