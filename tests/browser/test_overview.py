"""The overview: the figures of the command, and charts whose points lead to their groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, ruler, write
from tests.browser.truth import Truth, ranges_of, rollouts, shown_in
from tests.browser.view import View

CHARTS = ["scores", "spread", "labels", "slots", "lengths", "reliability", "failures"]
_WALK = """async links => {
  const found = [];
  for (const link of links) {
    await new Promise(drawn => {
      addEventListener("hashchange", () => requestAnimationFrame(drawn), { once: true });
      location.hash = link;
    });
    found.push(document.querySelector("p[role=status]").textContent);
  }
  return found;
}"""


def points(view: View, chart: str = "") -> list[tuple[str, str]]:
    """The hash and the name of each point."""
    result = view.find(f"{chart and f'#chart-{chart} '}.plot svg a")
    linked = (
        "all => all.map(a => a.getAttribute('href') ?? a.getAttribute('xlink:href'))"
    )
    named = "all => all.map(a => a.querySelector('[aria-label]').getAttribute('aria-label'))"
    return list(
        zip(result.evaluate_all(linked), result.evaluate_all(named), strict=True)
    )


def numbers(view: View, chart: str) -> list[list[str]]:
    """The rows of the table under a chart."""
    rows = "all => all.map(tr => [...tr.cells].map(td => td.textContent))"
    return list(view.find(f"#chart-{chart} table tbody tr").evaluate_all(rows))


def whole(text: str) -> int:
    """A number with commas."""
    return int(text.replace(",", ""))


@pytest.mark.smoke
def test_tiles(view: View, figures: dict[str, Any]) -> None:
    """The heading and every tile show the figures of `ruler report --json`."""
    view.open()
    groups, usage = figures["groups"], figures["usage"]
    assert (
        view.find("#overview-head").inner_text() == "54 of 60 groups scored, 6 failed"
    )
    assert (groups["scored"], groups["all"], groups["failed"]) == (54, 60, 6)
    tiles = view.find(".tile")
    values = tiles.locator(".value").all_text_contents()
    output = dict(zip(tiles.locator(".name").all_text_contents(), values, strict=True))
    assert output == {
        name: f"{groups[name]:,}" for name in ("failed", "live", "tied")
    } | {
        "mean score": f"{figures['scores']['mean']:.2f}",
        "reliability": f"{figures['reliability']['median']:.2f}",
        "agreement": f"{figures['against_label']['agreement']:.0%}",
        "suspect": f"{figures['rollouts']['suspect']:,}",
        "cost": f"${figures['cost_usd']:.2g}",
    }
    judged = view.find(".judged").inner_text()
    tokens = f"{(usage['prompt_tokens'] + usage['completion_tokens']) / 1e3:.0f}k"
    assert judged.startswith("simulated · 2026-11-21 02:00 to 02:59 UTC · ")
    assert f"{usage['calls']} calls, {tokens} tokens" in judged
    assert f"a group in {figures['latency_s']['p50']:.1f} s" in judged


def test_tiles_lead_to_their_groups(view: View, truth: Truth) -> None:
    """A tile with a link leads to as many groups as it counts."""
    view.open()
    result = view.find(".tile a").evaluate_all(
        "all => all.map(a => [a.getAttribute('href'), a.querySelector('.value').textContent])"
    )
    assert len(result) == 5
    for link, value in result:
        view.go(link)
        assert view.count == len(truth.matching(link)) > 0, link
        assert "disagreement" in link or view.count == whole(value)


@pytest.mark.smoke
def test_groups_to_look_at(view: View, scored: Path) -> None:
    """The worst and the most disputed groups are those of the terminal, each links to its group."""
    reported = orjson.loads(
        ruler("report", scored, "--json", folder=scored.parent).stdout
    )
    view.open()
    for name in ("worst", "disputed"):
        items = view.find(f"section[aria-labelledby={name}-head] li")
        keys = [one["group"]["key"] for one in reported[name]]
        assert items.locator(".group").all_inner_texts() == keys
        assert items.locator(".why").all_inner_texts() == [
            one["why"] for one in reported[name]
        ]
        assert len(keys) == 5
        words = {"worst": "failed and unreliable", "disputed": "disputed"}[name]
        view.find(f"section[aria-labelledby={name}-head] .note").get_by_text(
            f"Show {words} groups in the table", exact=True
        ).wait_for()
        links = items.locator("a").evaluate_all(
            "all => all.map(a => a.getAttribute('href'))"
        )
        assert links == [f"#group={key}" for key in keys]
    failed = view.find("section[aria-labelledby=worst-head] li").first
    assert (
        failed.locator(".reason").inner_text()
        == reported["worst"][0]["group"]["reason"]
    )
    first = view.find("section[aria-labelledby=disputed-head] li").first
    group = reported["disputed"][0]["group"]
    best_first = sorted(
        zip(group["scores"], group["labels"], strict=True), key=lambda pair: -pair[0]
    )
    words = ", ".join(f"{score:.2f} (reward {label:g})" for score, label in best_first)
    assert (
        first.locator(".strip").get_attribute("aria-label")
        == f"scores, best first: {words}"
    )
    first.locator("a").click()
    view.find(".group-page h2").filter(has_text=group["key"]).wait_for()


def test_next(view: View, scored: Path) -> None:
    """The commands to type next are those of the terminal, but for the one that writes the page."""
    terminal = ruler("report", scored.name, folder=scored.parent).stdout
    typed = [
        line.strip() for line in terminal[terminal.index("next\n") + 5 :].splitlines()
    ]
    view.open()
    assert view.find(".next code").all_inner_texts() == [
        line for line in typed if " -o " not in line
    ]
    link = view.find(".next a")
    assert link.inner_text() == "the most disputed group"
    assert link.get_attribute("href") == view.find(
        "[aria-labelledby=disputed-head] li a"
    ).first.get_attribute("href")


def test_findings(view: View, scored: Path) -> None:
    """The sentences about the judge are those of the terminal."""
    terminal = " ".join(
        ruler("report", scored.name, folder=scored.parent).stdout.split()
    )
    view.open()
    sentences = view.find(".findings dd").all_inner_texts()
    assert len(sentences) >= 5
    assert [
        words for words in sentences if " ".join(words.split()) not in terminal
    ] == []


def test_few_groups(show: Show, tmp_path: Path) -> None:
    """A file of few groups has no chart but a line that says so, and lists all of its groups."""
    records = [plain("tied", 0.5, 0.5), *(plain(f"g-{i}", 0.2, 0.4) for i in range(8))]
    view = show(report_of(write(tmp_path / "few.jsonl", records), tmp_path))
    assert view.find("figure.chart").count() == 0
    assert "Charts are drawn from 10 scored groups on." in view.text
    listed = view.find(
        "section[aria-labelledby=others-head] li .group"
    ).all_inner_texts()
    assert listed == ["tied", *(f"g-{i}" for i in range(8))]
    assert view.find(".shortlist").count() == 1
    more = show(
        report_of(
            write(tmp_path / "more.jsonl", [*records, plain("g-9", 0.1, 0.3)]), tmp_path
        )
    )
    assert more.find("figure.chart").count() == 2
    assert more.find(".shortlist").count() == 0


def test_reasons(view: View, figures: dict[str, Any]) -> None:
    """Each reason of failed groups is listed with its number, and leads to groups of its kind."""
    view.open()
    items = view.find(".reasons li")
    assert items.count() == len(figures["reasons"]) == 3
    for item, reason in zip(items.all_text_contents(), figures["reasons"], strict=True):
        assert item.strip().startswith(f"{reason['groups']} group")
        assert reason["reason"] in item
    items.first.locator("a").click()
    view.at(f"#groups?where=failed&kind={figures['reasons'][0]['kind']}")


def test_charts(view: View, show: Show, odd: Path) -> None:
    """A run of two passes with rewards and failures has every chart, one without them only a few."""
    view.open()
    ids = "all => all.map(figure => figure.id.replace('chart-', ''))"
    assert view.find("figure.chart").evaluate_all(ids) == CHARTS
    assert show(odd).find("figure.chart").evaluate_all(ids) == ["scores", "spread"]


@pytest.mark.parametrize("chart", CHARTS)
def test_points_lead_to_their_groups(view: View, truth: Truth, chart: str) -> None:
    """Each point of a chart opens a table of the groups that its conditions ask for, and counts them."""
    view.open()
    result = points(view, chart)
    assert result
    output = view.page.evaluate(_WALK, [link for link, _ in result])
    counted = 0
    for (link, name), announced in zip(result, output, strict=True):
        matching = truth.matching(link)
        assert announced.startswith(f"{len(matching)} of 60 "), (link, name)
        assert matching, (link, name)
        of_name = re.search(
            r"([\d,]+) (?:of [\d,]+ groups? failed|rollouts?; |scores?; |groups?; )",
            name,
        )
        assert of_name is not None, name
        own = whole(of_name[1])
        if chart in ("spread", "reliability", "failures"):
            assert own == len(matching), name
        elif (
            chart == "slots"
        ):  # it counts each pass in which a rollout was shown there, alike ones once
            assert (
                own
                <= sum(
                    shown_in(truth.groups[i], ranges_of(link)["slot"]) for i in matching
                )
                <= own + 4
            ), name
        else:
            assert own == sum(
                rollouts(truth.groups[i], ranges_of(link)) for i in matching
            ), name
        counted += own
    assert counted == expected(truth)[chart]


def expected(truth: Truth) -> dict[str, int]:
    """The sum of the points of each chart."""
    all_rollouts = [r for group in truth.groups for r in group.rollouts]
    scored = [r for r in all_rollouts if r.score is not None]
    return {
        "scores": len(scored),
        "spread": sum(g.sd is not None for g in truth.groups),
        "labels": sum(r.label is not None for r in scored),
        "slots": sum(
            len(s)
            for g in truth.groups
            if len(g.scores) > 1
            for s in {r.positions for r in g.rollouts}
        ),
        "lengths": len(scored),
        "reliability": sum(g.reliability is not None for g in truth.groups),
        "failures": sum(g.failed for g in truth.groups),
    }


def test_table_of_a_chart(view: View, figures: dict[str, Any]) -> None:
    """The table below each chart has a row for each point, with the numbers of the JSON."""
    view.open()
    for chart, figure in (
        ("scores", "scores"),
        ("spread", "spread"),
        ("reliability", "reliability"),
    ):
        rows = numbers(view, chart)
        bins = [bin_ for bin_ in figures[figure]["bins"] if bin_["n"]]
        assert [whole(row[-1]) for row in rows] == [bin_["n"] for bin_ in bins]
        ends = [[float(end) for end in row[0].split(" to ")] for row in rows]
        assert [(low[0], low[-1]) for low in ends] == [
            pytest.approx(bin_["values"], abs=0.00051) for bin_ in bins
        ]
    for chart, figure in (("labels", "against_label"), ("lengths", "lengths")):
        assert [whole(row[-1]) for row in numbers(view, chart)] == [
            c["n"] for c in figures[figure]["cells"]
        ]
    bins = figures["slots"]["bins"]
    assert [whole(row[3]) for row in numbers(view, "slots")] == [
        bin_["n"] for bin_ in bins
    ]
    means = [float(row[1]) for row in numbers(view, "slots")]
    assert means == [pytest.approx(bin_["mean"], abs=0.00051) for bin_ in bins]
    errors = [
        None if row[2] == "–" else float(row[2]) for row in numbers(view, "slots")
    ]
    assert errors == [
        bin_["error"] and pytest.approx(bin_["error"], abs=0.00051) for bin_ in bins
    ]
    times = [bin_ for bin_ in figures["over_time"]["bins"] if bin_["groups"]]
    rows = numbers(view, "failures")
    assert [whole(row[1]) for row in rows] == [bin_["groups"] for bin_ in times]
    assert [sum(map(whole, row[2:])) for row in rows] == [
        sum(bin_["failed"].values()) for bin_ in times
    ]


def test_points_by_keyboard(view: View) -> None:
    """The tab key reaches every point of the first chart in turn, and Enter opens its groups."""
    view.open()
    result = [link for link, _ in points(view, "scores")]
    view.find(".made summary").focus()
    for link in result:
        view.page.keyboard.press("Tab")
        assert view.page.evaluate("document.activeElement.getAttribute('href')") == link
    view.page.keyboard.press("Enter")
    view.at(result[-1]).find(".grid").wait_for()


def test_legend(view: View, truth: Truth) -> None:
    """Each kind of failure in the legend leads to the groups that failed by it."""
    view.open()
    result = view.find(".legend a").evaluate_all(
        "all => all.map(a => a.getAttribute('href'))"
    )
    assert len(result) == 3
    for link in result:
        view.go(link)
        assert view.count == len(truth.matching(link)) == 2
