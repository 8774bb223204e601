"""The settings of a run, as one frozen value.

Of each part the `…Options` are what a user sets on the command line, by a variable or in `ruler.toml`; what the
part adds to them only a program sets.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ruler_cli.errors import Sentence, UsageError, WrongShapeError
from ruler_cli.settings.base import Number, Settings, Whole, frozen, frozen_options
from ruler_cli.settings.keys import is_key_name, refuse_key, refuse_no_variable
from ruler_cli.settings.rubric import read_rubric, scale_mistake
from ruler_cli.types import JudgeRequest

MAX_RECORD = 512
"""Mebibytes of the largest record that is read."""
LEDGER_VARIABLE = "RULER_LEDGER"
"""The variable that names the ledger, or says `none`."""
_MOST = 10**12

FIRST_PASSES = 2
"""Passes that adaptive scoring, and a stronger judge, give every group."""

AskFunction = Callable[[JudgeRequest], Awaitable[str | Mapping[str, Any]]]
"""A judge that is a function: from a request to the text of a reply, or to a whole chat completion."""
Grouping = Literal["auto", "line", "consecutive", "scattered"]
OnFailure = Literal["null", "drop", "keep"]
Price = tuple[float, float]
"""USD per million prompt tokens and completion tokens."""
Via = Literal["auto", "http", "litellm"]


@frozen
class Shard(Settings):
    """The shard `number` of `of` of an input; the first is 1.

    The key of a group tells its shard, so processes that know nothing of one another judge every group once.
    """

    number: int
    of: int

    def holds(self, digest: bytes) -> bool:
        """Tell if a group is its own, by the digest of the group's key (see `scratch.digest`)."""
        return int.from_bytes(digest[:8]) % self.of == self.number - 1

    def tells(self, line: int) -> bool:
        """Tell if a line that cannot be read, and so has no key, is its own to report and keep."""
        return line % self.of == self.number - 1

    def __str__(self) -> str:
        """The name of the shard in a sentence."""
        return f"shard {self.number} of {self.of}"


def shard_of(value: Any) -> Any:
    """Return the shard that `I/N` states; None for 1/1, which is all of INPUT."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", value.strip())
    number, of = map(int, match.groups()) if match else (0, 0)
    if not 1 <= number <= of:
        problem = f"{value!r} is not I/N with I from 1 to N, e.g. 1/16"
        raise UsageError(problem, option="shard")
    return Shard(number, of) if of > 1 else None


@frozen
class MaxFailures(Settings):
    """The bound on failures at which a run stops: more than `number`, of all or of a hundred."""

    number: float
    percent: bool = False

    def of(self, groups: int) -> float:
        """Return how many may fail of so many groups."""
        return self.number * groups / 100 if self.percent else self.number

    @property
    def shown(self) -> str:
        """The bound as the user wrote it."""
        return f"{self.number:g}{'%' * self.percent}"


def max_failures_of(value: Any) -> Any:
    """Return the bound that a number, `20` or `5%` states."""
    if value is None or isinstance(value, MaxFailures):
        return value
    text = str(value)
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    bounded = 0 <= number <= (100 if percent else _MOST)  # nan is not
    whole = bounded and (percent or number.is_integer())
    if isinstance(value, bool) or not whole:
        problem = f"{text!r} is neither a whole number, e.g. 20, nor a share, e.g. 5%"
        raise UsageError(problem, option="max_failures")
    return MaxFailures(number, percent)


def price_of(value: Any) -> Any:
    """Return the price that `2,8`, or a list of two numbers, states."""
    if value is None:
        return None
    parts = value.split(",") if isinstance(value, str) else value
    try:
        prompt, completion = (float(part) for part in parts)
    except (TypeError, ValueError):
        prompt = completion = math.nan
    if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
        problem = (
            f"{value!r} is not USD per million prompt and completion tokens, e.g. 2,8"
        )
        raise UsageError(problem, option="price")
    return prompt, completion


def expand_home(path: str | Path) -> Path:
    """Return a path with a leading `~` replaced, as a shell does. UsageError if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError("no such home directory", place=str(path)) from None


def default_path() -> Path:
    """Return the path of the ledger if none is named: in the user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # the standard ignores a relative one
    cache = base if base.is_absolute() else expand_home("~/.cache")
    return cache / "ruler" / "ledger.sqlite"


def ledger_path(value: Any) -> Any:
    """Return the path of a ledger that is given as text; None for `none`, which keeps no replies."""
    if not isinstance(value, str | Path):
        return value
    if str(value) == "none":
        return None
    return expand_home(value) if str(value) else default_path()


def _default_ledger() -> Path | None:
    """Return the ledger of a run that names none."""
    path: Path | None = ledger_path(os.environ.get(LEDGER_VARIABLE, ""))
    return path


def _model(value: Any) -> Any:
    """Refuse a key where a model's name belongs: names are printed, and written into OUTPUT."""
    if isinstance(value, str):
        refuse_key(value, "model")
    return value


def _variable(value: Any) -> Any:
    """Refuse what is no name of a variable: it may be a key."""
    if isinstance(value, str):
        refuse_no_variable(value)
    return value


def params_of(value: Any) -> Any:
    """Return the parameters of a call; UsageError for one that would change who is asked, or what."""
    for name, own in value.items() if isinstance(value, Mapping) else ():
        wrong = partial(UsageError, option="param", value=name)
        if is_key_name(name):
            remedy = Sentence("name the variable that holds it with {api_key_env:VAR}")
            raise wrong("a key is no parameter", remedy)
        if name in ("api_base", "base_url"):
            raise wrong(Sentence("name the endpoint with {api_base:URL}"))
        if name == "model":
            raise wrong(Sentence("name the model with {model:NAME}"))
        several = (name == "stream" and own) or (name == "n" and own != 1)
        if name == "messages" or several:
            raise wrong("ruler writes the prompt and reads one reply; leave it out")
    return value


Limit = Annotated[Whole | None, Field(ge=1)]
Rpm = Annotated[Number | None, Field(ge=0.01)]
Tpm = Annotated[Number | None, Field(ge=1)]
Outage = Annotated[Number, Field(ge=0)]
KeyVariable = Annotated[str | None, BeforeValidator(_variable)]
Timeout = Annotated[Number, Field(ge=0.001)]


@frozen
class JudgeSettings(Settings):
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name.
    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`.
    `ask` is an `async` function that is called in place of a model; `model` is then any name for it.
    """

    model: Annotated[str, BeforeValidator(_model)] = "openai/o3"
    api_base: str | None = None
    api_key_env: KeyVariable = None
    api_key: str | None = field(default=None, repr=False)
    via: Via = "auto"
    params: Annotated[Mapping[str, Any], BeforeValidator(params_of)] = field(
        default_factory=dict
    )
    timeout: Timeout = 600.0
    price: Annotated[Price | None, BeforeValidator(price_of)] = None
    name: str = ""
    rpm: Rpm = None
    tpm: Tpm = None
    concurrency: Limit = None
    max_outage: Outage | None = None
    ask: AskFunction | None = None

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a function that is not asynchronous, or has settings of an endpoint beside it."""
        if self.ask is None:
            return
        place = f"judge {self.label}"
        if not any(
            map(inspect.iscoroutinefunction, (self.ask, type(self.ask).__call__))
        ):
            problem = "`ask` is no asynchronous function"
            raise WrongShapeError(problem, "define it with `async def`", place=place)
        ways = (self.api_base, self.api_key, self.api_key_env)
        if self.via != "auto" or any(way is not None for way in ways):
            remedy = "leave out its endpoint, its key and `via`, or `ask`"
            raise UsageError("a function calls its model itself", remedy, place=place)


@frozen
class PoolSettings(Settings):
    """The limits of calls: in flight (None: adaptive), per minute, tried again, and in money.

    `max_cost` in USD; `rpm` and `tpm` are requests and tokens per minute; `max_outage` is how many seconds a
    judge that is down is waited for, `wait_for_judge` how many it has to come up at the beginning. Each judge
    has these limits for itself, and those of its own first.
    `hedge`: a call that takes longer than 95 % of the calls of its size is sent a second time.
    """

    concurrency: Limit = None
    rpm: Rpm = None
    tpm: Tpm = None
    retries: Annotated[Whole, Field(ge=0)] = 6
    max_outage: Outage = 900.0
    wait_for_judge: Annotated[Number, Field(ge=0)] = 0.0
    max_cost: Annotated[Number | None, Field(ge=0)] = None
    hedge: bool = False

    def of(self, judge: JudgeSettings) -> PoolSettings:
        """Return the limits of one judge."""
        names = ("concurrency", "rpm", "tpm", "max_outage")
        own = {name: getattr(judge, name) for name in names}
        return replace(
            self, **{name: value for name, value in own.items() if value is not None}
        )


@frozen_options
class AskOptions(Settings):
    """The requests about a group: its passes, windows and order.

    The judge is asked `passes` times, in orders that balance the positions of a rollout. One request shows up
    to `group_size` distinct rollouts; more are shown in windows. `single` says how to score a group with one
    distinct rollout: once and flagged as tied, or absolutely in every pass. `rubric` is a text, or `@FILE`,
    which is read at once.
    """

    rubric: Annotated[str | None, BeforeValidator(read_rubric)] = None
    order: Literal["random", "input"] = "random"
    seed: Whole = 0
    passes: Annotated[Whole, Field(ge=1)] = 1
    group_size: Annotated[Whole, Field(ge=2)] = 32
    single: Literal["flag", "score"] = "flag"


@frozen
class AskSettings(AskOptions):
    """The requests about a group, in a judge's context of `context_tokens` tokens; None: the model's."""

    context_tokens: Limit = None


@frozen
class CombineSettings(Settings):
    """The way from replies to scores: all of it can be changed afterwards and costs no call.

    A judge with fewer than `min_passes` valid passes does not count. `debias` corrects for the position bias
    measured over the batch, `standardize` brings the judges of a panel to one mean and spread over the
    batch. `blend` is the judge's share in a mean with the original reward, None: the judge alone.
    `order_by_outcome`: a rollout that failed its check never outranks one of its group that passed.
    """

    min_passes: Annotated[Whole, Field(ge=1)] = 1
    debias: bool = False
    standardize: bool = False
    blend: Annotated[Number | None, Field(ge=0, le=1)] = None
    order_by_outcome: bool = False


@frozen_options
class InputOptions(Settings):
    """The grouping of records, and the dotted paths that the user gave.

    With `limit` only so many groups are read, the first; with `shard` only its own. `prompt` is the path of
    the task's text. A record of more than `max_record` mebibytes counts as unreadable.
    """

    format: str = "auto"
    grouping: Grouping = "auto"
    group_by: str | None = None
    reward: str | None = None
    messages: str | None = None
    outcome: str | None = None
    shard: Annotated[Shard | None, BeforeValidator(shard_of)] = None
    prompt: str | None = None
    limit: Limit = None
    # a record that waits for its turn is a row of SQLite's, which takes 10^9 bytes
    max_record: Annotated[Whole, Field(ge=1, le=900)] = MAX_RECORD


@frozen
class InputSettings(InputOptions):
    """The source of records; `outcome_option` is the option that gave `outcome`, by its field."""

    source: str = "-"
    outcome_option: str = "outcome"


@frozen_options
class RunOptions(Settings):
    """The conduct of a run as a whole.

    With `fallback` the next judge takes over a group that one refuses. `adaptive` spends passes where they
    help, `passes` on average. `cached_only` asks nobody: what no ledger answers fails. `spend` says which
    groups of a file the cap pays for: the first ones, or a sample of all that is drawn by the seed.
    """

    on_failure: OnFailure = "null"
    failed: Path | None = None
    max_failures: Annotated[
        MaxFailures | float | str | None, BeforeValidator(max_failures_of)
    ] = None
    retry_failed: bool = False
    cached_only: bool = False
    spend: Literal["first", "spread"] = "first"
    debug: bool = False
    fallback: bool = False
    adaptive: bool = False

    @property
    def most_failures(self) -> MaxFailures | None:
        """The bound on failures."""
        return self.max_failures if isinstance(self.max_failures, MaxFailures) else None


@frozen
class ScoreSettings(RunOptions):
    """One run of `ruler score`.

    `panel` are judges beside the first, `escalate` is a stronger one for groups that are neither resolved nor
    tied. `ledger` keeps every reply: by default the command's own, None keeps nothing; `ledgers` are others
    in which replies are looked up too. `grace` is how many seconds calls in flight may take to finish once
    the run is told to stop. UsageError if settings contradict one another.
    """

    input: InputSettings = InputSettings()
    output: str = "-"
    judge: JudgeSettings = JudgeSettings()
    ask: AskSettings = AskSettings()
    pool: PoolSettings = PoolSettings()
    combine: CombineSettings = CombineSettings()
    ledger: Annotated[Path | None, BeforeValidator(ledger_path)] = field(
        default_factory=_default_ledger
    )
    panel: tuple[JudgeSettings, ...] = ()
    escalate: JudgeSettings | None = None
    ledgers: tuple[Annotated[Path, BeforeValidator(ledger_path)], ...] = ()
    grace: Annotated[Number, Field(ge=0)] = 60.0

    def __post_init__(self) -> None:
        """Refuse settings that contradict one another."""
        _refuse_contradictions(self)

    @property
    def draw(self) -> int | None:
        """The seed by which groups are drawn from all of INPUT; None if they are judged in its order."""
        spread = self.spend == "spread" and self.pool.max_cost is not None
        return self.ask.seed if spread else None

    @property
    def judges(self) -> list[JudgeSettings]:
        """The judges of a run: the panel in order, the stronger one last."""
        stronger = [] if self.escalate is None else [self.escalate]
        return [self.judge, *self.panel, *stronger]


def refuse_no_settings(value: object) -> None:
    """Raise WrongShapeError if a program gives something else than the settings of a run."""
    if not isinstance(value, ScoreSettings):
        problem = f"is of type {type(value).__name__}"
        remedy = "give load_settings(model=NAME) or a ScoreSettings"
        raise WrongShapeError(problem, remedy, place="settings")


def _refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if settings of a run contradict one another."""
    for judge in settings.judges:
        _refuse_name(judge, "escalate" if judge is settings.escalate else "model")
    _refuse_twins(settings)
    _refuse_panel(settings)
    _refuse_passes(settings)
    _refuse_parts_of_input(settings)
    if settings.cached_only and settings.ledger is None:
        remedy = Sentence("leave out {ledger:none}")
        raise UsageError("needs a ledger", remedy, option="cached_only")
    if mistake := scale_mistake(settings.ask.rubric):
        raise UsageError(mistake, option="rubric")
    if settings.combine.debias and settings.ask.order == "input":
        problem = "needs a random order: in input order a position tells the rollout"
        raise UsageError(problem, Sentence("leave out {order:input}"), option="debias")


def _refuse_name(judge: JudgeSettings, option: str) -> None:
    """Raise UsageError if a text cannot be the name of a judge."""
    name = judge.label
    wrong = partial(UsageError, option=option, value=name)
    if not name.strip() or name.startswith("-"):
        raise UsageError("needs a value", option=option)
    if name != name.strip() or "," in name:
        raise wrong("names one judge", "repeat it for a panel")
    if "://" in name:
        endpoint = Sentence(
            "give it as {api_base:URL}, and the model's name there as {model}"
        )
        raise UsageError("is an address", endpoint, option=option)
    if name.endswith("/"):
        raise wrong("the model's name is missing after the provider")


def _refuse_twins(settings: ScoreSettings) -> None:
    """Raise UsageError if two judges are one: by their name, or to the ledger."""
    for one, other in combinations(settings.judges, 2):
        if one.label == other.label:
            several = Sentence("to ask one judge several times, give {passes}")
            raise UsageError(f"{one.label} is named twice as a judge", several)
        if (one.model, one.params) == (other.model, other.params):
            alike = f"judges {one.label} and {other.label} have one model and the same parameters"
            problem = f"{alike}, so the ledger cannot tell their replies apart"
            raise UsageError(problem, "leave one out, or give one another parameter")


def _refuse_panel(settings: ScoreSettings) -> None:
    """Raise UsageError if an option needs several judges and there is one."""
    needed = {
        "fallback": settings.fallback,
        "standardize": settings.combine.standardize,
    }
    for option, given in needed.items():
        if given and not settings.panel:
            raise UsageError(
                "needs several judges", Sentence("repeat {model}"), option=option
            )
    if settings.fallback and settings.combine.standardize:
        problem = Sentence("needs judges that score together, not in turn")
        raise UsageError(
            problem, Sentence("leave out {fallback}"), option="standardize"
        )


def _refuse_passes(settings: ScoreSettings) -> None:
    """Raise UsageError if there are too few passes for what is to be done with them."""
    passes, least = settings.ask.passes, settings.combine.min_passes
    averaged = settings.panel and not settings.fallback
    two = Sentence("give {passes:2} or more")
    if settings.adaptive and passes < FIRST_PASSES:
        raise UsageError("starts with 2 passes for every group", two, option="adaptive")
    if settings.escalate and passes < FIRST_PASSES and not averaged:
        raise UsageError(
            "one pass cannot show which groups are unclear", two, option="escalate"
        )
    wrong = partial(UsageError, option="min_passes", value=least)
    if least > passes:
        raise wrong(Sentence("is more than {passes:{most}}", most=passes))
    if least > FIRST_PASSES and (settings.adaptive or settings.escalate):
        option = "adaptive" if settings.adaptive else "escalate"
        raise wrong(
            Sentence(f"{{{option}}} gives most groups 2 passes"), "give 2 or less"
        )


def _refuse_parts_of_input(settings: ScoreSettings) -> None:
    """Raise UsageError for what needs all groups, in their order, and gets a part of them."""
    deciding = {"adaptive": settings.adaptive, "escalate": settings.escalate}
    needing_all = {
        **deciding,
        "debias": settings.combine.debias,
        "standardize": settings.combine.standardize,
    }
    for option, given in needing_all.items():
        if given and settings.input.shard is not None:
            last = "give it to the last run, over the whole file with the {ledger} of every shard"
            raise UsageError(
                "needs all groups, and a shard has some", Sentence(last), option=option
            )
    for option, given in deciding.items():
        if given and settings.draw is not None:
            problem = Sentence(
                f"cannot be with {{{option}}}, which compares neighbours in INPUT"
            )
            raise UsageError(problem, "leave one out", option="spend", value="spread")
