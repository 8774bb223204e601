"""The figures of a run in sentences; nothing if the file does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ruler_cli.cli.units import count, seconds, short, usd
from ruler_cli.results.report.figures import ReportFigures

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


def counts(o: ReportFigures) -> Iterator[tuple[str, str]]:
    """Groups, rollouts, failures, cost and time, each with a name; nothing of it is text of the input."""
    yield "groups", _groups(o)
    yield "failed", ", ".join(f"{n} {kind}" for kind, n in o["failed_by_kind"].items())
    yield "rollouts", _rollouts(o)
    yield "of note", ", ".join(f"{count(n, 'group')} {_TOLD[f]}" for f, n in o["flags"].items() if f in _TOLD)
    yield "cost", cost(o)
    yield "a group", _latency(o)


def findings(o: ReportFigures) -> Iterator[tuple[str, str]]:
    """What the figures say of the judge, each with a name."""
    for at, sentence in enumerate(agreement(o)):
        yield "" if at else "agreement", sentence
    yield "place", slots(o)
    yield "length", length(o)
    yield "reliability", reliability(o)


def facts(o: ReportFigures) -> Iterator[tuple[str, str]]:
    """All of it, for a page whose charts cannot be drawn."""
    yield from counts(o)
    for name, what in (("mean score", "scores"), ("spread (sd), median", "spread")):
        value = o[what]["median" if what == "spread" else "mean"]
        yield name, "" if value is None else number(value)
    yield from findings(o)


def _groups(o: ReportFigures) -> str:
    n = o["groups"]
    tied = f" ({n['live']} live, {n['tied']} tied: nothing to learn from)" if n["tied"] else ", none tied"
    parts = [f"{n['scored']} scored{tied}"]
    parts += [f"{n['failed']} failed"] * bool(n["failed"])
    parts += [f"{n['unmarked']} not asked about"] * bool(n["unmarked"])
    return f"{n['all']}: {', '.join(parts)}"


def _rollouts(o: ReportFigures) -> str:
    n = o["rollouts"]
    others = {
        "not scored": n["failed"],
        "without a mark": n["all"] - n["scored"] - n["failed"],
        "with an original reward": n["labelled"],
        "with text that addresses a judge (suspect)": n["suspect"],
    }
    parts = [f"{n['scored']} scored", *(f"{number} {what}" for what, number in others.items() if number)]
    return f"{n['all']}: {', '.join(parts)}"


def judges(o: ReportFigures) -> str:
    """Who judged, how often, and when."""
    several, passes = len(o["judges"]) > 1, o["passes"]
    names = [f"{name}{_of(n, several)}" for name, n in o["judges"].items() if name]
    times = [
        f"{count(int(k), 'pass') if k.isdecimal() else f'{k} passes'}{_of(n, len(passes) > 1)}"
        for k, n in passes.items()
    ]
    return "; ".join(filter(None, (", ".join(names), ", ".join(times), _when(o))))


def _of(groups: int, several: bool) -> str:
    return f" ({count(groups, 'group')})" if several else ""


def _when(o: ReportFigures) -> str:
    if o["started_at"] is None or o["ended_at"] is None:
        return ""
    first, last = (o[name][:16].replace("T", " ") for name in ("started_at", "ended_at"))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[-5:] if first[:10] == last[:10] else last} UTC"


def cost(o: ReportFigures) -> str:
    """Money and tokens."""
    parts, usd_, groups, usage = [], o["cost_usd"], o["cost_groups"], o["usage"]
    if usd_ is not None:
        all_ = o["groups"]["scored"] + o["groups"]["failed"]
        some = "" if groups == all_ else f", told of {count(groups, 'group')}"
        parts.append(usd(usd_) + (f" ({usd(usd_ / groups)} a group{some})" if usd_ else ""))
    if usage["calls"]:
        parts.append(count(usage["calls"], "call"))
    if usage["prompt_tokens"] or usage["completion_tokens"]:
        cached = f" ({short(usage['cached_tokens'])} of it cached)" if usage["cached_tokens"] else ""
        prompt, completion = short(usage["prompt_tokens"]), short(usage["completion_tokens"])
        parts.append(f"{prompt} prompt{cached} + {completion} completion tokens")
    return ", ".join(parts)


def _latency(o: ReportFigures) -> str:
    found = o["latency_s"]
    if (found["max"] or 0.0) < _FAST:
        return ""
    said = {"p50": "half within", "p90": "9 of 10 within", "max": "the slowest"}
    return ", ".join(f"{told} {seconds(found[name])}" for name, told in said.items())


def agreement(o: ReportFigures) -> Iterator[str]:
    """How well scores agree with the original reward, and where they do not."""
    found = o["against_label"]
    if found["agreement"] is None:
        return
    pairs = count(found["pairs"], "pair")
    yield f"{found['agreement']:.0%} of {pairs} with unlike rewards are in order (chance: 50%)"
    labels = sorted({tuple(cell["label"]) for cell in found["cells"]})
    if len(labels) < 2:
        return
    for label, high in ((labels[0], True), (labels[-1], False)):
        cells = [cell for cell in found["cells"] if tuple(cell["label"]) == label]
        all_ = sum(cell["n"] for cell in cells)
        wrong = sum(cell["n"] for cell in cells if (cell["score"][0] >= LOW) is high)
        where = f"score {LOW} or more" if high else f"score below {LOW}"
        yield f"{wrong} of {count(all_, 'rollout')} with reward {_stretch(label)} {where}"


def slots(o: ReportFigures) -> str:
    """Position bias: how far the position at which a rollout is shown moves its score."""
    bars = o["slots"]["bins"]
    if not bars or o["slots"]["groups"] < FEW:
        return ""
    first = bars[0]
    sure = {
        name: bar
        for name, bar in (("first", first), ("last", bars[-1]))
        if bar["error"] is not None and abs(bar["mean"]) > max(SURE * bar["error"], _BIASED)
    }
    if not sure:
        error = "" if first["error"] is None else f" ± {first['error']:.3f}"
        return f"shown first or last makes no sure difference (first {first['mean']:+.3f}{error})"
    told = []
    for name, bar in sure.items():
        word = "more" if bar["mean"] > 0 else "less"
        told.append(f"shown {name} scores {abs(bar['mean']):.3f} ± {bar['error']:.3f} {word}")
    return f"{' and '.join(told)} than its group: --debias takes that out, more --passes average it"


def length(o: ReportFigures) -> str:
    """How much more longer rollouts score within their groups."""
    trend = o["lengths"]
    if trend["groups"] < FEW:
        return ""
    slope = f"{trend['slope']:+.3f} ± {trend['error']:.3f}"
    if abs(trend["slope"]) <= SURE * trend["error"]:
        return f"makes no sure difference (twice as long {slope})"
    word = "more" if trend["slope"] > 0 else "less"
    return f"longer scores {word}: twice as long {slope}, correlation {trend['correlation']:+.2f} in a group"


def reliability(o: ReportFigures) -> str:
    """How much of the differences in a group is more than noise."""
    found = o["reliability"]
    if found["median"] is None:
        return ""
    low = sum(bar["n"] for bar in found["bins"] if bar["to"] <= LOW + 1e-9)
    many = count(found["groups"], "group")
    more = "; more --passes, or --adaptive, make it more" if found["median"] < LOW else ""
    return f"{found['median']:.2f} in the median of {many}, below {LOW} in {low}{more}"


def _stretch(ends: Sequence[float]) -> str:
    return f"{ends[0]:g}" if ends[0] == ends[1] else f"{ends[0]:g} to {ends[1]:g}"


def number(score: float | None) -> str:
    """A score."""
    return "-" if score is None else f"{score:.2f}"
