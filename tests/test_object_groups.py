"""Values from Python: settings, groups and their members, and errors, as a program may give or keep them."""

from __future__ import annotations

import asyncio
import collections
import copy
import enum
import json
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import BaseModel

from ruler_cli import (
    AskSettings,
    InputSettings,
    JudgeRequest,
    JudgeSettings,
    Scorer,
    ScoreSettings,
    WrongShapeError,
)
from ruler_cli.runs.json_form import member
from ruler_cli.runs.objects import ObjectReader
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer

OFFLINE = ScoreSettings(judge=JudgeSettings("offline"), ledger=None)


def talk(answer: str, **beside: Any) -> dict[str, Any]:
    """A trajectory with fields beside its messages."""
    return {
        "messages": [
            {"role": "user", "content": "Fix it."},
            {"role": "assistant", "content": answer},
        ],
        **beside,
    }


NATIVE = [
    {
        "trajectories": [
            talk("a", system="Be safe.", model_patch=f"diff {n}")
            for n in range(2)
        ]
    },
    {
        "trajectories": [
            {"messages": talk("")["messages"][:1], "response": f"Done {n}."}
            for n in range(2)
        ]
    },
    {
        "trajectories": [
            talk(f"{n}", info={"submission": f"diff {n}", "seed": 1})
            for n in range(2)
        ]
    },
    {
        "trajectories": [
            talk(f"{n}", system_prompt="Be brief.", tools=[{"name": "f"}])
            for n in range(2)
        ]
    },
    *(
        {
            "trajectories": [
                talk(f"{n} {field}", **{field: tools}) for n in range(2)
            ]
        }
        for field, tools in (
            ("functions", [{"name": "f"}]),
            ("info", {"oai_tools": [{"name": "f"}]}),
        )
    ),
    {
        "tools": [{"name": "g"}],
        "rubric": "Be strict.",
        "trajectories": [talk("x"), talk("y", output="?")],
    },
]
ART = [
    {
        "trajectories": [
            {
                "messages_and_choices": [
                    talk("")["messages"][0],
                    {
                        "finish_reason": "stop",
                        "index": 0,
                        "message": talk(f"{n}")["messages"][1],
                    },
                ],
                "additional_histories": [
                    {"messages_and_choices": talk(f"aside {n}")["messages"]}
                ],
                "tools": [{"name": "f"}],
                "test_result": {"git_patch": f"diff {n}"},
            }
            for n in range(2)
        ]
    },
    {
        "trajectories": [
            {
                "exchanges": {
                    "chat_completions": [
                        {
                            "request": {
                                "messages": talk("")["messages"][:1],
                                "tools": [{"name": "f"}],
                            },
                            "response": {
                                "choices": [
                                    {"message": talk(f"{n}")["messages"][1]}
                                ]
                            },
                        }
                    ]
                }
            }
            for n in range(2)
        ]
    },
]


@pytest.mark.parametrize("groups", [NATIVE, ART])
def test_requests_of_the_command(
    groups: list[dict[str, Any]],
    tmp_path: Path,
    server: JudgeServer,
    ruler: Ruler,
) -> None:
    """A group from Python, as dicts or as objects, is shown to the judge as the command shows it."""
    source = write(tmp_path / "in.jsonl", groups)
    judge = ("-m", "openai/good", "--api-base", server.base)
    ruler("score", source, "out.jsonl", *judge)
    sent = server.stats()["requests"]
    assert sent >= len(groups)
    settings = ScoreSettings(judge=JudgeSettings("openai/good", server.base))
    objects = [
        types.SimpleNamespace(
            **{
                **each,
                "trajectories": [
                    types.SimpleNamespace(**t) for t in each["trajectories"]
                ],
            }
        )
        for each in groups
    ]

    async def main() -> None:
        async with Scorer(settings) as scorer:
            for each in [*groups, *objects]:
                judged = await scorer.score(each)
                assert judged.fields["cached"], each

    asyncio.run(main())
    assert server.stats()["requests"] == sent


@pytest.mark.anyio
async def test_changed_while_judged(server: JudgeServer) -> None:
    """A group that its caller changes while it is judged keeps its rollouts, rewards and scores together."""
    given = group("g", 0.1, 0.9, 0.4)
    before = copy.deepcopy(given)
    async with Scorer(
        ScoreSettings(
            judge=JudgeSettings("openai/good", server.base), ledger=None
        )
    ) as scorer:
        task = asyncio.create_task(scorer.score(given))
        await asyncio.sleep(0)
        for trajectory in given["trajectories"]:
            trajectory["messages"].clear()
            trajectory |= {"reward": None, "metrics": 5}
        given["trajectories"].reverse()
        given["trajectories"].pop()
        judged = await task
    assert judged.scores == (0.1, 0.9, 0.4)
    for one, other in zip(
        judged.group["trajectories"], before["trajectories"], strict=True
    ):
        assert one["messages"] == other["messages"]
        assert one["metrics"]["independent_reward"] == other["reward"]


class Role(enum.Enum):
    """Roles of messages."""

    USER = "user"
    AGENT = "assistant"


class Part:
    """A part of a message, without a `__dict__`."""

    __slots__ = ("text", "type")

    def __init__(self, text: str) -> None:
        self.type, self.text = "text", text


class Scalar:
    """A number of a library for tensors: its fields are hidden."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __float__(self) -> float:
        return self._value

    def item(self) -> float:
        """Return the number."""
        return self._value


def read(given: Any, **paths: Any) -> Any:
    """Return the group that is judged."""
    return ObjectReader(InputSettings(**paths)).read(given, 0)


def test_plain_values() -> None:
    """Enums, slots, models and numbers of other libraries reach the judge as what they say."""
    messages = [
        {"role": Role.USER, "content": [Part("Fix it.")]},
        types.SimpleNamespace(role=Role.AGENT, content="Done."),
    ]
    (shown,) = read(
        {"trajectories": [{"messages": collections.deque(messages)}]}
    ).rollouts
    assert shown.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": "Done."},
    ]
    numbers = (
        1,
        True,
        1.0,
        Scalar(1.0),
        np.float32(1),
        np.bool_(True),
        np.array(1.0),
        Decimal(1),
    )
    for number in numbers:
        (shown,) = read(
            {"trajectories": [talk("a", reward=number, ok=number)]},
            outcome="ok",
        ).rollouts
        assert (shown.reward, shown.outcome) == (1, 1)
        assert type(shown.reward) in (int, float, bool)


@pytest.mark.parametrize(
    "value",
    [b"Done.", object(), len, {1}, iter("a"), Path("a"), ValueError("a")],
)
def test_values_without_a_text(value: Any) -> None:
    """A value that JSON has no form for is its trajectory's error, and never shown as an address."""
    one, other = read({"trajectories": [talk(value), talk("Done.")]}).rollouts
    kind = type(value).__name__
    assert one.error == (
        f"`messages` holds a value that is of type {kind}; give dicts, lists, texts and numbers"
    )
    assert other.error is None
    with pytest.raises(
        WrongShapeError,
        match=r"^group 1: `tools` holds a value that is of type",
    ):
        read({"tools": [value], "trajectories": [talk("Done.")]})


def test_objects_that_are_shown() -> None:
    """A member that the judge may be shown and cannot be costs its rollout the score, another costs nothing."""

    class Busy:
        messages = talk("a")["messages"]

        @property
        def response(self) -> str:
            raise RuntimeError("not finished")

    given = {"trajectories": [talk("a", client=object()), Busy()]}
    fine, busy = read(given).rollouts
    assert (fine.error, "`response` cannot be read" in busy.error) == (
        None,
        True,
    )
    for name in ("response", "system"):
        (rollout,) = read(
            {"trajectories": [talk("a", **{name: object()})]}
        ).rollouts
        assert f"`{name}` holds a value that is of type object" in str(
            rollout.error
        )


def test_cycle() -> None:
    """A group that holds itself is refused."""
    cycle: dict[str, Any] = {}
    cycle["own"] = cycle
    with pytest.raises(WrongShapeError, match="contains itself"):
        read({"trajectories": [talk("Done.", response=cycle)]})


def test_paths_of_the_command(tmp_path: Path, ruler: Ruler) -> None:
    """A path leads to the value that it leads to on the command line; one that is not there is refused."""
    given = {"m": {"a.b": 0.5, "n": [1, 2]}, "x.y": 3, "none": None}
    both = {"trajectories": [talk("a", **given), talk("b", **given)]}
    source = write(tmp_path / "in.jsonl", [both])
    for path, value in (
        ("m.n.-1", 2),
        ("m.n.1", 2),
        ("x.y", 3),
        ("m.a.b", None),
        ("m.n.-2", None),
        ("o", None),
    ):
        done = ruler("check", source, "--outcome", path, "-m", "offline")
        assert (done.returncode == 2) == (value is None), path
        assert [
            rollout.outcome for rollout in read(both, outcome=path).rollouts
        ] == [value] * 2
    assert [
        rollout.outcome for rollout in read(both, outcome="none").rollouts
    ] == [None] * 2


class Pair(NamedTuple):
    """A group that cannot be changed."""

    trajectories: list[Any]


class Guarded:
    """A trajectory that refuses to be copied."""

    messages = talk("Done.")["messages"]

    def __copy__(self) -> Any:
        raise RuntimeError("one of a kind")


class Closed(dict[str, Any]):
    """A trajectory that takes no new keys."""

    def update(self, *_: Any, **__: Any) -> None:
        """Refuse."""
        raise KeyError("closed")


@dataclass(frozen=True)
class Frozen:
    """A trajectory whose reward cannot be set."""

    messages: Any
    reward: float | None = None


@pytest.mark.anyio
@pytest.mark.parametrize(
    "given",
    [
        Pair([talk("a")]),
        {"trajectories": [Guarded()]},
        [Closed(talk("a"))],
        [Frozen(talk("a")["messages"])],
    ],
)
async def test_no_copy(server: JudgeServer, given: Any) -> None:
    """A group of which no annotated copy can be made is refused before it is paid for."""
    async with Scorer(
        ScoreSettings(
            judge=JudgeSettings("openai/good", server.base), ledger=None
        )
    ) as scorer:
        with pytest.raises(WrongShapeError, match="no copy of this"):
            await scorer.score(given)
    assert server.stats()["requests"] == 0


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind", [dict, collections.OrderedDict, collections.UserDict]
)
async def test_kinds_of_dicts(kind: Callable[..., Any]) -> None:
    """A dict of its own kind comes back as that kind, and the one that was given is unchanged."""
    given = kind(trajectories=[kind(talk("Done."))])
    async with Scorer(OFFLINE) as scorer:
        judged = await scorer.score(given)
    for one in (judged.group, judged.group["trajectories"][0]):
        assert type(one) is kind
        assert one["ruler"]["status"] == "scored"
    assert given == kind(trajectories=[kind(talk("Done."))])


TASK, ANSWERS = (
    "Cancel order 17.",
    ("Order 17 is cancelled.", "I cannot cancel orders, sorry."),
)
PAIRS = [{"prompt": TASK, "completion": answer} for answer in ANSWERS]


class Message(BaseModel):
    """A message of a client."""

    role: str
    content: str


class State(dict[str, Any]):
    """A dict that answers for the members of its `input`, too, and does not list them, as verifiers' does."""

    def __getitem__(self, key: str) -> Any:
        own = super().__getitem__("input")
        return own[key] if key in own else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a member, also one of `input`."""
        try:
            return self[key]
        except KeyError:
            return default


def state(answer: str) -> State:
    """A rollout of verifiers, with what no JSON has a form for."""
    asked = {
        "prompt": [Message(role="user", content=TASK)],
        "example_id": 3,
        "answer": "yes",
    }
    said = [Message(role="assistant", content=answer)]
    return State(
        input=asked,
        client=object(),
        completion=said,
        reward=0.5,
        metrics={},
        error=None,
    )


def messages_of(answer: str) -> list[Any]:
    """The task and an answer, as messages of a client and as an object with fields."""
    return [
        Message(role="user", content=TASK),
        types.SimpleNamespace(role="assistant", content=answer),
    ]


def talk_of(answer: str) -> dict[str, Any]:
    """A trajectory."""
    return {"messages": messages_of(answer)}


SHAPES: dict[str, Any] = {
    "list": PAIRS,
    "tuple": tuple(PAIRS),
    "trajectories": {
        "group_id": "g",
        "trajectories": list(map(talk_of, ANSWERS)),
    },
    "answers": {"prompt": TASK, "completion": list(ANSWERS)},
    "columns": {
        "prompt": [TASK] * 2,
        "completion": list(ANSWERS),
        "step": [7, 7],
    },
    "chat": [
        {
            "prompt": [{"role": "user", "content": TASK}],
            "completion": [{"role": "assistant", "content": answer}],
        }
        for answer in ANSWERS
    ],
    "states": [state(answer) for answer in ANSWERS],
    "messages": list(map(talk_of, ANSWERS)),
    "halves": [
        {"prompt": messages_of(a)[:1], "completion": messages_of(a)[1:]}
        for a in ANSWERS
    ],
    "objects": [
        types.SimpleNamespace(messages=messages_of(answer), reward=None)
        for answer in ANSWERS
    ],
}


@pytest.mark.anyio
async def test_shapes(subtests: pytest.Subtests) -> None:
    """A group is judged alike whatever its shape, and comes back as its own kind; what was given stays."""
    async with Scorer(OFFLINE) as scorer:
        for name, given in SHAPES.items():
            before = (
                copy.deepcopy(given)
                if name != "states"
                else [dict(each) for each in given]
            )
            with subtests.test(name=name):
                judged = await scorer.score(given)
                assert judged.scores == (0.8, 0.724)
                assert type(judged.group) is type(given)
                assert given == before
                in_dict = judged.group if isinstance(judged.group, dict) else {}
                each = in_dict.get(
                    "trajectories", [] if in_dict else judged.group
                )
                assert [member(one, "reward") for one in each] == [0.8, 0.724][
                    : len(each)
                ]
                assert not in_dict or in_dict["ruler"]
                assert all(
                    isinstance(one, types.SimpleNamespace)
                    or one["ruler"]["score"]
                    for one in each
                )
    states = await _scored(SHAPES["states"])
    assert isinstance(states.group[0]["client"], object)
    assert (states.fields["key"], states.group[0]["completion"]) == (
        "3",
        SHAPES["states"][0]["completion"],
    )
    assert [one["independent_reward"] for one in states.trajectories] == [
        0.5,
        0.5,
    ]
    assert (await _scored(SHAPES["trajectories"])).fields["key"] == "g"
    for stated, key in ((0, "0"), ("", "group 1")):
        given = SHAPES["trajectories"] | {"group_id": stated}
        assert (await _scored(given)).fields["key"] == key


async def _scored(given: Any, **paths: Any) -> Any:
    """Score a group with the paths of some fields."""
    async with Scorer(replace(OFFLINE, input=InputSettings(**paths))) as scorer:
        return await scorer.score(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            [{"a": "b"}],
            r"^group 1: `\[0\]` holds no rollouts that ruler knows \(its keys: a\); name the path",
        ),
        (
            talk("a")["messages"],
            r"`\[0\]` holds no rollouts that ruler knows \(its keys: role, content\)",
        ),
        (
            PAIRS[0],
            r"group 1: is one trajectory \(prompts with a completion\); give each group as a list",
        ),
        (
            {"prompt": [TASK], "completion": ["a"]},
            "the dict holds no rollouts that ruler knows",
        ),
        (
            {
                "prompt": [TASK, "Else."],
                "completion": ["a", "b"],
                "step": [1, 1],
            },
            r"holds 2 groups \(ms-swift steps\); give each group as a list of its rollouts, a dict each",
        ),
        (
            [PAIRS[0], {"task_id": "1", "traj": talk("a")["messages"]}],
            r"`\[0\]` looks like .*`\[1\]` like tau-b",
        ),
        (
            [{"prompt": TASK, "completions": ["a", "b"]}],
            r"`\[0\]` is a whole group .*; give it alone, and",
        ),
        (
            [{"prompt": TASK, "completion": object()}],
            "`completion` holds a value that is of type object",
        ),
        ([TASK], r"`\[0\]` is of type str"),
    ],
)
@pytest.mark.anyio
async def test_unknown_shapes(given: Any, sentence: str) -> None:
    """A shape that is not known, or not one group, is refused with its keys and what to give."""
    with pytest.raises(WrongShapeError, match=sentence):
        await _scored(given)


@pytest.mark.anyio
async def test_broken_records(caplog: pytest.LogCaptureFixture) -> None:
    """A record that cannot be judged has its reason, and costs the others nothing."""
    given = [
        PAIRS[0],
        {"prompt": TASK, "completion": None},
        {"prompt": TASK},
        PAIRS[1],
    ]
    judged = await _scored([*given, {"prompt": TASK, "completion": object()}])
    assert judged.scores == (0.8, None, None, 0.724, None)
    reasons = [each["reason"] for each in judged.trajectories]
    assert reasons[0] == reasons[3] == ""
    assert "null" in reasons[1]
    assert "has no answer" in reasons[2]
    assert "`completion` holds a value that is of type object" in reasons[4]
    assert [each["reward"] for each in judged.group] == list(judged.scores)

    class Lazy(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            return (
                1 / 0
                if super().__getitem__(key) is None
                else super().__getitem__(key)
            )

    lazy = [
        Lazy(PAIRS[0], extra=None),
        Lazy(PAIRS[1]),
        Lazy(prompt=TASK, completion=None),
    ]
    judged = await _scored(lazy)
    assert judged.scores == (0.8, 0.724, None)
    assert (
        "`completion` cannot be read (ZeroDivisionError"
        in judged.trajectories[2]["reason"]
    )
    filters = [
        {
            "doc_id": 1,
            "filter": name,
            "arguments": [[TASK]],
            "resps": [[*ANSWERS, ""]],
        }
        for name in "ab"
    ]
    judged = await _scored(filters)
    assert judged.scores == (0.8, 0.724, None) * 2
    assert len(judged.group) == 2
    assert (
        "left out" not in caplog.text
    )  # as an object is that cannot be judged


@pytest.mark.anyio
async def test_shapes_by_their_paths() -> None:
    """Settings say where messages, task, reward and outcome of a shape stand that is not known by itself."""
    given = [
        {"log": answer, "about": {"task": TASK, "score": i}, "x": 1}
        for i, answer in enumerate(ANSWERS)
    ]
    paths = {"messages": "log", "prompt": "about.task", "reward": "about.score"}
    judged = await _scored(given, **paths)
    assert judged.scores == (0.8, 0.724)
    assert [each["about"]["score"] for each in judged.group] == [0.8, 0.724]
    assert [each["independent_reward"] for each in judged.trajectories] == [
        0,
        1,
    ]
    assert given[0]["about"] == {"task": TASK, "score": 0}
    with pytest.raises(
        WrongShapeError,
        match="none of the first records has it; their keys: prompt,",
    ):
        await _scored(PAIRS, messages="log")
    with pytest.raises(WrongShapeError, match="is not of the format trl"):
        await _scored(PAIRS, format="trl")
    assert (
        await _scored(PAIRS, format="prompt-completion")
    ).scores == judged.scores


SAMPLE = {"task_id": "a", "passed": True}
ORDERS: dict[str, list[list[dict[str, Any]]]] = {
    "answers as JSON": [
        PAIRS,
        [{"prompt": TASK, "completion": json.dumps(talk("a")["messages"])}] * 2,
    ],
    "samples of a benchmark": [
        [{**SAMPLE, "task_id": 3, "prompt": TASK, "completion": "a"}] * 2,
        [{**SAMPLE, "prompt": TASK, "completion": "a"}] * 2,
    ],
}


@pytest.mark.parametrize("name", ORDERS)
def test_shapes_in_any_order(name: str) -> None:
    """A group is read alike whatever groups were read before it."""
    reader = ObjectReader(InputSettings())
    for given in (*ORDERS[name], *ORDERS[name][::-1]):
        alone = ObjectReader(InputSettings()).read(given, 0)
        assert reader.read(given, 0).rollouts == alone.rollouts


@pytest.mark.anyio
async def test_rubric_of_a_group() -> None:
    """A group's own rubric takes the place of the settings', and one that is given with it of both."""
    seen: list[str] = []

    async def ask(request: JudgeRequest) -> str:
        seen.append(request.system)
        return json.dumps(
            {
                "scores": [
                    {"trajectory_id": a, "explanation": "", "score": 0.5}
                    for a in request.labels
                ]
            }
        )

    talks = [talk("a"), talk("b")]
    settings = ScoreSettings(
        judge=JudgeSettings("mine", function=ask),
        ask=AskSettings(rubric="By default."),
        ledger=None,
    )
    objects = types.SimpleNamespace(trajectories=talks, rubric="Of an object.")
    async with Scorer(settings) as scorer:
        expected = (
            (talks, None, "By default."),
            ({"trajectories": talks, "rubric": ""}, None, "By default."),
            (
                {"trajectories": talks, "rubric": "Of a dict."},
                None,
                "Of a dict.",
            ),
            (
                [{**PAIRS[0], "rubric": "Of a record."}, PAIRS[1]],
                None,
                "Of a record.",
            ),
            (objects, None, "Of an object."),
            (objects, "Given.", "Given."),
            (PAIRS, "Given.", "Given."),
        )
        digests = [
            (await scorer.score(given, rubric=rubric)).fields["rubric"]
            for given, rubric, _ in expected
        ]
        streamed = [
            one
            async for one in scorer.score_groups(
                [given for given, _, _ in expected]
            )
        ]
        texts = scorer.summary().rubric_texts
        with pytest.raises(WrongShapeError, match="`rubric` is neither a text"):
            await scorer.score(talks, rubric=5)  # type: ignore[arg-type]  # as a caller may
        wrong = await scorer.score({"trajectories": talks, "rubric": 5})
        assert (wrong.kind, "its rubric is neither a text" in wrong.reason) == (
            "input",
            True,
        )
        with pytest.raises(
            WrongShapeError, match="rubric: only settings read `@FILE`"
        ):
            await scorer.score(talks, rubric="@rubric.txt")
    assert [texts[digest] for digest in digests] == [
        text for *_, text in expected
    ]
    assert all(
        text in system
        for (*_, text), system in zip(expected, seen, strict=False)
    )
    assert [texts[one.fields["rubric"]] for one in streamed[:5]] == [
        text for *_, text in expected[:5]
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("metadata", [[], ["a"], "text", "", 5])
async def test_no_place_for_an_annotation(metadata: Any) -> None:
    """A rollout whose place for `ruler` is not an object fails alone; the value stays, and the others have scores."""
    sample = {
        "group_index": 0,
        "prompt": [{"role": "user", "content": "What is 6 times 7?"}],
        "response_length": 3,
        "label": "42",
        "reward": 0.0,
        "metadata": {},
    }
    rollouts: list[Any] = [
        {**sample, "response": f"It is {40 + n}."} for n in range(3)
    ]
    rollouts[1]["metadata"] = metadata
    async with Scorer(OFFLINE) as scorer:
        judged = await scorer.score(rollouts)
    assert [score is None for score in judged.scores] == [False, True, False]
    assert judged.group[1]["metadata"] == metadata
    assert judged.group[2]["metadata"]["ruler"]["score"] == judged.scores[2]
