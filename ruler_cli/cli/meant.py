"""Words that other tools have, and ours for the same."""

from __future__ import annotations

OPTIONS = {
    "--all": "--max-groups",
    "--base-url": "--api-base",
    "--best": "--keep",
    "--budget": "--max-cost",
    "--condition": "--where",
    "--endpoint": "--api-base",
    "--filter": "--where",
    "--html": "--output",
    "--jobs": "--concurrency",
    "--json": "--summary",
    "--key": "--group",
    "--limit": "--max-groups",
    "--parallel": "--concurrency",
    "--reward": "--labels",
    "--samples": "--passes",
    "--sort-by": "--by",
    "--task": "--group",
    "--threads": "--concurrency",
    "--top": "--keep",
    "--top-k": "--keep",
    "--url": "--api-base",
    "--verbose": "--debug",
    "--votes": "--passes",
    "--workers": "--concurrency",
    "-k": "--keep",
    "-n": "--keep",
    "-v": "--version",
    "-V": "--version",
}
"""Options."""
_REPORT, _SELECT = "--max-groups", "--keep"
"""Options that only one command has."""
SAID = {
    "--color": (_REPORT, "colours are for a terminal only, and NO_COLOR=1 leaves them away"),
    "--max-score": (_SELECT, "write --where score=..HIGH"),
    "--min-reliability": (_SELECT, "write --where reliability=LOW.."),
    "--min-score": (_SELECT, "write --where score=LOW.."),
    "--no-color": (_REPORT, "write NO_COLOR=1 in front of the command"),
    "--open": (_REPORT, "write -o FILE.html and open that in a browser"),
    "--sort": (_REPORT, "write -o FILE.html, whose table sorts by any column"),
    "--where": (_REPORT, "`ruler select SCORED - --where NAME | ruler report -` reports on a part"),
}
"""What to do instead of an option, and the option by which the command is known that it is said about."""
COMMANDS = {
    "abort": "cancel", "cache": "ledger", "compare": "agree", "cost": "check", "create": "submit",
    "delete": "cancel", "download": "collect", "estimate": "check", "evaluate": "score", "fetch": "collect",
    "filter": "select", "get": "collect", "grade": "score", "import": "collect", "inspect": "report",
    "judge": "score", "keep": "select", "list": "status", "look": "report", "open": "report",
    "pick": "select", "plot": "report", "poll": "status", "rate": "score", "rescore": "score",
    "results": "collect", "retrieve": "collect", "run": "score", "send": "submit", "show": "report",
    "stop": "cancel", "subset": "select", "summarize": "report", "summary": "report", "validate": "check",
    "view": "report", "wait": "collect",
}  # fmt: skip
"""Commands."""
CHOICES = {
    "best": "score", "consensus": "majority", "diversity": "variance", "highest": "score", "max": "score",
    "mean": "score", "mode": "majority", "reward": "score", "sd": "variance", "spread": "variance",
    "std": "variance", "top": "score", "vote": "majority", "votes": "majority",
}  # fmt: skip
"""Values of options that take one of a few words."""
