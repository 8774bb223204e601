"""Suggestions for mistyped words."""

from __future__ import annotations

from ruler_cli.settings import suggestions


def test_word() -> None:
    """The word nearest in spelling is suggested, or none."""
    known = ["max-cost", "passes", "min_passes"]
    suggested = {
        "max_cost": "max-cost",
        "pases": "passes",
        "passse": "passes",
        "paths": None,
        "zebra": None,
        "": None,
    }
    assert {
        word: suggestions.suggestion_for(word, known) for word in suggested
    } == suggested
    assert suggestions.question("a") == "; did you mean a?"
    assert not suggestions.question(None)
