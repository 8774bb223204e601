"""The names of commands and options; it imports nothing, as the help and a shell's completion need them fast."""

COMMANDS = (
    "score", "check", "prompt", "render", "agree", "report", "select",
    "ledger path", "ledger stats", "ledger clear", "ledger import",
    "batch submit", "batch status", "batch collect", "batch cancel",
)  # fmt: skip
"""Commands that take options, and so may have a table in the file."""
NAMES = {
    "page": "output",
    "as_json": "json",
    "pass_": "pass",
    "open_page": "open",
    "all_batches": "all",
}
"""Fields whose option has another name."""
ALIASES = {"judge_model": "model", **{name: own for own, name in NAMES.items()}}
"""Names of options that are not those of their fields."""
PER_RUN = frozenset(
    (
        "dry_run", "no_cache", "limit", "failed", "summary", "group", "pass_", "window", "page",
        "open_page", "where", "keep", "by", "all_batches", "forget", "older_than", "yes",
    )
)  # fmt: skip
"""Options without a variable: they are for one run."""
