"""A judge's name → the batch API that asks it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ruler_cli.batches.anthropic import VERSION, Anthropic
from ruler_cli.batches.openai import OpenAI
from ruler_cli.batches.provider import Provider
from ruler_cli.batches.wire import Wire
from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import EMBEDDED
from ruler_cli.judges.choose import check_address, direct, key_for
from ruler_cli.settings import JudgeSettings

_ANTHROPIC = "https://api.anthropic.com"
_BASES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
"""Variables of Anthropic's address: its own, and litellm's."""
_BARE = {"claude-": "anthropic", **dict.fromkeys(("gpt-", "o1", "o3", "o4"), "openai")}
"""How names begin that litellm knows without their provider."""


def provider(judge: JudgeSettings) -> Provider:
    """The batch API of a judge, not yet open; UsageError where it has none, or its key is missing.

    Anthropic's for `anthropic/…`, OpenAI's for `openai/…` and for whatever stands behind --api-base.
    """
    family = judge.model.partition("/")[0]
    if family == "anthropic":
        return _anthropic(judge)
    if judge.model not in EMBEDDED and (family == "openai" or judge.api_base):
        endpoint = direct(judge)
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        return OpenAI(_wire("OpenAI", endpoint.base, headers, endpoint.key, judge))
    if meant := next((whose for start, whose in _BARE.items() if judge.model.startswith(start)), None):
        raise UsageError(
            f"judge {judge.model}: batches go by the provider, which stands before the name; did you mean "
            f"-m {meant}/{judge.model}?"
        )
    raise UsageError(
        f"judge {judge.model}: only openai/… and anthropic/… are asked in batches, and endpoints with a "
        "batch API like OpenAI's, with --api-base URL; for any other way to ask, write the requests with "
        "`ruler render` and take the answers in with `ruler ledger import`"
    )


def _anthropic(judge: JudgeSettings) -> Anthropic:
    given = judge.api_base or next((url for name in _BASES if (url := os.environ.get(name))), _ANTHROPIC)
    check_address(given)
    base = given.rstrip("/").removesuffix("/messages").removesuffix("/v1").rstrip("/")
    key = key_for(judge, "ANTHROPIC_API_KEY")
    headers = {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})
    return Anthropic(_wire("Anthropic", base, headers, key, judge))


def _wire(name: str, base: str, headers: dict[str, str], key: str | None, judge: JudgeSettings) -> Wire:
    host = urlsplit(base).netloc
    who = f"{name}'s batch API" if host == f"api.{name.lower()}.com" else f"the batch API at {host}"
    return Wire(who, base, headers, key, judge.timeout)
