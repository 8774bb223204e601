"""`ruler trend STEP…`: the steps of a training on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.ledger.database import digest_of
from tests.cli.scored import HOSTILE, hostile, scored
from tests.conftest import Ruler, read, write
from tests.on_terminal import RAW, widest


def step(
    path: Path, number: int, *, added: float = 0.0, groups: int = 8, **own: Any
) -> Path:
    """A scored file: rewards of 0 and 1, scores that follow them, and what is `added` to these."""
    dice = random.Random(number)
    lines = []
    for g in range(groups):
        labels = tuple(float(dice.random() < 0.5) for _ in range(4))
        scores = [
            round(0.3 + 0.3 * label + dice.gauss(0, 0.05) + added, 3)
            for label in labels
        ]
        line = scored(f"{number}-{g}", *scores, labels=labels, **own)
        for trajectory in line["trajectories"]:
            trajectory["messages"][-1]["content"] += "x" * dice.randrange(300)
        lines.append(line)
    return write(path / f"step-{number}.jsonl", lines)


def steps(folder: Path, number: int, onset: int = 0, **own: Any) -> list[str]:
    """The names of so many files; from an onset on scores rise without the rewards, from step to step."""
    for i in range(number):
        added = 0.03 * max(0, i - onset + 1) if onset else 0.0
        step(folder, 10 * (i + 1), added=added, **own)
    return [f"step-{10 * (i + 1)}.jsonl" for i in range(number)]


def test_drift(ruler: Ruler, tmp_path: Path) -> None:
    """The page has the step at which a drift is beyond chance, what moved, and a line and a row for each step."""
    names = steps(tmp_path, 20, onset=10)
    done = ruler("trend", *names)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "20 files, steps 10 to 200, by the number in their names" in text
    assert "1 drift beyond chance in 20 steps" in text
    assert "score and reward the mean score rose from 0.4" in text
    assert "length within chance false alarms" in text
    assert "in at most 5% of trainings in which nothing drifts, if" in text
    assert "up to 30% were measured where it does" in text
    found = json.loads(ruler("trend", *names, "--json").stdout)
    (drift,) = found["drift"]
    assert drift["kind"] == "label"
    assert 110 <= drift["step"] <= 180
    assert f"beyond chance at step {drift['step']}, " in text
    assert f"(ruler report step-{drift['step']}.jsonl)" in text
    rows = [
        line.split() for line in done.stdout.splitlines() if line[:2].isdigit()
    ]
    marked = [row[0] for row in rows if row[1] == "!"]
    assert marked == [str(drift["step"])]
    assert {rows[0][0], rows[-1][0]} == {"10", "200"}
    assert widest(done.stdout) <= 80


def test_json(ruler: Ruler, tmp_path: Path) -> None:
    """The object has each step by its number, whatever the order of the files, with the figures of its file."""
    names = steps(tmp_path, 6)
    found = json.loads(ruler("trend", *names[::-1], "--json").stdout)
    assert [one["step"] for one in found["steps"]] == [10, 20, 30, 40, 50, 60]
    assert [one["source"] for one in found["steps"]] == names
    assert (found["version"], found["step_from"], found["drift"]) == (
        5,
        "name",
        [],
    )
    assert [one["steps"] for one in found["tests"]] == [6] * 3
    alone = json.loads(ruler("report", names[2], "--json").stdout)["figures"]
    third = found["steps"][2]
    assert third["score"]["mean"] == pytest.approx(alone["scores"]["mean"])
    assert third["groups"]["all"] == alone["groups"]["all"]
    assert third["rollouts"]["labelled"] == alone["rollouts"]["labelled"]
    assert (
        third["against_label"]["accuracy"]
        == alone["against_label"]["agreement"]
    )
    assert third["with_length"]["score"] == alone["lengths"]["correlation"]


def test_too_few(ruler: Ruler, tmp_path: Path) -> None:
    """Of fewer than nine steps nothing is told, and never that there is no drift."""
    done = ruler("trend", *steps(tmp_path, 8, onset=2))
    assert done.returncode == 0
    assert (
        "Drift cannot be tested in 8 steps: 9 with scores are needed"
        in done.stdout
    )
    assert "length            9 steps with scores are needed" in done.stdout
    assert "no rewards" not in done.stdout
    assert "No drift" not in done.stdout
    assert "No drift" in ruler("trend", *steps(tmp_path, 9)).stdout


def test_nothing_to_compare(ruler: Ruler, tmp_path: Path) -> None:
    """Without rewards and a second judge only length is tested, and the page says what is missing."""
    for i in range(10):
        lines = [scored(f"{i}-{g}", 0.2, 0.4 + i / 100) for g in range(3)]
        lines.insert(0, scored(f"{i}-lost", None, None))
        write(tmp_path / f"{i}.jsonl", lines)
    text = " ".join(
        ruler("trend", *(f"{i}.jsonl" for i in range(10))).stdout.split()
    )
    assert "length within chance" in text
    assert (
        "no rewards name labels with --labels PATH, or score with a second"
        in text
    )
    assert "judged apart" not in text


def test_step_without_scores(ruler: Ruler, tmp_path: Path) -> None:
    """A file without scores is a step with the reason, in its place; the exit code is 1."""
    names = steps(tmp_path, 7)
    write(tmp_path / names[1], [scored(f"f{i}", None, None) for i in range(3)])
    done = ruler("trend", *names, "--json")
    assert done.returncode == 1
    assert (
        "step-20.jsonl: no rollout has a score; failed groups: 3 reply\n"
        in done.stderr
    )
    found = json.loads(done.stdout)["steps"]
    assert [one["step"] for one in found] == [10, 20, 30, 40, 50, 60, 70]
    reasons = [one["reason"] for one in found]
    assert reasons[1] == "no rollout has a score; failed groups: 3 reply"
    assert [bool(one) for one in reasons[1:]] == [True, *[False] * 5]
    assert [one["score"] is None for one in found] == [
        bool(one) for one in reasons
    ]
    text = " ".join(ruler("trend", *names).stdout.split())
    assert "no scores step 20 (step-20.jsonl): no rollout has a score" in text


def test_unreadable_line(ruler: Ruler, tmp_path: Path) -> None:
    """A line that cannot be read is named with its file, and the rest is shown."""
    names = steps(tmp_path, 5)
    path = tmp_path / names[3]
    path.write_text(path.read_text() + "{broken\n")
    done = ruler("trend", *names, "--json")
    assert done.returncode == 1
    assert "step-40.jsonl: line 9 " in done.stderr
    found = json.loads(done.stdout)
    assert (found["problems"], found["steps"][3]["reason"]) == (1, "")


def test_same_files(ruler: Ruler, tmp_path: Path) -> None:
    """A file with the rollouts of another one, in any order, is told first, keeps its figures and counts in no test."""
    names = steps(tmp_path, 12, onset=6)
    lines = read(tmp_path / names[10])
    lines[0]["trajectories"].reverse()
    write(tmp_path / names[11], lines[::-1])
    (tmp_path / names[1]).write_bytes((tmp_path / names[0]).read_bytes())
    done = ruler("trend", *names)
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    assert "in 12 steps same files step 20 (step-20.jsonl): holds " in text
    found = json.loads(ruler("trend", *names, "--json").stdout)
    same = [one["same_as"] for one in found["steps"]]
    assert same == [None, 10, *[None] * 9, 110]
    assert found["steps"][1]["score"] == found["steps"][0]["score"]
    assert [one["steps"] for one in found["tests"]] == [10, 10, 10]
    # other scores of the same rollouts are other content
    lines[0]["trajectories"][0]["ruler"]["score"] += 0.1
    write(tmp_path / names[11], lines)
    found = json.loads(ruler("trend", *names, "--json").stdout)
    assert found["steps"][11]["same_as"] is None


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("judge", "two", "judge"),
        ("rubric", "c" * 16, "rubric"),
        ("params", "d" * 16, "parameters"),
        ("served", ["two-0926"], "served model"),
    ],
)
def test_change_of_the_judge(
    name: str, value: Any, what: str, ruler: Ruler, tmp_path: Path
) -> None:
    """Another judge, rubric, parameters or model, in any share of the groups, is said, and is no drift."""
    own: dict[str, Any] = {
        "judge": "one",
        "rubric": "a" * 16,
        "params": "b" * 16,
    }
    own["served"] = ["one-0815"]
    shares: list[Callable[[int], int]] = [
        lambda i: 11 * (i >= 9),
        lambda i: 24 * (i >= 9),
        lambda i: max(0, min(24, 3 * (i - 6))),
    ]
    names = [f"step-{i + 1}.jsonl" for i in range(20)]
    for share in shares:
        for i in range(20):
            path = step(tmp_path, i + 1, groups=24, **own)
            lines = read(path)
            for line in lines[: share(i)]:
                line["ruler"][name] = value
                for one in line["trajectories"]:
                    one["ruler"]["score"] += 0.15
            write(path, lines)
        found = json.loads(ruler("trend", *names, "--json").stdout)
        assert found["drift"] == [], share
        first = next(one for one in found["steps"] if one["differs"])
        groups = share(first["step"] - 1)
        assert share(first["step"] - 2) == 0 < groups
        part = f" in {groups} of 24 groups" if groups < 24 else ""
        assert first["differs"] == what + part
    text = " ".join(ruler("trend", *names).stdout.split())
    assert (
        f"judge changes step 8 (step-8.jsonl): not the same {what} in 3" in text
    )
    assert "13 steps not judged as the first: no test counts them" in text


def test_rubrics_of_tasks(ruler: Ruler, tmp_path: Path) -> None:
    """Rubrics of single tasks, passes and failures of a few groups change, and the judge does not."""
    for number in range(10, 60, 10):
        path = step(
            tmp_path,
            number,
            passes=2,
            rubric=digest_of("Be kind."),
            judge="m",
            served=["m-1"],
        )
        lines = read(path)
        for line in lines[:3]:
            line["rubric"] = f"Solve {line['group_id']}."
            line["ruler"]["rubric"] = digest_of(line["rubric"])
        if number > 20:
            lines[4]["ruler"]["passes"] = 1
            lines[5] = scored(
                f"{number}-5",
                None,
                None,
                judge="m",
                rubric=digest_of("Be kind."),
            )
        write(path, lines)
    names = sorted(path.name for path in tmp_path.glob("*"))
    text = ruler("trend", *names).stdout
    assert "judge changes" not in text
    assert "Drift cannot be tested in 5 steps" in text
    found = json.loads(ruler("trend", *names, "--json").stdout)
    assert [one["differs"] for one in found["steps"]] == [""] * 5


def test_judges_and_criteria(ruler: Ruler, tmp_path: Path) -> None:
    """Each judge of a panel and each criterion has a line; of two judges the second of the first step is held out."""
    for i in range(20):
        dice = random.Random(i)
        lines = []
        for g in range(8):
            one = scored(
                f"{i}-{g}", *(dice.uniform(0.3, 0.6) for _ in range(4))
            )
            for trajectory in one["trajectories"]:
                own = trajectory["ruler"]
                held = own["score"] + dice.gauss(0, 0.03)
                own["judges"] = [
                    {
                        "judge": "train",
                        "score": own["score"] + 0.04 * max(0, i - 9),
                    },
                    {"judge": "held\x1b[31m", "score": held},
                ]
                own["criteria"] = [
                    {"name": "safe\u202e", "value": dice.random()}
                ]
                # then the training judge failed, and the other is the first of the file
                own["judges"] = own["judges"][i % 2 if g == 0 else 0 :]
                if i == 19:
                    own["judges"].reverse()
            lines.append(one)
        write(tmp_path / f"{i}.jsonl", lines)
    names = [f"{i}.jsonl" for i in range(20)]
    done = ruler("trend", *names)
    assert RAW.findall(done.stdout) == []
    text = " ".join(done.stdout.split())
    assert "held-out judge the mean of train rose from 0." in text
    assert "the mean of held\\x1b[31m " in text
    found = json.loads(ruler("trend", *names, "--json").stdout)
    assert [one["kind"] for one in found["drift"]] == ["held_out"]
    assert [one["name"] for one in found["steps"][0]["criteria"]] == [
        "safe\u202e"
    ]
    judges = found["steps"][0]["judges"]
    assert [one["name"] for one in judges] == ["train", "held\x1b[31m"]
    assert found["tests"][0]["kind"] == "held_out"
    assert None not in found["tests"][0]["values"]
    backwards = json.loads(ruler("trend", *reversed(names), "--json").stdout)
    assert backwards["drift"] == found["drift"]


def test_labels(ruler: Ruler, tmp_path: Path) -> None:
    """Labels at a path are read in each file; tests/cli/test_agree.py has a path that is not there."""
    for i in range(3):
        lines = [scored(f"g{g}", 0.2, 0.8) for g in range(3)]
        for one in lines:
            for trajectory, passed in zip(
                one["trajectories"], (False, True), strict=True
            ):
                trajectory["metadata"] = {"passed": passed, "word": "a"}
        write(tmp_path / f"{i}.jsonl", lines)
    names = [f"{i}.jsonl" for i in range(3)]
    done = ruler("trend", *names, "--labels", "metadata.passed", "--json")
    found = json.loads(done.stdout)
    assert found["labels"] == "metadata.passed"
    assert [one["label"]["mean"] for one in found["steps"]] == [0.5] * 3
    assert found["steps"][0]["against_label"]["accuracy"] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("a.jsonl b.jsonl none.jsonl", "none.jsonl: no such file"),
        ("a.jsonl b.jsonl", "a trend needs three files or more; use `ruler compare A B`"),
        ("a.jsonl b.jsonl c.jsonl -o b.jsonl", "b.jsonl: a report is a local file"),
        ("a.jsonl b.jsonl c.jsonl -o x.html --json", "-o writes a page; leave out --json"),
        ("lost.jsonl empty.jsonl raw.jsonl", "empty.jsonl: holds no records"),
        ("lost.jsonl raw.jsonl empty.jsonl", "raw.jsonl: no rollout has an annotation of ruler; score it first"),
        ("lost.jsonl other.jsonl lost.jsonl", "no file has a score; see why with `ruler report lost.jsonl`"),
    ],
)  # fmt: skip
def test_mistakes(
    args: str, message: str, ruler: Ruler, tmp_path: Path
) -> None:
    """A mistake is one sentence with the way out and exit code 2, and nothing is written."""
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.jsonl", [scored(name, 0.2, 0.8)])
    (tmp_path / "empty.jsonl").write_text("")
    raw = [
        {"messages": one["messages"]}
        for one in scored("a", 0.1, 0.2)["trajectories"]
    ]
    write(tmp_path / "raw.jsonl", [{"group_id": "a", "trajectories": raw}])
    write(tmp_path / "lost.jsonl", [scored("lost", None, None)])
    write(tmp_path / "other.jsonl", [scored("other", None, None)])
    before = sorted(tmp_path.iterdir())
    done = ruler("trend", *args.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_hostile(ruler: Ruler, tmp_path: Path) -> None:
    """Names of files, judges and criteria may hold anything; nothing raw reaches the terminal."""
    names = []
    for i, text in enumerate(HOSTILE):
        name = "".join(c for c in text if c not in "/\0")[:30].strip() or "none"
        try:
            path = tmp_path / f"{i} {name}.jsonl"
            lines = [{**one, "step": i} for one in hostile()[i : i + 3]]
            write(path, lines)
        except (OSError, UnicodeEncodeError):
            continue
        names.append(path.name)
    assert len(names) > 10
    done = ruler("trend", *names, COLUMNS="60")
    assert done.returncode in (0, 1), done.stderr
    assert RAW.findall(done.stdout) == []
    assert widest(done.stdout) <= 60
    done = ruler("trend", *names, "--json")
    assert RAW.findall(done.stdout) == []
    assert len(json.loads(done.stdout)["steps"]) == len(names)


def test_page(ruler: Ruler, tmp_path: Path) -> None:
    """-o writes one file, says so on stderr, and prints nothing; no text of the input stands in it as it is."""
    names = steps(tmp_path, 5)
    done = ruler("trend", *names, "-o", "trend.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert "ruler: 5 steps, " in done.stderr
    page = (tmp_path / "trend.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "step-10.jsonl to step-50.jsonl · ruler report" in page
    assert "default-src 'none'" in page
    assert "Drift cannot be tested in 5 steps" in page
    piped = ruler("trend", *names, "-o", "-")
    assert piped.stdout.startswith("<!doctype html>")
