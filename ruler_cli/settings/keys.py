"""API keys: their form, the configured ones, and text without them.

A key is only read from a variable that the user names. People still write one as a value, so no sentence
repeats a word that looks like one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruler_cli.types import words_of

HIDDEN = "[key]"
"""Text that stands for a key."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BEGINNINGS = "sk-|sk_live|gsk_|xai-|AIza|nvapi-|pplx-|csk-|ghp_|github_pat_|glpat-|dop_v1_|lsv2_"
"""First characters of the keys of providers; others are those of words, too."""
_KEY = re.compile(
    rf"(?:{_BEGINNINGS})[A-Za-z0-9_\-]{{6,}}|(?:hf|fw|r8|pk|rk|tgp|sk)[_-](?=\w*\d)[A-Za-z0-9_\-]{{16,}}"
    r"|AKIA[A-Z0-9]{12,}|(?:eyJ|ya29\.)[A-Za-z0-9_\-.]{20,}"
)
_IN_TEXT = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{_BEGINNINGS})(?=[A-Za-z_\-]{{0,60}}\d)[A-Za-z0-9_\-]{{16,}}"
)
"""A key within a sentence: it is long and holds a digit, as `sk-learn` and other words do not."""
_ASSIGNED = re.compile(
    r"""((?i:[\w-]*(?:key|token|secret|password|passwd|sig|signature))(?:=|"\s*:\s*")"""
    r"""|://[^/@\s:]*:(?=[^/@\s]*@)|\b(?:Bearer|Basic)\s+(?=\S*\d))(?=\S*[\da-z])[^\s;&"',#@]{4,}"""
)
"""A secret behind its name: in an address, a connection string, a header or an object."""
_RANDOM = re.compile(
    r"(?=[A-Za-z0-9+]*\d)(?=[A-Za-z0-9+]*[A-Za-z])[A-Za-z0-9+]{32,}={0,2}"
)
_SECRET_NAME = re.compile(
    r"(?:.*[-_])?(?:api-?_?key|apikey|key|secret|token|password|passwd|pwd|passphrase|auth|authorization"
    r"|credentials?|bearer|jwt|sig|signature|sas|dsn)|.*headers?|.*cookies?",
    re.IGNORECASE,
)
"""Names of values that are not shown."""
_VARIABLE = re.compile(r".*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)")
"""Names of variables that hold keys."""
_SHORTEST = 8
"""Characters of the shortest secret that is hidden wherever it stands: a shorter one may be any word."""
_FORMS = ("response_format", "tools", "functions")
"""Parameters whose words are those of good replies."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KEY_NAMES = words_of("api_key apikey authorization token secret password")


def is_variable_name(text: str) -> bool:
    """Return whether a text can be the name of a variable, and does not look like a key."""
    return _NAME.fullmatch(text) is not None and not looks_like_key(text)


def is_key_name(name: str) -> bool:
    """Return whether a parameter of this name holds a key."""
    return snake_case(name) in _KEY_NAMES


def snake_case(name: str) -> str:
    """Return a name in small letters, its words joined by `_`."""
    return _CAPITAL.sub("_", name).lower().replace("-", "_")


def begins_like_key(text: str) -> bool:
    """Return whether a text, alone, has the beginning of a provider's keys."""
    return _KEY.fullmatch(text.strip()) is not None


def looks_like_key(text: str) -> bool:
    """Return whether a text, alone, looks like a provider's key: by its beginning, or as 32 random characters."""
    return begins_like_key(text) or _RANDOM.fullmatch(text.strip()) is not None


def holds_secret(name: str) -> bool:
    """Return whether values of this name are not shown."""
    return _SECRET_NAME.fullmatch(snake_case(name)) is not None


def hide_keys(text: str) -> str:
    """Return a text, as it is printed, in which keys of variables, and what looks like one, are `[key]`."""
    keys = set()
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _VARIABLE.fullmatch(name):
            keys.add(value)
    return without_keys(text, sorted(keys, key=len, reverse=True))


def without_keys(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text in which keys, and all of `secrets`, are `[key]`."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _IN_TEXT.sub(HIDDEN, _ASSIGNED.sub(rf"\1{HIDDEN}", text))


def without_secrets(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Return a JSON value in which keys, values that are named as keys, and all of `secrets` are `[key]`."""
    if isinstance(value, str):
        hides = looks_like_key(value) and value not in secrets
        return HIDDEN if hides else without_keys(value, secrets)
    if isinstance(value, Mapping):
        members = {}
        for name, content in value.items():
            shown = without_secrets(content, secrets)
            if holds_secret(str(name)) and not isinstance(content, bool | None):
                shown = HIDDEN
            members[without_secrets(str(name), secrets)] = shown
        return members
    if isinstance(value, list | tuple):
        return [without_secrets(item, secrets) for item in value]
    return value


def secret_texts(value: Any) -> list[str]:
    """Return the texts of parameters that may be secrets, the longest first."""
    texts = {text for text in _secrets(value) if len(text) >= _SHORTEST}
    return sorted(texts, key=len, reverse=True)


def _secrets(value: Any, *, secret: bool = False) -> Iterator[str]:
    """Yield texts that are secrets by their form, or stand in a `secret` place by its name, with all their words."""
    if isinstance(value, str):
        for word in (value, *value.split()):
            if secret or looks_like_key(word):
                yield word
    elif isinstance(value, Mapping):
        for name, content in value.items():
            if name not in _FORMS:
                hides = secret or holds_secret(str(name))
                yield from _secrets(content, secret=hides)
    elif isinstance(value, list | tuple):
        for content in value:
            yield from _secrets(content, secret=secret)
