"""The overview: the figures of the command, and charts whose points lead to their groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.browser.reports import ruler
from tests.browser.view import View


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
