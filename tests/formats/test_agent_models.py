"""The models of agents in records, and their families."""

from __future__ import annotations

from typing import Any

from ruler_cli.formats.agent_models import agent_models, family

FAMILIES = {
    "gpt4o": "openai/gpt-4o-mini-2024-07-18 gpt-4o azure/gpt-4o ft:gpt-4o-2024-08-06:org::x",
    "gpt4.1": "gpt-4.1-nano",
    "gpt5": "openai/gpt-5-mini",
    "o3": "openai/o3 o3-mini",
    "claude": "anthropic/claude-sonnet-4-5 claude-3-5-haiku bedrock/us.anthropic.claude-opus-4-20250514-v1:0",
    "qwen2.5": "hosted_vllm/Qwen/Qwen2.5-7B-Instruct Qwen2.5-Coder-1.5B ollama/qwen2.5:7b",
    "qwen3": "Qwen/Qwen3-8B",
    "qwen": "qwen-72b-chat",
    "llama3.1": "meta-llama/Meta-Llama-3.1-8B-Instruct ollama/llama3.1:latest llama-3.1-70b",
    "mistral": "mistral-7b mistral/mistral-large-latest",
    "gemini": "gemini/gemini-2.5-pro vertex_ai/gemini-2.0-flash",
    "deepseek": "deepseek-ai/DeepSeek-R1 deepseek/deepseek-chat",
    "": "/ 4o @x -",
}


def test_families() -> None:
    """Models of one maker's line are a family, whatever their provider, size and date are."""
    for name, models in FAMILIES.items():
        assert {family(model) for model in models.split(" ")} == {name}
    assert family("") == ""


NAMED: tuple[dict[str, Any], ...] = (
    {"model": "m"},
    {"metadata": {"model": "m"}},
    {"trajectories": [{}, {"metadata": {"model": "m"}}]},
    {"request": {"model": "m"}, "response": {}},
    {"traces": [{"agent": {"config": {"model": "m"}}}]},
    {"info": {"config": {"model": {"model_name": "m"}}}},
    {"messages": [{"role": "user"}, {"role": "assistant", "model": "m"}]},
    {"model": 3, "agent": {"model_name": "m"}, "trajectories": "none"},
)


def test_names() -> None:
    """A record names the model that acted in it, and not one that grades or plays the user."""
    for record in NAMED:
        assert agent_models([record]) == ["m"]
    others = {"judge": {"model": "j"}, "user_info": {"llm": "u"}, "tools": [{"model": "t"}]}  # fmt: skip
    assert agent_models([others, {}]) == []
