"""The options and arguments that commands share, as typer reads them in a signature.

typer takes numbers as text: settings check them, whatever their source, and word the mistake.
"""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

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
    "offline", "simulated", "openai/o3", "openai/", "hosted_vllm/", "anthropic/", "azure/", "bedrock/",
    "deepseek/", "gemini/", "groq/", "litellm_proxy/", "mistral/", "ollama_chat/", "openrouter/",
    "together_ai/", "vertex_ai/", "xai/",
)  # fmt: skip
"""Judges that a shell completes: the embedded ones, and common providers."""


def _judges(incomplete: str) -> list[str]:
    """Complete a judge: one of the file, or a common name."""
    try:
        own = tomllib.loads(Path("ruler.toml").read_text(encoding="utf-8"))["judges"]
    except (OSError, ValueError, KeyError):  # the command itself names a mistake
        own = {}
    names = (*own, *_COMMON_JUDGES)
    return [name for name in names if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    from ruler_cli.formats.table import FAMILIES

    return [name for name in ("auto", *FAMILIES) if name.startswith(incomplete)]


def _conditions(incomplete: str) -> list[str]:
    from ruler_cli.results.conditions import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def _rubrics(incomplete: str) -> list[str]:
    """Complete the name of a file after `@`."""
    if not incomplete.startswith("@"):
        return []
    return ["@" + name for name in glob.glob(glob.escape(incomplete[1:]) + "*")]  # noqa: PTH207 - keeps `./`


def _option(*names: str, **more: Any) -> Any:
    """Declare an option whose text is checked by the settings; a flag has no metavar."""
    if "metavar" in more:
        more["parser"] = str
    if "|" in more.get("metavar", "") and "autocompletion" not in more:
        more["autocompletion"] = _completion(more["metavar"].split("|"))
    return typer.Option(*names, **more)


def _completion(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a completion of a few words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


_judge, _quality, _limits, _input, _output, _scale = (
    partial(_option, rich_help_panel=panel) for panel in PANELS[:-1]
)

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
    typer.Option(
        "--judge-model",
        "--model",
        "-m",
        metavar="NAME",
        autocompletion=_judges,
        help="The judge: openai/…, hosted_vllm/…, any litellm name, a judge of ruler.toml, or `offline` (no model); "
        "repeat it for a panel.  [default: openai/o3]",
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Chat completions endpoint, up to /v1."),
]
ApiKeyEnv = Annotated[
    str | None, _judge(metavar="VAR", help="Name of the variable that holds the key.")
]
Rubric = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT|@FILE",
        autocompletion=_rubrics,
        help="Grading standards; a group's own `rubric` wins.",
    ),
]
Param = Annotated[
    list[str] | None,
    _judge(
        "--param",
        "-p",
        metavar="KEY=VALUE",
        help="Extra parameter of the judge call, as JSON if it is JSON. Repeatable.",
    ),
]
ViaWay = Annotated[
    Literal["auto", "http", "litellm"],
    _judge(metavar="auto|http|litellm", help="How the judge is reached."),
]
Fallback = Annotated[
    bool,
    _judge(help="Ask the judges in turn: the next scores a group that one refuses."),
]
Escalate = Annotated[
    str | None,
    _judge(
        metavar="NAME",
        autocompletion=_judges,
        help="A stronger judge for groups still unclear after all passes.",
    ),
]

# Quality
Passes = Annotated[
    int,
    _option(
        metavar="K", help="Times that a judge scores a group, in orders that balance."
    ),
]
Adaptive = Annotated[
    bool,
    _quality(
        help="Two passes for every group, more where they help, up to --passes on average."
    ),
]
Order = Annotated[
    Literal["random", "input"],
    _quality(
        metavar="random|input", help="Order in which the judge sees the rollouts."
    ),
]
Seed = Annotated[int, _quality(metavar="N", help="Seed of order and labels.")]
GroupSize = Annotated[
    int,
    _quality(
        metavar="N",
        help="Distinct rollouts shown at once; larger groups are shown in random windows.",
    ),
]
Single = Annotated[
    Literal["flag", "score"],
    _quality(
        metavar="flag|score",
        help="How to score a group with one distinct rollout: once and flagged, or in every pass.",
    ),
]
MinPasses = Annotated[
    int,
    _quality(
        metavar="M", help="Valid passes that a judge needs for its scores to count."
    ),
]
Debias = Annotated[
    bool, _quality(help="Correct for position bias measured over the batch.")
]
Standardize = Annotated[
    bool,
    _quality(help="Bring the judges of a panel to one mean and spread first."),
]
Blend = Annotated[
    float | None,
    _quality(
        metavar="W",
        help="W times the judge's score plus 1 - W times the original reward; W from 0 to 1.",
    ),
]
OrderByOutcome = Annotated[
    bool,
    _quality(
        help="Never rank a rollout that failed its check (--outcome, else the reward) above one that passed."
    ),
]

# Limits and cost
MaxCost = Annotated[
    float | None, _option(metavar="USD", help="Stop before spending more.")
]
DryRun = Annotated[
    bool,
    _limits(
        help="Estimate calls and cost as `ruler check` does; send and write nothing."
    ),
]
Concurrency = Annotated[
    int | None,
    _limits(
        "--concurrency",
        "-c",
        metavar="N",
        help="Calls in flight.  [default: as many as the judge takes]",
    ),
]
Rpm = Annotated[float | None, _limits(metavar="N", help="Requests per minute.")]
Tpm = Annotated[float | None, _limits(metavar="N", help="Tokens per minute.")]
Timeout = Annotated[float, _limits(metavar="S", help="Deadline per call, seconds.")]
Retries = Annotated[
    int,
    _limits(metavar="N", help="Retries per call; waits for a rate limit do not count."),
]
Spend = Annotated[
    Literal["first", "spread"],
    _limits(
        metavar="first|spread",
        help="Groups that --max-cost pays for: the first of INPUT, or a fair sample drawn by --seed.",
    ),
]
MaxOutage = Annotated[
    float,
    _limits(metavar="S", help="How long to wait for a judge that is down, seconds."),
]
WaitForJudge = Annotated[
    float,
    _limits(
        metavar="S", help="How long to wait for a judge that is not up yet, seconds."
    ),
]
Hedge = Annotated[
    bool,
    _limits(
        help="Send the slowest 5 % of calls a second time and take the first answer; for training steps."
    ),
]
MaxFailures = Annotated[
    str | None,
    _limits(metavar="N|P%", help="Stop when more groups and lines than that fail."),
]
Price = Annotated[
    list[str] | None,
    _limits(
        metavar="IN,OUT",
        help="USD per million prompt and completion tokens, where unknown; once, or once for each judge.",
    ),
]
Ledgers = Annotated[
    list[str] | None,
    _limits(
        "--ledger",
        metavar="PATH|none",
        help="File of paid replies; repeat it to read others as well.  [default: ruler/ledger.sqlite in the user's "
        "cache directory]",
    ),
]
OneLedger = Annotated[
    str | None,
    _limits(
        "--ledger",
        metavar="PATH",
        help="File of paid replies.  [default: ruler/ledger.sqlite in the user's cache directory]",
    ),
]
NoCache = Annotated[bool, _limits(help="Keep no replies and read none: --ledger none.")]
RetryFailed = Annotated[bool, _limits(help="Ask again what failed in an earlier run.")]
CachedOnly = Annotated[
    bool,
    _limits(help="Ask no judge: score what the ledger answers, and fail the rest."),
]

# Input
Limit = Annotated[int | None, _input(metavar="N", help="The first N groups only.")]
Format = Annotated[
    str,
    _input(
        metavar="auto|NAME",
        autocompletion=_formats,
        help="The dump's shape, if it is not to be detected.",
    ),
]
GroupBy = Annotated[
    str | None, _input(metavar="PATH", help="Dotted path of the group key.")
]
Grouping = Annotated[
    Literal["auto", "line", "consecutive", "scattered"],
    _input(
        metavar="auto|line|consecutive|scattered",
        help="How the records of a group are arranged.",
    ),
]
Messages = Annotated[
    str | None,
    _input(
        metavar="PATH",
        help="Dotted path of the messages, or of an answer's text, where no format fits.",
    ),
]
Prompt = Annotated[
    str | None,
    _input(
        metavar="PATH",
        help="Dotted path of the task's text, where the messages lack it.",
    ),
]
Reward = Annotated[
    str | None, _input(metavar="PATH", help="Dotted path of the original reward.")
]
Outcome = Annotated[
    str | None, _input(metavar="PATH", help="Dotted path of a verifier's result.")
]
Labels = Annotated[
    str | None,
    _input(
        metavar="PATH",
        help="Dotted path of the labels.  [default: the first original reward, else the outcome]",
    ),
]
MaxRecord = Annotated[
    int,
    _input(
        metavar="MIB", help="Largest record that is read; a larger one is unreadable."
    ),
]

# Output
OnFailure = Annotated[
    Literal["null", "drop", "keep"],
    _output(
        metavar="null|drop|keep",
        help="A group that cannot be scored: reward null, record left out, or reward kept.",
    ),
]
Failed = Annotated[
    Path | None,
    _output(
        metavar="FILE",
        help="File for unreadable lines and dropped records.  [default: OUTPUT.failed.jsonl]",
    ),
]
SummaryFile = Annotated[
    Path | None, _output(metavar="FILE", help="Write the run's summary as JSON.")
]
Progress = Annotated[
    Literal["auto", "bar", "log", "none"],
    _output(metavar="auto|bar|log|none", help="Progress on stderr."),
]
Quiet = Annotated[
    bool, _output("--quiet", "-q", help="No progress and no summary: --progress none.")
]
Debug = Annotated[bool, _output(help="Show each reply.")]
AsJson = Annotated[bool, _option("--json", help="Print one JSON object instead.")]

# Scale
ShardOf = Annotated[
    str | None,
    _scale(
        "--shard",
        metavar="I/N",
        help="Only the groups of shard I of N; the first is 1.",
    ),
]
Engine = Annotated[
    Literal["here", "ray"],
    _scale(
        metavar="here|ray",
        help="Judge in this process, or in workers of Ray; OUTPUT is the same.",
    ),
]
RayAddress = Annotated[
    str | None,
    _scale(
        metavar="HOST:PORT",
        help="A running Ray cluster that this machine is part of.  [default: one is started here]",
    ),
]
RayWorkers = Annotated[
    int | None, _scale(metavar="N", help="Workers of Ray.  [default: 2]")
]

# Batches
Wait = Annotated[bool, _option(help="Collect until no batch is out.")]
WaitTimeout = Annotated[
    float, _option("--timeout", metavar="S", help="Longest time to --wait, seconds.")
]
Settle = Annotated[
    float,
    _option(
        metavar="S",
        help="Seconds in which a batch may still appear at its provider after a crash.",
    ),
]
AllBatches = Annotated[bool, _option("--all", help="Every batch that is out.")]

Where = Annotated[
    list[str] | None,
    _option(
        metavar="NAME[=LOW..HIGH]",
        autocompletion=_conditions,
        help="Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or disagreement "
        "lies in a range; rollouts whose score does. Repeatable: all must hold.",
    ),
]
KeepMost = Annotated[
    int | None, _option(metavar="M", help="At most M rollouts of each group, by --by.")
]
By = Annotated[
    Literal["variance", "score", "majority"] | None,
    _option(
        metavar="variance|score|majority",
        help="Those whose scores have the greatest variance, the best, or the best of the majority.",
    ),
]
Answer = Annotated[
    str | None,
    _option(
        metavar="PATH", help="Dotted path of a rollout's answer, for the majority."
    ),
]
GroupKey = Annotated[
    str | None, _option(metavar="KEY", help="Which group.  [default: the first]")
]
Pass = Annotated[int, _option("--pass", metavar="P", help="Which pass over the group.")]
Window = Annotated[int, _option(metavar="W", help="Which window of that pass.")]
Page = Annotated[
    str | None,
    _option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="Write a page for a browser instead: one file, which opens offline.",
    ),
]
OpenPage = Annotated[
    bool,
    _option(
        "--open",
        help="Open the page in the browser; without -o it is a private temporary file.",
    ),
]
MaxGroups = Annotated[
    int | None,
    _option(
        metavar="N",
        help="Groups in FILE.html, the most telling first.  [default: 10000]",
    ),
]
Target = Annotated[
    Literal["auto", "openai", "anthropic", "vllm"],
    _option(
        metavar="auto|openai|anthropic|vllm",
        help="Format of the requests; auto goes by the judge's name.",
    ),
]
Batch = Annotated[
    bool, _option(help="Show cost and time in a provider's batch API, too.")
]
Forget = Annotated[
    bool,
    _option(
        help="Give them up without asking the provider; their requests are free at once."
    ),
]
OlderThan = Annotated[
    float | None,
    _option(metavar="DAYS", help="Only replies older than that.  [default: all]"),
]
Yes = Annotated[
    bool,
    _option(
        "--yes",
        "-y",
        help="Remove without asking; needed where stdin is no terminal.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|none",
        rich_help_panel=OTHER,
        help="Defaults of options, and named judges.  [default: ruler.toml, else [tool.ruler] in pyproject.toml]",
    ),
]
