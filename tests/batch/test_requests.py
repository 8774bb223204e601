"""Missing requests, answered in rounds by any engine, give the output of a live run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.reply_cache import Ledger, key_of
from ruler_cli.runs.batch.requests import (
    MissingRequests,
    find_missing,
)
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import CallError, Observer, Reply, Request
from tests.conftest import group, rollout
from tests.runs import (
    Say,
    Stage,
    Stub,
    group_of,
    noisy,
    obedient,
    refusing,
    shifting,
    truthful,
)

GROUPS = [group(f"g{i}", 0.1, 0.3 + i / 100, 0.9) for i in range(20)]
_MOST = 12
"""Rounds after which no request is missing, in any exchange."""
Missing = list[tuple[int, bytes, Request]]


def rendered(settings: ScoreSettings) -> tuple[MissingRequests, Missing]:
    """Render, and return the result and all missing requests."""
    missing: Missing = []
    done = anyio.run(
        lambda: find_missing(
            settings, lambda *each: missing.append(each), Observer()
        )
    )
    return done, missing


def answered(stage: Stage, names: tuple[str, ...], **more: Any) -> list[int]:
    """Render and answer until no request is missing; return the number of requests of each round."""
    settings, rounds = stage.settings(*names, **more), []
    judges = [
        settings.judge,
        *settings.panel,
        *filter(None, [settings.escalate]),
    ]
    for _ in range(_MOST):
        done, missing = rendered(settings)
        assert sum(done.requests) == len(missing)
        rounds.append(len(missing))
        if not missing:
            break
        assert settings.ledger is not None
        with Ledger(settings.ledger) as ledger:
            for judge_index, key, request in missing:
                judge = judges[judge_index]
                assert key == key_of(judge.model, judge.params, request)
                said = stage.judges[judge.model].say(request)
                if isinstance(said, Reply):
                    said = replace(said, seconds=1.0)
                ledger.keep_all([(key, judge.model, said)])
    return rounds


@pytest.fixture
def staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Stage]:
    """A stage in its own folder, known to the rendering too."""

    def make(name: str, groups: list[Any], *judges: Stub) -> Stage:
        (tmp_path / name).mkdir()
        stage = Stage(tmp_path / name, monkeypatch, groups, *judges)
        monkeypatch.setattr(
            "ruler_cli.runs.batch.requests.cached_only", stage._cached_only
        )
        return stage

    return make


def odd_first(request: Request) -> Reply | CallError:
    """Give an unusable answer until a corrective request; for some groups twice."""
    reply = truthful(request)
    twice = group_of(request) in ("g1", "g7")
    if "could not be used" not in request.user or (
        twice and "no JSON" not in request.user
    ):
        return _bare(
            "I would rather not use JSON."
            if "could" not in request.user
            else "{}"
        )
    return reply


def cut_first(request: Request) -> Reply | CallError:
    """Give a truncated answer until the request limits its length."""
    return (
        truthful(request)
        if request.max_output_tokens
        else _bare('{"scores": [', reason="length")
    )


def short_of(limit: int) -> Say:
    """Return a judge with a context of so many tokens, and with an error that names them."""

    def say(request: Request) -> Reply | CallError:
        tokens = request.size // 3
        if tokens <= limit:
            return truthful(request)
        return CallError(
            "too_long",
            f"{tokens} tokens are too many",
            "group",
            context=(limit, tokens),
        )

    return say


def _bare(text: str, reason: str = "stop") -> Reply:
    body = {
        "choices": [{"message": {"content": text}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    reply = reply_of(orjson.dumps(body))
    assert isinstance(reply, Reply)
    return reply


BIG = [
    {
        "group_id": f"b{i}",
        "trajectories": [
            rollout(j / 30, f"b{i}-{j} " + "word " * 300) for j in range(24)
        ],
    }
    for i in range(3)
]
LOW = [group("low", 0.1, 0.0), group("lower", 0.1, 0.1, 0.0), *GROUPS]
CASES: dict[str, tuple[tuple[str, ...], dict[str, Any], Say, list[Any]]] = {
    "panel": (("one", "two"), {"passes": 2, "debias": True}, noisy, GROUPS),
    "adaptive": (
        ("one",),
        {"passes": 4, "adaptive": True},
        noisy,
        [*GROUPS, *BIG],
    ),
    "escalate": (("one",), {"passes": 2, "escalate": "two"}, noisy, GROUPS),
    "refused": (
        ("one",),
        {"passes": 2, "escalate": "two"},
        refusing,
        GROUPS,
    ),
    "windows": (
        ("one",),
        {"passes": 3, "group_size": 5},
        truthful,
        [*GROUPS, *BIG],
    ),
    "unusable": (("one",), {"passes": 2}, odd_first, GROUPS),
    "cut off": (("one",), {}, cut_first, GROUPS),
    "scale": (("one",), {}, obedient, LOW),
    "scale, passes": (("one",), {"passes": 2}, obedient, LOW),
    "context": (("one",), {"passes": 2}, short_of(4000), [*BIG, *GROUPS]),
}


SPARED = {"refused": 40, "context": 3}
"""Requests that only rounds need: further passes of groups that are refused, or rendered again."""


@pytest.mark.parametrize("case", CASES)
def test_equal_to_live_run(case: str, staged: Callable[..., Stage]) -> None:
    """Requests that any engine answers give, once imported, the output of a live run."""
    names, more, say, groups = CASES[case]
    judges = [
        Stub("one", say, price=(2.0, 8.0)),
        Stub("two", shifting, price=(2.0, 8.0)),
    ]
    live = staged("live", groups, *judges)
    live.run(*names, **more)
    calls = live.asked
    live.forget()
    stage = staged("rendered", groups, *judges)
    rounds = answered(stage, names, **more)
    assert rounds[-1] == 0
    # a live run waits for a group's first reply, and skips passes that a refusal makes useless
    assert sum(rounds) - calls == SPARED.get(case, 0)
    done = stage.run(*names, cached_only=True, **more)
    assert (done.summary.unanswered, stage.asked) == (0, 0)
    assert stage.masked() == live.masked()
