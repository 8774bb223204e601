"""What the figures of a run mean, in sentences; nothing where the file does not tell."""

from __future__ import annotations

from collections.abc import Iterator

from ruler_cli.cli.units import count, moment, seconds, short, usd
from ruler_cli.report.values import Ends, Overview

SURE = 2.0
"""Standard errors from which on a difference is told."""
FEW = 20
"""Groups below which a curve or a slope is mostly chance."""
LOW = 0.5
"""Below it scores are more noise than signal."""
_BIASED = 0.01
"""A mean shift of scores that is worth an option."""
_TOLD = {
    "degraded": "of which a pass brought no scores (degraded)",
    "escalated": "scored by the stronger judge",
    "windows": "shown in windows",
    "shortened": "shortened to fit the judge",
    "alone": "of one rollout",
    "cached": "answered from the ledger",
}
_FAST = 0.05
"""Seconds below which no judge was waited for."""


def groups(o: Overview) -> str:
    """How many there are, and what became of them."""
    parts = [
        f"{o.scored} scored"
        + (f" ({o.live} live, {o.tied} tied: nothing to learn from)" if o.tied else ", none tied")
    ]
    parts += [f"{o.failed} failed"] * bool(o.failed) + [f"{o.unmarked} not asked about"] * bool(o.unmarked)
    return f"{o.groups}: {', '.join(parts)}"


def rollouts(o: Overview) -> str:
    """The same of rollouts."""
    lost = o.rollouts_failed
    left = o.rollouts - o.rollouts_scored - lost
    parts = [f"{o.rollouts_scored} scored"] + [f"{lost} not scored"] * bool(lost)
    parts += [f"{left} without a mark"] * bool(left)
    parts += [f"{o.labelled} with an original reward"] * bool(o.labelled)
    parts += [f"{o.suspects} with text that addresses a judge (suspect)"] * bool(o.suspects)
    return f"{o.rollouts}: {', '.join(parts)}"


def judges(o: Overview) -> str:
    """Who judged, how often, and when."""
    several = len(o.judges) > 1
    names = [f"{name} ({count(n, 'group')})" if several else name for name, n in o.judges.items() if name]
    times = [
        count(k, "pass") + (f" ({count(n, 'group')})" * (len(o.passes) > 1))
        for k, n in sorted(o.passes.items())
    ]
    return "; ".join(filter(None, (", ".join(names), ", ".join(times), _when(o))))


def _when(o: Overview) -> str:
    if o.started is None or o.ended is None:
        return ""
    first, last = moment(o.started), moment(o.ended)
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[len(first) - 5 :] if first[:10] == last[:10] else last} UTC"


def kinds(o: Overview) -> str:
    """Failed groups by kind, the commonest first."""
    return ", ".join(f"{n} {kind}" for kind, n in sorted(o.kinds.items(), key=lambda item: -item[1]))


def flags(o: Overview) -> str:
    """What else may be said of groups."""
    told = ((n, _TOLD[flag]) for flag, n in o.flags.items() if flag in _TOLD and n)
    return ", ".join(f"{count(n, 'group')} {what}" for n, what in told)


def cost(o: Overview) -> str:
    """Money and tokens."""
    parts = []
    if o.cost is not None:
        some = "" if o.costed == o.scored + o.failed else f", told of {count(o.costed, 'group')}"
        each = f" ({usd(o.cost / o.costed)} a group{some})" if o.costed and o.cost else ""
        parts.append(f"{usd(o.cost)}{each}")
    if o.usage.calls:
        parts.append(count(o.usage.calls, "call"))
    if o.usage.prompt or o.usage.completion:
        cached = f" ({short(o.usage.cached)} of it cached)" if o.usage.cached else ""
        parts.append(
            f"{short(o.usage.prompt)} prompt{cached} + {short(o.usage.completion)} completion tokens"
        )
    return ", ".join(parts)


def latency(o: Overview) -> str:
    """How long a group takes."""
    if o.latency.get("max", 0.0) < _FAST:
        return ""
    said = {"p50": "half within", "p90": "9 of 10 within", "max": "the slowest"}
    return ", ".join(f"{told} {seconds(o.latency[name])}" for name, told in said.items() if name in o.latency)


def agreement(o: Overview) -> Iterator[str]:
    """How well scores agree with the original reward, and where they do not."""
    if o.agreement is None:
        return
    yield (f"{o.agreement:.0%} of {count(o.pairs, 'pair')} with unlike rewards are in order (chance: 50%)")
    labels = sorted({cell.other for cell in o.against_label})
    if len(labels) < 2:
        return
    for label, high in ((labels[0], True), (labels[-1], False)):
        found = [(cell.score[0] >= LOW, cell.n) for cell in o.against_label if cell.other == label]
        wrong, all_ = sum(n for above, n in found if above is high), sum(n for _, n in found)
        if all_:
            where = f"score {LOW} or more" if high else f"score below {LOW}"
            yield f"{wrong} of {count(all_, 'rollout')} with reward {stretch(label)} {where}"


def slots(o: Overview) -> str:
    """Whether the place at which a rollout is shown moves its score."""
    if not o.slots or o.slot_groups < FEW:
        return ""
    ends = {"first": o.slots[0], "last": o.slots[-1]}
    sure = {
        name: bar
        for name, bar in ends.items()
        if bar.error is not None and abs(bar.mean) > max(SURE * bar.error, _BIASED)
    }
    if not sure:
        first = o.slots[0]
        error = "" if first.error is None else f" ± {first.error:.3f}"
        return f"shown first or last makes no sure difference (first {first.mean:+.3f}{error})"
    told = [
        f"shown {name} scores {abs(bar.mean):.3f} ± {bar.error:.3f} {'more' if bar.mean > 0 else 'less'}"
        for name, bar in sure.items()
    ]
    return f"{' and '.join(told)} than its group: --debias takes that out, more --passes average it"


def length(o: Overview) -> str:
    """Whether longer rollouts score more within their groups."""
    trend = o.length
    if trend is None or trend.groups < FEW:
        return ""
    slope = f"{trend.slope:+.3f} ± {trend.error:.3f}"
    if abs(trend.slope) <= SURE * trend.error:
        return f"makes no sure difference (twice as long {slope})"
    word = "more" if trend.slope > 0 else "less"
    return f"longer scores {word}: twice as long {slope}, correlation {trend.correlation:+.2f} in a group"


def reliability(o: Overview) -> str:
    """How much of the differences in a group is more than noise."""
    if o.reliability_median is None:
        return ""
    low = sum(bar.n for bar in o.reliability if bar.ends[1] <= LOW + 1e-9)
    many = count(o.reliable_groups, "group")
    told = f"{o.reliability_median:.2f} in the median of {many}, below {LOW} in {low}"
    more = "; more --passes, or --adaptive, make it more" if o.reliability_median < LOW else ""
    return told + more


def stretch(ends: Ends) -> str:
    """A stretch, or the single value."""
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"


def number(score: float | None) -> str:
    """A score."""
    return "-" if score is None else f"{score:.2f}"
