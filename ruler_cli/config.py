"""The settings of a run, as one frozen value."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
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


MAX_RECORD = 512
"""Mebibytes of the largest record that is read."""

Grouping = Literal["auto", "line", "consecutive", "scattered"]
OnFailure = Literal["null", "drop", "keep"]
Spend = Literal["first", "spread"]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name.
    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`.
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

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a key where a name belongs: names are printed, and written into OUTPUT."""
        refuse_key(self.model, "-m or --escalate")
        if self.api_key_env is not None:
            refuse_no_variable(self.api_key_env)


def param_mistake(name: str, value: Any, api_base: str, model: str) -> str | None:
    """Return what to do about a parameter that would change who is asked, or what; None for any other.

    `api_base` and `model` are the words with which endpoint and model are given instead.
    """
    if name in ("api_base", "base_url"):
        return f"name the endpoint with {api_base}"
    if name == "model":
        return f"name the model with {model}"
    if name == "messages" or (name == "stream" and value) or (name == "n" and value != 1):
        return "ruler writes the prompt and reads one reply; leave it out"
    return None


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The limits of calls: in flight (None: adaptive), per minute, tried again, and in money.

    `max_cost` in USD; `rpm` and `tpm` are requests and tokens per minute; `max_outage` is how many seconds a
    judge that is down is waited for. Each judge has these limits for itself, and those of its own first.
    """

    concurrency: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    retries: int = 6
    max_outage: float = 900.0
    max_cost: float | None = None

    def of(self, judge: JudgeSettings) -> PoolSettings:
        """Return the limits of one judge."""
        return replace(
            self,
            concurrency=judge.concurrency or self.concurrency,
            rpm=judge.rpm or self.rpm,
            tpm=judge.tpm or self.tpm,
            max_outage=self.max_outage if judge.max_outage is None else judge.max_outage,
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


@dataclass(frozen=True, slots=True)
class InputSettings:
    """The source of records, their grouping, and the dotted paths that the user gave.

    `outcome_option` is the option that gave `outcome`, for sentences. With `limit` only so many groups are
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
    outcome_option: str = "--outcome"
    shard: Shard | None = None
    prompt: str | None = None
    limit: int | None = None
    max_record: int = MAX_RECORD


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
    spend: Spend = "first"

    def __post_init__(self) -> None:
        """Replace a leading `~` in the paths of ledgers, as the command does."""
        ledger: Any = self.ledger
        if isinstance(ledger, str | Path) and ledger != "none":
            object.__setattr__(self, "ledger", expand_home(str(ledger)))
        if isinstance(self.ledgers, list | tuple):
            paths = [expand_home(str(one)) if isinstance(one, Path) else one for one in self.ledgers]
            object.__setattr__(self, "ledgers", tuple(paths))

    @property
    def draw(self) -> int | None:
        """The seed by which groups are drawn from all of INPUT; None if they are judged in its order."""
        return self.ask.seed if self.spend == "spread" and self.pool.max_cost is not None else None

    @property
    def judges(self) -> list[JudgeSettings]:
        """The judges of a run: the panel in order, the stronger one last."""
        return [judge for judge in (self.judge, *self.panel, self.escalate) if judge is not None]
