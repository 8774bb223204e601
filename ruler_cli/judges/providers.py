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

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.suggestions import nearest

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""


class MissingCredentialsError(UsageError):
    """This machine lacks the key, login, account or SDK of a judge; the message names what to give."""


class MissingKeyError(MissingCredentialsError):
    """A judge's key is missing; the message names the variable and the alternatives."""

    def __init__(self, name: str, variable: str, *, trial: bool = True) -> None:
        """`trial`: the command can also do without a model."""
        other = "name another variable with {api_key_env:VAR}"
        trying = "{other}, or try the pipeline without a model: {model:offline}"
        other = Sentence(trying if trial else "or {other}", other=Sentence(other))
        super().__init__(
            f"judge {name} needs a key and {variable} is not set",
            Sentence(
                "set it (export {variable}=…), {other}", variable=variable, other=other
            ),
        )
        self.name, self.variable = name, variable


_PROVIDERS_OF_OTHERS = {
    "aws": "bedrock", "azure_openai": "azure", "claude": "anthropic", "fireworks": "fireworks_ai",
    "google": "gemini", "grok": "xai", "hf": "huggingface", "lmstudio": "lm_studio",
    "mistralai": "mistral", "together": "together_ai", "vertex": "vertex_ai", "x-ai": "xai",
}  # fmt: skip
"""Names of providers elsewhere, and litellm's for the same."""
_WEIGHTS = (".gguf", ".safetensors", ".bin", ".pt")


class UnknownJudgeError(UsageError):
    """A judge's name is that of no provider; the message has a similar one if there is one."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        """`known` are names of models without a provider."""
        super().__init__(*_unknown_judge(name, known), place=f"judge {name}")
        self.name = name


def _unknown_judge(name: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the problem and the remedy."""
    provider, slash, model = name.partition("/")
    if name in PROVIDERS:
        return "is a provider", f"write its model behind it, as {name}/NAME"
    if name.endswith(_WEIGHTS) or name.startswith(("./", "../", "/", "~")):
        return "is a file", Sentence(
            "serve it (llama-server, vllm serve) and give {api_base:URL}"
        )
    meant = (
        _PROVIDERS_OF_OTHERS.get(provider.lower()) or nearest(provider, PROVIDERS, 0.7)
        if slash
        else None
    )
    similar = f"{meant}/{model}" if meant else nearest(name, (*EMBEDDED, *known))
    hint = f"did you mean `{similar}`? Else write" if similar else "write"
    remedy = "{hint} it as provider/name, e.g. anthropic/…, or give {api_base} for an endpoint of your own"
    return "no provider is known by that name", Sentence(remedy, hint=hint)


_AWS = "AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY | AWS_PROFILE_NAME | AWS_WEB_IDENTITY_TOKEN AWS_ROLE_NAME | @aws"
_BEARER = "api_key | AWS_BEARER_TOKEN_BEDROCK"
_MANTLE = f"{_BEARER} | BEDROCK_MANTLE_API_KEY"
_ENTRA = """AZURE_AD_TOKEN | AZURE_OPENAI_AD_TOKEN
 | AZURE_TENANT_ID AZURE_CLIENT_ID AZURE_CLIENT_SECRET +azure.identity
 | AZURE_USERNAME AZURE_PASSWORD AZURE_CLIENT_ID +azure.identity | azure_ad_token_provider
 | tenant_id client_id client_secret +azure.identity"""
_FILE = "vertex_credentials | vertex_ai_credentials | VERTEXAI_CREDENTIALS"
_WATSONX = """api_key | WATSONX_API_KEY | WATSONX_APIKEY | WX_API_KEY | WATSONX_TOKEN | WATSONX_ZENAPIKEY
 | apikey | token | zen_api_key | watsonx_credentials | wx_credentials ; api_base | WATSONX_API_BASE
 | WATSONX_URL | WX_URL | WML_URL | url | watsonx_credentials | wx_credentials"""
_NEEDS = f"""
ai21 aiml amazon_nova assemblyai baseten bytez cerebras charity_engine chutes clarifai codestral cognition
 compactifai cortecs darkbloom dashscope deepinfra deepseek edenai empower galadriel github gradient_ai groq
 helicone hyperbolic inception libertai maritalk meta minimax modelscope moonshot morph nadir nebius
 neosantara nlp_cloud novita nscale nvidia_nim openai parasail pinstripes poe prism publicai reka sail
 sambanova synthetic tencent v0 volcengine wandb xai xiaomi_mimo zai: api_key | *_API_KEY
docker_model_runner langflow langgraph lemonade llamafile ollama ollama_chat ovhcloud:
custom oobabooga triton vllm xinference: api_base
a2a hosted_vllm lm_studio: api_base | *_API_BASE
gdc: api_key | GDC_API_KEY ; api_base | GDC_API_BASE ; +google.auth
heroku litellm_proxy ragflow: api_key | *_API_KEY ; api_base | *_API_BASE
aiohttp_openai custom_openai text-completion-openai: api_key | OPENAI_API_KEY
ai21_chat: api_key | AI21_API_KEY
anthropic: api_key | ANTHROPIC_API_KEY | ANTHROPIC_AUTH_TOKEN
 | ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID
anthropic_text: api_key | ANTHROPIC_API_KEY
apertis: api_key | STIMA_API_KEY
azure azure_text: api_key | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA} ; api_base | AZURE_API_BASE
azure_ai: api_key | AZURE_AI_API_KEY | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA}
 ; api_base | AZURE_AI_API_BASE
bedrock: {_BEARER} | +boto3 ; {_BEARER} | {_AWS}
bedrock_mantle: {_MANTLE} | +boto3 ; {_MANTLE} | {_AWS}
chatgpt: ~/.config/litellm/chatgpt/auth.json | CHATGPT_TOKEN_DIR
cloudflare: api_key | CLOUDFLARE_API_KEY ; api_base | CLOUDFLARE_ACCOUNT_ID | CLOUDFLARE_API_BASE
cohere cohere_chat: api_key | COHERE_API_KEY | CO_API_KEY
cometapi: api_key | COMETAPI_KEY
databricks: api_key | DATABRICKS_API_KEY | DATABRICKS_CLIENT_ID DATABRICKS_CLIENT_SECRET | +databricks.sdk
 ; api_base | DATABRICKS_API_BASE | +databricks.sdk
datarobot: api_key | DATAROBOT_API_TOKEN
featherless_ai: api_key | FEATHERLESS_AI_API_KEY | FEATHERLESS_API_KEY
fireworks_ai: api_key | FIREWORKS_API_KEY | FIREWORKS_AI_API_KEY | FIREWORKSAI_API_KEY | FIREWORKS_AI_TOKEN
friendliai: api_key | FRIENDLI_TOKEN | FRIENDLIAI_API_KEY
gemini: api_key | GEMINI_API_KEY | GOOGLE_API_KEY | PALM_API_KEY
gigachat: api_key | GIGACHAT_CREDENTIALS | GIGACHAT_API_KEY | GIGACHAT_ACCESS_TOKEN
github_copilot: ~/.config/litellm/github_copilot/access-token | GITHUB_COPILOT_TOKEN_DIR
huggingface: api_key | HF_TOKEN | HUGGINGFACE_API_KEY
lambda_ai: api_key | LAMBDA_API_KEY
meta_llama: api_key | LLAMA_API_KEY
mistral: api_key | MISTRAL_API_KEY | MISTRAL_AZURE_API_KEY
nano-gpt: api_key | NANOGPT_API_KEY
oci: OCI_USER | oci_signer ; OCI_FINGERPRINT | oci_signer ; OCI_TENANCY | oci_signer
 ; OCI_KEY_FILE | OCI_KEY | oci_signer ; OCI_COMPARTMENT_ID ; +cryptography | oci_signer
openrouter: api_key | OPENROUTER_API_KEY | OR_API_KEY
perplexity: api_key | PERPLEXITYAI_API_KEY | PERPLEXITY_API_KEY
petals: +petals
predibase: api_key | PREDIBASE_API_KEY ; tenant_id | PREDIBASE_TENANT_ID
qwen_ai_platform qwencloud: api_key | *_API_KEY | DASHSCOPE_API_KEY
replicate: api_key | REPLICATE_API_KEY | REPLICATE_API_TOKEN
sagemaker sagemaker_chat sagemaker_nova: +boto3 ; {_AWS}
sap: AICORE_SERVICE_KEY | AICORE_CLIENT_ID | AICORE_CONFIG | AICORE_PROFILE | AICORE_HOME | VCAP_SERVICES
 | ~/.aicore/config.json
scaleway: api_key | SCW_SECRET_KEY
scx-ai: api_key | SCX_API_KEY
snowflake: api_key | SNOWFLAKE_JWT ; api_base | SNOWFLAKE_ACCOUNT_ID | account_id
tensormesh: api_key | TENSORMESH_INFERENCE_API_KEY
text-completion-codestral: api_key | CODESTRAL_API_KEY
text-completion-inception: api_key | INCEPTION_API_KEY
together_ai: api_key | TOGETHERAI_API_KEY | TOGETHER_API_KEY | TOGETHER_AI_API_KEY | TOGETHER_AI_TOKEN
vercel_ai_gateway: api_key | VERCEL_AI_GATEWAY_API_KEY | VERCEL_OIDC_TOKEN
vertex_ai vertex_ai_beta: +google.auth ; {_FILE} | @google
 ; vertex_project | vertex_ai_project | VERTEXAI_PROJECT | {_FILE} | @project
watsonx watsonx_text: {_WATSONX}
 ; project_id | WATSONX_PROJECT_ID | WX_PROJECT_ID | PROJECT_ID | WATSONX_DEPLOYMENT_SPACE_ID
 | WATSONX_SPACE_ID | WX_SPACE_ID | SPACE_ID | space_id | watsonx_project
watsonx/deployment: {_WATSONX}
"""
"""The needs of providers: `;` separates needs, `|` the alternatives of a need, a space the words of one.

A word in capitals is a variable, with `*` for the provider's name, or the parameter of that name in small
letters. Any other word is a parameter; `api_key` and `api_base` also stand for what the user gives.
`+` is a package, `~` a file, `@` credentials that an SDK finds by itself.
"""

Alternative = tuple[str, ...]
"""Words that meet a need together."""
Need = tuple[Alternative, ...]


def _table() -> Iterator[tuple[str, tuple[Need, ...]]]:
    """Yield each provider with its needs."""
    for row in _NEEDS.strip().replace("\n ", " ").split("\n"):
        names, _, needs = row.partition(":")
        for name in names.split():
            own = needs.replace("*", name.upper())
            parts = own.split(";") if own else []
            yield (
                name,
                tuple(
                    tuple(tuple(words.split()) for words in part.split("|"))
                    for part in parts
                ),
            )


_TABLE = dict(_table())

PROVIDERS = frozenset(name for name in _TABLE if "/" not in name)
"""litellm's providers of chat completions; a test compares them with `litellm.provider_list`."""


def provider_of(model: str, params: Mapping[str, Any] | None = None) -> str | None:
    """The provider that the parameters name, else the first word of the name; None if litellm has none."""
    own = (params or {}).get("custom_llm_provider")
    word, slash, _ = model.partition("/")
    name = own if isinstance(own, str) else word if slash else None
    return name if name in PROVIDERS else None


def needs_of(provider: str, model: str = "") -> tuple[Need, ...]:
    """The needs of a provider for a model."""
    deeper = "/".join([provider, *model.split("/")[1:2]])
    return _TABLE.get(deeper, _TABLE.get(provider, ()))


def variables(provider: str | None, needs: int | None = None) -> list[str]:
    """The variables that may be read for a provider, or for its first `needs`; those of its key first."""
    own = needs_of(provider or "")[:needs]
    return [word for need in own for words in need for word in words if word.isupper()]


_FREE = (
    "mock_response",
    "client",
    "litellm_credential_name",
    "extra_headers",
    "headers",
    "fallbacks",
)
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
    return next(
        (value for word in variables(provider, 1) if (value := os.environ.get(word))),
        None,
    )


def _need(word: str, needs: Iterable[Need]) -> Need:
    """The need that a word alone meets; empty if there is none."""
    return next((need for need in needs if (word,) in need), ())


def missing(provider: str, model: str, given: Credentials) -> tuple[Need, ...]:
    """The needs of a provider that are not met; empty if that cannot be known.

    At an address that is not the provider's own no key is needed, unless one is always sent.
    """
    if any(given.params.get(name) for name in _FREE):
        return ()
    needs = needs_of(provider, model)
    keyless = provider == "litellm_proxy" or not _need(
        "api_base", needs
    )  # a proxy may need no key
    if given.has_address and keyless:
        needs = tuple(need for need in needs if ("api_key",) not in need)
    return tuple(_remaining(need, given) for need in needs if not _met(need, given))


def finds_itself(provider: str, given: Credentials) -> bool:
    """Tell if litellm may find the key by itself for an address that the user gave.

    It may if the provider has no address of its own and its key is set, and if an SDK signs the call or
    gets a token. It may not with a bearer key of a variable; litellm takes OpenAI's for some providers.
    """
    needs = needs_of(provider)
    if _need("api_base", needs):
        return _met(_need("api_key", needs), given)
    signed = _need("@aws", needs) or _need("@google", needs)
    if ("api_key",) not in signed:
        return bool(signed)
    others = tuple(words for words in signed if words[0] not in _BEARERS)
    return not any(os.environ.get(name) for name in _BEARERS) and _met(others, given)


def refuse(name: str, needs: tuple[Need, ...]) -> None:
    """Raise UsageError if a judge has unmet needs; the message names them and how to meet them."""
    if len(needs) == 1 and len(needs[0]) == 2 and needs[0][0] == ("api_key",):
        raise MissingKeyError(name, needs[0][1][0])
    parts, named = list[str](), set[str]()
    for need in needs:
        phrases = [phrase for phrase in _phrases(need) if phrase not in named]
        named.update(phrases)
        kind = (
            "a key"
            if ("api_key",) in need
            else "an address"
            if ("api_base",) in need
            else ""
        )
        listed = Sentence.joined(" or ", phrases)
        both = Sentence("{kind} ({listed})", kind=kind, listed=listed)
        parts.append(both if kind and listed else kind or listed)
    if needs:
        hint = Sentence(
            "give what is missing, or try the pipeline without a model: {model:offline}"
        )
        nowhere = any(("api_base",) in need for need in needs)
        error = UsageError if nowhere else MissingCredentialsError
        raise error(
            Sentence(
                "judge {name} needs {parts}",
                name=name,
                parts=Sentence.joined(", and ", parts),
            ),
            hint,
        )


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
        sdk, exceptions = map(
            importlib.import_module, ("google.auth", "google.auth.exceptions")
        )
    except ImportError:
        named = bool(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"))
        return named, named or bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))
    try:
        return True, sdk.default(
            scopes=["https://www.googleapis.com/auth/cloud-platform"]
        )[1] is not None
    except exceptions.GoogleAuthError:
        return False, bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))


_OPTIONS = {
    "api_key": Sentence("{api_key_env:VAR}"),
    "api_base": Sentence("{api_base:URL}"),
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


def _phrases(need: Need) -> list[str]:
    """Alternatives of a need: at most three with variables, then options and logins, else a parameter."""
    named = [" + ".join(words) for words in need if all(map(str.isupper, words))][:3]
    others = [words[0] for words in need if not words[0].isupper()]
    packages = [word[1:].replace(".", "-") for word in others if word[0] == "+"]
    phrases = [f"the package {name} (pip install {name})" for name in packages]
    phrases += [
        f"a login in {word} (log in once with litellm)"
        for word in others
        if word[0] == "~"
    ]
    phrases += [_OPTIONS[word] for word in others if word in _OPTIONS]
    params = [
        Sentence("{param:{word}=…}", word=word)
        for word in others
        if word.isidentifier()
    ]
    return [*named, *(phrases or params[:1])]
