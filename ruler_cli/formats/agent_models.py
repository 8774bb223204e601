"""The models of the agents, as records name them, and the family of a model by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ruler_cli.formats.fields import JsonObject, every, is_text, words

_PATHS = words("""
model model_id model_name model_name_or_path metadata.model metadata.model_name metadata.llm_config.model config.model
agent.model agent.model_name agent.config.model trajectory.agent.model_name info.config.model.model_name
agent_info.llm request.model request.body.model request_body.model body.model response.model response.body.model
output.model messages[].model messages[].info.modelID messages[].extra.response.model events[].message.model
trajectories[].model trajectories[].metadata.model traces[].agent.config.model completions[].model
""")
"""Paths of the model that acted in a record."""
_FAMILY = re.compile(
    r"(claude|deepseek|gemini)|(?:meta-)?([a-z]+-?(?:\d+(?:\.\d+)?o?(?![\d.]*b))?)"
)
"""A maker's name for all of its models, or a name with the version behind it, which is no number of parameters."""


def agent_models(records: Iterable[JsonObject]) -> list[str]:
    """Return the names of the models that acted in records, sorted."""
    found = {
        value
        for record in records
        for path in _PATHS
        for _, value in every(record, path)
        if is_text(value)
    }
    return sorted(found)


def family(name: str) -> str:
    """Return the family of a model: `gpt4o` of `openai/gpt-4o-mini`, `claude` of every Claude; "" if it tells none."""
    model = name.rpartition("/")[2].casefold().removeprefix("ft:").partition(":")[0]
    # of Bedrock: `us.anthropic.claude-…`
    last = re.split(r"\.(?=[a-z])", model)[-1]
    match = _FAMILY.match(last)
    return (match[1] or match[2]).replace("-", "") if match else ""
