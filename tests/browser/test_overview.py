"""The overview: the figures of the command, and charts whose points lead to their groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.view import View


@pytest.mark.smoke
def test_tiles(view: View, figures: dict[str, Any]) -> None:
    """The heading and every tile show the figures of `ruler report --json`."""
    view.open()
    groups, usage = figures["groups"], figures["usage"]
    assert (
        view.find("#overview-head").inner_text()
        == "54 of 60 groups scored, 6 failed"
    )
    assert (groups["scored"], groups["all"], groups["failed"]) == (54, 60, 6)
    tiles = view.find(".tile")
    values = tiles.locator(".value").all_text_contents()
    output = dict(
        zip(tiles.locator(".name").all_text_contents(), values, strict=True)
    )
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
    tokens = (
        f"{(usage['prompt_tokens'] + usage['completion_tokens']) / 1e3:.0f}k"
    )
    assert judged.startswith(
        "simulated · 2026-11-21 02:00 to 2026-11-21 02:59 UTC · "
    )
    assert f"{usage['calls']} calls, {tokens} tokens" in judged
