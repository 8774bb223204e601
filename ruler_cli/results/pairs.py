"""Scored groups → pairs of a chosen and a rejected rollout, as trainers of preferences read them.

A pair is never made across groups, of a tied group, of rollouts whose scores are closer than the gap, or of two
that read the same. A rollout that cannot be written as it is makes no pair, and is counted with the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from operator import attrgetter
from typing import Any, NamedTuple

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import escaped
from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    is_list,
    is_object,
    is_text,
    json_value,
    lookup,
)
from ruler_cli.messages.content import (
    Turn,
    calls_of,
    first_agent_turn,
    other_text,
)
from ruler_cli.messages.names import THOUGHT_KEYS
from ruler_cli.results.choice import Selected
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.record import RolloutRecord

_ROLES = ("system", "developer", "user", "assistant", "tool")
"""Roles that chat templates know."""
_TEXTS = ("name", "tool_call_id", *THOUGHT_KEYS)
"""Members of a message, beside its content and calls, that chat templates read."""
_DIGITS = 9
"""Decimals of a difference of scores that count."""


class WrittenRollout(NamedTuple):
    """A scored rollout with its id; its prompt, its tools and its answer are JSON."""

    id: str
    score: float
    prompt: str
    tools: str
    answer: str


Pair = tuple[float, WrittenRollout, WrittenRollout]
"""The difference of two scores, the chosen rollout and the rejected one."""


class PairMaker:
    """Makes a pair of each group: its best rollout and its worst.

    `no_pair` counts groups by the reason, `left_out` rollouts that cannot be written; `pairs` counts what was made.
    """

    def __init__(
        self,
        gap: float,
        *,
        table: bool,
    ) -> None:
        """Make pairs whose scores differ by the gap or more.

        In a `table` all objects of a column have the same members, so arguments of calls are JSON text there.
        """
        self._gap = gap
        self._table = table
        self.pairs = 0
        self.no_pair = Counter[str]()
        self.left_out = Counter[str]()

    def lines(self, selected: Selected) -> list[tuple[int, bytes]]:
        """Return the number and the bytes of the pair of a group, if it has one."""
        scores = [r.score for r in selected.rollouts if r.score is not None]
        if not scores:
            reason = "without scores"
        elif selected.scored.alone or len(scores) < 2:
            reason = "nothing to compare"
        elif selected.scored.is_tied:
            reason = "tied"
        elif round(max(scores) - min(scores), _DIGITS) < self._gap:
            reason = "gap too small"
        else:
            pair, reason = self._pair(selected)
            if pair is not None:
                self.pairs += 1
                return [(self.pairs, _line(pair, selected))]
        self.no_pair[reason] += 1
        return []

    def _pair(self, selected: Selected) -> tuple[Pair | None, str]:
        """Return the best and the worst rollout that can be written, or why they are no pair."""
        scored = selected.scored
        ids = rollout_ids(selected.group, scored)
        taken = {rollout.indices for rollout in selected.rollouts}
        written = []
        for name, rollout in zip(ids, scored.rollouts, strict=True):
            if rollout.indices not in taken:
                continue
            try:
                written.append(self._written(selected, rollout, name))
            except UnreadableError as error:
                self.left_out[str(error)] += 1
            except RecursionError:
                self.left_out["nested too deeply"] += 1
        unlike = "no two that can be written"
        if len(written) < 2:
            return None, unlike
        best = max(written, key=attrgetter("score"))
        worst = min(written, key=attrgetter("score"))
        if (best.prompt, best.tools) != (worst.prompt, worst.tools):
            return None, "prompts differ"
        gap = round(best.score - worst.score, _DIGITS)
        if gap < self._gap or best.answer == worst.answer:
            return None, unlike
        return (gap, best, worst), ""

    def _written(
        self,
        selected: Selected,
        scored: RolloutRecord,
        name: str,
    ) -> WrittenRollout:
        """Write a rollout; UnreadableError with the reason if it would not be whole."""
        rollout = selected.group.rollouts[scored.indices[0]]
        if scored.score is None:
            raise UnreadableError("without a score")
        if len(scored.indices) > 1 or rollout.histories:
            raise UnreadableError("several conversations in one rollout")
        begin = rollout.prompt_length
        if begin is None:
            begin = first_agent_turn(rollout.messages)
        turns = [_message(turn, table=self._table) for turn in rollout.messages]
        prompt = turns[:begin]
        answer = turns[begin:]
        if not prompt or prompt[-1]["role"] not in ("user", "tool"):
            raise UnreadableError("the agent speaks before the user")
        if not answer:
            raise UnreadableError("no turn of the agent")
        tools = json_value(rollout.tools or selected.group.tools, text=True)
        if tools in EMPTY:
            tools = None
        elif not is_list(tools):
            raise UnreadableError("tools that are not a list")
        texts = (prompt, tools and _json(tools), answer)
        return WrittenRollout(name, scored.score, *map(_json, texts))


def _line(pair: Pair, selected: Selected) -> bytes:
    """Write a pair as a line, with what it is made of."""
    gap, chosen, rejected = pair
    members = {
        "prompt": chosen.prompt,
        "chosen": chosen.answer,
        "rejected": rejected.answer,
        "tools": chosen.tools,
        "score_chosen": _json(chosen.score),
        "score_rejected": _json(rejected.score),
        "gap": _json(gap),
        "group": _json(group_name(selected.group.key)),
        "chosen_id": _json(chosen.id),
        "rejected_id": _json(rejected.id),
    }
    body = ", ".join(f'"{name}": {value}' for name, value in members.items())
    return escaped(f"{{{body}}}".encode())


def _message(
    message: JsonObject,
    *,
    table: bool,
) -> Turn:
    """Return what a chat template reads of a message; UnreadableError if that is not all that the agent said."""
    role = message.get("role")
    if role not in _ROLES:
        raise UnreadableError("a role that chat templates do not know")
    calls = message.get("tool_calls") or []
    if calls != calls_of(message):
        raise UnreadableError("calls in another form than `tool_calls`")
    if message.get("refusal") or other_text(message):
        raise UnreadableError("text beside the content of a message")
    content = message.get("content")
    if is_list(content) and len(content) == 1:
        (part,) = content
        if lookup(part, "type") in ("text", None):
            content = lookup(part, "text")
    if not is_text(content) and not (content is None and calls):
        raise UnreadableError("content that is not text")
    turn: Turn = {"role": role, "content": content}
    for name in _TEXTS:
        value = message.get(name)
        if value in EMPTY:
            continue
        if not is_text(value):
            raise UnreadableError(f"`{name}` that is not text")
        turn[name] = value
    if calls:
        turn["tool_calls"] = [_call(call, table=table) for call in calls]
    return turn


def _call(
    call: Any,
    *,
    table: bool,
) -> JsonObject:
    """Return a call in OpenAI's form, with an object for its arguments if they are one."""
    function = lookup(call, "function")
    if not is_object(function) or not is_text(function.get("name")):
        raise UnreadableError("calls in another form than `tool_calls`")
    arguments = function.get("arguments")
    if table:
        arguments = arguments if is_text(arguments) else _json(arguments)
    elif is_object(value := json_value(arguments)):
        arguments = value
    named_by = {"id": call["id"]} if is_text(call.get("id")) else {}
    named = {"name": function["name"], "arguments": arguments}
    return {
        **named_by,
        "type": "function",
        "function": named,
    }


def _json(value: Any) -> str:
    """Write JSON; UnreadableError for what not every reader takes: NaN, or a lone surrogate."""
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
        )
        text.encode()
    except ValueError:
        raise UnreadableError("NaN, or text that is not Unicode") from None
    return text
