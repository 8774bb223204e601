"""Declare every option of the commands once: its type, default, help and names.

`run_settings.py` turns the values into settings, `cli/command.py` the table into options of typer.
"""

# ruff: noqa: RUF009 - `_option` makes a `dataclasses.field`, which ruff knows by that name only
from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_type_hints

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.models import (
    MAX_RECORD,
    AskSettings,
    JudgeSettings,
    PoolSettings,
)

if TYPE_CHECKING:
    from ruler_cli.settings.file import ConfigFile
    from ruler_cli.settings.values import OptionType

PANELS = (
    "",
    "Judge",
    "Quality",
    "Limits and cost",
    "Input",
    "Output",
    "Scale",
    "Other",
)
"""The sections of a command's help, in their order."""


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
        metadata={
            "help": text,
            "names": names,
            "rich_help_panel": panel,
            "envvar": variable,
            **more,
        },
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
    )
    api_base: str | None = _option(
        "Chat completions endpoint, up to /v1.", metavar="URL"
    )
    passes: int = _option(
        "Times that a judge scores a group, in orders that balance.",
        1,
        metavar="K",
        min=1,
    )
    max_cost: float | None = _option("Stop before spending more.", metavar="USD", min=0)
    rubric: str | None = _option(
        "Grading standards; a group's own `rubric` wins.",
        metavar="TEXT|@FILE",
    )
    param: list[str] | None = _judge(
        "Extra parameter of the judge call; VALUE is read as JSON if it is JSON. Repeatable.",
        names="--param -p",
        metavar="KEY=VALUE",
    )
    api_key_env: str | None = _judge(
        "Name of the variable that holds the key.", metavar="VAR"
    )
    via: Literal["auto", "http", "litellm"] = _judge(
        "How the judge is reached.", "auto"
    )
    fallback: bool = _judge(
        "Ask the judges of -m in turn: the next takes over a group that one refuses.",
        False,
    )
    escalate: str | None = _judge(
        "A stronger judge for groups still unclear after all passes.",
        metavar="NAME",
    )
    adaptive: bool = _quality(
        "Two passes for every group, then where they help, up to --passes on average.",
        False,
    )
    order: Literal["random", "input"] = _quality(
        "Order in which the judge sees the rollouts.", "random"
    )
    seed: int = _quality("Seed of order and labels.", 0, metavar="N")
    group_size: int = _quality(
        "Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
        AskSettings().group_size,
        metavar="N",
        min=2,
    )
    single: Literal["flag", "score"] = _quality(
        "How to score a group with one distinct rollout: once and flagged, or in every pass.",
        "flag",
    )
    min_passes: int = _quality(
        "Valid passes that a judge needs for its scores to count.",
        1,
        metavar="M",
        min=1,
    )
    debias: bool = _quality("Correct for position bias measured over the batch.", False)
    standardize: bool = _quality(
        "Bring the judges of a panel to one mean and spread before they are averaged.",
        False,
    )
    blend: float | None = _quality(
        "Mix: W times the judge's score, the rest the original reward; W from 0 to 1.",
        metavar="W",
        min=0.0,
        max=1.0,
    )
    order_by_outcome: bool = _quality(
        "A rollout that failed its check (--outcome, else the reward) never outranks one that passed.",
        False,
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
    timeout: float = _limits(
        "Deadline per call, seconds.", JudgeSettings().timeout, metavar="S", min=0.001
    )
    retries: int = _limits(
        "Retries per call; waits at a limit do not count.",
        PoolSettings().retries,
        metavar="N",
        min=0,
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
    wait_for_judge: float = _limits(
        "How long a judge that is not up yet is waited for, seconds.",
        PoolSettings().wait_for_judge,
        metavar="S",
        min=0,
    )
    hedge: bool = _limits(
        "Ask a second time what takes longer than 95 % of the calls do, and take the first answer: for steps "
        "that wait for their slowest call.",
        False,
    )
    max_failures: str | None = _limits(
        "Stop when more groups and lines than that fail.", metavar="N|P%"
    )
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
    no_cache: bool = _limits(
        "Keep no replies and read none: --ledger none.", False, variable=False
    )
    retry_failed: bool = _limits("Ask again what failed in an earlier run.", False)
    cached_only: bool = _limits(
        "Ask no judge: score what the ledger answers, and mark the rest as failed.",
        False,
    )
    limit: int | None = _input(
        "The first N groups only, in input order.", metavar="N", min=1, variable=False
    )
    format_: str = _input(
        "The dump's shape, if it is not to be detected.",
        "auto",
        metavar="auto|NAME",
    )
    group_by: str | None = _input("Dotted path of the group key.", metavar="PATH")
    grouping: Literal["auto", "line", "consecutive", "scattered"] = _input(
        "How the records of a group are arranged.", "auto"
    )
    messages: str | None = _input(
        "Dotted path of the messages, or of an answer's text, in a dump that no format fits.",
        metavar="PATH",
    )
    prompt: str | None = _input(
        "Dotted path of the task's text, for conversations that do not begin with it.",
        metavar="PATH",
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
        "A group that cannot be scored: reward null, record left out, or reward kept.",
        "null",
    )
    failed: Path | None = _output(
        "File for lines that cannot be read and for dropped records.  [default: OUTPUT.failed.jsonl]",
        metavar="FILE",
        variable=False,
    )
    summary: Path | None = _output(
        "Write the run's summary as JSON.", metavar="FILE", variable=False
    )
    progress: Literal["auto", "bar", "log", "none"] = _output(
        "Progress on stderr.", "auto"
    )
    quiet: bool = _output(
        "No progress and no summary: --progress none.", False, names="--quiet -q"
    )
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
    ray_workers: int | None = _scale(
        "Workers of Ray.  [default: 2]", metavar="N", min=1
    )


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
        "Dotted path of the labels.  [default: the first original reward, else the outcome]",
        metavar="PATH",
    )
    # check
    batch: bool = _option("Show cost and time in a provider's batch API, too.", False)
    # prompt, report
    group: str | None = _option(
        "Which group.  [default: the first]", metavar="KEY", variable=False
    )
    pass_: int = _option(
        "Which pass over the group.", 1, metavar="P", min=1, variable=False
    )
    window: int = _option(
        "Which window of that pass.", 1, metavar="W", min=1, variable=False
    )
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
        "Groups in FILE.html, the most telling first.  [default: 10000]",
        metavar="N",
        min=1,
    )
    # select
    where: list[str] | None = _option(
        "Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or "
        "disagreement with labels lies in a range; rollouts whose score does. Both ends belong to it, and "
        "either may be left out. Repeatable: all must hold.",
        metavar="NAME[=LOW..HIGH]",
        variable=False,
    )
    keep: int | None = _option(
        "Of each group at most M rollouts, by --by.", metavar="M", min=1, variable=False
    )
    by: Literal["variance", "score", "majority"] | None = _option(
        "Those whose scores have the greatest variance, the best, or the best of the majority.",
        variable=False,
    )
    answer: str | None = _option(
        "Dotted path of a rollout's answer, for the majority.", metavar="PATH"
    )
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
        finite=True,
        variable="RULER_WAIT_TIMEOUT",
    )
    settle: float = _option(
        "Seconds in which a batch may still appear at its provider after a crash.",
        120.0,
        metavar="S",
        min=0.0,
        finite=True,
    )
    every: bool = _option(
        "Every batch that is out.", False, names="--all", variable=False
    )
    forget: bool = _option(
        "Give them up without asking the provider; their requests are free at once.",
        False,
        variable=False,
    )
    older_than: float | None = _option(
        "Only replies older than so many days.  [default: all]",
        metavar="DAYS",
        min=0.0,
        finite=True,
        variable=False,
    )
    yes: bool = _option(
        "Remove without asking; needed where stdin is no terminal.",
        False,
        names="--yes -y",
        variable=False,
    )
    stats_json: bool = _option(
        "One JSON object, times as ISO 8601, an unknown cost as null.",
        False,
        names="--json",
        variable=False,
    )
    imported_model: str | None = _option(
        "Name of the judge in the ledger; its price is looked up by it.  "
        "[default: the model that each reply names]",
        names="--judge-model --model -m",
        metavar="NAME",
        variable=False,
    )


_REQUEST = (
    "model api_base passes rubric param fallback escalate adaptive order seed group_size single "
    "limit format_ group_by grouping messages prompt reward outcome max_record"
)
"""Options that decide on the requests of a run; `check`, `render` and `batch submit` share them."""
_SCORED = "labels format_ group_by grouping messages prompt max_record"
"""Options on how a scored file is read."""
COMMANDS = {
    "score": " ".join(one.name for one in fields(ScoreOptions)),
    "check": f"{_REQUEST} api_key_env via price ledger no_cache batch as_json",
    "prompt": "group pass_ window model api_base passes rubric order seed group_size single "
    "limit format_ group_by grouping messages prompt max_record",
    "render": f"target {_REQUEST} shard ledger no_cache retry_failed",
    "agree": f"{_SCORED} as_json",
    "report": f"output open_page group as_json max_groups one_ledger {_SCORED}",
    "select": f"where keep by answer {_SCORED}",
    "ledger path": "one_ledger",
    "ledger stats": "one_ledger stats_json",
    "ledger clear": "one_ledger older_than yes",
    "ledger import": "one_ledger imported_model as_json",
    "batch submit": f"{_REQUEST} api_key_env max_cost price one_ledger retry_failed wait wait_timeout settle",
    "batch status": "one_ledger api_key_env every as_json settle",
    "batch collect": "one_ledger api_key_env wait wait_timeout settle",
    "batch cancel": "every forget one_ledger api_key_env settle",
}
"""Each command with the fields of its options, beside `config`, which every one has."""
HINTS = get_type_hints(Options, localns={"ConfigFile": object})
COMMAND_ONLY = frozenset(
    ("dry_run", "summary", "quiet", "progress", "engine", "ray_address", "ray_workers")
)  # fmt: skip
"""Options of `score` that are for the command line."""


class SettingsOptions(TypedDict, total=False):
    """The options that `settings` takes: those of `score` by their long names, and `config`.

    None counts as not given, but `ledger=None` keeps no replies.
    """

    judge_model: str | Sequence[str] | None
    model: str | Sequence[str] | None
    api_base: str | None
    passes: int | None
    max_cost: float | None
    rubric: str | None
    param: Mapping[str, Any] | Sequence[str] | str | None
    api_key_env: str | None
    via: Literal["auto", "http", "litellm"] | None
    fallback: bool | None
    escalate: str | None
    adaptive: bool | None
    order: Literal["random", "input"] | None
    seed: int | None
    group_size: int | None
    single: Literal["flag", "score"] | None
    min_passes: int | None
    debias: bool | None
    standardize: bool | None
    blend: float | None
    order_by_outcome: bool | None
    concurrency: int | None
    rpm: float | None
    tpm: float | None
    timeout: float | None
    retries: int | None
    spend: Literal["first", "spread"] | None
    max_outage: float | None
    wait_for_judge: float | None
    hedge: bool | None
    max_failures: float | str | None
    price: tuple[float, float] | Sequence[tuple[float, float] | str] | str | None
    ledger: str | Path | Sequence[str | Path] | None
    no_cache: bool | None
    retry_failed: bool | None
    cached_only: bool | None
    limit: int | None
    format: str | None
    group_by: str | None
    grouping: Literal["auto", "line", "consecutive", "scattered"] | None
    messages: str | None
    prompt: str | None
    reward: str | None
    outcome: str | None
    max_record: int | None
    on_failure: Literal["null", "drop", "keep"] | None
    failed: str | Path | None
    debug: bool | None
    shard: str | None
    config: str | Path | None


PATHS = ("failed", "summary")
"""Options whose values are paths."""
FIELDS = {one.name: one for one in fields(Options) if one.metadata}


def option_names(name: str) -> list[str]:
    """Return the names of an option, by its field, e.g. `--judge-model`, `--model` and `-m`."""
    return FIELDS[name].metadata["names"].split() or [
        f"--{name.rstrip('_').replace('_', '-')}"
    ]


def variables_of(name: str) -> list[str]:
    """Return the variables of an option, by its field: one for each of its long names."""
    variable = FIELDS[name].metadata["envvar"]
    if variable is True:
        return [
            f"RULER_{long[2:].replace('-', '_').upper()}" for long in long_names(name)
        ]
    return [variable] if variable else []


def long_names(name: str) -> list[str]:
    """Return the names of an option that begin with `--`, by its field."""
    return [one for one in option_names(name) if one.startswith("--")]


def option_types() -> dict[str, dict[str, OptionType]]:
    """Return the options of every command by their names in the file, with their types."""
    from ruler_cli.settings.values import OptionType

    def one(field: str) -> OptionType:
        more = FIELDS[field].metadata
        return OptionType(
            field,
            HINTS[field],
            more.get("min"),
            more.get("max"),
            more.get("finite", False),
        )

    return {
        command: {
            long[2:].replace("-", "_"): one(field)
            for field in names.split()
            for long in long_names(field)
        }
        for command, names in COMMANDS.items()
    }


def load_file(given: str | None) -> ConfigFile | None:
    """Read the file of settings; None if there is none. UsageError for a mistake in it."""
    if given is None and not (os.path.isfile("ruler.toml") or _in_pyproject()):  # noqa: PTH113 - no import
        return None
    from ruler_cli.settings.file import find_file, read_file

    path = find_file(given)
    file = None if path is None else read_file(path, option_types())
    if file is None and given not in (None, "none"):
        remedy = "name a file with settings, or `none`"
        raise UsageError(
            "has no table [tool.ruler]", remedy, option="config", value=given
        )
    return file


def _in_pyproject() -> bool:
    """Tell if `pyproject.toml` here has a table of ours; most have none, and are not parsed."""
    try:
        with open("pyproject.toml", "rb") as file:  # noqa: PTH123 - as above
            return re.search(rb"\btool\b(?s:.*)\bruler\b", file.read()) is not None
    except OSError:
        return False


def without_aliases(options: Options) -> Options:
    """Write options that stand for others as these; UsageError if they contradict one another."""
    pairs = (("quiet", "progress"), ("no_cache", "ledger"))
    lost: dict[str, Any] = {
        one: False for one, other in pairs if options.rank(one) < options.rank(other)
    }
    origins = {
        field: origin for field, origin in options.origins.items() if field not in lost
    }
    options = replace(options, **lost, origins=origins)
    if options.quiet:
        origins["progress"] = options.origins.get("quiet", Origin())
        options = replace(options, progress="none", origins=origins)
    if options.no_cache:
        same = options.rank("no_cache") == options.rank("ledger")
        if same and options.ledger and options.ledger != ["none"]:
            problem = Sentence(
                "keeps nothing, so no {ledger:{path}} goes with it",
                path=options.ledger[0],
            )
            raise UsageError(problem, "leave one out", option="no_cache")
        if options.cached_only:
            problem = Sentence("the answers of {cached_only} are in the ledger")
            raise UsageError(problem, "leave one out", option="no_cache")
        origins["ledger"] = options.origins.get("no_cache", Origin())
        options = replace(options, ledger=["none"], origins=origins)
    return options
