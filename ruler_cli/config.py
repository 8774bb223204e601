"""The settings of a run, as one frozen value."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args
from zlib import crc32

from ruler_cli.errors import UsageError
from ruler_cli.keys import refuse_key, refuse_no_variable


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

    def copies(self, name: str) -> bool:
        """Tell if a file that holds no record is its own to copy, by the file's name."""
        return crc32(os.fsencode(name)) % self.of == self.number - 1

    def tells(self, line: int) -> bool:
        """Tell if a line that cannot be read, and so has no key, is its own to report and keep."""
        return line % self.of == self.number - 1

    def __str__(self) -> str:
        """The name of the shard in a sentence."""
        return f"shard {self.number} of {self.of}"


def shard_of(text: str) -> Shard | None:
    """`I/N` → the shard; None for 1/1, which is all of it. UsageError where there is no such shard."""
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text.strip())
    if not match:
        raise UsageError(f"--shard {text}: write it as I/N, e.g. 1/16 for the first of 16 shards")
    number, of = int(match[1]), int(match[2])
    if not of:
        raise UsageError(f"--shard {text}: there are no shards; write it as I/N, e.g. 1/16")
    if not 1 <= number <= of:
        raise UsageError(
            f"--shard {text}: shards are counted from 1 to {of}; a SLURM array is to be --array=1-{of}"
        )
    return Shard(number, of) if of > 1 else None


@dataclass(frozen=True, slots=True)
class Subset:
    """The groups of an input that a run takes: the first `limit`, of them those of `shard`."""

    shard: Shard | None = None
    limit: int | None = None


LEDGER_VARIABLE = "RULER_LEDGER"
"""The variable that names the ledger, or says `none`."""


def expand_home(path: str) -> Path:
    """Return a path with a leading `~` replaced, as a shell does. UsageError if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path}: there is no such home directory; give a path that begins with /") from None


def default_path() -> Path:
    """Return the path of the ledger if none is named: in the user's cache directory."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = base if base.is_absolute() else expand_home("~/.cache")  # the standard ignores a relative one
    return cache / "ruler" / "ledger.sqlite"


def ledger_path(text: str | None) -> Path | None:
    """Return the path of `--ledger PATH|none`; None if no replies are to be stored."""
    if text == "none":
        return None
    return expand_home(text) if text else default_path()


def _default_ledger() -> Path | None:
    """Return the ledger of a run that names none."""
    return ledger_path(os.environ.get(LEDGER_VARIABLE))


Grouping = Literal["auto", "line", "consecutive", "scattered"]
OnFailure = Literal["null", "drop", "keep"]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name.
    `rpm`, `tpm` and `concurrency` are this judge's own; None leaves them to `PoolSettings`. UsageError if a
    key stands in place of a name.
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

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a key where a name belongs: names are printed, and written into OUTPUT."""
        refuse_key(self.model, "-m or --escalate")
        if self.api_key_env is not None:
            refuse_no_variable(self.api_key_env)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The limits of calls: in flight (None: adaptive), per minute, tried again, and in money.

    `max_cost` in USD; `rpm` and `tpm` are requests and tokens per minute. Each judge has these limits for
    itself, and those of its own first.
    """

    concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    retries: int = 6
    max_cost: float | None = None

    def of(self, judge: JudgeSettings) -> PoolSettings:
        """Return the limits of one judge."""
        return replace(
            self,
            concurrency=judge.concurrency or self.concurrency,
            rpm=judge.rpm or self.rpm,
            tpm=judge.tpm or self.tpm,
        )


@dataclass(frozen=True, slots=True)
class MaxFailures:
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


@dataclass(frozen=True, slots=True)
class AskSettings:
    """The requests about a group: its passes, windows and order.

    The judge is asked `passes` times, in orders that balance the positions of a rollout. One request shows up
    to `group_size` distinct rollouts, as far as `context_tokens`, the judge's context, allows; more are shown
    in windows. `single` says how to score a group with one distinct rollout: once and flagged as tied, or
    absolutely in every pass.
    """

    rubric: str | None = None
    order: Literal["random", "input"] = "random"
    seed: int = 0
    context_tokens: int | None = None
    passes: int = 1
    group_size: int = 32
    single: Literal["flag", "score"] = "flag"


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
    single: Literal["flag", "score"] = "flag"


@dataclass(frozen=True, slots=True)
class InputSettings:
    """The source of records, their grouping, and the dotted paths that the user gave.

    `outcome_option` is the option that gave `outcome`, for sentences. With `limit` only so many groups are
    read, the first; with `shard` only its own. `prompt` is the path of the task's text.
    """

    source: str = "-"
    format: str = "auto"
    grouping: Grouping = "auto"
    group_by: str | None = None
    reward: str | None = None
    messages: str | None = None
    outcome: str | None = None
    outcome_option: str = "--outcome"
    shard: Shard | None = None
    prompt: str | None = None
    limit: int | None = None

    @property
    def subset(self) -> Subset:
        """The groups that are read."""
        return Subset(self.shard, self.limit)


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """One run of `ruler score`.

    `panel` are judges beside the first: each scores every pass, or with `fallback` the next one takes
    over a group that one refuses. `adaptive` spends passes where they help, `ask.passes` on average;
    `escalate` sends groups that are neither resolved nor tied to a stronger judge. `ledger` keeps every
    reply: by default the command's own, None keeps nothing; `ledgers` are others in which replies are looked
    up too. `grace` is how many seconds calls in flight may take to finish once the run is told to stop.
    `cached_only` asks nobody: what no ledger answers fails.
    """

    input: InputSettings = InputSettings()
    output: str = "-"
    judge: JudgeSettings = JudgeSettings()
    ask: AskSettings = AskSettings()
    pool: PoolSettings = PoolSettings()
    on_failure: OnFailure = "null"
    failed: Path | None = None
    max_failures: MaxFailures | None = None
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


def _refuse_types(settings: ScoreSettings) -> None:
    """Raise UsageError if a value has another type than its field, as a program may give it."""
    ask, judges = settings.ask, (settings.judge, *settings.panel, settings.escalate)
    rows: list[tuple[str, Any, tuple[Any, ...] | type]] = [
        *(("judge", judge, JudgeSettings) for judge in judges if judge is not None),
        ("max_failures", settings.max_failures or MaxFailures(0), MaxFailures),
        ("on_failure", settings.on_failure, get_args(OnFailure)),
        ("rubric", ask.rubric or "", str),
        ("order", ask.order, ("random", "input")),
        ("single", ask.single, ("flag", "score")),
        *((f"--{name}", getattr(ask, name), int) for name in ("passes", "seed")),
    ]
    for name, value, form in rows:
        if isinstance(form, tuple) and value not in form:
            raise UsageError(f"{name}: is none of {', '.join(map(repr, form))}")
        if isinstance(form, type) and not isinstance(value, form):
            raise UsageError(f"{name}: is of type {type(value).__name__}; give {form.__name__}")


def _refuse_numbers(settings: ScoreSettings) -> None:
    """Raise UsageError if a number is out of its bounds, or none."""
    ask, pool, combine = settings.ask, settings.pool, settings.combine
    judges = [judge for judge in (settings.judge, *settings.panel, settings.escalate) if judge]
    limited: list[PoolSettings | JudgeSettings] = [pool, *judges]
    rows: list[tuple[str, Any, float, float]] = [
        ("--passes", ask.passes, 1, math.inf),
        ("--group-size", ask.group_size, 2, math.inf),
        ("--min-passes", combine.min_passes, 1, math.inf),
        ("--blend", combine.blend, 0, 1),
        ("--retries", pool.retries, 0, math.inf),
        ("--max-cost", pool.max_cost, 0, math.inf),
        *(("--concurrency", each.concurrency, 1, math.inf) for each in limited),
        *(("--rpm", each.rpm, 0.01, math.inf) for each in limited),
        *(("--tpm", each.tpm, 1, math.inf) for each in limited),
        *(("--timeout", judge.timeout, 0.001, math.inf) for judge in judges),
    ]
    for option, value, least, most in rows:
        if value is not None and not isinstance(value, int | float):
            raise UsageError(f"{option}: is of type {type(value).__name__}; give a number")
        if value is not None and not least <= value <= most:  # `nan` is not, either
            bounds = f"from {least:g} to {most:g}" if most < math.inf else f"of {least:g} or more"
            raise UsageError(f"{option} {value:g}: give a number {bounds}")


def _refuse_judges(settings: ScoreSettings) -> None:
    """Raise UsageError if a judge has no name of its own, or a key among its parameters, or no fallback."""
    judges = [judge for judge in (settings.judge, *settings.panel, settings.escalate) if judge]
    names = [judge.label for judge in judges]
    places = (("api_key", "api_key"), ("api_base", "api_base"), ("base_url", "api_base"))
    for name, place in places:  # each would be sent in the body of the request
        if any(name in judge.params for judge in judges):
            raise UsageError(
                f"params: `{name}` is no parameter of a call; give it as JudgeSettings({place}=…)"
            )
    for name in names:
        if not name.strip():
            raise UsageError("-m or --escalate: the judge has no name")
        if name != name.strip() or "," in name:
            split = " ".join(f"-m {one.strip()}" for one in name.split(",") if one.strip())
            raise UsageError(f"-m or --escalate '{name}': is no one name; write {split}")
        if "://" in name:
            raise UsageError(
                "-m or --escalate: is an address; give it as --api-base URL, and the model's name there as -m"
            )
        if name.startswith("-"):
            raise UsageError(f"-m or --escalate: its value is missing in front of {name}")
        if name.endswith("/"):
            raise UsageError(f"-m or --escalate {name}: the model's own name is missing behind its provider")
        if names.count(name) > 1:
            raise UsageError(f"{name} is named twice as a judge; --passes asks one judge several times")
    if settings.fallback and not settings.panel:
        raise UsageError("--fallback needs another judge to fall back on; give -m again")


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if options of one run contradict one another, or cannot be by themselves.

    A group gets 2 passes first, see `judging.adaptive.FIRST`.
    """
    _refuse_types(settings)
    _refuse_judges(settings)
    _refuse_numbers(settings)
    ask, combine = settings.ask, settings.combine
    averaged = settings.panel and not settings.fallback
    judges = [judge for judge in (settings.judge, *settings.panel, settings.escalate) if judge is not None]
    for one, other in combinations(judges, 2):
        if (one.model, one.params) == (other.model, other.params):
            raise UsageError(
                f"judges {one.label} and {other.label} are one judge to the ledger, which keeps replies by "
                f"model ({one.model}) and parameters; leave one out, or set them apart with params"
            )
    if combine.standardize and not averaged:
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if combine.debias and ask.order == "input":
        raise UsageError(
            "--debias: in input order a position says what the rollout is; leave out --order input"
        )
    if ask.passes < 2 and settings.adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if ask.passes < 2 and settings.escalate and not averaged:
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")
    few = f"--min-passes {combine.min_passes}"
    if combine.min_passes > ask.passes:
        raise UsageError(f"{few}: is more than --passes {ask.passes}, so no group could be scored")
    if combine.min_passes > 2 and settings.adaptive:
        raise UsageError(f"{few}: with --adaptive most groups get 2 passes; give 2 or less")
    if combine.min_passes > 2 and settings.escalate:
        raise UsageError(
            f"{few}: the judge of --escalate gives 2 passes, so its scores would never count; give 2 or less"
        )
    needing_all = (
        ("--adaptive", settings.adaptive, "give --passes 2 here, and --adaptive", ""),
        ("--escalate", settings.escalate, "leave it out here, and give it", ""),
        ("--debias", combine.debias, "leave it out here, and give it", ": it costs no call"),
        ("--standardize", combine.standardize, "leave it out here, and give it", ": it costs no call"),
    )
    for option, given, instead, cost in needing_all:
        if given and settings.input.shard is not None:
            raise UsageError(
                f"{option}: needs the replies to all groups, and a shard has some; {instead} to the last "
                f"run, over the whole file with the --ledger of every shard{cost}"
            )
