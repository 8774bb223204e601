"""The figures of a run → sentences; empty if the file does not have the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.units import count, seconds, short, usd

if TYPE_CHECKING:
    from ruler_cli.results.figures import ReportFigures

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
FAST = 0.05
"""Seconds below which the latency is not that of a judge."""


def counts(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield groups, rollouts, failures, cost and time, each with a name; none is text of the input."""
    n = figures["groups"]
    states = f"{n['live']} live, {n['tied']} tied" if n["tied"] else "none tied"
    yield (
        "groups",
        _counted(
            f"{n['scored']} of {n['all']} scored ({states})",
            {"failed": n["failed"], "not judged": n["unmarked"]},
        ),
    )
    yield "failed", kinds(figures)
    n = figures["rollouts"]
    others = {
        "not annotated": n["all"] - n["scored"] - n["failed"],
        "with an original reward": n["labelled"],
        "suspect (their text addresses the judge)": n["suspect"],
    }
    yield "rollouts", _counted(f"{n['scored']} of {n['all']} scored", others)
    yield "flags", ", ".join(f"{n} {flag}" for flag, n in figures["flags"].items())
    yield "cost", cost(figures)
    latency = figures["latency_s"]
    if (latency["max"] or 0.0) >= FAST:
        names = {"p50": "median", "p90": "p90", "max": "max"}
        times = [f"{name} {seconds(latency[key])}" for key, name in names.items()]
        yield "a group", ", ".join(times)


def _counted(first: str, others: Mapping[str, int]) -> str:
    return ", ".join([first, *(f"{n} {what}" for what, n in others.items() if n)])


def kinds(figures: ReportFigures) -> str:
    """Count the failed groups by kind."""
    return ", ".join(f"{n} {kind}" for kind, n in figures["failed_by_kind"].items())


def findings(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield sentences about the judge, each with a name."""
    for i, sentence in enumerate(agreement(figures)):
        yield "" if i else "agreement", sentence
    slots, trend, values = figures["slots"], figures["lengths"], figures["reliability"]
    if slots["bins"] and slots["groups"] >= FEW:
        bias = position_bias(
            slots["bins"],
            corrected=2 * slots["corrected"] > slots["groups"],
            # a reliability is known from two passes on
            several=2 * values["groups"] > slots["groups"],
        )
        yield "position", bias or "no significant position bias"
    if trend["groups"] >= FEW:
        yield "length", length_bias(trend) or "no significant length bias"
    groups, median = figures["groups"], values["median"]
    compared = groups["scored"] - groups["alone"]
    tied = groups["tied"] - groups["alone"]
    noise = mere_noise(tied, groups["one_score"], compared, median)
    same = "" if noise else same_scores(groups["one_score"], compared)
    if median is not None:
        low = sum(bar["n"] for bar in values["bins"] if bar["to"] <= LOW + 1e-9)
        advise = not (noise or same)
        yield "reliability", reliability(median, values["groups"], low, advise=advise)
    yield "noise", noise
    yield "same score", same
    explained = groups["explained"]
    same = same_explanations(groups["same_explanations"], explained, "group")
    yield "explanations", same


def facts(figures: ReportFigures) -> list[tuple[str, str]]:
    """Return all names and sentences, for a page whose charts cannot be drawn."""
    return [*counts(figures), *averages(figures), *findings(figures)]


def averages(figures: ReportFigures) -> Iterator[tuple[str, str]]:
    """Yield the mean score and the median spread of a group, which the charts have in their titles."""
    yield "mean score", given(figures["scores"]["mean"], "{:.2f}")
    yield "spread (sd), median", given(figures["spread"]["median"], "{:.2f}")


def judges(figures: ReportFigures) -> str:
    """Name the judges, their passes, and the time."""
    from ruler_cli.results.made_by import counted

    passes = figures["passes"]
    words = "1 pass" if [*passes] == ["1"] else f"{counted(passes)} passes"
    parts = (counted(figures["judges"]), words if passes else "", _when(figures))
    return "; ".join(filter(None, parts))


def _when(figures: ReportFigures) -> str:
    if figures["started_at"] is None:
        return ""
    first, last = minute(figures["started_at"]), minute(figures["ended_at"])
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[-5:] if first[:10] == last[:10] else last} UTC"


def minute(at: str) -> str:
    """Write a time for a person, to the minute."""
    return at[:16].replace("T", " ")


def money(figures: Mapping[str, Any]) -> str:
    """Name the cost, of a group too; of some groups only if that of others is not known."""
    spent, known = figures["cost_usd"], figures["cost_groups"]
    if not spent:
        return "" if spent is None else usd(spent)
    judged = figures["groups"]["scored"] + figures["groups"]["failed"]
    some = "" if known == judged else f", known for {count(known, 'group')}"
    return f"{usd(spent)} ({usd(spent / known)} a group{some})"


def cost(figures: ReportFigures) -> str:
    """Name money and tokens."""
    usage = figures["usage"]
    prompt, completion, cached = (
        usage[f"{name}_tokens"] for name in ("prompt", "completion", "cached")
    )
    hit = f" ({short(cached)} of it cached)" if cached else ""
    parts = (
        money(figures),
        count(usage["calls"], "call") if usage["calls"] else "",
        f"{short(prompt)} prompt{hit} + {short(completion)} completion tokens"
        if prompt or completion
        else "",
    )
    return ", ".join(filter(None, parts))


def agreement(figures: ReportFigures) -> Iterator[str]:
    """Yield the agreement with the original reward, and the rollouts without it."""
    against = figures["against_label"]
    if against["agreement"] is None:
        return
    yield ordered_pairs(against, "with different rewards")
    labels = sorted({tuple(cell["label"]) for cell in against["cells"]})
    if len(labels) < 2:
        return
    for label, high in ((labels[0], True), (labels[-1], False)):
        cells = [cell for cell in against["cells"] if tuple(cell["label"]) == label]
        wrong = sum(cell["n"] for cell in cells if (cell["score"][0] >= LOW) is high)
        rollouts = count(sum(cell["n"] for cell in cells), "rollout")
        reward = " to ".join(f"{end:g}" for end in dict.fromkeys(label))
        scores = f"score {LOW} or more" if high else f"score below {LOW}"
        yield f"{wrong} of {rollouts} with reward {reward} {scores}"


def ordered_pairs(figures: Mapping[str, Any], what: str = "") -> str:
    """Count the `pairs` that are in order, `against` it (with a half of those `tied`), and tied."""
    tied = figures["tied"]
    against = round(figures["against"] - tied / 2)
    share = percent(figures["agreement"])
    half = ", ties count half" * bool(tied)
    words = pair_counts(figures["pairs"], against, tied, what)
    return f"{words} ({share}{half}; chance: 50%)"


def pair_counts(pairs: int, against: int, tied: int, what: str = "") -> str:
    """Count the pairs of rollouts that scores put in order, in reverse, and not at all."""
    of = " ".join(filter(None, (count(pairs, "pair"), what)))
    in_order = pairs - against - tied
    return f"{in_order} of {of} in order, {against} reversed, {tied} tied"


def position_bias(
    bars: Sequence[Mapping[str, Any]], *, corrected: bool, several: bool
) -> str:
    """Describe a significant position bias and what becomes of it; empty without one.

    A bar has the `mean` difference of the scores at a position, and its standard `error`. `corrected`: it
    is subtracted from the scores; `several`: there is more than one pass.
    """
    sure = {
        name: bar
        for name, bar in (("first", bars[0]), ("last", bars[-1]))
        if bar["error"] is not None
        and abs(bar["mean"]) > max(SURE * bar["error"], _BIASED)
    }
    if not sure:
        return ""
    moved = ", ".join(f"{name} {bar['mean']:+.3f}" for name, bar in sure.items())
    error = max(bar["error"] for bar in sure.values())
    done = "averaged over passes" if several else "--debias corrects it"
    return f"{moved} (± {error:.3f}); {'subtracted' if corrected else done}"


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


def length_bias(trend: Mapping[str, Any]) -> str:
    """Describe how much more longer rollouts score in their groups; empty if that may be chance."""
    slope, error, correlation = trend["slope"], trend["error"], trend["correlation"]
    if trend["groups"] < FEW or abs(slope) <= SURE * error:
        return ""
    return f"twice as long scores {slope:+.3f} ± {error:.3f} (correlation {correlation:+.2f})"


def reliability(median: float, groups: int, low: int, *, advise: bool) -> str:
    """Describe the reliability of `groups`, `low` of them below LOW; `advise` what raises it."""
    words = f"{median:.2f}"
    if groups > 1:
        words = f"median {words}, below {LOW} in {low} of {count(groups, 'group')}"
    return words + "; more --passes raise it" * (median < LOW and advise)


def percent(share: float) -> str:
    """Write a share as a whole percentage, with a decimal if it would else seem to be none or all."""
    text = f"{share:.0%}"
    if text in ("0%", "100%") and 0 < share < 1:
        return f"{min(max(share, 0.001), 0.999):.1%}"
    return text


def given(number: float | None, form: str) -> str:
    """Write a number in a format such as `sd {:.2f}`; empty for None."""
    return "" if number is None else form.format(number)
