"""Judge requests → lines of a request file, in the form of each target, with its limits and price.

A panel has a file for each judge, named after it: `requests.openai-o3.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.judges.chat_completions import chat_body, first_format
from ruler_cli.judges.providers import EMBEDDED, Price, listed_batch_price
from ruler_cli.judges.resolve import LOCAL, OPENAI, model_at_endpoint, model_of
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Request

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._]+")
_MAX_JUDGE_NAME = 80
"""Longest name of a judge in a file's name, in characters."""
_OVERHEAD = 64
"""Bytes of a batch, which may be one HTTP request, outside of its lines."""


class Limits(NamedTuple):
    """Limits of one batch."""

    requests: int
    bytes: int

    def allow(self, requests: int, size: int) -> bool:
        """Tell if a batch may hold so many requests with so many bytes together."""
        return requests <= self.requests and size + _OVERHEAD <= self.bytes


Target = Literal["openai", "anthropic", "vllm"]
Line = Callable[[bytes, Request], bytes]
"""Make the line of a request file from a key and a request."""

LIMITS: dict[Target, Limits] = {
    "openai": Limits(50_000, 200_000_000),
    "anthropic": Limits(100_000, 256_000_000),
}
"""Limits of each API; a megabyte is 1,000,000 bytes, even if a provider may count 1,048,576."""


def target_of(
    judge: JudgeSettings, target: Literal["auto"] | Target = "auto"
) -> Target:
    """Choose the form of the requests by the judge's name, unless given; UsageError if that is unknown."""
    if target != "auto":
        return target
    provider = judge.model.partition("/")[0]
    if provider in ("hosted_vllm", "vllm", "sglang"):
        return "vllm"
    if judge.api_base or provider == "openai":
        return "openai"
    if provider == "anthropic":
        return "anthropic"
    problem = "the form of its requests is not known"
    remedy = Sentence("give {target:openai}, or {target:vllm} for your own engine")
    raise UsageError(problem, remedy, place=f"judge {judge.model}")


def batch_target(judge: JudgeSettings) -> Target | None:
    """Return the batch API for a judge; None if there is none that ruler knows."""
    provider = judge.model.partition("/")[0]
    if provider == "anthropic":
        return "anthropic"
    if judge.model in EMBEDDED or not (judge.api_base or provider == "openai"):
        return None
    return "openai"


def request_line(target: Target, judge: JudgeSettings) -> Line:
    """Return a function that makes lines of a request file; their `custom_id` is the key in hex.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError if the form
    cannot hold the judge's name or parameters.
    """
    if target == "anthropic":
        from ruler_cli.judges.litellm import anthropic_params

        params = anthropic_params(judge)
        return lambda key, request: (
            b'{"custom_id":"%s","params":%s}\n' % (key.hex().encode(), params(request))
        )
    model = model_at_endpoint(judge)
    if (
        target == "openai"
        and not judge.api_base
        and model == judge.model
        and "/" in model
    ):
        from ruler_cli.judges.litellm import model_at_provider

        model = model_at_provider(model)  # without the name of the provider
    answer_format = first_format(
        judge, judge.api_base or (OPENAI if target == "openai" else LOCAL)
    )
    return lambda key, request: (
        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        % (key.hex().encode(), chat_body(model, judge.params, request, answer_format))
    )


def batch_price(judge: JudgeSettings) -> tuple[Price | None, str]:
    """Return a judge's batch price, and if it is `listed` or `half` of its price for calls; None if unknown."""
    own = judge.price or judge.api_base
    if not own and (listed := listed_batch_price(judge.model)):
        return listed, "listed"
    price = model_of(judge).price
    return price and price.halved, "half"


def names_for(name: str, judges: Sequence[str]) -> list[str]:
    """Return the file name for each judge: `name` itself for one, else names that differ in more than case.

    UsageError if several judges would share stdout.
    """
    if len(judges) == 1:
        return [name]
    if name == "-":
        remedy = "give a file name, or one judge"
        raise UsageError("a request file has one model", remedy, place=name)
    slugs = [
        _NOT_PLAIN.sub("-", judge).strip("-.")[-_MAX_JUDGE_NAME:] or "judge"
        for judge in judges
    ]
    if len({slug.lower() for slug in slugs}) < len(slugs):
        slugs = [f"{number}-{slug}" for number, slug in enumerate(slugs, 1)]
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    return [str(path.with_name(f"{stem}.{slug}{dot}{ending}")) for slug in slugs]
