"""`ruler prompt`: the first request of a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Ruler, write
from tests.judge_server import JudgeServer
from tests.values import talk

TEXTS = [f"answer number {i}" for i in range(9)]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A group of nine, and a single rollout."""
    large = {
        "group_id": "large",
        "trajectories": [{"messages": talk(text)} for text in TEXTS],
    }
    alone = {"group_id": "alone", "trajectories": [{"messages": talk("only")}]}
    return write(tmp_path / "in.jsonl", [large, alone])


def test_first_request(ruler: Ruler, dump: Path, server: JudgeServer) -> None:
    """The first request of a group is printed as `score` sends it, with the number of all."""
    args = [*f"-m openai/good --api-base {server.base} --passes 3".split()]
    args += ["--group-size", "3", "--ledger", "none"]
    output = dump.with_name("out.jsonl")
    assert ruler("score", dump, output, *args).returncode == 0
    done = ruler("prompt", dump, *args[:-2])
    assert "group 'large': the first of 9 requests\n" in done.stderr
    sent = []
    for request in server.requests():
        system, user = (message["content"] for message in request["messages"])
        sent.append(f"system:\n{system}\n\nuser:\n{user}\n")
    assert done.stdout in sent


def test_answer_format(ruler: Ruler, dump: Path, server: JudgeServer) -> None:
    """The printed answer format is the one that the run sends to that endpoint."""
    for model in ("openai/good", "litellm_proxy/good"):
        printed = ruler(
            "prompt", dump, "-m", model, "--api-base", server.base
        ).stdout
        args = [
            "-m",
            model,
            *f"--api-base {server.base} -c 1 --ledger none".split(),
        ]
        assert (
            ruler("score", dump, dump.with_name("out.jsonl"), *args).returncode
            == 0
        )
        system, user = (
            message["content"] for message in server.requests()[0]["messages"]
        )
        assert printed == f"system:\n{system}\n\nuser:\n{user}\n"
        assert ('"scores": {"ID"' in printed) is (model == "openai/good")
        server.reset()


@pytest.mark.parametrize("ask", ["group", "each"])
def test_too_long(ruler: Ruler, tmp_path: Path, ask: str) -> None:
    """A request that is never sent is printed with a warning."""
    long = "word " * 150_000
    write(
        tmp_path / "in.jsonl",
        [{"group_id": "b", "messages": talk(f"{i} {long}")} for i in range(2)],
    )
    done = ruler("prompt", "in.jsonl", "-m", "openai/gpt-4o", "--ask", ask)
    assert done.returncode == 0
    assert "word word" in done.stdout
    assert "this is not sent, group 'b' is too long" in done.stderr
