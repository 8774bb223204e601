"""The options of `ruler score`, declared once, from which the other commands take those they share."""

# ruff: noqa: RUF009 - `_option` makes a `dataclasses.field`, which ruff knows by that name only
from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from ruler_cli.cli import option_values, ray_options
from ruler_cli.cli.contradictions import refuse_contradictions
from ruler_cli.config import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
    shard_of,
)

_JUDGES = (
    "offline", "simulated", "openai/o3", "openai/", "hosted_vllm/", "anthropic/", "azure/", "bedrock/",
    "deepseek/", "gemini/", "groq/", "litellm_proxy/", "mistral/", "ollama_chat/", "openrouter/",
    "together_ai/", "vertex_ai/", "xai/",
)  # fmt: skip
"""Judges without a model, and the providers that are used most, for a shell to offer."""


def _some_judges(incomplete: str) -> list[str]:
    return [name for name in _JUDGES if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    from ruler_cli.formats.detect import families

    return [name for name in ("auto", *families()) if name.startswith(incomplete)]


def _rubrics(incomplete: str) -> list[str]:
    """Files behind `@`; a text is its writer's own."""
    import glob

    if not incomplete.startswith("@"):
        return []
    return ["@" + name for name in glob.glob(glob.escape(incomplete[1:]) + "*")]  # noqa: PTH207 - keeps `./`


def finite(value: float | None) -> float | None:
    """Refuse `nan` and `inf`, which pass every bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number that can be meant; give one such as 60")
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
    str, typer.Argument(metavar="SCORED", help="What `ruler score` wrote, in any format; `-` is stdin.")
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="VAR", envvar="RULER_API_KEY_ENV", help="Name of the variable that holds the key."),
]
LedgerPath = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        envvar="RULER_LEDGER",
        help="Where paid replies are kept.  [default: ruler/ledger.sqlite in the user's cache directory]",
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
    """Declare an option: its default, its help, its names if they are not the field's, and more for typer."""
    return field(default=default, metadata={"help": text, "names": names, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """The options of `score`, in the order of its help. One that a command leaves out has its default."""

    model: list[str] | None = _option(
        None,
        "The judge: openai/…, hosted_vllm/…, any litellm name, `offline` (no model) or `simulated`; "
        "repeat it for a panel.  [default: openai/o3]",
        "--judge-model",
        "-m",
        metavar="NAME",
        autocompletion=_some_judges,
    )
    api_base: str | None = _option(None, "Chat completions endpoint, up to /v1.", metavar="URL")
    api_key_env: ApiKeyEnv = None
    rubric: str | None = _option(
        None,
        "Grading standards; a group's own `rubric` wins.",
        metavar="TEXT|@FILE",
        autocompletion=_rubrics,
    )
    param: list[str] | None = _option(
        None,
        "Extra parameter of the judge call; VALUE is read as JSON where it is JSON. Repeatable.",
        "--param",
        "-p",
        metavar="KEY=VALUE",
    )
    passes: int = _option(1, "Times that a judge scores a group, in orders that balance.", metavar="K", min=1)
    min_passes: int = _option(
        1, "Valid passes that a judge must have brought for its scores to count.", metavar="M", min=1
    )
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
        autocompletion=_some_judges,
    )
    debias: bool = _option(False, "Subtract what the batch shows that a place is worth.")
    standardize: bool = _option(
        False, "Bring the judges of a panel to one mean and spread before they are averaged."
    )
    blend: float | None = _option(
        None, "Mix: W times the judge's score, the rest the original reward.", metavar="W", min=0.0, max=1.0
    )
    order_by_outcome: bool = _option(
        False, "A rollout that failed its check (--outcome, else the reward) never outranks one that passed."
    )
    single: Literal["flag", "score"] = _option(
        "flag", "A rollout with nothing to compare: asked about once and flagged, or scored in every pass."
    )
    group_size: int = _option(
        AskSettings().group_size,
        "Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
        metavar="N",
        min=2,
    )
    order: Literal["random", "input"] = _option("random", "Order in which the judge sees the rollouts.")
    seed: int = _option(0, "Seed of order and labels.")
    concurrency: int | None = _option(
        None, "Calls in flight.  [default: as many as the judge takes]", "--concurrency", "-c", min=1
    )
    rpm: float | None = _option(None, "Requests per minute.", metavar="N", min=0.01)
    tpm: float | None = _option(None, "Tokens per minute.", metavar="N", min=1)
    timeout: float = _option(JudgeSettings().timeout, "Deadline per call, seconds.", metavar="S", min=0.001)
    retries: int = _option(
        PoolSettings().retries, "Retries per call; waits at a limit are no retries.", min=0
    )
    max_cost: float | None = _option(None, "Stop before spending more.", metavar="USD", min=0)
    price: list[str] | None = _option(
        None,
        "USD per million prompt and completion tokens, where it is not known; once, or once for each "
        "judge in order.",
        metavar="IN,OUT",
    )
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
    outcome: str | None = _option(None, "Dotted path of what a verifier said.", metavar="PATH")
    grouping: Literal["auto", "line", "consecutive", "scattered"] = _option(
        "auto", "How the records of a group lie."
    )
    format_: str = _option(
        "auto",
        "The dump's shape, where it shall not be found by looking.",
        metavar="auto|NAME",
        autocompletion=_formats,
    )
    on_failure: Literal["null", "drop", "keep"] = _option(
        "null", "A group that cannot be scored: reward null, record left out, or reward kept."
    )
    failed: Path | None = _option(
        None,
        "Where lines that cannot be read and dropped records go.  [default: OUTPUT.failed.jsonl]",
        metavar="FILE",
    )
    max_failures: str | None = _option(
        None, "Stop when more groups and lines than that fail.", metavar="N|P%"
    )
    shard: str | None = _option(
        None,
        "Judge only the groups of shard I of N; the first is 1. Limits and cost cap are this process's.",
        metavar="I/N",
    )
    ledger: list[str] | None = _option(
        None,
        "Where paid replies are kept; repeat it to read others as well, e.g. of shards.  [default: "
        f"ruler/ledger.sqlite in the user's cache directory]  [env var: {option_values.LEDGER_VARIABLE}]",
        metavar="PATH|none",
        envvar=None,  # typer would split what the variable holds at every space
    )
    retry_failed: bool = _option(False, "Ask again what failed in an earlier run.")
    cached_only: bool = _option(
        False, "Ask no judge: score what the ledger answers, and mark the rest as failed."
    )
    via: Literal["auto", "http", "litellm"] = _option("auto", "How the judge is reached.")
    summary: Path | None = _option(None, "Write the run's summary as JSON.", metavar="FILE")
    progress: Literal["auto", "bar", "log", "none"] = _option("auto", "What stderr shows while it runs.")
    engine: ray_options.Engine = "here"
    ray_address: ray_options.Address = None
    ray_workers: ray_options.Workers = None
    debug: bool = _option(False, "Show each reply.")

    def input(self, source: str, *, labels: str | None = None, scored: bool = False) -> InputSettings:
        """Where records stand; in a scored file the labels stand in place of the outcome."""
        return InputSettings(
            source,
            self.format_,
            self.grouping,
            self.group_by,
            self.reward,
            self.messages,
            labels if scored else self.outcome,
            "--labels" if scored else "--outcome",
            None if self.shard is None else shard_of(self.shard),
            self.prompt,
        )

    def settings(self, source: str, output: str = "") -> ScoreSettings:
        """A run of `score` with these options; UsageError for what cannot be meant."""
        usual = JudgeSettings(
            api_base=self.api_base,
            api_key_env=self.api_key_env,
            via=self.via,
            params=option_values.params(self.param),
            timeout=self.timeout,
        )
        names = option_values.judges(self.model, self.escalate, fallback=self.fallback)
        prices = option_values.prices(self.price, len(names))
        judges = [replace(usual, model=name, price=each) for name, each in zip(names, prices, strict=True)]
        stronger = None if self.escalate is None else judges.pop()
        ledger, others = option_values.ledgers(self.ledger)
        settings = ScoreSettings(
            self.input(source),
            output,
            judges[0],
            AskSettings(
                option_values.rubric(self.rubric),
                self.order,
                self.seed,
                None,
                self.passes,
                self.group_size,
                self.single,
            ),
            PoolSettings(self.concurrency, self.rpm, self.tpm, self.retries, self.max_cost),
            self.on_failure,
            self.failed,
            option_values.max_failures(self.max_failures),
            ledger,
            self.retry_failed,
            debug=self.debug,
            combine=CombineSettings(
                self.min_passes, self.debias, self.standardize, self.blend, self.order_by_outcome, self.single
            ),
            panel=tuple(judges[1:]),
            fallback=self.fallback,
            adaptive=self.adaptive,
            escalate=stronger,
            cached_only=self.cached_only,
            ledgers=others,
        )
        refuse_contradictions(settings)
        return settings


def _parameters() -> dict[str, inspect.Parameter]:
    """Each field of ScoreOptions as typer reads it in a signature."""
    hints = get_type_hints(ScoreOptions, include_extras=True)
    found = {}
    for one in fields(ScoreOptions):
        hint, more = hints[one.name], dict(one.metadata)
        if more:
            names = more.pop("names") or (f"--{one.name.rstrip('_').replace('_', '-')}",)
            variable = "RULER_" + names[0].removeprefix("--").replace("-", "_").upper()
            hint = Annotated[hint, typer.Option(*names, **{"envvar": variable, **more})]
        found[one.name] = inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hint
        )
    return found


_SHARED = _parameters()


def with_options(names: str = " ".join(_SHARED)) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options in the order of `names`, its own and those of `score`.

    A name that is a parameter of the command is its own option; the others reach it in `options`, a
    ScoreOptions. Parameters that are not named stand in front, as arguments do.
    """
    named = names.split()

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["options"]
        shared = [name for name in named if name not in own]
        every = [*(name for name in own if name not in named), *named]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            options = ScoreOptions(**{name: values.pop(name) for name in shared})
            command(options=options, **values)

        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
            [(_SHARED | own)[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in every]
        )
        return run

    return decorate
