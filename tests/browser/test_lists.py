"""Filters of the table: fields of the records, and words, the worst first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ruler_cli.results.record import GroupRecord
from tests.browser.attacks import RESTING, RUNNING
from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write
from tests.browser.test_hostile import harmless
from tests.browser.truth import Truth

MODELS = ("wren", "heron", "wren")


@pytest.fixture(scope="session")
def fielded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored file whose records and rollouts have fields."""
    folder = tmp_path_factory.mktemp("fields")
    records = []
    for i in range(12):
        record = plain(f"g{i}", 0.2, 0.8, 0.5)
        record |= {
            "metadata": {"step": i // 4, "tags": ["new", "it's"][: i % 3]}
        }
        for trajectory, model in zip(
            record["trajectories"], MODELS, strict=True
        ):
            trajectory["metadata"] = {"model": model if i % 2 else "wren"}
        records.append(record)
    scored = write(folder / "scored.jsonl", records)
    report_of(scored, folder)
    return scored


def page_of(scored: Path) -> Path:
    """The page of a scored file."""
    return scored.with_suffix(".html")


@pytest.mark.smoke
def test_fields(show: Show, fielded: Path) -> None:
    """A field has its values with the groups of each; those chosen must all hold, and stand in the address."""
    view = show(page_of(fielded), "#groups")
    view.find("#fields summary").click()
    listed = view.find(".fields select")
    choices = {
        select.locator("..").locator("span").inner_text(): select.locator(
            "option"
        ).all_inner_texts()
        for select in listed.all()
    }
    assert choices == {
        "metadata.step": ["any", "0 (4)", "1 (4)", "2 (4)"],
        "metadata.model": ["any", "heron (6)", "wren (12)"],
    }
    view.page.get_by_label("metadata.model").select_option("heron")
    view.at("#groups?field.metadata.model=heron")
    view.page.get_by_label("metadata.step").select_option("1")
    view.at("#groups?field.metadata.model=heron&field.metadata.step=1")
    assert set(view.keys) == {"g5", "g7"}
    again = show(page_of(fielded), view.hash)
    assert again.keys == view.keys
    again.page.get_by_label("metadata.model").select_option("any")
    again.at("#groups?field.metadata.step=1")
    assert set(again.keys) == {"g4", "g5", "g6", "g7"}


def test_hostile_fields(show: Show, tmp_path: Path) -> None:
    """Names and values of fields that are attacks are text, and filter."""
    texts = [
        text.encode(errors="replace").decode()[:70]
        for text in (*RUNNING, *RESTING)
    ]
    records = []
    for i in range(20):
        record = plain(f"g{i}", 0.2, 0.8)
        record["metadata"] = {
            text[:60]: texts[(i // 2 + at) % 20]
            for at, text in enumerate(texts[:20])
        }
        records.append(record)
    view = show(
        report_of(write(tmp_path / "s.jsonl", records), tmp_path), "#groups"
    )
    view.find("#fields summary").click()
    harmless(view)
    count = view.page.evaluate("opened.rows.fields.length")
    assert count > 10
    for at in range(count):
        hash_ = view.page.evaluate(
            "at => link({ field: [[opened.rows.fields[at].path, opened.rows.fields[at].values[1]]] })",
            at,
        )
        view.go(hash_)
        assert view.count in (2, 20), hash_
        harmless(view)


def contradicted(group: GroupRecord, way: str, middle: float = 0.5) -> float:
    """The distance between a rollout that passed and a higher one that failed, if either is at the end of its group."""
    labelled = [
        (r.score, r.label) for r in group.rollouts if r.score is not None
    ]
    passed = [score for score, label in labelled if (label or 0) > middle]
    failed = [
        score
        for score, label in labelled
        if label is not None and label <= middle
    ]
    if not passed or not failed:
        return 0.0
    ends = {
        "flawed": min(passed) <= min(failed),
        "near": max(failed) >= max(passed),
    }
    return max(0.0, max(failed) - min(passed)) if ends[way] else 0.0


@pytest.mark.parametrize("way", ["flawed", "near"])
def test_contradictions(show: Show, run: Path, truth: Truth, way: str) -> None:
    """Flawed positives passed with the lowest score, near misses failed with the highest; the widest gap first."""
    view = show(run, "#groups", height=3_000)
    title = {"flawed": "flawed positives", "near": "near misses"}[way]
    gaps = [contradicted(group, way) for group in truth.groups]
    some = [i for i, gap in enumerate(gaps) if gap > 0]
    order = sorted(some, key=lambda i: (-gaps[i], truth.telling[i]))
    button = view.find(".chip").filter(has_text=title)
    assert button.inner_text() == f"{title} {len(some)}"
    button.click()
    view.at(f"#groups?where={way}&sort=-{way}")
    assert view.keys == [truth.groups[i].key for i in order]
    assert len(some) > 2
    # a second click takes it back; states exclude one another, other words add up
    button.click()
    view.at("#groups")
    for word in ("tied", "live"):
        view.find(".chip").filter(has_text=re.compile(f"^{word}")).click()
    view.at("#groups?where=live")
    button.click()
    view.at(f"#groups?where=live&where={way}&sort=-{way}")
