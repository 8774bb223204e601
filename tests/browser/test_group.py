"""A group's page: scores, explanations and turns are those of the file, beside one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import Show
from tests.browser.truth import Truth
from tests.browser.view import View
from tests.results.report import written


def ranks(scores: list[float | None]) -> list[str]:
    """Ranks in words: equal scores share the best of their ranks."""
    some = sorted((s for s in scores if s is not None), reverse=True)
    result = []
    for score in scores:
        rank = "no score"
        if score is not None:
            tied = ", tied" if some.count(score) > 1 else ""
            rank = f"rank {some.index(score) + 1}{tied}"
        result.append(rank)
    return result


@pytest.mark.smoke
def test_scores(view: View, truth: Truth) -> None:
    """Score, rank, label, explanation and flag of every rollout are those of the file; three stand in sight."""
    group = truth.groups[truth.place("task-2")]
    view.open("#group=task-2").settled()
    named = ranks([r.score for r in group.rollouts])
    best = sorted(range(4), key=lambda i: -(group.rollouts[i].score or 0))
    picks = view.find("nav.chips a").all_inner_texts()
    assert [text.split()[0] for text in picks] == [f"#{i + 1}" for i in best]
    assert view.find(".g-title").count() == 3
    seen = set()
    for i in best[:2], best[2:]:
        hash_ = view.page.evaluate(
            "i => groupHash(opened.rows, 2, opened.rows.ids[2][i])", i[-1]
        )
        view.go(hash_).settled()
        titles = view.find(".g-title h4").all_inner_texts()
        for title, about in zip(
            titles, view.find(".g-about").all(), strict=True
        ):
            at = int(title.split()[0][1:]) - 1
            rollout = group.rollouts[at]
            assert title == f"#{at + 1} {rollout.score:.3f} {named[at]}"
            text = about.inner_text()
            assert f"reward {rollout.label:.0f}" in text
            said = about.locator("blockquote").inner_text()
            assert said == rollout.explanation
            suspect = "Has text that addresses the judge." in text
            assert suspect == rollout.suspect == (at == 1)
            seen.add(at)
    assert seen == {*range(4)}


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("width", "columns"), [(1280, 3), (1024, 2), (390, 1), (1920, 3)]
)
def test_comparison_in_sight(
    show: Show, run: Path, truth: Truth, width: int, columns: int
) -> None:
    """Transcripts begin on the first screen, at most three columns, steps with one call in a row; no box scrolls."""
    view = show(run, "#group=task-2", width=width).settled()
    assert view.find(".g-title").count() == columns
    top = "e => e.getBoundingClientRect().top"
    first = view.find(".g-columns .g-turn").first.evaluate(top)
    assert first < (600 if width > 390 else 800)
    scrolls = """() => [...document.querySelectorAll("main *")]
      .filter(e => /auto|scroll/.test(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight + 1).length"""
    assert view.page.evaluate(scrolls) == 0
    # the same step of each rollout begins at one height
    tops = "row => [...row.children].map(cell => cell.firstElementChild?.getBoundingClientRect().top)"
    row = view.find(".g-columns .g-row:has(.g-turns)").first
    assert len(set(row.evaluate(tops)) - {None}) == 1
    shifted = """(() => { const s = ['user: hi', 'assistant: hm', 'call f: {}'].map(line => [line]);
      return turns.aligned([s, s.toSpliced(1, 1)]) })()"""
    assert view.page.evaluate(shifted) == [[0, 0], [1, None], [2, 1]]
    view.page.keyboard.press("ArrowRight")
    view.until("location.hash.includes('&id=')")
    assert view.settled().find(".g-chosen").count() == 1


def test_explanations_of_a_panel(show: Show, tmp_path: Path) -> None:
    """The explanations of a panel's judges stand below that of the rollout, and are searched."""
    judges = [
        {"judge": name, "score": score, "explanation": f"<b>{name}</b> kettle."}
        for name, score in (("one", 0.25), ("two", 0.75))
    ]
    own = {"explanation": judges[1]["explanation"], "judges": judges}
    line = written.group(
        "panel", written.rollout("a", 0.5, **own), written.rollout("b")
    )
    path = written.written(tmp_path / "in.jsonl", line)
    written.report(path, tmp_path / "report.html")
    view = show(tmp_path / "report.html", "#group=panel").settled()
    quotes = view.find(".g-about").first.locator("blockquote")
    assert quotes.all_inner_texts() == [
        "two 0.750 <b>two</b> kettle.",
        "one 0.250 <b>one</b> kettle.",
    ]
    view.go("#groups?search=kettle")
    view.until("document.querySelector('.none, .cell.task mark')")
    assert view.keys == ["panel"]


def test_failed_group(view: View, truth: Truth) -> None:
    """A group without scores shows its kind of error, its reason and its texts, and no number."""
    place = truth.place("task-5")
    group = truth.groups[place]
    view.open("#group=task-5").settled()
    notice = view.find(".g-notice.g-failed").inner_text()
    assert f"Not scored ({group.kind}):" in notice
    assert group.reason in notice
    assert "--retry-failed" in notice
    assert view.find(".g-title b").all_text_contents() == ["–"] * 3
    lines = truth.texts[place].rollouts
    picked = [
        int(title.split()[0][1:]) - 1
        for title in view.find(".g-title h4").all_inner_texts()
    ]
    common = view.find(".g-columns > .g-shared .g-turn").count()
    turns = view.find(".g-columns .g-turn").count()
    assert turns == sum(len(lines[i]) - common for i in picked) + common
