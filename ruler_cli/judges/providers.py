"""The providers that litellm reaches, and what each must be given: keys, addresses, packages.

`litellm.validate_environment` names all variables of some, none of others, and never what else would do;
so it stands here as litellm's source reads it.  Nothing here imports litellm, which takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruler_cli.settings import JudgeSettings

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
_OPENAI = "api_key | OPENAI_API_KEY"
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
aiml amazon_nova assemblyai baseten bytez cerebras charity_engine chutes
clarifai codestral cognition compactifai cortecs darkbloom dashscope deepinfra deepseek edenai empower
galadriel github gradient_ai groq helicone hyperbolic inception libertai maritalk meta minimax modelscope
moonshot morph nadir nebius neosantara nlp_cloud novita nscale nvidia_nim parasail pinstripes poe prism
publicai reka sail sambanova synthetic tencent v0 volcengine wandb xai xiaomi_mimo zai
"""
"""Providers that need a key, of which the variable is their name and `_API_KEY`."""

_NOTHING = """
docker_model_runner langflow langgraph lemonade llamafile ollama ollama_chat ovhcloud
"""
"""Providers that answer without a key, at an address that litellm knows: this machine's, but for ovhcloud."""

_NO_CHAT = """
a2a_agent auto_router aws_polly aws_textract azure_speech black_forest_labs cursor deepgram dotprompt
elevenlabs fal_ai humanloop infinity jina_ai langfuse litellm_agent manus milvus mongodb nvidia_riva
openai_like pg_vector recraft reducto runwayml s3_vectors soniox stability strands_decider topaz transcribe
typesafe valkey voyage
"""
"""What litellm knows as providers, but not of chat completions about text."""

_OTHERS = {
    "a2a": "api_base | A2A_API_BASE",
    "ai21": "api_key | AI21_API_KEY",
    "ai21_chat": "api_key | AI21_API_KEY",
    "aiohttp_openai": _OPENAI,
    "anthropic": "api_key | ANTHROPIC_API_KEY | ANTHROPIC_AUTH_TOKEN"
    " | ANTHROPIC_FEDERATION_RULE_ID ANTHROPIC_ORGANIZATION_ID",
    "anthropic_text": "api_key | ANTHROPIC_API_KEY",
    "apertis": "api_key | STIMA_API_KEY",
    "azure": f"api_key | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA} ; api_base | AZURE_API_BASE",
    "azure_ai": "api_key | AZURE_AI_API_KEY | AZURE_API_KEY | AZURE_OPENAI_API_KEY"
    f" | {_ENTRA} ; api_base | AZURE_AI_API_BASE",
    "azure_text": f"api_key | AZURE_API_KEY | AZURE_OPENAI_API_KEY | {_ENTRA} ; api_base | AZURE_API_BASE",
    "bedrock": f"{_BEARER} | +boto3 ; {_BEARER} | {_AWS}",
    "bedrock_mantle": f"{_BEARER} | BEDROCK_MANTLE_API_KEY | +boto3"
    f" ; {_BEARER} | BEDROCK_MANTLE_API_KEY | {_AWS}",
    "chatgpt": "~/.config/litellm/chatgpt/auth.json | CHATGPT_TOKEN_DIR",
    "cloudflare": "api_key | CLOUDFLARE_API_KEY ; api_base | CLOUDFLARE_ACCOUNT_ID | CLOUDFLARE_API_BASE",
    "cohere": "api_key | COHERE_API_KEY | CO_API_KEY",
    "cohere_chat": "api_key | COHERE_API_KEY | CO_API_KEY",
    "cometapi": "api_key | COMETAPI_KEY",
    "custom": "api_base",
    "custom_openai": _OPENAI,
    "databricks": "api_key | DATABRICKS_API_KEY | DATABRICKS_CLIENT_ID DATABRICKS_CLIENT_SECRET"
    " | +databricks.sdk ; api_base | DATABRICKS_API_BASE | +databricks.sdk",
    "datarobot": "api_key | DATAROBOT_API_TOKEN",
    "featherless_ai": "api_key | FEATHERLESS_AI_API_KEY | FEATHERLESS_API_KEY",
    "fireworks_ai": "api_key | FIREWORKS_API_KEY | FIREWORKS_AI_API_KEY | FIREWORKSAI_API_KEY"
    " | FIREWORKS_AI_TOKEN",
    "friendliai": "api_key | FRIENDLI_TOKEN | FRIENDLIAI_API_KEY",
    "gdc": "api_key | GDC_API_KEY ; api_base | GDC_API_BASE ; +google.auth",
    "gemini": "api_key | GEMINI_API_KEY | GOOGLE_API_KEY | PALM_API_KEY",
    "gigachat": "api_key | GIGACHAT_CREDENTIALS | GIGACHAT_API_KEY | GIGACHAT_ACCESS_TOKEN",
    "github_copilot": "~/.config/litellm/github_copilot/access-token | GITHUB_COPILOT_TOKEN_DIR",
    "heroku": "api_key | HEROKU_API_KEY ; api_base | HEROKU_API_BASE",
    "hosted_vllm": "api_base | HOSTED_VLLM_API_BASE",
    "huggingface": "api_key | HF_TOKEN | HUGGINGFACE_API_KEY",
    "lambda_ai": "api_key | LAMBDA_API_KEY",
    "litellm_proxy": "api_key | LITELLM_PROXY_API_KEY ; api_base | LITELLM_PROXY_API_BASE",
    "lm_studio": "api_base | LM_STUDIO_API_BASE",
    "meta_llama": "api_key | LLAMA_API_KEY",
    "mistral": "api_key | MISTRAL_API_KEY | MISTRAL_AZURE_API_KEY",
    "nano-gpt": "api_key | NANOGPT_API_KEY",
    "oci": "OCI_USER | oci_signer ; OCI_FINGERPRINT | oci_signer ; OCI_TENANCY | oci_signer"
    " ; OCI_KEY_FILE | OCI_KEY | oci_signer ; OCI_COMPARTMENT_ID ; +cryptography | oci_signer",
    "oobabooga": "api_base",
    "openai": _OPENAI,
    "openrouter": "api_key | OPENROUTER_API_KEY | OR_API_KEY",
    "perplexity": "api_key | PERPLEXITYAI_API_KEY | PERPLEXITY_API_KEY",
    "petals": "+petals",
    "predibase": "api_key | PREDIBASE_API_KEY ; tenant_id | PREDIBASE_TENANT_ID",
    "qwen_ai_platform": "api_key | QWEN_AI_PLATFORM_API_KEY | DASHSCOPE_API_KEY",
    "qwencloud": "api_key | QWENCLOUD_API_KEY | DASHSCOPE_API_KEY",
    "ragflow": "api_key | RAGFLOW_API_KEY ; api_base | RAGFLOW_API_BASE",
    "replicate": "api_key | REPLICATE_API_KEY | REPLICATE_API_TOKEN",
    "sagemaker": f"+boto3 ; {_AWS}",
    "sagemaker_chat": f"+boto3 ; {_AWS}",
    "sagemaker_nova": f"+boto3 ; {_AWS}",
    "sap": "AICORE_SERVICE_KEY | AICORE_CLIENT_ID | AICORE_CONFIG | AICORE_PROFILE | AICORE_HOME"
    " | VCAP_SERVICES | ~/.aicore/config.json",
    "scaleway": "api_key | SCW_SECRET_KEY",
    "scx-ai": "api_key | SCX_API_KEY",
    "snowflake": "api_key | SNOWFLAKE_JWT ; api_base | SNOWFLAKE_ACCOUNT_ID | account_id",
    "tensormesh": "api_key | TENSORMESH_INFERENCE_API_KEY",
    "text-completion-codestral": "api_key | CODESTRAL_API_KEY",
    "text-completion-inception": "api_key | INCEPTION_API_KEY",
    "text-completion-openai": _OPENAI,
    "together_ai": "api_key | TOGETHERAI_API_KEY | TOGETHER_API_KEY | TOGETHER_AI_API_KEY"
    " | TOGETHER_AI_TOKEN",
    "triton": "api_base",
    "vercel_ai_gateway": "api_key | VERCEL_AI_GATEWAY_API_KEY | VERCEL_OIDC_TOKEN",
    "vertex_ai": _GOOGLE,
    "vertex_ai_beta": _GOOGLE,
    "vllm": "api_base",
    "watsonx": _WATSONX + _PROJECT,
    "watsonx/deployment": _WATSONX,
    "watsonx_text": _WATSONX + _PROJECT,
    "xinference": "api_base",
}
"""What the other providers need: `;` parts needs, `|` the ways to meet one, a space what one way takes.

A word in capitals is a variable, or the parameter of that name in small letters; any other a parameter
(`api_key` and `api_base` are those that stand for --api-key-env and --api-base), `+` a package, `~` a file,
`@` what an SDK finds by itself.
"""

Way = tuple[str, ...]
Need = tuple[Way, ...]


def _parsed(row: str) -> tuple[Need, ...]:
    return tuple(
        tuple(tuple(way.split()) for way in need.split("|")) for need in row.split(";") if need.strip()
    )


_TABLE: dict[str, tuple[Need, ...]] = {
    **{name: _parsed(f"api_key | {name.upper().replace('-', '_')}_API_KEY") for name in _OWN_KEY.split()},
    **dict.fromkeys(_NOTHING.split(), ()),
    **{name: _parsed(row) for name, row in _OTHERS.items()},
}

NO_CHAT = frozenset(_NO_CHAT.split())
PROVIDERS = frozenset(name for name in _TABLE if "/" not in name) | NO_CHAT
"""The names of litellm's providers; a test holds them against `litellm.provider_list`."""


def provider_of(model: str, params: Mapping[str, Any] | None = None) -> str | None:
    """The provider that a name begins with, or that its parameters name, if litellm knows it."""
    told = (params or {}).get("custom_llm_provider")
    word, slash, _ = model.partition("/")
    found = told if isinstance(told, str) else word if slash else None
    return found if found in PROVIDERS else None


def homeless(provider: str | None) -> bool:
    """Whether a provider has no address of its own: wherever it is, its key belongs there."""
    return any(("api_base",) in need for need in _TABLE.get(provider or "", ()))


def variables(provider: str | None) -> Iterator[str]:
    """The variables that may be read for a provider, the first of them those of its key."""
    for need in needs_of(provider or "", ""):
        for way in need:
            yield from (word for word in way if word.isupper())


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
"""What variables of a provider begin with, beside its name and the first word of its key's variable."""


def needs_of(provider: str, model: str) -> tuple[Need, ...]:
    """What a provider must be given for a model."""
    deeper = "/".join([provider, *model.split("/")[1:2]])
    return _TABLE.get(deeper, _TABLE.get(provider, ()))
