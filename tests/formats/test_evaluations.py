"""Runs of evaluation tools: Inspect AI's samples, promptfoo's results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.scoring.rewards import number, passed
from ruler_cli.settings.models import OnFailure
from tests.formats.changes import (
    FAILED,
    SCORED,
    changed,
    keyed,
    same_twice,
    sample,
    written,
)
from tests.values import read, reader, render, talk


def one(**more: Any) -> dict[str, Any]:
    """A sample."""
    return {
        "id": "a",
        "epoch": 1,
        "messages": talk("4"),
        "output": {},
        "metadata": {},
        **more,
    }


def scores(value: Any) -> dict[str, Any]:
    """The score of one scorer."""
    return {"match": {"value": value, "history": []}}


def test_values(subtests: pytest.Subtests) -> None:
    """A score's value is read as it is, whatever its type."""
    for value in ["P", "N", 0.5, True, float("nan"), {"a": 1}, [1, 2], None]:
        with subtests.test(value=str(value)):
            actual = read(one(scores=scores(value)))[0].rollouts[0].reward
            assert repr(actual) == repr(value)
            assert read(one(scores=None))[0].rollouts[0].reward is None


def test_calls_in_metadata() -> None:
    """Calls in a message's metadata, as JSON text too, are the agent's calls."""
    call = {"id": "c", "function": "look", "arguments": {"x": 1}}
    for calls in ([call], json.dumps([call])):
        said = {"role": "assistant", "content": "", "metadata": {"tool_calls": calls}}
        messages = read(one(messages=[*talk("4"), said]))[0].rollouts[0].messages
        assert render(messages)[-1] == 'call look: {"x":1}'


def test_attachments() -> None:
    """Attached texts replace their references; a reference without an attachment stays."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "attachment://1"}]},
        *talk("attachment://2"),
    ]
    actual = (
        read(one(messages=messages, attachments={"1": "long"}))[0].rollouts[0].messages
    )
    assert actual[0]["content"] == [{"type": "text", "text": "long"}]
    assert actual[-1]["content"] == "attachment://2"


def test_parts() -> None:
    """Server-side tool use is a call and its result, and encrypted reasoning is left out."""
    content = [
        {
            "type": "reasoning",
            "reasoning": "gAAAA",
            "redacted": True,
            "summary": "thinks",
        },
        {"type": "text", "text": "first"},
        {
            "type": "tool_use",
            "id": "t",
            "name": "web",
            "arguments": "{}",
            "result": "hits",
        },
        {"type": "text", "text": "then"},
    ]
    messages = [talk("x")[0], {"role": "assistant", "content": content}]
    actual = read(one(messages=messages))[0].rollouts[0].messages
    assert [m["role"] for m in actual] == ["user", "assistant", "tool", "assistant"]
    assert actual[1]["content"] == [
        {"type": "reasoning", "reasoning": "thinks"},
        content[1],
    ]
    assert actual[1]["tool_calls"] == [{"id": "t", "name": "web", "arguments": "{}"}]
    assert (actual[2]["tool_call_id"], actual[2]["content"]) == ("t", "hits")


def test_tool_error() -> None:
    """The error of a tool is part of its result."""
    failed = {
        "role": "tool",
        "content": "",
        "error": {"type": "timeout", "message": "too slow"},
    }
    assert (
        read(one(messages=[*talk("x"), failed]))[0].rollouts[0].messages[-1]["content"]
        == "error: too slow"
    )
    partly = {**failed, "content": "half"}
    actual = (
        read(one(messages=[*talk("x"), partly]))[0].rollouts[0].messages[-1]["content"]
    )
    assert actual == "half\nerror: too slow"


def test_failed(subtests: pytest.Subtests) -> None:
    """A failed sample has no scorer `ruler`, because a null would make the log unreadable."""
    choices: list[OnFailure] = ["null", "keep"]
    for on_failure in choices:
        with subtests.test(on_failure=str(on_failure)):
            record = one(scores=scores("C"))
            for before in (record, written(record, SCORED)):
                done = written(
                    before, FAILED, on_failure=on_failure, using=reader(record)
                )
                assert changed(record, done) == {"metadata.ruler"}
                assert done["metadata"]["ruler"]["independent_reward"] == "C"


def test_no_scores() -> None:
    """A sample without scores gets its first score, and its independent reward is null."""
    for record in (one(), one(scores=None), one(scores={})):
        done = written(record, SCORED)
        assert done["scores"] == {"ruler": {"value": 0.625}}
        assert done["metadata"]["ruler"]["independent_reward"] is None


def test_rewritten_by_inspect() -> None:
    """A scored log that Inspect rewrote, with further fields of a score, is still ruler's."""
    done = written(one(scores=scores("I")), SCORED)
    done["scores"]["ruler"] |= {"answer": None, "history": []}
    again = written(done, SCORED)
    assert again["metadata"]["ruler"]["independent_reward"] == "I"


def test_foreign_scorer() -> None:
    """A sample with a foreign scorer `ruler` is unreadable."""
    with pytest.raises(
        UnreadableError, match="a scorer `ruler` that ruler did not write"
    ):
        read(one(scores={"ruler": {"value": 1}}))


def test_failed_sample() -> None:
    """A sample that failed before its first model call is unreadable with its error."""
    with pytest.raises(UnreadableError, match="when a sample failed early"):
        read(one(messages=[], error={"message": "no key"}))


def test_blocked(subtests: pytest.Subtests) -> None:
    """A sample is unreadable if `metadata` or `scores` is not an object."""
    cases: list[Any] = [{"metadata": "x"}, {"scores": 7}, {"metadata": []}]
    for blocked in cases:
        with (
            subtests.test(blocked=str(blocked)),
            pytest.raises(UnreadableError, match="no object at"),
        ):
            read(one(**blocked))


def answer(content: Any, **more: Any) -> dict[str, Any]:
    """An `output` with one choice."""
    return {
        "choices": [
            {
                "message": {"role": "assistant", "content": content, **more},
                "stop_reason": "stop",
            }
        ]
    }


def turns(**more: Any) -> list[tuple[Any, Any]]:
    """Return the roles and contents of a sample's messages."""
    return [
        (m["role"], m.get("content")) for m in read(one(**more))[0].rollouts[0].messages
    ]


def test_answer_in_output() -> None:
    """An answer only in `output` is the last turn; one among the messages is not repeated."""
    prompt = talk("4")[:1]
    assert turns(messages=prompt, output=answer("5"))[1:] == [("assistant", "5")]
    assert turns(messages=talk("4"), output=answer("4"))[1:] == [("assistant", "4")]
    with_tool = [*talk("4"), {"role": "tool", "content": "ok"}]
    assert turns(messages=with_tool, output=answer("4"))[1:] == [
        ("assistant", "4"),
        ("tool", "ok"),
    ]
    assert turns(messages=with_tool, output=answer("done"))[-1] == ("assistant", "done")
    assert turns(messages=with_tool, output=answer(""))[-1] == ("tool", "ok")
    assert turns(messages=with_tool, output={"choices": []})[-1] == ("tool", "ok")


def test_input_and_output(subtests: pytest.Subtests) -> None:
    """Without messages, `input` and `output` are the conversation."""
    for prompt in ["What is 2+2?", talk("4")[:1]]:
        with subtests.test(prompt=str(prompt)):
            assert turns(messages=[], input=prompt, output=answer("5")) == [
                ("user", "What is 2+2?"),
                ("assistant", "5"),
            ]
            with pytest.raises(UnreadableError, match="failed early"):
                read(
                    one(
                        messages=[],
                        input=prompt,
                        output={"choices": []},
                        error={"message": "no key"},
                    )
                )


def test_attached_answer() -> None:
    """An attached answer replaces its reference."""
    actual = turns(
        messages=[],
        input="q",
        output=answer("attachment://1"),
        attachments={"1": "long"},
    )
    assert actual[-1] == ("assistant", "long")


def test_labels() -> None:
    """A score that is one of several labels is no outcome, in any sample of the log."""
    records = [one(id=word, scores=scores(word)) for word in ("left", "right", "both")]
    actual = [record.rollouts[0] for record in read(*records)]
    assert [(number(r.reward), passed(r.outcome)) for r in actual] == [(None, None)] * 3
    same_twice(records[1])


def test_promptfoo_variables() -> None:
    """A session's id does not distinguish tests; without variables the prompt does."""
    one, _, other, _ = sample("promptfoo")
    one["vars"], other["vars"] = (
        {**r["vars"], "sessionId": str(i)} for i, r in enumerate((one, other))
    )
    assert len(keyed(one, other)) == 1
    bare = [{**r, "vars": {}, "testCase": {"vars": {}}} for r in sample("promptfoo")]
    assert len(keyed(*bare)) == 2


def test_promptfoo_without_prompt() -> None:
    """Without a prompt the variables are the task, and a test's description distinguishes tests."""
    bare = [{**r, "prompt": {"raw": "", "label": "{{q}}"}} for r in sample("promptfoo")]
    first, _ = keyed(*bare).values()
    assert first[0].messages[0]["content"] == {
        "q": "Which gate does the night train to Tromsø leave from?"
    }
    bare[0]["testCase"] = {**bare[0]["testCase"], "description": "asked politely"}
    assert len(keyed(*bare)) == 3


def test_promptfoo_stripped() -> None:
    """A stripped text is neither a task nor an answer."""
    record = sample("promptfoo")[0]
    prompt = {"raw": "[prompt stripped]"}
    assert "Tromsø" in str(
        read({**record, "prompt": prompt})[0].rollouts[0].messages[0]
    )
    with pytest.raises(UnreadableError, match="no `vars`"):
        read({**record, "prompt": prompt, "vars": None, "testCase": {}})
    with pytest.raises(UnreadableError, match="no answer in"):
        read({**record, "response": {"output": "[output stripped]"}})


def test_promptfoo_answers() -> None:
    """Calls are tool calls, an object is content, and an error is no answer."""
    record = sample("promptfoo")[0]
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "book", "arguments": "{}"},
    }
    (actual,) = read({**record, "response": {"output": [call]}})
    assert actual.rollouts[0].messages[-1]["tool_calls"] == [call]
    (actual,) = read({**record, "response": {"output": {"gate": 4}}})
    assert actual.rollouts[0].messages[-1]["content"] == {"gate": 4}
    with pytest.raises(UnreadableError, match="no answer in"):
        read({**record, "response": None, "error": "API error: 429"})


def test_promptfoo_text_prompt(subtests: pytest.Subtests) -> None:
    """A prompt that only resembles messages is text."""
    for raw in ["[not a list", '["a", "b"]', '[{"text": "no role"}]', "[]"]:
        with subtests.test(raw=str(raw)):
            (actual,) = read({**sample("promptfoo")[0], "prompt": {"raw": raw}})
            assert actual.rollouts[0].messages[0] == {"role": "user", "content": raw}


def test_old_promptfoo() -> None:
    """Results without indexes, of promptfoo's first versions, are read."""
    result = {
        "prompt": {"raw": "2+2?"},
        "vars": {"n": 2},
        "response": {"output": "4"},
        "gradingResult": {},
    }
    (record,) = read({**result, "success": True, "score": 1})
    assert record.rollouts[0].messages == talk("4", "2+2?")
    assert (record.rollouts[0].reward, record.rollouts[0].outcome) == (1, True)
