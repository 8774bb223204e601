"""Replies of a stand-in never answer for the provider's own model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ruler_cli import score_group
from ruler_cli.errors import UsageError
from ruler_cli.judging.panel import PanelJudge
from ruler_cli.ledger.reply_cache import (
    NO_ADDRESS,
    OTHER_LAYOUT,
    Ledger,
    ReplyCache,
)
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import UNANSWERED, Request
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.ledger.test_reply_cache import reply

NOW = Request("s", "now", ("a",), earlier=lambda: "before")


def test_earlier_keys(tmp_path: Path) -> None:
    """A reply that an earlier version kept under another key is no answer, and is counted with the reason once."""
    sources = {
        "address": (NO_ADDRESS, "", "now"),
        "layout": (OTHER_LAYOUT, "http://stand-in/v1", "before"),
        "both": (OTHER_LAYOUT, "", "before"),
    }
    for name, (why, address, user) in sources.items():
        with Ledger(tmp_path / name) as ledger:
            cache = ReplyCache(ledger, "m", {}, "http://stand-in/v1")
            before = replace(NOW, user=user, earlier=None)
            earlier = replace(cache, address=address)
            anyio.run(earlier.keep, earlier.key(before), reply())
            judge = PanelJudge(None, cache)
            for _ in range(2):
                assert anyio.run(judge.call, NOW) == UNANSWERED
            assert [*judge.outdated.values()] == [why]
            anyio.run(cache.keep, cache.key(NOW), reply())
            assert cache.find(cache.key(replace(NOW, earlier=None))) is not None


def test_stand_ins_replies(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Replies of a stand-in answer at its address alone, whatever names that, and an engine's at every address."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    table = f'score.ledger = "kept"\n[judges.j]\nmodel = "openai/o3"\napi_base = "{server.base}"\n'
    (tmp_path / "ruler.toml").write_text(table)

    def asked(*words: str, **env: str) -> int:
        """Return the requests that the ledger lacks."""
        done = ruler(
            "batch",
            "export",
            "in.jsonl",
            "-",
            *words,
            **env,
        )
        assert done.returncode == 0, done.stderr
        return len(done.stdout.splitlines())

    elsewhere = ("--api-base", "http://127.0.0.1:9/v1")
    for model, anywhere in {
        "openai/o3": 1,
        "openai/mine": 0,
        "vllm/o3": 0,
    }.items():
        named = ("-m", model)
        at = (*named, "--api-base", f"{server.base}/chat/completions/")
        done = ruler("score", "in.jsonl", "out.jsonl", *at)
        assert done.returncode == 0, done.stderr
        assert asked(*at) == 0
        assert asked(*named, "--api-base", server.base) == 0
        assert asked(*named, *elsewhere) == anywhere
        assert asked(*named) == anywhere
    assert asked("-m", "j") == 0
    assert asked("-m", "openai/o3", OPENAI_BASE_URL=server.base) == 0
    assert (
        asked("-m", "openai/o3", "--api-base", "https://eu.api.openai.com/v1")
        == 1
    )
    assert server.base.encode() not in (tmp_path / "kept").read_bytes()


def test_imported_replies(ruler: Ruler, tmp_path: Path) -> None:
    """Replies to the requests of a stand-in, rendered and imported, answer at its address alone."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    at = ("-m", "openai/o3", "--api-base", "http://127.0.0.1:9/v1")
    assert ruler("batch", "export", "in.jsonl", "requests", *at).returncode == 0
    rows = []
    for request in read(tmp_path / "requests"):
        labels = request["body"]["messages"][-1]["content"].rpartition(": ")[2]
        scores = [
            {"trajectory_id": label, "explanation": "", "score": 0.5}
            for label in json.loads(labels)
        ]
        text = json.dumps({"scores": scores})
        rows.append({"custom_id": request["custom_id"], "text": text})
    write(tmp_path / "replies", rows)
    assert (
        ruler("batch", "import", "replies", "-m", "openai/o3").returncode == 0
    )
    score = ("score", "in.jsonl", "out.jsonl", "--cached-only")
    assert ruler(*score, *at).returncode == 0
    assert ruler(*score, "-m", "openai/o3").returncode == 1


def test_replies_without_an_address(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Replies that an earlier version kept without an address are counted by the run."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9), group("h", 0.3, 0.4)])
    score = ("score", "in.jsonl", "out.jsonl", "-m", "openai/o3")
    at = ("--api-base", server.base)
    with pytest.MonkeyPatch.context() as before:
        before.setattr("ruler_cli.judging.panel.stand_in_of", lambda judge: "")
        assert ruler(*score, *at).returncode == 0
    done = ruler(*score, *at, "--cached-only")
    told = "warning: kept replies that no longer answer: 2 (it was kept without"
    assert (done.returncode, done.stderr.count(told)) == (1, 1)


def test_empty_address(ruler: Ruler, tmp_path: Path) -> None:
    """An empty address, as an unset variable in a script leaves it, is refused wherever it stands."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    toml = tmp_path / "ruler.toml"
    score = ("score", "in.jsonl", "out.jsonl")
    tries = [
        (("--api-base", ""), {}, ""),
        (("--api-base", " "), {}, ""),
        ((), {"RULER_API_BASE": ""}, ""),
        ((), {}, '[score]\napi_base = ""\n'),
        (("-m", "j"), {}, '[judges.j]\nmodel = "openai/o3"\napi_base = ""\n'),
    ]
    for words, env, table in tries:
        toml.write_text(table)
        done = ruler(*score, *words, **env)
        assert done.returncode == 2
        assert (
            "is empty, and the rollouts would go to the provider" in done.stderr
        )
    with pytest.raises(UsageError, match="--api-base: is empty"):
        JudgeSettings("openai/o3", api_base="")
    with pytest.raises(UsageError, match="--api-base: is empty"):
        anyio.run(
            score_group, group("g", 0.1, 0.9), "openai/o3", {"api_base": ""}
        )
