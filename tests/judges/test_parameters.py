"""Parameters of a call: what is sent where, what is refused, what a file may set, and what is never kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli import score_group
from ruler_cli.errors import UsageError
from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Request
from tests.conftest import Ruler, group, write
from tests.judges.raw_server import answer, serving

pytestmark = pytest.mark.anyio
GROUP = group("g", 0.1, 0.9)
SECRET = 'lab/"7f3c\\éxyz'
PARAMS: dict[str, Any] = {
    "headers": {"X-Lab": "one", "X-Tenant": "gone"},
    "extra_headers": {
        "x-tenant": SECRET,
        "Authorization": "Bearer my-own-token",
    },
    "extra_query": {
        "version": 2,
        "flag": True,
        "text": "a b",
        "no": None,
    },
    "extra_body": {
        "chat_template_kwargs": {"enable_thinking": False},
        "top_k": 3,
    },
    "temperature": 0.5,
    "brand_new_parameter": {"provider": {"allow_fallbacks": False}},
}


async def test_direct_call() -> None:
    """Headers, query and extra body go where OpenAI's client sends them, from Python too; the rest is the body."""
    said = f"tenant {SECRET} of my-own-token"
    entries = {
        "scores": [{"trajectory_id": "1", "explanation": said, "score": 1}]
    }
    for echo in (
        json.dumps(said),
        json.dumps(said).replace("/", "\\/"),
        json.dumps(json.dumps(entries)),
    ):
        body = f'{{"choices": [{{"message": {{"content": {echo}}}}}]}}'.encode()
        for status in (200, 400):
            sent = (
                body
                if status == 200
                else f'{{"error": {{"message": {echo}}}}}'.encode()
            )
            async with serving(answer(status, sent)) as server:
                judge = JudgeSettings(
                    "hosted_vllm/m",
                    server.base,
                    params=PARAMS,
                    api_key="key-of-mine",
                )
                ask = resolve(judge).judge
                assert ask is not None
                async with ask:
                    reply = await ask.ask(Request("s", "u", ("a",)))
            told = (
                reply.reason
                if isinstance(reply, CallError)
                else reply.text + reply.body.decode()
            )
            assert "7f3c" not in told
            assert "my-own-token" not in told
            head = server.heads[0].decode("latin1")
            line, *headers = head.splitlines()
            assert line.split()[1] == (
                "/v1/chat/completions?version=2&flag=true&text=a+b"
            )
            assert [one for one in headers if "enant" in one] == [
                f"x-tenant: {SECRET}".encode().decode("latin1")
            ]
            assert [one for one in headers if "uthorization" in one] == [
                "Authorization: Bearer my-own-token"
            ]
            assert "X-Lab: one" in headers
            posted = json.loads(server.requests[0])
            assert posted["chat_template_kwargs"] == {"enable_thinking": False}
            assert (posted["top_k"], posted["temperature"]) == (3, 0.5)
            assert (
                posted["brand_new_parameter"] == PARAMS["brand_new_parameter"]
            )
            assert not [
                name for name in posted if "header" in name or "extra" in name
            ]


OF_LITELLM = (
    "api_version allowed_openai_params drop_params input_cost_per_token litellm_metadata max_retries num_retries "
    "organization region_name request_timeout ssl_verify timeout extraHeaders Extra-Headers http_headers"
)
MOVES = (
    "api_base base_url baseUrl azure caching callbacks client context_window_fallback_dict custom_llm_provider "
    "default_fallbacks deployment_id fallbacks http_client langfuse_host litellm_credential_name litellm_params "
    "mock_response mock_tool_calls model model_id model_list models messages prompt_id proxy router_settings "
    "sagemaker_base_url aws_bedrock_runtime_endpoint aws_sts_endpoint shared_session success_callback system "
    "use_litellm_proxy endpoint-url apiBase"
)


def test_refused_parameters() -> None:
    """A parameter that moves or replaces a call is refused by name, and litellm's own if it is direct."""
    for name in OF_LITELLM.split():
        with pytest.raises(UsageError, match=f"-p {name}: is not a parameter"):
            resolve(
                JudgeSettings("hosted_vllm/m", "http://h/v1", params={name: 1})
            )
        assert JudgeSettings("mistral/m", params={name: 1}).params == {name: 1}
    for name in MOVES.split():
        moved: list[dict[str, Any]] = [{name: "x"}, {"extra_body": {name: "x"}}]
        for params in moved:
            with pytest.raises(UsageError, match=name):
                JudgeSettings("mistral/m", params=params)
    bad: list[dict[str, Any]] = [
        {"extra_headers": "X: y"},
        {"extra_body": []},
        {"extra_headers": {"X": "a\r\nHost: b"}},
        {"headers": {"Host": "b"}},
        {"extra_headers": {"X Y": "a"}},
        {"extra_headers": {"X": None}},
    ]
    for params in bad:
        with pytest.raises(UsageError, match=r"headers|extra_body") as error:
            JudgeSettings("mistral/m", params=params)
        assert "a\r" not in str(error.value)
    with pytest.raises(UsageError, match="fallbacks"):
        anyio.run(score_group, GROUP, "mistral/m", {"fallbacks": []})
    schema = {
        "type": "json_schema",
        "json_schema": {"schema": {"properties": {"url": {}}}},
    }
    assert JudgeSettings("mistral/m", params={"response_format": schema}).params


FILES = {
    "param = {new_parameter = 1}": "sets new_parameter",
    "param = {ssl_verify = false}": "sets ssl_verify",
    'param = {aws_region_name = "evil.example/#"}': "sets aws_region_name",
    "param = {extra_body = {top_k = 1}}": "sets extra_body",
    'param = {extra_headers = {X-A = "b"}}': "sets extra_headers",
    'api_base = "http://127.0.0.1:9/v1"\napi_key_env = "LAB"': "sets api_base",
    'model = "azure/gpt-4o"\napi_base = "http://127.0.0.1:9/v1"': "sets api_base",
    'model = "huggingface/http://127.0.0.1:9/v1"': "sets model",
    'model = "vertex_ai/m"\napi_base = "http://127.0.0.1:9/v1"': "sets api_base",
    'param = {fallbacks = [{model = "openai/x", api_base = "http://127.0.0.1:9"}]}': "param",
    'param = {aws_bedrock_runtime_endpoint = "http://127.0.0.1:9"}': "param",
}


def test_found_file(ruler: Ruler, tmp_path: Path) -> None:
    """A file that the user did not name sends no key or call elsewhere; the option that allows it is told."""
    write(tmp_path / "in.jsonl", [GROUP])
    score = (
        "score",
        "in.jsonl",
        "out.jsonl",
        "-q",
        "--set",
        "max_outage=0",
        "--set",
        "retries=0",
    )
    usual = 'model = "hosted_vllm/m"\n'
    for table, told in FILES.items():
        named = table.replace("param =", "params =")
        model = "" if "model =" in table.partition("param")[0] else usual
        for text, words in (
            (f"[score]\n{model}{table}\n", ()),
            (f"[judges.j]\n{model}{named}\n", ("-m", "j")),
        ):
            (tmp_path / "ruler.toml").write_text(text)
            done = ruler(
                *score, *words, LAB="sk-lab-1", AZURE_API_KEY="sk-azure-1"
            )
            assert done.returncode == 2, text
            assert told in done.stderr
            if told != "param":
                assert "use --config ruler.toml\n" in done.stderr
    (tmp_path / "ruler.toml").write_text(
        f"[score]\n{usual}param = {{new_parameter = 1}}\n"
    )
    elsewhere = ("--api-base", "http://127.0.0.1:9/v1")
    assert ruler(*score, *elsewhere).returncode == 2
    assert ruler(*score, *elsewhere, "--config", "ruler.toml").returncode == 3
    assert ruler(*score, *elsewhere, RULER_CONFIG="ruler.toml").returncode == 3
    assert ruler(*score, *elsewhere, "-p", "new_parameter=2").returncode == 3
    (tmp_path / "ruler.toml").write_text(
        f"[score]\n{usual}param = {{temperature = 0.5, num_ctx = 9}}\n"
    )
    assert ruler(*score, *elsewhere).returncode == 3
