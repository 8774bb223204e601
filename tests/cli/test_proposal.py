"""Proposals of `ruler check` for a file that no format fits: paths found by looking, and never a gold answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from ruler_cli.files.values import words
from ruler_cli.formats.proposal import propose
from ruler_cli.types import words_of
from tests.conftest import Ruler, write

ASKED = "Cancel order {} and tell me why it is late."
SAID = "Order {} is cancelled in answer {}; it was late because the store had no more of what you asked for in stock."
GOLD = "The right thing to do with order {} is to cancel it, and to say that the store had none of it in stock."


def asked(i: int) -> str:
    """Return the task of a rollout; two have the same."""
    return ASKED.format(i // 2)


def said(i: int, name: str = "") -> str:
    """Return the answer of a rollout."""
    return SAID.format(i // 2, f"{name}{i}")


def turns(i: int) -> list[dict[str, str]]:
    """Return a conversation of a rollout."""
    return [
        {"role": "user", "content": asked(i)},
        {"role": "assistant", "content": said(i)},
    ]


EIGHT = range(8)


def rows(**fields: Any) -> list[dict[str, Any]]:
    """Return eight records; a function as a value gets the number of the record."""
    return [
        {
            name.replace("__", "."): value(i) if callable(value) else value
            for name, value in fields.items()
        }
        for i in EIGHT
    ]


def alone(i: int) -> str:
    """Return a task that no other record has."""
    return asked(2 * i)


def half(i: int) -> int:
    """Return a number that two records share."""
    return i // 2


CASES: dict[str, tuple[Any, str]] = {
    "lines with other names": (
        rows(q_id=half, user_request=asked, llm_reply=said, grade=half),
        "--messages llm_reply --prompt user_request --reward grade",
    ),
    "a list deep in an object": (
        {
            "report": {
                "runs": rows(
                    asked=lambda i: {"task_text": asked(i)},
                    got=lambda i: {"model_output": said(i)},
                )
            }
        },
        "--set 'records=report.runs[]' --messages got.model_output --prompt asked.task_text",
    ),
    "questions by id, by model": (
        {
            model: {
                f"q{i}": {"prompt": asked(i), "response": said(i)}
                for i in EIGHT
            }
            for model in ("m1", "m2")
        },
        "--set 'records=m1{}' --messages value.response --prompt value.prompt",
    ),
    "patches by id": (
        {
            f"a__a-{i}": {"model_patch": said(i), "instance_id": f"a__a-{i}"}
            for i in (1, 2)
        },
        "--set 'records={}' --messages value.model_patch --group-by key",
    ),
    "rollouts with one prompt": (
        rows(
            the_task=alone,
            tries=lambda i: [{"reply": said(i, n), "grade": 1} for n in "ab"],
        ),
        "--messages 'tries[].reply' --prompt the_task --reward 'tries[].grade'",
    ),
    "columns named after models": (
        rows(q=alone, gpt4=said, claude=said),
        "--messages gpt4 --messages claude --prompt q",
    ),
    "a list of answers and one of verdicts": (
        {
            "results": rows(
                the_task=alone,
                qwen_outputs=lambda i: [said(i, "a"), said(i, "b")],
                correctness=[True, False],
            )
        },
        "--set 'records=results[]' --messages qwen_outputs --prompt the_task --outcome correctness",
    ),
    "conversations": (
        rows(case={"id": 1}, talk=turns, score=lambda i: {"value": i}),
        "--messages talk --reward score.value",
    ),
    "conversations with calls that have a type alone": (
        rows(
            case=half,
            talk=lambda i: [*turns(i), {"type": "tool_result", "out": i}],
        ),
        "--messages talk",
    ),
    "a conversation inside an object with an answer's name": (
        rows(case=half, trajectory=lambda i: {"turns": turns(i)}),
        "--messages trajectory.turns",
    ),
    "a conversation that grows": (
        {"talks": [turns(0), [*turns(0), *turns(2)]]},
        "--messages talks.-1",
    ),
    "generated answers that repeat, with passages beside": (
        rows(
            query_id=half,
            the_query=asked,
            passage=said,
            generated_answer=lambda i: said(half(i)),
        ),
        "--messages generated_answer --prompt the_query",
    ),
    "a field that may be gold, in rows that share a task": (
        rows(task=asked, final_answer=said),
        "--messages final_answer --prompt task",
    ),
    "one that is graded": (
        rows(prompt=asked, solution=said, test=GOLD, is_solved=True),
        "--messages solution --prompt prompt --outcome is_solved",
    ),
    "one beside gold answers, in objects alike": (
        rows(
            question=alone,
            truth=GOLD,
            a=lambda i: {"solution": said(i, "a")},
            b=lambda i: {"solution": said(i, "b")},
        ),
        "--messages a.solution --messages b.solution --prompt question",
    ),
    "one below outputs, with what was retrieved": (
        rows(outputs__context=said, outputs__answer=said, inputs__q=asked),
        """--messages '"outputs.answer"' --prompt '"inputs.q"'""",
    ),
    "the only texts, with a figure for each": (
        rows(issue=alone, patches=lambda i: ["", said(i)], success_id=[0, 1]),
        "--messages patches --prompt issue --outcome success_id",
    ),
    "an id that may be the task's": (
        rows(run_id=alone, riddle_id=half, llm_reply=said),
        "--messages llm_reply --group-by riddle_id",
    ),
    "the only text, with gold and an outcome": (
        {"runs": rows(case_idx=half, gold=7, text=said, is_correct="True")},
        "--set 'records=runs[]' --messages text --group-by case_idx --outcome is_correct",
    ),
    "a prompt that holds the question": (
        rows(question=asked, prompt=lambda i: f"{GOLD} {asked(i)}", reply=said),
        "--messages reply --prompt prompt",
    ),
    "answers with figures that are not theirs": (
        rows(
            the_task=alone,
            qwen_outputs=lambda i: [said(i, "a"), said(i, "b")],
            scores=[1, 2, 3],
        ),
        "--messages qwen_outputs --prompt the_task",
    ),
    "calls, some lists of them empty": (
        rows(
            instruction=alone,
            actual_calls=lambda i: [{"function": "f", "arguments": {"id": i}}],
            score={"part": 1.0, "all": 2.0},
        ),
        "--messages actual_calls --prompt instruction --reward score.all",
    ),
    "conversations by id, most of them empty": (
        {f"c{i}": {"talk": turns(i) if i < 3 else []} for i in EIGHT},
        "--set 'records={}' --messages value.talk",
    ),
    "an answer in an object, a count beside": (
        rows(
            event_description=asked,
            prediction=lambda i: {"risk": "high", "act": said(i)},
            correct_calls=7,
            truth={"act": GOLD},
        ),
        "--messages prediction --prompt event_description",
    ),
    "steps": (
        rows(
            goal=asked,
            log=lambda i: [
                {"thought": "I look.", "action": said(i), "observation": "done"}
            ],
        ),
        "--messages log --prompt goal",
    ),
}
"""Shapes that no format fits, and the flags that read them."""


def dumped(folder: Path, shape: Any, name: str = "mine.json") -> None:
    """Write lines, or a document."""
    if isinstance(shape, list):
        write(folder / name, shape)
    else:
        (folder / name).write_text(json.dumps(shape))


@pytest.mark.parametrize("case", CASES)
def test_flags(case: str, ruler: Ruler, tmp_path: Path) -> None:
    """A file that no format fits is met with the flags that read it, and exit code 2."""
    shape, flags = CASES[case]
    dumped(tmp_path, shape)
    done = ruler("check", "mine.json", "--json")
    assert done.returncode == 2
    found = json.loads(done.stdout)["proposal"]
    assert found["command"] == f"ruler check mine.json {flags}"
    page = ruler("check", "mine.json").stdout
    assert page.endswith(f"\nTry it: {found['command']}\n")


NO_ANSWER = ", but no field is clearly an answer"
GOLDEN = words(
    "target ground_truth gt expected expected_output reference reference_response ref_output true_answer "
    "canonical_solution gold gold_response label labels target_output correct_answer human_response ideal_answer"
)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize("inside", [False, True])
def test_never_gold(
    name: str, inside: bool, ruler: Ruler, tmp_path: Path
) -> None:
    """No name or place that says gold is proposed: beside answers, or alone, which is nothing to judge."""
    gold = [
        {name: {"text": GOLD.format(i)} if inside else GOLD.format(i)}
        for i in EIGHT
    ]
    dumped(tmp_path, [{"the_question": asked(i), **gold[i]} for i in EIGHT])
    done = ruler("check", "mine.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert NO_ANSWER in done.stderr
    dumped(
        tmp_path,
        [
            {"the_question": asked(i), **gold[i], "llm_reply": "yes"}
            for i in EIGHT
        ],
    )
    found = json.loads(ruler("check", "mine.json", "--json").stdout)["proposal"]
    assert found["paths"] == {
        "messages": ["llm_reply"],
        "prompt": ["the_question"],
    }


NOTHING: dict[str, Any] = {
    "a script": rows(
        goal=asked, steps=[{"action": "click", "params": {"id": 1}}]
    ),
    "exchanges of one talk": {
        "conversation": rows(user=alone, assistant=said),
        "user_message": ASKED,
    },
    "figures of grades": rows(
        question_id=half, answer_grade="0.5", answer="0", correctness="1"
    ),
    "steps that are not read": rows(
        goal=asked, start_text=said, steps=[{"sight": GOLD}]
    ),
    "gold answers with options": rows(
        question=alone, answer=said, options=[GOLD]
    ),
    "texts of a data set": rows(
        question=alone, true_answer="x", assumption=said
    ),
    "answers in a few records": [
        {"span": i, **({"output": json.dumps(turns(i))} if i > 5 else {})}
        for i in EIGHT
    ],
    "requests": rows(asked=lambda i: json.dumps(turns(i)[:1])),
}


@pytest.mark.parametrize("holds", NOTHING)
def test_nothing_to_judge(holds: str, ruler: Ruler, tmp_path: Path) -> None:
    """For a file without an agent's text `check` and `score` propose nothing, with exit code 2."""
    dumped(tmp_path, NOTHING[holds])
    for command in (
        ["check", "mine.json"],
        ["score", "mine.json", "out.jsonl", "-m", "offline"],
    ):
        done = ruler(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert NO_ANSWER in done.stderr
        assert "--messages PATH" in done.stderr
    assert (
        json.loads(ruler("check", "mine.json", "--json").stdout)["proposal"]
        is None
    )


@pytest.mark.parametrize(
    "place",
    [
        "judge_response",
        "grader.output",
        "evaluation.model_output",
        "config.response",
    ],
)
def test_never_a_grader(place: str) -> None:
    """A place that names a grader, or settings, is no answer."""
    outer, _, inner = place.partition(".")
    records = [
        {
            "the_question": asked(i),
            outer: {inner: said(i)} if inner else said(i),
        }
        for i in EIGHT
    ]
    assert propose(records) is None


HOSTILE = (
    "a\x1b[2Jb",
    "q\"uo'te",
    "new\nline",
    "dot.ted",
    "br[]ack",
    "$(rm x)",
    "bi\u202edi",
    "",
    " ",
    "$'x'",
    "é",
    "-x",
)


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_names(key: str, ruler: Ruler, tmp_path: Path) -> None:
    """Names are safe in a shell and on a terminal, and mean one path; what no path says is not proposed."""
    dumped(
        tmp_path,
        [{"the_task": asked(i), key: {"llm_reply": said(i)}} for i in EIGHT],
    )
    found = json.loads(ruler("check", "mine.json", "--json").stdout)["proposal"]
    done = ruler("check", "mine.json")
    assert not {"\x1b", "\u202e"} & {*done.stdout, *done.stderr}
    if key in ("", "br[]ack"):
        assert (found, done.stdout) == (None, "")
        return
    assert found["command"] in done.stdout
    (path,) = found["paths"]["messages"]
    flags = found["command"].removeprefix("ruler check mine.json ")
    script = f"printf '%s\\0' {flags}"
    printed = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True
    )
    given = printed.stdout.decode().split("\0")
    assert given[:4] == ["--messages", path, "--prompt", "the_task"]
    given = [*given[:-1], "-m", "offline", "--set", "single=score"]
    assert ruler("check", "mine.json", *given).returncode == 0


def test_calls_beside_an_answer(ruler: Ruler, tmp_path: Path) -> None:
    """Calls beside an answer are shown before it, and `prompt` takes the flags of a proposal for `check`."""
    call = {"tool_name": "refund", "arguments": {"id": 1}, "result": "done"}
    run = {"final_output": said(0), "tools_called": [call], "success": True}
    dumped(
        tmp_path, [{"task": {"prompt": asked(i)}, "run": run} for i in EIGHT]
    )
    proposal = json.loads(ruler("check", "mine.json", "--json").stdout)
    command = proposal["proposal"]["command"]
    flags = (
        "--messages run.final_output --prompt task.prompt --outcome run.success"
    )
    assert command == f"ruler check mine.json {flags}"
    lines = ruler("prompt", "mine.json", *flags.split()).stdout.split("\n")
    at = lines.index('call refund: {"id":1}')
    assert lines[at + 1 : at + 3] == [
        'tool refund: "done"',
        f'assistant: "{said(0)}"',
    ]


def test_other_commands_refuse(ruler: Ruler, tmp_path: Path) -> None:
    """Other commands refuse in a sentence, with the command that proposes, and print nothing."""
    dumped(tmp_path, CASES["conversations"][0])
    for command in (
        ["score", "mine.json", "-", "-m", "offline"],
        ["prompt", "mine.json", "-m", "offline"],
    ):
        done = ruler(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.endswith(
            "; `ruler check mine.json` proposes how to read it\n"
        )


def test_a_list_of_several_tasks(ruler: Ruler, tmp_path: Path) -> None:
    """Rollouts in a list that have tasks of their own are refused as one group, with the paths that read them."""
    runs = rows(goal=asked, response=said)
    dumped(tmp_path, {"of": "m", "runs": runs})
    done = ruler(*words_of("check mine.json -m offline --messages runs"))
    assert done.returncode == 2
    assert done.stderr == (
        "ruler: mine.json: --messages runs: is a list of rollouts of several tasks, and not one group; "
        "use --set records=runs[], --messages response and --prompt goal\n"
    )
    ids = [{"prompt_id": i, "response": said(i)} for i in EIGHT]
    dumped(tmp_path, {"of": "m", "runs": ids})
    path = "runs[].response"
    done = ruler(*words_of("check mine.json -m offline --messages"), path)
    assert "--messages response and --group-by prompt_id" in done.stderr
    dumped(
        tmp_path,
        {"of": "m", "runs": [one | {"goal": "Cancel it now."} for one in runs]},
    )
    assert (
        ruler(
            *words_of("check mine.json -m offline --messages runs")
        ).returncode
        == 0
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                ["prompt", "role", "content", "response", "[]", "{}", "key"]
            )
            | st.text(),
            inner,
        )
    ),
)


@hypothesis.given(st.lists(JSON, max_size=6))
def test_any_json(values: list[Any]) -> None:
    """Any JSON gets paths of answers, or none, and no error."""
    row = propose(values)
    assert row is None or row.messages
