"""Names of judges, and what the most used providers need before a call.

litellm's own check names all variables of some providers, none of others, and never the alternatives. So
what the providers that most people use need stands here, as litellm's source reads it. The others are left
to litellm: see `LitellmJudge.check`. Nothing here imports litellm, which takes seconds. No judge is refused
that could work: an SDK that finds credentials by itself is asked if it does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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


class UnknownJudgeError(UsageError):
    """A judge's name is that of no provider and model; the message has a similar one if there is one."""

    def __init__(self, name: str, models: Iterable[str] = ()) -> None:
        """`models` are names of models without a provider."""
        provider, slash, model = name.partition("/")
        if slash:
            similar = nearest(provider, providers(), 0.7)
            similar = similar and f"{similar}/{model}"
        else:
            similar = nearest(name, (*EMBEDDED, *models))
        hint = f"did you mean `{similar}`? Else write" if similar else "write"
        remedy = Sentence(
            "{hint} provider/model, e.g. anthropic/…, or give {api_base} for an endpoint of your own",
            hint=hint,
        )
        super().__init__(
            "no provider and model of that name", remedy, place=f"judge {name}"
        )
        self.name = name


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
_OWN = """azure azure_ai azure_text cloudflare databricks gdc heroku litellm_proxy ragflow snowflake watsonx
 watsonx_text"""
_OWN_ADDRESS = _OWN.split()
"""Providers without an address for all: the key in their variable is for the address that the user gives."""
_KINDS = (("api_key", "a key ({ways})"), ("api_base", "an address ({ways})"))
_KEY_ENDS = ("KEY", "TOKEN", "SECRET", "JWT")

Need = tuple[tuple[str, ...], ...]
"""Alternatives, each of words that meet a need together."""


def _rows() -> Iterator[tuple[str, tuple[Need, ...]]]:
    """Yield each provider with its needs."""
    for row in _NEEDS.strip().replace("\n ", " ").split("\n"):
        names, _, needs = row.partition(":")
        for name in names.split():
            own = needs.replace("*", name.upper())
            yield name, tuple(map(_need, own.split(";")))


def _need(text: str) -> Need:
    return tuple(tuple(words.split()) for words in text.split("|"))


_TABLE = dict(_rows())


@lru_cache(1)
def providers() -> frozenset[str]:
    """The names of litellm's providers, from the source of its list: its import would take seconds."""
    package, source = importlib.util.find_spec("litellm"), ""
    if package is not None and package.origin is not None:
        with contextlib.suppress(OSError):  # then no provider is known
            source = (Path(package.origin).parent / "types" / "utils.py").read_text()
    members = source.partition("class LlmProviders(")[2].partition("\n\n\n")[0]
    return frozenset(re.findall(r' = "([\w-]+)"', members) or _TABLE)


def provider_of(model: str, params: Mapping[str, Any] | None = None) -> str | None:
    """The provider that the parameters name, else the first word of the name; None if litellm has none."""
    own = (params or {}).get("custom_llm_provider")
    word, slash, _ = model.partition("/")
    name = own if isinstance(own, str) else word if slash else None
    return name if name in providers() else None


def is_listed(provider: str | None) -> bool:
    """Tell if the needs of a provider are known here."""
    return provider in _TABLE


def needs_of(provider: str | None) -> tuple[Need, ...]:
    """The needs of a provider; of one that is not listed a key, in a variable named for the provider."""
    if provider is None or provider in _TABLE:
        return _TABLE.get(provider or "", ())
    word = provider.upper().replace("-", "_")
    begin = (f"{word}_", f"{word}AI_")
    keys = [
        name
        for name in os.environ
        if name.startswith(begin) and name.endswith(_KEY_ENDS)
    ]
    return (_need(" | ".join([*keys, "api_key"])),)


def variables(provider: str | None) -> list[str]:
    """The variables that may be read for a provider; those of its key first."""
    return [word for word in _words(needs_of(provider)) if word.isupper()]


def secret(provider: str | None) -> str | None:
    """The key that litellm finds by itself; it is to be removed from every message."""
    keys = [need for need in needs_of(provider) if ("api_key",) in need]
    return next(filter(None, map(os.environ.get, _words(keys))), None)


def _words(needs: Iterable[Need]) -> Iterator[str]:
    return (word for need in needs for words in need for word in words)


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

    def meet(self, need: Need) -> bool:
        """Tell if a need is met."""
        return any(all(map(self.have, words)) for words in need)

    def have(self, word: str) -> bool:
        """Tell if one word of a need is met, here or in the environment."""
        if word == "api_key":
            return self.has_key
        if word == "api_base":
            return self.has_address
        if word[0] == "+":
            return _installed(word[1:])
        if word[0] == "@":
            return _finds(word, frozenset(os.environ.items()))
        return bool(
            (word.isupper() and os.environ.get(word)) or self.params.get(word.lower())
        )


def missing(provider: str, given: Credentials) -> tuple[Need, ...]:
    """The needs of a provider that are not met; empty if that cannot be known.

    At an address that is not the provider's own no key is needed, unless one is always sent.
    """
    if any(given.params.get(name) for name in _FREE):
        return ()
    needs = needs_of(provider)
    if given.has_address and not any(("api_base",) in need for need in needs):
        needs = tuple(need for need in needs if ("api_key",) not in need)
    return tuple(need for need in needs if not given.meet(need))


def finds_itself(provider: str, given: Credentials) -> bool:
    """Tell if litellm may find the key by itself for an address that the user gave.

    It may if the provider has no address of its own and its key is set, and if an SDK signs the call or
    gets a token. It may not with a bearer key of a variable; litellm takes OpenAI's for some providers.
    """
    needs = needs_of(provider)
    if provider in _OWN_ADDRESS:
        return given.meet(needs[0])
    signing = [need for need in needs if ("@aws",) in need or ("@google",) in need]
    if not signing or ("api_key",) not in signing[0]:
        return bool(signing)
    signed = tuple(words for words in signing[0] if words[0] not in _BEARERS)
    return not any(map(os.environ.get, _BEARERS)) and given.meet(signed)


def refuse(name: str, needs: tuple[Need, ...], given: Credentials) -> None:
    """Raise UsageError if a judge has unmet needs; the message names them and how to meet them."""
    if not needs:
        return
    parts = []
    for need in needs:
        kinds = [kind for word, kind in _KINDS if (word,) in need[1:]]
        template = kinds[0] if kinds and need[0][0].isupper() else "{ways}"
        ways = Sentence.joined(" or ", _ways(need, given))
        parts.append(Sentence(template, ways=ways))
    nowhere = any(("api_base",) in need for need in needs)
    error = UsageError if nowhere else MissingCredentialsError
    raise error(
        Sentence(
            "judge {name} needs {parts}",
            name=name,
            parts=Sentence.joined(", and ", parts),
        ),
        Sentence(
            "set what is missing, or try the pipeline without a model: {model:offline}"
        ),
    )


def _ways(need: Need, given: Credentials) -> list[str]:
    """Three ways to meet a need, without what is there; the one that lacks least is the first."""
    lacking = [[word for word in words if not given.have(word)] for words in need]
    begun = [len(words) - len(rest) for words, rest in zip(need, lacking, strict=True)]
    order = sorted(range(len(need)), key=lambda at: -begun[at])
    return [Sentence.joined(" + ", [*map(_way, lacking[at])]) for at in order[:3]]


_OPTIONS = {
    "api_key": Sentence("{api_key_env:VAR}"),
    "api_base": Sentence("{api_base:URL}"),
    "@aws": "an AWS login (aws configure)",
    "@google": "Google's application default credentials (gcloud auth application-default login)",
    "@project": "a project of gcloud (gcloud config set project NAME)",
}


def _way(word: str) -> str:
    """Return the way to give what a word of a need stands for."""
    if word[0] == "+":
        package = word[1:].replace(".", "-")
        return f"the package {package} (pip install {package})"
    if word in _OPTIONS or word.isupper():
        return _OPTIONS.get(word, word)
    return Sentence("{param:{word}=…}", word=word)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _aws_login() -> object:
    return importlib.import_module("boto3").Session().get_credentials()


def _google_login() -> tuple[object, str | None]:
    """Google's application default credentials, and their project."""
    scope = "https://www.googleapis.com/auth/cloud-platform"
    login: tuple[object, str | None]
    login = importlib.import_module("google.auth").default(scopes=[scope])
    return login


_LOGINS: dict[str, Callable[[], object]] = {
    "@aws": _aws_login,
    "@google": _google_login,
    "@project": lambda: _google_login()[1],
}
_NO_LOGIN = {"ImportError", "BotoCoreError", "GoogleAuthError"}
"""Names of errors, or of their bases, of a machine without a login: a profile that is not there, for one."""


@lru_cache(maxsize=16)
def _finds(word: str, _environment: frozenset[tuple[str, str]]) -> bool:
    """Tell if an SDK finds credentials in the same manner as for a call.

    It may ask the metadata service of a machine in a cloud, or programs of the user's own. After
    `_ASKING` seconds, or an error that the SDK does not expect, the answer is yes, and the run may try.
    """
    finds = [True]

    def look() -> None:
        try:
            finds[0] = _LOGINS[word]() is not None
        except Exception as error:  # noqa: BLE001 - the SDKs are not there to be asked for their errors
            bases = {base.__name__ for base in type(error).__mro__}
            finds[0] = bases.isdisjoint(_NO_LOGIN)

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(_ASKING)
    return finds[0]
