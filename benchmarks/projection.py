"""The projection to 100 million rollouts: pure functions of rounded measurements.

So a reader of the table can compute each computed row from the rows above it, and
`python -m tests.docs_check` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ROLLOUTS, SIZE, SHARDS = 100_000_000, 8, 16
REQUESTS = ROLLOUTS // SIZE
HEADING = "Cost of 100 million rollouts"
_TB, _BILLION, _HOUR = 1e12, 1e9, 3600.0
_PER_TOKEN = 4
"""Bytes of explanation per token, for tokens that a real judge writes and the tests' server does not."""

Given = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: its title, a value for each kind of group, and its source."""

    title: str
    values: tuple[float, ...]
    origin: str


MEASURED = {
    "input": "bytes of INPUT a rollout",
    "prompt": "prompt tokens a request, as `check` estimates",
    "completion": "completion tokens a request, as `check` estimates",
    "server_prompt": "prompt tokens a request, as the judge server counts",
    "server_completion": "completion tokens a request, as the judge server counts",
    "openai": "bytes of a request line for OpenAI",
    "anthropic": "bytes of a request line for Anthropic",
    "reply": "bytes of a reply line from OpenAI",
    "ledger": "bytes of ledger a reply",
    "output": "bytes of OUTPUT a rollout",
    "check": "`check`, ms of CPU a group",
    "render": "`batch export`, ms of CPU a group",
    "import": "`batch import`, ms of CPU a group",
    "cached": "`score --cached-only`, ms of CPU a group",
    "live": "live `score`, ms of CPU a group",
    "foreign": "`batch export --shard`, ms of CPU for a group of another shard",
    "growth": "CPU a group in the larger file / in the smaller one, the worst stage",
    "memory": "peak memory, MiB, the worst stage",
    "find": "an answer looked up in a ledger of 50,000 rows, µs of CPU",
    "find_many": "an answer looked up in a ledger of 5 million rows, µs of CPU",
    "keep": "a row put into a ledger of 50,000 rows, µs of CPU",
    "keep_many": "a row put into a ledger of 5 million rows, µs of CPU",
}
STAGES = ("check", "render", "import", "cached", "live")
_NAMES = {stage: MEASURED[stage].rpartition(", ms")[0] for stage in STAGES}
MODELS = {"cheap": "openai/gpt-4o-mini", "dear": "anthropic/claude-sonnet-4-5"}
PRICES = {
    f"{model}_{part}": f"{name}, USD for a million {part} tokens"
    for model, name in MODELS.items()
    for part in ("prompt", "completion")
}


@dataclass(frozen=True, slots=True)
class _Computed:
    title: str
    origin: str
    of: Callable[[Given], float]


def _tokens(given: Given) -> float:
    return REQUESTS * (given["prompt"] + given["completion"])


def _more(given: Given) -> float:
    """Return bytes of explanation of a request that a real judge writes and the tests' server does not."""
    return _PER_TOKEN * max(
        0.0, given["completion"] - given["server_completion"]
    )


def _batches(line: str, most: int, size: int) -> Callable[[Given], float]:
    return lambda given: math.ceil(REQUESTS / min(most, size // given[line]))


def _hours(rpm: int, tpm: float) -> Callable[[Given], float]:
    return lambda given: max(REQUESTS / rpm, _tokens(given) / tpm) / 60


def _cost(model: str, share: float) -> Callable[[Given], float]:
    def usd(given: Given) -> float:
        parts = ("prompt", "completion")
        return (
            share
            * REQUESTS
            * sum(given[part] * given[f"{model}_{part}"] for part in parts)
            / 1e6
        )

    return usd


def _of_stage(stage: str, shards: int) -> Callable[[Given], float]:
    return lambda given: REQUESTS * given[stage] / 1000 / _HOUR / shards


_QUEUE = "15 billion prompt tokens may wait ([tier 5][limits])"
_TIERS = (
    (10_000, 30_000_000, "an example"),
    (30_000, 150_000_000, "gpt-4o-mini, [tier 5][limits]"),
)
_SPEED = 29_800
"""Tokens a second, prompt and completion, of one H100."""
COMPUTED = (
    _Computed(
        "requests of one pass, millions",
        "100 million rollouts / 8",
        lambda _: REQUESTS / 1e6,
    ),
    _Computed(
        "tokens, billions",
        "requests × estimated tokens",
        lambda g: _tokens(g) / _BILLION,
    ),
    _Computed(
        "INPUT, TB",
        "measured × 100 million",
        lambda g: ROLLOUTS * g["input"] / _TB,
    ),
    _Computed(
        "request files for OpenAI, TB",
        "requests × line",
        lambda g: REQUESTS * g["openai"] / _TB,
    ),
    _Computed(
        "request files for Anthropic, TB",
        "the same",
        lambda g: REQUESTS * g["anthropic"] / _TB,
    ),
    _Computed(
        "reply files, TB",
        "requests × line, and 4 bytes for each token that is estimated beyond the server's",
        lambda g: REQUESTS * (g["reply"] + _more(g)) / _TB,
    ),
    _Computed(
        "ledgers, TB",
        "the same",
        lambda g: REQUESTS * (g["ledger"] + _more(g)) / _TB,
    ),
    _Computed(
        "OUTPUT, TB",
        "measured × 100 million, and twice these 4 bytes: an explanation stands there twice",
        lambda g: (ROLLOUTS * g["output"] + REQUESTS * 2 * _more(g)) / _TB,
    ),
    _Computed(
        "batches at OpenAI",
        "50,000 requests or 200 MB",
        _batches("openai", 50_000, 200_000_000),
    ),
    _Computed(
        "batches at Anthropic",
        "100,000 requests or 256 MB",
        _batches("anthropic", 100_000, 256_000_000),
    ),
    *(
        _Computed(
            f"{_NAMES[stage]}, hours of one core",
            "requests × measured",
            _of_stage(stage, 1),
        )
        for stage in STAGES
    ),
    *(
        _Computed(
            f"{_NAMES[stage]} in {SHARDS} shards, a core and a file each, hours",
            f"/ {SHARDS}",
            _of_stage(stage, SHARDS),
        )
        for stage in ("render", "cached", "live")
    ),
    *(
        _Computed(
            f"hours at {rpm:,} requests and {tpm // 1_000_000} million tokens a minute",
            f"the slower of the two; {what}",
            _hours(rpm, tpm),
        )
        for rpm, tpm, what in _TIERS
    ),
    _Computed(
        "OpenAI's batches, days at most",
        f"windows of 24 h, {_QUEUE}",
        lambda g: math.ceil(REQUESTS * g["prompt"] / 15e9),
    ),
    _Computed(
        "Anthropic's batches, days at most",
        "windows of 24 h, 500,000 requests may wait ([tier 4][queue])",
        lambda _: math.ceil(REQUESTS / 500_000),
    ),
    *(
        _Computed(
            f"{name}, {how}, thousand USD",
            origin,
            lambda g, m=model, s=share: _cost(m, s)(g) / 1000,  # type: ignore[misc]  # bound now
        )
        for model, name in MODELS.items()
        for how, origin, share in (
            ("list price", "tokens × price, no prompt read from a cache", 1.0),
            ("in batches", "half of it", 0.5),
        )
    ),
    _Computed(
        "own GPUs (vLLM, a model of 9B on H100), GPU-hours",
        f"tokens / T / 3600, assumed T = {_SPEED:,} tokens a second of a GPU ([GPUStack][speed]); "
        "put your own T in",
        lambda g: _tokens(g) / _SPEED / _HOUR,
    ),
)
SOURCES = """[limits]: https://community.openai.com/t/1269349
[queue]: https://platform.claude.com/docs/en/api/rate-limits
[speed]: https://docs.gpustack.ai/latest/performance-lab/qwen3.5-9b/h100/"""


def shown(value: float) -> str:
    """Format a value as in the table: three significant digits."""
    return f"{float(f'{value:.3g}'):,.12g}"


def read(cell: str) -> float:
    """Parse the value of a cell."""
    return float(cell.replace(",", ""))


def project(given: Sequence[Given]) -> list[Row]:
    """Compute rows, with a value for each kind of group, from rows of MEASURED and PRICES by name."""
    return [
        Row(each.title, tuple(map(each.of, given)), f"computed: {each.origin}")
        for each in COMPUTED
    ]


def table(kinds: Sequence[str], rows: Sequence[Row]) -> str:
    """Write rows as Markdown."""
    head = f"| figure | {' | '.join(kinds)} | from |\n| --- |{' ---: |' * len(kinds)} --- |\n"
    cells = (
        f"| {row.title} | {' | '.join(map(shown, row.values))} | {row.origin} |\n"
        for row in rows
    )
    return head + "".join(cells)


def wrong(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the errors of a table's computed rows; empty if there are none."""
    cells = {row[0]: row[1:-1] for row in rows}
    names = {**MEASURED, **PRICES}
    if missing := [title for title in names.values() if title not in cells]:
        return [f"there is no row {title!r}" for title in missing]
    kinds = range(len(cells[MEASURED["input"]]))
    given = [
        {key: read(cells[title][kind]) for key, title in names.items()}
        for kind in kinds
    ]
    return [
        f"{row.title}: {cells.get(row.title)}, and what was measured makes {[*map(shown, row.values)]}"
        for row in project(given)
        if cells.get(row.title) != [*map(shown, row.values)]
    ]
