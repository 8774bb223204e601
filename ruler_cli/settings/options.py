"""All options of all commands, as one frozen value with the source of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ruler_cli.errors import UsageError
from ruler_cli.settings.keys import HEADERS
from ruler_cli.settings.models import (
    Address,
    Api,
    AskOptions,
    CombineSettings,
    InputOptions,
    KeyVariable,
    Limit,
    Number,
    PoolSettings,
    Price,
    RecordPaths,
    RunOptions,
    Timeout,
    Via,
    Whole,
    frozen,
    paths,
    price_of,
)
from ruler_cli.settings.parameters import params_of

COMMANDS = (
    "score",
    "check",
    "prompt",
    "agree",
    "report",
    "select",
    "ledger path",
    "ledger stats",
    "ledger clear",
    "ledger assign",
    "batch submit",
    "batch status",
    "batch collect",
    "batch cancel",
    "batch export",
    "batch import",
)
"""Commands that take options, and so may have a table in the file: `[batch.submit]`."""
SHORT_FORMS = {"quiet": "progress", "no_cache": "ledger"}
"""Flags that set another option to `none`."""
_PER_RUN = (
    "dry_run no_cache limit failed force summary group pass_ window page open_page label where marks keep by "
    "as_ gap per_group shape all_batches forget older_than yes"
)
PER_RUN = frozenset(_PER_RUN.split())
"""Options without a variable: they are for one run."""


def _texts(value: Any) -> Any:
    """Return the texts of an option that is repeated; one text holds several, with spaces between them."""
    return tuple(value.split()) if isinstance(value, str) else value


def _prices(value: Any) -> Any:
    """Return prices, each of one judge, from `2,8`, `[2, 8]`, or a list of these."""
    prices = _texts(value)
    several = isinstance(prices, list | tuple) and not any(
        isinstance(part, int | float) for part in prices
    )
    return tuple(map(price_of, prices if several else [prices]))


def _params(value: Any) -> Any:
    """Return parameters of a call, from `KEY=VALUE` or a table; a VALUE that is JSON is read as JSON."""
    texts = _texts(value)
    if not isinstance(texts, list | tuple):
        return params_of(value)
    params = {}
    for text in map(str, texts):
        key, equals, own = text.partition("=")
        if not (key and equals):
            remedy = "e.g. -p temperature=0.2"
            shown = "its value" if HEADERS.search(text) else repr(text)
            raise UsageError(f"{shown} is not KEY=VALUE", remedy, place="-p")
        params[key] = own
        with suppress(ValueError, RecursionError):
            params[key] = json.loads(own)
    return params_of(params)


Texts = Annotated[str | Sequence[str], BeforeValidator(_texts)]
Seconds = Annotated[Number, Field(ge=0, allow_inf_nan=False)]


@frozen
class ScoreOptions(AskOptions, PoolSettings, CombineSettings, InputOptions, RunOptions):
    """The options of a run; `model` and `price` have a value for each judge of the panel.

    `config` is the file of settings, "none" for none.
    """

    _: KW_ONLY
    model: Texts = ()
    api_base: Address = None
    api_key_env: KeyVariable = None
    api: Api = "auto"
    via: Via = "auto"
    param: Annotated[
        Mapping[str, Any] | Sequence[str] | str, BeforeValidator(_params)
    ] = field(default_factory=dict)
    timeout: Timeout = 600.0
    price: Annotated[Price | str | Sequence[Price | str], BeforeValidator(_prices)] = ()
    escalate: str | None = None
    ledger: Annotated[
        Sequence[str | Path] | str | Path | None, BeforeValidator(paths)
    ] = ()
    no_cache: bool = False
    dry_run: bool = False
    config: str | Path | None = None


COMMAND_LINE = 3
VARIABLE = 2
FILE = 1
DEFAULT = 0
"""Ranks of the sources of a value: the highest wins."""


@dataclass(frozen=True)
class Origin:
    """The source of a value, as a sentence names it, e.g. `RULER_RPM` or `ruler.toml [score]`.

    `given` is the value as the user wrote it.
    """

    place: str = "default"
    rank: int = DEFAULT
    given: Any = None


Layer = dict[str, Origin]
"""The values of one source, by the fields of their options."""


@dataclass(frozen=True)
class ConfigFile:
    """A checked file: `name` stands for it in sentences.

    `tables` has the values of each command's table by their fields, `judges` those of each judge's; `formats` are
    the user's rows. `found`: the user did not name it.
    """

    name: str
    tables: dict[str, dict[str, Any]]
    judges: dict[str, dict[str, Any]]
    formats: dict[str, RecordPaths]
    found: bool = False


@frozen
class Options(ScoreOptions):
    """The options of all commands; one that a command does not take has its default.

    `file` is what was read of the file, `origins` are the sources of values that are not the defaults, and
    `layers` has by rank also values that another source replaces.
    """

    _: KW_ONLY
    file: ConfigFile | None = None
    origins: Layer = field(default_factory=dict)
    layers: Mapping[int, Layer] = field(default_factory=dict)

    summary: Path | None = None
    progress: Literal["auto", "bar", "log", "none"] = "auto"
    quiet: bool = False
    engine: Literal["here", "ray"] = "here"
    ray_address: str | None = None
    as_json: bool = False
    labels: str | None = None
    labels_file: Texts = ()
    at_least: Annotated[Number | None, Field(ge=0, le=1)] = None
    batch: bool = False
    group: str | None = None
    pass_: Annotated[Whole, Field(ge=1)] = 1
    window: Annotated[Whole, Field(ge=1)] = 1
    page: str | None = None
    open_page: bool = False
    max_groups: Limit = None
    label: Annotated[Whole | None, Field(ge=1, le=10_000)] = None
    where: tuple[str, ...] = ()
    keep: Limit = None
    by: Literal["variance", "score", "majority"] | None = None
    answer: str | None = None
    marks: Annotated[Sequence[str], BeforeValidator(paths)] = ()
    as_: Literal["pairs"] | None = None
    gap: Annotated[Number, Field(gt=0, le=1)] = 0.2
    per_group: Annotated[Whole, Field(ge=1)] = 1
    shape: Literal["conversational", "standard"] = "conversational"
    target: Literal["auto", "openai", "anthropic", "vllm"] = "auto"
    wait: bool = False
    wait_timeout: Seconds = 26 * 3600.0
    settle: Seconds = 120.0
    all_batches: bool = False
    forget: bool = False
    older_than: Annotated[Number | None, Field(ge=0)] = None
    yes: bool = False

    @property
    def ledgers(self) -> list[str]:
        """The ledgers as they were given, the one that is written first."""
        return [str(name) for name in paths(self.ledger)]

    @property
    def ledger_name(self) -> str:
        """The ledger that is written, as it was given; empty if none was."""
        return next(iter(self.ledgers), "")

    @property
    def rows(self) -> dict[str, RecordPaths]:
        """The user's own formats."""
        return self.file.formats if self.file else {}

    def judges_named(self, rank: int) -> list[str]:
        """Return the judges that sources of a rank name, the one of `escalate` last."""
        layer = self.layers[rank]
        given = [layer[name].given for name in ("model", "escalate") if name in layer]
        return [name for one in given for name in _texts(one)]

    def origin(self, name: str) -> Origin:
        """Return the source of an option."""
        return self.origins.get(name, Origin())

    def rank(self, name: str) -> int:
        """Return the rank of the source of an option."""
        return self.origin(name).rank


FIELDS = frozenset(
    one.name
    for one in fields(Options)
    if one.name not in ("config", "file", "origins", "layers")
)
"""All options, by their fields."""
