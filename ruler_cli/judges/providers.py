"""Needs, prices and limits of providers and models, known before a call without importing litellm.

Prices and limits come from the list that is part of litellm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.settings.judges import OWN_ADDRESS, SIGNING
from ruler_cli.settings.model_list import beside_litellm, listed
from ruler_cli.types import Usage, value, words_of

EMBEDDED = {"offline": "ruler_cli.judges.offline"}
"""Judges without a model, by their modules."""
OWN_ENGINES = words_of("hosted_vllm vllm sglang ollama ollama_chat lm_studio")
QUEUEING_ENGINES = ("hosted_vllm/", "vllm/", "sglang/")
"""Engines that have calls wait in a queue, however many, and refuse none."""


class MissingCredentialsError(UsageError):
    """This machine lacks the key of a judge; the message names the variable to set."""


def missing_key(name: str, variable: str) -> MissingCredentialsError:
    """Return the error of a judge without a key: it names the variable and the alternatives."""
    remedy = (
        f"set it (export {variable}=…), name another variable with --api-key-env VAR, or try the pipeline "
        "without a model: -m offline"
    )
    problem = f"judge {name} needs a key and {variable} is not set"
    return MissingCredentialsError(problem, remedy)


def unknown_judge(name: str) -> UsageError:
    """Return the error of a name that is no provider's."""
    problem = "no such provider or model"
    remedy = (
        "write provider/model, e.g. anthropic/…, `offline`, or a judge of ruler.toml (`ruler config` lists them), or "
        "use --api-base for an endpoint of your own"
    )
    return UsageError(problem, remedy, place=f"judge {name}")


NEEDS = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure": words_of("""
AZURE_API_KEY AZURE_OPENAI_API_KEY AZURE_AD_TOKEN AZURE_OPENAI_AD_TOKEN AZURE_CLIENT_SECRET AZURE_PASSWORD
"""),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex_ai": ("VERTEXAI_CREDENTIALS",),
}
"""The variables of keys, any of which is enough; those of other providers are litellm's to know."""
_SDKS = ("bedrock", "vertex_ai")
"""Providers whose SDK finds a login by itself: if it is missing, or there is none, the first call says so."""
_HOMELESS = ("azure", "hosted_vllm", "lm_studio", "vllm")
"""Providers without an address of their own."""
_KEY_ENDS = ("KEY", "TOKEN", "SECRET", "JWT")
_STEMS = {
    "bedrock": ("AWS",),
    "cohere": ("CO_",),
    "huggingface": ("HF_",),
    "openrouter": ("OR_",),
    "sagemaker": ("AWS",),
    "vertex": ("GOOGLE", "VERTEXAI"),
}
"""First words of variables that are not named for their providers."""


@lru_cache(1)
def providers() -> frozenset[str]:
    """Return the names of litellm's providers, from the source of its list."""
    source = beside_litellm("types/utils.py").decode()
    members = source.partition("class LlmProviders(")[2].partition("\n\n\n")[0]
    return frozenset(re.findall(r' = "([\w-]+)"', members))


def provider_of(model: str) -> str | None:
    """The first word of a name if it is one of litellm's providers."""
    name, slash, _ = model.partition("/")
    return name if slash and name in providers() else None


def variables_of(provider: str) -> list[str]:
    """Return the variables that are named for a provider."""
    word = provider.partition("_")[0]
    stems = (word.upper().replace("-", ""), *_STEMS.get(word, ()))
    return [name for name in os.environ if name.startswith(stems)]


def key_variables(provider: str | None) -> list[str]:
    """Return the variables that may hold the key of a provider: those that are known, or are named for it."""
    if provider is None:
        return []
    if provider in NEEDS:
        return [*NEEDS[provider]]
    names = variables_of(provider)
    return [name for name in names if name.endswith(_KEY_ENDS)]


def base_variables(provider: str) -> list[str]:
    """Return the variables from which litellm takes the address of a provider, the first of which counts."""
    stems = (provider, provider.replace("_", ""), provider.partition("_")[0])
    names = ["AWS_BEDROCK_RUNTIME_ENDPOINT"] * provider.startswith("bedrock")
    for stem in stems:
        word = stem.upper().replace("-", "_")
        names += f"{word}_API_BASE", f"{word}_BASE_URL"
    return names


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


def is_own_model(name: str, provider: str) -> bool:
    """Return whether litellm's list has a model, by its name with the provider, as the provider's own."""
    maker = str(listed(name).get("litellm_provider"))
    named = "/" in name and maker.startswith(provider)
    return named and provider not in OWN_ENGINES


_BEARERS = ("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_MANTLE_API_KEY")
_OWN_CREDENTIALS = re.compile(
    r"(?:extra_)?headers|(?:aws|vertex(?:_ai)?)_(?!region|location|project).*|azure_ad_.*|tenant_id|api_key"
)
"""Parameters with which a call has its credentials from elsewhere, or needs none."""


def refuse_needs(
    name: str,
    provider: str,
    params: Mapping[str, Any],
    *,
    key: bool,
    base: bool,
) -> bool:
    """Raise UsageError if a judge lacks a key or an address; return whether that could be known.

    `key` and `base`: the user names them. No judge is refused that could work.
    """
    variables = key_variables(provider)
    has_key = key or any(map(os.environ.get, variables))
    elsewhere = base and provider not in OWN_ADDRESS
    elsewhere = elsewhere or any(map(_OWN_CREDENTIALS.fullmatch, params))
    satisfied = has_key or elsewhere or provider in _SDKS
    if provider in NEEDS and not satisfied:
        raise missing_key(name, variables[0])
    variable = f"{provider.upper()}_API_BASE"
    if provider in _HOMELESS and not (base or os.environ.get(variable)):
        remedy = f"set {variable}, or use --api-base URL"
        raise UsageError(f"judge {name} needs an address", remedy)
    return satisfied


def finds_key(provider: str | None) -> bool:
    """Return whether litellm may find the key by itself for an address that the user named.

    It may if the provider has no address of its own and its key is set, and if an SDK signs the call or
    gets a token. It may not with a bearer key of a variable; litellm takes OpenAI's for some providers.
    """
    if provider in OWN_ADDRESS:
        return any(map(os.environ.get, key_variables(provider)))
    signs = (provider or "").startswith(SIGNING)
    return signs and not any(map(os.environ.get, _BEARERS))


@value
class Price:
    """USD per token: of the prompt, of the completion, and of the cached part of the prompt.

    `writing` is what a token of the prompt costs more if it is put into the cache. `above` are the prices of calls
    with more prompt tokens than a bound, the highest bound first.
    """

    prompt: float
    completion: float
    cached: float
    writing: float = 0.0
    above: tuple[tuple[int, Price], ...] = ()

    def of(self, usage: Usage) -> float:
        """USD of a call, or of calls alike: the price for so long a prompt holds for all tokens, each billed once."""
        price = self
        mean = usage.prompt / (usage.calls or 1)
        for bound, dearer in self.above:
            if mean > bound:
                price = dearer
                break
        return (
            max(0, usage.prompt - usage.cached) * price.prompt
            + usage.cached * price.cached
            + usage.written * price.writing
            + usage.completion * price.completion
        )

    @property
    def halved(self) -> Price:
        """Half the price, as OpenAI and Anthropic bill a batch; cached tokens cost as much as others."""
        return Price(self.prompt / 2, self.completion / 2, self.prompt / 2)


@value
class ModelInfo:
    """Price and limits of a model; None is unknown.

    `context` and `max_output` are tokens. A model with `reasoning` bills more completion tokens than its
    answer shows; it is False for a listed model that the list does not mark. `pictures`: it reads them.
    """

    price: Price | None = None
    context: int | None = None
    max_output: int | None = None
    reasoning: bool | None = None
    pictures: bool = False


def model_info(name: str, tier: str = "") -> ModelInfo:
    """Look up a model, with and without its provider; its price is that of a service tier, as the list names it."""
    entry = listed(name)
    return ModelInfo(
        _price(entry, tier and f"_{tier}"),
        entry.get("max_input_tokens"),
        entry.get("max_output_tokens"),
        entry.get("supports_reasoning", False) if entry else None,
        entry.get("supports_vision") is True,
    )


def lacks_chat(name: str) -> bool:
    """Return whether a model of OpenAI's has the Responses API alone, by its name or by the list."""
    if name.startswith("openai/responses/"):
        return True
    return (
        name.startswith("openai/") and listed(name).get("mode") == "responses"
    )


def stated_price(per_million: tuple[float, float]) -> Price:
    """The price that a user states in USD per million tokens of prompt and completion."""
    prompt, completion = (x / 1e6 for x in per_million)
    return Price(prompt, completion, prompt)


def listed_batch_price(name: str) -> Price | None:
    """The price of a model in a batch; None if the list has none."""
    if f"{_INPUT}_batches" in listed(name):
        return model_info(name, "batches").price
    return None


_INPUT = "input_cost_per_token"
_OUTPUT = "output_cost_per_token"
_STEP = re.compile(rf"{_INPUT}(_above_(\d+)k_tokens)")
"""A field for long prompts."""


def _price(entry: Mapping[str, Any], tier: str) -> Price | None:
    """The price of an entry in a service tier, by the length of the prompt; None if it has none."""
    if "tiered_pricing" in entry:
        # its usual price may be that of short prompts alone
        return None
    price = _rates(entry, "", tier)
    above = []
    for name in entry:
        if step := _STEP.fullmatch(name):
            dearer = _rates(entry, step[1], tier)
            if dearer:
                above.append((int(step[2]) * 1000, dearer))
    return price and replace(price, above=tuple(sorted(above, reverse=True)))


def _rates(entry: Mapping[str, Any], above: str, tier: str) -> Price | None:
    """The price for one length of the prompt and one service tier; None if the entry has none.

    What the list does not have for a tier costs as usual, and in a batch half of it. Thought tokens are in the
    completion, and cost the dearer of both prices.
    """
    usual = 0.5 if tier == "_batches" else 1.0
    shares = {above + tier: 1.0, above: usual, tier: 1.0, "": usual}

    def usd(name: str) -> float | None:
        for end, share in shares.items():
            listed_price = entry.get(name + end)
            if listed_price is not None:
                return float(listed_price) * share
        return None

    prompt = usd(_INPUT)
    completion = usd(_OUTPUT)
    if prompt is None or completion is None:
        return None
    thought = entry.get(f"output_cost_per_reasoning_token{above}{tier}")
    cached = usd("cache_read_input_token_cost")
    written = usd("cache_creation_input_token_cost") or prompt
    return Price(
        prompt,
        max(completion, thought or 0.0),
        prompt if cached is None else cached,
        written - prompt,
    )


LIMITS = ("max_completion_tokens", "max_tokens")
"""Names of the parameter that bounds an answer."""


def limit_name(params: Mapping[str, Any]) -> str | None:
    """The parameter with which the user bounds an answer, if any."""
    return next((name for name in LIMITS if name in params), None)


def stated_limit(params: Mapping[str, Any]) -> int | None:
    """The completion tokens that the user's own parameters allow; None if they do not bound them."""
    value = params.get(limit_name(params) or "")
    return value if type(value) is int and value > 0 else None
