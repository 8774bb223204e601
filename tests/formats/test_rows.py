"""Rows of the user's own: in ruler.toml, from Python and from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.reader import Reader, detect
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.types import Line, Record
from tests.conftest import Ruler
from tests.values import read as read_records
from tests.values import talk

TASK: dict[str, Any] = {
    "task": {"id": 7, "text": "Add 2 and 2."},
    "notes": "Use integers.",
    "runs": [{"out": "4", "ok": True, "r": 1}, {"out": "5", "ok": False, "r": 0}],
    "gold": "4",
}
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
ROW = """
[formats.mine]
messages = "runs[].out"
prompt = ["task.text", "notes"]
reward = "runs[].r"
outcome = "runs[].ok"
group_by = "task.id"
reference = "gold"
"""


def line(record: Any, number: int = 1) -> Line:
    """Return a record as a line."""
    return Line(number, 0, json.dumps(record).encode())


def reader(*records: Any, **settings: Any) -> Reader:
    """Return the reader of records."""
    return detect("x", [line(record) for record in records], InputSettings(**settings))


def read(record: Any, **settings: Any) -> Record:
    """Return a record as these settings read it."""
    return reader(record, **settings).read(line(record))[0]


def last_texts(record: Record) -> list[Any]:
    """Return the last text of each rollout."""
    return [rollout.messages[-1]["content"] for rollout in record.rollouts]


def test_by_keys() -> None:
    """Entries of two objects belong together by their keys, whatever their order."""
    record = {"q": "Hi", "out": {"m1": "one", "m2": "two"}, "ok": {"m2": 1, "m1": 0}}
    found = read(record, messages="out{}.value", prompt="q", outcome="ok{}.value")
    assert [rollout.outcome for rollout in found.rollouts] == [0, 1]


def test_lists_that_do_not_belong() -> None:
    """A list that is neither the rollouts' own nor beside it is refused; nothing tells which item is whose."""
    deep = {"q": "Q", "res": [{"o": ["1", "2"]}, {"o": ["3"]}], "ok": [1, 0, 1]}
    with pytest.raises(UnreadableError, match="nothing tells to which rollout"):
        read(deep, messages="res[].o[]", prompt="q", outcome="ok[]")
    both = {"q": "Q", "a": [{"t": "1", "ok": 1}], "b": [{"t": "2"}]}
    with pytest.raises(UnreadableError, match="nothing tells to which rollout"):
        read(both, messages=("a[].t", "b[].t"), prompt="q", outcome="a[].ok")
    short = {"q": "Q", "a": ["1", "2", "3"], "s": [1, 0], "rewards": [7, 8, 9]}
    for path in ("s", "s[]"):
        with pytest.raises(UnreadableError, match="no list of 3 items at `s`"):
            read(short, messages="a", prompt="q", outcome=path)
    with pytest.raises(UnreadableError, match="no list of 3 items at `s`"):
        read(short, messages="a[]", prompt="q", reward="s[]")


def test_reward_through_a_list(ruler: Ruler, tmp_path: Path) -> None:
    """A reward read through a list is kept, no other field of the record is written, and scoring again agrees."""
    record = {"q": "Q?", "a": ["4", "five"], "s": [0.1, 0.2], "rewards": [7, 9]}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    words = "-m", "offline", "--messages", "a[]", "--prompt", "q", "--reward", "s[]"
    assert ruler("score", "in.jsonl", "out.jsonl", *words).returncode == 0
    assert ruler("score", "out.jsonl", "again.jsonl", *words).returncode == 0
    for name in ("out.jsonl", "again.jsonl"):
        out = json.loads((tmp_path / name).read_text())
        assert {key: out[key] for key in record} == record
        noted = [one["independent_reward"] for one in out["ruler"]["rollouts"]]
        assert noted == [0.1, 0.2]


def test_alternatives() -> None:
    """Each path of a row may be one of several."""
    record = {"q": "Hi", "said": "Hello.", "k": 3, "ok": True, "tt": [{"name": "f"}]}
    row = RecordPaths(
        messages="x|said", prompt="x|q", outcome="x|ok", tools="x|tt", group_by="x|k"
    )
    found = read(record, format=row)
    (rollout,) = found.rollouts
    assert (found.key, rollout.outcome, rollout.tools) == ("3", True, [{"name": "f"}])
    assert rollout.messages[0]["content"] == "Hi"


def test_row(ruler: Ruler, tmp_path: Path) -> None:
    """A named row reads a record as a group, and writes each score into the rollout's own object."""
    (tmp_path / "ruler.toml").write_text(ROW)
    (tmp_path / "in.jsonl").write_text(json.dumps(TASK) + "\n")
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline", "--format", "mine")
    assert done.returncode == 0
    out = json.loads((tmp_path / "out.jsonl").read_text())
    assert [run["ruler"]["independent_reward"] for run in out["runs"]] == [1, 0]
    assert [run["r"] for run in out["runs"]] == [
        run["ruler"]["score"] for run in out["runs"]
    ]
    assert (out["ruler"]["key"], out["ruler"]["size"]) == ("7", 2)
    prompt = ruler("prompt", "in.jsonl", "--format", "mine").stdout
    assert "Add 2 and 2.\\n\\nUse integers." in prompt
    assert '"gold"' not in prompt


def test_named_by_keys(ruler: Ruler, tmp_path: Path) -> None:
    """A row with `has` is found without its name, also where one of ruler's own fits."""
    (tmp_path / "ruler.toml").write_text(
        '[formats.own]\nhas = "prompt said"\nmessages = "said"\nprompt = "prompt"\n'
    )
    record = {"prompt": "Hi", "completion": "a draft", "said": "Hello."}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    done = ruler("prompt", "in.jsonl")
    assert "Hello." in done.stdout
    assert "a draft" not in done.stdout


def test_columns() -> None:
    """Answers in named fields, in an object and in lists of lists are one group each."""
    both = {"q": "Hi", "a": "one", "b": "two", "ok": [True, False]}
    found = read(both, messages=("a", "b"), prompt="q", outcome="ok[]")
    assert last_texts(found) == ["one", "two"]
    assert [rollout.outcome for rollout in found.rollouts] == [True, False]
    deep = {
        "q": "Hi",
        "r": [{"o": ["one", "two"], "ok": [1, 0]}, {"o": ["three"], "ok": [1]}],
    }
    found = read(deep, messages="r[].o[]", prompt="q", outcome="r[].ok[]")
    assert last_texts(found) == ["one", "two", "three"]
    assert [rollout.outcome for rollout in found.rollouts] == [1, 0, 1]
    named = {"q": "Hi", "by": {"x": {"t": "one"}, "y": {"t": "two"}}}
    assert last_texts(read(named, messages="by{}.value.t", prompt="q")) == [
        "one",
        "two",
    ]


def test_lists_of_other_lengths() -> None:
    """A list beside the answers that has not an item for each is refused."""
    record = {"q": ["Hi", "Ho"], "a": ["one", "two", "three"]}
    row = RecordPaths(answers="a[]", prompt="q")
    assert last_texts(read(record, format=row)) == ["one", "two", "three"]
    with pytest.raises(UnreadableError, match="no list of 3 items at `q`"):
        read(record, format=RecordPaths(answers="a[]", prompt="q[]"))


def test_calls() -> None:
    """Calls under a name of their own are calls."""
    talk = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "apis": {"name": "f", "arguments": {}}},
    ]
    (rollout,) = read(
        {"talk": talk}, format=RecordPaths(messages="talk", calls="apis")
    ).rollouts
    assert rollout.messages[-1]["tool_calls"] == [{"name": "f", "arguments": {}}]


def test_key_is_no_task() -> None:
    """A field that is the key of groups is not taken as the task."""
    record = {"question": "17", "said": "Hello."}
    (rollout,) = read(record, messages="said", group_by="question").rollouts
    assert [turn["content"] for turn in rollout.messages] == ["Hello."]


def test_prompt_of_texts() -> None:
    """A list of texts at the path of a prompt is one text, a line each."""
    record = {"q": "Which?", "choices": ["a", "b"], "said": "a"}
    (rollout,) = read(record, messages="said", prompt=("q", "choices")).rollouts
    assert rollout.messages[0]["content"] == "Which?\n\na\nb"


def test_turns_of_agents() -> None:
    """A list of turns under the names of agents is one conversation; with `[]` each is a rollout."""
    talk = [{"agent": "Pro", "response": "Yes."}, {"agent": "Con", "response": "No."}]
    record = {"claim": "It rains.", "talk": talk}
    (rollout,) = read(record, messages="talk", prompt="claim").rollouts
    assert [turn.get("name") for turn in rollout.messages] == [None, "Pro", "Con"]
    found = read(record, messages="talk[].response", prompt="claim")
    assert last_texts(found) == ["Yes.", "No."]


def test_several_keys() -> None:
    """Several paths are the key of a group together."""
    record = {
        "messages": TALK,
        "env": "a",
        "seed": 3,
    }
    assert read(record, group_by=("env", "seed")).key == '["a",3]'
    with pytest.raises(UsageError, match="none of the first records has it"):
        reader(record, group_by=("env", "none"))


def test_tools_beside_a_row() -> None:
    """Tools beside the messages at a path of the user's are shown."""
    record = {"said": {"talk": TALK}, "tools": [{"name": "f"}]}
    (rollout,) = read(record, messages="said.talk").rollouts
    assert rollout.tools == [{"name": "f"}]


def test_structured_answer() -> None:
    """Objects that are neither turns nor an answer of a known shape are shown as JSON."""
    record = {"query": "Plan it.", "plan": [{"day": 1, "city": "Oslo"}]}
    (rollout,) = read(record, messages="plan").rollouts
    assert [turn["content"] for turn in rollout.messages] == [
        "Plan it.",
        '[{"day":1,"city":"Oslo"}]',
    ]
    with pytest.raises(UnreadableError, match="no message object"):
        read({"query": "Hi", "talk": [*TALK, 7]}, messages="talk")


def test_tools() -> None:
    """Tools at a path of the user's are those of the rollout."""
    record = {
        "messages": TALK,
        "meta": {"t": '[{"name": "f"}]'},
    }
    assert read(record, tools="meta.t").rollouts[0].tools == [{"name": "f"}]


@pytest.mark.anyio
async def test_function(tmp_path: Path) -> None:
    """A program's own reader makes rollouts of a record, which keeps its other fields."""

    def one(record: Mapping[str, Any]) -> Any:
        return {
            "messages": [
                {"role": "user", "content": record["q"]},
                {"role": "assistant", "content": record["said"]},
            ]
        }

    record = {"q": "Hi", "said": "Hello.", "x": 1}
    assert last_texts(read(record, format=one)) == ["Hello."]
    found = read({**record, "n": 2}, format=lambda record: [one(record)] * record["n"])
    assert last_texts(found) == ["Hello.", "Hello."]
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = [json.dumps(record | {"said": said}) for said in ("Hello.", "What?")]
    source.write_text("\n".join(lines))
    settings = ruler_cli.load_settings(model="offline", format=one, ledger=None)
    await ruler_cli.score_file(source, output, settings)
    for out in map(json.loads, output.read_text().splitlines()):
        assert out["x"] == 1
        assert out["reward"] == out["ruler"]["score"]


def test_mistakes(ruler: Ruler, tmp_path: Path) -> None:
    """A row without messages, with a word that there is not, or with a path that leads nowhere is refused."""
    (tmp_path / "in.jsonl").write_text(json.dumps(TASK) + "\n")
    for text, message in (
        ('[formats.x]\nprompt = "q"\n', "has neither `messages` nor `answers`"),
        (
            '[formats.x]\nmesages = "q"\n',
            "no such option: mesages; did you mean messages?",
        ),
        ('[formats.auto]\nmessages = "runs"\n', "is a name of ruler's own"),
        (
            '[formats.x]\nmessages = "runs"\nreward = "a|b"\n',
            "is one path, because the score is written there",
        ),
        (
            '[formats.x]\nmessages = "runs"\nhas = "name~((" \n',
            "has a pattern, which is not read",
        ),
        (
            '[formats.x]\nmessages = "runs"\nhas = "name=x"\n',
            "[formats.x] has: has a sign that means nothing: =",
        ),
        (
            '[formats.x]\nmessages = "runs[].uot"\n',
            "[formats.x] messages: none of the first records has `runs[].uot`",
        ),
    ):
        (tmp_path / "ruler.toml").write_text(text)
        done = ruler("check", "in.jsonl", "-m", "offline", "--format", "x")
        assert done.returncode == 2
        assert message in done.stderr


def test_listed(ruler: Ruler, tmp_path: Path) -> None:
    """`ruler formats` lists the user's rows before ruler's own, and prints one in the words of ruler.toml."""
    (tmp_path / "ruler.toml").write_text(ROW)
    lines = ruler("formats").stdout.splitlines()
    assert lines[1].startswith("mine ")
    assert any(each.startswith("verl ") for each in lines)
    (tmp_path / "again.toml").write_text(ruler("formats", "mine").stdout)
    assert (
        ruler("formats", "mine", "--config", "again.toml").stdout
        == ruler("formats", "mine").stdout
    )
    assert (
        ruler("formats", "mien").stderr
        == "ruler: no such format: mien; did you mean mine?\n"
    )


def test_lists_of_a_row() -> None:
    """A row of the user's may list paths, also one that is found by its keys."""
    row = RecordPaths(has="ans", answers="ans", prompt=["a", "b"])
    (record,) = read_records({"a": "What is", "b": "2+2?", "ans": "4"}, rows={"m": row})
    assert record.rollouts[0].messages == talk("4", "What is\n\n2+2?")


def test_list_beside_objects() -> None:
    """A reward read from a list beside the rollouts' own objects has an item for each, or the record is refused."""
    record = {"q": "Q?", "runs": [{"o": "4"}, {"o": "five"}], "s": [0.1, 0.2]}
    found = read(record, messages="runs[].o", prompt="q", reward="s[]")
    assert [rollout.reward for rollout in found.rollouts] == [0.1, 0.2]
    with pytest.raises(UnreadableError, match="no list of 2 items at `s`"):
        read({**record, "s": [1]}, messages="runs[].o", prompt="q", reward="s[]")


def test_no_cut_of_entries(ruler: Ruler, tmp_path: Path) -> None:
    """A rollout that is no item of one list cannot be taken out of its record."""
    record = {"q": "Q?", "out": {"m1": "4 four", "m2": "five"}}
    (tmp_path / "in.jsonl").write_text(json.dumps(record) + "\n")
    words = "--messages", "out{}.value", "--prompt", "q"
    assert (
        ruler("score", "in.jsonl", "s.jsonl", "-m", "offline", *words).returncode == 0
    )
    done = ruler("select", "s.jsonl", "k.jsonl", "--keep", 1, "--by", "score", *words)
    assert done.returncode == 2
    assert "holds its answers in lists" in done.stderr


def test_scored_records(ruler: Ruler, tmp_path: Path) -> None:
    """A scored file is read by the row of its document, whose records it holds."""
    (tmp_path / "ruler.toml").write_text(
        '[formats.mine]\nrecords = "data[]"\nmessages = "a"\nprompt = "q"\n'
    )
    data = [{"q": "2+2?", "a": "4"}, {"q": "2+2?", "a": "five"}]
    (tmp_path / "in.json").write_text(json.dumps({"data": data}))
    words = "--format", "mine"
    done = ruler("score", "in.json", "out.jsonl", "-m", "offline", *words)
    assert done.returncode == 0
    assert ruler("report", "out.jsonl", *words).returncode == 0
    assert ruler(
        "select", "out.jsonl", "-", "--keep", 1, "--by", "score", *words
    ).stdout


def test_row_with_a_name_of_rulers_own() -> None:
    """A table of the user's is read by its name, also if a format of ruler's own has that name."""
    row = RecordPaths(answers=("ans",), prompt=("q",))
    record = {"q": "What is 2+2?", "ans": "4"}
    assert last_texts(read(record, format="verl", rows={"verl": row})) == ["4"]
