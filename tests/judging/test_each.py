"""Judges that are asked about each rollout alone, and read by the probability of Yes."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import JudgeRequest, JudgeSettings, Scorer
from ruler_cli.errors import UsageError
from ruler_cli.settings.load import load_settings
from tests.conftest import Ruler, group, write
from tests.judge_server import JudgeServer
from tests.values import talk

GROUPS = [
    group("one", 0.1, 0.9, 0.5),
    group("two", 0.75, 0.25),
    group("alone", 0.6),
]
YES = {truth: 0.01 + 0.98 * truth for truth in (0.1, 0.25, 0.5, 0.6, 0.75, 0.9)}
"""The probability that the judge server gives Yes, by the truth."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write the groups."""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in GROUPS))
    return path


def judge(server: JudgeServer, cue: str = "well") -> tuple[str, ...]:
    """Return the options of a judge that is asked about each rollout."""
    return (
        "-m",
        f"hosted_vllm/{cue}",
        "--api-base",
        server.base,
        "--ask",
        "each",
    )


def records(path: Path) -> list[dict[str, Any]]:
    """Return the records of OUTPUT."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each(
    ruler: Ruler, source: Path, server: JudgeServer, tmp_path: Path
) -> None:
    """Each distinct rollout is asked about once, and its score is the share of Yes; nothing has a position."""
    run = ruler("score", source, "out.jsonl", *judge(server))
    assert run.returncode == 0, run.stderr
    for record, inputs in zip(
        records(tmp_path / "out.jsonl"), GROUPS, strict=True
    ):
        truths = [
            float(row["messages"][-1]["content"].rpartition("=")[2])
            for row in inputs["trajectories"]
        ]
        rollouts = record["trajectories"]
        wanted = pytest.approx([YES[truth] for truth in truths], abs=1e-6)
        assert [row["reward"] for row in rollouts] == wanted
        assert all(row["ruler"]["slots"] == [] for row in rollouts)
        assert record["ruler"]["reliability"] is None
        assert not record["ruler"]["tied"]
        assert record["ruler"]["usage"]["calls"] == len(truths)
        assert record["ruler"]["usage"]["completion_tokens"] == len(truths)
    requests = server.requests()
    assert len(requests) == 6
    server.reset()
    five = judge(server, "five-logprobs")
    run = ruler("score", source, "five.jsonl", *five)
    assert "use -p top_logprobs=5" in run.stderr
    run = ruler("score", source, "five.jsonl", *five, "-p", "top_logprobs=5")
    assert run.returncode == 0, run.stderr
    assert all(
        asked["logprobs"] and asked["max_tokens"] == 1 for asked in requests
    )
    assert not any("response_format" in asked for asked in requests)


def test_no_probability(
    ruler: Ruler, source: Path, server: JudgeServer
) -> None:
    """Without a probability there is no score, and the reason is told; an endpoint without any ends the run.

    A reply whose words are neither Yes nor No, or too few, is asked for three times; then on request alone.
    """
    rows = (
        ("no-logprobs", 3, "returns no probabilities of its words"),
        ("logprobs-refused", 3, "'logprobs' is not supported"),
        ("top-1", 1, "No is not among the first words that it lists (1)"),
        ("maybe", 1, "neither Yes nor No, but “Maybe” (99%)"),
        ("refusal", 1, "I'm sorry"),
    )
    for cue, code, why in rows:
        run = ruler("score", source, "out.jsonl", *judge(server, cue))
        assert run.returncode == code
        assert why in run.stderr
        if code < 3:
            parts = [
                record["ruler"]
                for record in records(source.parent / "out.jsonl")
            ]
            assert {part["status"] for part in parts} == {"failed"}
    for calls, more in ((6, ()), (6, ()), (0, ()), (6, ("--retry-failed",))):
        server.reset()
        run = ruler(
            "score", source, "out.jsonl", *judge(server, "maybe"), *more
        )
        assert (run.returncode, len(server.requests())) == (1, calls)
        assert ("--retry-failed does" in run.stderr) is (calls == 0)


def test_asked_again(ruler: Ruler, source: Path, server: JudgeServer) -> None:
    """A reply without probabilities is kept, and is no answer: another endpoint of the model is asked again."""
    without = ("-m", "hosted_vllm/well", "--ask", "each")
    ruler("score", source, "out.jsonl", *judge(server, "no-logprobs"))
    assert "odd 3" in ruler("ledger", "stats").stdout
    server.reset()
    run = ruler(
        "score", source, "out.jsonl", *without, "--api-base", server.base
    )
    assert run.returncode == 0
    assert len(server.requests()) == 6


REFUSED: tuple[tuple[str, str], ...] = (
    ("--passes 2", "--passes: has no meaning"),
    ("--set order=input", "--set order: has no meaning"),
    ("--set debias=true", "--set debias: has no meaning"),
    ("--set adaptive=true --passes 2", "has no meaning"),
    ("--group-size 5", "--group-size: has no meaning"),
    ("--set min_passes=2", "--set min_passes: has no meaning"),
    ("-m offline", "judge offline: returns no probabilities of words"),
    (
        "-m offline --ask group --set question=Why?",
        "--set question: is put to no judge",
    ),
)
"""Options, with ~ for a space, and why they are refused."""


def test_refused(ruler: Ruler, source: Path, server: JudgeServer) -> None:
    """Options that mean nothing to a judge that is asked about each, and judges without probabilities, are refused."""
    for options, message in REFUSED:
        words = [word.replace("~", " ") for word in options.split()]
        model = () if "-m" in words else ("-m", "simulated")
        run = ruler(
            "score", source, "out.jsonl", *model, "--ask", "each", *words
        )
        assert run.returncode == 2
        assert message in run.stderr, options
    claude = ("-m", "anthropic/claude-sonnet-4-5", "--ask", "each")
    for command in (("submit", source), ("export", source, "r.jsonl")):
        run = ruler("batch", *command, *claude, ANTHROPIC_API_KEY="k")
        assert run.returncode == 2
        assert "returns no probabilities of words" in run.stderr
    way: tuple[str, ...] = (
        "-m",
        "mistral/well",
        "--set",
        "via=litellm",
        "--ask",
        "each",
    )
    way += ("--api-base", server.base)
    run = ruler("score", source, "out.jsonl", *way, MISTRAL_API_KEY="k")
    assert run.returncode == 3
    assert "returns no probabilities of its words (`logprobs`)" in run.stderr
    assert server.requests() == []


def test_two_kinds(
    ruler: Ruler, source: Path, server: JudgeServer, tmp_path: Path
) -> None:
    """A panel of both kinds is brought to one scale, which is told; both judges' own scores stand beside it.

    Positions, and scores and values there, are those of the judge that saw all rollouts.
    """
    table = '[judges.{0}]\nmodel = "hosted_vllm/{0}"\napi_base = "{1}"\n'
    config = table.format("big", server.base) + table.format(
        "small", server.base
    )
    (tmp_path / "ruler.toml").write_text(config + 'ask = "each"\n')
    panel = ("-m", "big", "-m", "small", "--passes", "2")
    rubric = [
        {"name": n, "criterion": f"It is {n}."} for n in ("kind", "short")
    ]
    options = ("--rubric", json.dumps(rubric))
    run = ruler("score", source, "criteria.jsonl", *panel, *options)
    assert (
        "use --set standardize=true to bring them to one scale at the end"
        in run.stderr
    )
    for rollout in records(tmp_path / "criteria.jsonl")[0]["trajectories"]:
        placed = rollout["ruler"]
        rows = (
            placed["slots"],
            placed["pass_scores"],
            *placed["criteria_passes"],
        )
        assert [*map(len, rows)] == [2] * 4
    plain = ruler(
        "score", source, "plain.jsonl", *panel, "--set", "standardize=false"
    )
    assert "one scale" not in plain.stderr
    truths = (0.1, 0.9, 0.5)
    rollouts = records(tmp_path / "plain.jsonl")[0]["trajectories"]
    for rollout, truth in zip(rollouts, truths, strict=True):
        scores = {
            row["judge"]: row["score"] for row in rollout["ruler"]["judges"]
        }
        assert scores == pytest.approx(
            {"big": truth, "small": YES[truth]}, abs=1e-5
        )


_TIMES = re.compile(
    r'"judged_at": ?"[^"]+"|"latency_s": ?[0-9.e+-]+|"cached": ?(true|false)'
)


def timeless(path: Path) -> str:
    """Return an OUTPUT without times and without `cached`."""
    return _TIMES.sub("", path.read_text())


def answered(requests: Path, replies: Path, server: JudgeServer) -> None:
    """Send each line of a request file to the server; write its replies as a batch API does."""
    rows = []
    for line in records(requests):
        request = urllib.request.Request(
            f"{server.base}/chat/completions",
            json.dumps(line["body"]).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            body = json.load(response)
        rows.append(
            {
                "custom_id": line["custom_id"],
                "response": {"status_code": 200, "body": body},
            }
        )
    write(replies, rows)


def test_same_everywhere(
    ruler: Ruler, source: Path, server: JudgeServer, tmp_path: Path
) -> None:
    """Shards, imported replies and litellm give the OUTPUT of one run over the direct path."""
    asked = judge(server)
    assert ruler("score", source, "out.jsonl", *asked).returncode == 0
    wanted = timeless(tmp_path / "out.jsonl")

    for shard in ("1/2", "2/2"):
        mine = ("--shard", shard, "--ledger", f"{shard[0]}.sqlite")
        assert (
            ruler("score", source, "part.jsonl", *asked, *mine).returncode == 0
        )
    ledgers = [word for i in (1, 2) for word in ("--ledger", f"{i}.sqlite")]
    ruler("score", source, "shards.jsonl", *asked, "--cached-only", *ledgers)
    assert timeless(tmp_path / "shards.jsonl") == wanted

    second = ("--ledger", "imported.sqlite")
    ruler("batch", "export", source, "requests.jsonl", *asked, *second)
    answered(tmp_path / "requests.jsonl", tmp_path / "replies.jsonl", server)
    ruler("batch", "import", "replies.jsonl", *second)
    ruler("score", source, "imported.jsonl", *asked, "--cached-only", *second)
    assert timeless(tmp_path / "imported.jsonl") == wanted


def test_identical(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """Identical rollouts are asked about once and share the score; they are tied, one alone is not."""
    alone = group("one", 0.6)
    equal = {"group_id": "same", "trajectories": alone["trajectories"] * 3}
    write(tmp_path / "in.jsonl", [equal, alone])
    ruler("score", "in.jsonl", "out.jsonl", *judge(server))
    same, row = records(tmp_path / "out.jsonl")
    assert len(server.requests()) == 1
    assert len({rollout["reward"] for rollout in same["trajectories"]}) == 1
    assert (same["ruler"]["tied"], row["ruler"]["tied"]) == (True, False)


async def _says(request: JudgeRequest) -> dict[str, Any]:
    """Say Maybe of a rollout with `odd`, else Yes."""
    first = "Maybe" if "odd" in request.user else "Yes"
    top = [
        {"token": first, "logprob": math.log(0.8)},
        {
            "token": "No",
            "logprob": math.log(0.0001 if first == "Maybe" else 0.2),
        },
    ]
    return {
        "choices": [
            {
                "message": {"role": "assistant", "content": first},
                "finish_reason": "stop",
                "logprobs": {"content": [{**top[0], "top_logprobs": top}]},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    }


def test_one_without() -> None:
    """If one rollout of a group has no answer the group has no score, by the judge's reason; others go on."""
    settings = load_settings(model="m", ask="each", ledger=None)
    settings = replace(settings, judge=JudgeSettings("m", function=_says))
    groups = []
    for texts in (("fine", "odd", "good"), ("fine", "good")):
        rollouts = [{"messages": talk(text), "reward": 0.25} for text in texts]
        groups.append({"trajectories": rollouts})

    async def run() -> list[Any]:
        async with Scorer(settings) as scorer:
            return [(await scorer.score(group)).group for group in groups]

    first, second = asyncio.run(run())
    for rollout in first["trajectories"]:
        assert (rollout["reward"], rollout["ruler"]["status"]) == (
            None,
            "failed",
        )
        reason = rollout["ruler"]["reason"]
        assert "2 of 3 distinct rollouts have an answer" in reason
        assert "neither Yes nor No, but “Maybe”" in reason
    assert all(
        rollout["reward"] is not None for rollout in second["trajectories"]
    )


READS = ("auto", "text", "probability")
WAYS: dict[str, dict[str, tuple[str | None, ...]]] = {
    # what is shown → what is asked if it is read in each of these ways; None: no such way
    "chat": {
        "": ("group text", "group text", "each probability"),
        "group": ("group text", "group text", "group probability"),
        "each": ("each probability", None, "each probability"),
    },
    "typed": {
        "": ("group probability", None, "group probability"),
        "group": ("group probability", None, "group probability"),
        "each": ("each probability", None, "each probability"),
    },
}
MODELS = {
    "chat": {"openai/o3": "auto", "typesafe/jev": "chat"},
    "typed": {
        "typesafe/m": "auto",
        "openai/x": "decisions",
        "vllm/m": "systemone",
    },
}


@pytest.mark.parametrize("kind", WAYS)
def test_ways(kind: str, tmp_path: Path) -> None:
    """Of what is shown and how it is read each pair ends in one way, for a run and for a named judge, or is refused."""
    config = tmp_path / "ruler.toml"
    rows = [(ask, *pair) for ask, ways in WAYS[kind].items() for pair in zip(READS, ways, strict=True)]  # fmt: skip
    for (model, api), (ask, read, way) in itertools.product(
        MODELS[kind].items(), rows
    ):
        stated: Any = {"model": model, "read": read, "api": api}
        stated |= {"ask": ask} if ask else {}
        table = "".join(f'{name} = "{text}"\n' for name, text in stated.items())
        config.write_text(f"[judges.named]\n{table}")
        named: Any = {"model": ("named", "openai/gpt-5"), "config": str(config)}
        for options in (stated, named):
            if way is None:
                with pytest.raises(UsageError, match="writes no"):
                    load_settings(**options, ledger=None)
                continue
            first, *others = load_settings(**options, ledger=None).asks
            assert (f"{first.ask} {first.read}", first.typed) == (
                way,
                kind == "typed",
            )
            assert all(second.read == "text" for second in others)
