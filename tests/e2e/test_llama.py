"""The whole main job with a real model behind llama.cpp's own server.

The assertions hold for any judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ruler, read
from tests.e2e import runs
from tests.e2e.llama import get
from tests.e2e.recorder import Recorder
from tests.e2e.runs import SAMPLES, Run, holds

Score = Callable[..., Run]
COLD = ("-p", "temperature=0")
ONE = ("-c", 1)
"""One request after another: the server has read the shared prefix already."""


def test_from_a_dump_to_a_report(
    score: Score, judge: Recorder, ruler: Ruler, tmp_path: Path
) -> None:
    """An agent's rollouts are checked, scored, compared with a verifier and reported, none of it twice."""
    source = runs.real(tmp_path)
    checked = ruler(
        "check",
        source,
        "-m",
        "hosted_vllm/smollm2",
        "--api-base",
        judge.base,
        "--json",
    )
    assert checked.returncode == 0, checked.stderr
    expected = json.loads(checked.stdout)
    assert not judge.seen

    run = score(source, *COLD, *ONE)
    holds(run, source)
    # its grammar holds the answer to the schema, so only one that was cut off can lack anything
    assert sum(s.corrective for s in judge.seen) <= sum(
        s.cut_off for s in judge.seen
    )
    assert expected["groups"] == run.summary["groups"]
    asked = len(judge.seen)

    again = score(source, *COLD, *ONE)
    assert len(judge.seen) == asked
    assert again.code == run.code
    assert again.summary["kept"] == again.summary["groups"]
    assert runs.as_scored(again.out) == runs.as_scored(run.out)
    reported(ruler, run, tmp_path)


def test_asked_about_each(
    score: Score, judge: Recorder, tmp_path: Path
) -> None:
    """The probabilities of a real model's one word are scores that differ, and a second run asks nothing."""
    source = runs.orders(tmp_path, 3)
    run = score(source, *COLD, *ONE, "--ask", "each")
    holds(run, source)
    assert run.code == 0, run.done.stderr
    assert len(judge.seen) == 6
    assert run.summary["usage"]["completion"] == 6
    rewards = [
        rollout["reward"]
        for group in read(run.out)
        for rollout in group["trajectories"]
    ]
    assert len({*rewards}) > 1

    score(source, *COLD, *ONE, "--ask", "each")
    assert len(judge.seen) == 6


def test_criteria(score: Score, judge: Recorder, tmp_path: Path) -> None:
    """A real model gives every rollout a value for each criterion, in form at the first try in 95 % of its replies."""
    source = runs.orders(tmp_path, 2)
    rubric = f"@{SAMPLES / 'rubric.toml'}"
    run = score(source, *COLD, *ONE, "--rubric", rubric)
    holds(run, source)
    assert sum(call.corrective for call in judge.seen) <= 0.05 * len(judge.seen)
    names = ["done", "told", "asks again", "allowed"]
    for rollout in runs.rollouts(run.out):
        annotation = rollout["ruler"]
        values = [criterion["value"] for criterion in annotation["criteria"]]
        assert [
            criterion["name"] for criterion in annotation["criteria"]
        ] == names
        assert all(0 <= value <= 1 for value in values)
        weighted = (5 * values[0] + 2 * values[1] - values[2] + 1) / 8
        wanted = weighted if values[3] >= 0.5 else 0.0
        assert annotation["score"] == pytest.approx(wanted, abs=1e-6)


def reported(ruler: Ruler, run: Run, folder: Path) -> None:
    """Every command that reads a scored file reads this one."""
    agreed = ruler("agree", run.out)
    assert agreed.returncode in {0, 1, 2}, agreed.stderr
    assert "Traceback" not in agreed.stderr
    if agreed.returncode < 2:
        assert "pairwise accuracy" in agreed.stdout
    messages = json.loads(ruler("report", run.out, "--json").stdout)
    assert messages["figures"]["groups"]["all"] == run.summary["groups"]
    terminal = ruler("report", run.out)
    assert terminal.returncode == 0, terminal.stderr
    assert "groups" in terminal.stdout
    page = folder / "report.html"
    assert ruler("report", run.out, "-o", page).returncode == 0
    assert 'id="data"' in page.read_text()


def test_by_file(judge: Recorder, ruler: Ruler, tmp_path: Path) -> None:
    """Any engine can answer the requests of `render`; its imported answers score groups without a call."""
    source, requests = runs.orders(tmp_path, 3), tmp_path / "requests.jsonl"
    judge_options = ("-m", "hosted_vllm/smollm2", *COLD)
    done = ruler("batch", "export", source, requests, *judge_options)
    assert done.returncode == 0, done.stderr
    rows = read(requests)
    assert len(rows) == 3
    replies = [
        {
            "custom_id": row["custom_id"],
            "response": {
                "status_code": 200,
                "body": get(f"{judge.base}/chat/completions", row["body"]),
            },
        }
        for row in rows
    ]
    (tmp_path / "replies.jsonl").write_text(
        "".join(json.dumps(reply) + "\n" for reply in replies)
    )
    imported = ruler("batch", "import", tmp_path / "replies.jsonl")
    assert imported.returncode == 0, imported.stdout + imported.stderr
    asked = len(judge.seen)

    done = ruler(
        "score", source, tmp_path / "out.jsonl", *judge_options, "--cached-only"
    )
    assert done.returncode in {0, 1}, done.stderr
    assert len(judge.seen) == asked
    runs.marked(tmp_path / "out.jsonl", source)
    # a reply that cannot be used leaves a request that corrects it, which the next round renders
    done = ruler(
        "batch", "export", source, tmp_path / "next.jsonl", *judge_options
    )
    assert done.returncode == 0, done.stderr
    unanswered = [
        part
        for part in runs.groups(tmp_path / "out.jsonl").values()
        if part["status"] == "failed"
    ]
    assert len(read(tmp_path / "next.jsonl")) == len(unanswered)


# The server of these has a context of 1,280 tokens.


_WALK = "I walk on to the next shelf of the store and count the boxes that stand there. I write this down."


def long_rollout(number: int, words: int) -> dict[str, object]:
    """A rollout of so many words."""
    text = " ".join(_WALK.split()[i % len(_WALK.split())] for i in range(words))
    return {
        "messages": [
            {"role": "user", "content": "Count the boxes in the store."},
            {
                "role": "assistant",
                "content": f"{text} That makes {number + 40} boxes.",
            },
        ],
        "reward": float(number % 2),
    }


def dump(path: Path, *sizes: int) -> Path:
    """One group of rollouts with so many words each."""
    rollouts = [
        long_rollout(number, words) for number, words in enumerate(sizes)
    ]
    path.write_text(
        json.dumps({"group_id": "boxes", "trajectories": rollouts}) + "\n"
    )
    return path


def test_long_group(short: Score, tmp_path: Path) -> None:
    """A group that the server refuses as too long is shown in parts; no rollout is shortened silently."""
    source = dump(tmp_path / "in.jsonl", 200, 200, 200, 200)
    run = short(source, *COLD)
    holds(run, source)
    refused = [call for call in run.seen if call.status == 400]
    assert refused, "the server took it whole"
    assert run.summary["windowed"] + sum(run.summary["failed"].values()) == 1
    texts = [
        json.dumps(r["messages"][1]["content"])
        for r in read(source)[0]["trajectories"]
    ]
    for call in run.seen:
        if call.status == 200:
            shown = call.body["messages"][-1]["content"]
            assert sum(text in shown for text in texts) == shown.count(
                "<trajectory id="
            )


def test_long_rollout(short: Score, tmp_path: Path) -> None:
    """A rollout that does not fit alone fails its group as too long, with the numbers, and costs no token."""
    source = dump(tmp_path / "in.jsonl", 2000, 20)
    run = short(source, *COLD)
    holds(run, source)
    assert run.code == 1
    assert run.summary["failed"] == {"too_long": 1}
    assert run.summary["usage"]["calls"] == 0
    reason = read(run.out)[0]["ruler"]["reason"]
    assert (
        len(
            [word for word in reason.replace(",", "").split() if word.isdigit()]
        )
        >= 2
    ), reason
