"""The figures of a run → sentences; empty if the file does not have the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.units import count, seconds, short, usd

if TYPE_CHECKING:
    from ruler_cli.results.report.figures import ReportFigures

SURE = 2.0
"""Standard errors from which on a difference is no chance."""
FEW = 20
"""Groups below which position bias or a slope is mostly chance."""
LOW = 0.5
"""The middle of the scale, and a reliability below which differences are more noise than signal."""
_NEARLY, _NONE = 0.9, 0.005
"""A share of groups that is nearly all, and a reliability that is printed as 0."""
_BIASED = 0.01
"""A mean shift of scores that is worth an option."""
_FLAGS = {
    "degraded": "missing a pass (degraded)",
    "escalated": "scored by the stronger judge",
    "windows": "shown in windows",
    "shortened": "shortened to fit the judge",
    "alone": "of one rollout",
    "cached": "answered from the ledger",
}
_DISTRIBUTIONS = {
    "scores": "rollouts by score",
    "spread": "groups by spread (sd)",
    "reliability": "groups by reliability",
}
_BARS = "▁▂▃▄▅▆▇█"
_FAST = 0.05
"""Seconds below which the latency is not that of a judge."""


def counts(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield groups, rollouts, failures, cost and time, each with a name; none is text of the input."""
    yield "groups", _groups(figures)
    yield (
        "failed",
        ", ".join(f"{n} {kind}" for kind, n in figures["failed_by_kind"].items()),
    )
    yield "rollouts", _rollouts(figures)
    flags = (
        f"{count(n, 'group')} {_FLAGS[flag]}"
        for flag, n in figures["flags"].items()
        if flag in _FLAGS
    )
    yield "of note", ", ".join(flags)
    yield "cost", cost(figures)
    yield "a group", _latency(figures)


def findings(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield sentences about the judge, each with a name."""
    for i, sentence in enumerate(agreement(figures)):
        yield "" if i else "agreement", sentence
    trend = figures["lengths"]
    few = "" if trend["groups"] < FEW else "no significant length bias"
    yield "position", _position_bias(figures)
    yield "length", length_bias(trend) or few
    groups, median = figures["groups"], figures["reliability"]["median"]
    compared = groups["scored"] - groups["alone"]
    tied = groups["tied"] - groups["alone"]
    noise = mere_noise(tied, groups["one_score"], compared, median)
    same = "" if noise else same_scores(groups["one_score"], compared)
    yield "reliability", _reliability(figures, advise=not (noise or same))
    yield "noise", noise
    yield "same score", same
    yield (
        "explanations",
        same_explanations(groups["same_explanations"], groups["explained"], "group"),
    )


def facts(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield all names and sentences, for a page whose charts cannot be drawn."""
    yield from counts(figures)
    yield from averages(figures)
    yield from findings(figures)


def distributions(figures: ReportFigures) -> Iterator[str]:
    """Yield a histogram in a line for scores, spread and reliability, as far as there are enough groups."""
    from ruler_cli.results.report.figures import charts

    for name, title in _DISTRIBUTIONS.items():
        if name in charts(figures):
            of = figures[name]
            middle = "mean" if "mean" in of else "median"
            most = max(bar["n"] for bar in of["bins"])
            bars = [_BARS[-(-7 * bar["n"] // most)] for bar in of["bins"]]
            end = of["bins"][-1]["to"]
            yield f"{title:<22} 0 {''.join(bars)} {end:g}, {middle} {of[middle]:.2f}"


def averages(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield the mean score and the median spread of a group, which the charts have in their titles."""
    yield "mean score", given(figures["scores"]["mean"], "{:.2f}")
    yield "spread (sd), median", given(figures["spread"]["median"], "{:.2f}")


def _groups(figures: ReportFigures) -> str:
    n = figures["groups"]
    tied = (
        f" ({n['live']} live, {n['tied']} tied: nothing to learn from)"
        if n["tied"]
        else ", none tied"
    )
    parts = [f"{n['scored']} scored{tied}"]
    parts += [f"{n['failed']} failed"] * bool(n["failed"])
    parts += [f"{n['unmarked']} not judged"] * bool(n["unmarked"])
    return f"{n['all']}: {', '.join(parts)}"


def _rollouts(figures: ReportFigures) -> str:
    n = figures["rollouts"]
    others = {
        "not scored": n["failed"],
        "without an annotation": n["all"] - n["scored"] - n["failed"],
        "with an original reward": n["labelled"],
        "with text that addresses a judge (suspect)": n["suspect"],
    }
    parts = [
        f"{n['scored']} scored",
        *(f"{number} {what}" for what, number in others.items() if number),
    ]
    return f"{n['all']}: {', '.join(parts)}"


def judges(figures: ReportFigures) -> str:
    """Name the judges, their passes, and the time."""
    several, passes = len(figures["judges"]) > 1, figures["passes"]
    names = [
        f"{name}{_of(n, several)}" for name, n in figures["judges"].items() if name
    ]
    times = [
        f"{count(int(k), 'pass') if k.isdecimal() else f'{k} passes'}{_of(n, len(passes) > 1)}"
        for k, n in passes.items()
    ]
    return "; ".join(filter(None, (", ".join(names), ", ".join(times), _when(figures))))


def _of(groups: int, several: bool) -> str:
    return f" ({count(groups, 'group')})" if several else ""


def _when(figures: ReportFigures) -> str:
    if figures["started_at"] is None or figures["ended_at"] is None:
        return ""
    first, last = (
        figures[name][:16].replace("T", " ") for name in ("started_at", "ended_at")
    )
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[-5:] if first[:10] == last[:10] else last} UTC"


def cost(figures: ReportFigures) -> str:
    """Name money and tokens."""
    parts, usd_, groups, usage = (
        [],
        figures["cost_usd"],
        figures["cost_groups"],
        figures["usage"],
    )
    if usd_ is not None:
        all_ = figures["groups"]["scored"] + figures["groups"]["failed"]
        some = "" if groups == all_ else f", known for {count(groups, 'group')}"
        parts.append(
            usd(usd_) + (f" ({usd(usd_ / groups)} a group{some})" if usd_ else "")
        )
    if usage["calls"]:
        parts.append(count(usage["calls"], "call"))
    if usage["prompt_tokens"] or usage["completion_tokens"]:
        cached = (
            f" ({short(usage['cached_tokens'])} of it cached)"
            if usage["cached_tokens"]
            else ""
        )
        prompt, completion = (
            short(usage["prompt_tokens"]),
            short(usage["completion_tokens"]),
        )
        parts.append(f"{prompt} prompt{cached} + {completion} completion tokens")
    return ", ".join(parts)


def _latency(figures: ReportFigures) -> str:
    latency = figures["latency_s"]
    if (latency["max"] or 0.0) < _FAST:
        return ""
    names = {"p50": "median", "p90": "p90", "max": "max"}
    return ", ".join(f"{name} {seconds(latency[key])}" for key, name in names.items())


def agreement(figures: ReportFigures) -> Iterator[str]:
    """Yield the agreement with the original reward, and the rollouts without it."""
    against = figures["against_label"]
    if against["agreement"] is None:
        return
    yield ordered_pairs(against, "with different rewards are")
    labels = sorted({tuple(cell["label"]) for cell in against["cells"]})
    if len(labels) < 2:
        return
    for label, high in ((labels[0], True), (labels[-1], False)):
        cells = [cell for cell in against["cells"] if tuple(cell["label"]) == label]
        all_ = sum(cell["n"] for cell in cells)
        wrong = sum(cell["n"] for cell in cells if (cell["score"][0] >= LOW) is high)
        scores = f"score {LOW} or more" if high else f"score below {LOW}"
        reward = " to ".join(f"{end:g}" for end in dict.fromkeys(label))
        yield f"{wrong} of {count(all_, 'rollout')} with reward {reward} {scores}"


def ordered_pairs(figures: Mapping[str, Any], what: str) -> str:
    """Count the `pairs` that are in order, `against` it (with a half of those `tied`), and tied."""
    tied = figures["tied"]
    against = round(figures["against"] - tied / 2)
    in_order, pairs = figures["pairs"] - against - tied, count(figures["pairs"], "pair")
    share, half = percent(figures["agreement"]), ", a tie counts half" * bool(tied)
    counts_ = pair_counts(f"{in_order or 'none'} of {pairs} {what}", against, tied)
    return f"{counts_} ({share}{half}; chance: 50%)"


def pair_counts(in_order: object, against: int, tied: int) -> str:
    """Count the pairs of rollouts that scores put in order, against it, and not at all."""
    return f"{in_order} in order, {against or 'none'} against, {tied or 'none'} tied"


def position_bias(
    bars: Sequence[Mapping[str, Any]], *, corrected: bool, several: bool
) -> str:
    """Describe a significant position bias and what becomes of it; empty without one.

    `corrected`: it is subtracted from the scores; `several`: there is more than one pass.
    """
    sure = sure_positions(bars)
    if not sure:
        return ""
    moved = ", ".join(f"{name} {bar['mean']:+.3f}" for name, bar in sure.items())
    error = max(bar["error"] for bar in sure.values())
    done = "averaged over passes" if several else "--debias corrects it"
    return f"{moved} (± {error:.3f}); {'subtracted' if corrected else done}"


def _position_bias(figures: ReportFigures) -> str:
    slots = figures["slots"]
    if not slots["bins"] or slots["groups"] < FEW:
        return ""
    corrected = 2 * slots["corrected"] > slots["groups"]
    # a reliability is known from two passes on
    several = 2 * figures["reliability"]["groups"] > slots["groups"]
    found = position_bias(slots["bins"], corrected=corrected, several=several)
    return found or "no significant position bias"


def same_scores(one_score: int, compared: int) -> str:
    """Say that the judge does not tell rollouts apart, if `one_score` is over a third of the groups."""
    if 3 * one_score <= compared:
        return ""
    return (
        f"{one_score} of {count(compared, 'group')} got one score for all rollouts: the judge does not tell "
        "them apart; try another judge or rubric; more passes are unlikely to help"
    )


def mere_noise(tied: int, one_score: int, compared: int, median: float | None) -> str:
    """Say that a judge's differences are its noise, if nearly all groups are tied with a reliability of 0.

    Of `compared` groups `tied` are, `one_score` because each got one score, which is no noise.
    """
    nearly = _NEARLY * compared
    if median is None or median >= _NONE or not one_score < nearly <= tied:
        return ""
    return (
        f"{tied} of {count(compared, 'group')} tied, with a median reliability of 0: the judge's differences "
        "are no larger than its noise; try another judge or rubric"
    )


def same_explanations(same: int, explained: int, what: str) -> str:
    """Say that many replies, or groups, have one text for every rollout, if over a third have."""
    if 3 * same <= explained:
        return ""
    return f"in {same} of {count(explained, what)} all explanations are the same"


def sure_positions(bars: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the bars of the positions `first` and `last` whose bias is no chance, and worth an option.

    A bar has the `mean` difference of the scores at a position, and its standard `error`.
    """
    return {
        name: bar
        for name, bar in (("first", bars[0]), ("last", bars[-1]))
        if bar["error"] is not None
        and abs(bar["mean"]) > max(SURE * bar["error"], _BIASED)
    }


def length_bias(trend: Mapping[str, Any]) -> str:
    """Describe how much more longer rollouts score in their groups; empty if that may be chance."""
    if trend["groups"] < FEW or abs(trend["slope"]) <= SURE * trend["error"]:
        return ""
    slope, correlation = trend["slope"], trend["correlation"]
    return (
        f"twice as long scores {slope:+.3f} ± {trend['error']:.3f} "
        f"(correlation {correlation:+.2f})"
    )


def reliability(median: float, groups: int, low: int, *, advise: bool) -> str:
    """Describe the reliability of `groups`, `low` of them below LOW; `advise` what raises it."""
    median_of = f" in the median, below {LOW} in {low} of {count(groups, 'group')}"
    more = "; more --passes raise it" if median < LOW and advise else ""
    return f"{median:.2f}{median_of if groups > 1 else ''}{more}"


def _reliability(figures: ReportFigures, *, advise: bool) -> str:
    values = figures["reliability"]
    if values["median"] is None:
        return ""
    low = sum(bar["n"] for bar in values["bins"] if bar["to"] <= LOW + 1e-9)
    return reliability(values["median"], values["groups"], low, advise=advise)


def percent(share: float) -> str:
    """Write a share as a whole percentage, with a decimal if it would else seem to be none or all."""
    text = f"{share:.0%}"
    return (
        f"{min(max(share, 0.001), 0.999):.1%}"
        if text in ("0%", "100%") and 0 < share < 1
        else text
    )


def given(number: float | None, form: str) -> str:
    """Write a number in a format such as `sd {:.2f}`; empty for None."""
    return "" if number is None else form.format(number)
