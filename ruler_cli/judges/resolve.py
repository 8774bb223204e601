"""Judge settings → the judge, its endpoint, its key, its price and its context."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.judges.chat_completions import (
    WORDLESS,
    AnswerFormat,
    first_format,
)
from ruler_cli.judges.decisions import ROUTES, Route, refuse_parameters
from ruler_cli.judges.http_client import HttpJudge
from ruler_cli.judges.network import proxy_of
from ruler_cli.judges.providers import (
    EMBEDDED,
    OWN_ENGINES,
    ModelInfo,
    Price,
    base_variables,
    home_of,
    is_own_model,
    key_variables,
    lacks_chat,
    missing_key,
    model_info,
    provider_of,
    stated_price,
    variables_of,
)
from ruler_cli.settings.judges import OWN_ADDRESS
from ruler_cli.settings.keys import secret_texts
from ruler_cli.settings.models import AskSettings, JudgeSettings
from ruler_cli.settings.parameters import body_of, wire_of
from ruler_cli.types import Judge, Request, value

if TYPE_CHECKING:
    from ruler_cli.judges.litellm import LitellmJudge

OPENAI = "https://api.openai.com/v1"
LOCAL = "http://localhost"
"""Address of an engine of one's own, if none is given."""


class DirectProvider(NamedTuple):
    """The variables of a provider's key and of its address, and its own address; `""`: it has none."""

    key: str
    base_variable: str
    address: str = ""


def _providers(rows: str) -> dict[str, DirectProvider]:
    """Read rows of a name, both variables and the address, `-` for none."""
    cells = [
        row.replace(" - ", "  ").split(" ") for row in rows.strip().splitlines()
    ]
    return {name: DirectProvider(*rest) for name, *rest in cells}


DIRECT = _providers(f"""
openai OPENAI_API_KEY OPENAI_BASE_URL {OPENAI}
hosted_vllm - HOSTED_VLLM_API_BASE
""")
"""Providers that are asked directly by chat."""
DECIDING = DIRECT | _providers("""
azure AZURE_API_KEY AZURE_API_BASE
digitalocean DIGITALOCEAN_API_KEY DIGITALOCEAN_API_BASE https://inference.do-ai.run/v1
fireworks_ai FIREWORKS_API_KEY FIREWORKS_API_BASE https://api.fireworks.ai/inference/v1
lm_studio - LM_STUDIO_API_BASE http://localhost:1234/v1
ollama - OLLAMA_API_BASE http://localhost:11434/v1
openrouter OPENROUTER_API_KEY OPENROUTER_API_BASE https://openrouter.ai/api/v1
perplexity PERPLEXITY_API_KEY PERPLEXITY_API_BASE https://api.perplexity.ai/v1
typesafe TYPESAFE_API_KEY TYPESAFE_BASE_URL https://api.typesafe.ai/v1
upstage UPSTAGE_API_KEY UPSTAGE_API_BASE https://api.upstage.ai/v1
vercel_ai_gateway VERCEL_AI_GATEWAY_API_KEY - https://ai-gateway.vercel.sh/typesafe/v1
""")
"""Providers that are asked directly by an API of decision models."""
PREFIXES = ("openai", *OWN_ENGINES, "litellm_proxy")
"""Provider prefixes of model names; endpoints do not know them."""


@value
class Endpoint:
    """The address up to `/v1` without a slash at its end, the key, and the model's name at the endpoint."""

    base: str
    key: str | None = field(repr=False)
    model: str


def endpoint_of(settings: JudgeSettings) -> Endpoint:
    """The OpenAI-compatible endpoint of a judge; UsageError if its key or address is missing."""
    base = address_of(settings)
    if base is None:
        problem = "its address is not known; use --api-base URL (it usually ends in /v1)"
        raise UsageError(problem, place=f"judge {settings.label}")
    check_address(base)
    proxy_of(base)  # one that cannot be used is refused before anything is read
    key = key_for(settings, _provider(settings).key)
    return Endpoint(base, key, model_at_endpoint(settings))


def _direct(settings: JudgeSettings) -> Mapping[str, DirectProvider]:
    """The providers that are asked directly by the API that a judge speaks."""
    return DECIDING if settings.typed else DIRECT


def _provider(settings: JudgeSettings) -> DirectProvider:
    """A judge's provider; one without anything if it is not asked directly."""
    nothing = DirectProvider("", "")
    return _direct(settings).get(settings.provider, nothing)


def address_of(settings: JudgeSettings) -> str | None:
    """The address that is given, that of the provider's variable, or OpenAI's own; None if there is none.

    It ends where an endpoint's paths begin, see `cut_address`.
    """
    provider = _provider(settings)
    stated = settings.api_base or os.environ.get(provider.base_variable)
    if not stated:
        return provider.address or None
    address = cut_address(stated)
    # TypeSafe's client, for one, takes the address of the host
    bare = settings.typed and re.fullmatch("https?://[^/]+", address)
    return f"{address}/v1" if bare else address


def stand_in_of(settings: JudgeSettings) -> str:
    """The address of a stand-in for a provider's model, cut as for the call; empty for any other judge.

    It is one if litellm's list knows the name as the provider's own, and the address is none of the provider's.
    """
    provider = provider_of(settings.model)
    own_model = provider and is_own_model(settings.model, provider)
    if settings.function or not (provider and own_model):
        return ""
    address = settings.api_base
    if _is_direct(settings):
        address = address_of(settings)
    elif not address:
        from dotenv import load_dotenv

        load_dotenv()  # as litellm does at its import
        stated = map(os.environ.get, base_variables(provider))
        address = next(filter(None, stated), None)
    host = urlsplit(address or "").hostname
    at_home = f".{host}".endswith(home_of(provider))
    return cut_address(address) if address and not at_home else ""


def model_at_endpoint(settings: JudgeSettings) -> str:
    """The model's name at an endpoint; UsageError if the name or the parameters cannot be JSON."""
    provider, _, rest = settings.model.partition("/")
    prefixes = (*PREFIXES, *_direct(settings))
    model = rest if rest and provider in prefixes else settings.model
    try:
        orjson.dumps([model, wire_of(settings.params).body])
    except TypeError as error:  # reported before anything is sent
        place = f"judge {settings.label}"
        raise UsageError(
            f"its name or parameters cannot be sent ({error})", place=place
        ) from None
    return model


def key_for(
    settings: JudgeSettings,
    variable: str = "",
) -> str | None:
    """The key that the user names, else that of the provider's variable (`""`: it needs none).

    A provider's key is never sent to an address that the user gave, unless the user names the key too.
    UsageError if a key is needed and missing. The line break at the end of mounted secrets is left out.
    """
    own_address = not settings.api_base or settings.provider in OWN_ADDRESS
    if settings.api_key_env is not None:
        variable = settings.api_key_env
    elif settings.api_key is not None or not (variable and own_address):
        return settings.api_key
    key = os.environ.get(variable)
    if not key:
        raise missing_key(settings.label, variable)
    key = key.strip()
    if not re.fullmatch(r"[!-~]+", key):
        raise UsageError(
            f"the key in {variable} holds characters that no key has; set it again"
        )
    return key


def key_variable(settings: JudgeSettings) -> str | None:
    """The variable whose key is sent: the one that the user names, else the provider's; None if there is none."""
    if settings.api_key_env or settings.api_base or is_embedded(settings):
        return settings.api_key_env
    variables = key_variables(provider_of(settings.model))
    names = [*filter(None, (_provider(settings).key, *variables))]
    # of several the first that is set
    return next(filter(os.environ.get, names), next(iter(names), None))


_CALL = re.compile(
    r"/(chat/completions|completions|responses|messages|embeddings|systemone|decisions)$|(?<=/v1)/(chat|models)$"
)
"""Ends of an address that belong to one call, and not to the endpoint."""
_OLLAMA = re.compile(r"(/ollama)?/api(/(chat|generate|tags|show))?$")
"""Ollama's own API; it speaks the protocol of OpenAI below /v1."""


def cut_address(address: str) -> str:
    """An endpoint's address without a call's path, such as /chat/completions, and without a slash at its end."""
    address = address.strip().rstrip("/")
    return _CALL.sub("", _OLLAMA.sub(r"\1/v1", address)).rstrip("/")


_ADDRESS = re.compile(
    r"https?://(?:\[[0-9a-f:.%]+\]|[^\s/@?#:\[\]]+)(?::0*(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-5]\d{3}))?(?:/[^\s?#]*)?",
    re.IGNORECASE,
)
"""An address with a host, and without a name, a password or a query."""


def check_address(base: str) -> None:
    """Raise UsageError unless an address can be called; the message omits it, since it may hold a password."""
    if not _ADDRESS.fullmatch(base):
        problem = "is not an http:// or https:// address with a host and without a user name, a password or `?`"
        remedy = "write one such as http://localhost:8000/v1, and name a key with --api-key-env"
        raise UsageError(problem, remedy, place="--api-base")


def environment(judges: Iterable[JudgeSettings]) -> dict[str, str]:
    """Return the variables that another machine needs: those that the user names, and the providers' own."""
    names = set[str]()
    for judge in judges:
        names.add(judge.api_key_env or "")
        # a path, as of a model on disk, names no provider
        provider = judge.provider
        if provider in DECIDING or provider_of(judge.model):
            names.update(key_variables(provider), variables_of(provider))
    return {name: os.environ[name] for name in names & os.environ.keys()}


@value
class ResolvedJudge:
    """A judge, not yet open, with its price and its context in tokens, if known; `embedded`: without a model.

    `judge` is None if only its cached replies count. `base` is its address. `account` names what has limits
    of its own, a model behind an address with a key; None if it has none.
    """

    judge: Judge | None
    price: Price | None
    context: int | None
    embedded: bool = False
    base: str | None = None
    account: Hashable = None


def is_embedded(settings: JudgeSettings) -> bool:
    """Return whether a judge is one without a model; a function may have the name of one."""
    return settings.function is None and settings.model in EMBEDDED


def model_of(settings: JudgeSettings) -> ModelInfo:
    """Look up a judge's price and limits, without a call or a key."""
    if is_embedded(settings):
        return ModelInfo(Price(0.0, 0.0, 0.0), reasoning=False)
    model = ModelInfo()
    if not (
        settings.api_base or settings.function
    ):  # else any model may have that name
        tier = str(body_of(settings.params).get("service_tier")).lower()
        if settings.typed:
            # the list has the prices of OpenAI's Decisions as those of a tier
            tier = "decisions"
        model = model_info(settings.model, _TIERS.get(tier, tier))
        if settings.typed and model.context is None:
            context = _CONTEXTS.get(settings.provider)
            model = replace(model, context=context)
    if settings.price:
        model = replace(model, price=stated_price(settings.price))
    return model


_TIERS = {"fast": "priority"}
"""Service tiers that the list has under another name."""
_CONTEXTS = {"typesafe": 65_536, "azure_ai": 32_768}
"""Contexts of the decision models of providers, where the list has none."""


def with_picture_support(
    ask: AskSettings, judge: JudgeSettings, model: ModelInfo | None = None
) -> AskSettings:
    """Return the requests to a judge that reads pictures by its settings, else by litellm's list; or reads none.

    `model` is what is known of it. An embedded judge reads none, and is sent none.
    """
    reads: bool | None = judge.pictures
    if reads is None:
        reads = (model or model_of(judge)).pictures
    if is_embedded(judge):
        reads = None
        ask = replace(
            ask, pictures="leave" if ask.pictures == "leave" else "auto"
        )
    return replace(ask, reads_pictures=reads)


def resolve(settings: JudgeSettings) -> ResolvedJudge:
    """Make the judge; UsageError if its key, its endpoint or its SDK is missing."""
    model = model_of(settings)
    _refuse_typed(settings)
    name = settings.model
    judge: Judge
    base = account = None
    if settings.function is not None:
        from ruler_cli.judges.function import FunctionJudge

        judge = FunctionJudge(settings, settings.function)
    elif name in EMBEDDED:
        judge = import_module(EMBEDDED[name]).judge_of(settings.params)
    else:
        if _is_direct(settings):
            end = endpoint_of(settings)
            judge = _direct_judge(settings, end)
            base, key = end.base, end.key
        else:
            judge = _litellm_judge(settings)
            base, key = judge.base, judge.key
        # no key but its hash, since the process remembers accounts
        account = base, name, hash(key)
    return ResolvedJudge(
        judge,
        model.price,
        model.context,
        is_embedded(settings),
        base,
        account,
    )


def _refuse_typed(settings: JudgeSettings) -> None:
    """Raise UsageError for a judge that cannot speak an API of decision models, or not with its parameters."""
    if not settings.typed:
        return
    if settings.function is not None or is_embedded(settings):
        problem = "speaks no decision-model API"
        place = f"judge {settings.label}"
        raise UsageError(problem, "leave out --api", place=place)
    refuse_parameters(settings.params)


def refuse_word_probabilities(settings: JudgeSettings) -> None:
    """Raise UsageError for a judge whose words have no probabilities.

    Which other endpoints tell none is learned by asking; Anthropic's is known, as a batch there is paid at once.
    """
    anthropic = settings.provider == "anthropic" and not _is_direct(settings)
    if anthropic or is_embedded(settings):
        problem = "returns no probabilities of words"
        remedy = "name another one, or leave out --ask each and --read"
        raise UsageError(problem, remedy, place=f"judge {settings.label}")


def answer_format_of(settings: JudgeSettings) -> AnswerFormat:
    """The answer format that a judge is asked for first; no key is needed."""
    if settings.typed:
        return WORDLESS
    base = (address_of(settings) or LOCAL) if _is_direct(settings) else None
    if base is not None:
        check_address(base)
    return first_format(settings, base)


def cached_only(settings: JudgeSettings) -> ResolvedJudge:
    """Resolve a judge whose cached replies alone count; UsageError if none is ever cached, or for its address."""
    if is_embedded(settings):
        problem = "the ledger keeps none of its replies"
        remedy = "name a judge whose replies it holds, with -m"
        raise UsageError(problem, remedy, place=f"judge {settings.model}")
    if base := address_of(settings):
        check_address(base)
    model = model_of(settings)
    return ResolvedJudge(None, model.price, model.context)


def typed_body(settings: JudgeSettings, request: Request) -> bytes:
    """Return the JSON body of a request with typed questions."""
    model = model_at_endpoint(settings)
    return _route(settings).body(model, wire_of(settings.params).body, request)


def _route(settings: JudgeSettings) -> Route:
    """Return the route by which a decision model is asked first."""
    return ROUTES.get(settings.provider) or ROUTES[settings.spoken]


def _direct_judge(settings: JudgeSettings, end: Endpoint) -> Judge:
    """Return a judge that speaks OpenAI's protocol or an API of decision models."""
    wire = wire_of(settings.params)
    headers = {}
    if end.key and settings.typed and settings.provider == "azure":
        headers["api-key"] = end.key
    elif end.key:
        headers["Authorization"] = f"Bearer {end.key}"
    return HttpJudge(
        end.model,
        settings.timeout,
        wire.body,
        answer_format_of(settings),
        (*secret_texts(settings.params), end.key or ""),
        base=end.base,
        headers=headers | wire.headers,
        query=wire.query,
        route=_route(settings) if settings.typed else None,
    )


def _litellm_judge(settings: JudgeSettings) -> LitellmJudge:
    """Return a judge that is called through litellm."""
    from ruler_cli.judges.litellm import LitellmDecisionJudge, LitellmJudge

    name, base, params = settings.model, settings.api_base, settings.params
    if base is not None:
        check_address(base)
    if lacks_chat(name):
        # the provider stores no chat completion either
        params = {"store": False, **params}
    kind = LitellmDecisionJudge if settings.typed else LitellmJudge
    judge = kind(
        name,
        settings.timeout,
        params,
        answer_format_of(settings),
        secret_texts(params),
        base=base,
        key=key_for(settings),
    )
    judge.check(settings.label)
    return judge


def _is_direct(settings: JudgeSettings) -> bool:
    """Return whether a judge is asked directly by chat or an API of decision models; litellm has the other protocols.

    At an endpoint of one's own, a first word that is no provider's is a part of the model's name.
    """
    if settings.function is not None or settings.model in EMBEDDED:
        return False
    if settings.via != "auto":
        return settings.via == "http"
    if settings.provider in _direct(settings):
        # at an address of the user's, any model may have the name
        return not lacks_chat(settings.model) or bool(settings.api_base)
    provider = provider_of(settings.model)
    return settings.api_base is not None and (
        provider is None or provider in PREFIXES
    )
