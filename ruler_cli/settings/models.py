"""The settings of a run: one frozen class a section, each setting an annotated field with its bounds and its help.

A field without a help is not a setting of the user's: a program sets it, or the run itself. The pool's limits, and how
a judge is asked, stand twice on purpose: those of `JudgeSettings` are of one judge alone.
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ruler_cli.errors import WrongShapeError
from ruler_cli.settings.fields import (
    Limit,
    Option,
    Paths,
    PerRun,
    Seconds,
    Section,
    Setting,
    SettingError,
    Share,
    Within,
    frozen,
)
from ruler_cli.settings.keys import (
    begins_like_key,
    is_variable_name,
    looks_like_key,
)
from ruler_cli.settings.model_list import listed
from ruler_cli.settings.parameters import params_of
from ruler_cli.settings.rubric import read_rubric, scale_mistake
from ruler_cli.types import JudgeRequest, Rubric, readable, words_of

DEFAULT_MODEL = "openai/o3"
MAX_RECORD = 512
"""Mebibytes of the largest record that is read."""
LEDGER_VARIABLE = "RULER_LEDGER"
"""The variable that names the ledger, or says `none`."""
FIRST_PASSES = 2
"""Passes that adaptive scoring, and a stronger judge, give every group: an order and its reverse tell its noise."""
GROUP_SIZE = 32
"""Distinct rollouts that one request shows at most."""

Asking = Literal["group", "each"]
"""A request shows all rollouts of a group, or each alone."""
Reading = Literal["auto", "text", "probability"]
"""The judge writes scores, or is asked a question for each rollout, and the probability of Yes is read."""
Api = Literal["auto", "chat", "systemone", "decisions"]
"""The API that a judge speaks: chat completions, System One, or OpenAI's Decisions."""
Grouping = Literal["auto", "line", "scattered"]
OnFailure = Literal["null", "drop", "keep"]
Via = Literal["auto", "http", "litellm"]
Price = tuple[float, float]
"""USD per million prompt tokens and completion tokens."""
AskFunction = Callable[[JudgeRequest], Awaitable[str | Mapping[str, Any]]]
"""A judge that is a function: from a request to the text of a reply, or to a whole chat completion."""
ReadRecord = Callable[[Mapping[str, Any]], Any]
"""A program's own reader: a record → a trajectory as a dict with `messages`, or a list of these, which are a group."""

_DECIDING = words_of(
    "bespoke eu_jev laya nace parallel_ai strands_decider typesafe"
)
"""Providers that have nothing but System One."""
_CHATTING = ("openai", "hosted_vllm")
"""Providers of whose models none is only a decision model; the list is long to read."""
_MOST_QUESTIONS = {"openai": 400, "azure": 400, "perplexity": 128}
"""Typed questions that a request to a provider may hold, where that is known and not 64."""
_DECISIONS = ("evaluation", "decisions")
"""Kinds of models of litellm's list that answer typed questions alone."""


@dataclass(frozen=True)
class Shard:
    """The shard `number` of `of` of an input; the first is 1.

    The key of a group tells its shard, so processes that know nothing of one another judge every group once.
    """

    number: int
    of: int

    def holds(self, digest: bytes) -> bool:
        """Return whether a group is its own, by the digest of the group's key (see `scratch.digest`)."""
        return int.from_bytes(digest[:8]) % self.of == self.number - 1

    def reports(self, line: int) -> bool:
        """Return whether a line that cannot be read, and so has no key, is its own to report and keep."""
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
        raise SettingError("shard", problem)
    return Shard(number, of) if of > 1 else None


_FAILURES = re.compile(
    r"(?P<number>\d{1,12})(?:\.0)?|(?P<share>100|\d{1,2}(?:\.\d+)?)%"
)


@dataclass(frozen=True)
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


def max_failures_of(value: Any) -> Any:
    """Return the bound that a number, `20` or `5%` states."""
    if value is None or isinstance(value, MaxFailures):
        return value
    match = _FAILURES.fullmatch(str(value))
    if match is None:
        text = repr(str(value))
        problem = (
            f"{text} is neither a whole number, e.g. 20, nor a share, e.g. 5%"
        )
        raise SettingError("max_failures", problem)
    return MaxFailures(
        float(match["number"] or match["share"]), bool(match["share"])
    )


def price_of(value: Any) -> Any:
    """Return the price that `2,8`, alone in a list or not, or a list of two numbers, states."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    try:
        parts = value.split(",") if isinstance(value, str) else value
        prompt, completion = map(float, parts)
    except (TypeError, ValueError):
        prompt = completion = math.nan
    if not all(0 <= part < math.inf for part in (prompt, completion)):
        usage = "USD per million prompt and completion tokens, e.g. 2,8"
        raise SettingError("price", f"{value!r} is not {usage}")
    return prompt, completion


def expand_home(path: str | Path) -> Path:
    """Return a path with a leading `~` replaced, as a shell does; that of an unknown user stays."""
    return Path(os.path.expanduser(path))  # noqa: PTH111


def ledger_path(value: Any) -> Any:
    """Return the path of a ledger that is given as text; None for `none`, which keeps no replies.

    An empty text is the default: in the user's cache directory.
    """
    if not isinstance(value, str | Path):
        return value
    if str(value) == "none":
        return None
    if str(value):
        return expand_home(value)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # the standard ignores a relative one
    cache = base if base.is_absolute() else expand_home("~/.cache")
    return cache / "ruler" / "ledger.sqlite"


def variable_name(name: Any) -> Any:
    """Return the name of a variable; UsageError, which does not repeat the value, if it is not one."""
    if not isinstance(name, str) or is_variable_name(name):
        return name
    problem = (
        "expects the name of a variable, and its value (not shown) is not one"
    )
    raise SettingError("api_key_env", problem, _PUT_KEY)


def model_name(value: Any) -> Any:
    """Return the name of a model; UsageError, which does not repeat the value, if it looks like a key.

    `provider/KEY` does, too. A path may end in a hash, as a model's snapshot on disk does. Names are printed,
    and written into OUTPUT.
    """
    if not isinstance(value, str):
        return value
    if looks_like_key(value) or begins_like_key(value.rpartition("/")[2]):
        problem = "its value (not shown) looks like a key"
        raise SettingError("model", problem, _PUT_KEY)
    return value


_PUT_KEY = "put the key into a variable (export MY_KEY=…) and name that with --api-key-env MY_KEY"


def _address(value: Any) -> Any:
    """Return an address as it is; UsageError for an empty one, with which the provider would be asked."""
    if not isinstance(value, str) or value.strip():
        return value
    problem = "is empty, and the rollouts would go to the provider"
    raise SettingError("api_base", problem, "name an address, or leave it out")


PerMinute = Annotated[float | None, Within(1)]


@frozen
class JudgeSettings(Section):
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name. A `function` is
    called in place of a model; `model` is then any name for it.
    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`, and
    `ask` and `read` to `AskSettings`. `pictures` tells if the model reads pictures; None leaves that to litellm's list.
    """

    model: Annotated[str, model_name] = DEFAULT_MODEL
    api_base: Annotated[
        str | None,
        _address,
        Option("Chat completions endpoint, up to /v1.", "URL"),
    ] = None
    api_key_env: Annotated[
        str | None,
        variable_name,
        Option("Name of the variable that holds the key.", "VAR"),
    ] = None
    api: Annotated[
        Api,
        Option(
            "The API that the judge speaks: chat completions, or one of decision models."
        ),
    ] = "auto"
    via: Annotated[Via, Setting("How the judge is reached.")] = "auto"
    params: Annotated[
        Mapping[str, Any],
        params_of,
        Option(
            "Extra parameter of each call, e.g. temperature=0.2; VALUE is read as JSON if it is JSON. Repeatable.",
            "KEY=VALUE",
            many=True,
        ),
    ] = field(default_factory=dict)
    timeout: Annotated[
        float, Within(0.001), Option("Deadline per call, seconds.", "S")
    ] = 600.0
    price: Annotated[
        Price | None,
        price_of,
        Option(
            "USD per million prompt and completion tokens, if unknown.",
            "IN,OUT",
            many=True,
        ),
    ] = None
    rpm: PerMinute = None
    tpm: PerMinute = None
    concurrency: Limit = None
    max_outage: Seconds | None = None
    ask: Asking | None = None
    read: Reading | None = None
    pictures: bool | None = None
    _: KW_ONLY
    api_key: str | None = field(default=None, repr=False)
    name: str = ""
    function: AskFunction | None = None

    @property
    def spoken(self) -> Api:
        """The API that is spoken: the one that is named, at the end of the address too; else by litellm's list.

        A model that serves both is asked by chat.
        """
        if self.api != "auto":
            return self.api
        provider = self.provider
        if self.function is not None or provider == self.model:
            return "chat"
        pasted = re.search(r"/(systemone|decisions)/?$", self.api_base or "")
        if pasted:
            return "systemone" if pasted[1] == "systemone" else "decisions"
        if provider in _CHATTING:
            return "chat"
        if (
            provider in _DECIDING
            or listed(self.model).get("mode") in _DECISIONS
        ):
            return "systemone"
        return "chat"

    @property
    def typed(self) -> bool:
        """True for a decision model, whose questions are typed."""
        return self.spoken != "chat"

    @property
    def provider(self) -> str:
        """The first word of the model's name."""
        return self.model.partition("/")[0]

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a function that is not asynchronous."""
        super().__post_init__()
        function = self.function
        if function is None:
            return
        calls = (function, type(function).__call__)
        if not any(map(inspect.iscoroutinefunction, calls)):
            problem = "`function` is not an asynchronous function"
            remedy = "define it with `async def`"
            raise WrongShapeError(problem, remedy, place=f"judge {self.label}")


@frozen
class PoolSettings(Section):
    """The limits of calls: in flight, per minute, tried again, and in money.

    Each judge has these limits for itself, and those of its own first.
    """

    concurrency: Annotated[
        Limit,
        Option("Calls in flight.  [default: as many as the judge takes]", "N"),
    ] = None
    rpm: Annotated[PerMinute, Option("Requests per minute.", "N")] = None
    tpm: Annotated[PerMinute, Option("Tokens per minute.", "N")] = None
    retries: Annotated[
        int,
        Within(0),
        Setting("Retries per call; waits for a rate limit do not count.", "N"),
    ] = 6
    max_outage: Annotated[
        Seconds,
        Setting("How long to wait for a judge that is down, seconds.", "S"),
    ] = 900.0
    wait_for_judge: Annotated[
        Seconds,
        Setting(
            "How long to wait for a judge that is not up yet, seconds.", "S"
        ),
    ] = 0.0
    max_cost: Annotated[
        float | None, Within(0), Option("Stop before spending more.", "USD")
    ] = None
    hedge: Annotated[
        bool,
        Setting(
            "Send the slowest 5 % of calls a second time and take the first answer; for training steps."
        ),
    ] = False

    def of(self, judge: JudgeSettings) -> PoolSettings:
        """Return the limits of one judge."""
        limits = {}
        for name in ("concurrency", "rpm", "tpm", "max_outage"):
            limit = getattr(judge, name)
            if limit is not None:
                limits[name] = limit
        return replace(self, **limits)


@frozen
class AskSettings(Section):
    """The requests about a group: its passes, windows and order.

    The judge is asked `passes` times, in orders that balance the positions of a rollout. One request shows up
    to `group_size` distinct rollouts; more are shown in windows. `rubric` is a text, a Rubric, a list of
    criteria as a file has them, or `@FILE`, which is read at once. None and "auto" leave `ask` and `read` to the judge
    (`ScoreSettings.ask_of`).

    What has no help is the judge's, and known when it is: `context_tokens`; None: the model's. `judge_model`, by which
    the tokens of pictures are estimated. `reads_pictures`; None: it is embedded, and never does. `typed`: questions
    are typed, for a decision model, `most_questions` in a request; None: as many as any known endpoint takes.
    Judges that differ in nothing else are shown the same.
    """

    _: KW_ONLY
    ask: Annotated[
        Asking | None,
        Option(
            "Show all rollouts of a group at once, or each alone.  "
            "[default: group; each for a chat judge that is read by probability]"
        ),
    ] = None
    read: Annotated[
        Reading,
        Option(
            "Scores that the judge writes, or the probability of Yes to a question for each rollout. auto: text for "
            "a chat judge with --ask group."
        ),
    ] = "auto"
    question: Annotated[
        str | None,
        readable,
        Setting("The question where probabilities are read.", "TEXT"),
    ] = None
    rubric: Annotated[
        str | Rubric | None,
        read_rubric,
        Option(
            "Grading standards; a group's own `rubric` wins.  [default: built-in]",
            "TEXT|@FILE",
        ),
    ] = None
    order: Annotated[
        Literal["random", "input"],
        Setting("Order in which the judge sees the rollouts."),
    ] = "random"
    seed: Annotated[int, Option("Seed of order, labels and draws.", "N")] = 0
    passes: Annotated[
        int,
        Within(1, 1_000),
        Option(
            "Number of times that a judge scores each group, in balanced orders.",
            "K",
        ),
    ] = 1
    group_size: Annotated[
        int,
        Within(2),
        Option(
            "Distinct rollouts shown at once; larger groups are shown in random windows.",
            "N",
        ),
    ] = GROUP_SIZE
    single: Annotated[
        Literal["flag", "score"],
        Setting(
            "How to score a group with one distinct rollout: once and flagged, or in every pass."
        ),
    ] = "flag"
    pictures: Annotated[
        Literal["auto", "send", "leave"],
        Option(
            "Pictures in messages: sent to a judge that reads them, sent to any, or left out."
        ),
    ] = "auto"
    most_pictures: Annotated[
        int | None,
        Within(0),
        Setting(
            "Show the last K pictures of each rollout.  [default: all]", "K"
        ),
    ] = None
    context_tokens: Limit = None
    judge_model: str = field(default="", compare=False)
    reads_pictures: bool | None = field(default=True, compare=False)
    typed: bool = field(default=False, compare=False)
    most_questions: int | None = field(default=None, compare=False)

    @property
    def by_probability(self) -> bool:
        """True if probabilities are read."""
        return self.read == "probability"

    @property
    def shown_pictures(self) -> int | None:
        """The number of pictures of a rollout that are shown, the last ones; None: all."""
        return 0 if self.pictures == "leave" else self.most_pictures


@frozen
class CombineSettings(Section):
    """The way from replies to scores: all of it can be changed afterwards and costs no call.

    `standardize` is None where judges that are asked or read in several ways, and so have several scales, decide it.
    """

    min_passes: Annotated[
        int,
        Within(1),
        Setting(
            "Valid passes that a judge needs for its scores to count.", "M"
        ),
    ] = 1
    debias: Annotated[
        bool, Setting("Correct for position bias measured over the batch.")
    ] = False
    standardize: Annotated[
        bool | None,
        Setting(
            "Bring the judges of a panel to one mean and spread first.  [default: if ask or read differ]"
        ),
    ] = None
    blend: Annotated[
        Share | None,
        Setting(
            "W times the judge's score plus 1 - W times the original reward; W from 0 to 1.",
            "W",
        ),
    ] = None
    order_by_outcome: Annotated[
        bool,
        Setting(
            "Never rank a rollout that failed its check (--outcome, else the reward) above one that passed."
        ),
    ] = False


def _terms(value: Any) -> Any:
    """Return terms in a list as one text, with spaces between them."""
    return (
        " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    )


ENDED = (
    "ended|is_truncated|truncated|is_aborted|aborted|stop_condition|stop_reason|finish_reason|termination_reason|"
    "exit_status|info.exit_status|messages.-1.finish_reason|choices.-1.finish_reason|"
    "response.choices.-1.finish_reason|metadata.ended|metadata.truncated|metadata.is_truncated|metadata.aborted|"
    "metadata.finish_reason|metadata.stop_reason|metadata.stop_condition|metadata.termination_reason"
)
"""Paths at which dumps of any kind say how a rollout ended."""


@frozen
class RecordPaths(Section):
    """One shape of a record, as paths to its parts: a row of the table of formats.

    A table `[formats.NAME]` of ruler.toml has the same words. A path is dotted (`a.b`). A number picks an item of
    a list, `-1` the last one; `[]` behind a name means each item of a list, or each value of an object
    (`results[].outputs[]`). A name that holds dots stands in quotes (`"a.b".c`). `a|b` is the first that is there.

    `records` leads from a document to its records. `has` are terms that tell records of this shape from others
    (see `formats.fields.holds`); without them a shape is read only if it is named.

    `messages` are conversations, or answers; a text at `answers`, which are read where there are no `messages`, is
    always the agent's own turn. Several paths,
    a `[]` in one, or a list of answers at one make a record a group. `prompt` are the parts of the task, in their
    order. Behind a common list each rollout has the item of its own number. `reference` is the right answer, which
    only the judge sees. `rubric` is that of the group. `ended` are the places of flags and words that say how a rollout
    ended (see `messages.endings`); the first that says one counts.

    `group_by` are paths that are the key of a group together. A score goes to `reward`, where the original one was
    read, and the annotation to `ruler`: below a rollout's own object, if it has one.
    """

    _: KW_ONLY
    records: str = ""
    has: Annotated[str, _terms] = ""
    messages: Paths = ()
    answers: Paths = ()
    prompt: Paths = ()
    tools: str = ""
    reward: str = "reward"
    outcome: str = ""
    reference: str = ""
    rubric: str = "rubric|rubrics"
    ended: str = ENDED
    group_by: Paths = ()
    ruler: str = "ruler"


@frozen
class InputSettings(Section):
    """The source of records, their grouping, and the paths that the user gave: a row without a name, or a part of one.

    `format` is `auto`, the name of a row, a row, or a program's own reader. `outcome_option` is the option that gave
    `outcome`, by its field. `rows` are the user's own formats, by their names.
    """

    source: str = "-"
    _: KW_ONLY
    format: Annotated[
        str | RecordPaths | ReadRecord,
        Option("Shape of the dump, instead of detecting it.", "auto|NAME"),
    ] = "auto"
    grouping: Annotated[
        Grouping, Option("How the records of a group are arranged.")
    ] = "auto"
    group_by: Annotated[
        Paths,
        Option(
            "Path of the group key; repeat it if several are the key.",
            "PATH",
            many=True,
        ),
    ] = ()
    reward: Annotated[
        str | None, Option("Path of the original reward.", "PATH")
    ] = None
    records: Annotated[
        str | None,
        Setting(
            "Path of the records inside a document, or inside each line, e.g. data.runs[].",
            "PATH",
        ),
    ] = None
    messages: Annotated[
        Paths,
        Option(
            "Path of the messages, or of an answer's text, where no format fits; repeat it for several answers. See "
            "`ruler formats --help`.",
            "PATH",
            many=True,
        ),
    ] = ()
    outcome: Annotated[
        str | None, Option("Path of a verifier's result.", "PATH")
    ] = None
    shard: Annotated[
        Shard | None,
        shard_of,
        Option("Only the groups of shard I of N; the first is 1.", "I/N"),
    ] = None
    prompt: Annotated[
        Paths,
        Option(
            "Path of the task's text, where the messages lack it; repeat it for its parts.",
            "PATH",
            many=True,
        ),
    ] = ()
    tools: Annotated[
        str | None, Setting("Path of the tools that the agent had.", "PATH")
    ] = None
    reference: Annotated[
        str | None,
        Option(
            "Path of the reference answer, shown to the judge only.", "PATH"
        ),
    ] = None
    limit: Annotated[Limit, PerRun("Only the first N groups.", "N")] = None
    # a record that comes too early is a row of SQLite's, which takes 10^9 bytes
    max_record: Annotated[
        int,
        Within(1, 900),
        Setting(
            "Largest record to read, in MiB; a larger one counts as unreadable.",
            "MIB",
        ),
    ] = MAX_RECORD
    outcome_option: str = "outcome"
    rows: Mapping[str, RecordPaths] = field(default_factory=dict)

    @property
    def named_row(self) -> RecordPaths | None:
        """The user's row that `format` is or names."""
        if isinstance(self.format, RecordPaths):
            return self.format
        return (
            self.rows.get(self.format) if isinstance(self.format, str) else None
        )

    def with_paths(self, row: RecordPaths) -> RecordPaths:
        """Return a row with the paths that are given beside it in the places of its own."""
        paths_beside = {}
        for member in fields(RecordPaths):
            value = getattr(self, member.name, None)
            if value:
                paths_beside[member.name] = value
        return replace(row, **paths_beside)


@frozen
class RunSettings(Section):
    """The conduct of a run as a whole."""

    _: KW_ONLY
    on_failure: Annotated[
        OnFailure,
        Option(
            "A group that cannot be scored: reward null, record left out, or reward kept."
        ),
    ] = "null"
    failed: Annotated[
        Path | None,
        Setting(
            "File for unreadable lines and dropped records.  [default: OUTPUT.failed.jsonl]",
            "FILE",
            per_run=True,
        ),
    ] = None
    force: Annotated[
        bool, PerRun("Replace a file that ruler did not write.")
    ] = False
    max_failures: Annotated[
        MaxFailures | float | str | None,
        max_failures_of,
        Option("Stop when more groups and lines than that fail.", "N|P%"),
    ] = None
    retry_failed: Annotated[
        bool, Option("Ask again what failed in an earlier run.")
    ] = False
    cached_only: Annotated[
        bool,
        Option(
            "Ask no judge: score what the ledger answers, and fail the rest."
        ),
    ] = False
    spend: Annotated[
        Literal["first", "spread"],
        Setting(
            "Groups that --max-cost pays for: the first of INPUT, or a fair sample drawn by --seed."
        ),
    ] = "first"
    debug: Annotated[bool, Option("Show each reply of the judge.")] = False
    adaptive: Annotated[
        bool,
        Setting(
            "Two passes for every group, more where they help, up to --passes on average."
        ),
    ] = False
    escalate_gap: Annotated[
        Share,
        Option(
            "A group is undecided if no two of its scores lie further apart.",
            "GAP",
        ),
    ] = 0.1

    @property
    def most_failures(self) -> MaxFailures | None:
        """The bound on failures."""
        return (
            self.max_failures
            if isinstance(self.max_failures, MaxFailures)
            else None
        )


@frozen
class ScoreSettings(RunSettings):
    """One run of `ruler score`.

    `panel` are judges beside the first, `escalate` is a stronger one for groups that they leave undecided: whose scores
    lie no further apart than `escalate_gap`, or twice their standard error over passes. `ledger` keeps every reply: by
    default the command's own, None keeps nothing; `ledgers` are others in which replies are looked up too. `grace` is
    how many seconds calls in flight may take to finish once the run is told to stop. UsageError if settings contradict
    one another.
    """

    input: InputSettings = field(default_factory=InputSettings)
    output: str = "-"
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    ask: AskSettings = field(default_factory=AskSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)
    combine: CombineSettings = field(default_factory=CombineSettings)
    ledger: Annotated[Path | None, ledger_path] = field(
        default_factory=lambda: ledger_path(os.environ.get(LEDGER_VARIABLE, ""))
    )
    panel: tuple[JudgeSettings, ...] = ()
    escalate: JudgeSettings | None = None
    ledgers: tuple[Annotated[Path, ledger_path], ...] = ()
    grace: Seconds = 60.0

    def __post_init__(self) -> None:
        """Refuse settings that contradict one another."""
        super().__post_init__()
        for name, problem, remedy in _contradictions(self):
            raise SettingError(name, problem, remedy)

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

    def ask_of(self, judge: JudgeSettings) -> AskSettings:
        """Return the requests to one judge, with `ask` and `read` decided.

        A judge that is asked about each rollout takes no further pass, and writes no scores.
        """
        shown = judge.ask or self.ask.ask
        read = judge.read or self.ask.read
        typed = judge.typed
        if read == "auto":
            read = "probability" if typed or shown == "each" else "text"
        if shown is None:
            # an engine may hold no text from one question to the next
            shown = "group" if typed or read == "text" else "each"
        ask = replace(
            self.ask,
            ask=shown,
            read=read,
            typed=typed,
            judge_model=judge.model,
        )
        if not judge.api_base:
            most = _MOST_QUESTIONS.get(judge.provider)
            ask = replace(ask, most_questions=most)
        if shown == "each":
            ask = replace(ask, passes=1, single="score")
        return ask

    @property
    def asks(self) -> list[AskSettings]:
        """The requests to each judge."""
        return list(map(self.ask_of, self.judges))

    @property
    def asked_each(self) -> list[bool]:
        """True for each judge that is asked about each rollout alone."""
        return [ask.ask == "each" for ask in self.asks]

    @property
    def combining(self) -> CombineSettings:
        """The way to scores, with `standardize` decided."""
        combine = self.combine
        if combine.standardize is not None:
            return combine
        panel = self.asks[: 1 + len(self.panel)]
        known = {(ask.ask, ask.read) for ask in panel}
        return replace(combine, standardize=len(known) > 1)

    @property
    def absolute(self) -> bool:
        """True if a group with one distinct rollout gets a score that means something."""
        return self.ask.single == "score" or any(self.asked_each)


def refuse_no_settings(value: object) -> None:
    """Raise WrongShapeError if a program gives something else than the settings of a run."""
    if not isinstance(value, ScoreSettings):
        problem = f"is of type {type(value).__name__}"
        remedy = "pass load_settings(model=NAME) or a ScoreSettings"
        raise WrongShapeError(problem, remedy, place="settings")


_COMPARING = words_of(
    "passes order debias min_passes adaptive group_size single"
)
"""Settings of rollouts that are compared."""
_OF_ALL = ("debias", "standardize")
"""Settings that need all groups."""


def _contradictions(run: ScoreSettings) -> Iterator[tuple[str, str, str]]:
    """Yield settings that make no sense with others, each with the problem and the remedy."""
    ask, combine = run.ask, run.combine
    known: list[tuple[str, Any]] = []
    for judge, asked in zip(run.judges, run.asks, strict=True):
        how = (asked.ask, asked.read, asked.typed, judge.function)
        identity = (judge.model, judge.params, how)
        for label, earlier in known:
            if identity == earlier or label == judge.label:
                problem = f"judges {label} and {judge.label} have the same name, or the same model and parameters"
                remedy = "leave one out; to ask one judge several times, use --passes"
                yield "model", problem, remedy
        known.append((judge.label, identity))
        if not asked.by_probability and (asked.typed or asked.ask == "each"):
            problem = f"judge {judge.label} writes no scores: it is a decision model, or --ask each applies"
            yield "read", problem, "leave it out, or use --read probability"
    scale = scale_mistake(ask.rubric)
    if scale:
        yield "rubric", scale, ""
    if all(run.asked_each):
        for name in _changed(run, _COMPARING):
            problem = "has no meaning: every judge is asked about each rollout alone, once"
            yield name, problem, "leave it out, or leave out --ask each"
    if run.cached_only and run.ledger is None:
        yield "cached_only", "needs a ledger", "leave out --ledger none"
    if ask.question and not ask.question.strip():
        yield "question", "is empty", "write one whose answer is Yes or No"
    if ask.question and not any(asked.by_probability for asked in run.asks):
        yield "question", "is put to no judge", "use --read probability"
    if combine.standardize and not run.panel:
        yield "standardize", "needs a panel", "use -m for each judge"
    if combine.debias and ask.order == "input":
        problem = "needs a random order: in input order no position is random"
        yield "debias", problem, "leave out --set order=input"
    if run.adaptive and ask.passes < FIRST_PASSES:
        problem = "starts with 2 passes for every group"
        yield "adaptive", problem, "use --passes 2 or more"
    fewest = FIRST_PASSES if run.adaptive else ask.passes
    if combine.min_passes > fewest:
        yield "min_passes", "is more than the passes of a group", "use fewer"
    if run.input.shard:
        for name in _changed(run, _OF_ALL):
            problem = "needs all groups, and a shard has only some"
            remedy = "use it in the last run, over the whole file with the --ledger of every shard"
            yield name, problem, remedy


def _changed(run: ScoreSettings, names: Iterable[str]) -> Iterator[str]:
    """Yield the names of settings that do not have their default."""
    for section in (run, run.ask, run.combining):
        for name in names:
            value = getattr(section, name, None)
            if value and value != getattr(type(section), name):
                yield name
