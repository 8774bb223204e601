"""The search: it finds words in transcripts, shows where, and says what it does not see."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ruler_cli.results.report import page as page_module
from tests.browser.conftest import Show
from tests.browser.truth import Truth
from tests.browser.view import View, shown
from tests.results.report.written import group, report, rollout, written

PART = "truth=0.5"
"""A word of some transcripts."""


def searched(view: View, words: str) -> View:
    """The table of a search, once the texts were searched."""
    view.page.evaluate(
        "words => { location.hash = link({ search: words }) }", words
    )
    view.until(
        "words => location.hash === link({ search: words })"
        " && !document.querySelector('p[role=status]').textContent.includes('searching')",
        words,
    )
    return view


def holding(truth: Truth, *words: str) -> set[str]:
    """The keys of the groups that hold all of these words in something that is searched."""
    keys = set()
    for judged, task, text in zip(
        truth.groups, truth.tasks, truth.texts, strict=True
    ):
        lines = [line for lines in text.rollouts for line in lines]
        explanations = [rollout.explanation for rollout in judged.rollouts]
        places = [
            judged.key,
            task,
            judged.reason,
            *explanations,
            *text.context,
            *lines,
            text.tools,
        ]
        everything = "\n".join(places).lower().replace('\\"', '"')
        if all(word in everything for word in words):
            keys.add(judged.key)
    return keys


@pytest.mark.smoke
def test_transcripts(show: Show, run: Path, truth: Truth) -> None:
    """A word of a call, a result, a turn, an explanation or a key is found; all words must be in one group."""
    view = show(run, "#groups", height=3_000)
    for words in (
        "get_order",
        'get_order "id"',
        "done: truth=0.5",
        "KETTLE parcel",
        "of 7.2",
        "task-12 get_order",
        "http 503",
        "nowhere-to-be-found",
    ):
        expected = holding(truth, *words.lower().split())
        assert set(searched(view, words).keys) == expected, words
    assert 0 < len(holding(truth, PART)) < len(truth.groups)


def test_left_out(
    show: Show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page without the texts of some groups says that these are not searched; their explanations are."""
    monkeypatch.setattr(page_module, "MOST_TEXT", 2_000)
    large = group("large", rollout("kettle " * 500), rollout("none"))
    small = group(
        "small", rollout("kettle"), rollout("none", explanation="parcel")
    )
    report(
        written(tmp_path / "in.jsonl", large, small), tmp_path / "report.html"
    )
    view = show(tmp_path / "report.html", "#groups")
    assert searched(view, "kettle").keys == ["small"]
    assert view.find("p[role=status]").inner_text() == (
        "1 of 2 groups; the transcripts of 1 group are not in this page and not searched"
    )
    assert set(searched(view, "said of 0.5").keys) == {"small", "large"}


def test_damaged_text(browser: Browser, tmp_path: Path) -> None:
    """A text that is damaged is counted as unread, and the others are searched."""
    lines = [
        group(f"g{i}", rollout(f"kettle {i}"), rollout("no")) for i in range(3)
    ]
    page, _, _ = report(
        written(tmp_path / "in.jsonl", *lines), tmp_path / "r.html"
    )
    text = (tmp_path / "r.html").read_text()
    at, size = page.data["rows"]["text"][1]
    block = page.blocks["texts"][at : at + size]
    (tmp_path / "r.html").write_text(
        text.replace(block, block[: size // 2] + "A" * (size - size // 2))
    )
    with shown(browser, tmp_path / "r.html") as view:
        view.open("#groups")
        assert set(searched(view, "kettle").keys) == {"g0", "g2"}
        status = view.find("p[role=status]").inner_text()
        assert status == "2 of 3 groups; those of 1 group cannot be read"
        view.clean()


def test_shared_words_and_snippets(show: Show, tmp_path: Path) -> None:
    """A line that all groups share is not searched; a hit is shown in the table, and marked in the group."""
    lines = []
    for i in range(3):
        record = group(
            f"g{i}", rollout(f"Brew {i}: TEAPOT" * (i > 0)), rollout("no")
        )
        for trajectory in record["trajectories"]:
            policy = {
                "role": "system",
                "content": "A teapot is never refunded.",
            }
            trajectory["messages"].insert(0, policy)
        lines.append(record)
    report(written(tmp_path / "in.jsonl", *lines), tmp_path / "r.html")
    view = searched(show(tmp_path / "r.html", "#groups"), "teapot")
    assert set(view.keys) == {"g1", "g2"}
    assert "“teapot” also in the text that all groups share" in view.text
    assert view.find(".cell.task mark").all_inner_texts() == ["TEAPOT"] * 2
    assert "Brew 1: " in view.find(".cell.task .hit").first.inner_text()
    view.find(".cell.key a").first.click()
    view.settled().find("button").filter(has_text="first “teapot”").click()
    assert view.page.evaluate("CSS.highlights.get('search').size") == 1
    assert not searched(view, "zebra").keys
    assert "No group matches" in view.text
