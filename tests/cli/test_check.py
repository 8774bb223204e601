"""`ruler check` as scripts and people see it: a run never takes more than its estimate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import cli
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.values import talk

OK = [group("a", 0.1, 0.9), group("b", 0.8, 0.2)]
LARGE = {
    "group_id": "large",
    "trajectories": [{"messages": talk(f"answer {i}")} for i in range(9)],
}
PANEL = ["-m", "openai/o3", "-m", "openai/gpt-4o"]


def rows(text: str) -> dict[str, str]:
    """The rows of the page as names and values; `verdict` has its lines, `warnings` those of that section."""
    head, *sections = text.split("\n\n")
    result = {"verdict": head}
    for section in sections:
        title, *lines = section.splitlines()
        if title == "Warnings":
            result["warnings"] = " ".join(map(str.strip, lines))
            continue
        name = ""
        for line in lines:
            if line[2:19].strip():
                name = line[2:19].strip()
                result[name] = line[21:]
            else:
                result[name] += " " + line.strip()
    return result


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two groups of two rollouts."""
    return write(tmp_path / "in.jsonl", OK)


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Two pairs, a group of nine, and a single rollout."""
    return write(tmp_path / "in.jsonl", [*OK, LARGE, group("alone", 0.5)])


@pytest.fixture
def check(ruler: Ruler, tmp_path: Path) -> Any:
    """`ruler check` of some groups."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(3)])
    return lambda *args: ruler("check", "in.jsonl", "--ledger", "none", *args)


def test_figures(ruler: Ruler, dump: Path) -> None:
    """Calls, tokens and cost are printed as expected, lowest and highest, in rows of name and value."""
    result = rows(ruler("check", dump, "-m", "openai/o3").stdout)
    assert result["calls"] == "2 (from 2 to 4)"
    assert "cached" not in result
    assert re.match(r"[0-9,]+ \(from [0-9,]+ to [0-9,]+\)$", result["prompt tokens"])
    tokens = "3,240 (from 700 to 33,200)"
    assert result["completion tokens"] == tokens
    assert result["cost"].startswith("$0.0")
    assert result["--max-cost"].split()[0] == result["cost"].rpartition("$")[2].rstrip(
        ")"
    )


def test_unknown_provider(ruler: Ruler, dump: Path) -> None:
    """A judge that `score` refuses is refused by `check` in the same words, unless it is at an endpoint."""
    for judge in (
        "opneai/o3",
        "gtp-4o",
        "nope",
        "offlin",
        "vllm/mine",
        "simulated -p sloth=1",
    ):
        words = (dump, "-m", *judge.split())
        done, refused = (
            ruler("check", *words),
            ruler("score", words[0], "out.jsonl", *words[1:]),
        )
        assert (done.returncode, refused.returncode, done.stderr) == (2, 2, "")
        assert done.stdout.startswith("not ready: ")
        facts = json.loads(ruler("check", *words, "--json").stdout)
        assert (facts["ready"], facts["groups"], facts["missing_keys"]) == (
            False,
            2,
            [],
        )
        assert refused.stderr == f"ruler: {facts['not_ready'][0]}\n"
    done = ruler("check", dump, "-m", "opneai/o3", "--api-base", "http://x/v1")
    assert done.stdout.startswith("ready: ")
    done = ruler("check", dump, "-m", "gmi/of-the-price-list")
    assert done.stdout.startswith("ready: ")


def test_missing_key(ruler: Ruler, dump: Path) -> None:
    """A missing key, login or SDK changes neither verdict nor exit code, and has a line of its own."""
    for judge in ("openai/o3", "gpt-4o", "anthropic/m", "bedrock/m", "vertex_ai/m"):
        done = ruler("check", dump, "-m", judge)
        assert (done.returncode, done.stderr) == (0, "")
        verdict = rows(done.stdout)["verdict"].splitlines()
        assert verdict[0].startswith("ready: 2 groups, 2 calls, ")
        assert verdict[1].strip().startswith(f"judge {judge} needs ")
        facts = json.loads(ruler("check", dump, "-m", judge, "--json").stdout)
        (missing,) = facts["missing_keys"]
        assert (facts["ready"], facts["not_ready"]) == (True, [])
        assert (
            ruler("score", dump, "out.jsonl", "-m", judge).stderr
            == f"ruler: {missing}\n"
        )
    assert "missing_keys" in ruler("check", dump, "--json", OPENAI_API_KEY="k").stdout
    unkeyed = [
        "-m",
        "openai/o3",
        "--api-base",
        "http://x/v1",
        "--api-key-env",
        "NO_SUCH",
    ]
    assert ruler("check", dump, *unkeyed).stdout.startswith("ready: ")


def test_unknown_price(ruler: Ruler, dump: Path) -> None:
    """The price of a private endpoint is unknown, also under a listed name; the sentence names the option."""
    for model in ("mine", "openai/o3"):
        result = rows(
            ruler("check", dump, "-m", model, "--api-base", "http://x/v1").stdout
        )
        assert result["cost"].startswith("unknown")
        assert "--price IN,OUT" in result["cost"]
        assert "--max-cost" not in result


def test_price(ruler: Ruler, dump: Path) -> None:
    """A given price holds for any model, listed or not; zero is a price, and a word is bad usage."""
    free = rows(ruler("check", dump, "-m", "openai/o3", "--price", "0,0").stdout)
    assert free["cost"] == "$0.00"
    assert "--max-cost" not in free
    assert free["verdict"].startswith(
        "ready: 2 groups, 2 calls, no cost with openai/o3\n"
    )
    mine = ["-m", "mine", "--api-base", "http://x/v1", "-p", "max_tokens=100"]
    dear = rows(ruler("check", dump, *mine, "--price", "0,1000000").stdout)
    assert dear["completion tokens"].startswith("200 (from 100 to 400)")
    assert dear["cost"] == "$200.00 (from $100.00 to $400.00)"
    assert rows(ruler("check", dump, *mine, RULER_PRICE="0,1").stdout)[
        "cost"
    ].startswith("$0.0002")
    for price in ("2", "a,b", "-1,2", "nan,1", "inf,1"):
        done = ruler("check", dump, "--price", price)
        assert done.returncode == 2
        assert "2,8" in done.stderr


@pytest.mark.parametrize(("groups", "cue"), [(1, "good"), (20, "once-not-json")])
def test_named_cap(
    groups: int, cue: str, ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """The cap that `check` names does not stop a run, even if every call is made twice."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(groups)])
    args = ["-m", f"openai/{cue}", "--api-base", server.base, "--price", "2,8"]
    cap = rows(ruler("check", "in.jsonl", *args).stdout)["--max-cost"].split()[0]
    done = ruler("score", "in.jsonl", "out.jsonl", *args, "--max-cost", cap)
    assert done.returncode == 0, done.stderr
    assert server.stats()["requests"] == groups * (1 if cue == "good" else 2)


def test_cached(ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path) -> None:
    """Cached requests are not counted again; a request with any other text is."""
    args = [
        "-m",
        "openai/good",
        "--api-base",
        server.base,
        "-p",
        "temperature=0.5",
        "--price",
        "2,8",
    ]
    assert ruler("score", dump, "out.jsonl", *args).returncode == 0
    write(tmp_path / "more.jsonl", [*OK, group("c", 0.3, 0.4)])
    result = rows(ruler("check", "more.jsonl", *args).stdout)
    assert result["cached"] == "2 calls, not paid again"
    assert result["calls"] == "1 (from 1 to 2)"
    assert result["verdict"].startswith(
        "ready: 3 groups, 1 call (and 2 cached), about $0.0"
    )
    all_cached = rows(ruler("check", dump, *args).stdout)
    assert all_cached["cached"] == "2 calls, not paid again"
    assert all_cached["cost"] == "$0.00"
    unpriced = ruler("check", dump, *args[:-2]).stdout
    assert unpriced.startswith(
        "ready: 2 groups, 0 calls (and 2 cached), no cost with openai/good\n"
    )
    again = ruler("score", dump, "out.jsonl", *args[:-2])
    assert re.search(
        r"2 of 2 groups scored in [0-9.]+ s: .*, 0 calls$", again.stderr, re.MULTILINE
    )
    others = (
        ["--seed", "1"],
        ["-p", "top_p=1"],
        ["--rubric", "brevity"],
        ["--ledger", "none"],
    )
    for more in (*others, ["--ledger", "other.sqlite"]):
        assert "cached" not in rows(ruler("check", dump, *args, *more).stdout), more
    other = ["-m", "openai/reordered", *args[2:]]
    assert "cached" not in rows(ruler("check", dump, *other).stdout)


def test_failed_calls(ruler: Ruler, server: JudgeServer, dump: Path) -> None:
    """A call that failed for good is counted as such: `score` makes it again only on request."""
    args = ["-m", "openai/400", "--api-base", server.base]
    assert ruler("score", dump, "out.jsonl", *args).returncode == 1
    result = rows(ruler("check", dump, *args).stdout)
    assert result["cached"] == "2 calls, not paid again"
    assert result["failed"] == "2 calls; --retry-failed asks again"


def test_ledger_is_unchanged(
    ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path
) -> None:
    """`check` creates and changes no ledger; another file is refused, unless no judge uses a ledger."""
    path = tmp_path / "new" / "l.sqlite"
    args = ["-m", "openai/good", "--api-base", server.base, "--ledger", path]
    assert ruler("check", dump, *args).returncode == 0
    assert not path.parent.exists()
    path.parent.mkdir()
    path.touch()
    assert ruler("check", dump, *args).returncode == 0
    assert path.read_bytes() == b""
    assert ruler("score", dump, "out.jsonl", *args).returncode == 0
    before = path.read_bytes()
    assert ruler("check", dump, *args).returncode == 0
    assert path.read_bytes() == before
    path.write_text("no database, but a text that is long enough to tell" * 20)
    done = ruler("check", dump, *args)
    assert done.returncode == 2
    assert "--ledger" in done.stderr
    result = rows(
        ruler("check", dump, "-m", "offline", "--ledger", "/dev/null/x").stdout
    )
    assert ("cached" in result, result["cost"]) == (False, "$0.00")


def test_panel(ruler: Ruler, several: Path) -> None:
    """The page has the passes, the windows and the judges of the groups, and the cost of each judge."""
    args = [*PANEL, "--passes", "2", "--group-size", "3", "--escalate", "openai/gpt-5"]
    result = rows(ruler("check", several, *args).stdout)
    assert result["judge"] == "openai/o3, openai/gpt-4o, openai/gpt-5 (escalation)"
    assert result["passes"] == "2"
    assert (
        result["windows"]
        == "1 group in parts, twice at least: 14 (from 12 to 36) of the calls"
    )
    assert result["calls"] == "25 (from 22 to 64)"
    assert result["judge 1"].startswith("openai/o3: 11 (from 11 to 22) calls, $")
    assert result["judge 2"].startswith("openai/gpt-4o: 11 (from 11 to 22) calls, $")
    assert result["judge 3"].startswith("openai/gpt-5: 3 (from 0 to 20) calls, $")
    assert "(from $0.00 to $" in result["judge 3"]
    plain = rows(ruler("check", several, "-m", "openai/o3").stdout)
    assert not {"passes", "windows", "judge 1"} & set(plain)
    assert plain["calls"] == "4 (from 4 to 8)"


def test_fallback_and_adaptive(ruler: Ruler, several: Path) -> None:
    """The page names the fallback judges and the rule of adaptive passes."""
    result = rows(
        ruler(
            "check", several, *PANEL, "--fallback", "--adaptive", "--passes", "4"
        ).stdout
    )
    assert result["judge"] == "openai/o3, openai/gpt-4o (fallback)"
    assert result["passes"] == "up to 4"
    assert result["calls"] == "9 (from 7 to 52)"
    assert result["judge 2"].startswith("openai/gpt-4o: 0 (from 0 to 26) calls")


def test_json(ruler: Ruler, several: Path) -> None:
    """The object has each judge's part of every figure, and the parts add up to the whole."""
    args = [
        "--json",
        *PANEL,
        "--passes",
        "2",
        "--group-size",
        "3",
        "--escalate",
        "openai/gpt-5",
    ]
    result = json.loads(ruler("check", several, *args).stdout)
    assert (result["passes"], result["adaptive"], result["windows"]["groups"]) == (
        2,
        False,
        1,
    )
    assert [(each["model"], each["asked"]) for each in result["judges"]] == [
        ("openai/o3", "panel"), ("openai/gpt-4o", "panel"), ("openai/gpt-5", "escalation"),
    ]  # fmt: skip
    assert result["judge"]["model"] == "openai/o3"
    assert result["judges"][1]["context_tokens"] == 128_000
    for figure in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        for value in ("low", "expected", "high"):
            parts = sum(each[figure][value] for each in result["judges"])
            assert result["estimate"][figure][value] == pytest.approx(parts)
    assert result["estimate"]["max_cost_usd"] >= result["estimate"]["cost_usd"]["high"]


def test_variables(ruler: Ruler, several: Path) -> None:
    """Each option is also taken from its variable."""
    args = [
        *PANEL,
        "--passes",
        "3",
        "--group-size",
        "3",
        "--single",
        "score",
        "--fallback",
        "--adaptive",
    ]
    given = {
        "RULER_JUDGE_MODEL": "openai/o3 openai/gpt-4o", "RULER_PASSES": "3", "RULER_GROUP_SIZE": "3",
        "RULER_SINGLE": "score", "RULER_FALLBACK": "1", "RULER_ADAPTIVE": "1", "RULER_ESCALATE": "x/y",
        "RULER_PRICE": "1,2 3,4 5,6",
    }  # fmt: skip
    prices = ["--price", "1,2", "--price", "3,4", "--price", "5,6"]
    output = ruler("check", several, *args, "--escalate", "x/y", *prices).stdout
    assert output == ruler("check", several, **given).stdout
    assert rows(output)["judge 3"].startswith("x/y: ")
    assert "unknown" not in rows(output)["cost"]


def test_too_long_for_one_judge(ruler: Ruler, tmp_path: Path) -> None:
    """A group that is too long for one judge of a panel is listed with that judge, and can be scored."""
    long = "word " * 150_000
    made = [{"group_id": "b", "messages": talk(f"{i} {long}")} for i in range(2)]
    write(tmp_path / "in.jsonl", made)
    args = ["--ledger", "none", "-m", "openai/gpt-4o"]
    alone = ruler("check", "in.jsonl", *args)
    both = ruler("check", "in.jsonl", *args, "-m", "openai/gpt-4.1")
    assert (alone.returncode, both.returncode) == (1, 0)
    assert rows(alone.stdout)["too long"] == "1 group for 128,000 tokens (b)"
    assert "too long" not in rows(both.stdout)
    assert "too long for the judge: 1 group" in rows(alone.stdout)["verdict"]
    assert rows(both.stdout)["too long 1"] == "1 group for its 128,000 tokens"


def test_batch(check: Any) -> None:
    """Price, number and time of batches stand beside the figures of calls, which stay the same."""
    plain, page = (
        rows(check("-m", "openai/o3", *more).stdout) for more in ((), ("--batch",))
    )
    assert {name: value for name, value in page.items() if name in plain} == plain
    assert set(page) - set(plain) == {"batch cost 1", "batch time"}
    assert page["batch cost 1"].endswith(", listed price")
    assert page["batch time"].startswith("up to 24 hours")
    unpriced = rows(check("-m", "openai/m", "--batch").stdout)
    assert unpriced["batch cost 1"].startswith("unknown")


def test_batch_price(check: Any) -> None:
    """A batch costs half of a given price, and half of a listed price that has none for batches."""
    result = json.loads(
        check("-m", "openai/m", "--price", "2,8", "--batch", "--json").stdout
    )
    whole, (judge,) = result["estimate"]["cost_usd"], result["batch"]["judges"]
    assert judge["price"] == "half"
    assert judge["cost_usd"] == pytest.approx(
        {name: usd / 2 for name, usd in whole.items()}
    )
    assert result["batch"]["hours"] == 24
    assert result["batch"]["cost_usd"] == judge["cost_usd"]


def test_panel_in_batches(check: Any) -> None:
    """Each judge has its own row; if one has no batch API the row says so, and the total is unknown."""
    args = (
        "-m",
        "openai/o3",
        "-m",
        "anthropic/claude-sonnet-4-5",
        "-m",
        "gemini/gemini-2.5-pro",
        "--batch",
    )
    page = rows(check(*args).stdout)
    assert "ruler batch export" in page["batch cost 3"]
    result = json.loads(check(*args, "--json").stdout)["batch"]
    assert [judge["provider"] for judge in result["judges"]] == [
        "openai",
        "anthropic",
        None,
    ]
    assert result["cost_usd"] is None
    assert "batch" not in json.loads(check("-m", "openai/o3", "--json").stdout)


def test_options_of_score(ruler: Ruler, dump: Path) -> None:
    """`check` takes every option of `score`; one that is wrong is refused, and no file is written."""
    names = {param.name for param in cli._load("check").params}
    assert {param.name for param in cli._load("score").params} - names == {"output"}
    words = "--concurrency 3 --on-failure keep --summary sum.json --max-failures 2 -q --debug --blend 0.5"
    run = ruler("check", dump, "-m", "offline", *words.split())
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("ready: 2 groups")
    assert [path.name for path in dump.parent.iterdir()] == ["in.jsonl"]
    run = ruler("check", dump, "-m", "offline", "--rpm", "fast")
    assert run.stderr == "ruler: --rpm: 'fast' is not a number of 0.01 or more\n"


def test_duration(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """`check` tells how long a run takes, by limits and by the pace of the ledger's calls, if one is known."""
    server.configure(latency=0.2)
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(60)])
    judge = ("-m", "openai/good", "--api-base", server.base, "--ledger", "kept")

    def expected(*more: str) -> float | None:
        """Return the seconds."""
        facts = json.loads(ruler("check", "in.jsonl", *judge, "--json", *more).stdout)
        assert facts["seconds"] is None or type(facts["seconds"]) in (int, float)
        return facts["seconds"] and float(facts["seconds"])

    assert expected() is None
    assert expected("--rpm", "30") == pytest.approx(120)
    assert ruler("score", "in.jsonl", "out", *judge, "--limit", "10").returncode == 0
    assert expected("-c", "5") == pytest.approx(50 / 5 * 0.2, rel=0.5)
    assert expected("-c", "5", "--rpm", "25") == pytest.approx(120)
    page = ruler("check", "in.jsonl", *judge, "--rpm", "25").stdout
    assert rows(page)["time"] == "about 2.0 min, at the pace that is known"
