"""Words of the dialects of chat messages: roles, fields, kinds of parts, and fields that are not content."""

from __future__ import annotations

import re
from functools import lru_cache

from ruler_cli.files.values import JsonObject, first_stated, is_text, words

AGENT_ROLES = (
    None,
    *words(
        "assistant model agent ai gpt chatgpt bot chatbot Assistant ASSISTANT Model MODEL Agent AGENT AI GPT Bot BOT "
        "submission"
    ),
)
"""Roles of the agent's own messages, and of the message with the work that it submitted.

An item of OpenAI's Responses has none. A tuple, because a dump may hold a role that cannot be hashed."""
USER_ROLES = words("user human system developer User Human USER HUMAN")
RESULT_ROLES = ("tool", "function")
"""Roles of messages that are the result of a call."""
GRADER = "grader"
"""Role of messages that no judge is shown."""
TRANSCRIPT = "transcript"
"""Role of a message that holds a whole conversation as one text: the task and the agent's turns."""
CALL_KEYS = words(
    "tool_calls toolCalls tool_uses function_calls toolInvocations tool_invocations toolsCalled tools_called apis"
)
"""Fields that hold a message's tool calls."""
SINGLE_CALLS = words("function_call tool_call functionCall toolCall")
"""Fields that hold one tool call."""
THOUGHT_KEYS = words("reasoning_content reasoning thinking")
CONTENTS = ("content", "refusal", *SINGLE_CALLS, *CALL_KEYS, *THOUGHT_KEYS)
LABELS = frozenset(
    words(
        "role name type kind block_type part_kind content_type id uuid parent parent_id index "
        "tool_call_id call_id tool_type provider_name provider_model_name function model model_name "
        "provider usage cost timestamp time date created created_at updated_at started_at ended_at "
        "finish_reason stop_reason stop_sequence end_turn logprobs token_ids tokens mask loss weight status "
        "state object metadata meta extra source annotations signature cache_control phase channel recipient "
        "sender agent agent_type is_demo message_type format mime_type encrypted_content response_metadata "
        "additional_properties author_name additional_kwargs "
        "usage_metadata model_extra provider_specific_fields providerData reasoning_details "
        "reply_required system_fingerprint service_tier requestor language_name server_name "
        "span_type event_type step_type"
    )
)
"""Fields of a message that are metadata, not content."""
ABOUT_TURN = LABELS - {
    *words("name function status state source sender agent phase extra")
}
"""Those that are metadata inside another field, too."""
GRADED = frozenset(
    words("""
score scorer grade grader grading judge judgement judgment judged evaluation evaluator eval assert assertion
metric reward feedback rubric critique review annotation annotator verifier verification verdict label target
reference truth gold golden expected solution
""")
)
"""Words, in the singular, of keys with a reference answer or with what graders say."""
NOT_SHOWN = GRADED.union(
    words(
        "correct correctness gt oracle ideal canonical human expert rating quality preferred chosen rejected critic "
        "opinion moderation advantage ruler"
    )
)
"""These words and more, which mean the same in a turn; of a record they may be the rollouts."""
KNOWN = LABELS.union(CONTENTS)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
KIND_KEYS = words("type block_type part_kind content_type message_type kind")
_KINDS = {
    "tool": r"(.+_)?(tool|function|call)_(result|response|output|return)|tool_search_output|retry_prompt"
    r"|code_execution_result|(tool|function)_message",
    "call": r"(?!image_|web_)(.+_)?(call|tool_use|tool_request)|executable_code",
    "thought": "thinking|think|redacted_thinking|(text_)?reasoning(_encrypted|_content)?",
    "user": "user(_prompt)?|human|request|mcp_approval_response",
    "assistant": "(assistant|agent)(_text)?|ai(message)?|response",
    "system": "system(_prompt)?",
}
"""Patterns of the type of a part or of a turn, in small letters with `_` between words, by its kind."""
TYPED = ("call", "tool", "thought")
"""Kinds that hold whatever the role of the turn is."""
OTHERS = ("tool", "user", "system")
"""Kinds that are not the agent's."""
_NEW_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|[-.]")


def kind_of(part: JsonObject) -> str:
    """Return what a part, an item or a turn is by its type: a `call`, a `thought`, or whose; empty if that is unknown.

    The result of a call is the `tool`'s, wherever it stands.
    """
    kind = first_stated(part, KIND_KEYS)
    return _meaning(kind) if is_text(kind) else ""


@lru_cache(1024)
def snake_case(name: str) -> str:
    """Return a name in small letters with `_` between its words."""
    return _NEW_WORD.sub("_", name).lower()


@lru_cache(1024)
def _meaning(kind: str) -> str:
    plain = snake_case(kind)
    for meaning, pattern in _KINDS.items():
        if re.fullmatch(f"({pattern})(_message)?(_chunk)?", plain):
            return meaning
    return ""


@lru_cache(4096)
def words_of(key: str) -> frozenset[str]:
    """Return the words of a key or of a path in lower case, each also in the singular."""
    named = {word.lower() for word in _WORD.findall(key)}
    return frozenset(named | {word.removesuffix("s") for word in named})


_SPEAKERS = {
    "user": "human user prompter question customer caller",
    "assistant": "robot gpt chatgpt bing bard assistant model bot ai claude chatbot agent function_call answer",
    "system": "system",
    "developer": "developer",
    "tool": "tool observation function function_response tool_response api environment",
}
ROLES = {
    name: role for role, names in _SPEAKERS.items() for name in names.split()
}
"""Names of a speaker in data sets → the role of a chat message."""
