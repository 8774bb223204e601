"""What `ruler check` found, as a page for a person and as one JSON object for a program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from ruler_cli.cli.console import count
from ruler_cli.estimate import Estimate, Range
from ruler_cli.judges.prices import Model
from ruler_cli.notes import Notes, Overview, Tally
from ruler_cli.quantiles import quantile
from ruler_cli.reading import Input

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_PRICE = "unknown (give --price IN,OUT, in USD per million prompt and completion tokens)"
_COMMONEST = 5
"""Group sizes that are listed, the commonest first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a record: the path in use, who gave it, what the first record has there."""

    name: str
    path: str
    given: bool
    example: str | None
    absent: int


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that is told. `agreed` of the `first` records are known by the format's keys."""

    source: str
    judge: str
    found: Input
    agreed: int
    first: int
    places: tuple[Place, ...]
    notes: Notes
    whole: Overview
    result: Estimate
    model: Model
    lost: int
    warnings: tuple[str, ...]
    unit: str

    @property
    def about(self) -> str:
        """What stands before a figure that was extrapolated."""
        return "about " if self.result.laid_out < self.result.groups else ""


def rows(page: Page) -> list[tuple[str, str]]:
    """The page as names and values, for a person."""
    result, whole, about = page.result, page.whole, page.about
    out = [("input", page.found.found()), *_format(page), *((p.name, _place(p)) for p in page.places)]
    out += [
        ("group sizes", _sizes(whole.sizes)),
        ("rollouts", f"{whole.rollouts:,} in {count(page.notes.records, page.unit)}"),
        ("tokens a rollout", f"{about}{_lengths(result.lengths)}"),
        ("shared prefix", f"{about}{result.shared:.0%} of the prompts, shown once for a group"),
        ("identical rollouts", f"{about}{result.identical_rollouts}"),
        ("tied groups", f"{about}{result.tied_groups} (one rollout, or all identical)"),
        ("rewards", _rewards(page.notes.rewards, whole)),
        ("equal rewards", f"{count(whole.equal, 'group')} (their own rewards teach nothing)"),
        ("outcomes", _outcomes(page.notes.outcomes)),
        ("judge", page.judge),
        *_money(result, page.model),
        ("suspect rollouts", f"{about}{result.suspect} (text that addresses a judge)"),
        ("too long", _too_long(page)),
        ("laid out", _laid_out(result)),
        ("cannot be scored", count(page.lost, "line or trajectory")),
    ]
    return out


def _format(page: Page) -> list[tuple[str, str]]:
    if page.found.reader is None:
        return []
    form = page.found.reader.format
    told = f"{page.agreed} of the first {count(page.first, 'record')} {'has' if page.agreed == 1 else 'have'}"
    return [("format", f"{form.name}: {told} {form.tells}")]


def _place(place: Place) -> str:
    if not place.path:
        return "none"
    path = place.path if " " in place.path else f"`{place.path}`"
    path += " as given" if place.given else ""
    value = "" if place.example is None else f", first: {place.example}"
    return f"{path}{value}{f', absent in {place.absent:,}' if place.absent else ''}"


def _sizes(sizes: Counter[int]) -> str:
    if not sizes:
        return "no groups"
    common = ", ".join(f"{count(number, 'group')} of {size}" for size, number in _commonest(sizes))
    more = len(sizes) - _COMMONEST
    least, middle, most = min(sizes), quantile(sizes, 0.5), max(sizes)
    rest = f", {count(more, 'other size')}" if more > 0 else ""
    return f"min {least}, median {middle}, max {most} ({common}{rest})"


def _commonest(sizes: Counter[int]) -> list[tuple[int, int]]:
    return sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[:_COMMONEST]


def _lengths(lengths: Counter[int]) -> str:
    return ", ".join(f"{name} {quantile(lengths, share):,}" for name, share in SHARES.items())


def _rewards(rewards: Tally, whole: Overview) -> str:
    parts = []
    if rewards.mean is not None:
        parts.append(f"min {rewards.lowest:.4g}, mean {rewards.mean:.4g}, max {rewards.highest:.4g}")
    if whole.spread is not None:
        parts.append(f"mean spread in a group {whole.spread:.4g}")
    if rewards.absent:
        parts.append(f"{rewards.absent:,} without")
    if rewards.other:
        parts.append(f"{rewards.other:,} no number")
    return "; ".join(parts) or "none"


def _outcomes(outcomes: Tally) -> str:
    if not outcomes.numbers:
        return f"{outcomes.other:,} no number" if outcomes.other else "none"
    what = f"{outcomes.mean:.1%} true" if outcomes.of_truth else f"mean {outcomes.mean:.4g}"
    no = outcomes.absent + outcomes.other
    return f"{what} of {outcomes.numbers:,}{f'; {no:,} without' if no else ''}"


def _too_long(page: Page) -> str:
    found = page.result
    if not found.too_long:
        return "0" if page.model.context else "0 (the judge's context is not known)"
    keys = ", ".join(shortened(key) for key in found.too_long_keys)
    more = ", …" if found.too_long > len(found.too_long_keys) else ""
    return f"{page.about}{count(found.too_long, 'group')} for {page.model.context:,} tokens ({keys}{more})"


def _laid_out(found: Estimate) -> str:
    if found.laid_out >= found.groups:
        return f"all {found.groups:,} groups" if found.groups != 1 else "the group"
    return (
        f"{found.laid_out:,} of {found.groups:,} groups, spread over all; tokens, cost and what is "
        "told with `about` are estimated from them"
    )


def _money(found: Estimate, model: Model) -> list[tuple[str, str]]:
    """What is left to ask and what it takes."""
    thinking = {
        True: ", thinking included",
        False: "",
        None: "; the most allows for thinking, which is not known of this model",
    }
    cost, cap = found.cost_usd, found.cap_usd
    enough = "no call is left" if not found.calls.high else "or more lets every call go, at the highest cost"
    return [
        ("calls", f"{found.calls.expected:.0f} (up to {found.calls.high:.0f})"),
        ("kept", _kept(found)),
        ("prompt tokens", _about(found.prompt_tokens)),
        ("completion tokens", _about(found.completion_tokens) + thinking[model.reasoning]),
        ("cost", _PRICE if cost is None else _dollars(cost)),
        ("--max-cost", "unknown, as the cost is" if cap is None else f"{rounded(cap, up=True)} {enough}"),
    ]


def _kept(found: Estimate) -> str:
    calls = count(found.kept + round(found.calls.expected), "call")
    if not found.kept:
        return f"0 of {calls}"
    failed = f"; {found.kept_failed} failed, --retry-failed asks again" if found.kept_failed else ""
    about = "about " if found.laid_out < found.groups else ""
    return f"{about}{found.kept} of {calls}, not paid again{failed}"


def _about(tokens: Range) -> str:
    return f"about {tokens.expected:.0f} (from {tokens.low:.0f} to {tokens.high:.0f})"


def _dollars(cost: Range) -> str:
    low, high = rounded(cost.low, up=False), rounded(cost.high, up=True)
    return f"${rounded(cost.expected)} (from ${low} to ${high})"


def rounded(usd: float, *, up: bool | None = None) -> str:
    """To the cent, and below ten cents to two digits that count: little is not nothing."""
    exact = Decimal(f"{usd:.9g}")
    cents = 2 if not usd or usd >= 0.1 else 1 - exact.adjusted()
    how = ROUND_HALF_EVEN if up is None else ROUND_CEILING if up else ROUND_FLOOR
    return f"{exact.quantize(Decimal(1).scaleb(-cents), how):f}"


def shortened(text: str, most: int = 60) -> str:
    """Text that fits on a line."""
    return text if len(text) <= most else text[: most - 1] + "…"


def as_json(page: Page) -> dict[str, Any]:
    """The page for a program; `cannot_be_scored` and its list are written by who has them."""
    reader, survey, result, whole = page.found.reader, page.found.survey, page.result, page.whole
    form: dict[str, Any] | None = None
    if reader is not None:
        form = {"name": reader.format.name, "family": reader.format.family, "shape": reader.format.shape}
        form |= {"tells": reader.format.tells, "agreed": page.agreed, "first": page.first}
    return {
        "version": 1,
        "input": page.source,
        "format": form,
        "grouping": survey.grouping if survey else "consecutive" if reader else None,
        "paths": {
            p.name: {"path": p.path, "given": p.given, "example": p.example, "absent": p.absent}
            for p in page.places
        },
        "bytes": page.notes.bytes,
        "records": page.notes.records,
        "unit": page.unit,
        "groups": whole.groups,
        "rollouts": whole.rollouts,
        "group_sizes": {
            "min": min(whole.sizes, default=None),
            "median": quantile(whole.sizes, 0.5),
            "max": max(whole.sizes, default=None),
            "commonest": [{"size": size, "groups": number} for size, number in _commonest(whole.sizes)],
        },
        "tokens_per_rollout": {name: quantile(result.lengths, share) for name, share in SHARES.items()},
        "shared_prefix": result.shared,
        "identical_rollouts": result.identical_rollouts,
        "tied_groups": result.tied_groups,
        "equal_reward_groups": whole.equal,
        "rewards": _tally(page.notes.rewards) | {"spread": whole.spread},
        "outcomes": _tally(page.notes.outcomes) | {"of_truth": page.notes.outcomes.of_truth},
        "judge": {"model": page.judge, "context_tokens": page.model.context},
        "estimate": {
            "calls": _range(result.calls),
            "kept": result.kept,
            "kept_failed": result.kept_failed,
            "prompt_tokens": _range(result.prompt_tokens),
            "completion_tokens": _range(result.completion_tokens),
            "cost_usd": _range(result.cost_usd),
            "max_cost_usd": result.cap_usd,
        },
        "suspect_rollouts": result.suspect,
        "too_long": {"groups": result.too_long, "first": list(result.too_long_keys)},
        "laid_out": result.laid_out,
        "exact": result.laid_out >= result.groups,
        "warnings": list(page.warnings),
    }


def _tally(tally: Tally) -> dict[str, Any]:
    known = tally.numbers > 0
    return {
        "numbers": tally.numbers,
        "absent": tally.absent,
        "no_number": tally.other,
        "min": tally.lowest if known else None,
        "mean": tally.mean,
        "max": tally.highest if known else None,
    }


def _range(found: Range | None) -> dict[str, float] | None:
    return None if found is None else {"low": found.low, "expected": found.expected, "high": found.high}
