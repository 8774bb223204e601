"""Text of a judge or a rollout sends no escape code to a terminal, from stderr or from the written files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ruler_cli.files.parse import parse
from tests.attacks import FAMILIES
from tests.conftest import Ruler, rollout, write
from tests.judge_server import JudgeServer
from tests.judge_server.cues import HOSTILE

RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def dump(path: Path, *texts: str) -> None:
    """Write one group whose rollouts hold these texts."""
    trajectories = [rollout(0.5, text) for text in ("honest", *texts)]
    write(
        path / "in.jsonl",
        [{"group_id": f"g{HOSTILE}", "trajectories": trajectories}],
    )


@pytest.mark.parametrize(
    ("cue", "code"), [("escapes", 0), ("raw-escapes", 1), ("400-escapes", 1)]
)
@pytest.mark.parametrize("name", ["out.jsonl", "-"])
def test_judge(
    cue: str,
    code: int,
    name: str,
    ruler: Ruler,
    server: JudgeServer,
    tmp_path: Path,
) -> None:
    """A judge's text reaches stderr, the ledger and OUTPUT whole, with escapes."""
    dump(tmp_path, "other")
    model = [
        "-m",
        f"openai/{cue}",
        "--api-base",
        server.base,
        "--set",
        f"retries={0}",
    ]
    done = ruler(
        "score", "in.jsonl", name, *model, "--debug", "--progress", "log"
    )
    assert (done.returncode, RAW.findall(done.stderr)) == (code, [])
    out = done.stdout if name == "-" else (tmp_path / name).read_text()
    assert not RAW.search(out)
    result = parse(out.encode())["trajectories"]
    if code == 0:
        assert [r["ruler"]["explanation"] for r in result] == [HOSTILE] * 2
        assert "owned" in done.stderr
    else:
        assert [r["ruler"]["status"] for r in result] == ["failed"] * 2


def test_corpus(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """The whole corpus as one group is scored, each rollout by its own truth, and nothing raw is printed."""
    texts = [
        attack.text
        for attacks in FAMILIES.values()
        for attack in attacks
        if len(attack.text) < 20_000
    ]
    truths = [n / len(texts) for n in range(len(texts))]
    trajectories = [
        rollout(round(truth, 3), text)
        for truth, text in zip(truths, texts, strict=True)
    ]
    write(
        tmp_path / "in.jsonl", [{"group_id": "g", "trajectories": trajectories}]
    )
    model = [*f"-m openai/good --api-base {server.base}".split()]
    done = ruler("score", "in.jsonl", "out.jsonl", *model, "--debug")
    assert (done.returncode, RAW.findall(done.stderr)) == (0, [])
    scored = parse((tmp_path / "out.jsonl").read_bytes())["trajectories"]
    assert [r["ruler"]["score"] for r in scored] == [
        round(truth, 3) for truth in truths
    ]
    assert not RAW.search(ruler("prompt", "in.jsonl").stdout)
