"""Errors as values: their parts, and the words in which Python and the command line name an option."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from ruler_cli import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    RulerError,
    Scorer,
    ScoreSettings,
    UsageError,
)
from ruler_cli.errors import CapReached, TooManyFailures
from tests.conftest import group, rollout, write
from tests.judge_server import JudgeServer


def test_words() -> None:
    """An error is its place, problem and remedy in one sentence, in the same words for Python and the command."""
    error = UsageError(
        "is too low", "use 3 or more", place="--set min_passes=1"
    )
    assert str(error) == "--set min_passes=1: is too low; use 3 or more"
    assert error.brief == "--set min_passes=1: is too low"
    moved = error.with_parts(place="ruler.toml [score] min_passes")
    assert str(moved).startswith("ruler.toml [score] min_passes: is too low")
    assert str(UsageError("as it is")) == "as it is"


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
)
def test_copies(copied: Callable[[RulerError], RulerError]) -> None:
    """A copy of an error, also in another process, has its parts and all of its words."""
    for error in (CapReached(5, 3, 2), TooManyFailures("5%")):
        other = copied(error)
        assert (str(other), other.remedy) == (
            str(error),
            error.remedy,
        )


def scored(settings: ScoreSettings, *groups: Any) -> list[Any]:
    """Score groups, one after another."""

    async def main() -> list[Any]:
        async with Scorer(settings) as scorer:
            return [
                await scorer.score(each)
                for each in groups or (group("g", 0.1, 0.9),)
            ]

    return asyncio.run(main())


def of_file(
    path: Path, more: dict[str, Any] | None = None, **parts: Any
) -> Any:
    """Score a file with settings."""
    settings = ScoreSettings(
        **{
            "judge": JudgeSettings("offline"),
            **(more or {}),
            "input": InputSettings(**parts),
        }
    )
    return asyncio.run(
        ruler_cli.score_file(path, path.with_name("out.jsonl"), settings)
    )


def mistakes(server: JudgeServer, folder: Path) -> dict[str, Callable[[], Any]]:
    """Return a mistake in each public call, and each error of a run, by what its sentence says."""
    options: Any = ruler_cli.load_settings
    at = partial(JudgeSettings, api_base=server.base)
    offline, one = JudgeSettings("offline"), group("g", 0.1, 0.9)
    file = write(
        folder / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(3)]
    )
    odd = write(folder / "odd.jsonl", [{"turns": [1]}])
    mixed = write(
        folder / "mixed.jsonl",
        [{"messages": [], "group_id": "a"}, group("b", 0.1)],
    )
    scorer = Scorer(ScoreSettings(judge=offline, ledger=None))
    art = ruler_cli.score_group
    calls: dict[str, Callable[[], Any]] = {
        # settings, from options and by themselves
        "no such option: passe; did you mean passes?": partial(
            options, passe=3
        ),
        "name the variable that holds the key": partial(
            options, api_key="sk-0123456789abcdef"
        ),
        "no such option: quiet": partial(options, quiet=True),
        "-p api_key": partial(options, param={"api_key": "x"}),
        "a key is not a parameter": partial(options, param="api_key=x"),
        "is not KEY=VALUE; e.g. -p temperature=0.2": partial(
            options, param="temperature"
        ),
        "name the endpoint with": partial(options, param="api_base=x"),
        "no.toml: no such file": partial(options, config="no.toml"),
        "price: '5' is not USD per million": partial(options, price="5"),
        "'1,2'] is not USD per million": partial(options, price=["1,2", "1,2"]),
        "is a pattern": partial(options, ledger="*.sqlite"),
        "is given beside other ledgers": partial(options, ledger=["none", "a"]),
        "no file matches": partial(options, ledger=["a", "*.none"]),
        "--cached-only: needs a ledger": partial(
            options, ledger="none", cached_only=True
        ),
        "looks like a key": partial(JudgeSettings, "sk-0123456789abcdef"),
        "expects the name of a variable": partial(
            JudgeSettings, api_key_env="sk-0123456789abcdef"
        ),
        "--max-failures: '5x'": partial(ScoreSettings, max_failures="5x"),
        "price: '2'": lambda: JudgeSettings(price="2"),  # type: ignore[arg-type]  # as one may
        "--rubric @no.txt: no such file": partial(
            AskSettings, rubric="@no.txt"
        ),
        "shard: '3/2'": partial(InputSettings, shard="3/2"),  # type: ignore[arg-type]  # as one may
        "--passes: 0 is not 1 or more": partial(AskSettings, passes=0),
        "adaptive: starts with 2 passes": partial(ScoreSettings, adaptive=True),
        "no such option: fallback; use": partial(ScoreSettings, fallback=True),  # type: ignore[call-arg]  # as one may
        "is more than the passes": partial(
            ScoreSettings, combine=CombineSettings(min_passes=2)
        ),
        "leave out --set order=input": partial(
            ScoreSettings,
            ask=AskSettings(order="input"),
            combine=CombineSettings(debias=True),
        ),
        "judges openai/o3 and openai/o3 have the same name": partial(
            ScoreSettings, panel=(JudgeSettings(),)
        ),
        "needs all groups, and a shard has only some": partial(
            of_file,
            file,
            {"combine": CombineSettings(debias=True)},
            shard="1/2",
        ),
        "says how a file is read": partial(
            Scorer, ScoreSettings(input=InputSettings(limit=3))
        ),
        "skip a group whose `failed`": partial(
            Scorer, ScoreSettings(on_failure="drop")
        ),
        # judges
        "OPENAI_API_KEY is not set": partial(
            scored, ScoreSettings(judge=JudgeSettings("openai/o3"))
        ),
        "ANTHROPIC_API_KEY is not set": partial(
            scored, ScoreSettings(judge=JudgeSettings("anthropic/x"))
        ),
        "no such provider or model": partial(
            scored, ScoreSettings(judge=JudgeSettings("a.gguf"))
        ),
        "its address is not known; use --api-base URL": partial(
            scored, ScoreSettings(judge=JudgeSettings("hosted_vllm/x"))
        ),
        "not an http:// or https://": partial(
            scored, ScoreSettings(judge=JudgeSettings("x", "8000"))
        ),
        "is not an http:// or https:// address": partial(
            scored, ScoreSettings(judge=JudgeSettings("x", "http://a:b@c/v1"))
        ),
        "judge offline: takes no parameters": partial(
            scored,
            ScoreSettings(judge=JudgeSettings("offline", params={"a": 1})),
        ),
        "the price of": partial(
            scored,
            ScoreSettings(
                judge=at("openai/good"), pool=PoolSettings(max_cost=1.0)
            ),
        ),
        "the ledger keeps none": partial(
            scored, ScoreSettings(judge=offline, cached_only=True)
        ),
        "cannot be used as a ledger": partial(
            scored, ScoreSettings(judge=at("x"), ledger=odd)
        ),
        "cannot be read as a ledger": partial(
            scored,
            ScoreSettings(
                judge=at("x"),
                ledger=folder / "a.sqlite",
                ledgers=(folder / "none",),
            ),
        ),
        "answered 401": partial(
            scored, ScoreSettings(judge=at("openai/401"), ledger=None)
        ),
        "answered 403": partial(
            scored, ScoreSettings(judge=at("openai/403"), ledger=None)
        ),
        "answered 404": partial(
            scored, ScoreSettings(judge=at("openai/404"), ledger=None)
        ),
        "answered 429": partial(
            scored, ScoreSettings(judge=at("openai/quota"), ledger=None)
        ),
        "cannot be reached": partial(
            scored,
            ScoreSettings(
                judge=JudgeSettings("x", "http://127.0.0.1:9/v1", timeout=1.0),
                pool=PoolSettings(retries=0),
                ledger=None,
            ),
        ),
        "--max-cost 1e-09 is less than any remaining group may cost": partial(
            scored,
            ScoreSettings(
                judge=at("openai/good", price=(9, 9)),
                pool=PoolSettings(max_cost=1e-9),
                ledger=None,
            ),
            one,
            one,
        ),
        "more failed than --max-failures 0 allows": partial(
            scored,
            ScoreSettings(
                judge=at("openai/empty"), max_failures=0, ledger=None
            ),
            one,
            one,
        ),
        "give them to `score_groups`": partial(
            scored,
            ScoreSettings(
                judge=offline, combine=CombineSettings(debias=True), ledger=None
            ),
        ),
        "--outcome won: none of the first 20": partial(
            scored,
            ScoreSettings(
                judge=offline, input=InputSettings(outcome="won"), ledger=None
            ),
            *[group(f"g{i}", 0.1, 0.9) for i in range(21)],
        ),
        # groups and functions
        "holds no rollouts that ruler knows": partial(
            scored, ScoreSettings(judge=offline, ledger=None), {}
        ),
        "the Scorer is not open": lambda: asyncio.run(scorer.score(one)),
        "timeout: -1": lambda: asyncio.run(
            art(one, "offline", {"timeout": -1})
        ),
        "group 1: is of type str": lambda: asyncio.run(
            ruler_cli.ruler("text", "offline")
        ),
        "not scored (refused)": lambda: asyncio.run(
            art(one, "openai/401", {"api_base": server.base})
        ),
        # files
        "no such file": partial(of_file, folder / "none.jsonl"),
        "no rollouts that ruler knows": partial(of_file, odd),
        "looks like": partial(of_file, mixed),
        "no such format": partial(of_file, file, format="trll"),
        "--messages x: none of the first": partial(of_file, odd, messages="x"),
        "--group-by x: none of the first": partial(of_file, file, group_by="x"),
        "--reward ruler: is not free for a score": partial(
            of_file, file, reward="ruler"
        ),
        "its directory does not exist": partial(
            of_file, file, {"failed": folder / "no" / "f.jsonl"}
        ),
        "is INPUT, of which only": lambda: asyncio.run(
            ruler_cli.score_file(
                file,
                file,
                ScoreSettings(judge=offline, input=InputSettings(limit=1)),
            )
        ),
        "score each rollout by itself": lambda: of_file(
            write(folder / "single.jsonl", [group("a", 0.5)])
        ),
    }
    return calls


def test_python_words(
    server: JudgeServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mistake in a call from Python is a RulerError that says what is wrong, and where."""
    monkeypatch.chdir(tmp_path)
    for says, call in mistakes(server, tmp_path).items():
        with pytest.raises(RulerError) as raised:
            call()
        assert says in str(raised.value), (says, str(raised.value))


def test_reasons(server: JudgeServer) -> None:
    """The reason of a group that failed says what the judge or the data did."""
    of_five = {
        "trajectories": [rollout(0.1, reward=5.0), rollout(0.9, reward=0.0)]
    }
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("cutoff", {}, "leaves it more room"),
        ("html", {}, "is the endpoint's address right?"),
        (
            "good",
            {"combine": CombineSettings(blend=0.5)},
            "rollout 1 has the reward 5",
        ),
    ]
    for cue, more, says in cases:
        judge = JudgeSettings(f"openai/{cue}", server.base, price=(1, 1))
        settings = ScoreSettings(
            judge=judge, pool=PoolSettings(retries=0), ledger=None, **more
        )
        (judged,) = scored(settings, of_five)
        assert judged.failed
        assert says in judged.reason
