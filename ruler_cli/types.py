"""The values that flow through a run: line → record → group → request → reply → scores → annotation."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, Protocol, Self, TypeVar, dataclass_transform

import orjson

from ruler_cli.tokens import CHARACTERS_PER_TOKEN, AnswerSize

Kind = Literal[
    "reply",
    "transport",
    "refused",
    "too_long",
    "input",
    "budget",
    "interrupted",
]
"""The kinds of failure of a group, or of a call."""
Path = tuple[str | int, ...]
T = TypeVar("T")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, which is easier to read than a tuple of them."""
    return tuple(text.split())


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """Make a dataclass of values that a type checker, but not Python, refuses to change.

    A group takes hundreds of them, and to freeze them takes a twentieth of its CPU.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


@value
class Line:
    """One record of INPUT: 1-based number in its order, byte offset in the decompressed stream, bytes.

    `place` is how a sentence names it where it is not simply `line NUMBER`. `source` is the name of its file where
    INPUT is several. `skipped` is the size of a record that is larger than the bound: `raw` is its beginning then, and
    not held further. `error` says why it is not a record, whatever its bytes are.
    """

    number: int
    offset: int
    raw: bytes
    place: str = ""
    source: str = ""
    skipped: int = 0
    error: str = ""

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + (self.skipped or len(self.raw))

    @property
    def where(self) -> str:
        """The name of its place in a sentence."""
        return self.place or f"line {self.number}"


@value
class Problem:
    """A part of the input that could not be read: its place, the reason, and its bytes, verbatim.

    `too_large`: it is a record that was not held, so INPUT is its only copy.
    """

    line: int
    reason: str
    raw: bytes
    place: str = ""
    too_large: bool = False

    @property
    def where(self) -> str:
        """The name of its place in a sentence."""
        return self.place or f"line {self.line}"


@dataclass(frozen=True, slots=True)
class Criterion:
    """A statement that holds of a rollout or not; the judge says how far, from 0 to 1.

    `weight` is its part in the score; that of a mistake is negative. With `veto` a rollout scores 0 if the
    statement does not hold of it, or if that of a mistake holds. `name` stands in OUTPUT; without one it is the
    beginning of the statement. With `levels`, situations from the lowest to the highest, a rollout is at one of them.
    """

    text: str
    weight: float = 1.0
    name: str = ""
    veto: bool = False
    levels: tuple[str, ...] = ()

    @property
    def values(self) -> list[float]:
        """The values of its levels from 0 to 1, as a judge writes them; none without levels."""
        top = len(self.levels) - 1
        return [round(at / top, 2) for at in range(top + 1)]


MOST_LEVELS = 10
"""Levels of a criterion; System One takes no more."""
_NAME = 80
"""Characters of the name of a criterion."""
_HEAVIEST = 1e9
"""The greatest weight of a criterion, of either sign."""


@dataclass(frozen=True)
class Rubric:
    """Criteria, of which the score of a rollout is the weighted mean, mapped to 0 to 1."""

    criteria: Sequence[Criterion]

    def __post_init__(self) -> None:
        """Take any sequence; ValueError if no score can be made of it."""
        object.__setattr__(self, "criteria", tuple(self.criteria))
        for number, criterion in enumerate(self.criteria, 1):
            if problem := _problem_of(criterion):
                raise ValueError(f"criterion {number}: {problem}")
        if len(self.criteria) > MOST_CRITERIA:
            raise ValueError(
                f"has {len(self.criteria)} criteria, more than {MOST_CRITERIA}"
            )
        if not any(criterion.weight for criterion in self.criteria):
            raise ValueError("has no criterion with a weight other than 0")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each criterion; no two are equal."""
        names: dict[str, None] = {}
        for criterion in self.criteria:
            name = short = name_of(criterion)
            count = 1
            while name in names:
                count += 1
                name = f"{short} ({count})"
            names[name] = None
        return tuple(names)

    @property
    def stated(self) -> list[dict[str, Any]]:
        """The criteria as a file states them."""
        return [_stated(criterion) for criterion in self.criteria]

    @cached_property
    def text(self) -> str:
        """The criteria as JSON, one a line."""
        lines = [orjson.dumps(statement).decode() for statement in self.stated]
        return "\n".join(lines)

    @property
    def statements(self) -> str:
        """The part of the criteria that a judge sees."""
        return "\n".join(
            "\n".join((criterion.text, *criterion.levels))
            for criterion in self.criteria
        )


def _stated(criterion: Criterion) -> dict[str, Any]:
    """Return a criterion as a file states it."""
    stated: dict[str, Any] = {
        "criterion": readable_text(criterion.text),
        "weight": float(criterion.weight),
    }
    if criterion.name:
        stated["name"] = readable_text(criterion.name)
    if criterion.veto:
        stated["veto"] = True
    if criterion.levels:
        stated["levels"] = [*map(readable_text, criterion.levels)]
    return stated


def _problem_of(criterion: Any) -> str:
    """Return why no score can be made of a criterion; empty if one can."""
    if not isinstance(criterion, Criterion):
        return "is not a Criterion"
    text, weight, name, veto, levels = astuple(criterion)
    if not isinstance(text, str) or not text.strip():
        return "has no statement; write it as `criterion`"
    if not isinstance(weight, int | float) or not abs(weight) <= _HEAVIEST:
        return f"has no weight up to {_HEAVIEST:g}"
    if not isinstance(name, str):
        return "has a name that is not text"
    if not isinstance(veto, bool):
        return "veto is true or false"
    texts = {level for level in levels if isinstance(level, str) and level}
    several = 2 <= len(texts) <= MOST_LEVELS
    if levels and not (several and len(texts) == len(levels)):
        return f"levels are 2 to {MOST_LEVELS} different texts"
    return ""


MOST_CRITERIA = 1024
"""Criteria of a rubric; more are a mistake, or hostile."""
Standards = str | Rubric
"""Grading standards: a text, or criteria."""


def rubric_text(rubric: Standards) -> str:
    """Return a rubric as text."""
    return rubric if isinstance(rubric, str) else rubric.text


def name_of(criterion: Criterion) -> str:
    """Return the name of a criterion for people, or the beginning of its statement."""
    return printable(
        " ".join((criterion.name or criterion.text).split()), _NAME
    )


ENDINGS = ("truncated", "aborted", "error")
"""Ends of rollouts that did not end by themselves: at a limit, stopped from outside, in an error."""


@value
class Rollout:
    """One trajectory as a format read it: messages, further histories, tools, original reward.

    `path` leads from the record to the trajectory's own object, or is its place in the lists of a columnar record;
    `error` says why it cannot be judged. Rollouts of a group with the same `member` are parts of one, in their order:
    judged as one, with one score. `key` is the group's where a record holds rollouts of several. `outcome` is what a
    verifier said, as it stands in the dump. `reference` is the right answer of its task, which only the judge sees.
    `prompt_length` counts the first messages that are the prompt, None: those before the agent's first turn. `places`
    are the lists of the record that it was read from, the outermost first: the path to each, and the number of the
    item or the key of the entry there. `ended` is one of
    ENDINGS if the dump says so, and empty for a normal or an unknown end. `unknown` are the types of its events that
    are shown as JSON, since nobody knows what they are.
    """

    messages: list[Any]
    path: Path = ()
    histories: tuple[list[Any], ...] = ()
    tools: Any = None
    reward: Any = None
    error: str | None = None
    outcome: Any = None
    reference: Any = None
    member: str | None = None
    key: str | None = None
    prompt_length: int | None = None
    ended: str = ""
    places: tuple[tuple[str, int | str], ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The error as a sentence about the record: with the rollout's place in it, if it has one."""
        where = ".".join(map(str, self.path))
        return f"`{where}` {self.error}" if where else str(self.error)


@value
class Record:
    """One line that was read: its rollouts and what it says of their group.

    `rubric_error` says why its rubric cannot be used. A columnar line gives one Record for each group in it, the
    `part`th of `parts`.
    """

    line: Line
    rollouts: tuple[Rollout, ...]
    key: str | None = None
    rubric: Standards | None = None
    rubric_error: str = ""
    tools: Any = None
    part: int = 0
    parts: int = 1


def same_json(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal by type and value: true is not 1, and 1 is 1.0."""
    pairs = [(left, right)]
    while pairs:  # no recursion: a value may be nested deeply
        a, b = pairs.pop()
        if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            pairs += zip(a, b, strict=True)
        elif (
            isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys()
        ):
            pairs += ((a[key], b[key]) for key in a)
        elif isinstance(a, bool) is not isinstance(b, bool) or (
            a is not b and a != b
        ):
            return False
    return True


@value
class Group:
    """All rollouts of one task, in input order, with the records they stand in."""

    key: str
    records: tuple[Record, ...]

    @property
    def rollouts(self) -> list[Rollout]:
        """Every rollout of every record, in input order."""
        return [
            rollout for record in self.records for rollout in record.rollouts
        ]

    @property
    def rubric(self) -> Standards | None:
        """The group's own rubric: the first that a record states."""
        return next((r.rubric for r in self.records if r.rubric), None)

    @property
    def rubric_error(self) -> str:
        """The reason why the group's own rubric cannot be used; empty if it can, or if there is none."""
        rubric = self.rubric
        for record in self.records:
            if record.rubric and record.rubric != rubric:
                return "is not the same in all its records"
        return next(
            (r.rubric_error for r in self.records if r.rubric_error), ""
        )

    @property
    def mistake(self) -> str:
        """The reason why the group cannot be judged by what its records say of it; empty if it can."""
        references = [
            rollout.reference
            for rollout in self.rollouts
            if rollout.error is None
        ]
        if any(
            not same_json(references[0], reference)
            for reference in references[1:]
        ):
            return "its reference answer is not the same in all its rollouts"
        error = self.rubric_error
        between = ", " if error.startswith("criterion") else " "
        return error and f"its rubric{between}{error}"

    @property
    def tools(self) -> Any:
        """The group's own tools: the first that a record states."""
        return next((r.tools for r in self.records if r.tools), None)

    @property
    def compared(self) -> int:
        """The number of rollouts that the judge compares: those of one `member` are one."""
        members = [rollout.member for rollout in self.rollouts]
        return members.count(None) + len({*members} - {None})

    @property
    def size(self) -> int:
        """Bytes of input that the group holds in memory."""
        return sum(
            len(record.line.raw) // record.parts for record in self.records
        )


@value
class Usage:
    """Tokens of one or more calls, as the judge reported them.

    Of the prompt, `cached` tokens were read from the provider's cache and `written` ones put there; of the completion
    `reasoning` ones are thought. `estimated`: some number was not reported, or cannot be. `usd` is what the calls cost
    where the price is known.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    calls: int = 0
    written: int = 0
    estimated: bool = False
    reasoning: int = field(default=0, compare=False)
    usd: float = field(default=0.0, compare=False)

    def __add__(self, further: Usage) -> Usage:
        """Sum, field by field."""
        if self is NO_USAGE:
            return further
        return Usage(
            self.prompt + further.prompt,
            self.completion + further.completion,
            self.cached + further.cached,
            self.calls + further.calls,
            self.written + further.written,
            self.estimated or further.estimated,
            self.reasoning + further.reasoning,
            usd=self.usd + further.usd,
        )


NO_USAGE = Usage()


@value
class Picture:
    """A picture of a message: its bytes, or the address that the message names, with the stated size (`detail`).

    `digest` is that of the original bytes, or of the address, and of the stated size: it stays if the picture is made
    smaller. `width` and `height` are pixels, 0 if not known. `error` says why no judge can be sent it, as a
    predicate. `kind` is "picture", or "audio", "video" or "file" for another medium, which no judge is sent.
    """

    digest: str
    data: bytes = field(default=b"", repr=False, compare=False)
    address: str = ""
    media: str = ""
    detail: str = ""
    width: int = 0
    height: int = 0
    error: str = ""
    kind: str = "picture"

    @property
    def url(self) -> str:
        """Its address on the web, or one that holds its bytes."""
        return (
            self.address
            or f"data:{self.media};base64,{b64encode(self.data).decode()}"
        )


Placed = tuple[tuple[int, Picture], ...]
"""Pictures in a text, each with the number of characters before it."""
_DETAILS = ("low", "high", "auto")
"""Stated sizes that endpoints know."""


def content_of(
    text: str,
    pictures: Placed,
) -> str | list[dict[str, Any]]:
    """Return a text as the content of a chat message: the text itself, or parts if it has pictures."""
    if not pictures:
        return text
    parts: list[dict[str, Any]] = []
    at = 0
    for place, picture in pictures:
        parts.append({"type": "text", "text": text[at:place]})
        size = {"detail": picture.detail} if picture.detail in _DETAILS else {}
        parts.append(
            {"type": "image_url", "image_url": {"url": picture.url, **size}}
        )
        at = place
    return [*parts, {"type": "text", "text": text[at:]}]


@value
class Question:
    """A question about a rollout, which a decision model answers with probabilities.

    `name` has letters only, and `text` is what is asked. With `levels`, the lowest first, the answer is how far up the
    rollout is; without, yes or no.
    """

    name: str
    text: str
    levels: tuple[str, ...] = ()


@value
class Request:
    """One request to the judge: the two messages, the labels to score, the longest answer.

    With `words` it asks for one of them, and their probabilities are read, the lowest first. With `questions`, typed
    ones for a decision model, both messages are one text. Neither has labels. `pass_index` is the number of the pass,
    from 0: two passes may ask the same and are two calls. `criteria` are those that each rollout is judged by, by their
    labels; without any it gets a score. `fitted`: `max_output_tokens` is all that the judge's context leaves.
    `cached_only`: only an earlier reply counts. The first `shared` characters of `user` come again in a later request,
    behind the same system message. `shown` maps the label of each rollout in the request, in order, to the number of
    the distinct rollout. `pictures` stand in the user message, and take `picture_tokens`. `keyed_system` is the system
    message that asks for an object with the labels as keys in place of a list; empty if there is none.
    """

    system: str
    user: str
    labels: tuple[str, ...]
    max_output_tokens: int | None = None
    pass_index: int = 0
    fitted: bool = field(default=False, compare=False)
    words: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    criteria: Mapping[str, Criterion] = field(
        default_factory=dict, compare=False
    )
    cached_only: bool = field(default=False, compare=False)
    shared: int = field(default=0, compare=False)
    shown: Mapping[str, int] = field(
        default_factory=dict, repr=False, compare=False
    )
    pictures: Placed = ()
    picture_tokens: int = field(default=0, compare=False)
    keyed_system: str = field(default="", repr=False, compare=False)

    @property
    def by_probability(self) -> bool:
        """Return whether the judge writes nothing, and probabilities are read."""
        return bool(self.words or self.questions)

    @property
    def asked(self) -> str:
        """Its typed questions as one text, JSON lines of names, texts and levels; empty if there are none."""
        rows = (
            (question.name, question.text, *question.levels)
            for question in self.questions
        )
        return "\n".join(orjson.dumps(row).decode() for row in rows)

    @property
    def state(self) -> str:
        """Its two messages as the one text that a decision model reads."""
        return f"{self.system}\n\n{self.user}"

    @property
    def prompt(self) -> str:
        """Its two messages as one text, with its questions."""
        return f"{self.system}\n{self.user}{self.asked}"

    @property
    def size(self) -> int:
        """Characters of the prompt; its pictures count as text of as many tokens."""
        pictures = int(self.picture_tokens * CHARACTERS_PER_TOKEN)
        asked = len(self.asked) if self.questions else 0
        return len(self.system) + len(self.user) + asked + pictures

    @property
    def content(self) -> str | list[dict[str, Any]]:
        """The content of the user message."""
        return content_of(self.user, self.pictures)

    def answer_tokens(self, size: AnswerSize) -> float:
        """Return the tokens of an answer of this size."""
        return size.of(len(self.labels), len(self.criteria))

    @property
    def common(self) -> int:
        """Characters with which a later prompt begins too."""
        return len(self.system) + self.shared if self.shared else 0


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A request to a judge that is a function, `JudgeSettings(function=…)`.

    `model` and `params` are those of its settings. `system` and `user` are the two messages. The reply is a JSON
    object of the `schema`, with one entry for each of the `labels`, and takes `max_output_tokens` at most; None: no
    bound. `pass_index` is the number of the pass, from 0. With `words` the reply is a whole chat completion
    whose `logprobs` tell how likely each of them is as its first word. `criteria` are the statements that each entry
    has a value for, by their ids. `pictures` stand in the user message, each behind so many characters; `messages`
    holds them.
    """

    model: str
    params: Mapping[str, Any]
    system: str
    user: str
    labels: tuple[str, ...]
    schema: Mapping[str, Any] = field(repr=False)
    max_output_tokens: int | None
    pass_index: int
    words: tuple[str, ...] = ()
    criteria: Mapping[str, str] = field(default_factory=dict)
    pictures: Placed = field(default=(), repr=False)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The two messages, as a chat completion takes them."""
        user = content_of(self.user, self.pictures)
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": user},
        ]


@value
class RateLimitRemaining:
    """The requests and tokens that the rate limits of a judge leave; None if it does not name them."""

    requests: int | None = None
    tokens: int | None = None


@value
class Reply:
    """The answer of a judge; `refusal` is its own sentence that it will not score.

    `body` is the chat completion as it came, JSON without the key; the ledger keeps it. `seconds` is the
    time that the judge took, in `http_requests` requests if it refused a form of the answer; `cached`: the
    judge was not asked now but before; `thought`: the judge thought before it answered; `beside`: the text stood in
    a tool call or where thoughts stand, and the answer was empty. `model` is the name of the model in the body.
    `left` is what rate limits leave after this call. `likely` are the tokens that could begin the text, each with the
    natural logarithm of its probability. `answers` are those to typed questions, as they came, by the names of the
    questions. `cut` are the tokens of the prompt that the judge has read, if its server cut it; 0: it read all.
    """

    text: str
    usage: Usage = NO_USAGE
    truncated: bool = False
    refusal: str | None = None
    body: bytes = field(default=b"", repr=False, compare=False)
    seconds: float = field(default=0.0, compare=False)
    cached: bool = field(default=False, compare=False)
    http_requests: int = field(default=1, compare=False)
    thought: bool = field(default=False, compare=False)
    beside: bool = False
    model: str = field(default="", compare=False)
    left: RateLimitRemaining | None = field(default=None, compare=False)
    likely: tuple[tuple[str, float], ...] = field(
        default=(), repr=False, compare=False
    )
    answers: Mapping[str, Any] | None = field(
        default=None, repr=False, compare=False
    )
    cut: int = field(default=0, compare=False)


@value
class CallError:
    """A call without a usable answer.

    `scope`: "run" ends the run, "group" fails this group, "call" may be tried again, not before `retry_after` seconds
    where the server named them. `rate` tells that a limit was passed and nothing is broken. `context` is the judge's
    context and this request's size in tokens, where the server named both. `sent` is False where the request certainly
    never reached the judge. `body` is an answer that came, and may have been paid for, but is not a chat completion.
    `kept` is False where the next run asks again in any case. `cut` are the tokens of a reply to a prompt that the
    server cut; none if it was not sent, since the server would cut it.
    """

    kind: Kind
    reason: str
    scope: Literal["run", "group", "call"]
    retry_after: float | None = None
    context: tuple[int, int] | None = None
    sent: bool = True
    billed: bool = True
    kept: bool = True
    rate: bool = False
    cut: Usage | None = None
    body: bytes = field(default=b"", repr=False, compare=False)
    cached: bool = field(default=False, compare=False)
    http_requests: int = field(default=1, compare=False)


class Judge(Protocol):
    """A judge, open while it is used as an async context; one without connections inherits both ends."""

    async def ask(self, request: Request) -> Reply | CallError:
        """One call, no retry; every failure of the outside world is a CallError, never an exception."""

    async def __aenter__(self) -> Self:
        """Open connections."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        return


UNANSWERED = CallError(
    "transport",
    "the ledger has no reply to the request, and no judge is asked",
    "group",
    sent=False,
)
"""The result of a request without a cached reply, in a run that asks nobody."""


@value
class GroupError:
    """A group that could not be scored: the kind of the failure, and one sentence.

    `cut`: it is too long for a server that cuts prompts.
    """

    kind: Kind
    reason: str
    cut: bool = False


@value
class PassScores:
    """The scores of one usable reply: one judge, one pass, the rollouts of one request.

    `judge` is the judge's number in the panel, `pass_index` the pass, `window` the part of the group that
    the request shows, each from 0. `distinct` are the numbers of distinct rollouts in the order shown;
    `scores` in [0, 1] and `explanations` are aligned with it. `bounds`: a reply had no scores but 0 and 1, which
    may stand on another scale (2: although its request named the scale); `mended`: its form was mended;
    `unknown` counts ids in the reply that belong to no rollout. `asked_alone`: the judge saw one rollout. Scores that
    are probabilities are uncertain by `error`, half a unit of their last digit; `unanswered` are distinct rollouts that
    the judge was asked about and said nothing of. `criteria` are the values of the criteria of each rollout, if there
    are any; its score is their weighted mean.
    """

    judge: int
    pass_index: int
    window: int
    distinct: tuple[int, ...]
    scores: tuple[float, ...]
    explanations: tuple[str, ...]
    bounds: int = 0
    mended: bool = False
    unknown: int = 0
    asked_alone: bool = False
    error: float = 0.0
    unanswered: tuple[int, ...] = ()
    criteria: tuple[tuple[float, ...], ...] = ()

    @property
    def placed(self) -> bool:
        """Return whether the positions of its scores are those at which the rollouts were shown."""
        return not (self.asked_alone or self.unanswered)


@value
class FailedCall:
    """A request that brought no scores: its judge, pass and window, and the error."""

    judge: int
    pass_index: int
    window: int
    error: GroupError


in_order = attrgetter("judge", "pass_index", "window")
"""The place of a reply or of a failed call in the order that does not depend on which came first."""


@value
class GroupResult:
    """The replies of all judges about a group, as numbers: no text of the dump, no other group needed.

    `owner[i]` is the distinct rollout that rollout i became, None if it could not be read: `reasons[i]` says
    why. `sizes` are the bytes of each distinct rollout, `suspects` those whose text addresses a judge.
    `shortened` is the step of `prompting.prompt.LADDER` by which text was left out, `pictures_left_out` counts the
    pictures of the group that judges are not shown. `judges` counts the
    judges that were to score the group, `windows` the parts of a pass (1: all at once). `escalated_to` is
    the stronger judge whose scores stand alone. `rewards` are the original rewards of the rollouts,
    `outcomes` whether a verifier passed them; None where there is none.

    `seconds` is the time of all replies, `cached`: no judge was asked now; `used` are the tokens of all
    replies by judge, `paid` those of replies that were asked for now; `ended` is the Unix time at the end.
    `served` are the names of the models in the replies, sorted. `rubric` are the criteria of the scores, if any.
    `missing` are the requests that only a cached reply could answer and none did, each with the number of its judge.
    """

    owner: tuple[int | None, ...]
    reasons: tuple[str, ...]
    sizes: tuple[int, ...]
    pass_scores: tuple[PassScores, ...] = ()
    failed_calls: tuple[FailedCall, ...] = ()
    suspects: frozenset[int] = frozenset()
    shortened: int = 0
    pictures_left_out: int = 0
    judges: int = 1
    windows: int = 1
    escalated_to: int | None = None
    rewards: tuple[float | None, ...] = ()
    outcomes: tuple[bool | None, ...] = ()
    seconds: float = 0.0
    cached: bool = False
    used: tuple[Usage, ...] = ()
    paid: tuple[Usage, ...] = ()
    ended: float = 0.0
    served: tuple[str, ...] = ()
    rubric: Rubric | None = None
    missing: tuple[tuple[int, Request], ...] = field(
        default=(), repr=False, compare=False
    )

    @property
    def alone(self) -> bool:
        """Return whether there was nothing to compare: one rollout, or all identical."""
        return len(self.sizes) == 1

    @property
    def capped(self) -> bool:
        """Return whether the group lacks a reply because of the cost cap."""
        return any(call.error.kind == "budget" for call in self.failed_calls)

    @property
    def usage(self) -> Usage:
        """Tokens of all replies of the group."""
        return sum(self.used, NO_USAGE)

    @property
    def bounds(self) -> frozenset[tuple[int, int]]:
        """The `judge` and `bounds` of replies of only 0 and 1, as far as scores are made of them."""
        stands = self.escalated_to
        return frozenset(
            (scores.judge, scores.bounds)
            for scores in self.pass_scores
            if scores.bounds and stands in (None, scores.judge)
        )

    @property
    def mended(self) -> int:
        """The number of replies whose form was mended."""
        return sum(scores.mended for scores in self.pass_scores)

    @property
    def unknown(self) -> int:
        """The number of ids in replies that belong to no rollout."""
        return sum(scores.unknown for scores in self.pass_scores)


@value
class CriterionScore:
    """The value of a criterion for a rollout, from 0 to 1: the mean over judges and passes, and that of each pass."""

    name: str
    value: float
    passes: tuple[float, ...] = ()


@value
class RolloutValues:
    """The numbers of a rollout's score: judging gives them, and the record of a scored file.

    `score` is in [0, 1]; None with the reason for an explanation if it could not be judged. `judge_score` is the
    judges' own score, before an original reward was mixed in or an outcome ordered it, `by_judge` that of each judge by
    its number or name, `explanations` are those of each judge if there are several, `spread` the standard deviation
    over passes. `positions` are where it was shown in each pass, from 0 (first) to 1 (last), and `pass_scores` what the
    judge gave it there, before any correction. `suspect`: its text addresses a judge. `criteria` are in the order of
    the rubric. `label` is the original reward or the outcome, `size` the bytes of its text. Identical rollouts have one
    number, `distinct`; None: nobody judged it.
    """

    score: float | None
    explanation: str
    judge_score: float | None = None
    spread: float | None = None
    by_judge: Mapping[Any, float] = field(default_factory=dict)
    explanations: Mapping[Any, str] = field(default_factory=dict)
    positions: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    suspect: bool = False
    criteria: tuple[CriterionScore, ...] = ()
    label: float | None = None
    size: int = 0
    distinct: int | None = None


NO_ANSWER = "the judge twice refused to answer the question about it"
"""The reason of a rollout without a score in a group with scores."""
NO_ANSWERS = GroupError("refused", "the judge twice refused every question")
"""The error of a group about which a judge answers nothing."""


@value
class GroupScores:
    """The scores of a group's rollouts, in input order, and how good they are.

    `used` are the numbers of the judges whose scores they are the mean of. `reliability` is that of the
    mean of all passes, `passes_for` how many would bring it to 0.9; both are None where one pass tells
    nothing. `tied`: no relative signal, for rollouts are alike, or have one score, or passes do not tell
    the differences from noise. `one_score`: rollouts differ, and judges gave all the same. `alone`: one distinct
    rollout. `degraded`: some pass failed.
    """

    rollouts: tuple[RolloutValues, ...]
    used: tuple[int, ...] = ()
    passes: int = 1
    tied: bool = False
    one_score: bool = False
    alone: bool = False
    reliability: float | None = None
    weight: float | None = None
    passes_for: int | None = None
    degraded: bool = False

    @property
    def scores(self) -> tuple[float | None, ...]:
        """The score of each rollout."""
        return tuple([rollout.score for rollout in self.rollouts])


@value
class PositionBin:
    """Scores of the rollouts shown between positions `start` and `stop`, from 0 (first) to 1 (last).

    `mean` is the mean of their scores less that of all shown with them, `error` its standard error,
    `scores` their number.
    """

    start: float
    stop: float
    mean: float
    error: float | None
    scores: int


@value
class Length:
    """Scores against length, within groups.

    `slope` is the score that a rollout of twice the bytes gets more, `error` its standard error, with a
    group as the unit. `correlation` is that of the score with the logarithm of the length. `groups` counts
    groups whose rollouts differ in length.
    """

    slope: float
    error: float
    correlation: float
    groups: int


@value
class Pair:
    """Two judges that scored the same rollouts.

    `correlation` is that of their scores within groups, over `rollouts`; None if there are too few.
    """

    judges: tuple[str, str]
    correlation: float | None
    rollouts: int


@value
class BatchFigures:
    """Statistics over the scores of a batch.

    `groups` were scored, `mean_score` is the mean of all their scores. `tie_rate` is the share of them
    without relative signal, `degraded` the number with a failed pass. `slot_curve` is the position bias
    over `slot_groups` groups; `debiased` tells that it was subtracted. `reliability` counts groups by
    tenths of it, 0.0 to 0.1 first; `reliability_median` is over those. `noise` is the standard
    deviation of one score over passes, all groups together. `flawed` rollouts passed their check with a
    score below 0.5, `near_misses` failed with one from 0.5 on.
    `without_outcome` counts rollouts without an outcome, if others have one or if outcomes were asked
    for.
    """

    groups: int = 0
    mean_score: float | None = None
    tie_rate: float | None = None
    degraded: int = 0
    slot_curve: tuple[PositionBin, ...] = ()
    slot_groups: int = 0
    debiased: bool = False
    length: Length | None = None
    judges: tuple[Pair, ...] = ()
    reliability: tuple[int, ...] = (0,) * 10
    reliability_median: float | None = None
    noise: float | None = None
    flawed: int = 0
    near_misses: int = 0
    without_outcome: int = 0


_NO_SUMS = {
    *("total", "stopped", "figures"),
    *("rubric_texts", "more_rubrics", "params_texts"),
}
"""Fields of a summary that are not sums over the parts of a run."""


@dataclass(slots=True)
class Summary:
    """The numbers of a run.

    `total` is the number of groups in the input, None for a stream; `groups` counts those that are done.
    `failed` counts groups by the kind of their failure, `failed_before` those of them that failed in an
    earlier run and were not asked again, `kept` groups that needed no call. Of `pictures_left_out` groups judges were
    not shown all pictures. `degraded` groups lack a
    pass, `cut` groups lack one because of the cap, `windowed` groups were shown in parts, `escalated` groups
    were scored by the stronger judge. `tied` groups have no relative signal: among them `alone` groups have
    one distinct rollout, and `one_score` groups have several with one score. Of the `explained` groups,
    whose judges explain each rollout, `same_explanations` have one text for all. `mended` replies were one slip
    away from the form asked for. `other_scale` groups got only 0 and 1 from a judge that left that scale later, so that
    they may stand on another. `asked` counts calls with all their tries, `hedged` second calls beside a slow one,
    `retried` tries by their reason, `unanswered` requests that the ledger does not answer if no judge is asked.
    `usage` and `cost_usd` are of this run, `unsure_usd` is the
    possible cost of calls without a reply. `unscored` rollouts have no score in a group with scores, since the judge
    refused to answer about them. `figures` are there at the end of a run.

    `rubric_texts` are the first rubrics of the run by their digest, and `more_rubrics` counts groups with
    others; `params_texts` are the parameters of its judges. `served` counts groups by the models that judges
    say that they are.
    """

    total: int | None = None
    groups: int = 0
    scored: int = 0
    kept: int = 0
    rollouts: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    failed_before: int = 0
    unreadable: int = 0
    unscored: int = 0
    tied: int = 0
    alone: int = 0
    one_score: int = 0
    explained: int = 0
    same_explanations: int = 0
    suspect: int = 0
    mended: int = 0
    other_scale: int = 0
    unknown_ids: int = 0
    shortened: int = 0
    pictures_left_out: int = 0
    degraded: int = 0
    cut: int = 0
    windowed: int = 0
    escalated: int = 0
    written: int = 0
    asked: int = 0
    hedged: int = 0
    retried: dict[str, int] = field(default_factory=dict)
    unanswered: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    unsure_usd: float | None = 0.0
    most_in_flight: int = 0
    seconds: float = 0.0
    stopped: str | None = None
    figures: BatchFigures | None = None
    rubric_texts: dict[str, str] = field(default_factory=dict)
    more_rubrics: int = 0
    params_texts: dict[str, str] = field(default_factory=dict)
    served: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        parts: Sequence[Summary],
    ) -> Summary:
        """Return the sums over parts of one run; None if a part does not know its number."""
        whole = cls()
        for name in cls.__slots__:
            if name in _NO_SUMS:
                continue
            numbers = [getattr(part, name) for part in (whole, *parts)]
            if isinstance(numbers[0], dict):
                total: Any = dict(sum(map(Counter, numbers), Counter[str]()))
            else:
                all_known = None not in numbers
                total = sum(numbers[1:], numbers[0]) if all_known else None
            setattr(whole, name, total)
        return whole

    @property
    def complete(self) -> bool:
        """True if every group and every trajectory of the input has its score, on a scale that is known."""
        unscored = self.unreadable or self.unscored
        lacks = self.failed or unscored or self.unanswered
        return not (lacks or self.other_scale)


def iso(at: float | None) -> str | None:
    """Write seconds since 1970 as a date and a time in UTC, to the second; None if there is no such time."""
    with suppress(TypeError, ValueError, OverflowError, OSError):
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"  # type: ignore[arg-type]  # may be none
    return None


def duration(seconds: float) -> str:
    """Write seconds for people."""
    return (
        f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    )


def wait_sentence(why: str, seconds: float) -> str:
    """Return the sentence on calls that wait for a judge, at most so many seconds."""
    end = (
        f"for up to {duration(seconds)}"
        if seconds < math.inf
        else "until it answers"
    )
    return f"{why}; calls wait {end}"


def answer_sentence(judge: str, seconds: float) -> str:
    """Return the sentence on a judge that answers after so many seconds."""
    return f"{judge or 'the judge'} answers after {duration(seconds)}"


@value
class JudgeWait:
    """A wait of all calls to a judge, because of `why`; it ends when the judge answers.

    `seconds` is how long it may still last: then calls are given up, or go if the judge asked for the wait.
    """

    judge: str
    why: str
    seconds: float


_SUMMED = words_of(
    "in_flight limit queued retrying requests_per_minute tokens_per_minute"
)
"""Numbers of a pool that add up."""


@value
class Status:
    """The state of the pool at one moment.

    No call will go for `waiting` seconds, because of `why`; if `why` alone is given, the seconds are not
    known. Numbers per minute are of the last one. `retrying` calls failed, and wait to be tried again.
    `waits` are those for judges that are down, or that asked for a long wait.
    """

    in_flight: int = 0
    limit: int = 0
    queued: int = 0
    requests_per_minute: float = 0.0
    tokens_per_minute: float = 0.0
    waiting: float = 0.0
    why: str = ""
    retrying: int = 0
    waits: tuple[JudgeWait, ...] = ()

    @property
    def outage(self) -> str:
        """The causes of the waits for judges; empty if none is waited for."""
        return "; ".join(dict.fromkeys(wait.why for wait in self.waits))

    @classmethod
    def of(
        cls,
        parts: Sequence[Status],
    ) -> Status:
        """Return the sum of several, with the longest wait of any, and of all for one judge."""
        longest = max(parts, key=attrgetter("waiting", "why"), default=cls())
        waits = [wait for status in parts for wait in status.waits]
        waits.sort(key=attrgetter("seconds"))
        longest_waits = {wait.judge: wait for wait in waits}
        sums = {name: sum(map(attrgetter(name), parts)) for name in _SUMMED}
        return replace(longest, **sums, waits=tuple(longest_waits.values()))


class Observer:
    """A receiver of a run's events.

    Inherit from it and write the methods that you need. From Python, notes, warnings, failures and replies
    that it has no method for go to the logger `ruler_cli`.
    """

    def note(self, sentence: str) -> None:
        """Take a sentence that a person should know, once."""

    def warn(self, sentence: str) -> None:
        """Take a warning: the run goes on."""

    def problem(self, problem: Problem) -> None:
        """Take a part of the input that could not be read."""

    def failed(
        self,
        group: str,
        kind: str,
        reason: str,
    ) -> None:
        """Take a group that could not be scored."""

    def scored(
        self,
        group: str,
        scores: Sequence[float | None],
        fields: Mapping[str, Any],
    ) -> None:
        """Take the final scores of a group by its key, once, also if its replies were cached.

        A rollout that cannot be judged has None. `fields` is the group's `ruler` object of OUTPUT.
        """

    def started(self, groups: int | None) -> None:
        """Note that judging begins; `groups` is None if their number is not known."""

    def advanced(self, summary: Summary) -> None:
        """Note that a group is done."""

    def tick(
        self,
        summary: Summary,
        status: Status,
    ) -> None:
        """Note that a second has passed."""

    def waiting(
        self,
        judge: str,
        why: str,
        seconds: float,
    ) -> None:
        """Note that calls wait for a judge, at most `seconds`: it is down, or asks for it. Warns of it.

        Called when the wait begins, and then once a minute.
        """
        self.warn(wait_sentence(why, seconds))

    def answering(
        self,
        judge: str,
        seconds: float,
    ) -> None:
        """Note that a judge answers, after so many seconds. Warns of it, since a wait was warned of."""
        self.warn(answer_sentence(judge, seconds))

    def stopping(
        self,
        in_flight: int,
        grace: float,
    ) -> None:
        """Note that the run stops, and waits at most `grace` seconds for `in_flight` calls."""

    def replied(
        self,
        group: str,
        text: str,
    ) -> None:
        """Take the text of a judge's reply to a group."""


BOM = b"\xef\xbb\xbf"
"""Byte order mark, with which some servers begin a response."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]{1,200}@")
_OBJECT = re.compile(r"\s?(?:ssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+"
)
_KEY = re.compile(
    r"\b(?:sk|pk|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*.]{8,}|\bBearer\s+\S+"
)
_SENTENCE = 300
"""Characters of foreign text in a sentence."""


def readable_text(text: str) -> str:
    """Return text that can be encoded as UTF-8: a lone surrogate becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode(
            "utf-16", "replace"
        )
    return text


def readable(value: Any) -> Any:
    """Replace lone surrogates, and integers beyond 64 bits, which not every JSON reader takes."""
    if isinstance(value, str):
        return readable_text(value)
    if isinstance(value, int):  # as JavaScript reads it anyway
        return value if abs(value) < 1 << 63 else float(value)
    if isinstance(value, dict):
        return {
            readable_text(name): readable(item) for name, item in value.items()
        }
    return [*map(readable, value)] if isinstance(value, list | tuple) else value


Secret = str | Sequence[str] | None
"""A key, or several texts that stand in no message, ledger and file; the longest first."""


def secret_texts(secret: Secret) -> Sequence[str]:
    """Return the texts of a secret."""
    return (secret or "",) if isinstance(secret, str | None) else secret


def printable(
    text: str,
    longest: int = 60,
) -> str:
    """Return text of a dump for a message: printable characters, at most `longest` and an ellipsis."""
    clean = "".join(
        c if c.isprintable() else "\ufffd" for c in text[: longest + 1]
    )
    return clean[:longest] + "…" * (len(clean) > longest)


def shorten(text: str, most: int) -> str:
    """Return text cut to `most` characters, the last of them an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def clean(
    text: str,
    secret: Secret = None,
) -> str:
    """Foreign text for one line of a terminal, log or report: short, without keys and control characters."""
    for key in filter(None, secret_texts(secret)):
        text = text.replace(key, "[key]")
    text = readable_text(text)
    text = _LOGIN.sub("[key]@", _OBJECT.sub("", _CONTROL.sub(" ", text)))
    return shorten(_KEY.sub("[key]", text).strip(), _SENTENCE)
