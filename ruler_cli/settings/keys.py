"""API keys that stand where none belongs: how they look, and text without them.

A key is only read from a variable that the user names. People still give one as a value, so no sentence
repeats a word that looks like one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any

from ruler_cli.errors import UsageError
from ruler_cli.types import words_of

HIDDEN = "[key]"
"""Text that stands for a key."""
HEADERS = re.compile("header|{", re.IGNORECASE)
"""A mark of text that may hold headers."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BEGINNINGS = (
    "sk-|sk_live|gsk_|xai-|AIza|nvapi-|pplx-|csk-|ghp_|github_pat_|glpat-|dop_v1_|lsv2_"
)
"""First characters of the keys of providers; others are those of words, too."""
_KEY = re.compile(
    rf"(?:{_BEGINNINGS})[A-Za-z0-9_\-]{{6,}}|(?:hf|fw|r8|pk|rk|tgp|sk)[_-](?=\w*\d)[A-Za-z0-9_\-]{{16,}}"
    r"|AKIA[A-Z0-9]{12,}|(?:eyJ|ya29\.)[A-Za-z0-9_\-.]{20,}"
)
_IN_TEXT = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{_BEGINNINGS})(?=[A-Za-z_\-]{{0,60}}\d)[A-Za-z0-9_\-]{{16,}}"
)
"""A key within a sentence: it is long and holds a digit, as `sk-learn` and other words do not."""
_RANDOM = re.compile(
    r"(?=[A-Za-z0-9+]*\d)(?=[A-Za-z0-9+]*[A-Za-z])[A-Za-z0-9+]{32,}={0,2}"
)
_SECRET_NAME = re.compile(
    r"-{0,2}(?:.*[-_])?(?:api-?_?key|apikey|key|secret|token|password|passwd|pwd|authorization"
    r"|credentials?|bearer|jwt|sig|signature|sas|dsn|conn(?:ection)?[-_]?str(?:ing)?)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r".*headers?|.*cookies?|(?:.*[-_])?(?:auth|passphrase)", re.IGNORECASE
)
"""Names of further values that may be secrets: what they hold is not kept, though it may be harmless."""
_HEADER = 8
"""Characters of the shortest header that is hidden wherever it stands: a shorter one may be any word."""
_PARTS = [
    re.compile(pattern)
    for pattern in (
        # a member of a JSON object
        r"""["']([\w-]+)["']\s*:\s*["']([^"']{4,})["']""",
        # a part of a connection string, and a token behind its kind
        r"(?:([A-Za-z][\w-]*)=|\b(?:Bearer|Basic)\s+)(?=[^\s;&,]*\d)([^\s;&,'\"{}=]{8,}={0,2})",
        # a part of the query of an address, and its password
        r"[?&]([\w-]+)=([^&#\s]+)",
        r"://[^/@\s:]*:()([^/@\s]+)@",
    )
]
"""Names, and texts that are secret if these are, or if there are none."""
_FORMS = ("response_format", "tools", "functions")
"""Parameters whose words are those of good replies."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KEY_NAMES = words_of("api_key apikey authorization token secret password")


def is_variable_name(text: str) -> bool:
    """Tell if a text can be the name of a variable, and does not look like a key."""
    return _NAME.fullmatch(text) is not None and not looks_like_key(text)


def is_key_name(name: str) -> bool:
    """Tell if a parameter of this name holds a key."""
    return snake_case(name) in _KEY_NAMES


def snake_case(name: str) -> str:
    """Return a name in small letters, its words joined by `_`."""
    return _CAPITAL.sub("_", name).lower().replace("-", "_")


def looks_like_key(text: str) -> bool:
    """Tell if a text, alone, looks like a provider's key: by its beginning, or as 32 random characters."""
    return (
        _KEY.fullmatch(text.strip()) is not None
        or _RANDOM.fullmatch(text.strip()) is not None
    )


def variable_name(name: str) -> str:
    """Return the name of a variable; UsageError, which does not repeat the value, if it is none."""
    if is_variable_name(name):
        return name
    remedy = "put the key into one (export MY_KEY=…) and use --api-key-env MY_KEY"
    problem = (
        "expects the name of a variable, and the value given (not shown) is not one"
    )
    raise UsageError(problem, remedy, place="--api-key-env")


def model_name(value: str) -> str:
    """Return the name of a model; UsageError, which does not repeat the value, if it looks like a key.

    `provider/KEY` does, too. A path may end in a hash, as a model's snapshot on disk does. Names are printed,
    and written into OUTPUT.
    """
    if not looks_like_key(value) and not _KEY.fullmatch(value.rpartition("/")[2]):
        return value
    remedy = "put that into a variable (export MY_KEY=…) and name that with --api-key-env MY_KEY"
    problem = "its value (not shown) looks like a key"
    raise UsageError(problem, remedy, place="-m")


def secrets_among(
    words: Iterable[str], harmless: Collection[str] = (), variable: str = ""
) -> list[str]:
    """Return the parts of a command line, or values of variables, that must not be printed; longest first.

    The values of the `harmless` options are not secret, whatever form they have. That of the option `variable`
    is the name of a variable, and secret if it is none.
    """
    found = set[str]()
    before = ""
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            name, value = (before, word) if before.startswith("-") else ("", "")
        own = before in harmless or name in harmless
        secret = _SECRET_NAME.fullmatch(name) and (equals or not word.startswith("-"))
        wrong = bool(variable) and name == variable and not is_variable_name(value)
        if secret or wrong or (looks_like_key(value) and not own):
            found.add(value)
        headers = _SECRET_VALUE.fullmatch(name) is not None
        if not own:
            parts = re.split(r"[\s=:/,;'\"@?&{}()]+", word)
            found.update(part for part in parts if _KEY.fullmatch(part))
            pairs = chain.from_iterable(pattern.findall(word) for pattern in _PARTS)
            found.update(
                text
                for name, text in pairs
                if not name or _holds_secret(name) or (headers and len(text) >= _HEADER)
            )
        before = word
    return sorted((one for one in found if len(one) > 3), key=len, reverse=True)


def without_secrets(
    value: Any, secrets: Iterable[str] = (), *, digests: bool = False
) -> Any:
    """Return a JSON value in which keys, values that are named as keys, and all of `secrets` are `[key]`.

    With `digests`, headers and what looks like a key have their digest there: others make other scores.
    """
    again = partial(without_secrets, secrets=secrets, digests=digests)
    hidden = _digest if digests else _hidden
    if isinstance(value, str):
        if looks_like_key(value) and value not in secrets:
            return hidden(value)
        for secret in secrets_among([*value.split(), value]):
            value = (
                value if secret in secrets else value.replace(secret, hidden(secret))
            )
        return without_keys(value, secrets)
    if isinstance(value, Mapping):
        members = dict[str, Any]()
        for name, inner in value.items():
            held = _holds_secret(str(name)) and not isinstance(inner, bool | None)
            hide = hidden if "header" in str(name).lower() else _hidden
            members[again(str(name))] = (hide if held else again)(inner)
        return members
    return [*map(again, value)] if isinstance(value, list | tuple) else value


def secret_texts(value: Any, *, named: bool = False) -> list[str]:
    """Return the texts of parameters that may be secrets, by the names of their places or by their form.

    The longest first; a `named` value is one, and so are its words.
    """
    found = set[str]()
    if isinstance(value, str):
        words = [value, *value.split()]
        found.update(words if named else secrets_among(words))
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if name not in _FORMS:
                hides = named or _holds_secret(str(name))
                found.update(secret_texts(inner, named=hides))
    elif isinstance(value, list | tuple):
        found.update(*(secret_texts(inner, named=named) for inner in value))
    long = [text for text in found if len(text) >= _HEADER]
    return sorted(long, key=len, reverse=True)


def _hidden(_: Any) -> str:
    return HIDDEN


def _digest(value: Any) -> str:
    """Return what stands for a secret whose changes count."""
    text = json.dumps(value, sort_keys=True, default=str)
    return f"[key {blake2b(text.encode(), digest_size=4).hexdigest()}]"


def _holds_secret(name: str) -> bool:
    words = _CAPITAL.sub("_", name)
    return bool(_SECRET_NAME.fullmatch(words) or _SECRET_VALUE.fullmatch(words))


def without_keys(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text in which keys, and all of `secrets`, are `[key]`."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _IN_TEXT.sub(HIDDEN, text)
