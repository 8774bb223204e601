"""A judge that is a function of the program: all that the pool and the ledger promise holds for it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from ruler_cli import (
    AskSettings,
    JudgedGroup,
    JudgeRequest,
    JudgeSettings,
    PoolSettings,
    RefusedError,
    RulerError,
    Scorer,
    ScoreSettings,
    UsageError,
    WrongShapeError,
    score_file,
    score_groups,
)
from ruler_cli.judges.offline import blocks
from tests.conftest import group, read, write
from tests.judge_server.asks import expected_score
from tests.virtual import virtually

GROUPS = [group("a", 0.1, 0.9), group("b", 0.8, 0.2), group("c", 0.5, 0.7)]
TRUE = [(0.1, 0.9), (0.8, 0.2), (0.5, 0.7)]


def reply(
    request: JudgeRequest, score_of: Callable[[str], float] = expected_score
) -> str:
    """Return the reply that gives each rollout its true score."""
    shown = blocks(request.user)
    entries = [
        {
            "trajectory_id": label,
            "explanation": "Read.",
            "score": score_of(shown[label]),
        }
        for label in request.labels
    ]
    return orjson.dumps({"scores": entries}).decode()


class Asked:
    """A judge that notes its requests and answers them, some of them otherwise."""

    def __init__(self, *first: Any, seconds: float = 0.0) -> None:
        """`first` are returned, or raised, in place of the first replies."""
        self.requests: list[JudgeRequest] = []
        self.times: list[float] = []
        self._first, self._seconds = list(first), seconds

    async def __call__(self, request: JudgeRequest) -> Any:
        """Answer, or fail."""
        self.requests.append(request)
        self.times.append(anyio.current_time())
        await anyio.sleep(self._seconds)
        answer = self._first.pop(0) if self._first else reply(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def by(function: Any, model: str = "mine", **more: Any) -> ScoreSettings:
    """Settings with a judge that is a function; `judge` are further settings of it."""
    return ScoreSettings(
        judge=JudgeSettings(model, function=function, **more.pop("judge", {})),
        **{"ledger": None, **more},
    )


async def score_all(
    settings: ScoreSettings, groups: list[Any] = GROUPS
) -> list[JudgedGroup[Any]]:
    """Score groups at once, with one Scorer."""
    async with Scorer(settings) as scorer:
        return list(
            await asyncio.gather(*[scorer.score(item) for item in groups])
        )


def test_scores(tmp_path: Path) -> None:
    """A function's scores are those of any judge, under its name, from a Scorer, a stream and a file."""
    asked = Asked()
    judged = asyncio.run(score_all(by(asked, "openai/gpt-x")))
    assert [result.scores for result in judged] == TRUE
    assert {result.fields["judge"] for result in judged} == {"openai/gpt-x"}
    assert judged[0].fields["served"] == []

    async def streamed() -> list[Any]:
        return [
            result.scores
            async for result in score_groups(GROUPS, by(asked, "offline"))
        ]

    assert asyncio.run(streamed()) == TRUE
    source = write(tmp_path / "in.jsonl", GROUPS)
    summary = asyncio.run(
        score_file(
            source, tmp_path / "out.jsonl", by(asked, judge={"name": "local"})
        )
    )
    assert (summary.scored, summary.asked, len(asked.requests)) == (3, 3, 9)
    assert {
        record["ruler"]["judge"] for record in read(tmp_path / "out.jsonl")
    } == {"local"}


def test_request() -> None:
    """A function gets the messages, the labels, the schema and the length of a reply, all frozen."""
    asked = Asked()
    settings = by(
        asked,
        ask=AskSettings(passes=2, rubric="Be kind."),
        judge={"params": {"effort": "low"}},
    )
    asyncio.run(score_all(settings, GROUPS[:1]))
    first, second = sorted(
        asked.requests, key=lambda request: request.pass_index
    )
    assert (first.model, first.params, first.pass_index, second.pass_index) == (
        "mine",
        {"effort": "low"},
        0,
        1,
    )
    assert first.messages == [
        {"role": "system", "content": first.system},
        {"role": "user", "content": first.user},
    ]
    assert "Be kind." in first.system + first.user
    assert all(label in first.user for label in first.labels)
    assert len(first.labels) == 2
    assert first.schema["required"] == ["scores"]
    assert first.max_output_tokens is not None
    assert first.max_output_tokens > 2 * 60
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.user = ""  # type: ignore[misc]


def test_ledger(tmp_path: Path) -> None:
    """The name, the parameters, the messages and the pass are the key of a reply; the function is not."""
    ledger = tmp_path / "ledger.sqlite"

    def asked_by(*settings: Any, **more: Any) -> int:
        asked = Asked()
        judged = asyncio.run(
            score_all(by(asked, *settings, ledger=ledger, **more))
        )
        assert [result.scores for result in judged] == TRUE
        return len(asked.requests)

    assert asked_by() == 3
    assert asked_by() == 0
    assert asked_by("other") == 3
    assert asked_by(judge={"params": {"effort": "low"}}) == 3
    assert asked_by(judge={"name": "label", "timeout": 1.0, "rpm": 1e6}) == 0
    assert asked_by(ask=AskSettings(passes=2)) == 3
    assert asked_by(ask=AskSettings(rubric="Be kind.")) == 3
    assert asked_by(cached_only=True) == 0
    missing = asyncio.run(
        score_all(by(Asked(), "third", ledger=ledger, cached_only=True))
    )
    assert {result.kind for result in missing} == {"transport"}


def test_mistakes_are_not_kept(tmp_path: Path) -> None:
    """The next run asks again about what a function raised, and not about what it refused."""
    settings: dict[str, Any] = {
        "ledger": tmp_path / "ledger.sqlite",
        "pool": PoolSettings(retries=0),
    }
    answers = iter((None, ValueError("no"), RulerError("I judge no cooking.")))

    async def fails(request: JudgeRequest) -> str:
        if error := next(answers):
            raise error
        return reply(request)

    async def in_turn() -> list[str | None]:
        async with Scorer(by(fails, **settings)) as scorer:
            return [(await scorer.score(item)).reason for item in GROUPS]

    refused = "I judge no cooking."
    assert virtually(in_turn) == [
        "",
        "the judge's function raised ValueError: no",
        refused,
    ]
    again = Asked()
    judged = asyncio.run(score_all(by(again, **settings)))
    assert [result.reason for result in judged] == ["", "", refused]
    assert len(again.requests) == 1


class Broken(dict[str, Any]):
    """A dict that cannot be read."""

    def keys(self) -> Any:
        """Fail."""
        raise ConnectionError


class UntoldError(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise ConnectionError


@pytest.mark.parametrize(
    ("first", "error", "sentence"),
    [
        (
            None,
            RefusedError,
            "the judge's function returned NoneType, not text",
        ),
        (5, RefusedError, "the judge's function returned int, not text"),
        (
            {"scores": {1}},
            RefusedError,
            "the judge's function returned a dict that is not a chat completion",
        ),
        (
            Broken(),
            RefusedError,
            "the judge's function returned a dict that is not a chat completion",
        ),
        (
            UntoldError(),
            RefusedError,
            r"the judge's function raised tests\.judges\.test_function\.UntoldError: <.*>",
        ),
        (
            NameError("no x"),
            RefusedError,
            "the judge's function raised NameError: no x",
        ),
        (
            asyncio.CancelledError(),
            RefusedError,
            r"the judge's function raised asyncio\.exceptions\.CancelledError",
        ),
        (
            TimeoutError(),
            RefusedError,
            "the judge's function raised TimeoutError",
        ),
        (
            RefusedError("no key sk-0123456789abcdef"),
            RefusedError,
            r"no key \[key\]",
        ),
    ],
)
def test_no_reply(
    first: Any, error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    """A function of which no call has an answer stops the run with the reason, however it is asked."""
    source = write(tmp_path / "in.jsonl", GROUPS)

    async def file(settings: ScoreSettings) -> None:
        await score_file(source, tmp_path / "out.jsonl", settings)

    ways: tuple[Callable[[ScoreSettings], Awaitable[Any]], ...] = (
        score_all,
        file,
    )
    for way in ways:
        settings = by(Asked(*[first] * 100))
        with pytest.raises(error, match=f"^{sentence}$"):
            virtually(partial(way, settings))


def sync(request: JudgeRequest) -> str:
    """Answer without `async`."""
    return reply(request)


@pytest.mark.parametrize(
    ("ask", "judge", "error", "sentence"),
    [
        (
            sync,
            {},
            WrongShapeError,
            "judge mine: `function` is not an asynchronous function; define it with `async def`",
        ),
        (
            "mine",
            {},
            UsageError,
            "function: 'mine' is not ",
        ),
    ],
)
def test_refused(
    ask: Any, judge: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    """A function that cannot be asked is refused before any group."""
    with pytest.raises(error, match=sentence):
        Scorer(by(ask, judge=judge))


def test_retries_and_correction() -> None:
    """A failed call is tried again, and an unusable text is answered with what is wrong with it."""
    asked = Asked("No JSON.", None, OSError("reset"))
    (judged,) = virtually(lambda: score_all(by(asked), GROUPS[:1]))
    assert judged.scores == TRUE[0]
    assert judged.fields["usage"]["calls"] == 2
    assert len(asked.requests) == 4
    assert "could not be used" in asked.requests[1].user
    assert asked.requests[1] == asked.requests[2] == asked.requests[3]


def test_deadline() -> None:
    """The deadline of a call holds for a function; tests/pool shows every other limit."""
    stuck = Asked(seconds=1e9)
    settings = by(stuck, judge={"timeout": 5.0}, pool=PoolSettings(retries=1))
    (judged,) = virtually(lambda: score_all(settings, GROUPS[:1]))
    assert str(judged.reason).startswith("the judge did not answer within 5 s")


def test_price() -> None:
    """A price counts tokens that are estimated by length; without one no cost is known."""
    (judged,) = asyncio.run(score_all(by(Asked()), GROUPS[:1]))
    assert judged.fields["cost_usd"] is None
    asked = Asked()
    priced = by(asked, judge={"price": (1e6, 0.0)})
    (judged,) = asyncio.run(score_all(priced, GROUPS[:1]))
    size = len(asked.requests[0].system) + len(asked.requests[0].user)
    assert judged.fields["cost_usd"] == pytest.approx(size / 3.8, rel=0.01)


def completion(content: str, finish_reason: str = "stop") -> dict[str, Any]:
    """A chat completion as a client's `model_dump` gives it."""
    message = {"role": "assistant", "content": content}
    return {
        "model": "qwen-7b",
        "choices": [{"message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 70},
    }


def test_completion() -> None:
    """A chat completion in place of the text tells its model and its tokens, and that it was cut off."""
    cut = Asked(completion("{", "length"))

    async def ask(request: JudgeRequest) -> str | dict[str, Any]:
        answer = await cut(request)
        return answer if isinstance(answer, dict) else completion(answer)

    (judged,) = asyncio.run(score_all(by(ask), GROUPS[:1]))
    assert judged.scores == TRUE[0]
    assert judged.fields["served"] == ["qwen-7b"]
    assert judged.fields["usage"]["prompt_tokens"] == 1400
    assert "cut off by its length" in cut.requests[1].user


@pytest.mark.anyio
async def test_cancelled() -> None:
    """A caller that is cancelled cancels its call, and the Scorer goes on."""
    ended = asyncio.Event()
    stuck = True

    async def ask(request: JudgeRequest) -> str:
        if stuck:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.set()
        return reply(request)

    async with Scorer(by(ask)) as scorer:
        task = asyncio.create_task(scorer.score(GROUPS[0]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        stuck = False
        assert (await scorer.score(GROUPS[0])).scores == TRUE[0]
