"""Declare every option of the commands once: its type, default, help and names.

`settings.py` turns the values into settings.
"""

# ruff: noqa: RUF009 - `_option` makes a `dataclasses.field`, which ruff knows by that name only
from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from ruler_cli.cli.messages import report_errors, same_command
from ruler_cli.config import AskSettings, JudgeSettings, PoolSettings

LEDGER_VARIABLE = "RULER_LEDGER"
_JUDGES = (
    "offline", "simulated", "openai/o3", "openai/", "hosted_vllm/", "anthropic/", "azure/", "bedrock/",
    "deepseek/", "gemini/", "groq/", "litellm_proxy/", "mistral/", "ollama_chat/", "openrouter/",
    "together_ai/", "vertex_ai/", "xai/",
)  # fmt: skip
"""Judges without a model, and the most used providers, for the shell's completion."""


def _complete_judge(incomplete: str) -> list[str]:
    return [name for name in _JUDGES if name.startswith(incomplete)]


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


def _option(text: str, default: Any = None, *, names: str = "", **more: Any) -> Any:
    """Declare an option: its help, its default, its names if they differ from the field's, more for typer."""
    return field(default=default, metadata={"help": text, "names": names, **more})


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """The options of `score`, in the order of its help."""

    model: list[str] | None = _option(
        "The judge: openai/…, hosted_vllm/…, any litellm name, `offline` (no model) or `simulated`; "
        "repeat it for a panel.  [default: openai/o3]",
        names="--judge-model -m",
        metavar="NAME",
        autocompletion=_complete_judge,
    )
    api_base: str | None = _option("Chat completions endpoint, up to /v1.", metavar="URL")
    rubric: str | None = _option(
        "Grading standards; a group's own `rubric` wins.",
        metavar="TEXT|@FILE",
        autocompletion=_complete_rubric,
    )
    param: list[str] | None = _option(
        "Extra parameter of the judge call; VALUE is read as JSON where it is JSON. Repeatable.",
        names="--param -p",
        metavar="KEY=VALUE",
    )
    passes: int = _option("Times that a judge scores a group, in orders that balance.", 1, metavar="K", min=1)
    adaptive: bool = _option(
        "Two passes for every group, then where they help, up to --passes on average.", False
    )
    fallback: bool = _option(
        "Ask the judges of -m in turn: the next takes over a group that one refuses.", False
    )
    escalate: str | None = _option(
        "A stronger judge for groups that passes leave neither resolved nor tied.",
        metavar="MODEL",
        autocompletion=_complete_judge,
    )
    single: Literal["flag", "score"] = _option(
        "How to score a group with one distinct rollout: once and flagged, or in every pass.", "flag"
    )
    group_size: int = _option(
        "Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
        AskSettings().group_size,
        metavar="N",
        min=2,
    )
    order: Literal["random", "input"] = _option("Order in which the judge sees the rollouts.", "random")
    seed: int = _option("Seed of order and labels.", 0)
    min_passes: int = _option(
        "Valid passes that a judge needs for its scores to count.", 1, metavar="M", min=1
    )
    debias: bool = _option("Correct for position bias measured over the batch.", False)
    standardize: bool = _option(
        "Bring the judges of a panel to one mean and spread before they are averaged.", False
    )
    blend: float | None = _option(
        "Mix: W times the judge's score, the rest the original reward.", metavar="W", min=0.0, max=1.0
    )
    order_by_outcome: bool = _option(
        "A rollout that failed its check (--outcome, else the reward) never outranks one that passed.", False
    )
    api_key_env: str | None = _option("Name of the variable that holds the key.", metavar="VAR")
    via: Literal["auto", "http", "litellm"] = _option("How the judge is reached.", "auto")
    concurrency: int | None = _option(
        "Calls in flight.  [default: as many as the judge takes]", names="--concurrency -c", min=1
    )
    rpm: float | None = _option("Requests per minute.", metavar="N", min=0.01)
    tpm: float | None = _option("Tokens per minute.", metavar="N", min=1)
    timeout: float = _option("Deadline per call, seconds.", JudgeSettings().timeout, metavar="S", min=0.001)
    retries: int = _option("Retries per call; waits at a limit do not count.", PoolSettings().retries, min=0)
    max_cost: float | None = _option("Stop before spending more.", metavar="USD", min=0)
    price: list[str] | None = _option(
        "USD per million prompt and completion tokens, where it is not known; once, or once for each "
        "judge in order.",
        metavar="IN,OUT",
    )
    group_by: str | None = _option("Dotted path of the group key.", metavar="PATH")
    reward: str | None = _option("Dotted path of the original reward.", metavar="PATH")
    messages: str | None = _option(
        "Dotted path of the messages, or of an answer's text, in a dump that no format fits.", metavar="PATH"
    )
    prompt: str | None = _option(
        "Dotted path of the task's text, for conversations that do not begin with it.", metavar="PATH"
    )
    outcome: str | None = _option("Dotted path of a verifier's result.", metavar="PATH")
    grouping: Literal["auto", "line", "consecutive", "scattered"] = _option(
        "How the records of a group are arranged.", "auto"
    )
    format_: str = _option(
        "The dump's shape, if it is not to be detected.",
        "auto",
        metavar="auto|NAME",
        autocompletion=_complete_format,
    )
    on_failure: Literal["null", "drop", "keep"] = _option(
        "A group that cannot be scored: reward null, record left out, or reward kept.", "null"
    )
    failed: Path | None = _option(
        "File for lines that cannot be read and for dropped records.  [default: OUTPUT.failed.jsonl]",
        metavar="FILE",
    )
    max_failures: str | None = _option("Stop when more groups and lines than that fail.", metavar="N|P%")
    shard: str | None = _option(
        "Judge only the groups of shard I of N; the first is 1. Limits and cost cap hold for this process.",
        metavar="I/N",
    )
    ledger: list[str] | None = _option(
        "File of paid replies; repeat it to read others as well, e.g. of shards.  [default: "
        f"ruler/ledger.sqlite in the user's cache directory]  [env var: {LEDGER_VARIABLE}]",
        metavar="PATH|none",
        envvar=None,  # typer would split the variable's value at every space
    )
    retry_failed: bool = _option("Ask again what failed in an earlier run.", False)
    cached_only: bool = _option(
        "Ask no judge: score what the ledger answers, and mark the rest as failed.", False
    )
    engine: Literal["here", "ray"] = _option(
        "Judge in this process, or in workers of Ray; OUTPUT is the same.", "here"
    )
    ray_address: str | None = _option(
        "A running Ray cluster of which this machine is a part.  [default: one is started here]",
        metavar="HOST:PORT",
    )
    ray_workers: int | None = _option("Workers of Ray.  [default: 2]", metavar="N", min=1)
    summary: Path | None = _option("Write the run's summary as JSON.", metavar="FILE")
    progress: Literal["auto", "bar", "log", "none"] = _option("Progress on stderr.", "auto")
    debug: bool = _option("Show each reply.", False)


@dataclass(frozen=True, kw_only=True)
class Options(ScoreOptions):
    """The options of all commands. One that a command does not take has its default."""

    as_json: bool = _option("Print one JSON object instead.", False, names="--json")
    one_ledger: str | None = _option(
        "File of paid replies.  [default: ruler/ledger.sqlite in the user's cache directory]",
        names="--ledger",
        metavar="PATH|none",
    )
    labels: str | None = _option(
        "Dotted path of the labels.  [default: the first original reward, else the outcome]", metavar="PATH"
    )
    # check
    batch: bool = _option("Show cost and time in a provider's batch API, too.", False)
    # prompt, report
    group: str | None = _option("Which group.  [default: the first]", metavar="KEY")
    pass_: int = _option("Which pass over the group.", 1, metavar="P", min=1)
    window: int = _option("Which window of that pass.", 1, metavar="W", min=1)
    output: str | None = _option(
        "Write a page for a browser instead: one file, which opens offline.",
        names="--output -o",
        metavar="FILE.html",
    )
    open_page: bool = _option(
        "Open the page in the browser; without -o it is written to a private temporary file.",
        False,
        names="--open",
        envvar=None,
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
        autocompletion=_complete_condition,
    )
    keep: int | None = _option("Of each group at most M rollouts, by --by.", metavar="M", min=1)
    by: Literal["variance", "score", "majority"] | None = _option(
        "Those whose scores have the greatest variance, the best, or the best of the majority."
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
        envvar="RULER_WAIT_TIMEOUT",
    )
    settle: float = _option(
        "Seconds in which a batch may still appear at its provider after a crash.",
        120.0,
        metavar="S",
        min=0.0,
        callback=_finite,
    )
    every: bool = _option("Every batch that is out.", False, names="--all", envvar=None)
    forget: bool = _option(
        "Give them up without asking the provider; their requests are free at once.", False, envvar=None
    )
    older_than: float | None = _option(
        "Only replies older than so many days.  [default: all]",
        metavar="DAYS",
        min=0.0,
        callback=_finite,
        envvar=None,
    )
    yes: bool = _option("Do not ask for confirmation on a terminal.", False, names="--yes -y", envvar=None)
    stats_json: bool = _option(
        "One JSON object, times as ISO 8601, an unknown cost as null.", False, names="--json", envvar=None
    )
    imported_model: str | None = _option(
        "Name of the judge in the ledger; its price is looked up by it.  "
        "[default: the model that each reply names]",
        names="--judge-model -m",
        metavar="NAME",
        envvar=None,
    )


SCORE_OPTIONS = " ".join(one.name for one in fields(ScoreOptions))
REQUEST_OPTIONS = (
    "model api_base rubric param passes adaptive fallback escalate single group_size order seed "
    "group_by reward messages prompt outcome grouping format_"
)
"""Options that decide on the requests of a run; `check`, `render` and `batch submit` share them."""
SCORED_OPTIONS = "labels group_by messages prompt grouping format_"
"""Options on how a scored file is read."""
_HINTS = get_type_hints(Options)
_FIELDS = {one.name: one for one in fields(Options)}


def _typer_parameter(name: str, text: str | None) -> inspect.Parameter:
    """Return a field of Options as typer reads it in a signature, with another help if it is given."""
    more = dict(_FIELDS[name].metadata)
    more["help"] = text or more["help"]
    names = more.pop("names").split() or [f"--{name.rstrip('_').replace('_', '-')}"]
    variable = "RULER_" + names[0].removeprefix("--").replace("-", "_").upper()
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=_FIELDS[name].default,
        annotation=Annotated[_HINTS[name], typer.Option(*names, **{"envvar": variable, **more})],
    )


def with_options(
    names: str, *, resumes: bool = False, **texts: str
) -> Callable[[Callable[..., int]], Callable[..., None]]:
    """Give a command options, by the names of fields, in this order; its result is the exit code.

    The command gets them in its parameter `options`; its other parameters stand in front, as arguments do.
    `texts` is the help, by name, of options that differ from those of other commands in nothing else. An
    error is printed as one sentence; for a command that `resumes`, another names the command to go on with.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., None]:
        arguments = dict(inspect.signature(command, eval_str=True).parameters)
        del arguments["options"]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            options = Options(**{name: values.pop(name) for name in names.split()})
            with report_errors(same_command(*values.values()) if resumes else None):
                raise typer.Exit(command(options=options, **values))

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
            [
                *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in arguments.values()),
                *(_typer_parameter(name, texts.get(name)) for name in names.split()),
            ]
        )
        return run

    return decorate
