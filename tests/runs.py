"""Whole runs with judges that are functions, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import anyio
import orjson
import pytest

from ruler_cli.errors import InterruptedRun
from ruler_cli.judges.offline import blocks
from ruler_cli.judges.providers import Price, stated_price
from ruler_cli.judges.replies import reply_of
from ruler_cli.judges.resolve import ResolvedJudge
from ruler_cli.pool.engine import StopSignal
from ruler_cli.runs.file import RunResult, score
from ruler_cli.scoring.parse_reply import SCALE
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
)
from ruler_cli.settings.models import ScoreSettings as Settings
from ruler_cli.types import CallError, Observer, Reply, Request
from tests.conftest import read, write
from tests.judge_server.asks import expected_score
from tests.judge_server.conduct import Conduct
from tests.judge_server.judge import Judge as Server
from tests.virtual import virtually

Say = Callable[[Request], Reply | CallError]
_LONGEST = 1e6
"""Virtual seconds after which a run that has not ended never will."""


def answer(
    request: Request,
    score_of: Callable[[str], float],
    tokens: tuple[int, int] = (1000, 100),
) -> Reply:
    """The scores that a function gives the rollouts shown, as a chat completion of so many tokens."""
    shown = blocks(request.user)
    entries = [
        {
            "trajectory_id": label,
            "explanation": f"turn {request.pass_index}",
            "score": score_of(shown[label]),
        }
        for label in request.labels
    ]
    prompt = max(tokens[0], request.size // 5)  # less would be a cut prompt
    text = orjson.dumps({"scores": entries}).decode()
    return _completion(text, (prompt, tokens[1]))


def truthful(request: Request) -> Reply | CallError:
    """Every rollout's true score."""
    return answer(request, expected_score)


def shifting(request: Request) -> Reply | CallError:
    """A true score, a little less than it with every pass, by an amount of the rollout's own."""
    return answer(request, lambda text: given(text, request.pass_index))


def given(text: str, pass_index: int) -> float:
    """The score of `shifting` for a rollout in a pass."""
    truth = expected_score(text)
    return round(
        truth * (1 - 0.07 * pass_index)
        + 0.01 * (len(text) % 3) * (pass_index % 2) * (1 - truth),
        6,
    )


def noisy(request: Request) -> Reply | CallError:
    """True scores that a pass changes by up to .2, for any name of a group."""
    return answer(request, lambda text: _moved(text, request.pass_index))


def _moved(text: str, pass_index: int) -> float:
    by = sum(map(ord, text)) * (7 + 3 * pass_index) % 41 / 100 - 0.2
    return round(min(1.0, max(0.0, expected_score(text) + by)), 6)


def ten(request: Request) -> Reply | CallError:
    """Grade from 0 to 10 in whole numbers, whatever the request says."""
    return answer(request, lambda text: round(10 * expected_score(text)))


def obedient(request: Request) -> Reply | CallError:
    """Grade from 0 to 10 until a request names the scale."""
    return (truthful if SCALE in request.user else ten)(request)


def refusing(request: Request) -> Reply | CallError:
    """Refuse."""
    return _completion(None, refusal="I will not.")


def _completion(
    content: str | None, tokens: tuple[int, int] = (1000, 100), **message: Any
) -> Reply:
    body = {
        "choices": [
            {
                "message": {"content": content, **message},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
    }
    reply = reply_of(orjson.dumps(body))
    assert isinstance(reply, Reply)
    return reply


def served(cue: str = "well") -> Say:
    """Answer as the judge server does to this model's name; questions as it does to System One's."""
    server = Server(Conduct())

    def say(request: Request) -> Reply | CallError:
        body: dict[str, Any] = {"model": cue, "state": request.state}
        body["questions"] = {
            asked.name: {
                "type": "score" if asked.levels else "noul",
                "instructions": asked.text,
                **({"criteria": asked.levels} if asked.levels else {}),
            }
            for asked in request.questions
        }
        if not request.questions:
            roles = zip(
                ("system", "user"), (request.system, request.user), strict=True
            )
            body = {
                "model": cue,
                "messages": [
                    {"role": role, "content": text} for role, text in roles
                ],
                "logprobs": bool(request.words),
                "top_logprobs": 20,
            }
        return reply_of(
            server.answer(orjson.dumps(body), 0.0, accepted=True).body
        )

    return say


BROKEN = CallError("transport", "it is broken", "group", billed=False)


def failing(when: Callable[[Request], bool], then: Say = truthful) -> Say:
    """Fail for good on the requests that `when` selects."""
    return lambda request: BROKEN if when(request) else then(request)


def group_of(request: Request) -> str:
    """The name of the group in a request, as `conftest.group` wrote it."""
    result = re.search(r'"(\w+)-\d+ truth', request.user)
    assert result
    return result[1]


def order_of(request: Request) -> list[str]:
    """The names of the rollouts in the order shown."""
    return re.findall(r'"(\w+-\d+) truth', request.user)


@dataclass
class Stub:
    """A judge that is a function, with its requests and their times."""

    name: str = "one"
    say: Say = truthful
    latency: float = 1.0
    price: tuple[float, float] | None = None
    context: int | None = None
    asked: list[Request] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    most: int = 0
    in_flight: int = 0

    async def ask(self, request: Request) -> Reply | CallError:
        """Wait, then answer."""
        self.asked.append(request)
        number, now = len(self.times), anyio.current_time()
        self.times.append((now, now))
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await anyio.sleep(self.latency)
        finally:
            self.in_flight -= 1
        self.times[number] = (now, anyio.current_time())
        return self.say(request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    @property
    def passes_asked(self) -> list[tuple[str, int]]:
        """The group and pass of every request, sorted."""
        return sorted(
            (group_of(request), request.pass_index) for request in self.asked
        )


class Stage:
    """A folder with an input, judges by their names, and runs over it."""

    def __init__(
        self,
        path: Path,
        patch: pytest.MonkeyPatch,
        groups: Sequence[Any],
        *judges: Stub,
    ) -> None:
        self.path, self.judges = path, {judge.name: judge for judge in judges}
        write(path / "in.jsonl", list(groups))
        patch.setattr("ruler_cli.runs.file.resolve", self._choose)
        patch.setattr("ruler_cli.runs.file.model_of", self._choose)
        patch.setattr("ruler_cli.runs.file.cached_only", self._cached_only)

    def _choose(self, settings: JudgeSettings) -> ResolvedJudge:
        judge = self.judges[settings.model]
        price: Price | None = stated_price(judge.price) if judge.price else None
        return ResolvedJudge(judge, price, judge.context)

    def _cached_only(self, settings: JudgeSettings) -> ResolvedJudge:
        chosen = self._choose(settings)
        return ResolvedJudge(None, chosen.price, chosen.context)

    def settings(self, *names: str, **more: Any) -> Settings:
        """A run of the judges of these names; fields of all settings by their names."""
        kinds = {
            "ask": AskSettings,
            "combine": CombineSettings,
            "pool": PoolSettings,
        }
        named = {
            kind: {f.name for f in fields(made)} & set(more)
            for kind, made in kinds.items()
        }
        parts = {
            kind: made(**{n: more[n] for n in named[kind]})
            for kind, made in kinds.items()
        }
        for name in set().union(*named.values()):
            del more[name]
        first, *others = map(JudgeSettings, names or [next(iter(self.judges))])
        if isinstance(more.get("escalate"), str):
            more["escalate"] = JudgeSettings(more["escalate"])
        output = str(self.path / more.pop("output", "out.jsonl"))
        ledger = more.pop("ledger", "ledger.sqlite")
        source = InputSettings(
            str(self.path / more.pop("source", "in.jsonl")),
            **more.pop("reading", {}),
        )
        return Settings(
            source,
            output,
            first,
            panel=tuple(others),
            ledger=ledger and self.path / ledger,
            **parts,
            **more,
        )

    def run(
        self, *names: str, until: int | None = None, **more: Any
    ) -> RunResult:
        """Run to the end, or interrupt the run once so many requests were sent."""
        settings = self.settings(*names, **more)

        async def main() -> RunResult:
            stop_signal = StopSignal()
            with anyio.fail_after(_LONGEST):
                async with anyio.create_task_group() as tasks:
                    if until is not None:
                        tasks.start_soon(self._interrupt, stop_signal, until)
                    done = await score(settings, Observer(), stop_signal)
                    tasks.cancel_scope.cancel()
            return done

        return virtually(main)

    async def _interrupt(self, stop_signal: StopSignal, until: int) -> None:
        while sum(len(judge.asked) for judge in self.judges.values()) < until:  # noqa: ASYNC110 - this clock costs nothing
            await anyio.sleep(0.3)
        stop_signal.stop(InterruptedRun(2))

    @property
    def asked(self) -> int:
        """The number of requests to all judges."""
        return sum(len(judge.asked) for judge in self.judges.values())

    def forget(self) -> None:
        """Forget all requests."""
        for judge in self.judges.values():
            judge.asked.clear()
            judge.times.clear()

    def records(self, name: str = "out.jsonl") -> list[Any]:
        """The output."""
        return read(self.path / name)

    def masked(self, name: str = "out.jsonl") -> bytes:
        """The bytes of the output without its times."""
        return re.sub(
            rb'"judged_at": ?"[^"]+"|"cached": ?\w+',
            b"",
            (self.path / name).read_bytes(),
        )

    def rewards(self, name: str = "out.jsonl") -> list[list[Any]]:
        """Every record's rewards."""
        return [
            [t["reward"] for t in record["trajectories"]]
            for record in self.records(name)
        ]

    def parts(self, name: str = "out.jsonl") -> list[Any]:
        """Every record's group annotation."""
        return [record["ruler"] for record in self.records(name)]
