"""A group's page: the judge's view, its scores, and the places where rollouts diverge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show
from tests.browser.truth import Truth
from tests.browser.view import View
from tests.results.report import written

ROLLOUT = "section.g-rollout"


def ranks(scores: list[float | None]) -> list[str]:
    """Ranks in words: equal scores share the best of their ranks."""
    some = sorted((s for s in scores if s is not None), reverse=True)
    result = [None if s is None else some.index(s) + 1 for s in scores]
    return [
        "no score"
        if rank is None
        else f"rank {rank}{', tied' if result.count(rank) > 1 else ''}"
        for rank in result
    ]


def opened(view: View, key: str, rest: str = "") -> View:
    """The group's page with all its messages in the document."""
    return built(view.open(f"#group={key}{rest}"))


def built(view: View) -> View:
    """Wait until each message of the shown rollouts is in the document."""
    view.find(".g-turns").last.wait_for(state="attached")
    view.settled()
    return view


@pytest.mark.smoke
def test_scores(view: View, truth: Truth) -> None:
    """Score, rank, label, spread, explanation and flag of every rollout are those of the file."""
    place = truth.place("task-2")
    group = truth.groups[place]
    opened(view, "task-2")
    shown = view.find(ROLLOUT)
    assert shown.count() == len(group.rollouts)
    named = ranks([r.score for r in group.rollouts])
    for i, rollout in enumerate(group.rollouts):
        one = view.find(f"{ROLLOUT}[data-rollout='{i + 1}']")
        head, about = (
            one.locator("h4").inner_text(),
            one.locator(".g-about").inner_text(),
        )
        assert head.split("\n")[0].startswith(f"#{i + 1}")
        assert named[i] in head
        assert float(one.locator("h4 b").inner_text()) == pytest.approx(
            rollout.score, abs=0.00051
        )
        assert f"reward {rollout.label:.0f}" in about
        assert f"spread {rollout.spread:.3f}".rstrip("0") in about
        assert one.locator("blockquote").inner_text() == rollout.explanation
        assert (
            ("Has text that addresses the judge." in about)
            == rollout.suspect
            == (i == 1)
        )
    rows = view.find(".g-scroll tbody tr").evaluate_all(
        "all => all.map(tr => [...tr.cells].map(c => c.textContent))"
    )
    best = sorted(range(4), key=lambda i: -(group.rollouts[i].score or 0))
    assert [row[0] for row in rows] == [f"#{i + 1}" for i in best]
    assert [int(row[2].rstrip("=")) for row in rows] == [
        int(named[i].split()[1].rstrip(",")) for i in best
    ]
    assert [float(row[3]) for row in rows] == [
        group.rollouts[i].score for i in best
    ]


def test_explanations_of_a_panel(show: Show, tmp_path: Path) -> None:
    """The explanations of a panel's judges stand side by side, one above the other on a phone, and are searched."""
    judges = [
        {
            "judge": name,
            "score": score,
            "explanation": f"<b>{name}</b> kettle {name}.",
        }
        for name, score in (("one", 0.25), ("two", 0.75))
    ]
    own = {"explanation": judges[1]["explanation"], "judges": judges}
    line = written.group(
        "panel", written.rollout("a", 0.5, **own), written.rollout("b")
    )
    written.report(
        written.written(tmp_path / "in.jsonl", line), tmp_path / "report.html"
    )
    tops = "all => new Set(all.map(one => Math.round(one.getBoundingClientRect().top))).size"
    for width, heights in ((1280, 1), (390, 2)):
        view = show(
            tmp_path / "report.html", "#group=panel&view=one", width=width
        )
        said = view.settled().find("blockquote")
        assert said.all_inner_texts() == [own["explanation"] for own in judges]
        heads = "all => all.map(one => one.dataset.judge)"
        assert said.evaluate_all(heads) == ["one 0.250", "two 0.750"]
        assert said.evaluate_all(tops) == heights
    view.go("#groups?search=kettle%20one")
    view.until(
        "!document.querySelector('p[role=status]').textContent.includes('sea')"
    )
    assert view.keys == ["panel"]


def test_failed_group(view: View, truth: Truth) -> None:
    """A group without scores shows its kind of error, its reason and its texts, and no number."""
    key = "task-5"
    group = truth.groups[truth.place(key)]
    opened(view, key)
    notice = view.find(".g-notice.g-failed")
    assert f"Not scored ({group.kind}):" in notice.inner_text()
    assert group.reason in notice.inner_text()
    assert "--retry-failed" in notice.inner_text()
    assert view.find(f"{ROLLOUT} h4 b").all_text_contents() == ["–"] * 4
    assert view.find(f"{ROLLOUT} .g-turn").count() == sum(
        map(len, truth.texts[truth.place(key)].rollouts)
    )
    assert "no score" in view.find(ROLLOUT).first.inner_text()
