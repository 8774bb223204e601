"""The body of a chat completions call: a live run sends the bytes that a request file holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from ruler_cli.judges.chat_completions import (
    AnswerFormat,
    chat_body,
    first_format,
)
from ruler_cli.judges.resolve import OPENAI, resolve
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Reply, Request, Usage
from tests.judges.raw_server import answer, serving
from tests.values import opened

pytestmark = pytest.mark.anyio
REQUEST = Request("Grade.", 'é "\u2028\\ </trajectory>\n', ("abcd",))
COMPLETION = (
    b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
)


MODELS = [
    "openai/o3",
    "hosted_vllm/Qwen/Qwen3-8B",
    "mine",
    "meta-llama/Llama-3",
]
PARAMS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.2, "seed": 7},
    {"max_tokens": 50},
    {"response_format": {"type": "text"}},
]


async def test_body_of_a_live_run(subtests: pytest.Subtests) -> None:
    """The body in a row is byte for byte the first POST of a live run to the same endpoint."""
    for model in MODELS:
        for params in PARAMS:
            for max_tokens in [None, 77]:
                with subtests.test(
                    max_tokens=max_tokens, params=params, model=model
                ):
                    request = Request(
                        REQUEST.system, REQUEST.user, REQUEST.labels, max_tokens
                    )
                    async with serving(answer(200, COMPLETION)) as server:
                        settings = JudgeSettings(
                            model, server.base, params=params
                        )
                        async with opened(resolve(settings)) as judge:
                            await judge.ask(request)
                        (sent,) = server.requests
                    key = bytes(range(16))
                    line = request_line(settings)(key, request)
                    head = (
                        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":'
                        % key.hex().encode()
                    )
                    assert line == head + sent + b"}\n"


FIRST_FORMS = [
    ("openai/gpt-4o", OPENAI, "list", "max_completion_tokens"),
    ("azure/mine", None, "list", "max_tokens"),
    ("gemini/gemini-2.5-pro", None, "list", "max_tokens"),
    ("vertex_ai/claude-sonnet-4", None, "list", "max_tokens"),
    ("anthropic/claude-sonnet-4", None, "list", "max_tokens"),
    ("mistral/mistral-large", None, "list", "max_tokens"),
    ("hosted_vllm/mine", "https://abc.example.com/v1", "keyed", "max_tokens"),
    ("openai/mine", "http://localhost:8000/v1", "keyed", "max_tokens"),
    ("openai/mine", "http://10.0.0.7:8000/v1", "keyed", "max_tokens"),
    ("openai/mine", "http://gpu-7:8000/v1", "keyed", "max_tokens"),
    ("mine", "http://vllm.models.svc.cluster.local/v1", "keyed", "max_tokens"),
    ("Qwen/Qwen3-8B", "http://[::1]:8000/v1", "keyed", "max_tokens"),
    ("openai/mine", "https://openrouter.ai/api/v1", "list", "max_tokens"),
    (
        "openai/mine",
        "https://eu.api.openai.com/v1",
        "list",
        "max_completion_tokens",
    ),
    ("openai/mine", "https://notopenai.com/v1", "list", "max_tokens"),
    ("litellm_proxy/mine", "http://localhost:4000", "list", "max_tokens"),
]


def test_first_form(subtests: pytest.Subtests) -> None:
    """A self-hosted engine is asked by ids, a provider by a list."""
    for model, base, form, limit in FIRST_FORMS:
        with subtests.test(model=model, base=base, form=form, limit=limit):
            stated = None if base in (None, OPENAI) else base
            answer_format = first_format(JudgeSettings(model, stated), base)
            assert (answer_format.forms[0], answer_format.limit) == (
                form,
                limit,
            )
            stated_form = first_format(
                JudgeSettings(
                    model, stated, params={"response_format": {"type": "text"}}
                ),
                base,
            )
            assert stated_form.forms == ("text",)


LIMITS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (OPENAI, {}, {"max_completion_tokens": 99}),
    ("http://localhost:8000/v1", {}, {"max_tokens": 99}),
    (OPENAI, {"max_tokens": 300}, {"max_tokens": 99}),
    (
        "http://localhost:8000/v1",
        {"max_completion_tokens": 300},
        {"max_completion_tokens": 99},
    ),
    *(
        (OPENAI, {"max_tokens": value}, {"max_tokens": value})
        for value in (None, "many", 0.5)
    ),
]


def test_max_tokens() -> None:
    """A limit has the name that the endpoint knows, or the user's; one that is no number stays unchanged."""
    for base, params, limits in LIMITS:
        answer_format = first_format(
            JudgeSettings("openai/gpt-4o", params=params), base
        )
        request = Request("", "", (), 99, fitted=True)
        sent = orjson.loads(chat_body("m", params, request, answer_format))
        named = {name: sent[name] for name in sent if name.startswith("max_")}
        assert named == limits


def most(
    answer_format: AnswerFormat,
    labels: int,
    limit: int | None = None,
    **params: int,
) -> int:
    """Return the limit of an answer about so many rollouts."""
    request = Request("", "", ("a",) * labels, limit)
    return answer_format.max_tokens(request, params) or 0


def test_limits() -> None:
    """More rollouts, thought and effort get more tokens, the user's limit and the model's are never exceeded.

    A reply that thought cut off raises the limit of the next ones, and no other reply does.
    """
    plain = first_format(JudgeSettings("openai/gpt-4o"), OPENAI)
    thinking = first_format(JudgeSettings("openai/o3"), OPENAI)
    low, high = (
        first_format(
            JudgeSettings("m", params={"reasoning_effort": effort}), None
        )
        for effort in ("low", "high")
    )
    assert 0 < most(plain, 2) < most(plain, 20) < most(thinking, 20)
    assert most(low, 2) < most(high, 2)
    for answer_format in (plain, thinking):
        for limit in (None, 10_000):
            assert most(answer_format, 2, limit, max_tokens=77) == 77
        assert most(answer_format, 1, 10_000) >= 10_000
    bounded = AnswerFormat(max_output=500)
    assert most(bounded, 20) == most(bounded, 1, 9000) == 500
    before = AnswerFormat()
    cut = Reply("", Usage(1, 448), truncated=True, thought=True)
    after = before.after_reply(cut)
    last = after
    for _ in range(9):
        last = last.after_reply(replace(cut, usage=Usage(1, most(last, 1))))
    assert 2 * most(before, 1) < most(after, 1) < most(last, 1) < 100_000
    for whole in (replace(cut, thought=False), replace(cut, truncated=False)):
        assert before.after_reply(whole) == before


REFUSALS = [
    (400, "Unsupported parameter: 'max_tokens' is not supported with this model. "
     "Use 'max_completion_tokens' instead.", "max_completion_tokens"),
    (400, "max_tokens is too large: 448. This model supports at most 100 completion tokens.", ""),
    (422, "extra fields not permitted: max_tokens", ""),
]  # fmt: skip


def test_refused_limit() -> None:
    """An endpoint with another name for the limit gets that name; an endpoint without any gets no limit."""
    for status, message, limit in REFUSALS:
        answer_format = AnswerFormat()
        after = answer_format.after_refusal(answer_format, status, message)
        assert after is not None
        assert (after.limit, after.forms) == (limit, answer_format.forms)
        assert (
            after.after_refusal(answer_format, status, message) == after
        )  # another call had the older one
        last = after.after_refusal(
            after, status, "max_completion_tokens is not known here"
        )
        assert (
            last is None if not limit else last is not None and last.limit == ""
        )
