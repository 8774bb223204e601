"""Lines with a prompt and its answers, or a conversation: data sets, best-of-n sets, hand-made dumps.

Other records have the same few fields. With `labels` beside them completions are steps of one answer (TRL's
stepwise supervision); a list of prompts is a columnar line; `choices` that are no objects are those of a
question; Harbor's export has `conversations` too, and `task`; a preference pair has them, and `chosen`.
`answer` is mostly the reference answer of a data set: it is an agent's only beside a `question`, if no other
field may be an answer. A data set's own `output` may stand beside a model's answer, whose names therefore
come first. A filter of lm-eval repeats the answers: equal ones are one rollout, scored on each line.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import turns
from ruler_cli.formats.chat import Messages, tools_of
from ruler_cli.formats.fields import (
    first_at,
    is_message_list,
    is_text_list,
    items,
    list_field,
    lookup,
)
from ruler_cli.formats.interface import (
    ID_KEYS,
    Format,
    ListLayout,
    RecordLayout,
    keyed_format,
)
from ruler_cli.formats.parallel import (
    answer_rollout,
    column,
    lists_at,
    no_removal,
    parallel_lists,
    value_at,
)
from ruler_cli.formats.prompts import (
    HISTORIES,
    INSTRUCTION_INPUTS,
    PROMPTS,
    prompt_field,
    retrieved_turn,
    task_turns,
    with_system,
)
from ruler_cli.formats.reader import hashed_key, key_text
from ruler_cli.formats.turns import ANSWER_LISTS, ANSWERS
from ruler_cli.types import Path, Rollout


def _read_ultra(record: dict[str, Any]) -> list[Rollout]:
    completions = list_field(record, "completions")
    prompt = turns.prompt_turns(record.get("instruction"), "instruction")
    out = []
    for i, item in enumerate(completions):
        read = partial(_completion, prompt, item, f"completions[{i}].response")
        out.append(
            turns.read_or_error(
                read, ("completions", i), reward=lookup(item, "overall_score")
            )
        )
    return out


def _completion(prompt: Messages, item: Any, where: str) -> Rollout:
    if not isinstance(item, dict):
        raise UnreadableError("is no object")
    return turns.make_rollout(prompt, turns.answer_turns(item.get("response"), where))


def _is_ultra(record: Mapping[str, Any]) -> bool:
    completions = record.get("completions")
    known = "instruction" in record and isinstance(completions, list)
    return known and all(
        isinstance(item, dict) and "response" in item for item in items(completions)
    )


def _read_reward_bench(record: dict[str, Any]) -> list[Rollout]:
    prompt = turns.prompt_turns(record.get("prompt"), "prompt")
    both = [
        (name, answer)
        for name in ("chosen", "rejected")
        for answer in list_field(record, name)
    ]
    return [
        answer_rollout(prompt, answer, name, i, outcome=name == "chosen")
        for i, (name, answer) in enumerate(both)
    ]


def _read_live_code(record: dict[str, Any]) -> list[Rollout]:
    name = _code_field(record)
    answers = record.get(name)
    if not isinstance(answers, list):
        raise UnreadableError(f"has no list of answers in `{name}`")
    prompt = turns.prompt_turns(record.get("question_content"), "question_content")
    graded = column(record, "graded_list", len(answers))
    return [
        answer_rollout(prompt, answer, name, i, outcome=graded[i])
        for i, answer in enumerate(answers)
    ]


def _code_field(record: Mapping[str, Any]) -> str:
    """Return the field with the whole answers, or else with their code."""
    return "output_list" if is_text_list(record.get("output_list")) else "code_list"


def _read_samples(record: dict[str, Any]) -> list[Rollout]:
    answers = next(iter(items(record.get("resps"))), None)
    answers = [answers] if isinstance(answers, str) else items(answers)
    if not is_text_list(answers):
        raise UnreadableError(
            "has no texts in `resps[0]` (log-likelihoods of choices are no rollouts)"
        )
    prompt = first_at(record, *_ARGUMENTS)
    prompt = (
        prompt[0] if is_text_list(prompt) else prompt
    )  # a chat prompt is JSON text, in a list
    asked: Messages | None = None
    if isinstance(prompt, str) and prompt.lstrip().startswith("["):
        with suppress(UnreadableError):  # a text that begins with a bracket
            asked = turns.json_turns(prompt, "arguments")
    asked = turns.prompt_turns(prompt, "arguments") if asked is None else asked
    return [
        answer_rollout(asked, answer, "resps[0]", i, member=hashed_key(str(i), answer))
        for i, answer in enumerate(answers)
    ]


_ARGUMENTS = ("arguments.gen_args_0.arg_0", "arguments.0.0")


def _sample_key(record: Mapping[str, Any]) -> str | None:
    if record.get("doc_id") is None:
        return None
    return (
        key_text(record["doc_id"])
        + " "
        + hashed_key("prompt", first_at(record, *_ARGUMENTS, "doc"))
    )


def _sample_lists(record: Mapping[str, Any], size: int) -> list[Path]:
    """Return the paths of the answers and of the filtered answers, if the filter left one for each."""
    each = len(items(lookup(record, "filtered_resps.0"))) == size
    return [("resps", 0), ("filtered_resps", 0)] if each else [("resps", 0)]


def _list_path(record: Mapping[str, Any]) -> Path:
    """Return the path of the answers to a prompt; () if there are none."""
    lists = [
        name
        for name in ANSWER_LISTS
        if name != "choices" and isinstance(record.get(name), list)
    ]
    lists += [name for name in ANSWERS if is_text_list(record.get(name))]
    return turns.answers_path(record) or tuple(lists[:1])


def _is_group(record: Mapping[str, Any]) -> bool:
    if "labels" in record or "conversations" in record:
        return False
    if "messages" in record:
        return bool(turns.answers_path(record))
    answers = value_at(record, _list_path(record))
    prompted = prompt_field(record) is not None
    return prompted and isinstance(answers, list) and all(map(turns.is_answer, answers))


def _group_path(record: Mapping[str, Any]) -> Path:
    """Return the same for a record that is known to be a group, which may have only one answer."""
    return _list_path(record) or turns.answers_path(record, 1)


def _read_group(record: dict[str, Any]) -> list[Rollout]:
    path = _group_path(record)
    answers = value_at(record, path)
    if not isinstance(answers, list):
        raise UnreadableError(f"has no list of answers (`{'`, `'.join(ANSWER_LISTS)}`)")
    given, name = record.get("messages"), prompt_field(record)
    prompt = (
        task_turns(record, name)
        if given is None
        else turns.chat_turns(given, "messages")
    )
    rewards = column(record, "rewards", len(answers))
    where, out = ".".join(map(str, path)), []
    for i, value in enumerate(answers):
        # of an object without an answer None remains, which becomes the error of its rollout
        answer = (
            turns.find_answer(value, f"{where}[{i}]")
            if isinstance(value, dict)
            else value
        )
        out.append(answer_rollout(prompt, answer, where, i, reward=rewards[i]))
    return out


def _group_lists(record: Mapping[str, Any], size: int) -> list[Path]:
    apart = (*PROMPTS, *INSTRUCTION_INPUTS, *HISTORIES, "messages", "tools")
    return parallel_lists(record, size, (_group_path(record), ("rewards",)), apart)


_WHOLE = ("messages", "conversations", "conversation", "trajectories")
"""Fields of other shapes, which hold the whole conversation."""
_TURN_LISTS = ("conversations", "conversation", "dialog", "dialogue", "turns", "items")
"""Fields with a list of turns."""


def _pair_fields(record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the fields with prompt and answer of a record; None for one that is missing."""
    prompt = prompt_field(record)
    present = [
        name for name in ANSWERS if name in record and turns.is_answer(record[name])
    ]
    answer = next(
        (name for name in present if record[name] is not None),
        present[0] if present else None,
    )
    if (
        answer is None
        and prompt == "question"
        and isinstance(record.get("answer"), str)
    ):
        answer = "answer"
    return prompt, answer


def _is_pair(record: Mapping[str, Any]) -> bool:
    whole = any(name in record for name in _WHOLE)
    return (
        None not in _pair_fields(record)
        and not whole
        and not turns.answers_path(record)
    )


def _read_pair(record: dict[str, Any], *, as_json: bool = False) -> list[Rollout]:
    prompt_name, answer_name = _pair_fields(record)
    prompt, context = task_turns(record, prompt_name), retrieved_turn(record)
    if answer_name is None:
        raise UnreadableError(f"has no answer (`{'`, `'.join(ANSWERS)}`)")
    answer = turns.response_turns(record.get(answer_name), answer_name, as_json=as_json)
    label, tools, reward = record.get("label"), tools_of(record), record.get("reward")
    outcome = label if isinstance(label, bool) else None
    rollout = turns.make_rollout(
        prompt, [*context, *answer], tools=tools, reward=reward, outcome=outcome
    )
    return [replace(rollout, prompt_length=len(prompt)) if context else rollout]


def _refine(records: Sequence[Mapping[str, Any]]) -> Format:
    """Read answers as JSON text of messages if all of them are."""
    answers = [
        record.get(name)
        for record in records
        if (name := _pair_fields(record)[1]) is not None
    ]
    whole = turns.all_conversations(answers)
    return (
        replace(_PAIR, rollouts=partial(_read_pair, as_json=True)) if whole else _PAIR
    )


_PAIR = Format(
    "prompts with a completion", "prompt-completion", "`prompt`, `completion` or other names of both",
    _is_pair, _read_pair, ID_KEYS, rank=0, refine=_refine,
)  # fmt: skip


def _turns_field(record: Mapping[str, Any]) -> str | None:
    """Return the field that holds the turns, else one that is a dialogue in one text; None if neither."""
    listed = (name for name in _TURN_LISTS if _is_turns(record.get(name)))
    texts = (
        name
        for name in ("text", *_TURN_LISTS)
        if _as_dialogue(record.get(name)) is not None
    )
    return next(listed, None) or next(texts, None)


def _is_turns(value: Any) -> bool:
    if isinstance(value, str) or not is_message_list(value):
        return isinstance(value, str) and turns.json_messages(value) is not None
    return {"role", "content"} <= value[0].keys() or turns.named_turns(
        value
    ) is not None


def _as_dialogue(value: Any) -> Messages | None:
    return (
        turns.dialogue(value)
        if isinstance(value, str) and turns.json_messages(value) is None
        else None
    )


def _read_turns(record: dict[str, Any]) -> list[Rollout]:
    name = _turns_field(record)
    if name is None:
        raise UnreadableError(f"has no turns in `{'`, `'.join(_TURN_LISTS)}`")
    given = _as_dialogue(record[name]) or turns.chat_turns(record[name], name)
    messages = with_system(record, turns.with_answer(record, given))
    return [
        Rollout(messages, tools=tools_of(record) or None, reward=record.get("reward"))
    ]


_PROMPTS = ("prompt", "problem", "question", "question_content", "instruction")
_COMPLETIONS = ("completion", "solution")
_OTHERS = {
    "messages",
    "response",
    "responses",
    "output",
    "outputs",
    "completions",
    "sample_idx",
    "advantage",
}
"""Fields of other records with a `task_id`."""


def _read_completion(record: dict[str, Any]) -> list[Rollout]:
    prompt = next(
        (record[name] for name in _PROMPTS if isinstance(record.get(name), str)), None
    )
    name = next((name for name in _COMPLETIONS if name in record), _COMPLETIONS[0])
    messages = [
        *turns.prompt_turns(prompt, "prompt"),
        *turns.answer_turns(record.get(name), name),
    ]
    return [
        Rollout(messages, reward=record.get("reward"), outcome=record.get("passed"))
    ]


def _is_completion(record: Mapping[str, Any]) -> bool:
    """Tell if it is a sample of a code benchmark: a `solution` beside a prompt may be the data set's own."""
    prompted = any(name in record for name in _PROMPTS)
    if not isinstance(record.get("task_id"), str) or _OTHERS & record.keys():
        return False
    if "completion" in record:
        return isinstance(record["completion"], str) and (
            "passed" in record or not prompted
        )
    return isinstance(record.get("solution"), str) and not prompted


FORMATS = (
    Format(
        "LiveCodeBench outputs", "code", "`question_content`, `code_list`",
        lambda record: "question_content" in record and is_text_list(record.get(_code_field(record))),
        _read_live_code, ("question_id",),
        ListLayout(reward=None, lists=lists_at("output_list", "code_list", "graded_list")),
        shape="group",
    ),
    Format(
        "code completions", "code", "`task_id`, `completion`", _is_completion, _read_completion, ("task_id",)
    ),
    keyed_format(
        "doc_id resps", "lm-eval samples", "lm-eval", _read_samples,
        layout=ListLayout(reward=None, lists=_sample_lists), key_of=_sample_key,
        key_description="doc_id + hash of the prompt",
    ),
    Format(
        "prompts with a list of responses", "prompt-responses", "`prompt`, `responses`", _is_group,
        _read_group, ("group_id", "prompt_id", "example_id", "problem_id", "task_id", "instance_id", "id"),
        ListLayout(reward=("rewards",), lists=_group_lists), shape="group", rank=0,
    ),
    keyed_format(
        "num_correct chosen rejected", "RewardBench 2", "rewardbench2", _read_reward_bench, ("id",),
        ListLayout(
            reward=None,
            lists=no_removal("says how many answers it has, and would be wrong without one of them"),
        ),
        shape="group",
    ),
    Format(
        "UltraFeedback", "ultrafeedback", "`instruction`, `completions`", _is_ultra, _read_ultra,
        layout=RecordLayout(reward=("overall_score",), lists=lists_at("models")), shape="group",
    ),
    _PAIR,
    Format(
        "ShareGPT conversations", "sharegpt", "`conversations`",
        lambda record: not {"messages", "trajectories"} & record.keys() and _turns_field(record) is not None,
        _read_turns, ID_KEYS, rank=0,
    ),
)  # fmt: skip
