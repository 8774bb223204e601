"""Values from Python: settings, groups and their members, and errors, as a program may give or keep them."""

from __future__ import annotations

import asyncio
import collections
import copy
import enum
import pickle
import types
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ruler_cli import (
    AskSettings,
    CapReached,
    InputSettings,
    JudgeSettings,
    MaxFailures,
    NotScoredError,
    PoolSettings,
    RulerError,
    Scorer,
    ScoreSettings,
    TooManyFailures,
    UsageError,
    WrongShapeError,
)
from ruler_cli.object_groups import read_group
from tests.conftest import Ruler, group, rollout, write
from tests.judge_server import JudgeServer

OFFLINE = ScoreSettings(judge=JudgeSettings("offline"), ledger=None)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(
            ({"judge": {"price": price}}, sentence)
            for price, sentence in (
                ((-5, -5), "--price -5: give a number of 0 or more"),
                ((1, float("nan")), "--price nan"),
                ((0.0, float("inf")), "--price inf"),
                ((1,), r"settings.judge.price: is of type tuple\[int\]; give tuple\[float, float\] | None"),
                ("1,2", "settings.judge.price: is of type str"),
            )
        ),
        ({"judge": {"via": "https"}}, "settings.judge.via: is none of 'auto', 'http', 'litellm'"),
        ({"judge": {"timeout": None}}, "settings.judge.timeout: is of type NoneType; give float"),
        ({"judge": {"params": None}}, "settings.judge.params: is of type NoneType; give Mapping"),
        (
            {"panel": ("openai/x",)},
            r"panel: is of type tuple\[str\]; give tuple\[JudgeSettings, ...\]",
        ),
        ({"pool": {"concurrency": 3}}, "settings.pool: is of type dict; give PoolSettings"),
        ({"pool": PoolSettings(retries=2.5)}, "settings.pool.retries: is of type float"),  # type: ignore[arg-type]
        ({"grace": None}, "settings.grace: is of type NoneType; give float"),
        ({"grace": -1.0}, "grace -1: give a number of 0 or more"),
        ({"max_failures": MaxFailures("5")}, "settings.max_failures.number: is of type str"),  # type: ignore[arg-type]
        ({"max_failures": MaxFailures(-1)}, "--max-failures -1: give a number of 0 or more"),
        ({"max_failures": MaxFailures(500, percent=True)}, "--max-failures 500: give a number from 0 to 100"),
        ({"ask": AskSettings(context_tokens=-5)}, "context_tokens -5"),
        ({"ask": AskSettings(rubric=" \n")}, "rubric: is empty"),
        ({"adaptive": "no"}, "settings.adaptive: is of type str; give bool"),
        ({"ledger": "none"}, r"settings.ledger: is of type str; give Path \| None"),
        ({"ledgers": "b.sqlite"}, r"settings.ledgers: is of type str; give tuple\[Path, ...\]"),
        ({"input": InputSettings(outcome=5)}, "settings.input.outcome: is of type int"),  # type: ignore[arg-type]
    ],
)
def test_settings_of_wrong_values(wrong: dict[str, Any], sentence: str) -> None:
    """A value that a setting cannot have is refused with its place, before a judge is asked."""
    judge = JudgeSettings("offline", **wrong.get("judge", {}))
    with pytest.raises(UsageError, match=sentence):
        Scorer(ScoreSettings(**{"ledger": None, **wrong, "judge": judge}))


def test_home_of_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` in the path of a ledger is the user's home."""
    monkeypatch.setenv("HOME", "/home/of/mine")
    settings = ScoreSettings(ledger=Path("~/a.sqlite"), ledgers=(Path("~/b.sqlite"),))
    assert (settings.ledger, settings.ledgers) == (
        Path("/home/of/mine/a.sqlite"),
        (Path("/home/of/mine/b.sqlite"),),
    )


@pytest.mark.anyio
async def test_single(server: JudgeServer) -> None:
    """`AskSettings(single="score")` alone gives a lone rollout a score that counts."""
    judge = JudgeSettings("openai/good", server.base)
    settings = ScoreSettings(judge=judge, ask=AskSettings(single="score", passes=2), ledger=None)
    async with Scorer(settings) as scorer:
        judged = await scorer.score({"trajectories": [rollout(0.7)]})
    assert (judged.scores, judged.tied, judged.fields["passes"]) == ((0.7,), False, 2)


@pytest.mark.parametrize(
    "error",
    [
        CapReached(1.0, 3, 2),
        NotScoredError("reply", "no answer"),
        TooManyFailures("5%"),
        WrongShapeError("settings: are wrong"),
    ],
)
def test_errors_of_other_processes(error: RulerError) -> None:
    """An error keeps its sentence, its exit code and its kind in a pickle and in a copy."""
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert (str(other), other.exit_code, vars(other)) == (str(error), error.exit_code, vars(error))


def talk(answer: str, **beside: Any) -> dict[str, Any]:
    """A trajectory with fields beside its messages."""
    return {
        "messages": [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": answer}],
        **beside,
    }


NATIVE = [
    {"trajectories": [talk("a", system="Be safe.", model_patch=f"diff {n}") for n in range(2)]},
    {"trajectories": [{"messages": talk("")["messages"][:1], "response": f"Done {n}."} for n in range(2)]},
    {"trajectories": [talk(f"{n}", info={"submission": f"diff {n}", "seed": 1}) for n in range(2)]},
    {"trajectories": [talk(f"{n}", system_prompt="Be brief.", tools=[{"name": "f"}]) for n in range(2)]},
    *(
        {"trajectories": [talk(f"{n} {field}", **{field: tools}) for n in range(2)]}
        for field, tools in (("functions", [{"name": "f"}]), ("info", {"oai_tools": [{"name": "f"}]}))
    ),
    {"tools": [{"name": "g"}], "rubric": "Be strict.", "trajectories": [talk("x"), talk("y", output="?")]},
]
ART = [
    {
        "trajectories": [
            {
                "messages_and_choices": [
                    talk("")["messages"][0],
                    {"finish_reason": "stop", "index": 0, "message": talk(f"{n}")["messages"][1]},
                ],
                "additional_histories": [{"messages_and_choices": talk(f"aside {n}")["messages"]}],
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
                            "request": {"messages": talk("")["messages"][:1], "tools": [{"name": "f"}]},
                            "response": {"choices": [{"message": talk(f"{n}")["messages"][1]}]},
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
    groups: list[dict[str, Any]], tmp_path: Path, server: JudgeServer, ruler: Ruler
) -> None:
    """A group from Python, as dicts or as objects, is shown to the judge as the command shows it."""
    source = write(tmp_path / "in.jsonl", groups)
    ruler("score", source, "out.jsonl", "-m", "openai/good", "--api-base", server.base)
    sent = server.stats()["requests"]
    assert sent >= len(groups)
    settings = ScoreSettings(judge=JudgeSettings("openai/good", server.base))
    objects = [
        types.SimpleNamespace(
            **{**each, "trajectories": [types.SimpleNamespace(**t) for t in each["trajectories"]]}
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
    async with Scorer(ScoreSettings(judge=JudgeSettings("openai/good", server.base), ledger=None)) as scorer:
        task = asyncio.create_task(scorer.score(given))
        await asyncio.sleep(0)
        for trajectory in given["trajectories"]:
            trajectory["messages"].clear()
            trajectory |= {"reward": None, "metrics": 5}
        given["trajectories"].reverse()
        given["trajectories"].pop()
        judged = await task
    assert judged.scores == (0.1, 0.9, 0.4)
    for one, other in zip(judged.group["trajectories"], before["trajectories"], strict=True):
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
    return read_group(given, 0, InputSettings(**paths)).group


def test_plain_values() -> None:
    """Enums, slots, models and numbers of other libraries reach the judge as what they say."""
    messages = [
        {"role": Role.USER, "content": [Part("Fix it.")]},
        types.SimpleNamespace(role=Role.AGENT, content="Done."),
    ]
    (shown,) = read({"trajectories": [{"messages": collections.deque(messages)}]}).rollouts
    assert shown.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "assistant", "content": "Done."},
    ]
    numbers = (1, True, 1.0, Scalar(1.0), np.float32(1), np.bool_(True), np.array(1.0), Decimal(1))
    for number in numbers:
        (shown,) = read({"trajectories": [talk("a", reward=number, ok=number)]}, outcome="ok").rollouts
        assert (shown.reward, shown.outcome) == (1, 1)
        assert type(shown.reward) in (int, float, bool)


@pytest.mark.parametrize("value", [b"Done.", object(), len, {1}, iter("a"), Path("a"), ValueError("a")])
def test_values_without_a_text(value: Any) -> None:
    """A value that JSON has no form for is its trajectory's error, and never shown as an address."""
    one, other = read({"trajectories": [talk(value), talk("Done.")]}).rollouts
    kind = type(value).__name__
    assert one.error == (
        f"`messages` holds a value that is of type {kind}; give dicts, lists, texts and numbers"
    )
    assert other.error is None
    with pytest.raises(WrongShapeError, match=r"^group 1: `tools` holds a value that is of type"):
        read({"tools": [value], "trajectories": [talk("Done.")]})


def test_copy_of_the_answer() -> None:
    """An object in the place of an answer costs no score if the messages end with one, else it does."""

    class Busy:
        messages = talk("a")["messages"]

        @property
        def response(self) -> str:
            raise RuntimeError("not finished")

    given = {"trajectories": [talk("a", response=object()), Busy()]}
    assert [rollout.error for rollout in read(given).rollouts] == [None, None]
    art = {"messages_and_choices": talk("a")["messages"], "response": object()}
    assert read({"trajectories": [art]}).rollouts[0].error is None
    for last in ({"role": "user", "content": "And?"}, {"from": "human", "value": "And?"}):
        asked = {"messages": [*talk("a")["messages"], last], "response": object()}
        (rollout,) = read({"trajectories": [asked]}).rollouts
        assert "`response` holds a value that is of type object" in str(rollout.error)
    (rollout,) = read({"trajectories": [talk("a", system=object())]}).rollouts
    assert "`system` holds a value that is of type object" in str(rollout.error)


def test_mapping_with_rules() -> None:
    """A dict whose kind refuses new keys gives a plain dict."""

    class Closed(dict[str, Any]):
        def update(self, *_: Any, **__: Any) -> None:
            raise KeyError("closed")

    assert read({"trajectories": [Closed(talk("a"))]}).rollouts[0].error is None


def test_cycle() -> None:
    """A group that holds itself is refused."""
    cycle: dict[str, Any] = {}
    cycle["own"] = cycle
    with pytest.raises(WrongShapeError, match="holds itself"):
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
        assert [rollout.outcome for rollout in read(both, outcome=path).rollouts] == [value] * 2
    assert [rollout.outcome for rollout in read(both, outcome="none").rollouts] == [None] * 2


class Pair(NamedTuple):
    """A group that cannot be changed."""

    trajectories: list[Any]


class Guarded:
    """A trajectory that refuses to be copied."""

    messages = talk("Done.")["messages"]

    def __copy__(self) -> Any:
        raise RuntimeError("one of a kind")


@pytest.mark.anyio
@pytest.mark.parametrize("given", [Pair([talk("a")]), {"trajectories": [Guarded()]}])
async def test_no_copy(server: JudgeServer, given: Any) -> None:
    """A group of which no annotated copy can be made is refused before it is paid for."""
    async with Scorer(ScoreSettings(judge=JudgeSettings("openai/good", server.base), ledger=None)) as scorer:
        with pytest.raises(WrongShapeError, match="no copy of this"):
            await scorer.score(given)
    assert server.stats()["requests"] == 0


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.UserDict])
async def test_kinds_of_dicts(kind: Callable[..., Any]) -> None:
    """A dict of its own kind comes back as that kind, and the one that was given stays as it was."""
    given = kind(trajectories=[kind(talk("Done."))])
    async with Scorer(OFFLINE) as scorer:
        judged = await scorer.score(given)
    for one in (judged.group, judged.group["trajectories"][0]):
        assert type(one) is kind
        assert one["ruler"]["status"] == "scored"
    assert given == kind(trajectories=[kind(talk("Done."))])
