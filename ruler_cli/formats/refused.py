"""Records that hold nothing to judge: prompts, figures, sessions of sub-agents, answers without their tasks."""

from __future__ import annotations

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import JsonObject, items, words
from ruler_cli.formats.prompts import PROMPTS, prompt_field
from ruler_cli.formats.turns import (
    ANSWER_LISTS,
    ANSWERS,
    answers_path,
    is_reply,
    with_answer,
)

_ANSWERED = {*ANSWERS, *ANSWER_LISTS, "result", "answer"}
_SAID = _ANSWERED | set(
    words("messages text conversations conversation dialog dialogue turns")
)
"""Fields with answers, and those with all turns."""


def is_prompt(record: JsonObject) -> bool:
    """Tell if a record is a prompt of a training set: nobody but the user and the system says anything."""
    messages = items(record.get("messages"))
    if not messages:
        return prompt_field(record) is not None and not _SAID & record.keys()
    if answers_path(record):
        return False
    try:
        if is_reply(with_answer(record, messages)[-1]):
            return False
    except UnreadableError:
        return False
    return all(
        isinstance(m, dict) and m.get("role") in ("user", "system", "developer")
        for m in messages
    )


def is_figures(record: JsonObject) -> bool:
    """Tell if a record and its objects hold only numbers: metrics (SkyRL, ART's history)."""
    flat = [
        inner
        for value in record.values()
        for inner in (value.values() if isinstance(value, dict) else [value])
    ]
    values = [value for value in flat if value is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def is_sub_agent(record: JsonObject) -> bool:
    """Tell if a record is a session of a coding agent's sub-agent."""
    from ruler_cli.formats import claude_codex, sessions

    agents = (
        claude_codex.CLAUDE,
        claude_codex.CODEX,
        sessions.GEMINI,
        sessions.OPENCODE,
    )
    return any(agent.is_aside(record) for agent in agents)


def lacks_task(record: JsonObject) -> bool:
    """Tell if a record holds answers, and nothing that may be their prompt."""
    from ruler_cli.formats.preference import numbered

    answered = any(map(record.get, _ANSWERED)) or numbered(record)
    return bool(answered) and not {*PROMPTS} & record.keys()
