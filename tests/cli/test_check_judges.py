"""`ruler check` for passes, panels and windows: the page, its JSON, and what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check import rows
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.values import talk

OK = [group("a", 0.1, 0.9), group("b", 0.8, 0.2)]
LARGE = {"group_id": "large", "trajectories": [{"messages": talk(f"answer {i}")} for i in range(9)]}
ALONE = group("alone", 0.5)
PANEL = ["-m", "openai/o3", "-m", "openai/gpt-4o"]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two pairs, a group of nine, and one rollout alone."""
    return write(tmp_path / "in.jsonl", [*OK, LARGE, ALONE])


def test_page(ruler: Ruler, dump: Path) -> None:
    """The page says how often, in which parts and by whom groups are judged, and what each judge takes."""
    args = [*PANEL, "--passes", "2", "--group-size", "3", "--escalate", "openai/gpt-5"]
    found = rows(ruler("check", dump, *args).stdout)
    assert found["judge"] == "openai/o3, openai/gpt-4o; for groups that stay unresolved openai/gpt-5"
    assert found["passes"] == "2"
    assert found["windows"] == "1 group in parts, twice at least: 13 (up to 36) of the calls"
    assert found["calls"] == "24 (up to 64)"
    assert found["kept"] == "0 of 24 calls"
    assert found["judge 1"].startswith("openai/o3: 11 (up to 22) calls, about ")
    assert found["judge 2"].startswith("openai/gpt-4o: 11 (up to 22) calls, about ")
    assert found["judge 3"].startswith("openai/gpt-5: 2 (up to 20) calls, about ")
    assert "(from $0.00 to $" in found["judge 3"]


def test_one_judge_and_pass(ruler: Ruler, dump: Path) -> None:
    """Where each group is asked about once by one judge, nothing is said of passes, parts and judges."""
    found = rows(ruler("check", dump, "-m", "openai/o3").stdout)
    assert not {"passes", "windows", "judge 1"} & set(found)
    assert found["calls"] == "4 (up to 8)"


def test_fallback_and_adaptive(ruler: Ruler, dump: Path) -> None:
    """Who takes over is told, and how passes are allotted."""
    found = rows(ruler("check", dump, *PANEL, "--fallback", "--adaptive", "--passes", "4").stdout)
    assert found["judge"] == "openai/o3, where it refuses openai/gpt-4o"
    assert found["passes"] == "up to 4 on average, 2 at least"
    assert found["calls"] == "13 (up to 52)"
    assert found["judge 2"].startswith("openai/gpt-4o: 0 (up to 26) calls")


def test_json(ruler: Ruler, dump: Path) -> None:
    """The object has each judge's part of every figure, and the parts make the whole."""
    args = ["--json", *PANEL, "--passes", "2", "--group-size", "3", "--escalate", "openai/gpt-5"]
    found = json.loads(ruler("check", dump, *args).stdout)
    assert (found["passes"], found["adaptive"], found["windows"]["groups"]) == (2, False, 1)
    assert [(each["model"], each["asked"]) for each in found["judges"]] == [
        ("openai/o3", "panel"), ("openai/gpt-4o", "panel"), ("openai/gpt-5", "escalation"),
    ]  # fmt: skip
    assert found["judge"]["model"] == "openai/o3"
    assert found["judges"][1]["context_tokens"] == 128_000
    for figure in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        for value in ("low", "expected", "high"):
            parts = sum(each[figure][value] for each in found["judges"])
            assert found["estimate"][figure][value] == pytest.approx(parts)
    assert found["estimate"]["max_cost_usd"] >= found["estimate"]["cost_usd"]["high"]


def test_variables(ruler: Ruler, dump: Path) -> None:
    """Each option is taken from its variable too."""
    args = [*PANEL, "--passes", "3", "--group-size", "3", "--single", "score", "--fallback", "--adaptive"]
    given = {
        "RULER_JUDGE_MODEL": "openai/o3 openai/gpt-4o", "RULER_PASSES": "3", "RULER_GROUP_SIZE": "3",
        "RULER_SINGLE": "score", "RULER_FALLBACK": "1", "RULER_ADAPTIVE": "1", "RULER_ESCALATE": "x/y",
        "RULER_PRICE": "1,2 3,4 5,6",
    }  # fmt: skip
    prices = ["--price", "1,2", "--price", "3,4", "--price", "5,6"]
    said = ruler("check", dump, *args, "--escalate", "x/y", *prices).stdout
    assert said == ruler("check", dump, **given).stdout
    assert rows(said)["judge 3"].startswith("x/y: ")
    assert "unknown" not in rows(said)["cost"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-m", "a", "-m", "a"], "named twice"),
        (["-m", "a", "--fallback"], "give -m again"),
        (["--adaptive"], "give --passes 3"),
        (["--escalate", "b"], "give --passes 2"),
        ([*PANEL, "--fallback", "--escalate", "b"], "give --passes 2"),
        ([*PANEL, *["--price", "1,2"] * 3], "3 times for 2 judges"),
        (["--passes", "0"], "--passes"),
        (["--group-size", "1"], "--group-size"),
    ],
)
def test_refused(args: list[str], says: str, ruler: Ruler, dump: Path) -> None:
    """What cannot be meant is bad usage, told with the way out."""
    done = ruler("check", dump, *args)
    assert done.returncode == 2
    assert says in done.stderr


def test_kept_of_one_judge(ruler: Ruler, server: JudgeServer, dump: Path) -> None:
    """What one judge of a panel was asked before is kept, and nothing of the other."""
    args: list[Any] = ["--api-base", server.base, "--price", "2,8"]
    assert ruler("score", dump, "out.jsonl", "-m", "openai/good", *args).returncode == 0
    found = rows(ruler("check", dump, "-m", "openai/good", "-m", "openai/reordered", *args).stdout)
    assert found["kept"] == "4 of 8 calls, not paid again"
    assert found["judge 1"].startswith("openai/good: 0 (up to 0) calls")
    assert found["judge 1"].endswith(", 4 kept")
    assert found["judge 2"].startswith("openai/reordered: 4 (up to 8) calls")


def test_too_long_for_one_judge(ruler: Ruler, tmp_path: Path) -> None:
    """A group that only one judge of a panel cannot hold is told with that judge, and can be scored."""
    long = "word " * 150_000
    made = [{"group_id": "b", "messages": talk(f"{i} {long}")} for i in range(2)]
    write(tmp_path / "in.jsonl", made)
    args = ["--ledger", "none", "-m", "openai/gpt-4o"]
    alone = ruler("check", "in.jsonl", *args)
    both = ruler("check", "in.jsonl", *args, "-m", "openai/gpt-4.1")
    assert (alone.returncode, both.returncode) == (1, 0)
    assert rows(alone.stdout)["too long"] == "1 group for 128,000 tokens (b)"
    assert rows(both.stdout)["too long"] == "0"
    assert rows(both.stdout)["judge 1"].endswith(", too long for its 128,000 tokens: 1 group")
