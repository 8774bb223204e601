"""The report as one HTML file: its contents, its limits, and its safety."""

from __future__ import annotations

import base64
import json
import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.report import page as page_module
from ruler_cli.results.report.label import LABEL_SCRIPTS, LABEL_STYLES
from ruler_cli.results.report.page import (
    COMPARE_SCRIPTS,
    COMPARE_STYLES,
    SCRIPTS,
    TREND_SCRIPTS,
    TREND_STYLES,
    web_files,
)
from tests.conftest import Ruler
from tests.results.report.written import (
    MADE,
    Page,
    comparison,
    group,
    report,
    rollout,
    written,
)
from tests.values import NASTY

MARKER = "Qx7MarkerOfForeignText"
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "<img src=x onerror=alert(1)>",
    "a\x00b",
    "\ud800",
    "{{ 7 * 7 }}{% raw %}",
    *NASTY,
)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Path of the page."""
    return tmp_path / "report.html"


def many(count: int) -> list[dict[str, Any]]:
    """Groups, every fifth of them failed."""
    failed: dict[str, Any] = {
        "status": "failed",
        "kind": "reply",
        "reason": "no JSON",
        "score": None,
    }
    notes: list[dict[str, Any]] = [
        failed if i % 5 == 2 else {} for i in range(count)
    ]
    return [
        group(
            f"g{i}",
            *(
                rollout(f"g{i} {n}", **{"score": n / 4} | annotation)
                for n in range(3)
            ),
            **own(annotation),
        )
        for i, annotation in enumerate(notes)
    ]


def own(annotation: dict[str, Any]) -> dict[str, Any]:
    """The group's own part of an annotation that all of its rollouts have."""
    return {
        name: annotation[name]
        for name in ("status", "kind", "reason")
        if name in annotation
    }


def test_contents(tmp_path: Path, target: Path) -> None:
    """Every group has a row, its explanations and the lines that the judge read."""
    turns = [rollout("one", 0.1), rollout("two", 0.9), rollout("one", 0.1)]
    source = written(tmp_path / "in.jsonl", group("a"), group("b", *turns))
    page, description, problems = report(source, target)
    data, rows = page.data, page.data["rows"]
    assert (data["version"], data["source"]) == (1, "in.jsonl")
    assert data["made"] == "2026-11-21T14:00:00Z"
    assert data["figures"]["rollouts"]["all"] == 5
    assert {len(column) for column in rows.values()} == {2}
    assert rows["key"] == ["a", "b"]
    assert rows["task"] == ["Book a seat."] * 2
    assert rows["scores"][1] == [0.1, 0.9, 0.1]
    assert page.explanations[0] == ["said of 0.2", "said of 0.8"]
    text = page.group(1)
    assert text["context"] == ['user: "Book a seat."']
    shown = [[text["strings"][i] for i in lines] for lines in text["lines"]]
    assert shown == [[f'assistant: "{word}"'] for word in ("one", "two", "one")]
    assert (data["left_out"], description[:3], problems) == ("", (2, 2, 2), [])


def test_ids(tmp_path: Path, target: Path) -> None:
    """A rollout has the same id in the page of another judge, in another order, and in a page of two files."""
    texts = ("one", "two", "\ud800", "one"), ("two", "one", "one", "\ud800")
    files = []
    for i, order in enumerate(texts):
        lines = (
            group("a", *(rollout(text, i / 4) for text in order)),
            group("\ud800" * 400),
        )
        files.append(written(tmp_path / f"{i}.jsonl", *lines))
    first, second = (
        report(file, target)[0].data["rows"]["ids"] for file in files
    )
    assert all(
        re.fullmatch("[0-9a-f]{12}", name) for ids in first for name in ids
    )
    assert first[0][0] == first[0][3]
    assert len({*first[0], *first[1]}) == 5
    assert [first[0][i] for i in (1, 0, 3, 2)] == second[0]
    both, _, _ = comparison(files[0], files[1], tmp_path / "both.html")
    assert both.data["rows"]["ids"] == first


def test_same_lists_as_the_terminal(
    ruler: Ruler, tmp_path: Path, target: Path
) -> None:
    """The page names the groups of `ruler report`, with the same reasons."""
    wrong = group(
        "wrong",
        rollout("one", 0.9, independent_reward=0),
        rollout("two", 0.1, independent_reward=1),
    )
    source = written(tmp_path / "in.jsonl", *many(12), wrong)
    page, _, _ = report(source, target)
    reported = json.loads(ruler("report", "in.jsonl", "--json").stdout)
    assert page.data["worst"] == reported["worst"] != []


def test_content_policy(tmp_path: Path, target: Path) -> None:
    """The policy has the hash of each script in the page, and allows no other source."""
    page, _, _ = report(written(tmp_path / "in.jsonl", group("a")), target)
    rules = dict(rule.strip().split(" ", 1) for rule in page.policy.split(";"))
    hashes = {
        f"'sha256-{base64.b64encode(sha256(s.encode()).digest()).decode()}'"
        for s in page.scripts
    }
    assert page.scripts == web_files(SCRIPTS)
    assert set(rules.pop("script-src").split()) == hashes
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_foreign_text(tmp_path: Path, target: Path) -> None:
    """Keys, messages, explanations, reasons and judges do not occur in the source of the page."""
    turns = [f"{MARKER} {text}" for text in HOSTILE]
    lines = [
        group(
            text,
            rollout(text, 0.3, explanation=text, slots=[0.0]),
            rollout(
                [{"type": "text", "text": text}],
                None,
                status="failed",
                kind=text,
                reason=text,
            ),
            judge=text,
            kind=text,
        )
        for text in turns
    ]
    lines.append(
        group(
            "f",
            rollout(MARKER, None, status="failed", kind="reply", reason=MARKER),
        )
    )
    page, _, _ = report(written(tmp_path / "in.jsonl", *lines), target)
    assert MARKER not in page.text
    assert MARKER in json.dumps(page.data)
    assert MARKER in json.dumps(page.explanations)
    assert all(
        MARKER in json.dumps(page.group(row)) for row in range(len(lines))
    )
    for name in ("data", "said", "texts"):
        assert re.fullmatch(r"[A-Za-z0-9+/=\n]*", page.blocks[name])


def test_source_date_epoch(ruler: Ruler, tmp_path: Path, target: Path) -> None:
    """SOURCE_DATE_EPOCH is the time of the page; a value that is no time is ignored."""
    written(tmp_path / "in.jsonl", group("a"))
    for epoch, made in (
        ("86400", "1970-01-02T00:00:00Z"),
        ("x", "20"),
        ("9" * 99, "20"),
    ):
        ruler(
            "report", "in.jsonl", "-o", "report.html", SOURCE_DATE_EPOCH=epoch
        )
        assert Page(target.read_text()).data["made"].startswith(made)


def test_max_groups(tmp_path: Path, target: Path) -> None:
    """With --max-groups the highest ranked groups stay, in their order, and the page names the others."""
    source = written(tmp_path / "in.jsonl", *many(30))
    for most in (1, 4, 30):
        page, description, _ = report(source, target, most=most)
        rows = page.data["rows"]
        assert rows["ordinal"] == sorted(rows["ordinal"])
        assert sorted(rows["telling"]) == list(range(most))
        assert rows["status"][rows["telling"].index(0)] == "failed"
        assert rows["key"] == [f"g{number - 1}" for number in rows["ordinal"]]
        assert page.data["figures"]["groups"]["all"] == 30
        assert description[:3] == (30, most, most)
        lines = [page.group(row)["strings"][0] for row in range(most)]
        assert lines == [f'assistant: "{key} 0"' for key in rows["key"]]
        left = (
            "With --max-groups 30 it has all of them." in page.data["left_out"]
        )
        assert left is (most < 30)


def test_limit_of_texts(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has the texts of the highest ranked groups, and states their number."""
    monkeypatch.setattr(page_module, "MOST_TEXTS", 4_000)
    page, description, _ = report(
        written(tmp_path / "in.jsonl", *many(30)), target
    )
    rows = page.data["rows"]
    here = {
        rank
        for rank, place in zip(rows["telling"], rows["text"], strict=True)
        if place
    }
    assert 0 < len(here) < 30
    assert here == set(range(len(here)))
    assert len(page.blocks["texts"]) <= 4_000
    assert description.texts == len(here)
    left = page.data["left_out"]
    assert f"texts of {len(here)} of 30 groups" in left
    assert "--group KEY shows any group in full" in left


def test_odd_values(tmp_path: Path, target: Path) -> None:
    """NaN, Infinity, huge integers and deep nesting in a scored file are null or text in the page."""
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    odd = rollout(
        deep,
        float("nan"),
        spread=float("inf"),
        slots=[float("nan")],
        judges={"a": 10**400},
    )
    mine = {
        "passes": 10**40,
        "usage": {"prompt_tokens": 1e40},
        "cost_usd": 1e49,
        "judged_at": "9999-12-31",
    }
    lines = [group("a", odd, rollout("b", 1.0), **mine)]
    page, _, problems = report(written(tmp_path / "in.jsonl", *lines), target)
    assert not problems
    assert page.data["rows"]["scores"] == [[None, 1.0]]
    assert "NaN" not in json.dumps(
        [page.data, page.group(0), page.explanations]
    )


def test_without_scripts(tmp_path: Path, target: Path) -> None:
    """Without scripts the page shows a table of the figures, with the file's name as text."""
    mine = {
        "cost_usd": 0.25,
        "latency_s": 2.0,
        "usage": {"prompt_tokens": 1_200},
        "reliability": 0.8,
    }
    asked = group(
        "a", rollout("x", 0.2, suspect=True), rollout("y", 0.7), **mine
    )
    never = {
        "group_id": "b",
        "trajectories": [{"messages": rollout("z")["messages"]}],
    }
    source = written(
        tmp_path / "<b>a&b\u202e\udcff.jsonl", *many(10), asked, never
    )
    page, _, _ = report(source, target, most=5)
    assert "noscript" in page.text
    words = " ".join(" ".join(page.words).split())
    for figure in (
        f"{MADE:%Y-%m-%d}",
        "<b>a&b\ufffd\ufffd.jsonl",
        "The table has 5 of 12 groups",
        "groups 9 of 12 scored (none tied), 2 failed, 1 not judged",
        "failed 2 reply",
        "1 suspect (text that addresses the judge)",
        "cost $0.25 ($0.25 a group, known for 1 group), 1.2k prompt + 0 completion tokens",
        "reliability 0.80",
    ):
        assert figure in words
    assert "<b>a" not in page.text
    assert "\u202e" not in page.text


def test_scripts_and_styles() -> None:
    """Each of the folder's own files is in a page, and no script can end its element."""
    folder = files("ruler_cli.results.report") / "web"
    names = {
        path.name
        for path in folder.iterdir()
        if path.name.endswith((".js", ".css"))
    }
    scripts = {*COMPARE_SCRIPTS, *TREND_SCRIPTS, *LABEL_SCRIPTS}
    styles = {*COMPARE_STYLES, *TREND_STYLES, *LABEL_STYLES}
    assert names == {*scripts, *styles} - {"vendor/lib.js"}
    assert not [
        s
        for s in web_files(scripts)
        if re.search(r"</script|<!--|\r", s, re.IGNORECASE)
    ]
