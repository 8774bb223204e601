"""Request → one line of a request file, in the form of whoever is to answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ruler_cli.errors import UsageError
from ruler_cli.files.requests import Limits
from ruler_cli.judges.answer_form import EMBEDDED
from ruler_cli.judges.body import answering, chat_body
from ruler_cli.judges.endpoint import HERE, OPENAI, model_there
from ruler_cli.records import Request
from ruler_cli.settings import JudgeSettings

Target = Literal["openai", "anthropic", "vllm"]
Line = Callable[[bytes, Request], bytes]


LIMITS: dict[Target, Limits] = {
    "openai": Limits(50_000, 200_000_000),
    "anthropic": Limits(100_000, 256_000_000),
    "vllm": Limits(),
}
"""Megabytes are taken as 1,000,000 bytes, which is the less where a provider counts 1,048,576."""

_OWN_ENGINES = ("hosted_vllm", "vllm", "sglang")


def target_of(judge: JudgeSettings, target: Literal["auto"] | Target = "auto") -> Target:
    """Who is to answer, by the judge's name where it is not told; UsageError where that does not tell."""
    if target != "auto":
        return target
    provider = judge.model.partition("/")[0]
    if provider in _OWN_ENGINES:
        return "vllm"
    if judge.api_base or provider == "openai":
        return "openai"
    if provider == "anthropic":
        return "anthropic"
    raise UsageError(
        f"judge {judge.model}: its provider's form of a batch is not known; give --target openai where it "
        "takes OpenAI's batch files, or --target vllm for an engine of your own"
    )


def batches_of(judge: JudgeSettings) -> Target | None:
    """Whose batch API a judge is asked by; None where there is none that we speak."""
    provider = judge.model.partition("/")[0]
    if judge.model in EMBEDDED or (provider not in ("openai", "anthropic") and not judge.api_base):
        return None
    return "anthropic" if provider == "anthropic" else "openai"


def request_line(target: Target, judge: JudgeSettings) -> Line:
    """What makes (key, request) a line of a request file, with its end; `custom_id` is the key in hex.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError where the
    judge's name or parameters cannot be sent so.
    """
    if target == "anthropic":
        from ruler_cli.judges.through_litellm import anthropic_params

        params = anthropic_params(judge)
        return lambda key, request: (
            b'{"custom_id":"%s","params":%s}\n' % (key.hex().encode(), params(request))
        )
    model = model_there(judge)
    if target == "openai" and not judge.api_base and model == judge.model and "/" in model:
        from ruler_cli.judges.through_litellm import model_at_provider

        model = model_at_provider(model)  # a provider knows its model without its own name
    how = answering(judge, judge.api_base or (OPENAI if target == "openai" else HERE))
    return lambda key, request: (
        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        % (key.hex().encode(), chat_body(model, judge.params, request, how))
    )


__all__ = ["LIMITS", "Limits", "Line", "Target", "batches_of", "request_line", "target_of"]
