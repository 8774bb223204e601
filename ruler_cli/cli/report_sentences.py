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
"""The middle of the scale."""
_NEARLY, _NONE = 0.9, 0.005
"""A share of groups that is nearly all, and a reliability that is printed as 0."""
_BIASED = 0.01
"""A mean shift of scores that is worth an option."""
_FLAGS = {
    "degraded": "of which a pass brought no scores (degraded)",
    "escalated": "scored by the stronger judge",
    "windows": "shown in windows",
    "shortened": "shortened to fit the judge",
    "alone": "of one rollout",
    "cached": "answered from the ledger",
}
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
    yield "position", position_bias(figures)
    yield "length", length(figures)
    groups, panel = figures["groups"], any(", " in name for name in figures["judges"])
    compared, median = (
        groups["scored"] - groups["alone"],
        figures["reliability"]["median"],
    )
    noise = mere_noise(
        groups["tied"] - groups["alone"],
        groups["one_score"],
        compared,
        median,
        panel=panel,
    )
    same = "" if noise else same_scores(groups["one_score"], compared, panel=panel)
    yield "reliability", reliability(figures, advise=not (noise or same))
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
    parts += [f"{n['unmarked']} not asked about"] * bool(n["unmarked"])
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
    names = {"p50": "half within", "p90": "9 of 10 within", "max": "the slowest"}
    return ", ".join(f"{name} {seconds(latency[key])}" for key, name in names.items())


def agreement(figures: ReportFigures) -> Iterator[str]:
    """Yield the agreement with the original reward, and the rollouts without it."""
    against = figures["against_label"]
    if against["agreement"] is None:
        return
    yield ordered_pairs(against, "with unlike rewards are")
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


def position_bias(figures: ReportFigures) -> str:
    """Describe how far the position of a rollout in the prompt moves its score."""
    bars = figures["slots"]["bins"]
    if not bars or figures["slots"]["groups"] < FEW:
        return ""
    sure = sure_positions(bars)
    if not sure:
        error = given(bars[0]["error"], " ± {:.3f}")
        return f"shown first or last makes no sure difference (first {bars[0]['mean']:+.3f}{error})"
    parts = []
    for name, bar in sure.items():
        word = "more" if bar["mean"] > 0 else "less"
        parts.append(
            f"shown {name} scores {abs(bar['mean']):.3f} ± {bar['error']:.3f} {word}"
        )
    shift = f"{' and '.join(parts)} than its group"
    if 2 * figures["slots"]["corrected"] > figures["slots"]["groups"]:
        return f"{shift} in single passes, before --debias or --standardize corrected the scores"
    if (
        2 * figures["reliability"]["groups"] > figures["slots"]["groups"]
    ):  # known from two passes on
        return (
            f"{shift} in single passes: the passes average it in the scores, --debias also takes it out of "
            "the reliability"
        )
    return f"{shift}: --debias takes that out, more --passes average it"


def same_scores(one_score: int, compared: int, *, panel: bool) -> str:
    """Say that the judge does not tell rollouts apart, if `one_score` is over a third of the groups."""
    if 3 * one_score <= compared:
        return ""
    subject = "these judges do" if panel else "this judge does"
    return (
        f"{one_score} of {count(compared, 'group')} got the same score for every rollout: {subject} not tell "
        "them apart; another judge (-m) or rubric (--rubric) may, more passes hardly will"
    )


def mere_noise(
    tied: int, one_score: int, compared: int, median: float | None, *, panel: bool
) -> str:
    """Say that a judge's differences are its noise, if nearly all groups are tied with a reliability of 0.

    Of `compared` groups `tied` are, `one_score` because each got one score, which is no noise.
    """
    nearly = _NEARLY * compared
    if (
        not compared
        or median is None
        or median >= _NONE
        or tied < nearly
        or one_score >= nearly
    ):
        return ""
    whose, their = ("these judges'", "their") if panel else ("this judge's", "its")
    return (
        f"{tied} of {count(compared, 'group')} tied, with a median reliability of 0: {whose} differences are "
        f"no larger than {their} noise; another judge (-m) or rubric (--rubric) may tell rollouts apart"
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


def length(figures: ReportFigures) -> str:
    """Describe how much more longer rollouts score within their groups."""
    trend = figures["lengths"]
    if trend["groups"] < FEW:
        return ""
    slope = f"{trend['slope']:+.3f} ± {trend['error']:.3f}"
    if abs(trend["slope"]) <= SURE * trend["error"]:
        return f"makes no sure difference (twice as long {slope})"
    word = "more" if trend["slope"] > 0 else "less"
    return f"longer scores {word}: twice as long {slope}, correlation {trend['correlation']:+.2f} in a group"


def reliability(figures: ReportFigures, *, advise: bool = True) -> str:
    """Describe how much of the differences in a group is more than noise; `advise` what raises it."""
    from ruler_cli.results.report.highlights import (
        UNRELIABLE,
    )  # `score` needs none of the report

    values = figures["reliability"]
    if values["median"] is None:
        return ""
    low = sum(bar["n"] for bar in values["bins"] if bar["to"] <= UNRELIABLE + 1e-9)
    many = count(values["groups"], "group")
    more = (
        "; more --passes, or --adaptive, make it more"
        if advise and values["median"] < UNRELIABLE
        else ""
    )
    return f"{values['median']:.2f} in the median of {many}, below {UNRELIABLE} in {low}{more}"


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
