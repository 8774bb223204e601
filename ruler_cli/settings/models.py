"""The settings of a run, as one frozen value."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.keys import refuse_key, refuse_no_variable
from ruler_cli.settings.suggestions import other_file
from ruler_cli.types import JudgeRequest


@dataclass(frozen=True, slots=True)
class Shard:
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


def shard_of(text: str) -> Shard | None:
    """`I/N` → the shard; None for 1/1, which is all of it. UsageError where there is no such shard."""
    wrong = partial(UsageError, option="shard", value=text)
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text.strip())
    if not match:
        raise wrong("write it as I/N, e.g. 1/16 for the first of 16 shards")
    number, of = int(match[1]), int(match[2])
    if not of:
        raise wrong("there are no shards; write it as I/N, e.g. 1/16")
    if not 1 <= number <= of:
        raise wrong(
            f"shards are counted from 1 to {of}, and so is an array of SLURM's to be"
        )
    return Shard(number, of) if of > 1 else None


LEDGER_VARIABLE = "RULER_LEDGER"
"""The variable that names the ledger, or says `none`."""


def expand_home(path: str) -> Path:
    """Return a path with a leading `~` replaced, as a shell does. UsageError if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{path}: there is no such home directory; give a path that begins with /"
        ) from None


def default_path() -> Path:
    """Return the path of the ledger if none is named: in the user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = (
        base if base.is_absolute() else expand_home("~/.cache")
    )  # the standard ignores a relative one
    return cache / "ruler" / "ledger.sqlite"


def ledger_path(text: str | None) -> Path | None:
    """Return the path of a ledger that is given as a text; None for `none`, which keeps no replies."""
    if text == "none":
        return None
    return expand_home(text) if text else default_path()


def _default_ledger() -> Path | None:
    """Return the ledger of a run that names none."""
    return ledger_path(os.environ.get(LEDGER_VARIABLE))


MAX_RECORD = 512
"""Mebibytes of the largest record that is read."""

Grouping = Literal["auto", "line", "consecutive", "scattered"]
OnFailure = Literal["null", "drop", "keep"]
Spend = Literal["first", "spread"]
AskFunction = Callable[[JudgeRequest], Awaitable[str | Mapping[str, Any]]]
"""A judge that is a function: from a request to the text of a reply, or to a whole chat completion."""


def _read(
    settings: Any, kind: type | UnionType, **readers: Callable[[Any], Any]
) -> None:
    """Replace each value of a kind, in frozen settings, by what its reader returns."""
    for name, read in readers.items():
        value = getattr(settings, name)
        if isinstance(value, kind):
            object.__setattr__(settings, name, read(value))


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name.
    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`.
    `ask` is an `async` function that is called in place of a model; `model` is then any name for it.
    UsageError if a key stands in place of a name.
    """

    model: str = "openai/o3"
    api_base: str | None = None
    api_key_env: str | None = None
    api_key: str | None = field(default=None, repr=False)
    via: Literal["auto", "http", "litellm"] = "auto"
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 600.0
    price: tuple[float, float] | None = None
    name: str = ""
    rpm: float | None = None
    tpm: float | None = None
    concurrency: int | None = None
    max_outage: float | None = None
    ask: AskFunction | None = None

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a key where a name belongs: names are printed, and written into OUTPUT."""
        if isinstance(
            self.model, str
        ):  # a program's value of another type is refused with the run's others
            refuse_key(self.model, "model")
        if isinstance(self.api_key_env, str):
            refuse_no_variable(self.api_key_env)
        _read(self, str, price=price_of)
        _read(self, list, price=tuple)


def param_mistake(name: str, value: Any) -> str | None:
    """Return what to do about a parameter that would change who is asked, or what; None for any other."""
    if name in ("api_base", "base_url"):
        return Sentence("name the endpoint with {api_base:URL}")
    if name == "model":
        return Sentence("name the model with {model:NAME}")
    if (
        name == "messages"
        or (name == "stream" and value)
        or (name == "n" and value != 1)
    ):
        return "ruler writes the prompt and reads one reply; leave it out"
    return None


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The limits of calls: in flight (None: adaptive), per minute, tried again, and in money.

    `max_cost` in USD; `rpm` and `tpm` are requests and tokens per minute; `max_outage` is how many seconds a
    judge that is down is waited for, `wait_for_judge` how many it has to come up at the beginning. Each judge
    has these limits for itself, and those of its own first.
    `hedge`: a call that takes longer than 95 % of the calls of its size is sent a second time.
    """

    concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    retries: int = 6
    max_outage: float = 900.0
    wait_for_judge: float = 0.0
    max_cost: float | None = None
    hedge: bool = False

    def of(self, judge: JudgeSettings) -> PoolSettings:
        """Return the limits of one judge."""
        return replace(
            self,
            concurrency=judge.concurrency or self.concurrency,
            rpm=judge.rpm or self.rpm,
            tpm=judge.tpm or self.tpm,
            max_outage=self.max_outage
            if judge.max_outage is None
            else judge.max_outage,
        )


def price_of(text: str) -> tuple[float, float]:
    """Return the price that `2,8` states. UsageError if it states none."""
    try:
        prompt, completion = (float(part) for part in text.split(","))
        if not (0 <= prompt < math.inf and 0 <= completion < math.inf):
            raise ValueError
    except ValueError:
        problem = (
            "write two numbers, USD per million prompt and completion tokens, e.g. 2,8"
        )
        raise UsageError(problem, option="price", value=text) from None
    return prompt, completion


@dataclass(frozen=True, slots=True)
class MaxFailures:
    """The bound on failures at which a run stops: more than `number`, of all or of a hundred."""

    number: float
    percent: bool = False

    @classmethod
    def stated(cls, value: float | str) -> MaxFailures:
        """Return the bound that a number, `20` or `5%` states. UsageError if it states none."""
        text = value if isinstance(value, str) else f"{value:.17g}"
        percent = text.endswith("%")
        try:
            number = float(text.removesuffix("%")) if percent else int(text)
            if not 0 <= number <= (100 if percent else 10**12):
                raise ValueError
        except ValueError:
            problem = "write a number, e.g. 20, or a share, e.g. 5%"
            raise UsageError(problem, option="max_failures", value=text) from None
        return cls(number, percent)

    def of(self, groups: int) -> float:
        """Return how many may fail of so many groups."""
        return self.number * groups / 100 if self.percent else self.number

    @property
    def shown(self) -> str:
        """The bound as the user wrote it."""
        return f"{self.number:g}{'%' * self.percent}"


_ENDING = re.compile(r"[^\s.].*\.[A-Za-z]\w{0,7}")


def rubric_text(text: str) -> str:
    """Return a rubric, given as text or as `@FILE`.

    One word that is a path, or that ends as a file's name does, is no text; so is what begins with `@`.
    """
    if not text.strip("@ \t\n"):
        remedy = "give a text or @FILE, or leave it out for the built-in one"
        raise UsageError("is empty", remedy, option="rubric")
    wrong = partial(UsageError, option="rubric", value=text)
    if not text.startswith("@"):
        short = len(text) < 4096
        if short and os.path.isfile(text):  # noqa: PTH113 - no error for what is no path
            raise wrong("is a file", f"write @{text} to have it read")
        if (
            short
            and len(text.split()) == 1
            and ("/" in text or _ENDING.fullmatch(text))
        ):
            advice = other_file(
                text,
                "write @FILE to have one read, or a text of several words",
                before="@",
            )
            raise wrong("there is no such file", advice)
        return text
    try:
        rubric = Path(text[1:]).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        advice = other_file(text[1:], "check the path", before="@")
        raise wrong("no such file", advice) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise wrong(f"cannot be read: {why}") from None
    if not rubric:
        raise wrong("the file is empty")
    if rubric.startswith("@"):
        raise wrong("its text begins with `@`, as the name of a file", "change that")
    return rubric


@dataclass(frozen=True, slots=True)
class AskSettings:
    """The requests about a group: its passes, windows and order.

    The judge is asked `passes` times, in orders that balance the positions of a rollout. One request shows up
    to `group_size` distinct rollouts, as far as `context_tokens`, the judge's context, allows; more are shown
    in windows. `single` says how to score a group with one distinct rollout: once and flagged as tied, or
    absolutely in every pass. `rubric` is a text, or `@FILE`, which is read at once.
    """

    rubric: str | None = None
    order: Literal["random", "input"] = "random"
    seed: int = 0
    context_tokens: int | None = None
    passes: int = 1
    group_size: int = 32
    single: Literal["flag", "score"] = "flag"

    def __post_init__(self) -> None:
        """Read the file of a rubric."""
        _read(self, str, rubric=rubric_text)


@dataclass(frozen=True, slots=True)
class CombineSettings:
    """The way from replies to scores: all of it can be changed afterwards and costs no call.

    A judge with fewer than `min_passes` valid passes does not count. `debias` corrects for the position bias
    measured over the batch, `standardize` brings the judges of a panel to one mean and spread over the
    batch. `blend` is the judge's share in a mean with the original reward, None: the judge alone.
    `by_outcome`: a rollout that failed its check never outranks one of its group that passed.
    """

    min_passes: int = 1
    debias: bool = False
    standardize: bool = False
    blend: float | None = None
    by_outcome: bool = False


@dataclass(frozen=True, slots=True)
class InputSettings:
    """The source of records, their grouping, and the dotted paths that the user gave.

    `outcome_option` is the option that gave `outcome`, by its field. With `limit` only so many groups are
    read, the first; with `shard` only its own. `prompt` is the path of the task's text. A record of more than
    `max_record` mebibytes is not held in memory, and counts as unreadable.
    """

    source: str = "-"
    format: str = "auto"
    grouping: Grouping = "auto"
    group_by: str | None = None
    reward: str | None = None
    messages: str | None = None
    outcome: str | None = None
    outcome_option: str = "outcome"
    shard: Shard | None = None
    prompt: str | None = None
    limit: int | None = None
    max_record: int = MAX_RECORD

    def __post_init__(self) -> None:
        """Take the text of a shard, as the command does."""
        _read(self, str, shard=shard_of)


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """One run of `ruler score`.

    `panel` are judges beside the first: each scores every pass, or with `fallback` the next one takes
    over a group that one refuses. `adaptive` spends passes where they help, `ask.passes` on average;
    `escalate` sends groups that are neither resolved nor tied to a stronger judge. `ledger` keeps every
    reply: by default the command's own, None keeps nothing; `ledgers` are others in which replies are looked
    up too; `~` in their paths is replaced. `grace` is how many seconds calls in flight may take to finish
    once the run is told to stop. `cached_only` asks nobody: what no ledger answers fails. `spend` says which
    groups of a file the cap pays for: the first ones, or a sample of all that is drawn by the seed.
    """

    input: InputSettings = InputSettings()
    output: str = "-"
    judge: JudgeSettings = JudgeSettings()
    ask: AskSettings = AskSettings()
    pool: PoolSettings = PoolSettings()
    on_failure: OnFailure = "null"
    failed: Path | None = None
    max_failures: MaxFailures | float | str | None = None
    ledger: Path | None = field(default_factory=_default_ledger)
    retry_failed: bool = False
    grace: float = 60.0
    debug: bool = False
    combine: CombineSettings = CombineSettings()
    panel: tuple[JudgeSettings, ...] = ()
    fallback: bool = False
    adaptive: bool = False
    escalate: JudgeSettings | None = None
    cached_only: bool = False
    ledgers: tuple[Path, ...] = ()
    spend: Spend = "first"

    def __post_init__(self) -> None:
        """Take numbers and texts as the command does; a leading `~` of a path is replaced."""
        _read(self, Real, max_failures=_bound)
        _read(
            self, str, max_failures=MaxFailures.stated, ledger=ledger_path, failed=Path
        )
        _read(self, Path, ledger=lambda path: expand_home(str(path)))
        _read(self, list | tuple, ledgers=_paths)

    @property
    def most_failures(self) -> MaxFailures | None:
        """The bound on failures, in whatever form it was given."""
        bound = self.max_failures
        return (
            bound
            if isinstance(bound, MaxFailures) or bound is None
            else MaxFailures.stated(bound)
        )

    @property
    def draw(self) -> int | None:
        """The seed by which groups are drawn from all of INPUT; None if they are judged in its order."""
        return (
            self.ask.seed
            if self.spend == "spread" and self.pool.max_cost is not None
            else None
        )

    @property
    def judges(self) -> list[JudgeSettings]:
        """The judges of a run: the panel in order, the stronger one last."""
        return [
            judge
            for judge in (self.judge, *self.panel, self.escalate)
            if judge is not None
        ]


def _bound(number: Any) -> Any:
    """Return the bound that a number states; what is no number stays, and is refused with others."""
    return (
        number
        if isinstance(number, bool)
        else MaxFailures.stated(float(min(number, 10**18)))
    )


def _paths(several: Any) -> tuple[Any, ...]:
    return tuple(
        [
            expand_home(str(one)) if isinstance(one, str | Path) else one
            for one in several
        ]
    )
