"""Declare the options of `ruler score` in groups, which the other commands share.

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


def _complete_rubric(incomplete: str) -> list[str]:
    """Complete the name of a file behind `@`."""
    import glob

    if not incomplete.startswith("@"):
        return []
    return ["@" + name for name in glob.glob(glob.escape(incomplete[1:]) + "*")]  # noqa: PTH207 - keeps `./`


def finite(value: float | None) -> float | None:
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
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="VAR", envvar="RULER_API_KEY_ENV", help="Name of the variable that holds the key."),
]
LedgerPath = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        envvar=LEDGER_VARIABLE,
        help="File of paid replies.  [default: ruler/ledger.sqlite in the user's cache directory]",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        envvar="RULER_LABELS",
        help="Dotted path of the labels.  [default: the first original reward, else the outcome]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", envvar="RULER_JSON", help="Print one JSON object instead.")]


def _option(default: Any, text: str, *names: str, **more: Any) -> Any:
    """Declare an option: its default, its help, its names if they differ from the field's, more for typer."""
    return field(default=default, metadata={"help": text, "names": names, **more})


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Options that name the judges and what they are told."""

    model: list[str] | None = _option(
        None,
        "The judge: openai/…, hosted_vllm/…, any litellm name, `offline` (no model) or `simulated`; "
        "repeat it for a panel.  [default: openai/o3]",
        "--judge-model",
        "-m",
        metavar="NAME",
        autocompletion=_complete_judge,
    )
    api_base: str | None = _option(None, "Chat completions endpoint, up to /v1.", metavar="URL")
    rubric: str | None = _option(
        None,
        "Grading standards; a group's own `rubric` wins.",
        metavar="TEXT|@FILE",
        autocompletion=_complete_rubric,
    )
    param: list[str] | None = _option(
        None,
        "Extra parameter of the judge call; VALUE is read as JSON where it is JSON. Repeatable.",
        "--param",
        "-p",
        metavar="KEY=VALUE",
    )


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """Options on how often, in which order and by which judges a group is scored."""

    passes: int = _option(1, "Times that a judge scores a group, in orders that balance.", metavar="K", min=1)
    adaptive: bool = _option(
        False, "Two passes for every group, then where they help, up to --passes on average."
    )
    fallback: bool = _option(
        False, "Ask the judges of -m in turn: the next takes over a group that one refuses."
    )
    escalate: str | None = _option(
        None,
        "A stronger judge for groups that passes leave neither resolved nor tied.",
        metavar="MODEL",
        autocompletion=_complete_judge,
    )
    single: Literal["flag", "score"] = _option(
        "flag", "How to score a group with one distinct rollout: once and flagged, or in every pass."
    )
    group_size: int = _option(
        AskSettings().group_size,
        "Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
        metavar="N",
        min=2,
    )
    order: Literal["random", "input"] = _option("random", "Order in which the judge sees the rollouts.")
    seed: int = _option(0, "Seed of order and labels.")


@dataclass(frozen=True, kw_only=True)
class CombineOptions:
    """Options on how replies become scores; to change them costs no call."""

    min_passes: int = _option(
        1, "Valid passes that a judge needs for its scores to count.", metavar="M", min=1
    )
    debias: bool = _option(False, "Correct for position bias measured over the batch.")
    standardize: bool = _option(
        False, "Bring the judges of a panel to one mean and spread before they are averaged."
    )
    blend: float | None = _option(
        None, "Mix: W times the judge's score, the rest the original reward.", metavar="W", min=0.0, max=1.0
    )
    order_by_outcome: bool = _option(
        False, "A rollout that failed its check (--outcome, else the reward) never outranks one that passed."
    )


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Options on how the judge is reached, and on the limits and the cost of calls."""

    api_key_env: ApiKeyEnv = None
    via: Literal["auto", "http", "litellm"] = _option("auto", "How the judge is reached.")
    concurrency: int | None = _option(
        None, "Calls in flight.  [default: as many as the judge takes]", "--concurrency", "-c", min=1
    )
    rpm: float | None = _option(None, "Requests per minute.", metavar="N", min=0.01)
    tpm: float | None = _option(None, "Tokens per minute.", metavar="N", min=1)
    timeout: float = _option(JudgeSettings().timeout, "Deadline per call, seconds.", metavar="S", min=0.001)
    retries: int = _option(PoolSettings().retries, "Retries per call; waits at a limit do not count.", min=0)
    max_cost: float | None = _option(None, "Stop before spending more.", metavar="USD", min=0)
    price: list[str] | None = _option(
        None,
        "USD per million prompt and completion tokens, where it is not known; once, or once for each "
        "judge in order.",
        metavar="IN,OUT",
    )


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Options on how INPUT is read and grouped."""

    group_by: str | None = _option(None, "Dotted path of the group key.", metavar="PATH")
    reward: str | None = _option(None, "Dotted path of the original reward.", metavar="PATH")
    messages: str | None = _option(
        None,
        "Dotted path of the messages, or of an answer's text, in a dump that no format fits.",
        metavar="PATH",
    )
    prompt: str | None = _option(
        None, "Dotted path of the task's text, for conversations that do not begin with it.", metavar="PATH"
    )
    outcome: str | None = _option(None, "Dotted path of a verifier's result.", metavar="PATH")
    grouping: Literal["auto", "line", "consecutive", "scattered"] = _option(
        "auto", "How the records of a group are arranged."
    )
    format_: str = _option(
        "auto",
        "The dump's shape, if it is not to be detected.",
        metavar="auto|NAME",
        autocompletion=_complete_format,
    )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options on groups and lines that are not scored."""

    on_failure: Literal["null", "drop", "keep"] = _option(
        "null", "A group that cannot be scored: reward null, record left out, or reward kept."
    )
    failed: Path | None = _option(
        None,
        "File for lines that cannot be read and for dropped records.  [default: OUTPUT.failed.jsonl]",
        metavar="FILE",
    )
    max_failures: str | None = _option(
        None, "Stop when more groups and lines than that fail.", metavar="N|P%"
    )


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Options on the requests that are sent: those of a shard, and those that no ledger answers."""

    shard: str | None = _option(
        None,
        "Judge only the groups of shard I of N; the first is 1. Limits and cost cap hold for this process.",
        metavar="I/N",
    )
    ledger: list[str] | None = _option(
        None,
        "File of paid replies; repeat it to read others as well, e.g. of shards.  [default: "
        f"ruler/ledger.sqlite in the user's cache directory]  [env var: {LEDGER_VARIABLE}]",
        metavar="PATH|none",
        envvar=None,  # typer would split the variable's value at every space
    )
    retry_failed: bool = _option(False, "Ask again what failed in an earlier run.")
    cached_only: bool = _option(
        False, "Ask no judge: score what the ledger answers, and mark the rest as failed."
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options on the machines of a run and on its report."""

    engine: Literal["here", "ray"] = _option(
        "here", "Judge in this process, or in workers of Ray; OUTPUT is the same."
    )
    ray_address: str | None = _option(
        None,
        "A running Ray cluster of which this machine is a part.  [default: one is started here]",
        metavar="HOST:PORT",
    )
    ray_workers: int | None = _option(None, "Workers of Ray.  [default: 2]", metavar="N", min=1)
    summary: Path | None = _option(None, "Write the run's summary as JSON.", metavar="FILE")
    progress: Literal["auto", "bar", "log", "none"] = _option("auto", "Progress on stderr.")
    debug: bool = _option(False, "Show each reply.")


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(
    JudgeOptions,
    PassOptions,
    CombineOptions,
    CallOptions,
    InputOptions,
    OutputOptions,
    LedgerOptions,
    RunOptions,
):
    """The options of `score`. One that a command leaves out has its default."""


OPTION_GROUPS = ScoreOptions.__bases__
"""In the order of `ruler score --help`."""
REQUEST_OPTIONS = (JudgeOptions, PassOptions, InputOptions)
"""Groups that decide on the requests of a run; `check`, `render` and `batch submit` share them."""


_HINTS = get_type_hints(ScoreOptions, include_extras=True)
_FIELDS = {one.name: one for one in fields(ScoreOptions)}


def _typer_parameter(name: str, text: str | None) -> inspect.Parameter:
    """Return a field of ScoreOptions as typer reads it in a signature, with another help if it is given."""
    hint, more = _HINTS[name], dict(_FIELDS[name].metadata)
    if more:
        more["help"] = text or more["help"]
        names = more.pop("names") or (f"--{name.rstrip('_').replace('_', '-')}",)
        variable = "RULER_" + names[0].removeprefix("--").replace("-", "_").upper()
        hint = Annotated[hint, typer.Option(*names, **{"envvar": variable, **more})]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=_FIELDS[name].default, annotation=hint
    )


def with_options(
    *groups: type[Any] | str, **texts: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options in the order of `groups`: groups of ScoreOptions, and names of single options.

    A name that is a parameter of the command is its own option. The command gets the others in `options`, a
    ScoreOptions. Its parameters that are not named stand in front, as arguments do. `texts` is the help, by
    name, of options that differ from those of `score` in nothing else.
    """
    named = list[str]()
    for group in groups:
        named += group.split() if isinstance(group, str) else [one.name for one in fields(group)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["options"]
        shared = [name for name in named if name not in own]
        parameters = [
            *(parameter for name, parameter in own.items() if name not in named),
            *(own.get(name) or _typer_parameter(name, texts.get(name)) for name in named),
        ]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            options = ScoreOptions(**{name: values.pop(name) for name in shared})
            command(options=options, **values)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return run

    return decorate
