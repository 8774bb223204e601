"""Prompts that a server cuts in silence: no reward comes from what the judge has not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import JudgeRequest
from tests.batch.crashes import Client
from tests.conftest import Ruler, read, rollout, write
from tests.judge_server import BatchServer, JudgeServer
from tests.judges.test_function import by, reply, score_all
from tests.test_tokens import TEXTS, tokenizers

CUT = 1600
TRUTHS = [0.1, 0.9, 0.4, 0.7, 0.2, 0.6, 0.8, 0.3] * 3
CONFIG = ("--config", "none", "--progress", "none")


def of(name: str, words: int, truths: list[float] = TRUTHS) -> dict[str, Any]:
    """Return a group whose rollouts say so many words."""
    text = "the order was found and paid " * (words // 6)
    return {
        "group_id": name,
        "trajectories": [
            rollout(t, f"{name} {i} {text}") for i, t in enumerate(truths)
        ],
    }


def scores(path: Path) -> list[list[Any]]:
    """Return the scores of the groups of OUTPUT."""
    groups = [record["trajectories"] for record in read(path)]
    return [[one["reward"] for one in trajectories] for trajectories in groups]


def test_windows(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A group whose prompt was cut is shown in parts that the server reads whole, also through litellm."""
    write(
        tmp_path / "in.jsonl",
        [of("a", 200), of("b", 200), of("c", 60, [0.5, 0.7])],
    )
    for judge in (
        ("-m", "ollama/m", "-c", 1),
        ("-m", "openai/m", "--set", "via=litellm", "-c", 1),
    ):
        server.reset()
        server.configure(cut=CUT)
        address = ("--api-base", server.base, *CONFIG)
        done = ruler("score", "in.jsonl", "out.jsonl", *judge, *address)
        assert done.returncode == 0, done.stderr
        assert scores(tmp_path / "out.jsonl") == [TRUTHS, TRUTHS, [0.5, 0.7]]
        one, two, three = [
            record["ruler"] for record in read(tmp_path / "out.jsonl")
        ]
        assert min(one["windows"], two["windows"]) > 1 > three["windows"]
        assert one["usage"]["estimated"]  # the cut reply is paid for
        assert not three["usage"]["estimated"]
        asked = server.stats()["requests"]
        again = ruler("score", "in.jsonl", "out.jsonl", *judge, *address)
        assert again.returncode == 0
        assert scores(tmp_path / "out.jsonl") == [TRUTHS, TRUTHS, [0.5, 0.7]]
        assert server.stats()["requests"] - asked in (
            1,
            2,
        )  # cut ones once more


def test_nothing_fits(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """The run stops with the remedy if the first three groups fit no part of what the server reads; later they fail."""
    server.configure(cut=CUT)
    address = ("-m", "ollama/m", "--api-base", server.base, *CONFIG, "-c", 1)
    long = [of(name, 6000, [0.1, 0.9]) for name in "abcde"]
    short = of("s", 60, [0.5, 0.7])
    write(tmp_path / "in.jsonl", [*long, short])
    done = ruler("score", "in.jsonl", "out.jsonl", *address)
    assert done.returncode == 3
    assert "num_ctx" in done.stderr.splitlines()[-2]
    assert "reads only 1600" in done.stderr
    write(tmp_path / "in.jsonl", [short, *long])
    done = ruler("score", "in.jsonl", "out.jsonl", *address)
    assert done.returncode == 1
    first, *others = read(tmp_path / "out.jsonl")
    assert [one["reward"] for one in first["trajectories"]] == [0.5, 0.7]
    for record in others:
        assert record["ruler"]["kind"] == "too_long"
        assert (
            "tokens, of which the judge's server reads only 1600"
            in record["ruler"]["reason"]
        )
        assert [one["reward"] for one in record["trajectories"]] == [None, None]


def test_each(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A rollout that is asked about alone, and was cut, has no probability that counts."""
    server.configure(cut=CUT)
    write(tmp_path / "in.jsonl", [of("a", 60), of("b", 6000, [0.1, 0.9])])
    run = ("-m", "m", "--api-base", server.base, "--ask", "each", *CONFIG)
    assert ruler("score", "in.jsonl", "out.jsonl", *run).returncode == 1
    short, long = read(tmp_path / "out.jsonl")
    assert all(one["reward"] is not None for one in short["trajectories"])
    assert [one["reward"] for one in long["trajectories"]] == [None, None]
    assert long["ruler"]["kind"] == "too_long"


def test_batches(tmp_path: Path) -> None:
    """Collected replies to cut prompts are no answers, and the next batch asks in parts."""
    with BatchServer({"cut": CUT}) as server:
        client = Client(tmp_path, server, "openai", 1)
        write(client.source, [of("a", 200)])
        assert client.submit().requests == 1
        client.until_complete()
        assert client.submit().requests == 0
        assert client.missing() == 0
        assert server.billed > 2


def test_good_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply whose prompt was read whole counts, whatever the prompt holds and however its tokens are reported."""
    encode = tokenizers(monkeypatch)[0].encode
    reports: dict[str, Callable[[int], dict[str, Any]]] = {
        "all": lambda n: {"prompt_tokens": n},
        "cached": lambda n: {"prompt_tokens": n, "prompt_tokens_details": {"cached_tokens": n - 1}},
        "cached beside": lambda n: {"prompt_tokens": 9, "cache_read_input_tokens": n - 9},
        "written beside": lambda n: {"prompt_tokens": 9, "cache_creation_input_tokens": n - 9},
        "one": lambda _: {"prompt_tokens": 1},
        "none": lambda _: {},
        "below the system message": lambda _: {"prompt_tokens": 200},
    }  # fmt: skip

    async def ask(request: JudgeRequest) -> dict[str, Any]:
        tokens = len(
            encode(request.system + request.user, disallowed_special=())
        )
        usage = {**reports[report](tokens), "completion_tokens": 100}
        choice = {
            "message": {"content": reply(request)},
            "finish_reason": "stop",
        }
        return {"choices": [choice], "usage": usage}

    groups = [of(name, 60, [0.1, 0.9]) for name in TEXTS]
    for one, text in zip(groups, TEXTS.values(), strict=True):
        for trajectory in one["trajectories"]:
            trajectory["messages"][0]["content"] = text
            trajectory["messages"][1]["content"] += f"\n{text} {text} truth=0.5"
    for report in reports:
        for judged in asyncio.run(score_all(by(ask), groups)):
            assert judged.scores == (0.5, 0.5), (report, judged.fields)
            estimated = report in ("one", "none", "below the system message")
            assert judged.fields["usage"]["estimated"] == estimated
