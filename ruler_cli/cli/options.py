"""The options and arguments that commands share, as typer reads them in a signature.

typer takes numbers as text: settings check them, whatever their source, and word the mistake.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

PANELS = (
    "Judge",
    "Quality",
    "Limits and cost",
    "Input",
    "Output",
    "Scale",
    "Other",
)
"""The sections of a command's help behind the first, which has no title."""
OTHER = PANELS[-1]


def option(text: str, metavar: str = "", *names: str, panel: str | None = None) -> Any:
    """Declare an option by its help, the name of its value (a flag has none) and its own names.

    A shell completes the parts of a metavar such as `null|drop|keep`.
    """

    def complete(incomplete: str) -> list[str]:
        return [word for word in metavar.split("|") if word.startswith(incomplete)]

    taken: dict[str, Any] = {"metavar": metavar, "parser": str} if metavar else {}
    if "|" in metavar and metavar.islower():
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
        help="JSON lines, a document, CSV, Parquet or .eval; .gz and .zst; a directory or a pattern; `-` is stdin.",
    ),
]
Scored = Annotated[
    str,
    typer.Argument(
        metavar="SCORED", help="A file that `ruler score` wrote; `-` is stdin."
    ),
]
SeveralScored = Annotated[
    list[str],
    typer.Argument(
        metavar="SCORED...",
        help="A file that `ruler score` wrote, two of the same input, or more of a training; `-` is stdin.",
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
ApiName = Annotated[
    str,
    judge_option(
        "The API that the judge speaks: chat completions, or one of decision models.",
        "auto|chat|systemone|decisions",
        "--api",
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
        "A stronger judge for groups that the first leaves undecided.",
        "NAME",
    ),
]
EscalateGap = Annotated[
    float,
    judge_option(
        "A group is undecided if no two of its scores lie further apart.", "GAP"
    ),
]

# Quality
Passes = Annotated[
    int,
    option("Number of times that a judge scores each group, in balanced orders.", "K"),
]
Adaptive = Annotated[
    bool,
    quality_option("Two passes for every group, more where they help, up to --passes."),
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
Ask = Annotated[
    str | None,
    quality_option(
        "Show all rollouts of a group at once, or each alone.  "
        "[default: group; each for a chat judge that is read by probability]",
        "group|each",
    ),
]
Read = Annotated[
    str,
    quality_option(
        "Scores that the judge writes, or the probability of Yes to a question for each rollout. auto: text for a "
        "chat judge with --ask group.",
        "auto|text|probability",
    ),
]
Question = Annotated[
    str | None,
    quality_option("The question where probabilities are read.", "TEXT"),
]
Pictures = Annotated[
    str,
    quality_option(
        "Pictures in messages: sent to a judge that reads them, sent to any, or left out.",
        "auto|send|leave",
    ),
]
MostPictures = Annotated[
    int | None,
    quality_option("Show the last K pictures of each rollout.  [default: all]", "K"),
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
    input_option("Shape of the dump, instead of detecting it.", "auto|NAME"),
]
GroupBy = Annotated[
    list[str] | None,
    input_option("Path of the group key; repeat it if several are the key.", "PATH"),
]
Grouping = Annotated[
    str,
    input_option(
        "How the records of a group are arranged.", "auto|line|consecutive|scattered"
    ),
]
Records = Annotated[
    str | None,
    input_option(
        "Path of the records inside a document, or inside each line, e.g. data.runs[].",
        "PATH",
    ),
]
Messages = Annotated[
    list[str] | None,
    input_option(
        "Path of the messages, or of an answer's text, where no format fits; "
        "repeat it for several answers. See `ruler formats --help`.",
        "PATH",
    ),
]
Prompt = Annotated[
    list[str] | None,
    input_option(
        "Path of the task's text, where the messages lack it; repeat it for its parts.",
        "PATH",
    ),
]
Tools = Annotated[
    str | None, input_option("Path of the tools that the agent had.", "PATH")
]
Reference = Annotated[
    str | None,
    input_option("Path of the reference answer, shown to the judge only.", "PATH"),
]
Reward = Annotated[str | None, input_option("Path of the original reward.", "PATH")]
Outcome = Annotated[str | None, input_option("Path of a verifier's result.", "PATH")]
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
Force = Annotated[bool, output_option("Replace a file that ruler did not write.")]
AsJson = Annotated[bool, option("Print one JSON object instead.", "", "--json")]

# Scale
ShardOf = Annotated[
    str | None,
    scale_option("Only the groups of shard I of N; the first is 1.", "I/N", "--shard"),
]

# Other
Config = Annotated[
    str | None,
    option(
        "Defaults of options, and named judges.  [default: ruler.toml, else [tool.ruler] in pyproject.toml]",
        "FILE|none",
        panel=OTHER,
    ),
]

REQUEST_OPTIONS = (
    "model",
    "api_base",
    "passes",
    "rubric",
    "order",
    "seed",
    "group_size",
    "single",
    "api",
    "ask",
    "read",
    "question",
    "pictures",
    "most_pictures",
    "limit",
    "format",
    "group_by",
    "grouping",
    "records",
    "messages",
    "prompt",
    "tools",
    "reference",
    "max_record",
    "config",
)
"""Options of `score` that choose the groups of INPUT or change a request."""
RUN_OPTIONS = (
    *REQUEST_OPTIONS,
    "param",
    "fallback",
    "escalate",
    "escalate_gap",
    "adaptive",
    "reward",
    "outcome",
)
"""Options of `score` that change which requests a run makes."""
