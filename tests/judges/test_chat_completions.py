"""The body of a chat completions call: a live run sends the bytes that a request file holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from ruler_cli.judges.chat_completions import (
    AnswerFormat,
    Form,
    chat_body,
    first_format,
    response_format,
)
from ruler_cli.judges.resolve import OPENAI, resolve
from ruler_cli.judges.schema import EXPLANATION
from ruler_cli.prompting import templates
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Reply, Request, Usage
from tests.judge_server import JudgeServer
from tests.judges.raw_server import answer, serving
from tests.values import opened

pytestmark = pytest.mark.anyio
REQUEST = Request("Grade.", 'é "\u2028\\ </trajectory>\n', ("abcd",))
COMPLETION = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'


MODELS = ["openai/o3", "hosted_vllm/Qwen/Qwen3-8B", "mine", "meta-llama/Llama-3"]
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
                with subtests.test(max_tokens=max_tokens, params=params, model=model):
                    request = Request(
                        REQUEST.system, REQUEST.user, REQUEST.labels, max_tokens
                    )
                    async with serving(answer(200, COMPLETION)) as server:
                        settings = JudgeSettings(model, server.base, params=params)
                        async with opened(resolve(settings)) as judge:
                            await judge.ask(request)
                        (sent,) = server.requests
                    key = bytes(range(16))
                    for target in ("openai", "vllm"):
                        line = request_line(target, settings)(key, request)
                        head = (
                            b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":'
                            % key.hex().encode()
                        )
                        assert line == head + sent + b"}\n"


async def test_body_at_the_judge_server(server: JudgeServer) -> None:
    """The judge server has read the same request from a live run."""
    request = Request(
        "Grade.", '<trajectory id="abcd">\n"truth=0.4"\n</trajectory>', ("abcd",)
    )
    settings = JudgeSettings("openai/good", server.base, params={"temperature": 0.5})
    async with opened(resolve(settings)) as judge:
        await judge.ask(request)
    row = orjson.loads(request_line("openai", settings)(b"k" * 16, request))
    assert server.requests() == [row["body"]]


def body(
    params: dict[str, Any], answer_format: AnswerFormat, request: Request = REQUEST
) -> dict[str, Any]:
    """Parse the body of a call."""
    value = orjson.loads(chat_body("m", params, request, answer_format))
    assert isinstance(value, dict)
    return value


def test_forms() -> None:
    """Each fallback of the answer's form changes the parameter and the prompt's sentence about it."""
    system = templates.system("Grade.", alone=False)
    keyed = templates.system("Grade.", alone=False, keyed=True)
    request = Request(system, "?", ("abcd", "bcdf"), keyed_system=keyed)
    forms: tuple[Form, ...] = ("keyed", "sized", "list", "json", "text")
    for form in forms:
        sent = body({}, AnswerFormat((form,)), request)
        assert sent.pop("response_format", None) == response_format(form, request)
        assert set(sent) == {"model", "messages", "max_tokens"}
        message = sent["messages"][0]["content"]
        assert ('{"ID": {' in message, '"trajectory_id": ' in message) == (
            form == "keyed",
            form != "keyed",
        )
        stated = body({"response_format": 1}, AnswerFormat((form,)))
        assert stated["response_format"] == 1


def test_keyed_schema() -> None:
    """A keyed schema allows one entry for each id, in order, with a bounded text and a score up to 1."""
    form = response_format("keyed", Request("", "", ("zzz", "aaa")))
    assert form is not None
    schema = form["json_schema"]["schema"]
    scores = schema["properties"]["scores"]
    assert list(scores["properties"]) == scores["required"] == ["zzz", "aaa"]
    assert scores["additionalProperties"] is False
    entry = schema["$defs"]["entry"]
    assert entry["properties"]["explanation"]["maxLength"] == EXPLANATION
    score = entry["properties"]["score"]
    assert score["type"] == "string"
    assert {float(text) for text in score["enum"]} == {
        number / 100 for number in range(101)
    }
    assert {"0", "0.0", "0.00", "0.8", "0.80", "0.85", "1", "1.0", "1.00"} <= set(
        score["enum"]
    )


def test_sized_schema() -> None:
    """A sized schema is the same for each number of rollouts, and names no id."""
    two, same = (
        response_format("sized", Request("", "", labels))
        for labels in (("a", "b"), ("c", "d"))
    )
    assert two == same
    assert two is not None
    scores = two["json_schema"]["schema"]["properties"]["scores"]
    assert (scores["minItems"], scores["maxItems"]) == (2, 2)


FIRST_FORMS = [
    ("openai/gpt-4o", OPENAI, "sized", "max_completion_tokens"),
    ("azure/mine", None, "sized", "max_tokens"),
    ("gemini/gemini-2.5-pro", None, "sized", "max_tokens"),
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
    ("openai/mine", "https://eu.api.openai.com/v1", "sized", "max_completion_tokens"),
    ("openai/mine", "https://notopenai.com/v1", "list", "max_tokens"),
    ("litellm_proxy/mine", "http://localhost:4000", "list", "max_tokens"),
]


def test_first_form(subtests: pytest.Subtests) -> None:
    """A self-hosted engine is asked by ids, a provider by the size of the group or by a list of any size."""
    for model, base, form, limit in FIRST_FORMS:
        with subtests.test(model=model, base=base, form=form, limit=limit):
            stated = None if base in (None, OPENAI) else base
            answer_format = first_format(JudgeSettings(model, stated), base)
            assert (answer_format.forms[0], answer_format.limit) == (form, limit)
            own = first_format(
                JudgeSettings(
                    model, stated, params={"response_format": {"type": "text"}}
                ),
                base,
            )
            assert own.forms == ("text",)


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
        sent = body(params, answer_format, Request("", "", (), 99, fitted=True))
        assert {
            key: value for key, value in sent.items() if key.startswith("max_")
        } == limits


def test_limit_by_rollouts() -> None:
    """More rollouts get more tokens, as does a judge that thinks; the user's limit is never exceeded."""
    few, many = (Request("", "", ("a",) * number) for number in (2, 20))
    plain = first_format(JudgeSettings("openai/gpt-4o"), OPENAI)
    thinking = first_format(JudgeSettings("openai/o3"), OPENAI)
    assert (
        0
        < (plain.max_tokens(few, {}) or 0)
        < (plain.max_tokens(many, {}) or 0)
        < (thinking.max_tokens(many, {}) or 0)
    )
    efforts = [
        first_format(JudgeSettings("m", params={"reasoning_effort": e}), None)
        for e in ("low", "high")
    ]
    assert (efforts[0].max_tokens(few, {}) or 0) < (efforts[1].max_tokens(few, {}) or 0)
    for answer_format in (plain, thinking):
        assert answer_format.max_tokens(few, {"max_tokens": 77}) == 77
        again = Request("", "", ("a",), 10_000)
        assert answer_format.max_tokens(again, {"max_tokens": 77}) == 77
        assert (answer_format.max_tokens(again, {}) or 0) >= 10_000


def test_limit_of_the_model() -> None:
    """No limit exceeds the output that the model can write."""
    answer_format = AnswerFormat(max_output=500)
    assert answer_format.max_tokens(Request("", "", ("a",) * 20), {}) == 500
    assert answer_format.max_tokens(Request("", "", ("a",), 9000), {}) == 500


def test_limit_after_thought() -> None:
    """A reply that thought cut off raises the limit of the next ones, and no other reply does."""
    answer_format = AnswerFormat()
    cut = Reply("", Usage(1, 448), truncated=True, thought=True)
    more = answer_format.after_reply(cut)
    assert (more.max_tokens(REQUEST, {}) or 0) > 2 * (
        answer_format.max_tokens(REQUEST, {}) or 0
    )
    most = more
    for _ in range(9):
        most = most.after_reply(
            replace(cut, usage=Usage(1, most.max_tokens(REQUEST, {}) or 0))
        )
    assert (
        (more.max_tokens(REQUEST, {}) or 0)
        < (most.max_tokens(REQUEST, {}) or 0)
        < 100_000
    )
    assert answer_format.after_reply(replace(cut, thought=False)) == answer_format
    assert answer_format.after_reply(replace(cut, truncated=False)) == answer_format


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
        assert last is None if not limit else last is not None and last.limit == ""


def test_steps_down() -> None:
    """Calls whose form was refused take one step together, and the last form is refused for good."""
    answer_format = AnswerFormat(("keyed", "list", "json", "text"))
    message = "'response_format' of type 'json_schema' is not supported."
    seen = []
    step: AnswerFormat | None = answer_format
    while step is not None:
        seen.append(step.forms[0])
        sent, step = step, step.after_refusal(step, 400, message)
        if step is not None:
            assert step.after_refusal(sent, 400, message) == step
    assert seen == ["keyed", "list", "json", "text"]
    assert answer_format.after_refusal(answer_format, 400, "Your key is wrong.") is None
