"""`ruler select` with marks, and as pairs or as a judge's replies, as scripts and people see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.json
import pyarrow.parquet
import pytest

from tests.conftest import SHARED, Ruler, group, read, write
from tests.judge_server import JudgeServer
from tests.results.select_values import GROUPS, dump, trajectory

ASKED = {"role": "user", "content": "Cancel order 17."}


def asked(name: str, *scores: float) -> dict[str, Any]:
    """A scored group whose rollouts answer one question."""
    rollouts = []
    for i, score in enumerate(scores):
        answer = {"role": "assistant", "content": f"{name} {i}"}
        rollouts.append({**trajectory(score), "messages": [ASKED, answer]})
    return {"group_id": name, "trajectories": rollouts, "ruler": {"status": "scored"}}


def test_marks(ruler: Ruler, tmp_path: Path) -> None:
    """Marks choose what is kept; lines that name nothing are named and end the command with 1."""
    dump(tmp_path / "s.jsonl", GROUPS)
    dump(tmp_path / "m.jsonl", [{"group": "a", "mark": "good"}])
    done = ruler("select", "s.jsonl", "-", "--marks", "m.jsonl")
    assert (done.returncode, [json.loads(done.stdout)]) == (0, GROUPS[:1])
    other = [
        {"group": f"g{i}\x1b", "rollout": "\u202er", "mark": "bad"} for i in range(22)
    ]
    dump(tmp_path / "o.jsonl", other)
    done = ruler(
        "select", "s.jsonl", "o2.jsonl", "--marks", "m.jsonl", "--marks", "o.jsonl"
    )
    assert done.returncode == 1
    assert "ruler: s.jsonl has no group 'g0\ufffd', rollout \ufffdr\n" in done.stderr
    assert "… and 2 more lines of marks that name nothing there" in done.stderr
    assert done.stderr.endswith(
        "3 of 12 rollouts kept; 22 lines of marks that named nothing there\n"
    )
    assert read(tmp_path / "o2.jsonl") == GROUPS[:1]
    assert not {"\x1b", "\u202e"} & {*done.stderr}


USAGE = {
    "--marks none.jsonl": "--marks none.jsonl: cannot be read: no such file or directory",
    "--marks odd.jsonl": "--marks odd.jsonl: line 1 has no `group`",
    "--where mark=good": "name the file with --marks FILE",
    "--gap 0.1": "--gap: is for pairs; add --as pairs, or leave it out",
    "--where live --shape standard --as judge": "--shape: is for pairs",
    "--where live -m good": "-m: is for replies of a judge; add --as judge, or leave it out",
    "--as pairs --ledger x": "--ledger: is for replies of a judge",
    "--as pairs --gap 0": "'0' is not a number above 0",
    "--as pairs --gap nan": "--gap",
    "--as pairs --gap 2": "--gap",
    "--as pairs --per-group 0": "--per-group",
    "--as pair": "--as",
    "--as judge --keep 2 --by score": "--keep: a reply is about a whole group",
    "--as judge -m offline": "the ledger keeps none of its replies",
    "--as judge -m good --ledger none": "the ledger has no reply to any of its 4 requests",
    "--where metadata.answr=1": "no rollout of s.jsonl has a value there",
    "--where relibility=0.5..": 'did you mean reliability (or "relibility" of the records)?',
}  # fmt: skip


def test_bad_usage(ruler: Ruler, tmp_path: Path) -> None:
    """Bad usage is one sentence with the way out, and nothing is written."""
    groups = [asked(name, 0.1, 0.9) for name in "abcd"]
    dump(tmp_path / "s.jsonl", groups)
    dump(tmp_path / "odd.jsonl", [{"mark": "x"}])
    for args, message in USAGE.items():
        done = ruler("select", "s.jsonl", "out.jsonl", *args.split())
        assert (done.returncode, done.stdout) == (2, ""), (args, done.stderr)
        assert message in done.stderr, args
        assert "Traceback" not in done.stderr
        assert {path.name for path in tmp_path.iterdir()} == {"s.jsonl", "odd.jsonl"}


def test_pairs(ruler: Ruler, tmp_path: Path) -> None:
    """Pairs are written as lines, as a list or as a table; stderr counts what makes none."""
    groups = [
        asked("a", 0.1, 0.9, 0.5, 0.45),
        asked("b", 0.5, 0.6),
        asked("c", 0.3, 0.3),
    ]
    dump(tmp_path / "s.jsonl", groups)
    done = ruler("select", "s.jsonl", "p.jsonl", "--as", "pairs", "--per-group", 2)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[1:] == [
        "ruler: pairs written: 1, from 1 of 3 groups; groups without a pair: gap too small 1, tied 1"
    ]
    (pair,) = read(tmp_path / "p.jsonl")
    assert pair["prompt"] == [ASKED]
    assert (pair["chosen"][0]["content"], pair["rejected"][0]["content"]) == (
        "a 1",
        "a 0",
    )
    for name in ("p.json", "p.parquet", "p.jsonl.gz"):
        made = ruler("select", "s.jsonl", name, "--as", "pairs", "--per-group", 2)
        assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "p.json").read_text()) == [pair]
    table = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert table == [pair | {"tools": None}]
    assert pyarrow.json.read_json(tmp_path / "p.jsonl").to_pylist() == [pair]
    some = ruler(
        "select", "s.jsonl", "-", "--as", "pairs", "--gap", 0.05, "--per-group", 2
    )
    assert [json.loads(line)["gap"] for line in some.stdout.splitlines()] == [
        0.8,
        0.05,
        0.1,
    ]
    in_place = ruler("select", "s.jsonl", "s.jsonl", "--as", "pairs")
    assert (
        in_place.returncode,
        "is INPUT, and would lose its rollouts" in in_place.stderr,
    ) == (2, True)
    assert read(tmp_path / "s.jsonl") == groups


def test_pairs_of_a_pipe(ruler: Ruler, tmp_path: Path) -> None:
    """A selection can be made pairs of; lines that cannot be read end the command with 1."""
    text = json.dumps(asked("a", 0.1, 0.9)) + "\n"
    done = ruler("select", "-", "-", "--as", "pairs", "--shape", "standard", stdin=text)
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["prompt"] == ASKED["content"]
    done = ruler("select", "-", "p.parquet", "--as", "pairs", stdin="{bad\n" + text)
    assert done.returncode == 1
    assert "1 line not readable" in done.stderr
    none = ruler("select", "-", "n.parquet", "--as", "pairs", "--gap", 1, stdin=text)
    assert (none.returncode, "pairs written: 0, from 0 of 1 group" in none.stderr) == (
        0,
        True,
    )


RUNS: dict[str, tuple[str, int]] = {
    "-m good": ("in", 10),
    "-m good --passes 3 --seed 5": ("in", 30),
    "-m good -m percent --passes 2": ("in", 40),
    "-m good --group-size 2 --passes 2": ("in", 40),
    "-m good --passes 4 --adaptive": ("in", 40),
    "-m once-cutoff": ("in", 10),
    "-m once-missing": ("in", 10),
    "-m list": ("in", 10),
    "-m good --ask each": ("in", 40),
    "-m good --rubric @rubric.toml": ("in", 10),
    "-m good --rubric=short -p temperature=0.2 --order input": ("in", 10),
}  # fmt: skip
"""Options of a run, and the number of its replies that can be used."""
RUBRIC = '[[criteria]]\ncriterion = "It is done."\nweight = 2\n[[criteria]]\ncriterion = "It is short."\n'


@pytest.mark.parametrize("options", RUNS)
def test_replies(
    options: str, ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """Each usable reply is written with the messages that were sent, and its scores make those of the file."""
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    groups = [group(f"g{i}", 0.1, 0.4, 0.7, 0.9 - i / 50) for i in range(10)]
    write(tmp_path / "in.jsonl", groups)
    run = (*options.split(), "--api-base", server.base, "--ledger", "l.sqlite")
    scored = ruler("score", "in.jsonl", "s.jsonl", *run)
    assert scored.returncode == 0, scored.stderr
    sent = [request["messages"] for request in server.requests()]
    done = ruler("select", "s.jsonl", "j.jsonl", "--as", "judge", *run)
    assert done.returncode == 0, done.stderr
    rows = read(tmp_path / "j.jsonl")
    assert len(rows) == RUNS[options][1]
    assert f"replies written: {len(rows)}, about 10 groups" in done.stderr
    assert len(server.requests()) == len(sent)
    assert "127.0.0.1" not in (tmp_path / "j.jsonl").read_text()
    by_rollout: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        # a reply with a list is written with the words for a list, whatever was asked for
        assert row["prompt"][1] in [messages[1] for messages in sent]
        assert row["prompt"] in sent or {"list", "percent"} & {*options.split()}
        for one in row["scores"]:
            own = by_rollout.setdefault((row["group"], one["rollout"]), [])
            own.append(one["score"])
            assert one["label"] is not None
    means = sorted(sum(own) / len(own) for own in by_rollout.values())
    judged = [
        one["ruler"]["judge_score"]
        for record in read(tmp_path / "s.jsonl")
        for one in record["trajectories"]
    ]
    if "--group-size" not in options:  # windows are joined
        assert means == pytest.approx(sorted(judged), abs=1e-5)


def test_agreement(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A reply has the share of pairs that it orders as the labels do; a tie counts half, none is null."""
    labels = {"right": (0, 0, 1), "wrong": (1, 0, 0), "none": (1, 1, 1)}
    groups = []
    for name, own in labels.items():
        one = group(name, 0.1, 0.5, 0.9)
        for rollout, label in zip(one["trajectories"], own, strict=True):
            rollout["reward"] = label
        groups.append(one)
    write(tmp_path / "in.jsonl", groups)
    run = ("-m", "good", "--api-base", server.base, "--ledger", "l.sqlite")
    assert ruler("score", "in.jsonl", "s.jsonl", *run).returncode == 0
    done = ruler("select", "s.jsonl", "-", "--as", "judge", *run)
    found = {
        row["group"]: row["agreement"]
        for row in map(json.loads, done.stdout.splitlines())
    }
    assert found == {"right": 1.0, "wrong": 0.0, "none": None}
    some = ruler(
        "select", "s.jsonl", "-", "--as", "judge", *run, "--where", "disagreement"
    )
    assert [json.loads(line)["group"] for line in some.stdout.splitlines()] == ["wrong"]


def test_other_settings(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """Requests without a reply are counted and end the command with 1; without any reply it names the settings."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(4)])
    run = ("-m", "good", "--api-base", server.base, "--ledger", "l.sqlite")
    assert ruler("score", "in.jsonl", "s.jsonl", *run).returncode == 0
    as_judge = ("select", "s.jsonl", "j.jsonl", "--as", "judge", *run)
    done = ruler(*as_judge, "--passes", 2)
    assert done.returncode == 1
    assert "4 requests without a reply in the ledger" in done.stderr
    assert len(read(tmp_path / "j.jsonl")) == 4
    done = ruler(*as_judge, "--seed", 1)
    assert done.returncode == 2
    assert "the ledger has no reply to any of its 4 requests" in done.stderr
    assert "--seed" in done.stderr
    assert "(s.jsonl says: good, passes 1)" in done.stderr
    assert len(read(tmp_path / "j.jsonl")) == 4
    # the settings of the file are those of the run
    (tmp_path / "ruler.toml").write_text(
        f'[score]\nmodel = "good"\napi_base = "{server.base}"\nledger = "l.sqlite"\n'
    )
    done = ruler("select", "s.jsonl", "again.jsonl", "--as", "judge")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "again.jsonl") == read(tmp_path / "j.jsonl")
    in_place = ruler("select", "s.jsonl", "s.jsonl", "--as", "judge", *run)
    assert (in_place.returncode, "is INPUT" in in_place.stderr) == (2, True)


def test_replies_of_a_table(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """Replies are written as a table, too, and those that cannot be used are counted."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(3)])
    run = ("-m", "once-prose", "--api-base", server.base, "--ledger", "l.sqlite")
    ruler("score", "in.jsonl", "s.jsonl", *run)
    done = ruler("select", "s.jsonl", "j.parquet", "--as", "judge", *run)
    assert done.returncode == 0, done.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "j.parquet").to_pylist()
    assert [row["group"] for row in rows] == ["g0", "g1", "g2"]
    assert {row["judge"] for row in rows} == {"once-prose"}


@pytest.mark.parametrize("name", ["tau_bench_gpt4o_airline", "labelled_gsm25"])
def test_real_rollouts(name: str, ruler: Ruler, server: JudgeServer) -> None:
    """The requests of a scored dump are those of the dump, to the byte."""
    source = SHARED / "data" / f"{name}.jsonl"
    if not source.exists():
        pytest.skip(f"{source.name} is not beside this checkout")
    run = (
        "-m",
        "good",
        "--api-base",
        server.base,
        "--ledger",
        "l.sqlite",
        "--passes",
        "2",
    )
    assert ruler("score", source, "s.jsonl", *run).returncode == 0
    done = ruler("select", "s.jsonl", "j.jsonl", "--as", "judge", *run)
    assert done.returncode == 0, done.stderr
