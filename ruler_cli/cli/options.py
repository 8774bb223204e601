"""Declare every option of the commands once: its type, default, help and names.

`settings.py` turns the values into settings.
"""

# ruff: noqa: RUF009 - `_option` makes a `dataclasses.field`, which ruff knows by that name only
from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ruler_cli.config import MAX_RECORD, AskSettings, JudgeSettings, PoolSettings

if TYPE_CHECKING:
    from ruler_cli.config_file import ConfigFile

PANELS = ("", "Judge", "Quality", "Limits and cost", "Input", "Output", "Scale", "Other")
"""The sections of a command's help, in their order."""
_JUDGES = (
    "offline", "simulated", "openai/o3", "openai/", "hosted_vllm/", "anthropic/", "azure/", "bedrock/",
    "deepseek/", "gemini/", "groq/", "litellm_proxy/", "mistral/", "ollama_chat/", "openrouter/",
    "together_ai/", "vertex_ai/", "xai/",
)  # fmt: skip
"""Judges without a model, and the most used providers, for the shell's completion."""


def _complete_judge(incomplete: str) -> list[str]:
    import tomllib

    try:
        own = tomllib.loads(Path("ruler.toml").read_text(encoding="utf-8")).get("judges", {})
    except (OSError, ValueError):  # the command itself names a mistake
        own = {}
    names = (*(own if isinstance(own, dict) else ()), *_JUDGES)
    return [name for name in names if name.startswith(incomplete)]


def _complete_format(incomplete: str) -> list[str]:
    from ruler_cli.formats.detect import families

    return [name for name in ("auto", *families()) if name.startswith(incomplete)]


def _complete_condition(incomplete: str) -> list[str]:
    from ruler_cli.results.conditions import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def _complete_rubric(incomplete: str) -> list[str]:
    """Complete the name of a file behind `@`."""
    import glob

    if not incomplete.startswith("@"):
        return []
    return ["@" + name for name in glob.glob(glob.escape(incomplete[1:]) + "*")]  # noqa: PTH207 - keeps `./`


def _finite(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which typer lets pass every bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number; give one such as 60")
    return value


Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="JSON lines or a JSON document, plain, .gz or .zst; .eval, Parquet; a directory, a pattern; "
        "`-` is stdin.",
    ),
]
Scored = Annotated[
    str,
    typer.Argument(metavar="SCORED", help="A file written by `ruler score`, in any format; `-` is stdin."),
]

Second = Annotated[
    str | None,
    typer.Argument(metavar="[SCORED2]", help="The same input scored by another judge.", show_default=False),
]


def _option(
    text: str,
    default: Any = None,
    *,
    names: str = "",
    panel: str = "",
    variable: bool | str = True,
    **more: Any,
) -> Any:
    """Declare an option: its help, its default, its names if they differ from the field's, more for typer.

    `panel` is the section of the help, "" the first. `variable`: the option is read from a variable too,
    `RULER_` and its name or the one given here; False for what a user sets for one run and not for all:
    a file or a group of one run, a part of the input, a confirmation.
    """
    return field(
        default=default,
        metadata={"help": text, "names": names, "rich_help_panel": panel, "envvar": variable, **more},
    )


_judge, _quality, _limits, _input, _output, _scale = (
    functools.partial(_option, panel=panel) for panel in PANELS[1:-1]
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of an option's value: `place` for a sentence, e.g. `RULER_RPM` or `ruler.toml line 7`.

    The higher `rank` wins: 3 the command line, 2 a variable, 1 the file, 0 the default.
    """

    place: str = "default"
    rank: int = 0


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """The options of `score`, in the order of its help."""

    model: list[str] | None = _option(
        "The judge: openai/…, hosted_vllm/…, any litellm name, a name in ruler.toml, `offline` (no model) or "
        "`simulated`; repeat it for a panel. --model is the same.  [default: openai/o3]",
        names="--judge-model --model -m",
        metavar="NAME",
        autocompletion=_complete_judge,
    )
    api_base: str | None = _option("Chat completions endpoint, up to /v1.", metavar="URL")
    passes: int = _option("Times that a judge scores a group, in orders that balance.", 1, metavar="K", min=1)
    max_cost: float | None = _option("Stop before spending more.", metavar="USD", min=0)
    rubric: str | None = _option(
        "Grading standards; a group's own `rubric` wins.",
        metavar="TEXT|@FILE",
        autocompletion=_complete_rubric,
    )
    param: list[str] | None = _judge(
        "Extra parameter of the judge call; VALUE is read as JSON if it is JSON. Repeatable.",
        names="--param -p",
        metavar="KEY=VALUE",
    )
    api_key_env: str | None = _judge("Name of the variable that holds the key.", metavar="VAR")
    via: Literal["auto", "http", "litellm"] = _judge("How the judge is reached.", "auto")
    fallback: bool = _judge(
        "Ask the judges of -m in turn: the next takes over a group that one refuses.", False
    )
    escalate: str | None = _judge(
        "A stronger judge for groups that passes leave neither resolved nor tied.",
        metavar="NAME",
        autocompletion=_complete_judge,
    )
    adaptive: bool = _quality(
        "Two passes for every group, then where they help, up to --passes on average.", False
    )
    order: Literal["random", "input"] = _quality("Order in which the judge sees the rollouts.", "random")
    seed: int = _quality("Seed of order and labels.", 0, metavar="N")
    group_size: int = _quality(
        "Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
        AskSettings().group_size,
        metavar="N",
        min=2,
    )
    single: Literal["flag", "score"] = _quality(
        "How to score a group with one distinct rollout: once and flagged, or in every pass.", "flag"
    )
    min_passes: int = _quality(
        "Valid passes that a judge needs for its scores to count.", 1, metavar="M", min=1
    )
    debias: bool = _quality("Correct for position bias measured over the batch.", False)
    standardize: bool = _quality(
        "Bring the judges of a panel to one mean and spread before they are averaged.", False
    )
    blend: float | None = _quality(
        "Mix: W times the judge's score, the rest the original reward; W from 0 to 1.",
        metavar="W",
        min=0.0,
        max=1.0,
    )
    order_by_outcome: bool = _quality(
        "A rollout that failed its check (--outcome, else the reward) never outranks one that passed.", False
    )
    dry_run: bool = _limits(
        "Do what `ruler check INPUT` does: estimate calls and cost, send and write nothing.",
        False,
        variable=False,
    )
    concurrency: int | None = _limits(
        "Calls in flight.  [default: as many as the judge takes]",
        names="--concurrency -c",
        metavar="N",
        min=1,
    )
    rpm: float | None = _limits("Requests per minute.", metavar="N", min=0.01)
    tpm: float | None = _limits("Tokens per minute.", metavar="N", min=1)
    timeout: float = _limits("Deadline per call, seconds.", JudgeSettings().timeout, metavar="S", min=0.001)
    retries: int = _limits(
        "Retries per call; waits at a limit do not count.", PoolSettings().retries, metavar="N", min=0
    )
    spend: Literal["first", "spread"] = _limits(
        "Groups that --max-cost pays for: the first ones of INPUT, or a fair sample of all, drawn by --seed; "
        "the next run goes on with either.",
        "first",
    )
    max_outage: float = _limits(
        "How long a judge that is down is waited for, seconds.",
        PoolSettings().max_outage,
        metavar="S",
        min=0,
    )
    max_failures: str | None = _limits("Stop when more groups and lines than that fail.", metavar="N|P%")
    price: list[str] | None = _limits(
        "USD per million prompt and completion tokens, if it is not known; once, or once for each judge in "
        "order.",
        metavar="IN,OUT",
    )
    ledger: list[str] | None = _limits(
        "File of paid replies; repeat it to read others as well, e.g. of shards.  [default: "
        "ruler/ledger.sqlite in the user's cache directory]",
        metavar="PATH|none",
        variable=False,  # typer would split its value at every space: see `command._options`
    )
    no_cache: bool = _limits("Keep no replies and read none: --ledger none.", False, variable=False)
    retry_failed: bool = _limits("Ask again what failed in an earlier run.", False)
    cached_only: bool = _limits(
        "Ask no judge: score what the ledger answers, and mark the rest as failed.", False
    )
    limit: int | None = _input("The first N groups only, in input order.", metavar="N", min=1, variable=False)
    format_: str = _input(
        "The dump's shape, if it is not to be detected.",
        "auto",
        metavar="auto|NAME",
        autocompletion=_complete_format,
    )
    group_by: str | None = _input("Dotted path of the group key.", metavar="PATH")
    grouping: Literal["auto", "line", "consecutive", "scattered"] = _input(
        "How the records of a group are arranged.", "auto"
    )
    messages: str | None = _input(
        "Dotted path of the messages, or of an answer's text, in a dump that no format fits.", metavar="PATH"
    )
    prompt: str | None = _input(
        "Dotted path of the task's text, for conversations that do not begin with it.", metavar="PATH"
    )
    reward: str | None = _input("Dotted path of the original reward.", metavar="PATH")
    outcome: str | None = _input("Dotted path of a verifier's result.", metavar="PATH")
    max_record: int = _input(
        "Largest record that is read; a larger one counts as unreadable.",
        MAX_RECORD,
        metavar="MIB",
        min=1,
        max=900,  # a record that waits for its turn is a row of SQLite's, which takes 10^9 bytes
    )
    on_failure: Literal["null", "drop", "keep"] = _output(
        "A group that cannot be scored: reward null, record left out, or reward kept.", "null"
    )
    failed: Path | None = _output(
        "File for lines that cannot be read and for dropped records.  [default: OUTPUT.failed.jsonl]",
        metavar="FILE",
        variable=False,
    )
    summary: Path | None = _output("Write the run's summary as JSON.", metavar="FILE", variable=False)
    progress: Literal["auto", "bar", "log", "none"] = _output("Progress on stderr.", "auto")
    quiet: bool = _output("No progress and no summary: --progress none.", False, names="--quiet -q")
    debug: bool = _output("Show each reply.", False)
    shard: str | None = _scale(
        "Judge only the groups of shard I of N; the first is 1. Limits and cost cap hold for this process.",
        metavar="I/N",
    )
    engine: Literal["here", "ray"] = _scale(
        "Judge in this process, or in workers of Ray; OUTPUT is the same.", "here"
    )
    ray_address: str | None = _scale(
        "A running Ray cluster of which this machine is a part.  [default: one is started here]",
        metavar="HOST:PORT",
    )
    ray_workers: int | None = _scale("Workers of Ray.  [default: 2]", metavar="N", min=1)


@dataclass(frozen=True, kw_only=True)
class Options(ScoreOptions):
    """The options of all commands. One that a command does not take has its default.

    `file` is what was read of `ruler.toml`, `origins` the sources of values that are not the defaults.
    """

    file: ConfigFile | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict)
    config: str | None = _option(
        "File with defaults of options and named judges.  [default: ruler.toml, else [tool.ruler] in "
        "pyproject.toml]",
        metavar="FILE|none",
        panel=PANELS[-1],
        is_eager=True,
    )

    def rank(self, name: str) -> int:
        """Return the rank of an option's source, by the option's field."""
        return self.origins.get(name, Origin()).rank

    as_json: bool = _option("Print one JSON object instead.", False, names="--json")
    one_ledger: str | None = _limits(
        "File of paid replies.  [default: ruler/ledger.sqlite in the user's cache directory]",
        names="--ledger",
        metavar="PATH|none",
    )
    labels: str | None = _input(
        "Dotted path of the labels.  [default: the first original reward, else the outcome]", metavar="PATH"
    )
    # check
    batch: bool = _option("Show cost and time in a provider's batch API, too.", False)
    # prompt, report
    group: str | None = _option("Which group.  [default: the first]", metavar="KEY", variable=False)
    pass_: int = _option("Which pass over the group.", 1, metavar="P", min=1, variable=False)
    window: int = _option("Which window of that pass.", 1, metavar="W", min=1, variable=False)
    output: str | None = _option(
        "Write a page for a browser instead: one file, which opens offline.",
        names="--output -o",
        metavar="FILE.html",
        variable=False,
    )
    open_page: bool = _option(
        "Open the page in the browser; without -o it is written to a private temporary file.",
        False,
        names="--open",
        variable=False,
    )
    max_groups: int | None = _option(
        "Groups in FILE.html, the most telling first.  [default: 10000]", metavar="N", min=1
    )
    # select
    where: list[str] | None = _option(
        "Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or "
        "disagreement with labels lies in a range; rollouts whose score does. Both ends belong to it, and "
        "either may be left out. Repeatable: all must hold.",
        metavar="NAME[=LOW..HIGH]",
        variable=False,
        autocompletion=_complete_condition,
    )
    keep: int | None = _option(
        "Of each group at most M rollouts, by --by.", metavar="M", min=1, variable=False
    )
    by: Literal["variance", "score", "majority"] | None = _option(
        "Those whose scores have the greatest variance, the best, or the best of the majority.",
        variable=False,
    )
    answer: str | None = _option("Dotted path of a rollout's answer, for the majority.", metavar="PATH")
    # render, batch, ledger
    target: Literal["auto", "openai", "anthropic", "vllm"] = _option(
        "Format of the requests; auto goes by the judge's name.", "auto"
    )
    wait: bool = _option("Collect until no batch is out.", False)
    wait_timeout: float = _option(
        "Seconds of --wait at most.",
        26 * 3600.0,
        names="--timeout",
        metavar="S",
        min=0.0,
        callback=_finite,
        variable="RULER_WAIT_TIMEOUT",
    )
    settle: float = _option(
        "Seconds in which a batch may still appear at its provider after a crash.",
        120.0,
        metavar="S",
        min=0.0,
        callback=_finite,
    )
    every: bool = _option("Every batch that is out.", False, names="--all", variable=False)
    forget: bool = _option(
        "Give them up without asking the provider; their requests are free at once.", False, variable=False
    )
    older_than: float | None = _option(
        "Only replies older than so many days.  [default: all]",
        metavar="DAYS",
        min=0.0,
        callback=_finite,
        variable=False,
    )
    yes: bool = _option(
        "Remove without asking; needed where stdin is no terminal.", False, names="--yes -y", variable=False
    )
    stats_json: bool = _option(
        "One JSON object, times as ISO 8601, an unknown cost as null.", False, names="--json", variable=False
    )
    imported_model: str | None = _option(
        "Name of the judge in the ledger; its price is looked up by it.  "
        "[default: the model that each reply names]",
        names="--judge-model --model -m",
        metavar="NAME",
        variable=False,
    )
