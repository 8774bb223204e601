"""The rules of axe: names, roles, contrast, order, regions."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.view import View


def violations(view: View) -> list[str]:
    """Return a line for each element that breaks a rule; some rule must apply to the page."""
    found: dict[str, Any] = Axe().run(view.page).response
    assert len(found["passes"]) > 10
    return [
        f"{rule['id']}: {node['html']}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
