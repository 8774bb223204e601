"""Groups from Python: one pool for all, in order, with reasons, and nothing left behind."""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import re
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import ruler_cli
from ruler_cli import (
    AskSettings,
    CapReached,
    CombineSettings,
    InputSettings,
    JudgedGroup,
    JudgeSettings,
    Observer,
    PoolSettings,
    RefusedError,
    RulerError,
    Scorer,
    ScoreSettings,
    Summary,
    UsageError,
    WrongShapeError,
    score_file,
    score_groups,
)
from ruler_cli.types import CallError, Reply, Request, Status
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.runs import Stage, Stub, group_of, noisy, truthful
from tests.test_api import art_group
from tests.virtual import virtually

GROUPS = [
    group("a", 0.1, 0.9, 0.4),
    group("b", 0.8, 0.2),
    group("c", 0.5, 0.75, 0.25, 1.0),
]
TRUE = [(0.1, 0.9, 0.4), (0.8, 0.2), (0.5, 0.75, 0.25, 1.0)]
OFFLINE = ScoreSettings(judge=JudgeSettings("offline"), ledger=None)
GONE = CallError(
    "transport", "nobody listens", "call", sent=False, billed=False
)
UPSTREAM = CallError(
    "transport",
    "the judge answered 503: no healthy upstream",
    "call",
    billed=False,
)
REFUSED = CallError("refused", "the key is wrong", "run", billed=False)


def at(server: JudgeServer, cue: str = "good", **more: Any) -> ScoreSettings:
    """Settings for a judge of the server."""
    return ScoreSettings(
        judge=JudgeSettings(f"openai/{cue}", server.base),
        **{"ledger": None, **more},
    )


async def collect(
    groups: Any, settings: ScoreSettings, observer: Observer | None = None
) -> tuple[list[JudgedGroup[Any]], RulerError | None]:
    """All that a stream yields, and the error that ends it."""
    out: list[JudgedGroup[Any]] = []
    try:
        async for one in score_groups(groups, settings, observer=observer):
            out.append(one)
    except RulerError as error:
        return out, error
    return out, None


def timeless(value: Any) -> Any:
    """A JSON value without what depends on the time."""
    text = json.dumps(value)
    return json.loads(
        re.sub(
            r'"(judged_at|latency_s)": ("[^"]*"|[0-9.e-]+)', r'"\1": 0', text
        )
    )


def many(number: int) -> list[Any]:
    """Groups of three rollouts."""
    return [
        group(f"g{i:03}", 0.1, 0.9, round(i % 10 / 10, 1))
        for i in range(number)
    ]


def test_like_the_command(
    tmp_path: Path, server: JudgeServer, ruler: Ruler
) -> None:
    """A stream gives each dict what the command writes, in order, and changes none of its arguments."""
    source = write(tmp_path / "in.jsonl", GROUPS)
    judge = ("-m", "openai/good", "--api-base", server.base)
    ruler("score", source, "out.jsonl", *judge, "--ledger", "none")
    given = copy.deepcopy(GROUPS)
    out, error = asyncio.run(collect(given, at(server)))
    assert error is None
    assert given == GROUPS
    assert [one.scores for one in out] == TRUE
    assert [one.index for one in out] == [0, 1, 2]
    assert not any(one.failed for one in out)
    assert timeless([one.group for one in out]) == timeless(
        read(tmp_path / "out.jsonl")
    )
    assert out[0].fields == out[0].group["ruler"]
    assert [each["score"] for each in out[0].trajectories] == [0.1, 0.9, 0.4]


def test_file_like_the_command(
    tmp_path: Path, server: JudgeServer, ruler: Ruler
) -> None:
    """`score_file` writes the bytes that the command writes, and returns its counts."""
    source = write(tmp_path / "in.jsonl", [*GROUPS, {"trajectories": 3}])
    options = ("--passes", "2", "--api-base", server.base, "--ledger", "none")
    ruler("score", source, "one.jsonl", "-m", "openai/good", *options)
    settings = at(server, ask=AskSettings(passes=2))
    summary = asyncio.run(
        score_file(source, str(tmp_path / "two.jsonl"), settings)
    )
    pattern = rb'"(judged_at|latency_s)": ?("[^"]*"|[0-9.e-]+)'
    one, two = (
        re.sub(pattern, b"", (tmp_path / f"{name}.jsonl").read_bytes())
        for name in ("one", "two")
    )
    assert one == two
    assert isinstance(summary, Summary)
    assert (
        summary.groups,
        summary.scored,
        summary.unreadable,
        summary.asked,
    ) == (
        3,
        3,
        1,
        6,
    )
    with pytest.raises(RefusedError, match="key"):
        asyncio.run(
            score_file(source, tmp_path / "three.jsonl", at(server, "401"))
        )


@pytest.mark.anyio
async def test_failures_are_values(server: JudgeServer) -> None:
    """A group without scores is yielded with its kind and reason, at its place, and has no reward."""
    nothing: dict[str, Any] = {"trajectories": []}
    unreadable = {
        "trajectories": [{"messages": []}, group("d", 0.3)["trajectories"][0]]
    }
    out, error = await collect([GROUPS[0], nothing, unreadable], at(server))
    assert error is None
    assert [one.kind for one in out] == [None, "input", None]
    assert out[1].reason == "the group has no trajectories"
    assert out[2].scores == (None, 0.3)
    assert out[2].tied
    for how, reward in (("null", None), ("keep", 1.0)):
        out, _ = await collect(GROUPS, at(server, "empty", on_failure=how))
        for one in out:
            assert one.failed
            assert (one.kind, set(one.scores)) == ("reply", {None})
            assert (
                one.reason
                == one.fields["reason"]
                == one.trajectories[0]["reason"]
            )
            assert one.group["trajectories"][1]["reward"] == reward
            assert one.group["trajectories"][1]["metrics"] == {
                "independent_reward": 1.0
            }
    for again in [
        one.group for one in out
    ]:  # a second try finds the rewards that were there first
        async with Scorer(at(server)) as scorer:
            scored = await scorer.score(again)
        assert [
            t["ruler"]["independent_reward"]
            for t in scored.group["trajectories"]
        ][:2] == [0.0, 1.0]


@pytest.mark.anyio
async def test_wrong_shapes(
    server: JudgeServer, subtests: pytest.Subtests
) -> None:
    """A value that is no group raises an error that is a TypeError too, and names its place."""
    shapes: list[tuple[Any, str]] = [
        (GROUPS, r"`\[0\]` is a whole group \(native groups\); give it alone"),
        ("group", "of type str"),
        (GROUPS[0]["trajectories"][0], "one trajectory"),
        (
            {"rollouts": []},
            r"the dict holds no rollouts that ruler knows \(its keys: rollouts\)",
        ),
        ({"trajectories": None}, "`trajectories` is of type NoneType"),
        ({"trajectories": {"messages": []}}, "`trajectories` is of type dict"),
        (
            {"trajectories": [ValueError("a rollout failed")]},
            r"`trajectories\[0\]` is of type ValueError",
        ),
        (object(), "of type object"),
    ]
    for shape, sentence in shapes:
        with subtests.test(shape=str(shape)[:40]):
            with pytest.raises(WrongShapeError, match=sentence):
                await ruler_cli.score_group(
                    shape, "openai/good", {"api_base": server.base}
                )
            with pytest.raises(
                TypeError, match=sentence
            ):  # it is the program that is wrong, not the judge
                await ruler_cli.score_group(
                    shape, "offline", swallow_exceptions=True
                )
            async with Scorer(at(server)) as scorer:
                with pytest.raises(WrongShapeError, match=sentence):
                    await scorer.score(shape)
            out, error = await collect(
                [GROUPS[0], shape, GROUPS[1]], at(server)
            )
            assert isinstance(error, WrongShapeError)
            assert str(error).startswith("group 2: ")
            assert [one.scores for one in out] == TRUE[:1]
    server.reset()
    for groups in (GROUPS[0], "groups", None, 3, art_group()):
        with pytest.raises(WrongShapeError, match=r"^groups: "):
            await anext(score_groups(groups, at(server)))  # type: ignore[arg-type]  # as a caller may
    with pytest.raises(WrongShapeError, match=r"^settings: is of type str"):
        Scorer("openai/o3")  # type: ignore[arg-type]  # as a caller may
    with pytest.raises(WrongShapeError, match=r"^settings: is of type str"):
        await ruler_cli.score_file("in.jsonl", "out.jsonl", "openai/o3")  # type: ignore[arg-type]  # as a caller may
    for lists in (None, "text", ["text"], 3):
        with pytest.raises(WrongShapeError, match=r"^group 1: .* of type"):
            await ruler_cli.ruler(lists, "offline")
    assert server.stats()["requests"] == 0


@pytest.mark.anyio
async def test_settings_that_cannot_be(
    server: JudgeServer, subtests: pytest.Subtests
) -> None:
    """Settings that contradict one another, or that say how a file is read, are refused before a call."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"adaptive": True}, "adaptive"),
        ({"combine": CombineSettings(min_passes=2)}, "--set min_passes"),
        ({"input": InputSettings(group_by="x")}, "group_by"),
        ({"input": InputSettings(limit=3)}, "limit"),
        ({"input": InputSettings(records="runs[]")}, "records"),
        ({"on_failure": "drop"}, "skip"),
    ]
    for more, sentence in wrong:
        with subtests.test(sentence), pytest.raises(UsageError, match=sentence):
            Scorer(replace(at(server), **more))
    parts: list[tuple[Any, dict[str, Any]]] = [
        (AskSettings, {"passes": 0}),
        (JudgeSettings, {"params": {"api_key": "sk-1"}}),
        (PoolSettings, {"max_cost": float("nan")}),
        (CombineSettings, {"blend": 2.0}),
    ]
    for kind, values in parts:
        with subtests.test(str(values)), pytest.raises(UsageError):
            kind(**values)
    with pytest.raises(UsageError, match="score_groups"):
        async with Scorer(
            at(server, combine=CombineSettings(debias=True))
        ) as scorer:
            await scorer.score(GROUPS[0])
    with pytest.raises(UsageError, match="async with"):
        await Scorer(OFFLINE).score(GROUPS[0])
    with pytest.raises(UsageError, match="--max-cost: the price"):
        async with Scorer(at(server, pool=PoolSettings(max_cost=1.0))):
            pass
    assert server.stats()["requests"] == 0


def staged(
    path: Path,
    patch: pytest.MonkeyPatch,
    main: Callable[[Stage], Awaitable[None]],
    *judges: Stub,
) -> None:
    """Run with judges that are functions, in virtual time."""
    stage = Stage(path, patch, GROUPS, *judges)
    virtually(lambda: main(stage))


def test_back_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are read no further ahead of a slow consumer than a bounded number, and come in order."""
    judge = Stub(say=truthful, latency=0.01)
    pulled = 0

    def endless() -> Iterator[Any]:
        nonlocal pulled
        while True:
            pulled += 1
            yield group(f"g{pulled}", 0.1, 0.9)

    async def main(stage: Stage) -> None:
        taken, ahead = 0, 0
        async with aclosing(
            score_groups(endless(), stage.settings(ledger=None))
        ) as stream:
            async for one in stream:
                assert one.index == taken
                taken += 1
                await anyio.sleep(1)
                ahead = max(ahead, pulled - taken)
                if taken == 200:
                    break
        assert 30 < ahead < 100

    staged(tmp_path, monkeypatch, main, judge)


def test_one_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits per minute and in flight hold over all streams and single groups of a Scorer."""
    judge = Stub()

    async def main(stage: Stage) -> None:
        async with Scorer(
            stage.settings(rpm=60, concurrency=4, ledger=None)
        ) as scorer:

            async def stream(start: int) -> None:
                groups = many(start + 50)[start:]
                assert (
                    len([one async for one in scorer.score_groups(groups)])
                    == 50
                )

            async with anyio.create_task_group() as tasks:
                for start in (0, 50):
                    tasks.start_soon(stream, start)
                for one in many(130)[100:]:
                    tasks.start_soon(scorer.score, one)
            summary = scorer.summary()
        assert (summary.groups, summary.scored, summary.asked) == (
            130,
            130,
            130,
        )
        assert judge.most <= 4
        times = [begun for begun, _ in judge.times]
        assert (
            max(
                sum(start <= at < start + 60 for at in times) for start in times
            )
            <= 60
        )
        assert times[-1] - times[0] > 120

    staged(tmp_path, monkeypatch, main, judge)


def test_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that the cap leaves out come as such; the cap is raised at the end, or by a later call."""
    judge = Stub(price=(2.0, 8.0))  # 0.0028 USD a call

    async def main(stage: Stage) -> None:
        settings = stage.settings(max_cost=0.05)
        out, error = await collect(many(40), settings)
        assert isinstance(error, CapReached)
        scored = [one for one in out if not one.failed]
        assert len(out) == 40
        assert {one.kind for one in out if one.failed} == {"budget"}
        assert 10 <= len(scored) == len(judge.asked) <= 17
        judge.asked.clear()
        async with Scorer(
            settings
        ) as scorer:  # the scored ones are in the ledger, and cost nothing
            again = []
            with pytest.raises(CapReached, match=": 2 groups are not scored;"):
                for one in many(40):
                    again.append(await scorer.score(one))
            assert not (
                await scorer.score(many(1)[0])
            ).failed  # the ledger answers it still
            summary = scorer.summary()
        assert [one.kind for one in again] == [None] * (len(again) - 1) + [
            "budget"
        ]
        assert len(again) - 1 == len(scored) + len(judge.asked)
        assert summary.cost_usd is not None
        assert 0 < summary.cost_usd <= 0.05
        assert isinstance(summary.stopped, str)

    staged(tmp_path, monkeypatch, main, judge)


@pytest.mark.parametrize("number", [10**6, 60])
def test_endless_at_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """At the cap no iterator is read on, even one that waits; a stream that lacks nothing raises nothing."""

    async def groups() -> AsyncIterator[Any]:
        for i in range(number):
            yield group(f"e{i}", 0.1, 0.9)
        await anyio.sleep_forever()  # for rollouts that are not made yet

    async def main(stage: Stage) -> None:
        settings = stage.settings(max_cost=0.05)
        async with Scorer(settings) as scorer:
            out = []
            with pytest.raises(
                CapReached, match=r": (.*) groups? (is|are) not scored"
            ) as caught:
                async for one in scorer.score_groups(groups()):
                    out.append(one)
            left = sum(one.kind == "budget" for one in out)
            assert f" {left} group" in str(caught.value)
            assert 1 <= left <= 50
            cached = [group(f"e{i}", 0.1, 0.9) for i in range(5)]
            assert not any(
                [one.failed async for one in scorer.score_groups(iter(cached))]
            )

    staged(tmp_path, monkeypatch, main, Stub(price=(2.0, 8.0)))


@pytest.mark.anyio
async def test_batches() -> None:
    """Each stream is a batch of its own, whatever else its Scorer scores before it or beside it."""
    panel, combine = (
        (JudgeSettings("simulated"),),
        CombineSettings(standardize=True),
    )
    settings = replace(OFFLINE, panel=panel, combine=combine)
    low = [group(f"a{i}", 0.0, 0.2, 0.1) for i in range(20)]
    high = [group(f"b{i}", 0.7, 0.9, 0.8) for i in range(20)]
    alone = [
        [one.scores for one in (await collect(groups, settings))[0]]
        for groups in (low, high)
    ]
    async with Scorer(settings) as scorer:

        async def scores(groups: list[Any]) -> list[Any]:
            return [one.scores async for one in scorer.score_groups(groups)]

        assert [await scores(low), await scores(high)] == alone
        assert list(await asyncio.gather(scores(low), scores(high))) == alone
        assert scorer.summary().scored == 80


@pytest.mark.anyio
async def test_missing_outcome() -> None:
    """A path of outcomes that none of the first 20 groups has stops the run."""
    settings = replace(OFFLINE, input=replace(OFFLINE.input, outcome="m.won"))
    groups = [group(f"o{i}", 0.1, 0.9) for i in range(30)]
    async with Scorer(settings) as scorer:
        with pytest.raises(
            UsageError,
            match=r"--outcome m.won: none of the first 20 groups has it",
        ):
            async for _ in scorer.score_groups(groups):
                pass
    groups[19] = {**groups[19], "m": {"won": True}}
    out, error = await collect(groups, settings)
    assert (len(out), error) == (30, None)


def test_observer_that_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception of any method of an observer costs no score; each method's first one is logged."""

    def fails(*_: Any) -> None:
        raise ZeroDivisionError("observed")

    methods = {
        name: fails for name in vars(Observer) if not name.startswith("_")
    }
    failing_observer = type("Failing", (Observer,), methods)()

    def say(request: Request) -> Reply | CallError:
        down = group_of(request) == "g001" and anyio.current_time() < 30
        return replace(GONE, sent=False) if down else truthful(request)

    async def main(stage: Stage) -> None:
        groups = [*many(10), {"trajectories": []}]
        async with Scorer(
            stage.settings(ledger=None, debug=True), observer=failing_observer
        ) as scorer:
            await scorer.score(many(1)[0])
            out = [one async for one in scorer.score_groups(groups)]
        assert [one.failed for one in out] == [False] * 10 + [True]

    staged(tmp_path, monkeypatch, main, Stub(say=say))
    logged = [each.getMessage() for each in caplog.records if each.exc_info]
    assert len(logged) == len(caplog.records)
    once = {line.split("`")[1] for line in logged}
    assert {
        "started",
        "tick",
        "advanced",
        "failed",
        "replied",
        "waiting",
        "answering",
    } <= once
    assert len(logged) == len(once)


def test_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Python's log has the command's warning of text that judges are not shown and, with `debug`, replies."""

    def hidden(i: int) -> dict[str, Any]:
        events = [{"body": f"{i}-{n} {'word ' * 400}"} for n in range(3)]
        return {
            **group(f"h{i}", 0.1, 0.9),
            "scratch": events,
            "tensor": object(),
        }

    async def one() -> None:
        async with Scorer(replace(OFFLINE, debug=True)) as scorer:
            await scorer.score(hidden(0))

    caplog.set_level("INFO", logger="ruler_cli")
    asyncio.run(one())
    asyncio.run(collect([hidden(i) for i in range(25)], OFFLINE))
    text = "judges are shown [0-9]% of the text in the first 20 groups; not shown: scratch.*body"
    (warning,) = [
        each.message for each in caplog.records if each.levelname == "WARNING"
    ]
    assert re.match(text, warning)
    replies = [
        each.message
        for each in caplog.records
        if each.message.startswith("judge on group h0: ")
    ]
    assert len(replies) == 1


def test_observer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An observer hears once of the beginning, and once a second of single groups and streams alike."""

    class Counting(Observer):
        """Counts what it hears."""

        started_with: list[int | None] = []  # noqa: RUF012 - one is made
        tokens: list[int] = []  # noqa: RUF012

        def started(self, groups: int | None) -> None:
            self.started_with.append(groups)

        def tick(self, summary: Summary, status: Status) -> None:
            self.tokens.append(summary.usage.prompt)

    async def main(stage: Stage) -> None:
        observer = Counting()
        async with Scorer(
            stage.settings(ledger=None), observer=observer
        ) as scorer:

            async def stream(number: int) -> None:
                assert [one async for one in scorer.score_groups(many(number))]

            await scorer.score(many(1)[0])
            await asyncio.gather(*[stream(1) for _ in range(4)])
            await anyio.sleep(1.1)
            seconds = int(anyio.current_time())
        assert observer.started_with == [None]
        assert len(observer.tokens) == seconds
        assert (observer.tokens[3], observer.tokens[-1]) == (1000, 5000)

    staged(tmp_path, monkeypatch, main, Stub(latency=2.5))


@pytest.mark.parametrize("wrong", [print, Observer, {}])
def test_no_observer(wrong: Any) -> None:
    """A value that is no observer is refused before any call."""
    with pytest.raises(
        WrongShapeError, match=r"observer: is .*; give an object"
    ):
        Scorer(OFFLINE, observer=wrong)


def test_scored(tmp_path: Path, server: JudgeServer) -> None:
    """An observer gets the final scores of each group once, also cached ones; of a failed group only that."""

    class Taker(Observer):
        def __init__(self) -> None:
            self.taken: list[tuple[str, tuple[float | None, ...], str]] = []

        def scored(
            self,
            group: str,
            scores: Sequence[float | None],
            fields: Mapping[str, Any],
        ) -> None:
            self.taken.append((group, tuple(scores), fields["judge"]))

        def failed(self, group: str, kind: str, reason: str) -> None:
            self.taken.append((group, (), kind))

    groups: list[Any] = [
        *copy.deepcopy(GROUPS),
        {"group_id": "d", "trajectories": []},
    ]
    groups[0]["trajectories"].append({"messages": []})
    expected = [
        ("a", (*TRUE[0], None)),
        ("b", TRUE[1]),
        ("c", TRUE[2]),
        ("d", ()),
    ]
    judges = (
        JudgeSettings("openai/good", server.base),
        JudgeSettings("openai/second", server.base),
    )
    settings = ScoreSettings(
        judge=judges[0],
        panel=judges[1:],
        combine=CombineSettings(standardize=True),
    )

    async def one_by_one(observer: Observer) -> None:
        async with Scorer(at(server), observer=observer) as scorer:
            for each in groups:
                await scorer.score(each)

    async def stream(observer: Observer) -> None:
        out, _ = await collect(groups, settings, observer)
        streamed.append([one.scores for one in out])

    async def file(observer: Observer) -> None:
        source = write(tmp_path / "in.jsonl", groups)
        await score_file(
            source, tmp_path / "out.jsonl", settings, observer=observer
        )

    streamed: list[Any] = []
    takers = [Taker() for _ in range(4)]
    for way, taker in zip(
        (one_by_one, stream, stream, file), takers, strict=True
    ):
        asyncio.run(way(taker))
    assert [(key, scores) for key, scores, _ in takers[0].taken] == expected
    for taker in takers[1:]:
        taken = sorted(taker.taken)
        assert (
            [scores for _, scores, _ in taken[:3]]
            == streamed[0][:3]
            == streamed[1][:3]
        )
        assert [key for key, *_ in taken] == ["a", "b", "c", "d"]
        assert taken[3] == ("d", (), "input")
        assert taken[0][2] == "openai/good, openai/second"
    # the stream and the file that follow have their replies from the ledger
    assert server.stats()["requests"] == 3 + 2 * 3


def test_refused_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that refuses the run ends a stream after all that is done, and each single group."""

    def say(request: Request) -> Reply | CallError:
        return REFUSED if group_of(request) >= "g010" else truthful(request)

    async def main(stage: Stage) -> None:
        settings = stage.settings(concurrency=4, ledger=None)
        out, error = await collect(many(40), settings)
        assert isinstance(error, RefusedError)
        assert [one.index for one in out] == list(range(10))
        async with Scorer(settings) as scorer:
            assert not (await scorer.score(many(1)[0])).failed
            for _ in range(3):
                with pytest.raises(RefusedError) as caught:
                    await scorer.score(many(11)[10])
                assert len(caught.traceback) < 6  # not the same error each time
            assert not (await scorer.score(many(1)[0])).failed

    staged(tmp_path, monkeypatch, main, Stub(say=say))


@pytest.mark.parametrize(
    ("error", "most", "pool"),
    [
        (REFUSED, 8, PoolSettings()),
        (GONE, 64, PoolSettings()),
        (GONE, 32, PoolSettings(wait_for_judge=100.0)),
        (UPSTREAM, 32, PoolSettings(wait_for_judge=100.0)),
        (replace(UPSTREAM, rate=True, retry_after=5000.0), 8, PoolSettings()),
    ],
)
def test_refused_for_now(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: CallError,
    most: int,
    pool: PoolSettings,
) -> None:
    """After a refusal of all calls later groups are asked about again: first one, and all if it is scored."""

    def say(request: Request) -> Reply | CallError:
        return error if anyio.current_time() < 5000 else truthful(request)

    judge, groups = Stub(say=say), many(64)

    async def main(stage: Stage) -> None:
        async with Scorer(
            replace(stage.settings(ledger=None), pool=pool)
        ) as scorer:

            async def step() -> list[Any]:
                began = len(judge.asked)
                ends = await asyncio.gather(
                    *[scorer.score(one) for one in groups],
                    return_exceptions=True,
                )
                asked.append(len(judge.asked) - began)
                return ends

            async def stream() -> None:
                async for _ in scorer.score_groups(groups):
                    pass

            asked = list[int]()
            assert {type(end) for end in await step()} == {RefusedError}
            assert {type(end) for end in await step()} == {RefusedError}
            with pytest.raises(RefusedError):
                await stream()
            began = len(judge.asked)
            with pytest.raises(RefusedError):
                await asyncio.gather(stream(), scorer.score(groups[0]))
            tries = 1 if not pool.wait_for_judge else most
            assert asked[0] <= most
            assert asked[1] <= tries
            assert len(judge.asked) - began <= tries
            await anyio.sleep(6000 - anyio.current_time())
            assert not [one for one in await step() if one.failed]
            await stream()

    staged(tmp_path, monkeypatch, main, judge)


def test_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is stopped waits for calls in flight, no longer than `grace`, and leaves out late groups."""

    class Hanging(Stub):
        """A judge that never answers about two groups, and late about one."""

        async def ask(self, request: Request) -> Reply | CallError:
            await anyio.sleep(
                {"g001": 1e5, "g002": 20, "g004": 1e5}.get(group_of(request), 0)
            )
            return await super().ask(request)

    def say(request: Request) -> Reply | CallError:
        return REFUSED if group_of(request) == "g006" else truthful(request)

    async def main(stage: Stage) -> None:
        settings = replace(
            stage.settings(concurrency=10, ledger=None), grace=30
        )
        out, error = await collect(many(40), settings)
        assert isinstance(error, RefusedError)
        assert [one.index for one in out][:4] == [0, 2, 3, 5]
        assert 25 < anyio.current_time() < 40

        async def waits() -> AsyncIterator[Any]:
            for one in many(7):
                yield one
            await anyio.sleep_forever()  # for rollouts that are not made yet

        out, error = await collect(waits(), settings)
        assert isinstance(error, RefusedError)
        assert anyio.current_time() < 80

    staged(tmp_path, monkeypatch, main, Hanging(say=say))


def test_error_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the groups' own iterator is raised after all groups before it, which finish."""

    async def broken() -> AsyncIterator[Any]:
        for one in many(10):
            yield one
        raise KeyError("the rollout worker is gone")

    async def main(stage: Stage) -> None:
        out = []
        with pytest.raises(KeyError, match="worker"):
            async for one in score_groups(
                broken(), stage.settings(ledger=None)
            ):
                out.append(one)
        assert len(out) == 10

    staged(tmp_path, monkeypatch, main, Stub())


@pytest.mark.anyio
async def test_task_group_of_the_caller(server: JudgeServer) -> None:
    """Groups may come from a generator that holds a task group open while it makes rollouts."""

    async def rollouts() -> AsyncIterator[Any]:
        send, receive = anyio.create_memory_object_stream[Any](5)

        async def make() -> None:
            async with send:
                for one in many(30):
                    await send.send(one)

        async with anyio.create_task_group() as tasks, receive:
            tasks.start_soon(make)
            async for one in receive:
                yield one

    out, error = await collect(rollouts(), at(server))
    assert error is None
    assert [one.index for one in out] == list(range(30))


@pytest.mark.parametrize(
    "more",
    [
        {"debias": True, "passes": 2},
        {"standardize": True},
        {"adaptive": True, "passes": 4},
        {"escalate": "strong", "passes": 2},
        {"group_size": 2, "passes": 2},
    ],
    ids=str,
)
def test_all_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    """Passes, panel, windows and all that needs the batch give the rewards that a file gets."""
    judges = [
        Stub("one", noisy),
        Stub("two", truthful),
        Stub("strong", truthful),
    ]
    names = ("one", "two") if "standardize" in more else ("one",)
    stage = Stage(tmp_path, monkeypatch, many(70), *judges)
    stage.run(*names, ledger=None, **more)
    stage.forget()

    async def main() -> None:
        out, error = await collect(
            many(70), stage.settings(*names, ledger=None, **more)
        )
        assert error is None
        assert [list(one.scores) for one in out] == stage.rewards()
        assert [one.fields["passes"] for one in out] == [
            part["passes"] for part in stage.parts()
        ]

    virtually(main)


def test_judge_that_comes_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Scorer logs an outage with its cause, fails groups after `max_outage`, and goes on afterwards."""

    def say(request: Request) -> Reply | CallError:
        return (
            UPSTREAM if 5 < anyio.current_time() < 3000 else truthful(request)
        )

    async def main(stage: Stage) -> None:
        pool = PoolSettings(max_outage=300.0)
        groups = many(20)
        async with Scorer(
            replace(stage.settings(ledger=None), pool=pool)
        ) as scorer:
            assert (await scorer.score(GROUPS[0])).scores == pytest.approx(
                TRUE[0]
            )
            await anyio.sleep(10)
            out = [one async for one in scorer.score_groups(groups)]
            assert 300 < anyio.current_time() < 2500
            for one in out:
                assert one.kind == "transport"
                assert "no healthy upstream (one)" in str(one.reason)
            await anyio.sleep(3000)
            assert not [
                one async for one in scorer.score_groups(groups) if one.failed
            ]

    with caplog.at_level("WARNING", "ruler_cli"):
        staged(tmp_path, monkeypatch, main, Stub(say=say))
    lines = [
        record.getMessage()
        for record in caplog.records
        if "judge" in record.getMessage()
    ]
    down = "the judge is down: the judge answered 503: no healthy upstream (one); calls wait for up to "
    assert [line[: len(down)] for line in lines] == [down] * len(lines)
    assert lines[0].endswith("5 minutes")
    assert (
        5 <= len(lines) < 50
    )  # no more than one each minute in which calls wait
    assert caplog.records[-1].getMessage().startswith("one answers after ")


def left_behind() -> set[Any]:
    """All tasks of the loop but this one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.anyio
async def test_left_early(server: JudgeServer) -> None:
    """A consumer that breaks out of the loop, or is cancelled, leaves no task, connection or thread."""
    before, threads = left_behind(), {*threading.enumerate()}

    async def endless() -> AsyncIterator[Any]:
        while True:
            yield GROUPS[0]
            await anyio.lowlevel.checkpoint()

    async def breaks() -> None:
        async for _ in score_groups(endless(), at(server)):
            break

    async def closes() -> None:
        async with aclosing(score_groups(endless(), at(server))) as stream:
            await anext(stream)
        assert left_behind() == before

    async def raises() -> None:
        with pytest.raises(KeyError):
            async with Scorer(at(server)) as scorer:
                async for _ in scorer.score_groups(endless()):
                    raise KeyError
        assert left_behind() == before

    async def cancelled(cue: str) -> None:
        with anyio.move_on_after(0.3) as scope:
            async for _ in score_groups(endless(), at(server, cue)):
                pass
        assert scope.cancelled_caught
        assert left_behind() == before
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                async for _ in score_groups(endless(), at(server, cue)):
                    await asyncio.sleep(0.001)

    await breaks()
    await closes()
    await raises()
    await cancelled("good")
    await cancelled("hang")
    for _ in range(100):
        gc.collect()
        if left_behind() == before:
            break
        await anyio.sleep(0.05)
    assert left_behind() == before
    # those of an earlier test may have ended meanwhile
    assert {*threading.enumerate()} <= threads


@pytest.mark.anyio
async def test_closed_in_flight(server: JudgeServer) -> None:
    """To close a Scorer ends its calls in flight with an error that says so, and leaves nothing behind."""
    before = left_behind()
    async with Scorer(at(server, "hang")) as scorer:
        calls = [asyncio.create_task(scorer.score(one)) for one in GROUPS]
        await anyio.sleep(0.2)
    for call in calls:
        with pytest.raises(UsageError, match="closed"):
            await call
    assert left_behind() == before


@pytest.mark.anyio
async def test_one_loop_at_a_time() -> None:
    """A Scorer is open once, in one loop."""
    scorer = Scorer(OFFLINE)
    async with scorer:
        with pytest.raises(UsageError, match="already open"):
            await scorer.__aenter__()
        stream = scorer.score_groups(many(100))
        await anext(stream)
        with pytest.raises(UsageError, match="open in another event loop"):
            await anyio.to_thread.run_sync(
                lambda: asyncio.run(scorer.score(GROUPS[0]))
            )
    with pytest.raises(UsageError, match="closed"):
        [one async for one in stream]
    async with scorer:  # open once more
        assert not (await scorer.score(GROUPS[0])).failed
