"""A judge of the agents' family is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Ruler, write
from tests.judge_server import JudgeServer
from tests.values import talk

SENTENCE = (
    "judge openai/gpt-4o is of the family of the agents' vllm/gpt-4o-mini\ufffd: "
    "judges prefer answers of their own"
)


def test_family(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A judge of the family of the agents' models is told once by `score` and by `check`; no other judge is."""
    members: list[dict[str, Any]] = [
        {"messages": talk(answer), "metadata": {}} for answer in "4567"
    ]
    members[1]["metadata"] = {"model": "vllm/gpt-4o-mini\x1b"}
    write(tmp_path / "in.jsonl", [{"trajectories": members}] * 3)
    for model in ("openai/gpt-4o", "openai/o3"):
        told = int(model == "openai/gpt-4o")
        way = ("-m", model, "--api-base", server.base, "--ledger", "none")
        done = ruler("score", "in.jsonl", "out.jsonl", *way)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(SENTENCE) == told
        facts = json.loads(ruler("check", "in.jsonl", *way, "--json").stdout)
        assert facts["warnings"].count(SENTENCE) == told
    panel = ("-m", "offline", "-m", "openai/gpt-4o", "--api-base", server.base)
    page = ruler("check", "in.jsonl", *panel, "--json").stdout
    assert json.loads(page)["warnings"].count(SENTENCE) == 1
