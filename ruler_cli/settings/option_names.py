"""Names of options on a command line, by the fields that hold their values."""

from __future__ import annotations

NAMES = {
    "page": "output",
    "as_json": "json",
    "pass_": "pass",
    "open_page": "open",
    "all_batches": "all",
    "as_": "as",
}
"""Fields whose option has another name."""
ALIASES = {"judge_model": "model", **{name: field for field, name in NAMES.items()}}
"""Names of options that are not those of their fields."""
_SHORT = {"model": "-m", "param": "-p"}
"""Options that are named by a short name."""
_LONG = {"model": "judge-model", "wait_timeout": "timeout"}


def long_name(field: str) -> str:
    """Return the long name of an option, by its field."""
    return _LONG.get(field, NAMES.get(field, field).strip("_").replace("_", "-"))


def option_name(field: str) -> str:
    """Return an option as a command line names it, by its field."""
    return _SHORT.get(field, f"--{long_name(field)}")
