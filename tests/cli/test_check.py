"""`ruler check` as scripts and people see it: a run never takes more than its estimate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.types import words_of
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
            begun, _, text = line.strip().partition("  ")
            if line.startswith(" "):
                result[name] += f" {line.strip()}"
            else:
                name = begun
                result[name] = text.strip()
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
    for name in ("prompt tokens", "completion tokens", "cost"):
        usual, low, high = map(
            float, re.findall(r"[0-9.]+", result[name].replace(",", ""))
        )
        assert 0 < low <= usual <= high
    for model in ("mine", "openai/o3"):
        args = ["-m", model, "--api-base", "http://x/v1"]
        result = rows(ruler("check", dump, *args).stdout)
        assert result["cost"].startswith("unknown; use --price IN,OUT")


def test_missing_key(ruler: Ruler, dump: Path) -> None:
    """A missing key comes first, and changes no exit code; each judge without one has a line, the stronger one too."""
    for judge in ("openai/o3", "gpt-4o", "anthropic/m"):
        done = ruler("check", dump, "-m", judge)
        assert (done.returncode, done.stderr) == (0, "")
        first, *_, size = rows(done.stdout)["verdict"].splitlines()
        assert first.startswith(f"not ready: judge {judge} needs ")
        assert size.startswith("2 groups, 2 calls, ")
        facts = json.loads(ruler("check", dump, "-m", judge, "--json").stdout)
        (missing,) = facts["missing_keys"]
        assert (facts["ready"], facts["not_ready"]) == (True, [])
        refused = ruler("score", dump, "out.jsonl", "-m", judge).stderr
        assert refused == f"ruler: {missing}\n"
    panel = ruler("check", dump, *PANEL, "--escalate", "gemini/g").stdout
    needs = re.findall("judge (.+?) needs a key", panel)
    assert needs == [*PANEL[1::2], "gemini/g"]


@pytest.mark.parametrize(
    ("groups", "cue"), [(1, "good"), (20, "once-not-json")]
)
def test_named_cap(
    groups: int, cue: str, ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """A cap of the highest cost does not stop a run, even if every call is made twice."""
    write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(groups)]
    )
    args = [
        "-m",
        f"openai/{cue}",
        *f"--api-base {server.base} --price 2,8".split(),
    ]
    facts = json.loads(ruler("check", "in.jsonl", "--json", *args).stdout)
    cap = facts["cost_usd"]["high"]
    done = ruler("score", "in.jsonl", "out.jsonl", *args, "--max-cost", cap)
    assert done.returncode == 0, done.stderr
    assert server.stats()["requests"] == groups * (1 if cue == "good" else 2)


def test_cached(
    ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path
) -> None:
    """Cached requests are not counted again; a request with any other text is."""
    args = [
        *f"-m openai/good --api-base {server.base} -p temperature=0.5 --price 2,8".split(),
    ]
    assert ruler("score", dump, "out.jsonl", *args).returncode == 0
    write(tmp_path / "more.jsonl", [*OK, group("c", 0.3, 0.4)])
    result = rows(ruler("check", "more.jsonl", *args).stdout)
    assert result["cached"] == "2"
    assert result["calls"] == "1 (from 1 to 2)"
    assert result["verdict"].startswith(
        "ready: 3 groups, 1 call (and 2 in the ledger), about $0.0"
    )
    all_cached = rows(ruler("check", dump, *args).stdout)
    assert all_cached["cached"] == "2"
    assert all_cached["cost"] == "$0.00"
    unpriced = ruler("check", dump, *args[:-2]).stdout
    assert unpriced.startswith(
        "ready: 2 groups, 0 calls (and 2 in the ledger), no cost with openai/good\n"
    )
    again = ruler("score", dump, "out.jsonl", *args[:-2])
    assert re.search(
        r"2 of 2 groups scored in [0-9.]+ s: .*, 0 calls$",
        again.stderr,
        re.MULTILINE,
    )
    others = (
        ["--seed", "1"],
        ["-p", "top_p=1"],
        ["--rubric", "brevity"],
        ["--ledger", "none"],
    )
    for more in (*others, ["--ledger", "other.sqlite"]):
        assert "cached" not in rows(
            ruler("check", dump, *args, *more).stdout
        ), more
    other = ["-m", "openai/reordered", *args[2:]]
    assert "cached" not in rows(ruler("check", dump, *other).stdout)


def test_ledger_is_unchanged(
    ruler: Ruler, server: JudgeServer, dump: Path, tmp_path: Path
) -> None:
    """`check` creates and changes no ledger; another file is refused, unless no judge uses a ledger."""
    path = tmp_path / "new" / "l.sqlite"
    args = [*f"-m openai/good --api-base {server.base} --ledger".split(), path]
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
    args = [
        *PANEL,
        "--passes",
        "2",
        "--group-size",
        "3",
        "--escalate",
        "openai/gpt-5",
    ]
    result = rows(ruler("check", several, *args).stdout)
    calls = "11 (from 11 to 22) calls, $"
    assert result["openai/o3"].startswith(calls)
    assert result["openai/gpt-4o"].startswith(calls)
    assert result["openai/gpt-5"].startswith("3 (from 0 to 20) calls, $")
    assert "(from $0.00 to $" in result["openai/gpt-5"]
    assert (result["passes"], result["windows"]) == ("2", "1")
    assert result["calls"] == "25 (from 22 to 64)"
    plain = rows(ruler("check", several, "-m", "openai/o3").stdout)
    assert "openai/o3" not in plain
    assert plain["calls"] == "4 (from 4 to 8)"


def test_adaptive(ruler: Ruler, several: Path) -> None:
    """Further passes by the rule of adaptive passes are in the range of the calls."""
    result = rows(
        ruler(
            "check",
            several,
            *PANEL,
            "--set",
            "adaptive=true",
            "--passes",
            "4",
        ).stdout
    )
    assert result["calls"] == "19 (from 14 to 52)"


def test_parts(ruler: Ruler, several: Path) -> None:
    """The object has each judge's part of every figure, and the parts add up to the whole."""
    args = [*PANEL, "--passes", "2", "--group-size", "3", "--json"]
    done = ruler("check", several, *args, "--escalate", "openai/gpt-5")
    result = json.loads(done.stdout)
    assert (result["passes"], result["windows"]) == (2, 1)
    assert [(judge["model"], judge["asked"]) for judge in result["judges"]] == [
        ("openai/o3", "panel"), ("openai/gpt-4o", "panel"), ("openai/gpt-5", "escalation"),
    ]  # fmt: skip
    for figure in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        for value in ("low", "expected", "high"):
            parts = sum(judge[figure][value] for judge in result["judges"])
            assert result[figure][value] == pytest.approx(parts)


def test_too_long_for_one_judge(ruler: Ruler, tmp_path: Path) -> None:
    """A group that is too long for one judge of a panel is listed with that judge, and can be scored."""
    long = "word " * 150_000
    made = [
        {"group_id": "b", "messages": talk(f"{i} {long}")} for i in range(2)
    ]
    write(tmp_path / "in.jsonl", made)
    args = ["--ledger", "none", "-m", "openai/gpt-4o"]
    alone = ruler("check", "in.jsonl", *args)
    both = ruler("check", "in.jsonl", *args, "-m", "openai/gpt-4.1")
    assert (alone.returncode, both.returncode) == (1, 0)
    assert rows(alone.stdout)["too long"] == "groups 1, first b"
    assert "too long" not in rows(both.stdout)
    reason = "1 group cannot be scored: too long for the judge"
    assert reason in rows(alone.stdout)["verdict"]


def rollout(task: str, answer: str, **fields: Any) -> dict[str, Any]:
    """A record with keys that no format knows."""
    return {
        "q": {"id": task},
        "chat": talk(answer, f"What is {task}?"),
        **fields,
    }


HOME_MADE = [
    rollout("a", "one", r=1.0, check={"ok": True}),
    rollout("b", "two", r=0.5, check={"ok": False}),
    rollout("a", "one", r=1.0, check={"ok": True}),
    rollout("b", "three", r="TimeoutError", check={"ok": False}),
    rollout("b", "four", check={"ok": True}),
]
PAIRS = [
    {"group_id": key, "messages": talk(f"{key} {i}")}
    for key in "ab"
    for i in range(2)
]
"""Two groups of two rollouts."""
PATHS = [
    "--messages",
    "chat",
    "--group-by",
    "q.id",
    "--reward",
    "r",
    "--outcome",
    "check.ok",
]


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    """A dump that no format knows."""
    return write(tmp_path / "in.jsonl", HOME_MADE)


def page(ruler: Ruler, *args: Any, **env: str) -> dict[str, str]:
    """The page as names and values."""
    return rows(ruler("check", *args, "-m", "offline", **env).stdout)


def test_paths(ruler: Ruler, custom: Path) -> None:
    """A dump that no format knows is read by the given paths, and `check` shows the values at them."""
    assert ruler("check", custom, "-m", "offline").returncode == 2
    result = page(ruler, custom, *PATHS)
    assert result["first response"] == '"one"'
    assert result["group key"] == '"a"'
    assert result["reward"] == "1.0"
    assert result["outcome"] == "true"
    rewards = "numbers 3, absent 1, no_number 1, min 0.5, mean 0.8333, max 1"
    assert result["rewards"] == rewards
    assert result["equal reward groups"] == "1"
    assert result["outcomes"] == "numbers 5, min 0, mean 0.6, max 1"
    assert result["group sizes"] == "min 2, median 2, max 3"
    assert result["tied groups"] == "1"
    assert result["identical rollouts"] == "1"
    given = {
        "RULER_MESSAGES": "chat",
        "RULER_GROUP_BY": "q.id",
        "RULER_REWARD": "r",
    }
    assert page(ruler, custom, RULER_OUTCOME="check.ok", **given) == result
    # a reward that no record has is no error: the score is written there
    absent = page(ruler, custom, *PATHS, "--reward", "nothing")
    assert absent["rewards"] == "absent 5"


def test_only_bad_lines(ruler: Ruler, tmp_path: Path) -> None:
    """The rest is counted too if no line can be read, before the reason why the command ends."""
    (tmp_path / "in.jsonl").write_text('{"messages": [1]}\n' * 300)
    for words in (
        ("check",),
        ("check", "--json"),
        ("score", "out.jsonl"),
        ("prompt",),
    ):
        done = ruler(words[0], "in.jsonl", *words[1:], "-m", "offline")
        *named, more, reason = (
            done.stderr.splitlines()
            if "--json" not in words
            else [*"x" * 20, "", done.stderr]
        )
        assert (done.returncode, len(named)) == (2, 20)
        assert more in ("", "ruler: … and 280 more unreadable lines")
        assert "none of its lines can be read" in reason


def test_json(ruler: Ruler, custom: Path) -> None:
    """`--json` prints one object with the whole page, and nothing on stderr."""
    with custom.open("a") as file:
        file.write('[1]\n{"q": {"id": "c"}, "chat": []}\n')
    done = ruler("check", custom, *PATHS, "--json", "-m", "offline")
    assert (done.returncode, done.stderr) == (1, "")
    result = json.loads(done.stdout)
    assert (
        result["version"],
        result["groups"],
        result["rollouts"],
        result["exact"],
    ) == (4, 2, 5, True)
    assert result["rewards"] == {
        "numbers": 3, "absent": 1, "no_number": 1, "min": 0.5, "mean": 2.5 / 3, "max": 1.0,
    }  # fmt: skip
    assert result["cannot_be_scored"] == 2
    assert [bad["line"] for bad in result["bad"]] == [6, 7]
    assert "is JSON but not an object" in result["bad"][0]["reason"]
    assert result["group_sizes"] == {"min": 2, "median": 2, "max": 3}


def test_hostile_text(ruler: Ruler, tmp_path: Path) -> None:
    """Keys and values of the dump, and a model's name, send no escape code and begin no line."""
    nasty = "\x1b[2Jx\ncost: $0\u202e\ud800"
    write(
        tmp_path / "in.jsonl",
        [{"group_id": nasty, "messages": talk(nasty), "reward": nasty}],
    )
    for more in ([], ["--json"]):
        done = ruler("check", "in.jsonl", *more, "-m", f"x{nasty[:-1]}")
        assert done.returncode == 2, done.stderr
        assert not {"\x1b", "\u202e"} & set(done.stdout)
        lines = done.stdout.splitlines()
        assert sum(line.lstrip().startswith("cost") for line in lines) == (
            not more
        )


def test_verdict(ruler: Ruler, tmp_path: Path) -> None:
    """The first line says if `score` can run: how large the run is, or what is missing, a line each."""
    write(tmp_path / "in.jsonl", PAIRS)
    key = {"OPENAI_API_KEY": "sk-0123456789"}
    ready = ruler(
        "check", "in.jsonl", "-m", "openai/o3", **key
    ).stdout.splitlines()[0]
    assert re.fullmatch(
        r"ready: 2 groups, 2 calls, about \$0\.0\d+, about \d+ s with openai/o3",
        ready,
    )
    embedded = ruler("check", "in.jsonl", "-m", "offline").stdout.splitlines()[
        0
    ]
    assert embedded == "ready: 2 groups, 2 calls, no cost with offline"
    panel = ruler(
        *words_of("check in.jsonl -m mine -m other --api-base http://x/v1")
    ).stdout
    assert (
        panel.splitlines()[0]
        == "ready: 2 groups, 4 calls, cost unknown, about 2 s with mine, other"
    )
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("{broken\n")
    done = ruler("check", "in.jsonl", "-m", "openai/o3", **key)
    first, size = rows(done.stdout)["verdict"].splitlines()
    assert first == "not ready: 1 line or trajectory cannot be scored"
    assert size.startswith("2 groups, 2 calls, about $0.0")
    assert "line 3 is not JSON" not in done.stdout
    assert (
        "sk-0123456789"
        not in ruler("check", "in.jsonl", "--json", **key).stdout
    )


def test_every_reason(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` has every reason why a run is not ready, and a judge that is refused decides the exit code."""
    path = write(tmp_path / "in.jsonl", PAIRS[:1])
    path.write_text(path.read_text() + "{broken\n")
    done = ruler(*words_of("check in.jsonl -m openai/o3 -m opneai/o3 --json"))
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["ready"], len(facts["missing_keys"])) == (
        2,
        False,
        1,
    )
    starts = (
        "1 line or trajectory cannot",
        "no group of INPUT has anything to compare: ",
        "judge opneai/o3: no ",
    )
    assert all(
        one.startswith(start)
        for one, start in zip(facts["not_ready"], starts, strict=True)
    )


def test_nothing_to_compare(ruler: Ruler, tmp_path: Path) -> None:
    """An input in which no group has two rollouts that differ is not ready, unless each is to be scored."""
    alone = [{"group_id": k, "messages": talk(k)} for k in "abc"]
    for made in (alone, alone[:1], alone[:1] * 2):
        write(tmp_path / "in.jsonl", made)
        done = ruler("check", "in.jsonl", "-m", "offline")
        assert done.returncode == 1
        assert done.stdout.startswith(
            "not ready: no group of INPUT has anything to compare: "
        )
        assert "--set single=score" in " ".join(done.stdout.split())
        done = ruler(*words_of("check in.jsonl -m offline --set single=score"))
        assert (done.returncode, done.stdout.startswith("ready: ")) == (0, True)
        assert "every group has one rollout" not in done.stdout
    write(tmp_path / "in.jsonl", [*alone, *PAIRS])
    assert ruler("check", "in.jsonl", "-m", "offline").returncode == 0
    (tmp_path / "in.jsonl").write_text("")
    empty = page(ruler, "in.jsonl")
    assert empty["verdict"] == "not ready: there is no group that can be scored"
    assert empty["found"].startswith("no records: INPUT is empty")
    done = ruler(*words_of("check in.jsonl --json -m offline"))
    assert (done.returncode, json.loads(done.stdout)["ready"]) == (1, False)
