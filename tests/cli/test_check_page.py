"""The page of `ruler check`, and the same as JSON: figures, paths and problems."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_check import rows
from tests.conftest import Ruler, write
from tests.values import talk


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
    assert result["messages"] == 'path chat, first "one"'
    assert result["group key"] == 'path q.id, first "a"'
    assert result["reward"] == "path r, first 1.0"
    assert result["outcome"] == "path check.ok, first true"
    assert result["format"].startswith("name messages at `chat`, ")
    rewards = "numbers 3, absent 1, no_number 1, min 0.5, mean 0.8333, max 1"
    assert result["rewards"] == rewards
    assert result["equal reward groups"] == "1"
    assert result["outcomes"] == "numbers 5, min 0, mean 0.6, max 1"
    assert result["group sizes"] == "min 2, median 2, max 3"
    assert result["tied groups"] == "1"
    assert result["identical rollouts"] == "1"
    assert "sample" not in result
    given = {
        "RULER_MESSAGES": "chat",
        "RULER_GROUP_BY": "q.id",
        "RULER_REWARD": "r",
    }
    assert page(ruler, custom, RULER_OUTCOME="check.ok", **given) == result


def test_wrong_path(ruler: Ruler, custom: Path) -> None:
    """A path without a value is bad usage."""
    for option in ("--messages", "--group-by", "--outcome"):
        done = ruler(
            "check", custom, *PATHS, option, "no.where", "-m", "offline"
        )
        assert done.returncode == 2
        assert (
            f"{option} no.where: none of the first records has it; their keys: q, chat"
            in done.stderr
        )


def test_missing_reward(ruler: Ruler, custom: Path) -> None:
    """A reward path that no record has is noted but no error, since the score is written there."""
    result = page(ruler, custom, *PATHS, "--reward", "nothing")
    assert result["reward"] == "path nothing, first null"
    assert result["rewards"] == "absent 5"


BAD = {
    "native": ('{"group_id": "a", "messages": %s}', []),
    "paths": (
        '{"chat": {"turns": %s}}',
        ["--messages", "chat.turns", "--grouping", "line"],
    ),
}
"""Lines of a readable rollout, and the options with which they are read."""


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
    ) == (3, 2, 5, True)
    assert result["rewards"] == {
        "numbers": 3, "absent": 1, "no_number": 1, "min": 0.5, "mean": 2.5 / 3, "max": 1.0,
    }  # fmt: skip
    assert result["cannot_be_scored"] == 2
    assert [bad["line"] for bad in result["bad"]] == [6, 7]
    assert "is JSON but not an object" in result["bad"][0]["reason"]
    assert result["group_sizes"] == {"min": 2, "median": 2, "max": 3}


@pytest.mark.parametrize("as_json", [True, False])
def test_empty_input(as_json: bool, ruler: Ruler, tmp_path: Path) -> None:
    """An empty input has no group to score, and the page reports it."""
    (tmp_path / "in.jsonl").touch()
    done = ruler(
        "check", "in.jsonl", *(["--json"] if as_json else []), "-m", "offline"
    )
    assert done.returncode == 1, done.stderr
    if as_json:
        facts = json.loads(done.stdout)
        assert (facts["groups"], facts["ready"], len(facts["not_ready"])) == (
            0,
            False,
            1,
        )
    else:
        assert rows(done.stdout)["input"].startswith(
            "no records: INPUT is empty"
        )


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


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {
                "id": 1,
                "epoch": 1,
                "messages": talk("a"),
                "scores": {"match": {"value": "C"}},
            },
            'path where the format has it, first "C"',
        ),
        (
            {
                "doc_id": 0,
                "doc": {},
                "resps": [["a", "b"]],
                "arguments": [["hi", {}]],
            },
            None,
        ),
    ],
)
def test_reward_path(
    record: dict[str, Any], message: str | None, ruler: Ruler, tmp_path: Path
) -> None:
    """The page names the first reward, and its path if ruler writes the score there."""
    write(tmp_path / "in.jsonl", [record])
    assert (
        rows(ruler("check", "in.jsonl", "-m", "offline").stdout).get("reward")
        == message
    )


def test_verdict(ruler: Ruler, tmp_path: Path) -> None:
    """The first line says if `score` can run: how large the run is, or what is missing, a line each."""
    write(tmp_path / "in.jsonl", PAIRS)
    key = {"OPENAI_API_KEY": "sk-0123456789"}
    ready = ruler(
        "check", "in.jsonl", "-m", "openai/o3", **key
    ).stdout.splitlines()[0]
    assert re.fullmatch(
        r"ready: 2 groups, 2 calls, about \$0\.0\d+ with openai/o3", ready
    )
    embedded = ruler("check", "in.jsonl", "-m", "offline").stdout.splitlines()[
        0
    ]
    assert embedded == "ready: 2 groups, 2 calls, no cost with offline"
    panel = ruler(
        "check",
        "in.jsonl",
        "-m",
        "mine",
        "-m",
        "other",
        "--api-base",
        "http://x/v1",
    ).stdout
    assert (
        panel.splitlines()[0]
        == "ready: 2 groups, 4 calls, cost unknown with mine, other"
    )
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("{broken\n")
    done = ruler("check", "in.jsonl", "-m", "openai/o3")
    first, size, key_line, *_ = rows(done.stdout)["verdict"].splitlines()
    assert first == "not ready: 1 line or trajectory cannot be scored"
    assert size.startswith("2 groups, 2 calls, about $0.0")
    missing = "judge openai/o3 needs a key and OPENAI_API_KEY is not set"
    assert key_line.startswith(missing)
    assert "export OPENAI_API_KEY=" in done.stdout.replace("\n", " ")
    assert "line 3 is not JSON" not in done.stdout
    assert (
        "sk-0123456789"
        not in ruler("check", "in.jsonl", "--json", **key).stdout
    )


def test_every_reason(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` has every reason why a run is not ready, and a judge that is refused decides the exit code."""
    path = write(tmp_path / "in.jsonl", PAIRS[:1])
    path.write_text(path.read_text() + "{broken\n")
    done = ruler(
        "check", "in.jsonl", "-m", "openai/o3", "-m", "opneai/o3", "--json"
    )
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
        done = ruler(
            "check", "in.jsonl", "-m", "offline", "--set", "single=score"
        )
        assert (done.returncode, done.stdout.startswith("ready: ")) == (0, True)
        assert "every group has one rollout" not in done.stdout
    write(tmp_path / "in.jsonl", [*alone, *PAIRS])
    assert ruler("check", "in.jsonl", "-m", "offline").returncode == 0
    (tmp_path / "in.jsonl").write_text("")
    assert (
        page(ruler, "in.jsonl")["verdict"]
        == "not ready: there is no group that can be scored"
    )
