"""The overview: the figures of the command, and charts whose points lead to their groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Show
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
    linked = "all => all.map(a => a.getAttribute('href') ?? a.getAttribute('xlink:href'))"
    named = "all => all.map(a => a.querySelector('[aria-label]').getAttribute('aria-label'))"
    return list(zip(result.evaluate_all(linked), result.evaluate_all(named), strict=True))


def numbers(view: View, chart: str) -> list[list[str]]:
    """The rows of the table under a chart."""
    rows = "all => all.map(tr => [...tr.cells].map(td => td.textContent))"
    return list(view.find(f"#chart-{chart} table tbody tr").evaluate_all(rows))


def whole(text: str) -> int:
    """A number with commas."""
    return int(text.replace(",", ""))


@pytest.mark.smoke
def test_tiles(view: View, figures: dict[str, Any]) -> None:
    """Every tile shows the figure of `ruler report --json`."""
    view.open()
    tiles = view.find(".tile")
    values = tiles.locator(".value").all_text_contents()
    output = dict(zip(tiles.locator(".name").all_text_contents(), values, strict=True))
    groups, usage = figures["groups"], figures["usage"]
    counted = {name: output[name] for name in ("scored", "failed", "tied", "live")}
    assert counted == {name: f"{groups[name]:,}" for name in counted}
    assert output == counted | {
        "groups": f"{groups['all']:,}",
        "rollouts scored": f"{figures['rollouts']['scored']:,}",
        "cost": f"${figures['cost_usd']:.2g}",
        "tokens": f"{usage['prompt_tokens'] + usage['completion_tokens']:,}",
        "a group took": f"{figures['latency_s']['p50']:.1f} s",
        "agreement with rewards": f"{100 * figures['against_label']['agreement']:.1f} %",
        "rollouts address a judge": f"{figures['rollouts']['suspect']:,}",
    }


def test_tiles_lead_to_their_groups(view: View, truth: Truth) -> None:
    """A tile with a link leads to as many groups as it counts."""
    view.open()
    result = view.find(".tile a").evaluate_all(
        "all => all.map(a => [a.getAttribute('href'), a.querySelector('.value').textContent])"
    )
    assert len(result) == 7
    for link, value in result:
        view.go(link)
        assert view.count == len(truth.matching(link)) > 0, link
        assert "disagreement" in link or view.count == whole(value)


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
    assert show(odd).find("figure.chart").evaluate_all(ids) == ["scores", "spread", "lengths"]


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
        of_name = re.search(r"([\d,]+) (?:of [\d,]+ groups? failed|rollouts?; |scores?; |groups?; )", name)
        assert of_name is not None, name
        own = whole(of_name[1])
        if chart in ("spread", "reliability", "failures"):
            assert own == len(matching), name
        elif chart == "slots":  # it counts each pass in which a rollout was shown there, alike ones once
            assert (
                own <= sum(shown_in(truth.groups[i], ranges_of(link)["slot"]) for i in matching) <= own + 4
            ), name
        else:
            assert own == sum(rollouts(truth.groups[i], ranges_of(link)) for i in matching), name
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
            len(s) for g in truth.groups if len(g.scores) > 1 for s in {r.positions for r in g.rollouts}
        ),
        "lengths": len(scored),
        "reliability": sum(g.reliability is not None for g in truth.groups),
        "failures": sum(g.failed for g in truth.groups),
    }


def test_table_of_a_chart(view: View, figures: dict[str, Any]) -> None:
    """The table below each chart has a row for each point's position, with the numbers of the JSON."""
    view.open()
    for chart, figure in (("scores", "scores"), ("spread", "spread"), ("reliability", "reliability")):
        rows = numbers(view, chart)
        assert [whole(row[-1]) for row in rows] == [bin_["n"] for bin_ in figures[figure]["bins"]]
        assert [float(row[0].split(" to ")[0]) for row in rows] == [
            pytest.approx(bin_["from"], abs=0.0051) for bin_ in figures[figure]["bins"]
        ]
    for chart, figure in (("labels", "against_label"), ("lengths", "lengths")):
        assert [whole(row[-1]) for row in numbers(view, chart)] == [c["n"] for c in figures[figure]["cells"]]
    bins = figures["slots"]["bins"]
    assert [whole(row[3]) for row in numbers(view, "slots")] == [bin_["n"] for bin_ in bins]
    means = [float(row[1]) for row in numbers(view, "slots")]
    assert means == [pytest.approx(bin_["mean"], abs=0.00051) for bin_ in bins]
    errors = [None if row[2] == "–" else float(row[2]) for row in numbers(view, "slots")]
    assert errors == [bin_["error"] and pytest.approx(bin_["error"], abs=0.00051) for bin_ in bins]
    times = [bin_ for bin_ in figures["over_time"]["bins"] if bin_["groups"]]
    rows = numbers(view, "failures")
    assert [whole(row[1]) for row in rows] == [bin_["groups"] for bin_ in times]
    assert [sum(map(whole, row[2:])) for row in rows] == [sum(bin_["failed"].values()) for bin_ in times]


def test_points_by_keyboard(view: View) -> None:
    """The tab key reaches every point of the first chart in turn, and Enter opens its groups."""
    view.open()
    result = [link for link, _ in points(view, "scores")]
    view.find(".reasons a").last.focus()
    for link in result:
        view.page.keyboard.press("Tab")
        assert view.page.evaluate("document.activeElement.getAttribute('href')") == link
    view.page.keyboard.press("Enter")
    view.at(result[-1]).find(".grid").wait_for()


def test_legend(view: View, truth: Truth) -> None:
    """Each kind of failure in the legend leads to the groups that failed by it."""
    view.open()
    result = view.find(".legend a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    assert len(result) == 3
    for link in result:
        view.go(link)
        assert view.count == len(truth.matching(link)) == 2
