"""The settings of a run, as one frozen value.

Of each part the `…Options` are what a user sets on the command line, by a variable or in `ruler.toml`; what the
part adds to them only a program sets.
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
    Sequence,
)
from dataclasses import KW_ONLY, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic.dataclasses import dataclass

from ruler_cli.errors import UsageError, WrongShapeError
from ruler_cli.settings.keys import (
    HEADERS,
    HIDDEN,
    is_key_name,
    looks_like_key,
    model_name,
    variable_name,
)
from ruler_cli.settings.model_list import listed
from ruler_cli.settings.option_names import option_name
from ruler_cli.settings.parameters import params_of
from ruler_cli.settings.rubric import read_rubric, scale_mistake
from ruler_cli.settings.suggestions import instead_of, nearest, question
from ruler_cli.types import JudgeRequest, Rubric, readable_text, words_of

T = TypeVar("T")
_LONGEST = 60
"""Characters of a wrong value that a sentence repeats."""
_TECHNICAL = re.compile("Value error, |, (unable|got) .*| for <.*")
"""Parts of pydantic's sentences that say how a value was read."""
_OF_NUMBER = re.compile("int|float|finite|greater|less")
"""Pydantic's kinds of mistakes in numbers."""
_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass_transform(field_specifiers=(Field,), frozen_default=True)
def frozen(cls: type[T]) -> type[T]:
    """Make a class a kind of settings."""
    made: Any = dataclass(frozen=True, config=_CONFIG)(cls)
    return cast("type[T]", made)


def _no_flag(value: Any) -> Any:
    """Return True and False, which Python counts among the numbers, as words that are none."""
    return str(value) if isinstance(value, bool) else value


Whole = Annotated[int, BeforeValidator(_no_flag)]
Number = Annotated[float, BeforeValidator(_no_flag)]


@frozen
class Settings:
    """The base of settings."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_mistake(cls, values: Any, check: ValidatorFunctionWrapHandler) -> Any:
        """Check the values; UsageError for the first mistake, in pydantic's words unless it is of a number."""
        try:
            return check(values)
        except ValidationError as error:
            mistakes = error.errors(include_url=False)
            # a misspelt name is why another one is missing
            mistake = min(mistakes, key=lambda one: one["type"] == "missing")
            if not mistake["loc"]:  # whatever holds the value names it
                raise
        fields: dict[str, Any] = cls.__pydantic_fields__  # type: ignore[attr-defined]  # pydantic adds it
        place = mistake["loc"][0]
        name = [*fields][place] if isinstance(place, int) else place
        if name not in fields:
            raise unknown_option(name, fields)
        given = mistake["input"]
        secret = looks_like_key(str(given)) or HEADERS.search(str(given))
        value = HIDDEN if secret else repr(given)
        if len(value) > _LONGEST:
            value = f"{value[:_LONGEST]}…"
        problem = _TECHNICAL.sub("", mistake["msg"]).replace("should be", "is not")
        if mistake["type"] == "missing":
            raise UsageError("is missing", "set it", place=option_name(name))
        if _OF_NUMBER.match(mistake["type"]):
            problem = f"Input is not {_number(fields[name])}"
        kind = WrongShapeError if mistake["type"].endswith("_type") else UsageError
        raise kind(problem.replace("Input", value, 1), place=option_name(name))


def _number(field: Any) -> str:
    """Return which numbers a field takes, e.g. `a whole number of 1 or more`."""
    bounds = {
        name: getattr(each, name)
        for each in field.metadata
        for name in ("ge", "le", "gt")
        if hasattr(each, name)
    }
    noun = "a whole number" if "int" in str(field.annotation) else "a number"
    if {"gt", "le"} <= bounds.keys():
        return f"{noun} above {bounds['gt']:g}, up to {bounds['le']:g}"
    if "le" in bounds:
        return f"{noun} from {bounds['ge']:g} to {bounds['le']:g}"
    if "gt" in bounds:
        return f"{noun} above {bounds['gt']:g}"
    return f"{noun} of {bounds['ge']:g} or more" if bounds else noun


def unknown_option(name: str, known: Iterable[str]) -> UsageError:
    """Return the error for a name that no option has."""
    if is_key_name(name):
        remedy = "name the variable that holds the key with --api-key-env VAR"
        return UsageError(f"{name} is not an option", remedy)
    problem = f"no such option: {name}"
    instead = instead_of(name)
    if instead is not None:
        return UsageError(problem, instead)
    return UsageError(f"{problem}{question(nearest(name, known))}")


DEFAULT_MODEL = "openai/o3"
MAX_RECORD = 512
"""Mebibytes of the largest record that is read."""
LEDGER_VARIABLE = "RULER_LEDGER"
"""The variable that names the ledger, or says `none`."""

FIRST_PASSES = 2
"""Passes that adaptive scoring, and a stronger judge, give every group: an order and its reverse tell its noise."""

Asking = Literal["group", "each"]
"""A request shows all rollouts of a group, or each alone."""
Reading = Literal["auto", "text", "probability"]
"""The judge writes scores, or is asked a question for each rollout, and the probability of Yes is read."""
Api = Literal["auto", "chat", "systemone", "decisions"]
"""The API that a judge speaks: chat completions, System One, or OpenAI's Decisions."""
_DECIDING = words_of("bespoke eu_jev laya nace parallel_ai strands_decider typesafe")
"""Providers that have nothing but System One."""
_CHATTING = ("openai", "hosted_vllm")
"""Providers of whose models none is only a decision model; the list is long to read."""
_MOST_QUESTIONS = {"openai": 400, "azure": 400, "perplexity": 128}
"""Typed questions that a request to a provider may hold, where that is known and not 64."""
_DECISIONS = ("evaluation", "decisions")
"""Kinds of models of litellm's list that answer typed questions alone."""
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
        raise UsageError(problem, place="--shard")
    return Shard(number, of) if of > 1 else None


_FAILURES = re.compile(
    r"(?P<number>\d{1,12})(?:\.0)?|(?P<share>100|\d{1,2}(?:\.\d+)?)%"
)


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
    match = _FAILURES.fullmatch(str(value))
    if match is None:
        problem = (
            f"{str(value)!r} is neither a whole number, e.g. 20, nor a share, e.g. 5%"
        )
        raise UsageError(problem, place="--max-failures")
    return MaxFailures(float(match["number"] or match["share"]), bool(match["share"]))


def price_of(value: Any) -> Any:
    """Return the price that `2,8`, or a list of two numbers, states."""
    parts = value.split(",") if isinstance(value, str) else value
    try:
        prompt, completion = map(float, parts)
    except (TypeError, ValueError):
        prompt = completion = math.nan
    if not all(0 <= part < math.inf for part in (prompt, completion)):
        usage = "USD per million prompt and completion tokens, e.g. 2,8"
        raise UsageError(f"{value!r} is not {usage}", place="--price")
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


def _address(value: str) -> str:
    """Return an address as it is; UsageError for an empty one, with which the provider would be asked."""
    if value.strip():
        return value
    problem = "is empty, and the rollouts would go to the provider"
    raise UsageError(problem, "give an address, or leave it out", place="--api-base")


Address = Annotated[str, AfterValidator(_address)] | None
Limit = Annotated[Whole | None, Field(ge=1)]
Rpm = Annotated[Number | None, Field(ge=0.01)]
Tpm = Annotated[Number | None, Field(ge=1)]
Outage = Annotated[Number, Field(ge=0)]
KeyVariable = Annotated[str, AfterValidator(variable_name)] | None
Timeout = Annotated[Number, Field(ge=0.001)]


@frozen
class JudgeOptions(Settings):
    """The settings of one judge, as a table of `ruler.toml` has them.

    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`, and
    `ask` and `read` to `AskSettings`. `pictures` tells if the model reads pictures; None leaves that to litellm's list.
    """

    model: Annotated[str, AfterValidator(model_name)]
    api_base: Address = None
    api_key_env: KeyVariable = None
    api: Api = "auto"
    via: Via = "auto"
    params: Annotated[Mapping[str, Any], BeforeValidator(params_of)] = field(
        default_factory=dict
    )
    timeout: Timeout = 600.0
    price: Annotated[Price, BeforeValidator(price_of)] | None = None
    rpm: Rpm = None
    tpm: Tpm = None
    concurrency: Limit = None
    max_outage: Outage | None = None
    ask: Asking | None = None
    read: Reading | None = None
    pictures: bool | None = None


@frozen
class JudgeSettings(JudgeOptions):
    """The settings of one judge: its model, the way to it, the parameters of every call, its limits.

    `name` is what the user calls the judge, "" for the model's own name; replies are kept by the model.
    `api_key` is for Python callers, who hold the key already; the command takes a variable's name.
    `rpm`, `tpm`, `concurrency` and `max_outage` are this judge's own; None leaves them to `PoolSettings`.
    `ask` is how the model is asked, or an `async` function that is called in place of one; `model` is then any
    name for it. `pictures` tells if it reads pictures.
    """

    model: Annotated[str, AfterValidator(model_name)] = DEFAULT_MODEL
    _: KW_ONLY
    api_key: str | None = field(default=None, repr=False)
    name: str = ""
    # a program may give a function, a table may not
    ask: AskFunction | Asking | None = None  # type: ignore[assignment]

    @property
    def function(self) -> AskFunction | None:
        """The function that is asked in place of a model."""
        return self.ask if callable(self.ask) else None

    @property
    def spoken(self) -> Api:
        """The API that is spoken: the one that is named, at the end of the address too; else by litellm's list.

        A model that serves both is asked by chat.
        """
        if self.api != "auto":
            return self.api
        provider, _, model = self.model.partition("/")
        if self.function is not None or not model:
            return "chat"
        pasted = re.search(r"/(systemone|decisions)/?$", self.api_base or "")
        if pasted:
            return cast("Api", pasted[1])
        if provider in _CHATTING:
            return "chat"
        if provider in _DECIDING or listed(self.model).get("mode") in _DECISIONS:
            return "systemone"
        return "chat"

    @property
    def label(self) -> str:
        """The name of the judge in OUTPUT and in sentences."""
        return self.name or self.model

    def __post_init__(self) -> None:
        """Refuse a function that is not asynchronous."""
        function = self.function
        if function is None:
            return
        place = f"judge {self.label}"
        if not any(
            map(inspect.iscoroutinefunction, (function, type(function).__call__))
        ):
            problem = "`ask` is not an asynchronous function"
            raise WrongShapeError(problem, "define it with `async def`", place=place)


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


GROUP_SIZE = 32
"""Distinct rollouts that one request shows at most."""


def question_of(text: str | None) -> str | None:
    """Return a question as text that can be sent; UsageError if it is empty."""
    if text is None or text.strip():
        return text and readable_text(text)
    remedy = "give one whose answer is Yes or No"
    raise UsageError("is empty", remedy, place="--question")


@frozen
class AskOptions(Settings):
    """The requests about a group: its passes, windows and order.

    The judge is asked `passes` times, in orders that balance the positions of a rollout. One request shows up
    to `group_size` distinct rollouts; more are shown in windows. `single` says how to score a group with one
    distinct rollout: once and flagged as tied, or absolutely in every pass. `rubric` is a text, a Rubric, a list of
    criteria as a file has them, or `@FILE`, which is read at once.

    `ask` says what a request shows, `read` how the answer is read; None and "auto" leave it to the judge
    (`ScoreSettings.ask_of`). Where probabilities are read, the `question` is put for each distinct rollout; None: the
    built-in one. With `ask` "each" it is put once, about the rollout alone. `pictures` are sent, or left out; "auto"
    sends them to a judge that reads them. Of each rollout the last `most_pictures` are shown.
    """

    _: KW_ONLY
    ask: Asking | None = None
    read: Reading = "auto"
    question: Annotated[str | None, AfterValidator(question_of)] = None
    rubric: Annotated[str | InstanceOf[Rubric] | None, BeforeValidator(read_rubric)] = (
        None
    )
    order: Literal["random", "input"] = "random"
    seed: Whole = 0
    passes: Annotated[Whole, Field(ge=1)] = 1
    group_size: Annotated[Whole, Field(ge=2)] = GROUP_SIZE
    single: Literal["flag", "score"] = "flag"
    pictures: Literal["auto", "send", "leave"] = "auto"
    most_pictures: Annotated[Whole | None, Field(ge=0)] = None


@frozen
class AskSettings(AskOptions):
    """The requests about a group, in a judge's context of `context_tokens` tokens; None: the model's.

    `judge_model` names the model, by which the tokens of pictures are estimated; `reads_pictures`: it reads them,
    None: it is embedded, and never does. `typed`: questions are typed, for a decision model, `most_questions` in a
    request; None: as many as any known endpoint takes.
    All are the judge's: judges that differ in nothing else are shown the same.
    """

    context_tokens: Limit = None
    judge_model: str = field(default="", compare=False)
    reads_pictures: bool | None = field(default=True, compare=False)
    typed: bool = field(default=False, compare=False)
    most_questions: int | None = field(default=None, compare=False)

    @property
    def by_probability(self) -> bool:
        """Tell if probabilities are read."""
        return self.read == "probability"

    @property
    def shown_pictures(self) -> int | None:
        """The number of pictures of a rollout that are shown, the last ones; None: all."""
        return 0 if self.pictures == "leave" else self.most_pictures


@frozen
class CombineSettings(Settings):
    """The way from replies to scores: all of it can be changed afterwards and costs no call.

    A judge with fewer than `min_passes` valid passes does not count. `debias` corrects for the position bias
    measured over the batch, `standardize` brings the judges of a panel to one mean and spread over the
    batch; None: if they are asked or read in several ways, which gives them several scales. `blend` is the
    judge's share in a mean with the original reward, None: the judge alone.
    `order_by_outcome`: a rollout that failed its check never outranks one of its group that passed.
    """

    min_passes: Annotated[Whole, Field(ge=1)] = 1
    debias: bool = False
    standardize: bool | None = None
    blend: Annotated[Number | None, Field(ge=0, le=1)] = None
    order_by_outcome: bool = False


def paths(value: Any) -> Any:
    """Return the paths of an option that is repeated; one text, or one path of a file, is one of them."""
    if isinstance(value, str | Path):
        return (str(value),)
    if isinstance(value, list):  # a format is hashed
        return tuple(value)
    return () if value is None else value


Paths = Annotated[str | Sequence[str], BeforeValidator(paths)]


def _terms(value: Any) -> Any:
    """Return terms in a list as one text, with spaces between them."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


ENDED = (
    "ended|is_truncated|truncated|is_aborted|aborted|stop_condition|stop_reason|finish_reason|termination_reason|"
    "exit_status|info.exit_status|messages.-1.finish_reason|choices.-1.finish_reason|"
    "response.choices.-1.finish_reason|metadata.ended|metadata.truncated|metadata.is_truncated|metadata.aborted|"
    "metadata.finish_reason|metadata.stop_reason|metadata.stop_condition|metadata.termination_reason"
)
"""Paths at which dumps of any kind say how a rollout ended."""


@frozen
class RecordPaths(Settings):
    """One shape of a record, as paths to its parts: a row of the table of formats.

    A table `[formats.NAME]` of ruler.toml has the same words. A path is dotted (`a.b`). A number picks an item of
    a list, `-1` the last one; `[]` behind a name means each item of a list, or each value of an object
    (`results[].outputs[]`). A name that holds dots stands in quotes (`"a.b".c`). `a|b` is the first that is there.

    `records` leads from a document to its records. `has` are terms that tell records of this shape from others
    (see `formats.fields.holds`); without them a shape is read only if it is named.

    `messages` are conversations, or answers; a text at `answers`, which are read where there are no `messages`, is
    always the agent's own turn. Several paths,
    a `[]` in one, or a list of answers at one make a record a group. `prompt` are the parts of the task, in their
    order. Behind a common list each rollout has the item of its own number. `calls` is the place of tool calls
    in a turn. `reference` is the right answer, which only the judge sees. `rubric` is that of the group. `ended` are
    the places of flags and words that say how a rollout ended (see `messages.endings`); the first that says one counts.

    `group_by` are paths that are the key of a group together. A score goes to `reward`, where the original one was
    read, and the annotation to `ruler`: below a rollout's own object, if it has one.
    """

    _: KW_ONLY
    records: str = ""
    has: Annotated[str, BeforeValidator(_terms)] = ""
    messages: Paths = ()
    answers: Paths = ()
    prompt: Paths = ()
    calls: str = ""
    tools: str = ""
    reward: str = "reward"
    outcome: str = ""
    reference: str = ""
    rubric: str = "rubric|rubrics"
    ended: str = ENDED
    group_by: Paths = ()
    ruler: str = "ruler"


ReadRecord = Callable[[Mapping[str, Any]], Any]
"""A program's own reader: a record → a trajectory as a dict with `messages`, or a list of these, which are a group."""


@frozen
class InputOptions(Settings):
    """The grouping of records, and the paths that the user gave: a row without a name, or a part of one.

    `format` is `auto`, the name of a row, a row, or a program's own reader. `records` is the path of the records
    in a document, or in each line. With `limit` only so many groups are read, the first; with `shard` only its
    own. A record of more than `max_record` mebibytes counts as unreadable.
    """

    _: KW_ONLY
    format: str | RecordPaths | ReadRecord = "auto"
    grouping: Grouping = "auto"
    group_by: Paths = ()
    reward: str | None = None
    records: str | None = None
    messages: Paths = ()
    outcome: str | None = None
    shard: Annotated[Shard | None, BeforeValidator(shard_of)] = None
    prompt: Paths = ()
    tools: str | None = None
    reference: str | None = None
    limit: Limit = None
    # a record that waits for its turn is a row of SQLite's, which takes 10^9 bytes
    max_record: Annotated[Whole, Field(ge=1, le=900)] = MAX_RECORD


@frozen
class InputSettings(InputOptions):
    """The source of records; `outcome_option` is the option that gave `outcome`, by its field.

    `rows` are the user's own formats, by their names.
    """

    source: str = "-"
    outcome_option: str = "outcome"
    rows: Mapping[str, RecordPaths] = field(default_factory=dict)

    @property
    def named_row(self) -> RecordPaths | None:
        """The user's row that `format` is or names."""
        if isinstance(self.format, RecordPaths):
            return self.format
        return self.rows.get(self.format) if isinstance(self.format, str) else None

    def with_paths(self, row: RecordPaths) -> RecordPaths:
        """Return a row with the paths that are given beside it in the places of its own."""
        names = [
            field.name for field in fields(RecordPaths) if hasattr(self, field.name)
        ]
        given = {name: value for name in names if (value := getattr(self, name))}
        return replace(row, **given)


@frozen
class RunOptions(Settings):
    """The conduct of a run as a whole.

    With `fallback` the next judge takes over a group that one refuses. `adaptive` spends passes where they
    help, `passes` on average. `cached_only` asks nobody: what no ledger answers fails. `spend` says which
    groups of a file the cap pays for: the first ones, or a sample of all that is drawn by the seed. `force`
    replaces an OUTPUT that ruler did not write.
    """

    _: KW_ONLY
    on_failure: OnFailure = "null"
    failed: Path | None = None
    force: bool = False
    max_failures: Annotated[
        MaxFailures | float | str | None, BeforeValidator(max_failures_of)
    ] = None
    retry_failed: bool = False
    cached_only: bool = False
    spend: Literal["first", "spread"] = "first"
    debug: bool = False
    fallback: bool = False
    adaptive: bool = False
    escalate_gap: Annotated[Number, Field(ge=0, le=1)] = 0.1

    @property
    def most_failures(self) -> MaxFailures | None:
        """The bound on failures."""
        return self.max_failures if isinstance(self.max_failures, MaxFailures) else None


@frozen
class ScoreSettings(RunOptions):
    """One run of `ruler score`.

    `panel` are judges beside the first, `escalate` is a stronger one for groups that they leave undecided: whose scores
    lie no further apart than `escalate_gap`, or twice their standard error over passes. `ledger` keeps every reply: by
    default the command's own, None keeps nothing; `ledgers` are others in which replies are looked up too. `grace` is
    how many seconds calls in flight may take to finish once the run is told to stop. UsageError if settings contradict
    one another.
    """

    input: InputSettings = InputSettings()
    output: str = "-"
    judge: JudgeSettings = JudgeSettings()
    ask: AskSettings = AskSettings()
    pool: PoolSettings = PoolSettings()
    combine: CombineSettings = CombineSettings()
    ledger: Annotated[Path | None, BeforeValidator(ledger_path)] = field(
        default_factory=lambda: ledger_path(os.environ.get(LEDGER_VARIABLE, ""))
    )
    panel: tuple[JudgeSettings, ...] = ()
    escalate: JudgeSettings | None = None
    ledgers: tuple[Annotated[Path, BeforeValidator(ledger_path)], ...] = ()
    grace: Annotated[Number, Field(ge=0)] = 60.0

    def __post_init__(self) -> None:
        """Refuse settings that contradict one another."""
        _refuse_judges(self)
        for wrong, option, problem, remedy in _contradictions(self):
            if wrong:
                raise UsageError(problem, remedy, place=option_name(option))

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
        shown = judge.ask if isinstance(judge.ask, str) else self.ask.ask
        read = judge.read or self.ask.read
        typed = judge.spoken != "chat"
        if read == "auto":
            read = "probability" if typed or shown == "each" else "text"
        if shown is None:
            # an engine may hold no text from one question to the next
            shown = "group" if typed or read == "text" else "each"
        provider = judge.model.partition("/")[0]
        ask = replace(
            self.ask,
            ask=shown,
            read=read,
            typed=typed,
            most_questions=None if judge.api_base else _MOST_QUESTIONS.get(provider),
            judge_model=judge.model,
        )
        return replace(ask, passes=1, single="score") if shown == "each" else ask

    @property
    def asks(self) -> list[AskSettings]:
        """The requests to each judge."""
        return list(map(self.ask_of, self.judges))

    @property
    def asked_each(self) -> list[bool]:
        """Tell for each judge if it is asked about each rollout alone."""
        return [ask.ask == "each" for ask in self.asks]

    @property
    def combining(self) -> CombineSettings:
        """The way to scores, with `standardize` decided."""
        combine = self.combine
        if combine.standardize is not None:
            return combine
        # judges in turn do not score together
        panel = self.asks[: 1 + len(self.panel)]
        ways = {(ask.ask, ask.read) for ask in panel}
        mixed = len(ways) > 1 and not self.fallback
        return replace(combine, standardize=mixed)

    @property
    def absolute(self) -> bool:
        """Tell if a group with one distinct rollout gets a score that means something."""
        return self.ask.single == "score" or any(self.asked_each)


def refuse_no_settings(value: object) -> None:
    """Raise WrongShapeError if a program gives something else than the settings of a run."""
    if not isinstance(value, ScoreSettings):
        problem = f"is of type {type(value).__name__}"
        remedy = "give load_settings(model=NAME) or a ScoreSettings"
        raise WrongShapeError(problem, remedy, place="settings")


def _contradictions(run: ScoreSettings) -> Iterator[tuple[object, str, str, str]]:
    """Yield each contradiction: if it is there, the field of an option, the problem and the remedy."""
    ask = run.ask
    combine = run.combine
    least = combine.min_passes
    few = ask.passes < FIRST_PASSES
    in_turn = run.fallback
    scale = scale_mistake(ask.rubric)
    leave = "leave one out"
    more = "use --passes 2 or more"
    several = ("needs several judges", "repeat -m")
    ordered = "needs a random order: in input order a position tells the rollout"
    together = "needs judges that score together, not in turn as with --fallback"
    too_many = f"is more than --passes {ask.passes}"
    yield (
        run.cached_only and run.ledger is None,
        "cached_only",
        "needs a ledger",
        "leave out --ledger none",
    )
    yield scale, "rubric", scale, ""
    alone = "has no meaning: every judge is asked about each rollout alone, once"
    compare = "leave it out, or leave out --ask each"
    for option, given in {
        "passes": ask.passes > 1,
        "order": ask.order == "input",
        "debias": combine.debias,
        "min_passes": least > 1,
        "adaptive": run.adaptive,
        "group_size": ask.group_size != GROUP_SIZE,
        "single": ask.single == "score",
    }.items():
        yield given and all(run.asked_each), option, alone, compare
    asks = run.asks
    unasked = ask.question is not None and not any(a.by_probability for a in asks)
    yield unasked, "question", "is put to no judge", "use --read probability"
    probability = "leave it out, or use --read probability"
    for judge, way in zip(run.judges, asks, strict=True):
        label = judge.label
        single = not way.by_probability and way.ask == "each"
        problem = (
            f"judge {label} is asked about each rollout alone, and writes no score"
        )
        yield single, "read", problem, probability
        mute = not way.by_probability and way.typed
        problem = f"judge {label} is a decision model, which writes no text"
        yield mute, "read", problem, probability
    yield (
        combine.debias and ask.order == "input",
        "debias",
        ordered,
        "leave out --order input",
    )
    yield in_turn and not run.panel, "fallback", *several
    yield combine.standardize and not run.panel, "standardize", *several
    yield in_turn and combine.standardize, "standardize", together, leave
    yield (
        run.adaptive and few,
        "adaptive",
        "starts with 2 passes for every group",
        more,
    )
    yield least > ask.passes, "min_passes", too_many, "give fewer"

    adaptive = run.adaptive
    limited = adaptive and least > FIRST_PASSES
    early = "--adaptive gives most groups 2 passes"
    yield limited, "min_passes", early, "give 2 or less"
    of_all = {"debias": combine.debias}
    of_all["standardize"] = bool(run.combining.standardize)
    last = (
        "give it to the last run, over the whole file with the --ledger of every shard"
    )
    problem = "needs all groups, and a shard has some"
    for option, needed in of_all.items():
        yield needed and run.input.shard, option, problem, last


def _refuse_judges(run: ScoreSettings) -> None:
    """Raise UsageError for two judges that are one."""
    for one, other in combinations(run.judges, 2):
        ways = []
        for judge in (one, other):
            ask = run.ask_of(judge)
            how = (ask.ask, ask.read, ask.typed, judge.function)
            ways.append((judge.model, judge.params, how))
        if ways[0] == ways[1] or one.label == other.label:
            problem = f"judges {one.label} and {other.label} have one name, or one model and the same parameters"
            remedy = "leave one out; to ask one judge several times, use --passes"
            raise UsageError(problem, remedy)
