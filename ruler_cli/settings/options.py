"""The settings of a command as they were read, and the source of each value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from ruler_cli.settings.fields import (
    SECTIONS,
    Limit,
    Option,
    Paths,
    PerRun,
    Seconds,
    Section,
    Setting,
    Share,
    Within,
    frozen,
    texts,
)
from ruler_cli.settings.models import (
    DEFAULT_MODEL,
    RecordPaths,
)

T = TypeVar("T")


@frozen
class NamedSettings(Section):
    """Judges and ledgers of a run by their names, which may be those of tables or patterns."""

    _: KW_ONLY
    model: Annotated[
        str | tuple[str, ...],
        texts,
        Option(
            "The judge: openai/…, hosted_vllm/…, any litellm name, a judge of ruler.toml, or `offline` (no model); "
            "repeat it for a panel.",
            "NAME",
            many=True,
        ),
    ] = DEFAULT_MODEL
    escalate: Annotated[
        str | None,
        Option(
            "A stronger judge for groups that the first leaves undecided.",
            "NAME",
        ),
    ] = None
    ledger: Annotated[
        Paths,
        Option(
            "File of paid replies; repeat it to read others as well.  "
            "[default: ruler/ledger.sqlite in the user's cache directory]",
            "PATH|none",
            many=True,
        ),
    ] = ()


@frozen
class OutputSettings(Section):
    """Settings of `score` beside those of a run: its output on the terminal, and the place where it runs."""

    _: KW_ONLY
    summary: Annotated[
        Path | None,
        PerRun("Write the run's summary as JSON.", "FILE"),
    ] = None
    progress: Annotated[
        Literal["auto", "bar", "log", "none"],
        Option(
            "Progress on stderr. -q stands for none, which prints no summary either."
        ),
    ] = "auto"
    engine: Annotated[
        Literal["here", "ray"],
        Option(
            "Judge in this process, or in workers of Ray; OUTPUT is the same."
        ),
    ] = "here"
    ray_address: Annotated[
        str | None,
        Option(
            "A running Ray cluster that this machine is part of.  [default: RAY_ADDRESS, else one is started here]",
            "HOST:PORT",
        ),
    ] = None


@frozen
class CommandSettings(Section):
    """Settings of further commands: their output, and its place."""

    _: KW_ONLY
    as_json: Annotated[bool, Option("Print one JSON object instead.")] = False
    labels: Annotated[
        str | None,
        Option(
            "Dotted path of the labels.  [default: the first original reward, else the outcome]",
            "PATH",
        ),
    ] = None
    people: Annotated[
        Paths,
        Option(
            "Labels of people, from a page of `ruler label`. Repeatable.",
            "FILE",
            many=True,
        ),
    ] = ()
    at_least: Annotated[
        Share | None,
        Option(
            "Exit with 1 unless the interval of the pairwise accuracy begins at X or above.",
            "X",
        ),
    ] = None
    group: Annotated[
        str | None,
        PerRun("Key of the group to show in full.", "KEY"),
    ] = None
    page: Annotated[
        str | None,
        PerRun(
            "Write a page for a browser instead: one file, which opens offline.",
            "FILE.html",
        ),
    ] = None
    max_groups: Annotated[
        Limit,
        Option("Groups in FILE.html, the worst first.  [default: 10000]", "N"),
    ] = None
    pairs: Annotated[
        int,
        Within(1, 10_000),
        PerRun("Number of pairs to draw.", "N"),
    ] = 50
    where: Annotated[
        Paths,
        PerRun(
            "Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or disagreement "
            "lies in a range; rollouts whose score does. Repeatable: all must hold.",
            "NAME[=LOW..HIGH]",
            many=True,
        ),
    ] = ()
    keep: Annotated[
        Limit,
        PerRun("At most M rollouts of each group, by --by.", "M"),
    ] = None
    by: Annotated[
        Literal["variance", "score"] | None,
        PerRun(
            "Rollouts to keep: those whose scores vary most, or the best, which is the default."
        ),
    ] = None
    as_: Annotated[
        Literal["pairs"] | None,
        PerRun(
            "Write data for training instead: pairs of a chosen and a rejected rollout."
        ),
    ] = None
    gap: Annotated[
        float,
        Within(0.001, 1),
        PerRun("Least difference between the scores of a pair.", "SCORE"),
    ] = 0.2
    wait: Annotated[
        bool, Option("Wait, and collect until no batch is open.")
    ] = False
    settle: Annotated[
        Seconds,
        Within(0, 1e9),
        Setting(
            "Seconds in which a batch may still appear at its provider after a crash.",
            "S",
        ),
    ] = 120.0
    all_batches: Annotated[
        bool,
        PerRun("Closed batches, too; to cancel, every open one."),
    ] = False
    forget: Annotated[
        bool,
        PerRun(
            "Give them up without asking the provider; their requests may be submitted again at once."
        ),
    ] = False
    older_than: Annotated[
        float | None,
        Within(0),
        PerRun("Only replies older than this.  [default: all]", "DAYS"),
    ] = None
    yes: Annotated[
        bool,
        PerRun("Go on without asking; needed if stdin is not a terminal."),
    ] = False


COMMAND_LINE = 3
VARIABLE = 2
FILE = 1
DEFAULT = 0
"""Ranks of the sources of a value: the highest wins."""


@dataclass(frozen=True)
class Origin:
    """The source of a value, as a sentence names it, e.g. `RULER_RPM` or `ruler.toml [score]`.

    `value` is what the user wrote.
    """

    place: str = "default"
    rank: int = DEFAULT
    value: Any = None


Layer = dict[str, Origin]
"""The values of one source, by their fields."""


@dataclass(frozen=True)
class ConfigFile:
    """A checked file: `name` stands for it in sentences.

    `defaults` are those of options by their fields, `judges` the values of each judge's table; `formats` are
    the user's rows. `discovered`: the user did not name it.
    """

    name: str
    defaults: dict[str, Any] = field(default_factory=dict)
    judges: dict[str, dict[str, Any]] = field(default_factory=dict)
    formats: dict[str, RecordPaths] = field(default_factory=dict)
    discovered: bool = False


@dataclass(frozen=True)
class Options:
    """The settings of a command; one that it does not take has its default.

    `origins` are the sources of values that are not the defaults, and `layers` has by rank also values that another
    source replaces. `config` is the file of settings as it was named.
    """

    origins: Layer = field(default_factory=dict)
    layers: Mapping[int, Layer] = field(default_factory=dict)
    file: ConfigFile | None = None
    config: str | None = None

    def of(self, section: type[T]) -> T:
        """Return a section with the values of this command."""
        return section(**self.values_of(section))

    def values_of(self, section: type) -> dict[str, Any]:
        """Return the values of a section that are not the defaults, as the user wrote them."""
        values = {}
        for name, origin in self.origins.items():
            if SECTIONS[name] is section:
                values[name] = origin.value
        return values

    def __getattr__(self, name: str) -> Any:
        """Return the value of a setting, by its field."""
        if name not in SECTIONS:
            raise AttributeError(name)
        return getattr(self.of(SECTIONS[name]), name)

    @property
    def ledger_name(self) -> str:
        """The ledger that is written, as it was named; empty if none was."""
        return next(iter(self.ledger), "")

    @property
    def rows(self) -> dict[str, RecordPaths]:
        """The user's own formats."""
        return self.file.formats if self.file else {}

    def judges_named(self, rank: int) -> list[str]:
        """Return the judges that sources of a rank name."""
        names: list[str] = []
        layer = self.layers.get(rank, {})
        for name in layer.keys() & {"model", "escalate"}:
            names += texts(layer[name].value)
        return names

    def origin(self, name: str) -> Origin:
        """Return the source of a setting."""
        return self.origins.get(name, Origin())

    def rank(self, name: str) -> int:
        """Return the rank of the source of a setting."""
        return self.origin(name).rank
