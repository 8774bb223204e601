"""Pictures of rollouts on the page: those of the record, small and large, and nothing that runs or loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Show
from tests.browser.reports import plain, report_of, write
from tests.picture_judge import address, png

HOSTILE = (
    address(
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.__hit=1'/>",
        "image/svg+xml",
    ),
    address(b"<script>window.__hit=1</script>", "text/html"),
    address(b"<svg onload='window.__hit=1'/>"),
    "data:image/png;base64,x' onerror='window.__hit=1",
    "http://127.0.0.1:9/seen.png",
    "javascript:window.__hit=1",
)


def seen(*urls: str) -> dict[str, Any]:
    """Return a message with pictures."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {"role": "user", "content": parts}


@pytest.mark.smoke
def test_pictures(show: Show, tmp_path: Path) -> None:
    """A picture of the record is shown, and large after a click; what is none is its number, and nothing is loaded."""
    record = plain("one", 0.2, 0.8)
    for rollout, urls in zip(
        record["trajectories"],
        (
            (address(png(0.2, 400, 300)),),
            (address(png(0.9), "image/svg+xml"), *HOSTILE),
        ),
        strict=True,
    ):
        rollout["messages"].insert(1, seen(*urls))
    scored = write(tmp_path / "scored.jsonl", [record])
    view = show(report_of(scored, tmp_path), "#group=one")
    pictures = view.find(".g-picture img")
    pictures.first.wait_for()
    widths = pictures.evaluate_all(
        "all => all.map(e => [e.src.slice(0, 22), e.naturalWidth]).sort()"
    )
    start = "data:image/png;base64,"
    assert widths == [[start, 400], [start, 8]]
    assert view.find(".g-note .g-left-out").count() == len(HOSTILE)
    large = view.find(".g-picture:has(img[alt='picture 1'])").first
    height = "button => button.firstElementChild.clientHeight"
    before = large.evaluate(height)
    large.click()
    assert large.get_attribute("aria-expanded") == "true"
    assert large.evaluate(height) >= before
    assert view.page.evaluate("window.__hit ?? null") is None
    inside = ("file:", "data:", "blob:")
    assert [one for one in view.asked if not one.startswith(inside)] == []
    assert [one for one in view.messages if "error" in one] == []
