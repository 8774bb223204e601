"""Records of what made a score: digests in OUTPUT, texts by digest in the ledger and the summary."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ruler_cli
from ruler_cli import JudgeSettings, Scorer, ScoreSettings, Summary
from ruler_cli.judging.panel import Panel, PanelJudge
from ruler_cli.ledger.database import texts
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal
from ruler_cli.prompting import templates
from ruler_cli.results.record import Digests
from ruler_cli.runs.session import ScoringSession
from ruler_cli.types import Group, Line, Observer, Record
from tests.conftest import Ruler, group, read, rollout, write
from tests.judge_server import JudgeServer
from tests.virtual import virtually

KEY = "sk-0123456789abcdefghij"
SECRET = "a-key-of-no-known-form-1"


def sha(text: str) -> str:
    """The digest of a text, as `sha256sum | cut -c1-16` prints it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_group_names_what_made_its_score(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """The group's part has digests of rubric and parameters, the version, and the model in the replies."""
    own = {**group("own", 0.2, 0.8), "rubric": "Only colour counts."}
    write(tmp_path / "in.jsonl", [group("usual", 0.1, 0.9), own])
    command = [
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "openai/good",
        "--api-base",
        server.base,
    ]
    command += ["-p", "temperature=0.2", "--ledger", "ledger.sqlite"]
    for _ in range(2):  # asked, then cached
        done = ruler(*command)
        assert done.returncode == 0, done.stderr
        usual, other = (
            record["ruler"] for record in read(tmp_path / "out.jsonl")
        )
        params = '[{"judge":"openai/good","model":"openai/good","params":{"temperature":0.2}}]'
        assert usual["rubric"] == sha(templates.DEFAULT_RUBRIC)
        assert other["rubric"] == sha("Only colour counts.")
        assert usual["params"] == other["params"] == sha(params)
        assert usual["version"] == ruler_cli.__version__
        assert usual["served"] == ["good"]
    kept = texts(
        [tmp_path / "ledger.sqlite"],
        [usual["rubric"], other["rubric"], usual["params"], "0" * 16],
    )
    assert kept == {
        sha(text): text
        for text in (templates.DEFAULT_RUBRIC, "Only colour counts.", params)
    }
    write(
        tmp_path / "flat.jsonl",
        [{**rollout(truth), "group_id": "flat"} for truth in (0.3, 0.6)],
    )
    ruler(
        "score",
        "flat.jsonl",
        "flat.out.jsonl",
        *command[3:],
        "--rubric",
        "Be brief.",
    )
    assert [
        line["ruler"]["group"]["rubric"]
        for line in read(tmp_path / "flat.out.jsonl")
    ] == [sha("Be brief.")] * 2


def test_a_scorer_keeps_texts(server: JudgeServer, tmp_path: Path) -> None:
    """A Scorer's groups have the same fields, and its ledger the texts."""
    judge = JudgeSettings("openai/good", server.base, params={"temperature": 1})
    settings = ScoreSettings(judge=judge, ledger=tmp_path / "ledger.sqlite")

    async def main() -> tuple[dict[str, Any], Summary]:
        async with Scorer(settings) as scorer:
            judged = await scorer.score(group("one", 0.2, 0.8))
            return judged.fields, scorer.summary()

    fields, summary = asyncio.run(main())
    assert fields["rubric"] == sha(templates.DEFAULT_RUBRIC)
    assert summary.rubric_texts == {fields["rubric"]: templates.DEFAULT_RUBRIC}
    assert (
        texts([tmp_path / "ledger.sqlite"], [fields["params"]])
        == summary.params_texts
    )


def texts_of(
    settings: ScoreSettings, ledger: Ledger | None, *rubrics: str
) -> tuple[Summary, list[Digests]]:
    """The texts of a run over groups with these rubrics, and the digests of each group."""

    async def main() -> tuple[Summary, list[Digests]]:
        panel = Panel([PanelJudge(None)], StopSignal(), ledger=ledger)
        session = ScoringSession(settings, Observer(), panel)
        digests = []
        for rubric in rubrics:
            group = Group("g", (Record(Line(1, 0, b""), (), rubric=rubric),))
            digests.append(session.digests(group))
        return session.summary, digests

    return virtually(main)


def test_secrets_are_in_no_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A key is removed from rubric and parameters, wherever it stands, before their digest is taken."""
    monkeypatch.setenv("MY_KEY", SECRET)

    def kept(key: str, other: str) -> tuple[Summary, Digests]:
        more = {
            "metadata": [f"of {other}"],
            "note": f"http://me:{other}@host/",
            "max_tokens": 7,
        }
        params = {
            "aws_secret_access_key": key,
            "extra_headers": {"X-Auth-Token": other},
            **more,
        }
        judge = JudgeSettings(
            "openai/good", api_key_env="MY_KEY", params=params
        )
        rubric = f"Ask {other}; the key is {key}."
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            summary, (digests,) = texts_of(
                ScoreSettings(judge=judge), ledger, rubric
            )
        return summary, digests

    (one, digests), (_, others) = kept(KEY, SECRET), kept(KEY + "0", SECRET)
    text = "".join((*one.params_texts.values(), *one.rubric_texts.values()))
    assert KEY not in text
    assert SECRET not in text
    assert '"max_tokens":7' in text
    assert digests == others
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert digests["rubric"].encode() in files
    assert KEY.encode() not in files
    assert SECRET.encode() not in files


@pytest.mark.parametrize(
    "param",
    [
        {
            "extra_headers": {
                "Cookie": "session=hunter2",
                "helicone-auth": "Bearer hunter2",
            }
        },
        {"default_headers": {"X-Anything": "hunter2"}},
        {
            "extra_body": {
                "accessToken": "hunter2",
                "clientSecret": "hunter2",
                "passphrase": "hunter2",
            }
        },
        {"proxy_auth": ["me", "hunter2"]},
        {"metadata": '{"kind": "x", "api_key": "hunter2"}'},
        {
            "bearer": "hunter2",
            "jwt": "hunter2",
            "sig": ["hunter2"],
            "pwd": "hunter2",
        },
        {
            "note": "Endpoint=sb://h/;SharedAccessKeyName=me;SharedAccessKey=hunter2hunter2="
        },
        {"note": "Server=h;AccountKey=hunter2+hunter2/x==;Sort=a"},
        {
            "note": [
                "https://h/p?se=2&sig=hunter2hunter2",
                "as Bearer hunter2hunter2",
            ]
        },
        {"extra_query": {"sig": "hunter2"}, "headers": {"X": "hunter2"}},
    ],
)
def test_secrets_by_name(param: dict[str, object]) -> None:
    """The value of a header, a cookie or a parameter with the name of a secret is in no text."""
    judge = JudgeSettings("openai/good", params={**param, "max_tokens": 7})
    summary, _ = texts_of(ScoreSettings(judge=judge), None, "")
    (text,) = summary.params_texts.values()
    assert "hunter2" not in text
    assert next(iter(param)) in text
    assert '"max_tokens":7' in text


def test_a_summary_has_few_texts(tmp_path: Path) -> None:
    """The summary has the texts of the first 20 rubrics and counts the groups with others; all are kept."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        rubrics = [f"rubric {number}" for number in [*range(50), *range(50)]]
        summary, _ = texts_of(ScoreSettings(), ledger, *rubrics)
    assert list(summary.rubric_texts.values()) == [
        f"rubric {number}" for number in range(20)
    ]
    assert summary.more_rubrics == 60
    assert (
        len(
            texts(
                [tmp_path / "ledger.sqlite"],
                [sha(f"rubric {number}") for number in range(50)],
            )
        )
        == 50
    )


def test_texts_of_no_ledger(tmp_path: Path) -> None:
    """Ledgers that are absent, old, damaged or another program's have no texts, and are no error."""
    old, damaged = tmp_path / "old.sqlite", tmp_path / "damaged.sqlite"
    foreign = tmp_path / "foreign.sqlite"
    Ledger(old).close()
    damaged.write_bytes(b"SQLite format 3\0" + b"?" * 5000)
    for path in (tmp_path / "absent.sqlite", old, damaged, tmp_path):
        assert texts([path], [sha("text")]) == {}
    with closing(sqlite3.connect(foreign)) as file, file:
        file.execute(
            "CREATE TABLE texts (digest TEXT PRIMARY KEY, kind TEXT, text)"
        )
        file.executemany(
            "INSERT INTO texts VALUES (?, 'rubric', ?)",
            [(sha("a"), "b"), (sha("c"), 7)],
        )
    assert texts([foreign], [sha("a"), sha("c")]) == {}


def test_texts_are_cleared(ruler: Ruler, tmp_path: Path) -> None:
    """Texts leave a ledger with its replies, and come again with the next run."""
    path = tmp_path / "ledger.sqlite"
    for _ in range(2):
        with Ledger(path) as ledger:
            ledger.add_text(sha("text"), "rubric", "text")
        assert texts([path], [sha("text")]) == {sha("text"): "text"}
        with Ledger(path) as ledger:
            ledger.clear()
        assert texts([path], [sha("text")]) == {}


def test_parameters_that_are_no_json() -> None:
    """A parameter that is not a JSON value, given from Python, stands as the name of its type."""
    judge = JudgeSettings(params={"b": object(), "a": float("nan")})
    summary, _ = texts_of(ScoreSettings(judge=judge), None)
    (text,) = summary.params_texts.values()
    assert json.loads(text)[0]["params"]["b"] == "object"
