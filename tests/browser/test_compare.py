"""The page of two files: both judges' figures, both scores of each group, and both explanations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.browser.attacks import NAME, records
from tests.browser.axe import assert_accessible
from tests.browser.conftest import Show
from tests.browser.reports import ruler, write
from tests.browser.test_hostile import ATTACKS, harmless
from tests.browser.view import View


def pages(folder: Path, first: Path, second: Path) -> Path:
    """The page of two files."""
    ruler(
        "compare",
        first,
        second,
        "-o",
        folder / "compare.html",
        "--max-groups",
        "10000",
        folder=folder,
    )
    return folder / "compare.html"


@pytest.fixture(scope="session")
def files(
    scored: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The scored run, and the same rollouts scored by another judge, in another order."""
    folder = tmp_path_factory.mktemp("compare")
    rescored = folder / "other.jsonl"
    ruler(
        "score",
        scored,
        rescored,
        "-m",
        "simulated",
        "-p",
        "seed=3",
        "-p",
        "noise=0.3",
        folder=folder,
    )
    lines = [orjson.loads(line) for line in rescored.read_bytes().splitlines()]
    for record in lines:
        for i, trajectory in enumerate(record["trajectories"]):
            trajectory["ruler"]["explanation"] = (
                f"The other judge on {record['group_id']}, {i}"
            )
    return scored, write(rescored, lines[::-1])


@pytest.fixture(scope="session")
def compared(files: tuple[Path, Path]) -> Path:
    """The page of both."""
    return pages(files[1].parent, *files)


@pytest.fixture(scope="session")
def measured(files: tuple[Path, Path]) -> dict[str, Any]:
    """The figures of `ruler compare A B --json`."""
    done = ruler("compare", *files, "--json", folder=files[1].parent)
    return dict(orjson.loads(done.stdout))


@pytest.fixture(scope="session")
def truth(files: tuple[Path, Path]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Both scores of each rollout, by group."""
    by_file = []
    for path in files:
        lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        scores = {
            r["group_id"]: [t["ruler"].get("score") for t in r["trajectories"]]
            for r in lines
        }
        by_file.append(scores)
    return {key: (by_file[0][key], by_file[1][key]) for key in by_file[0]}


@pytest.mark.smoke
def test_overview(show: Show, compared: Path, measured: dict[str, Any]) -> None:
    """The overview has both judges' figures side by side and the groups on which they differ most."""
    view = show(compared)
    assert_accessible(view)
    difference = measured["difference"]
    heading = f"{'A' if difference['value'] > 0 else 'B'} is {abs(round(100 * difference['value']))} point"
    verdict = view.find("#overview-head").inner_text()
    assert verdict.startswith(heading)
    chance = "beyond" if difference["told_apart"] else "within"
    groups = f"{difference['groups']} groups, {chance} chance"
    assert verdict.endswith(f"better in accuracy on {groups}")
    cells = "all => all.map(tr => [...tr.cells].map(cell => cell.textContent))"
    rows = {
        name: values[:2]
        for name, *values in view.find(".sides tbody tr").evaluate_all(cells)
    }
    rollouts = (
        f"54 groups, {measured['rollouts']} rollouts that both judges scored"
    )
    opening = f"{rollouts} · A and B differ in parameters, passes"
    assert view.find(".judged").inner_text() == opening
    assert rows["file"] == ["scored.jsonl", "other.jsonl"]
    assert "parameters" not in rows  # no ledger tells what is set
    for words, number in zip(rows["groups"], (54, 60), strict=True):
        assert words.startswith(f"{number} of 60 scored")
    assert rows["mean score"] == [f"{mean:.3f}" for mean in measured["means"]]
    text = view.find(".findings").inner_text()
    order = measured["order"]
    assert f"of {order['pairs']} pairs in order" in text
    assert (
        f"{order['tied']} tied ({order['agreement']:.1%}, ties count half"
        in text
    )
    assert "6 groups without scores of both" in text
    keys = view.find(".differing .group").all_text_contents()
    assert keys[:10] == [group["key"] for group in measured["differ"]]
    view.find(".differing .group a").first.click()
    view.at(f"#group={keys[0]}")


def test_table(
    show: Show, compared: Path, truth: dict[str, tuple[list[Any], list[Any]]]
) -> None:
    """The table has the most different groups first, both scores in a cell, and filters for them."""
    view = show(compared, "#groups", height=3_000)
    cells = "all => all.map(cell => parseInt(cell.textContent) || 0)"
    shares = view.find(".body .cell.order").evaluate_all(cells)
    far = {
        key for key, share in zip(view.keys, shares, strict=True) if share >= 25
    }
    row = view.find(".body [role=row]").first
    name = row.locator("svg.pairs").get_attribute("aria-label") or ""
    a, b = truth[view.keys[0]]
    best = max(range(len(a)), key=lambda i: a[i])
    assert name.startswith(
        f"scores by A and B: A {a[best]:.2f}, B {b[best]:.2f}"
    )
    assert row.locator("line.pair").count() == len(a)
    view.go("#groups?where=order&sort=-order")
    assert set(view.keys) == far
    view.go("#groups?where=only_b")
    assert set(view.keys) == {
        key for key, both in truth.items() if both[0][0] is None
    }
    view.go("#groups?order=0.5..&sort=-distance")
    held = view.find(".chip.held").inner_text()
    assert "share of pairs in another order from 50%" in held
    assert view.count == sum(share >= 50 for share in shares)


def test_group(
    show: Show, compared: Path, truth: dict[str, tuple[list[Any], list[Any]]]
) -> None:
    """A group's page has both scores and both explanations of each rollout, and its text once."""
    view = show(compared, "#group=task-2", width=1280).settled()
    assert_accessible(view)
    a, b = truth["task-2"]
    assert view.find("nav.chips a").count() == len(a)
    for title, about in zip(
        view.find(".g-title h4").all_inner_texts(),
        view.find(".g-about").all(),
        strict=True,
    ):
        i = int(title.split()[0][1:]) - 1
        assert f"A {a[i]:.3f}, B {b[i]:.3f}" in title
        first, second = about.locator("blockquote").all_inner_texts()
        assert f"Of 2.{i}: " in first
        assert second.endswith(f"The other judge on task-2, {i}")
    meta = view.find(".g-meta").all_inner_texts()
    assert [line[:1] for line in meta[:2]] == ["A", "B"]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two files with all attacks in all places, one of them under a name that is an attack."""
    folder = tmp_path_factory.mktemp("hostile_pair")
    lines = list(records(ATTACKS))
    first, second = folder / NAME, folder / "other.jsonl"
    first.write_text("".join(json.dumps(record) + "\n" for record in lines))
    for record in lines:
        for i, trajectory in enumerate(record["trajectories"]):
            if "score" in trajectory.get("ruler", {}):
                trajectory["ruler"]["score"] = i / 7
    second.write_text("".join(json.dumps(record) + "\n" for record in lines))
    return pages(folder, first, second)


def test_hostile(show: Show, hostile: Path) -> None:
    """No text of either file runs or becomes an element, in any view."""
    view: View = show(hostile, height=2_000)
    harmless(view)
    for hash_ in (
        "#groups",
        "#groups?sort=key",
        "#groups?sort=-distance",
        "#groups?where=order",
    ):
        view.go(hash_)
        harmless(view)
    hashes = view.page.evaluate(
        "opened.rows.key.map((_, i) => groupHash(opened.rows, i))"
    )
    for hash_ in hashes[:: max(1, len(hashes) // 12)]:
        view.go(hash_)
        view.settled()
        harmless(view)
