"""The options and arguments that commands share, as typer reads them in a signature.

typer takes numbers as text: settings check them, whatever their source, and word the mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

JUDGE, QUALITY, LIMITS, INPUT, OUTPUT, SCALE, OTHER = PANELS = (
    "Judge",
    "Quality",
    "Limits and cost",
    "Input",
    "Output",
    "Scale",
    "Other",
)
"""The sections of a command's help behind the first, which has no title."""
_COMMON_JUDGES = (
    "offline simulated openai/o3 openai/ hosted_vllm/ anthropic/ azure/ bedrock/ deepseek/ gemini/ groq/ "
    "litellm_proxy/ mistral/ ollama_chat/ openrouter/ together_ai/ vertex_ai/ xai/"
)
"""Judges that a shell completes: the embedded ones, and common providers."""


def _judges() -> Iterable[str]:
    """Return the judges of the file, and common names."""
    try:
        own = tomllib.loads(Path("ruler.toml").read_text(encoding="utf-8"))["judges"]
    except (OSError, ValueError, KeyError):  # the command itself names a mistake
        own = {}
    return (*own, *_COMMON_JUDGES.split())


def _formats() -> Iterable[str]:
    from ruler_cli.formats.table import FAMILIES

    return ("auto", *FAMILIES)


def _conditions() -> Iterable[str]:
    from ruler_cli.results.conditions import NAMES

    return NAMES


def option(
    text: str,
    metavar: str = "",
    *names: str,
    panel: str | None = None,
    words: Callable[[], Iterable[str]] | None = None,
) -> Any:
    """Declare an option by its help, the name of its value (a flag has none) and its own names.

    A shell completes `words`, or the parts of a metavar such as `null|drop|keep`.
    """

    def complete(incomplete: str) -> list[str]:
        every = words() if words is not None else metavar.split("|")
        return [word for word in every if word.startswith(incomplete)]

    taken: dict[str, Any] = {"metavar": metavar, "parser": str} if metavar else {}
    if words is not None or ("|" in metavar and metavar.islower()):
        taken["autocompletion"] = complete
    return typer.Option(*names, help=text, rich_help_panel=panel, **taken)


(
    judge_option,
    quality_option,
    limit_option,
    input_option,
    output_option,
    scale_option,
) = (partial(option, panel=panel) for panel in PANELS[:-1])


# Arguments
Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="JSON lines, a JSON document, Parquet or .eval; .gz and .zst; a directory or a pattern; `-` is stdin.",
    ),
]
Scored = Annotated[
    str,
    typer.Argument(
        metavar="SCORED", help="A file that `ruler score` wrote; `-` is stdin."
    ),
]
Second = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCORED2]",
        help="The same input scored by another judge.",
        show_default=False,
    ),
]

# Judge
JudgeModel = Annotated[
    list[str] | None,
    option(
        "The judge: openai/…, hosted_vllm/…, any litellm name, a judge of "
        "ruler.toml, or `offline` (no model); repeat it for a panel.  [default: openai/o3]",
        "NAME",
        "--judge-model",
        "--model",
        "-m",
        words=_judges,
    ),
]
ApiBase = Annotated[str | None, option("Chat completions endpoint, up to /v1.", "URL")]
ApiKeyEnv = Annotated[
    str | None, judge_option("Name of the variable that holds the key.", "VAR")
]
Rubric = Annotated[
    str | None,
    option(
        "Grading standards; a group's own `rubric` wins.",
        "TEXT|@FILE",
    ),
]
Param = Annotated[
    list[str] | None,
    judge_option(
        "Extra parameter of the judge call, as JSON if it is JSON. Repeatable.",
        "KEY=VALUE",
        "--param",
        "-p",
    ),
]
ViaWay = Annotated[str, judge_option("How the judge is reached.", "auto|http|litellm")]
Fallback = Annotated[
    bool,
    judge_option("Ask the judges in turn: the next scores a group that one refuses."),
]
Escalate = Annotated[
    str | None,
    judge_option(
        "A stronger judge for groups still unclear after all passes.",
        "NAME",
        words=_judges,
    ),
]

# Quality
Passes = Annotated[
    int,
    option("Number of times that a judge scores each group, in balanced orders.", "K"),
]
Adaptive = Annotated[
    bool,
    quality_option(
        "Two passes for every group, more where they help, up to --passes on average."
    ),
]
Order = Annotated[
    str, quality_option("Order in which the judge sees the rollouts.", "random|input")
]
Seed = Annotated[int, quality_option("Seed of order and labels.", "N")]
GroupSize = Annotated[
    int,
    quality_option(
        "Distinct rollouts shown at once; larger groups are shown in random windows.",
        "N",
    ),
]
Single = Annotated[
    str,
    quality_option(
        "How to score a group with one distinct rollout: once and flagged, or in every pass.",
        "flag|score",
    ),
]

# Limits and cost
MaxCost = Annotated[float | None, option("Stop before spending more.", "USD")]
Price = Annotated[
    list[str] | None,
    limit_option(
        "USD per million prompt and completion tokens, if unknown; once, or once for each judge.",
        "IN,OUT",
    ),
]
Ledgers = Annotated[
    list[str] | None,
    limit_option(
        "File of paid replies; repeat it to read others as well.  "
        "[default: ruler/ledger.sqlite in the user's cache directory]",
        "PATH|none",
        "--ledger",
    ),
]
OneLedger = Annotated[
    str | None,
    limit_option(
        "File of paid replies.  [default: ruler/ledger.sqlite in the user's cache directory]",
        "PATH",
        "--ledger",
    ),
]
NoCache = Annotated[bool, limit_option("Keep no replies and read none: --ledger none.")]
RetryFailed = Annotated[bool, limit_option("Ask again what failed in an earlier run.")]

# Input
Limit = Annotated[int | None, input_option("Only the first N groups.", "N")]
Format = Annotated[
    str,
    input_option(
        "Shape of the dump, instead of detecting it.", "auto|NAME", words=_formats
    ),
]
GroupBy = Annotated[str | None, input_option("Dotted path of the group key.", "PATH")]
Grouping = Annotated[
    str,
    input_option(
        "How the records of a group are arranged.", "auto|line|consecutive|scattered"
    ),
]
Messages = Annotated[
    str | None,
    input_option(
        "Dotted path of the messages, or of an answer's text, where no format fits.",
        "PATH",
    ),
]
Prompt = Annotated[
    str | None,
    input_option("Dotted path of the task's text, where the messages lack it.", "PATH"),
]
Reward = Annotated[
    str | None, input_option("Dotted path of the original reward.", "PATH")
]
Outcome = Annotated[
    str | None, input_option("Dotted path of a verifier's result.", "PATH")
]
Labels = Annotated[
    str | None,
    input_option(
        "Dotted path of the labels.  [default: the first original reward, else the outcome]",
        "PATH",
    ),
]
MaxRecord = Annotated[
    int,
    input_option("Largest record to read; a larger one counts as unreadable.", "MIB"),
]

# Output
AsJson = Annotated[bool, option("Print one JSON object instead.", "", "--json")]

# Scale
ShardOf = Annotated[
    str | None,
    scale_option("Only the groups of shard I of N; the first is 1.", "I/N", "--shard"),
]

# Batches
Wait = Annotated[bool, option("Wait, and collect until no batch is open.")]
WaitTimeout = Annotated[
    float, option("Longest time that --wait waits, seconds.", "S", "--timeout")
]
Settle = Annotated[
    float,
    option(
        "Seconds in which a batch may still appear at its provider after a crash.", "S"
    ),
]
AllBatches = Annotated[bool, option("Every open batch.", "", "--all")]
ClosedToo = Annotated[bool, option("Closed batches, too.", "", "--all")]
Where = Annotated[
    list[str] | None,
    option(
        "Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or disagreement "
        "lies in a range; rollouts whose score does. Repeatable: all must hold.",
        "NAME[=LOW..HIGH]",
        words=_conditions,
    ),
]
KeepMost = Annotated[
    int | None, option("At most M rollouts of each group, by --by.", "M")
]
By = Annotated[
    str | None,
    option(
        "Rollouts to keep: those whose scores vary most, the best, or the best with the commonest answer.",
        "variance|score|majority",
    ),
]
Answer = Annotated[
    str | None, option("Dotted path of a rollout's answer, for --by majority.", "PATH")
]
GroupKey = Annotated[
    str | None, option("Key of the group.  [default: the first]", "KEY")
]
OneGroup = Annotated[str | None, option("Show this group in full.", "KEY")]
Pass = Annotated[int, option("Number of the pass over the group.", "P", "--pass")]
Window = Annotated[int, option("Number of the window of that pass.", "W")]
Page = Annotated[
    str | None,
    option(
        "Write a page for a browser instead: one file, which opens offline.",
        "FILE.html",
        "--output",
        "-o",
    ),
]
OpenPage = Annotated[
    bool,
    option(
        "Open the page in the browser; without -o it is a private temporary file.",
        "",
        "--open",
    ),
]
MaxGroups = Annotated[
    int | None,
    option("Groups in FILE.html, the worst first.  [default: 10000]", "N"),
]
Target = Annotated[
    str,
    option(
        "Format of the requests; auto goes by the judge's name.",
        "auto|openai|anthropic|vllm",
    ),
]
Batch = Annotated[bool, option("Show cost and time in a provider's batch API, too.")]
Forget = Annotated[
    bool,
    option(
        "Give them up without asking the provider; their requests may be submitted again at once."
    ),
]
OlderThan = Annotated[
    float | None, option("Only replies older than this.  [default: all]", "DAYS")
]
Yes = Annotated[
    bool,
    option(
        "Remove without asking; needed if stdin is not a terminal.", "", "--yes", "-y"
    ),
]
Config = Annotated[
    str | None,
    option(
        "Defaults of options, and named judges.  [default: ruler.toml, else [tool.ruler] in pyproject.toml]",
        "FILE|none",
        panel=OTHER,
    ),
]
