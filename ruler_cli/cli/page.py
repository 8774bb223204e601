"""What `ruler check` found, as a page for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ruler_cli.cli.in_batches import batch_rows
from ruler_cli.cli.units import count, dollars, rounded
from ruler_cli.estimate.batched import Batched
from ruler_cli.estimate.notes import Notes, Overview, Tally
from ruler_cli.estimate.outlay import Outlay, Range
from ruler_cli.estimate.whole import Estimate
from ruler_cli.openings import Openings
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
    found: Input
    agreed: int
    first: int
    places: tuple[Place, ...]
    notes: Notes
    whole: Overview
    result: Estimate
    passes: int
    adaptive: bool
    lost: int
    warnings: tuple[str, ...]
    unit: str
    batched: tuple[Batched, ...] | None = None

    @property
    def about(self) -> str:
        """What stands before a figure that was extrapolated."""
        return "about " if self.result.laid_out < self.result.groups else ""

    @property
    def context(self) -> int | None:
        """Tokens that the judge reads which reads most of those that score every group."""
        contexts = [each.model.context for each in self.result.judges if each.role == "panel"]
        return None if None in contexts else max(each for each in contexts if each is not None)


def rows(page: Page) -> list[tuple[str, str]]:
    """The page as names and values, for a person."""
    result, whole, about = page.result, page.whole, page.about
    out = [("input", page.found.found()), *_format(page), *((p.name, _place(p)) for p in page.places)]
    out += [
        ("group sizes", _sizes(whole.sizes)),
        ("tasks", _tasks(page.found.openings)),
        ("rollouts", f"{whole.rollouts:,} in {count(page.notes.records, page.unit)}"),
        ("tokens a rollout", f"{about}{_lengths(result.lengths)}"),
        ("shown to the judge", _coverage(result)),
        ("shared prefix", f"{about}{result.shared:.0%} of the prompts, shown once for a group"),
        ("identical rollouts", f"{about}{result.identical_rollouts}"),
        ("tied groups", f"{about}{result.tied_groups} (one rollout, or all identical)"),
        ("rewards", _rewards(page.notes.rewards, whole)),
        ("equal rewards", f"{count(whole.equal, 'group')} (their own rewards teach nothing)"),
        ("outcomes", _outcomes(page.notes.outcomes)),
        ("judge", _judge(result.judges)),
        *_passes(page),
        *_money(result),
        *_each(result.judges),
        *(batch_rows(page.batched) if page.batched is not None else ()),
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
    common = ", ".join(f"{count(number, 'group')} of {size}" for size, number in commonest(sizes))
    more = len(sizes) - _COMMONEST
    least, middle, most = min(sizes), quantile(sizes, 0.5), max(sizes)
    rest = f", {count(more, 'other size')}" if more > 0 else ""
    return f"min {least}, median {middle}, max {most} ({common}{rest})"


def commonest(sizes: Counter[int]) -> list[tuple[int, int]]:
    """Some sizes of groups with how many have it, the commonest first."""
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
        return "0" if page.context else "0 (the judge's context is not known)"
    keys = ", ".join(shortened(key) for key in found.too_long_keys)
    more = ", …" if found.too_long > len(found.too_long_keys) else ""
    return f"{page.about}{count(found.too_long, 'group')} for {page.context:,} tokens ({keys}{more})"


def _laid_out(found: Estimate) -> str:
    if found.laid_out >= found.groups:
        return f"all {found.groups:,} groups" if found.groups != 1 else "the group"
    return (
        f"{found.laid_out:,} of {found.groups:,} groups, spread over all; tokens, cost and what is "
        "told with `about` are estimated from them"
    )


def _tasks(openings: Openings) -> str:
    if not openings.taskless and not openings.mixed:
        return "shown to the judge for every rollout, one in a group"
    none = f"none shown for {count(openings.taskless, 'rollout')}" if openings.taskless else ""
    several = f"several in {count(openings.mixed, 'group')}" if openings.mixed else ""
    return ", ".join(part for part in (none, several) if part)


def _coverage(found: Estimate) -> str:
    coverage = found.coverage
    if coverage.share is None:
        return "no text to show"
    missing = coverage.named()
    return f"{coverage.share:.0%} of the text{f'; not shown: {missing}' if missing else ''}"


def _money(found: Estimate) -> list[tuple[str, str]]:
    """What is left to ask and what it takes."""
    thinking = {
        True: ", thinking included",
        False: "",
        None: "; the most allows for thinking, which is not known of this model",
    }
    known = {each.model.reasoning for each in found.judges}
    cost, cap = found.cost_usd, found.cap_usd
    enough = "no call is left" if not found.calls.high else "or more lets every call go, at the highest cost"
    return [
        ("calls", _calls(found.calls)),
        ("kept", _kept(found)),
        ("prompt tokens", _about(found.prompt_tokens)),
        (
            "completion tokens",
            _about(found.completion_tokens) + thinking[None if None in known else True in known],
        ),
        ("cost", _PRICE if cost is None else dollars(cost)),
        ("--max-cost", "unknown, as the cost is" if cap is None else f"{rounded(cap, up=True)} {enough}"),
    ]


def _judge(judges: Sequence[Outlay]) -> str:
    """Who is asked, and when."""
    out = judges[0].judge
    for each in judges[1:]:
        out += {
            "panel": f", {each.judge}",
            "fallback": f", where it refuses {each.judge}",
            "escalation": f"; for groups that stay unresolved {each.judge}",
        }[each.role]
    return out


def _passes(page: Page) -> list[tuple[str, str]]:
    """How often, and in how many parts, where it is not once and all at a time."""
    out, found = [], page.result
    if page.adaptive:
        out.append(("passes", f"up to {page.passes} on average, 2 at least"))
    elif page.passes > 1:
        out.append(("passes", f"{page.passes}"))
    if found.windowed:
        groups = count(found.windowed, "group")
        out.append(
            (
                "windows",
                f"{page.about}{groups} in parts, twice at least: {_calls(found.window_calls)} of the calls",
            )
        )
    return out


def _each(judges: Sequence[Outlay]) -> list[tuple[str, str]]:
    """What every judge of several takes."""
    return [(f"judge {i}", _outlay(each)) for i, each in enumerate(judges, 1)] if len(judges) > 1 else []


def _outlay(one: Outlay) -> str:
    prompt, answers = one.prompt_tokens.expected, one.completion_tokens.expected
    tokens = f"about {prompt:.0f} prompt and {answers:.0f} completion tokens"
    cost = "cost unknown" if one.cost_usd is None else dollars(one.cost_usd)
    kept = f", {one.kept} kept" if one.kept else ""
    lost = ""
    if one.too_long and one.model.context:
        lost = f", too long for its {one.model.context:,} tokens: {count(one.too_long, 'group')}"
    return f"{one.judge}: {_calls(one.calls)} calls, {tokens}, {cost}{kept}{lost}"


def _calls(calls: Range) -> str:
    return f"{calls.expected:.0f} (up to {calls.high:.0f})"


def _kept(found: Estimate) -> str:
    calls = count(found.kept + round(found.calls.expected), "call")
    if not found.kept:
        return f"0 of {calls}"
    failed = f"; {found.kept_failed} failed, --retry-failed asks again" if found.kept_failed else ""
    about = "about " if found.laid_out < found.groups else ""
    return f"{about}{found.kept} of {calls}, not paid again{failed}"


def _about(tokens: Range) -> str:
    return f"about {tokens.expected:.0f} (from {tokens.low:.0f} to {tokens.high:.0f})"


def shortened(text: str, most: int = 60) -> str:
    """Text that fits on a line."""
    return text if len(text) <= most else text[: most - 1] + "…"


__all__ = ["SHARES", "Page", "Place", "commonest", "rounded", "rows", "shortened"]
