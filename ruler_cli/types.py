"""The values that flow through a run: line → record → group → request → reply → scores → annotation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Kind = Literal["reply", "transport", "refused", "too_long", "input", "budget", "interrupted"]
"""The kinds of failure of a group, or of a call."""
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One record of INPUT: 1-based number in its order, byte offset in the decompressed stream, bytes.

    `place` is how a sentence names it where it is not simply `line NUMBER`. `source` is the name of its
    file where INPUT is several. `skipped` is the size of a record that is larger than the bound: `raw` is its
    beginning then, and not held further.
    """

    number: int
    offset: int
    raw: bytes
    place: str = ""
    source: str = ""
    skipped: int = 0

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + (self.skipped or len(self.raw))

    @property
    def where(self) -> str:
        """The name of its place in a sentence."""
        return self.place or f"line {self.number}"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something of the input that could not be read: where, why, and its bytes, verbatim.

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
class Rollout:
    """One trajectory as a format read it: messages, further histories, tools, original reward.

    `path` leads from the record to the trajectory's own object, or is its place in the lists of a
    columnar record; `error` says why it cannot be judged. Rollouts of a group with the same `member`
    are parts of one, in their order: judged as one, with one score. `key` is the group's where a
    record holds rollouts of several. `outcome` is what a verifier said, as it stands in the dump.
    `prompt_length` counts the first messages that are the prompt, None: those before the agent's first turn.
    """

    messages: list[Any]
    path: Path = ()
    histories: tuple[list[Any], ...] = ()
    tools: Any = None
    reward: Any = None
    error: str | None = None
    outcome: Any = None
    member: str | None = None
    key: str | None = None
    prompt_length: int | None = None

    @property
    def problem(self) -> str:
        """The error as a sentence about the record: with the rollout's place in it, if it has one."""
        where = ".".join(map(str, self.path))
        return f"`{where}` {self.error}" if where else str(self.error)


@dataclass(frozen=True, slots=True)
class Record:
    """One line that was read: its rollouts and what it says of their group.

    A columnar line gives one Record for each group in it, the `part`th of `parts`.
    """

    line: Line
    rollouts: tuple[Rollout, ...]
    key: str | None = None
    rubric: str | None = None
    tools: Any = None
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """All rollouts of one task, in input order, with the records they stand in."""

    key: str
    records: tuple[Record, ...]

    @property
    def rollouts(self) -> list[Rollout]:
        """Every rollout of every record, in input order."""
        return [rollout for record in self.records for rollout in record.rollouts]

    @property
    def rubric(self) -> str | None:
        """The group's own rubric: the first that a record states."""
        return next((r.rubric for r in self.records if r.rubric), None)

    @property
    def tools(self) -> Any:
        """The group's own tools: the first that a record states."""
        return next((r.tools for r in self.records if r.tools), None)

    @property
    def compared(self) -> int:
        """The number of rollouts that the judge compares."""
        return compared(self.rollouts)

    @property
    def size(self) -> int:
        """Bytes of input that the group holds in memory."""
        return sum(len(record.line.raw) // record.parts for record in self.records)


def compared(rollouts: Sequence[Rollout]) -> int:
    """Count rollouts, those of one `member` as one."""
    parts = [rollout.member for rollout in rollouts if rollout.member is not None]
    return len(rollouts) - len(parts) + len(set(parts))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the judge reported them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Sum, field by field."""
        if self is NO_USAGE or other is NO_USAGE:
            return other if self is NO_USAGE else self
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.calls + other.calls,
        )


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the judge: the two messages, the labels to score, the longest answer.

    `pass_index` is the number of the pass, from 0: two passes may ask the same and are two calls.
    `fitted`: `max_output_tokens` is all that the judge's context leaves. `shown` maps the label of each
    rollout in the request, in order, to the number of the distinct rollout.
    """

    system: str
    user: str
    labels: tuple[str, ...]
    max_output_tokens: int | None = None
    pass_index: int = 0
    fitted: bool = field(default=False, compare=False)
    shown: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Characters of the prompt."""
        return len(self.system) + len(self.user)


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A request to a judge that is a function, `JudgeSettings(ask=…)`.

    `model` and `params` are those of its settings. `system` and `user` are the two messages. The reply is a
    JSON object of the `schema`, with one entry for each of the `labels`, and takes `max_output_tokens` at
    most; None: no bound. `pass_index` is the number of the pass, from 0.
    """

    model: str
    params: Mapping[str, Any]
    system: str
    user: str
    labels: tuple[str, ...]
    schema: Mapping[str, Any] = field(repr=False)
    max_output_tokens: int | None
    pass_index: int

    @property
    def messages(self) -> list[dict[str, str]]:
        """The two messages, as a chat completion takes them."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


@dataclass(frozen=True, slots=True)
class Left:
    """The requests and tokens that the rate limits of a judge leave; None if it does not name them."""

    requests: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a judge; `refusal` is its own sentence that it will not score.

    `body` is the chat completion as it came, JSON without the key; the ledger keeps it. `seconds` is the
    time that the judge took, in `http_requests` requests if it refused a form of the answer; `cached`: the
    judge was not asked now but before; `thought`: the judge thought before it answered. `model` is the name
    of the model in the body. `left` is what rate limits leave after this call.
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
    model: str = field(default="", compare=False)
    left: Left | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CallError:
    """A call without a usable answer.

    `scope`: "run" ends the run, "group" fails this group, "call" may be tried again, not
    before `retry_after` seconds where the server named them. `rate` tells that a limit was passed
    and nothing is broken. `context` is the judge's context and this request's size in tokens, where
    the server named both. `sent` is False where the request certainly never reached the judge.
    `body` is an answer that came, and may have been paid for, but is no chat completion. `kept` is False
    where the next run asks again in any case.
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
    body: bytes = field(default=b"", repr=False, compare=False)
    cached: bool = field(default=False, compare=False)
    http_requests: int = field(default=1, compare=False)


class Judge(Protocol):
    """A judge, open while it is used as an async context; one without connections inherits both ends."""

    @property
    def name(self) -> str:
        """The judge's name in the output."""

    async def ask(self, request: Request) -> Reply | CallError:
        """One call, no retry; every failure of the outside world is a CallError, never an exception."""

    async def __aenter__(self) -> Self:
        """Open connections."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
        return


UNANSWERED = CallError(
    "transport",
    "the ledger holds no answer to what was to be asked, and no judge is asked",
    "group",
    sent=False,
)
"""The result of a request without a cached reply, in a run that asks nobody."""


@dataclass(frozen=True, slots=True)
class GroupError:
    """A group that could not be scored: what kind of failure, and one sentence."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class PassScores:
    """The scores of one usable reply: one judge, one pass, the rollouts of one request.

    `judge` is the judge's number in the panel, `pass_index` the pass, `window` the part of the group that
    the request shows, each from 0. `distinct` are the numbers of distinct rollouts in the order shown;
    `scores` in [0, 1] and `explanations` are aligned with it. `rescaled`: the reply's scale went to 10;
    `unknown` counts ids in the reply that belong to no rollout.
    """

    judge: int
    pass_index: int
    window: int
    distinct: tuple[int, ...]
    scores: tuple[float, ...]
    explanations: tuple[str, ...]
    rescaled: bool = False
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A request that brought no scores: of which judge, pass and window, and why."""

    judge: int
    pass_index: int
    window: int
    error: GroupError


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The replies of all judges about a group, as numbers: no text of the dump, no other group needed.

    `owner[i]` is the distinct rollout that rollout i became, None if it could not be read: `faults[i]` says
    why. `sizes` are the bytes of each distinct rollout, `suspects` those whose text addresses a judge.
    `shortened` is the step of `prompting.prompt.LADDER` by which text was left out. `judges` counts the
    judges that were to score the group, `windows` the parts of a pass (1: all at once). `escalated_to` is
    the stronger judge whose scores stand alone. `rewards` are the original rewards of the rollouts,
    `outcomes` whether a verifier passed them; None where there is none.

    `seconds` is the time of all replies, `cached`: no judge was asked now; `used` are the tokens of all
    replies by judge, `paid` those of replies that were asked for now; `ended` is the Unix time at the end.
    `served` are the names of the models in the replies, sorted.
    """

    owner: tuple[int | None, ...]
    faults: tuple[str, ...]
    sizes: tuple[int, ...]
    pass_scores: tuple[PassScores, ...] = ()
    failed_calls: tuple[FailedCall, ...] = ()
    suspects: frozenset[int] = frozenset()
    shortened: int = 0
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

    @property
    def alone(self) -> bool:
        """Tell if there was nothing to compare: one rollout, or all identical."""
        return len(self.sizes) == 1

    @property
    def usage(self) -> Usage:
        """Tokens of all replies of the group."""
        return self.used[0] if len(self.used) == 1 else sum(self.used, NO_USAGE)

    @property
    def rescaled(self) -> int:
        """The number of replies whose scale went to 10."""
        return sum(scores.rescaled for scores in self.pass_scores)

    @property
    def unknown(self) -> int:
        """The number of ids in replies that belong to no rollout."""
        return sum(scores.unknown for scores in self.pass_scores)


@dataclass(frozen=True, slots=True)
class RolloutScore:
    """A rollout's score in [0, 1]; None with the reason for an explanation if it could not be read.

    `judge_score` is the judges' own score, before an original reward was mixed in or an outcome ordered it,
    `by_judge` that of each judge by its number, `spread` the standard deviation over passes. `positions` are
    where it was shown in each pass, from 0 (first) to 1 (last), and `pass_scores` what the judge gave it
    there, before any correction. `suspect`: its text addresses a judge.
    """

    score: float | None
    explanation: str
    judge_score: float | None = None
    spread: float | None = None
    by_judge: Mapping[int, float] = field(default_factory=dict)
    positions: tuple[float, ...] = ()
    pass_scores: tuple[float, ...] = ()
    suspect: bool = False


@dataclass(frozen=True, slots=True)
class GroupScores:
    """The scores of a group's rollouts, in input order, and how good they are.

    `used` are the numbers of the judges whose scores they are the mean of. `reliability` is that of the
    mean of all passes, `passes_for` how many would bring it to 0.9; both are None where one pass tells
    nothing. `tied`: no relative signal, for rollouts are alike, or have one score, or passes do not tell
    the differences from noise. `one_score`: rollouts differ, and judges gave all the same. `degraded`:
    some pass failed.
    """

    rollouts: tuple[RolloutScore, ...]
    used: tuple[int, ...] = ()
    passes: int = 1
    tied: bool = False
    one_score: bool = False
    reliability: float | None = None
    weight: float | None = None
    passes_for: int | None = None
    degraded: bool = False

    @property
    def scores(self) -> tuple[float | None, ...]:
        """The score of each rollout."""
        return tuple([rollout.score for rollout in self.rollouts])
