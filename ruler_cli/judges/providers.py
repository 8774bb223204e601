"""Needs, prices and limits of providers and models, known before a call without importing litellm.

litellm's own check names all variables of some providers, none of others, and never the alternatives. So
what the providers that most people use need stands here, as litellm's source reads it. The others are left
to litellm: see `LitellmJudge.check`. No judge is refused that could work: an SDK that finds credentials by
itself is asked if it does. Prices and limits come from the list that is part of litellm.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.settings.judges import OWN_ADDRESS, SIGNING
from ruler_cli.settings.model_list import beside_litellm, listed
from ruler_cli.settings.parameters import body_of
from ruler_cli.settings.suggestions import nearest
from ruler_cli.types import Usage, words_of

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""
OWN_ENGINES = words_of("hosted_vllm vllm sglang ollama ollama_chat lm_studio")
QUEUEING_ENGINES = ("hosted_vllm/", "vllm/", "sglang/")
"""Engines that have calls wait in a queue, however many, and refuse none."""


class MissingCredentialsError(UsageError):
    """This machine lacks the key, login, account or SDK of a judge; the message names what to give."""


def missing_key(name: str, variable: str) -> MissingCredentialsError:
    """Return the error of a judge without a key: it names the variable and the alternatives."""
    remedy = (
        f"set it (export {variable}=…), name another variable with --api-key-env VAR, or try the "
        "pipeline without a model: -m offline"
    )
    problem = f"judge {name} needs a key and {variable} is not set"
    return MissingCredentialsError(problem, remedy)


def unknown_judge(name: str) -> UsageError:
    """Return the error of a name that is no provider's; it has the embedded judge that is similar."""
    similar = nearest(name, EMBEDDED)
    hint = f"did you mean `{similar}`? Else write" if similar else "write"
    remedy = (
        f"{hint} provider/model, e.g. anthropic/…, or a judge of ruler.toml (`ruler config` lists "
        "them), or use --api-base for an endpoint of your own"
    )
    return UsageError("no such provider or model", remedy, place=f"judge {name}")


_AWS = """AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY | @aws | AWS_PROFILE_NAME
 | AWS_WEB_IDENTITY_TOKEN AWS_ROLE_NAME"""
_BEARER = "AWS_BEARER_TOKEN_BEDROCK | api_key"
_MANTLE = f"BEDROCK_MANTLE_API_KEY | {_BEARER}"
_ENTRA = """AZURE_AD_TOKEN | AZURE_OPENAI_AD_TOKEN
 | AZURE_TENANT_ID AZURE_CLIENT_ID AZURE_CLIENT_SECRET +azure.identity
 | AZURE_USERNAME AZURE_PASSWORD AZURE_CLIENT_ID +azure.identity
 | tenant_id client_id client_secret +azure.identity | azure_ad_token_provider"""
_GOOGLE = "VERTEXAI_CREDENTIALS | @google | vertex_credentials | vertex_ai_credentials"
_NEEDS = f"""
cerebras deepinfra deepseek groq openai xai: *_API_KEY | api_key
anthropic anthropic_text: ANTHROPIC_API_KEY | ANTHROPIC_AUTH_TOKEN | api_key
 | ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID
azure azure_text: AZURE_API_KEY | AZURE_OPENAI_API_KEY | api_key | {_ENTRA} ; AZURE_API_BASE | api_base
azure_ai: AZURE_AI_API_KEY | AZURE_API_KEY | api_key | AZURE_OPENAI_API_KEY | {_ENTRA}
 ; AZURE_AI_API_BASE | api_base
bedrock: +boto3 | {_BEARER} ; {_AWS} | {_BEARER}
bedrock_mantle: +boto3 | {_MANTLE} ; {_AWS} | {_MANTLE}
sagemaker sagemaker_chat sagemaker_nova: +boto3 ; {_AWS}
cohere cohere_chat: COHERE_API_KEY | CO_API_KEY | api_key
featherless_ai: FEATHERLESS_AI_API_KEY | FEATHERLESS_API_KEY | api_key
fireworks_ai: FIREWORKS_API_KEY | FIREWORKS_AI_API_KEY | api_key | FIREWORKSAI_API_KEY | FIREWORKS_AI_TOKEN
gemini: GEMINI_API_KEY | GOOGLE_API_KEY | api_key | PALM_API_KEY
hosted_vllm lm_studio: *_API_BASE | api_base
vllm: api_base
huggingface: HF_TOKEN | HUGGINGFACE_API_KEY | api_key
mistral: MISTRAL_API_KEY | MISTRAL_AZURE_API_KEY | api_key
openrouter: OPENROUTER_API_KEY | OR_API_KEY | api_key
aiohttp_openai custom_openai text-completion-openai: OPENAI_API_KEY | api_key
together_ai: TOGETHERAI_API_KEY | TOGETHER_API_KEY | api_key | TOGETHER_AI_API_KEY | TOGETHER_AI_TOKEN
vercel_ai_gateway: VERCEL_AI_GATEWAY_API_KEY | VERCEL_OIDC_TOKEN | api_key
vertex_ai vertex_ai_beta: +google.auth ; {_GOOGLE}
 ; VERTEXAI_PROJECT | vertex_project | @project | vertex_ai_project | {_GOOGLE.replace("@google |", "")}
"""
"""The needs of the most used providers: `;` separates needs, `|` the alternatives, a space their words.

A word in capitals is a variable, with `*` for the provider's name, or the parameter of that name in small
letters. Any other word is a parameter; `api_key` and `api_base` also stand for what the user gives. `+` is
a package, `@` what an SDK finds by itself. A message names the first three alternatives.
"""
_KEY_ENDS = ("KEY", "TOKEN", "SECRET", "JWT")
NEEDS = {
    name: needs
    for names, needs in re.findall(r"^([\w -]+):((?:.|\n )+)", _NEEDS, re.MULTILINE)
    for name in names.split()
}
Need = list[list[str]]
"""Alternatives, each of words that meet a need together."""


@lru_cache(1)
def providers() -> frozenset[str]:
    """The names of litellm's providers, from the source of its list."""
    source = beside_litellm("types/utils.py").decode()
    members = source.partition("class LlmProviders(")[2].partition("\n\n\n")[0]
    return frozenset(re.findall(r' = "([\w-]+)"', members) or NEEDS)


def provider_of(model: str) -> str | None:
    """The first word of a name if it is one of litellm's providers."""
    name, slash, _ = model.partition("/")
    return name if slash and name in providers() else None


def needs_of(provider: str | None) -> list[Need]:
    """The needs of a provider; of one that is not listed a key, in a variable named for the provider."""
    if provider is None:
        return []
    word = provider.upper().replace("-", "_")
    begin = f"{word}_", f"{word}AI_"
    names = (name for name in os.environ if name.startswith(begin))
    keys = (name for name in names if name.endswith(_KEY_ENDS))
    text = NEEDS.get(provider) or "|".join([*keys, "api_key"])
    return [
        [words.split() for words in need.split("|")]
        for need in text.replace("*", word).split(";")
    ]


def variables(
    provider: str | None,
    *,
    of_key: bool = False,
) -> list[str]:
    """The variables that may be read for a provider, or for its key; those of its key first."""
    ways = [
        words
        for need in needs_of(provider)
        if not of_key or ["api_key"] in need
        for words in need
    ]
    return [word for words in ways for word in words if word.isupper()]


_HOMES = dict(
    line.split(": ")
    for line in """\
anthropic: anthropic.com
deepseek: deepseek.com
azure: azure.com azure-api.net azure.us azure.cn
baseten: baseten.co
bedrock: amazonaws.com amazonaws.com.cn api.aws
cerebras: cerebras.ai
dashscope: aliyuncs.com
databricks: databricks.com azuredatabricks.net
gemini: googleapis.com
github: githubcopilot.com github.ai
groq: groq.com
hyperbolic: hyperbolic.xyz
meta: llama.com
minimax: minimax.io minimaxi.com
mistral: mistral.ai
moonshot: moonshot.ai moonshot.cn
oci: oraclecloud.com
openai: openai.com
ovhcloud: ovh.net
qwencloud: aliyuncs.com
sagemaker: amazonaws.com amazonaws.com.cn
snowflake: snowflakecomputing.com
together: together.ai together.xyz
vercel: vercel.sh
vertex: googleapis.com
volcengine: volces.com
watsonx: ibm.com
xai: x.ai
zai: z.ai bigmodel.cn""".splitlines()
)
"""Domains of providers that are not named for them."""


def home_of(provider: str) -> tuple[str, ...]:
    """The ends of the host names of a provider's own addresses."""
    word = provider.partition("_")[0]
    domains = _HOMES.get(word, f"{word}.com {word}.ai")
    return tuple(f".{domain}" for domain in domains.split())


def base_variables(provider: str) -> list[str]:
    """The variables from which litellm takes the address of a provider."""
    stems = (provider, provider.replace("_", ""), provider.partition("_")[0])
    names = [f"{stem}_{end}" for stem in stems for end in ("api_base", "base_url")]
    if provider.startswith("bedrock"):
        names.append("aws_bedrock_runtime_endpoint")
    return [name.upper().replace("-", "_") for name in names]


def is_own_model(name: str, provider: str) -> bool:
    """Return whether litellm's list has a model, by its name with the provider, as the provider's own."""
    listed_so = str(listed(name).get("litellm_provider")).startswith(provider)
    return listed_so and "/" in name and provider not in OWN_ENGINES


_FREE = ("extra_headers", "headers")
"""Parameters with which a call may need no credentials, or has them from elsewhere."""
_BEARERS = ("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_MANTLE_API_KEY")
_OPTIONS = {
    "api_key": "--api-key-env VAR",
    "api_base": "--api-base URL",
    "@aws": "an AWS login (aws configure)",
    "@google": "Google's application default credentials (gcloud auth application-default login)",
    "@project": "a project of gcloud (gcloud config set project NAME)",
}
_NO_LOGIN = {"ImportError", "BotoCoreError", "GoogleAuthError"}
"""Names of errors, or of their bases, of a machine without a login: a profile that is not there, for one."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The means of a judge of a provider: its parameters, and if there are a key and an address for it."""

    provider: str | None
    params: Mapping[str, Any]
    has_key: bool
    has_address: bool

    def missing(self) -> list[Need]:
        """The needs of the provider that are not met; empty if that cannot be known.

        At an address that is not the provider's own no key is needed, unless one is always sent.
        """
        if any(map(self.params.get, _FREE)):
            return []
        needs = needs_of(self.provider)
        away = self.has_address and not _is_anywhere(needs)
        return [
            need
            for need in needs
            if not (self._meet(need) or (away and ["api_key"] in need))
        ]

    def finds_itself(self) -> bool:
        """Return whether litellm may find the key by itself for an address that the user gave.

        It may if the provider has no address of its own and its key is set, and if an SDK signs the call or
        gets a token. It may not with a bearer key of a variable; litellm takes OpenAI's for some providers.
        """
        provider = self.provider or ""
        if provider in OWN_ADDRESS:
            return self._meet(needs_of(provider)[0])
        return provider.startswith(SIGNING) and not any(map(os.environ.get, _BEARERS))

    def refuse(self, name: str) -> None:
        """Raise UsageError if a judge has unmet needs; the message names three ways to meet each."""
        needs = self.missing()
        if not needs:
            return
        ways = [[" + ".join(map(_way, ws)) for ws in need[:3]] for need in needs]
        wanted = [" or ".join(ways_of_need) for ways_of_need in ways]
        raise (UsageError if _is_anywhere(needs) else MissingCredentialsError)(
            f"judge {name} needs {', and '.join(wanted)}",
            "set what is missing, or try the pipeline without a model: -m offline",
        )

    def _meet(self, need: Need) -> bool:
        return any(all(map(self._have, words)) for words in need)

    def _have(self, word: str) -> bool:
        """Return whether one word of a need is met, here or in the environment."""
        if word == "api_key":
            return self.has_key
        if word == "api_base":
            return self.has_address
        if word[0] == "+":
            return is_installed(word[1:])
        if word[0] == "@":
            return _finds(word, frozenset(os.environ.items()))
        variable = word.isupper() and os.environ.get(word)
        return bool(variable or self.params.get(word.lower()))


def _is_anywhere(needs: list[Need]) -> bool:
    """Return whether needs have an address that only the user knows."""
    return any(["api_base"] in need for need in needs)


def _way(word: str) -> str:
    """Return the way to give what a word of a need stands for."""
    if word[0] == "+":
        package = word[1:].replace(".", "-")
        return f"the package {package} (pip install {package})"
    if word in _OPTIONS or word.isupper():
        return _OPTIONS.get(word, word)
    return f"-p {word}=…"


def is_installed(package: str) -> bool:
    """Return whether a package is installed, without its import."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


@lru_cache(maxsize=16)
def _finds(
    word: str,
    _environment: frozenset[tuple[str, str]],
) -> bool:
    """Return whether an SDK finds credentials in the same manner as for a call.

    It may ask the metadata service of a machine in a cloud, or programs of the user's own. After an error
    that it does not expect the answer is yes, and the run may try.
    """
    scope = "https://www.googleapis.com/auth/cloud-platform"
    try:
        if word == "@aws":
            session = importlib.import_module("boto3").Session()
            return session.get_credentials() is not None
        login = importlib.import_module("google.auth").default(scopes=[scope])
        return login[word == "@project"] is not None
    except Exception as error:  # noqa: BLE001 - the SDKs are not there to be asked for their errors
        bases = {base.__name__ for base in type(error).__mro__}
        return bases.isdisjoint(_NO_LOGIN)


_TIERS = {"fast": "priority", "batch": "batches"}
"""Service tiers that the list has under another name."""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token: of the prompt, of the completion, and of the cached part of the prompt.

    `writing` is what a token of the prompt costs more if it is put into the cache, `lasting` more than that if it
    stays there for an hour, `thinking` what a token of the completion costs more if it is thought. `above` are the
    prices of calls with more prompt tokens than a bound, the highest bound first, `tiers` those of service tiers.
    """

    prompt: float
    completion: float
    cached: float
    writing: float = 0.0
    lasting: float = 0.0
    thinking: float = 0.0
    above: tuple[tuple[int, Price], ...] = ()
    tiers: Mapping[str, Price] = field(default_factory=dict)

    def of(self, usage: Usage) -> float:
        """USD of a call, or of calls alike: the price for so long a prompt holds for all tokens, each billed once."""
        price = self.tiers.get(_TIERS.get(usage.tier, usage.tier), self)
        mean = usage.prompt / (usage.calls or 1)
        longer = (dear for bound, dear in price.above if mean > bound)
        price = next(longer, price)
        return (
            max(0, usage.prompt - usage.cached) * price.prompt
            + usage.cached * price.cached
            + usage.written * price.writing
            + usage.hourly * price.lasting
            + usage.completion * price.completion
            + usage.reasoning * price.thinking
        )

    def asked(self, params: Mapping[str, Any]) -> Price:
        """The price with these parameters: their service tier counts for a reply that names none."""
        name = str(body_of(params).get("service_tier")).lower()
        tier = self.tiers.get(_TIERS.get(name, name))
        standard = {"default": self, "standard": self}
        return replace(tier, tiers={**self.tiers, **standard}) if tier else self

    @property
    def halved(self) -> Price:
        """Half the price, as OpenAI and Anthropic bill a batch; cached tokens cost as much as others."""
        return Price(self.prompt / 2, self.completion / 2, self.prompt / 2)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Price and limits of a model; None is unknown.

    `context` and `max_output` are tokens. A model with `reasoning` bills more completion tokens than its
    answer shows; it is False for a listed model that the list does not mark. `pictures`: it reads them.
    `responses`: it has no chat completions, only the Responses API.
    """

    price: Price | None = None
    context: int | None = None
    max_output: int | None = None
    reasoning: bool | None = None
    pictures: bool = False
    responses: bool = False


def model_info(name: str) -> ModelInfo:
    """Look up a model, with and without its provider."""
    entry = listed(name)
    return ModelInfo(
        _price(entry),
        entry.get("max_input_tokens"),
        entry.get("max_output_tokens"),
        entry.get("supports_reasoning", False) if entry else None,
        entry.get("supports_vision") is True,
        entry.get("mode") == "responses",
    )


def stated_price(per_million: tuple[float, float]) -> Price:
    """The price that a user states in USD per million tokens of prompt and completion."""
    prompt, completion = (x / 1e6 for x in per_million)
    return Price(prompt, completion, prompt)


def listed_batch_price(name: str) -> Price | None:
    """The price of a model in a batch; None if the list has none."""
    price = model_info(name).price
    return price and price.tiers.get("batches")


_PRICED = words_of("""
input_cost_per_token output_cost_per_token cache_read_input_token_cost cache_creation_input_token_cost
cache_creation_input_token_cost_above_1hr output_cost_per_reasoning_token
""")
"""Fields of an entry, in the order of those of a `Price`."""
_STEP = re.compile(r"(?:in|out)put_cost_per_token(_above_(\d+)k_tokens)?(_[a-z]+)?")
"""A field for a length of the prompt, or for a service tier."""
_CACHED = {"fireworks_ai": 0.5}
"""Share of the price of the prompt that a cached token costs where the list does not say."""
_INCLUSIVE = ("xai",)
"""Providers whose higher price begins with a prompt of as many tokens as its field names."""


def _price(entry: Mapping[str, Any]) -> Price | None:
    """The prices of an entry, by the length of the prompt and by service tier; None if it has none."""
    base_rate = {_PRICED[1]: entry.get(_PRICED[1])}
    steps = [step for step in entry.get("tiered_pricing") or () if "range" in step]
    if steps:
        return _ladder(
            {step["range"][0]: _rates({**base_rate, **step}) for step in steps}
        )
    fields = [match.groups("") for name in entry if (match := _STEP.fullmatch(name))]
    less = entry.get("litellm_provider") in _INCLUSIVE
    bounds = {int(k) * 1000 - less if k else 0: above for above, k, _ in fields}
    prices = {
        tier: _ladder({at: _rates(entry, bounds[at], tier) for at in bounds})
        for *_, tier in fields
    }
    price = prices.pop("", None)
    tiers = {tier[1:]: dear for tier, dear in prices.items() if dear}
    return price and replace(price, tiers=tiers)


def _ladder(prices: Mapping[int, Price | None]) -> Price | None:
    """The price of the lowest bound, with those above it; None if it has none."""
    steps = [(bound, price) for bound in sorted(prices) if (price := prices[bound])]
    return replace(steps[0][1], above=tuple(steps[:0:-1])) if steps else None


def _rates(
    entry: Mapping[str, Any],
    above: str = "",
    tier: str = "",
) -> Price | None:
    """The price for one length of the prompt and one service tier; None if the entry has none.

    What the list does not have for a tier costs as usual, and in a batch half of it.
    """
    rest = 0.5 if tier == "_batches" else 1.0
    values = []
    for name in _PRICED:
        ways = [
            (above + tier, 1.0),
            (above, rest),
            (tier, 1.0),
            ("", rest),
        ]
        listed = ((entry.get(name + end), share) for end, share in ways)
        usd = (price * share for price, share in listed if price is not None)
        values.append(next(usd, None))
    prompt, completion, cached, written, hourly, _ = values
    if prompt is None or completion is None:
        return None
    if cached is None:
        cached = prompt * _CACHED.get(entry.get("litellm_provider", ""), 1)
    written = written or prompt
    extra = (written - prompt, (hourly or written) - written)
    thought = entry.get(_PRICED[-1] + above + tier, completion)
    return Price(prompt, completion, cached, *extra, thought - completion)


LIMITS = ("max_completion_tokens", "max_tokens")
"""Names of the parameter that bounds an answer."""


def limit_name(params: Mapping[str, Any]) -> str | None:
    """The parameter with which the user bounds an answer, if any."""
    return next((name for name in LIMITS if name in params), None)


def stated_limit(params: Mapping[str, Any]) -> int | None:
    """The completion tokens that the user's own parameters allow; None if they do not bound them."""
    value = params.get(limit_name(params) or "")
    return value if type(value) is int and value > 0 else None
