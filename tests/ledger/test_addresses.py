"""Replies of a stand-in never answer for the provider's own model."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from ruler_cli import score_group
from ruler_cli.errors import UsageError
from ruler_cli.judges.resolve import stand_in_of
from ruler_cli.settings.models import JudgeSettings
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer


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


def test_variables_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a provider's variables only those that litellm reads are its address, in litellm's order."""
    model = JudgeSettings("anthropic/claude-sonnet-4-5")
    monkeypatch.setenv("ANTHROPIC_VERTEX_BASE_URL", "http://other/v1")
    assert not stand_in_of(model)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://second/v1")
    monkeypatch.setenv("ANTHROPIC_API_BASE", "http://first/v1")
    assert stand_in_of(model) == "http://first/v1"


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
