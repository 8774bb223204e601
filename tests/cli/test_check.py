"""`ruler check` as scripts and people see it: what a run would take, and that it then takes no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.values import talk

OK = [group("a", 0.1, 0.9), group("b", 0.8, 0.2)]


def rows(text: str) -> dict[str, str]:
    """The lines as names and values."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in pairs}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two groups of two rollouts."""
    return write(tmp_path / "in.jsonl", OK)


def test_figures(ruler: Ruler, dump: Path) -> None:
    """Calls, tokens and cost stand as expected, lowest and highest, in lines of name and value."""
    found = rows(ruler("check", dump, "-m", "openai/o3").stdout)
    assert found["calls"] == "2 (up to 4)"
    assert found["kept"] == "0 of 2 calls"
    assert found["prompt tokens"].startswith("about ")
    assert found["completion tokens"] == "about 3240 (from 700 to 33200), thinking included"
    assert found["cost"].startswith("$0.0")
    assert found["--max-cost"].split()[0] == found["cost"].rpartition("$")[2].rstrip(")")


def test_unknown_price(ruler: Ruler, dump: Path) -> None:
    """The price behind an endpoint of one's own is unknown, also under a listed name; the option is told."""
    for model in ("mine", "openai/o3"):
        found = rows(ruler("check", dump, "-m", model, "--api-base", "http://x/v1").stdout)
        assert found["cost"].startswith("unknown")
        assert "--price IN,OUT" in found["cost"]
        assert found["--max-cost"].startswith("unknown")
        assert "is not known of this model" in found["completion tokens"]


def test_price(ruler: Ruler, dump: Path) -> None:
    """A stated price holds for any model, listed or not; zero is a price."""
    free = rows(ruler("check", dump, "-m", "openai/o3", "--price", "0,0").stdout)
    assert free["cost"] == "$0.00 (from $0.00 to $0.00)"
    assert free["--max-cost"].startswith("0.00 ")
    mine = ["-m", "mine", "--api-base", "http://x/v1", "-p", "max_tokens=100"]
    dear = rows(ruler("check", dump, *mine, "--price", "0,1000000").stdout)
    assert dear["completion tokens"].startswith("about 200 (from 100 to 400)")
    assert dear["cost"] == "$200.00 (from $100.00 to $400.00)"
    assert rows(ruler("check", dump, *mine, RULER_PRICE="0,1").stdout)["cost"].startswith("$0.0002")


def test_price_is_refused(ruler: Ruler, dump: Path) -> None:
    """A price that is none is bad usage."""
    for price in ("2", "a,b", "-1,2", "nan,1", "inf,1"):
        done = ruler("check", dump, "--price", price)
        assert done.returncode == 2
        assert "2,8" in done.stderr


@pytest.mark.parametrize("groups", [1, 20])
@pytest.mark.parametrize("cue", ["good", "once-not-json"])
def test_cap_is_enough(groups: int, cue: str, ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A run under the cap that `check` names is not stopped by it, also when all is asked twice."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(groups)])
    args = ["-m", f"openai/{cue}", "--api-base", server.base, "--price", "2,8"]
    cap = rows(ruler("check", "in.jsonl", *args).stdout)["--max-cost"].split()[0]
    done = ruler("score", "in.jsonl", "out.jsonl", *args, "--max-cost", cap)
    assert done.returncode == 0, done.stderr
    assert server.stats()["requests"] == groups * (1 if cue == "good" else 2)


def test_kept(ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path) -> None:
    """What the ledger answers is not counted again, and only what is really the same question."""
    args = ["-m", "openai/good", "--api-base", server.base, "-p", "temperature=0.5", "--price", "2,8"]
    assert ruler("score", dump, "out.jsonl", *args).returncode == 0
    write(tmp_path / "more.jsonl", [*OK, group("c", 0.3, 0.4)])
    found = rows(ruler("check", "more.jsonl", *args).stdout)
    assert found["kept"] == "2 of 3 calls, not paid again"
    assert found["calls"] == "1 (up to 2)"
    all_kept = rows(ruler("check", dump, *args).stdout)
    assert all_kept["kept"] == "2 of 2 calls, not paid again"
    assert all_kept["cost"] == "$0.00 (from $0.00 to $0.00)"
    others = (["--seed", "1"], ["-p", "top_p=1"], ["--rubric", "brevity"], ["--ledger", "none"])
    for more in (*others, ["--ledger", "other.sqlite"]):
        assert rows(ruler("check", dump, *args, *more).stdout)["kept"] == "0 of 2 calls", more
    other = ["-m", "openai/reordered", *args[2:]]
    assert rows(ruler("check", dump, *other).stdout)["kept"] == "0 of 2 calls"


def test_kept_failures(ruler: Ruler, server: JudgeServer, dump: Path) -> None:
    """A call that failed for good is told as such: `score` makes it again only when told to."""
    args = ["-m", "openai/400", "--api-base", server.base]
    assert ruler("score", dump, "out.jsonl", *args).returncode == 1
    found = rows(ruler("check", dump, *args).stdout)
    assert found["kept"] == "2 of 2 calls, not paid again; 2 failed, --retry-failed asks again"


def test_ledger_is_left_alone(ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path) -> None:
    """Looking makes no ledger and changes none; what is none is refused as `score` refuses it."""
    place = tmp_path / "new" / "l.sqlite"
    args = ["-m", "openai/good", "--api-base", server.base, "--ledger", place]
    assert ruler("check", dump, *args).returncode == 0
    assert not place.parent.exists()
    place.parent.mkdir()
    place.touch()
    assert ruler("check", dump, *args).returncode == 0
    assert place.read_bytes() == b""
    assert ruler("score", dump, "out.jsonl", *args).returncode == 0
    before = place.read_bytes()
    assert ruler("check", dump, *args).returncode == 0
    assert place.read_bytes() == before
    place.write_text("no database, but a text that is long enough to tell" * 20)
    done = ruler("check", dump, *args)
    assert done.returncode == 2
    assert "--ledger" in done.stderr


def test_embedded_judges_keep_nothing(ruler: Ruler, dump: Path) -> None:
    """A judge without a model costs nothing and is not looked up."""
    found = rows(ruler("check", dump, "-m", "offline", "--ledger", "/dev/null/x").stdout)
    assert (found["kept"], found["cost"]) == ("0 of 2 calls", "$0.00 (from $0.00 to $0.00)")


def test_parameters_are_refused(ruler: Ruler, dump: Path) -> None:
    """A parameter that a judge without a model does not take is bad usage, as it is for `score`."""
    for model in ("offline", "simulated"):
        done = ruler("check", dump, "-m", model, "-p", "sloth=1")
        assert done.returncode == 2
        assert "slot" in done.stderr


def test_names_forge_no_line(ruler: Ruler, dump: Path) -> None:
    """A model's name begins no line of its own and moves no terminal."""
    said = ruler("check", dump, "-m", "x\ncost: $0\x1b[2J").stdout
    assert sum(line.startswith("cost:") for line in said.splitlines()) == 1
    assert "\x1b" not in said


def test_price_list_without_litellm(dump: Path) -> None:
    """Prices are read without an import of litellm, which takes seconds."""
    code = (
        "import sys; from ruler_cli.cli import main\n"
        f"sys.argv = ['ruler', 'check', {str(dump)!r}, '-m', 'openai/o3']\n"
        "try: main()\n"
        "except SystemExit as end: code = end.code\n"
        "sys.exit(code or (9 if 'litellm' in sys.modules else 0))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert b"cost:               $0.0" in done.stdout


def test_parts_are_one_rollout(ruler: Ruler, tmp_path: Path) -> None:
    """Records that are parts of one rollout count once, on the page and in what is written."""
    uids = ["task_0_0", "task_0_1", "task_1_0"]
    dump = [
        {"input": "user\nhi", "output": f"answer {i}", "score": 0.5, "step": 1, "uid": uid}
        for i, uid in enumerate(uids)
    ]
    write(tmp_path / "in.jsonl", dump)
    found = rows(ruler("check", "in.jsonl", "-m", "offline").stdout)
    assert "3 records, 1 group of 2 rollouts" in found["input"]
    assert found["group sizes"] == "min 2, median 2, max 2 (1 group of 2)"
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline")
    assert "(2 rollouts, 3 records)" in done.stderr
    assert {record["ruler"]["group"]["size"] for record in read(tmp_path / "out.jsonl")} == {2}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (
            {"id": 1, "epoch": 1, "messages": talk("a"), "scores": {"match": {"value": "C"}}},
            '`scores.*.value`, first: "C"',
        ),
        ({"doc_id": 0, "doc": {}, "resps": [["a", "b"]], "arguments": [["hi", {}]]}, "none"),
    ],
)
def test_where_the_reward_is(record: dict[str, Any], says: str, ruler: Ruler, tmp_path: Path) -> None:
    """The page names the place that a reward is read from, and none where the format has none."""
    write(tmp_path / "in.jsonl", [record])
    assert rows(ruler("check", "in.jsonl", "-m", "offline").stdout)["reward"] == says
