"""The options that commands share, each with its variable, and how texts become settings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ruler_cli.cli import units
from ruler_cli.errors import UsageError
from ruler_cli.settings import JudgeSettings, MaxFailures

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


Source = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="JSON lines or a JSON document, plain, .gz or .zst; .eval, Parquet; a directory, a pattern; "
        "`-` is stdin.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--judge-model",
        "-m",
        metavar="NAME",
        envvar="RULER_JUDGE_MODEL",
        autocompletion=_some_judges,
        help="The judge: openai/…, hosted_vllm/…, any litellm name, `offline` (no model) or `simulated`; "
        "repeat it for a panel.  [default: openai/o3]",
    ),
]
ApiBase = Annotated[
    str | None,
    typer.Option(metavar="URL", envvar="RULER_API_BASE", help="Chat completions endpoint, up to /v1."),
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="VAR", envvar="RULER_API_KEY_ENV", help="Name of the variable that holds the key."),
]
Via = Annotated[
    Literal["auto", "http", "litellm"],
    typer.Option(envvar="RULER_VIA", help="How the judge is reached."),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="KEY=VALUE",
        envvar="RULER_PARAM",
        help="Extra parameter of the judge call; VALUE is read as JSON where it is JSON. Repeatable.",
    ),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        envvar="RULER_PRICE",
        help="USD per million prompt and completion tokens, where it is not known; once, or once for each "
        "judge in order.",
    ),
]
Passes = Annotated[
    int,
    typer.Option(
        metavar="K",
        min=1,
        envvar="RULER_PASSES",
        help="Times that a judge scores a group, in orders that balance.",
    ),
]
GroupSize = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=2,
        envvar="RULER_GROUP_SIZE",
        help="Distinct rollouts shown at once; more are shown in random windows, each in two at least.",
    ),
]
Single = Annotated[
    Literal["flag", "score"],
    typer.Option(
        envvar="RULER_SINGLE",
        help="A rollout with nothing to compare: asked about once and flagged, or scored in every pass.",
    ),
]
Fallback = Annotated[
    bool,
    typer.Option(
        "--fallback",
        envvar="RULER_FALLBACK",
        help="Ask the judges of -m in turn: the next takes over a group that one refuses.",
    ),
]
Adaptive = Annotated[
    bool,
    typer.Option(
        "--adaptive",
        envvar="RULER_ADAPTIVE",
        help="Two passes for every group, then where they help, up to --passes on average.",
    ),
]
Escalate = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        envvar="RULER_ESCALATE",
        autocompletion=_some_judges,
        help="A stronger judge for groups that passes leave neither resolved nor tied.",
    ),
]
Rubric = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT|@FILE",
        envvar="RULER_RUBRIC",
        autocompletion=_rubrics,
        help="Grading standards; a group's own `rubric` wins.",
    ),
]
Order = Annotated[
    Literal["random", "input"],
    typer.Option(envvar="RULER_ORDER", help="Order in which the judge sees the rollouts."),
]
Seed = Annotated[int, typer.Option(envvar="RULER_SEED", help="Seed of order and labels.")]
GroupBy = Annotated[
    str | None,
    typer.Option(metavar="PATH", envvar="RULER_GROUP_BY", help="Dotted path of the group key."),
]
Reward = Annotated[
    str | None,
    typer.Option(metavar="PATH", envvar="RULER_REWARD", help="Dotted path of the original reward."),
]
Messages = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        envvar="RULER_MESSAGES",
        help="Dotted path of the messages, or of an answer's text, in a dump that no format fits.",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        metavar="PATH",
        envvar="RULER_PROMPT",
        help="Dotted path of the task's text, for conversations that do not begin with it.",
    ),
]
Outcome = Annotated[
    str | None,
    typer.Option(metavar="PATH", envvar="RULER_OUTCOME", help="Dotted path of what a verifier said."),
]
Grouping = Annotated[
    Literal["auto", "line", "consecutive", "scattered"],
    typer.Option(envvar="RULER_GROUPING", help="How the records of a group lie."),
]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="auto|NAME",
        envvar="RULER_FORMAT",
        autocompletion=_formats,
        help="The dump's shape, where it shall not be found by looking.",
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed", envvar="RULER_RETRY_FAILED", help="Ask again what failed in an earlier run."
    ),
]


MinPasses = Annotated[
    int,
    typer.Option(
        metavar="M",
        min=1,
        envvar="RULER_MIN_PASSES",
        help="Valid passes that a judge must have brought for its scores to count.",
    ),
]
Debias = Annotated[
    bool,
    typer.Option(
        "--debias", envvar="RULER_DEBIAS", help="Subtract what the batch shows that a place is worth."
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize",
        envvar="RULER_STANDARDIZE",
        help="Bring the judges of a panel to one mean and spread before they are averaged.",
    ),
]
Blend = Annotated[
    float | None,
    typer.Option(
        metavar="W",
        min=0.0,
        max=1.0,
        envvar="RULER_BLEND",
        help="Mix: W times the judge's score, the rest the original reward.",
    ),
]
ByOutcome = Annotated[
    bool,
    typer.Option(
        "--order-by-outcome",
        envvar="RULER_ORDER_BY_OUTCOME",
        help="A rollout that failed its check (--outcome, else the reward) never outranks one that passed.",
    ),
]
Scored = Annotated[
    str, typer.Argument(metavar="SCORED", help="What `ruler score` wrote, in any format; `-` is stdin.")
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


def params(pairs: list[str] | None) -> dict[str, Any]:
    """`-p KEY=VALUE` → parameters; VALUE is JSON where it is JSON, else text."""
    found: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            name, colon, given = pair.partition(":")
            example = f"{name}={given}" if colon and name and given else "temperature=0.2"
            raise UsageError(f"-p {pair}: write it as KEY=VALUE, e.g. -p {example}")
        if key == "api_key":
            raise UsageError("-p api_key: a key never stands on a command line; use --api-key-env VAR")
        if key in ("api_base", "base_url"):  # litellm would send its provider's key there
            raise UsageError(f"-p {key}: name the endpoint with --api-base URL")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def price(text: str | None) -> tuple[float, float] | None:
    """`--price IN,OUT` → USD per million prompt and completion tokens."""
    if text is None:
        return None
    try:
        given, taken = (float(part) for part in text.split(","))
        if not (0 <= given < float("inf") and 0 <= taken < float("inf")):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--price {text}: write two numbers, USD per million prompt and completion tokens, e.g. 2,8"
        ) from None
    return given, taken


def prices(texts: list[str] | None, count: int) -> list[tuple[float, float] | None]:
    """`--price IN,OUT`, once for all judges or once for each → the price of each of `count`."""
    if not texts:
        return [None] * count
    found = [price(text) for text in texts]
    if len(found) not in (1, count):
        raise UsageError(
            f"--price is given {len(found)} times for {units.count(count, 'judge')}; give it once for all, "
            "or once for each in order, the one of --escalate last"
        )
    return found * count if len(found) == 1 else found


def models(names: list[str] | None, escalate: str | None = None, *, fallback: bool = False) -> list[str]:
    """`-m NAME`, repeated for a panel → the judges in order, without that of `--escalate`."""
    found = names or [JudgeSettings().model]
    every = [*found, escalate] if escalate is not None else found
    for name in every:
        if not name:
            raise UsageError("-m or --escalate: the judge has no name")
        if name.startswith("-"):
            raise UsageError(f"-m or --escalate: its value is missing in front of {name}")
        if name.endswith("/"):
            raise UsageError(f"-m or --escalate {name}: the model's own name is missing behind its provider")
        if every.count(name) > 1:
            raise UsageError(f"{name} is named twice as a judge; --passes asks one judge several times")
    if fallback and len(found) == 1:
        raise UsageError("--fallback needs another judge to fall back on; give -m again")
    return found


def refuse_passes(passes: int, *, judges: int, adaptive: bool, escalate: str | None) -> None:
    """UsageError where options need more passes than there are; `judges` score every group."""
    if passes >= 2:
        return
    if adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if escalate is not None and judges < 2:
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")


def max_failures(text: str | None) -> MaxFailures | None:
    """`--max-failures N|P%` → how much may fail."""
    if text is None:
        return None
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) if percent else int(text)
        if not 0 <= number <= (100 if percent else 10**12):
            raise ValueError
    except ValueError:
        raise UsageError(f"--max-failures {text}: write a number, e.g. 20, or a share, e.g. 5%") from None
    return MaxFailures(number, percent)


def rubric(text: str | None) -> str | None:
    """`--rubric TEXT` or `@FILE` → the text."""
    if text is None or not text.startswith("@"):
        if text and len(text) < 4096 and os.path.isfile(text):  # noqa: PTH113 - no error for what is no path
            raise UsageError(f"--rubric {text}: is a file; write @{text} to have it read")
        return text
    try:
        found = Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        from ruler_cli import nearest

        lost = nearest.file(text[1:]) if isinstance(error, FileNotFoundError) else None
        hint = nearest.question(lost and f"@{lost}")
        raise UsageError(f"--rubric {text}: cannot be read: {why}{hint}") from None
    if not found:
        raise UsageError(f"--rubric {text}: the file is empty")
    return found


def judges(
    usual: JudgeSettings,
    names: list[str] | None,
    escalate: str | None,
    price: list[str] | None,
    *,
    fallback: bool,
) -> tuple[list[JudgeSettings], JudgeSettings | None]:
    """The judges of `-m` in order and the one of `--escalate`, each with its price."""
    found = models(names, escalate, fallback=fallback)
    every = [*found, escalate] if escalate is not None else found
    each = prices(price, len(every))
    made = [replace(usual, model=name, price=cost) for name, cost in zip(every, each, strict=True)]
    return made[: len(found)], made[-1] if escalate is not None else None
