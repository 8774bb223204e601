"""Names of judges: the embedded ones, litellm's providers, and the credentials that each provider needs.

`litellm.validate_environment` names all variables of some providers, none of others, and never the
alternatives; so they stand here as litellm's source reads them. Nothing here imports litellm, which takes
seconds. No judge is refused that could work: an SDK that finds credentials by itself is asked if it does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.suggestions import nearest

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""


class MissingKeyError(UsageError):
    """A judge's key is missing; the message names the variable and the alternatives."""

    def __init__(self, name: str, variable: str, *, trial: bool = True) -> None:
        """`trial`: the command can also do without a model."""
        options = [f"set it (export {variable}=…)", "name another variable with --api-key-env VAR"]
        end = ", or try the pipeline without a model: -m offline"
        hints = ", ".join(options) + end if trial else ", or ".join(options)
        super().__init__(f"judge {name} needs a key and {variable} is not set; {hints}")
        self.name, self.variable = name, variable


def unknown_judge(name: str, known: Iterable[str] = ()) -> str:
    """The sentence for a name of no provider, with a similar one of the `known` names if there is one."""
    similar = nearest(name, (*EMBEDDED, *known))
    hint = f"did you mean `{similar}`? Else write" if similar else "write"
    return (
        f"judge {name}: no provider is known by that name; {hint} it as provider/name, e.g. "
        "anthropic/…, or give --api-base for an endpoint of your own"
    )


_AWS = (
    "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY | AWS_PROFILE_NAME | AWS_WEB_IDENTITY_TOKEN AWS_ROLE_NAME | @aws"
)
_BEARER = "api_key | AWS_BEARER_TOKEN_BEDROCK"
_ENTRA = (
    "AZURE_AD_TOKEN | AZURE_OPENAI_AD_TOKEN"
    " | AZURE_TENANT_ID AZURE_CLIENT_ID AZURE_CLIENT_SECRET +azure.identity"
    " | AZURE_USERNAME AZURE_PASSWORD AZURE_CLIENT_ID +azure.identity | azure_ad_token_provider"
    " | tenant_id client_id client_secret +azure.identity"
)
_FILE = "vertex_credentials | vertex_ai_credentials | VERTEXAI_CREDENTIALS"
_GOOGLE = (
    f"+google.auth ; {_FILE} | @google"
    f" ; vertex_project | vertex_ai_project | VERTEXAI_PROJECT | {_FILE} | @project"
)
_WATSONX = (
    "api_key | WATSONX_API_KEY | WATSONX_APIKEY | WX_API_KEY | WATSONX_TOKEN | WATSONX_ZENAPIKEY | apikey"
    " | token | zen_api_key | watsonx_credentials | wx_credentials"
    " ; api_base | WATSONX_API_BASE | WATSONX_URL | WX_URL | WML_URL | url"
    " | watsonx_credentials | wx_credentials"
)
_PROJECT = (
    " ; project_id | WATSONX_PROJECT_ID | WX_PROJECT_ID | PROJECT_ID | WATSONX_DEPLOYMENT_SPACE_ID"
    " | WATSONX_SPACE_ID | WX_SPACE_ID | SPACE_ID | space_id | watsonx_project"
)

_OWN_KEY = """
ai21 aiml amazon_nova assemblyai baseten bytez cerebras charity_engine chutes clarifai codestral
cognition compactifai cortecs darkbloom dashscope deepinfra deepseek edenai empower galadriel github
gradient_ai groq helicone hyperbolic inception libertai maritalk meta minimax modelscope moonshot morph
nadir nebius neosantara nlp_cloud novita nscale nvidia_nim openai parasail pinstripes poe prism publicai
reka sail sambanova synthetic tencent v0 volcengine wandb xai xiaomi_mimo zai
"""
"""Providers that need a key, in the variable of their name and `_API_KEY`."""

_OTHER_KEY = """
ai21_chat AI21_API_KEY ; aiohttp_openai OPENAI_API_KEY ; anthropic_text ANTHROPIC_API_KEY ;
apertis STIMA_API_KEY ; cohere COHERE_API_KEY CO_API_KEY ; cohere_chat COHERE_API_KEY CO_API_KEY ;
cometapi COMETAPI_KEY ; custom_openai OPENAI_API_KEY ; datarobot DATAROBOT_API_TOKEN ;
featherless_ai FEATHERLESS_AI_API_KEY FEATHERLESS_API_KEY ;
fireworks_ai FIREWORKS_API_KEY FIREWORKS_AI_API_KEY FIREWORKSAI_API_KEY FIREWORKS_AI_TOKEN ;
friendliai FRIENDLI_TOKEN FRIENDLIAI_API_KEY ; gemini GEMINI_API_KEY GOOGLE_API_KEY PALM_API_KEY ;
gigachat GIGACHAT_CREDENTIALS GIGACHAT_API_KEY GIGACHAT_ACCESS_TOKEN ;
huggingface HF_TOKEN HUGGINGFACE_API_KEY ; lambda_ai LAMBDA_API_KEY ; meta_llama LLAMA_API_KEY ;
mistral MISTRAL_API_KEY MISTRAL_AZURE_API_KEY ; nano-gpt NANOGPT_API_KEY ;
openrouter OPENROUTER_API_KEY OR_API_KEY ; perplexity PERPLEXITYAI_API_KEY PERPLEXITY_API_KEY ;
qwen_ai_platform QWEN_AI_PLATFORM_API_KEY DASHSCOPE_API_KEY ;
qwencloud QWENCLOUD_API_KEY DASHSCOPE_API_KEY ; replicate REPLICATE_API_KEY REPLICATE_API_TOKEN ;
scaleway SCW_SECRET_KEY ; scx-ai SCX_API_KEY ; tensormesh TENSORMESH_INFERENCE_API_KEY ;
text-completion-codestral CODESTRAL_API_KEY ; text-completion-inception INCEPTION_API_KEY ;
text-completion-openai OPENAI_API_KEY ;
together_ai TOGETHERAI_API_KEY TOGETHER_API_KEY TOGETHER_AI_API_KEY TOGETHER_AI_TOKEN ;
vercel_ai_gateway VERCEL_AI_GATEWAY_API_KEY VERCEL_OIDC_TOKEN
"""
"""Providers that need a key, each with the variables for it."""

_ADDRESS = "custom oobabooga triton vllm xinference"
"""Providers that need an address."""

_NOTHING = "docker_model_runner langflow langgraph lemonade llamafile ollama ollama_chat ovhcloud"
"""Providers without a key at an address that litellm knows: on this machine, except ovhcloud."""

_OTHERS = {
    "a2a": "api_base | A2A_API_BASE",
    "anthropic": "api_key | ANTHROPIC_API_KEY | ANTHROPIC_AUTH_TOKEN"
    " | ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID",
    "azure": f"api_key | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA} ; api_base | AZURE_API_BASE",
    "azure_ai": "api_key | AZURE_AI_API_KEY | AZURE_API_KEY | AZURE_OPENAI_API_KEY"
    f" | {_ENTRA} ; api_base | AZURE_AI_API_BASE",
    "azure_text": f"api_key | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA} ; api_base | AZURE_API_BASE",
    "bedrock": f"{_BEARER} | +boto3 ; {_BEARER} | {_AWS}",
    "bedrock_mantle": f"{_BEARER} | BEDROCK_MANTLE_API_KEY | +boto3"
    f" ; {_BEARER} | BEDROCK_MANTLE_API_KEY | {_AWS}",
    "chatgpt": "~/.config/litellm/chatgpt/auth.json | CHATGPT_TOKEN_DIR",
    "cloudflare": "api_key | CLOUDFLARE_API_KEY ; api_base | CLOUDFLARE_ACCOUNT_ID | CLOUDFLARE_API_BASE",
    "databricks": "api_key | DATABRICKS_API_KEY | DATABRICKS_CLIENT_ID DATABRICKS_CLIENT_SECRET"
    " | +databricks.sdk ; api_base | DATABRICKS_API_BASE | +databricks.sdk",
    "gdc": "api_key | GDC_API_KEY ; api_base | GDC_API_BASE ; +google.auth",
    "github_copilot": "~/.config/litellm/github_copilot/access-token | GITHUB_COPILOT_TOKEN_DIR",
    "heroku": "api_key | HEROKU_API_KEY ; api_base | HEROKU_API_BASE",
    "hosted_vllm": "api_base | HOSTED_VLLM_API_BASE",
    "litellm_proxy": "api_key | LITELLM_PROXY_API_KEY ; api_base | LITELLM_PROXY_API_BASE",
    "lm_studio": "api_base | LM_STUDIO_API_BASE",
    "oci": "OCI_USER | oci_signer ; OCI_FINGERPRINT | oci_signer ; OCI_TENANCY | oci_signer"
    " ; OCI_KEY_FILE | OCI_KEY | oci_signer ; OCI_COMPARTMENT_ID ; +cryptography | oci_signer",
    "petals": "+petals",
    "predibase": "api_key | PREDIBASE_API_KEY ; tenant_id | PREDIBASE_TENANT_ID",
    "ragflow": "api_key | RAGFLOW_API_KEY ; api_base | RAGFLOW_API_BASE",
    "sagemaker": f"+boto3 ; {_AWS}",
    "sagemaker_chat": f"+boto3 ; {_AWS}",
    "sagemaker_nova": f"+boto3 ; {_AWS}",
    "sap": "AICORE_SERVICE_KEY | AICORE_CLIENT_ID | AICORE_CONFIG | AICORE_PROFILE | AICORE_HOME"
    " | VCAP_SERVICES | ~/.aicore/config.json",
    "snowflake": "api_key | SNOWFLAKE_JWT ; api_base | SNOWFLAKE_ACCOUNT_ID | account_id",
    "vertex_ai": _GOOGLE,
    "vertex_ai_beta": _GOOGLE,
    "watsonx": _WATSONX + _PROJECT,
    "watsonx/deployment": _WATSONX,
    "watsonx_text": _WATSONX + _PROJECT,
}
"""Needs of the other providers: `;` separates needs, `|` the alternatives of a need, a space their words.

A word in capitals is a variable, or the parameter of that name in small letters. Any other word is a
parameter; `api_key` and `api_base` also stand for --api-key-env and --api-base. `+` is a package, `~` a file,
`@` credentials that an SDK finds by itself.
"""

Alternative = tuple[str, ...]
"""Words that meet a need together."""
Need = tuple[Alternative, ...]


def _parsed(row: str) -> tuple[Need, ...]:
    return tuple(tuple(tuple(words.split()) for words in need.split("|")) for need in row.split(";"))


_TABLE: dict[str, tuple[Need, ...]] = {
    **{name: _parsed(f"api_key | {name.upper()}_API_KEY") for name in _OWN_KEY.split()},
    **{
        name: _parsed(" | ".join(["api_key", *rest])) for name, *rest in map(str.split, _OTHER_KEY.split(";"))
    },
    **dict.fromkeys(_ADDRESS.split(), _parsed("api_base")),
    **dict.fromkeys(_NOTHING.split(), ()),
    **{name: _parsed(row) for name, row in _OTHERS.items()},
}

PROVIDERS = frozenset(name for name in _TABLE if "/" not in name)
"""litellm's providers of chat completions; a test compares them with `litellm.provider_list`."""


def provider_of(model: str, params: Mapping[str, Any] | None = None) -> str | None:
    """The provider that the parameters name, else the first word of the name; None if litellm has none."""
    own = (params or {}).get("custom_llm_provider")
    word, slash, _ = model.partition("/")
    name = own if isinstance(own, str) else word if slash else None
    return name if name in PROVIDERS else None


def _without_address(provider: str | None) -> bool:
    """Tell if a provider has no address of its own: its key belongs to any address that is given."""
    return any(("api_base",) in need for need in _TABLE.get(provider or "", ()))


def variables(provider: str | None) -> Iterator[str]:
    """The variables that may be read for a provider, those of its key first."""
    return (word for word in _words(needs_of(provider or "", "")) if word.isupper())


def _words(needs: Iterable[Need]) -> list[str]:
    return [word for need in needs for alternative in need for word in alternative]


def needs_of(provider: str, model: str) -> tuple[Need, ...]:
    """The needs of a provider for a model."""
    deeper = "/".join([provider, *model.split("/")[1:2]])
    return _TABLE.get(deeper, _TABLE.get(provider, ()))


_FREE = ("mock_response", "client", "litellm_credential_name", "extra_headers", "headers", "fallbacks")
"""Parameters with which a call may need no credentials, or has them from elsewhere."""
_BEARERS = ("AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_MANTLE_API_KEY")
_ASKING = 10.0
"""Seconds that an SDK may look for credentials; one that takes longer may find some."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Parameters of a judge, and if the user gives a key and an address for it; without the environment."""

    params: Mapping[str, Any]
    has_key: bool
    has_address: bool


def secret(provider: str | None) -> str | None:
    """The key that litellm finds by itself; it is to be removed from every message."""
    words = filter(str.isupper, _words(needs_of(provider or "", "")[:1]))
    return next((value for word in words if (value := os.environ.get(word))), None)


def missing(provider: str, model: str, given: Credentials) -> tuple[Need, ...]:
    """The needs of a provider that are not met; empty if that cannot be known.

    At an address that is not the provider's own no key is needed, unless one is always sent.
    """
    if any(given.params.get(name) for name in _FREE):
        return ()
    needs = needs_of(provider, model)
    keyless = not _without_address(provider) or provider == "litellm_proxy"  # a proxy may need no key
    if given.has_address and keyless:
        needs = tuple(need for need in needs if ("api_key",) not in need)
    return tuple(_remaining(need, given) for need in needs if not _met(need, given))


def finds_itself(provider: str, given: Credentials) -> bool:
    """Tell if litellm may find the key by itself for an address that the user gave.

    It may if the provider has no address of its own and its key is set, and if an SDK signs the call or
    gets a token. It may not with a bearer key of a variable; litellm takes OpenAI's for some providers.
    """
    needs = needs_of(provider, "")
    if _without_address(provider):
        return _met(next((need for need in needs if ("api_key",) in need), ()), given)
    signed = next((need for need in needs if any(words[0][0] == "@" for words in need)), ())
    if ("api_key",) not in signed:
        return bool(signed)
    others = tuple(words for words in signed if words[0] not in _BEARERS)
    return not any(os.environ.get(name) for name in _BEARERS) and _met(others, given)


def refuse(name: str, needs: tuple[Need, ...]) -> None:
    """Raise UsageError if a judge has unmet needs; the message names them and how to meet them."""
    if len(needs) == 1 and len(needs[0]) == 2 and needs[0][0] == ("api_key",):
        raise MissingKeyError(name, needs[0][1][0])
    if needs:
        hint = "give what is missing, or try the pipeline without a model: -m offline"
        raise UsageError(f"judge {name} needs {_needed(needs)}; {hint}")


def _met(need: Need, given: Credentials) -> bool:
    return any(all(_has(word, given) for word in words) for words in need)


def _has(word: str, given: Credentials) -> bool:
    if word in ("api_key", "api_base"):
        return given.has_key if word == "api_key" else given.has_address
    if word.isupper():
        return bool(os.environ.get(word) or given.params.get(word.lower()))
    if word[0] == "+":
        return _installed(word)
    if word[0] == "~":
        return Path(word).expanduser().exists()
    if word[0] == "@":
        return _finds(word, frozenset(os.environ.items()))
    return bool(given.params.get(word))


def _installed(word: str) -> bool:
    try:
        return importlib.util.find_spec(word[1:]) is not None
    except (ImportError, ValueError):
        return False


@lru_cache(maxsize=16)
def _finds(word: str, _environment: frozenset[tuple[str, str]]) -> bool:
    """Tell if an SDK finds credentials in the same manner as for a call.

    It may ask the metadata service of a machine in a cloud, or programs of the user's own. After
    `_ASKING` seconds, or an error that the SDK does not expect, the answer is yes, and the run may try.
    """
    finds = [True]

    def look() -> None:
        with contextlib.suppress(Exception):
            finds[0] = _aws() if word == "@aws" else _google()[word == "@project"]

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(_ASKING)
    return finds[0]


def _aws() -> bool:
    """Tell if there are AWS credentials."""
    try:
        sdk, exceptions = map(importlib.import_module, ("boto3", "botocore.exceptions"))
    except ImportError:
        return any(os.environ.get(name) for name in ("AWS_PROFILE", "AWS_ROLE_ARN"))
    try:
        return sdk.Session().get_credentials() is not None
    except exceptions.BotoCoreError:  # a profile that is not there, a part of a key
        return False


def _google() -> tuple[bool, bool]:
    """Tell if there are Google's application default credentials, and if a project is set."""
    try:
        sdk, exceptions = map(importlib.import_module, ("google.auth", "google.auth.exceptions"))
    except ImportError:
        named = bool(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"))
        return named, named or bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))
    try:
        return True, sdk.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[1] is not None
    except exceptions.GoogleAuthError:
        return False, bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))


_OPTIONS = {
    "api_key": "--api-key-env VAR",
    "api_base": "--api-base URL",
    "@aws": "an AWS login (aws configure)",
    "@google": "Google's application default credentials (gcloud auth application-default login)",
}


def _remaining(need: Need, given: Credentials) -> Need:
    """A need, or only the package if one of its alternatives lacks nothing else."""
    for words in need:
        rest = tuple(word for word in words if not _has(word, given))
        if len(words) > len(rest) and all(word[0] == "+" for word in rest):
            return (rest,)
    return need


def _needed(needs: Iterable[Need]) -> str:
    """The needs in the words of a sentence, each alternative once."""
    parts, named = list[str](), set[str]()
    for need in needs:
        phrases = [phrase for phrase in _phrases(need) if phrase not in named]
        named.update(phrases)
        kind = "a key" if ("api_key",) in need else "an address" if ("api_base",) in need else ""
        listed = " or ".join(phrases)
        parts.append(f"{kind} ({listed})" if kind and listed else kind or listed)
    return ", and ".join(parts)


def _phrases(need: Need) -> list[str]:
    """Alternatives of a need: at most three with variables, then options and logins, else a parameter."""
    named = [" + ".join(words) for words in need if all(map(str.isupper, words))][:3]
    others = [words[0] for words in need if not words[0].isupper()]
    packages = [word[1:].replace(".", "-") for word in others if word[0] == "+"]
    phrases = [f"the package {name} (pip install {name})" for name in packages]
    phrases += [f"a login in {word} (log in once with litellm)" for word in others if word[0] == "~"]
    phrases += [_OPTIONS[word] for word in others if word in _OPTIONS]
    return [*named, *(phrases or [f"-p {word}=…" for word in others if word.isidentifier()][:1])]
