"""The figures of a run, and measured values → sentences; empty if a figure is not known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.units import count, lines, seconds, short, usd
from ruler_cli.types import BatchFigures, Length, Summary, shorten

if TYPE_CHECKING:
    from ruler_cli.results.figures import ReportFigures

_Json = Mapping[str, Any]
Fact = tuple[str, str]
"""A name and a sentence."""
OWN_SCORES = (
    "the judges' own, before --set blend or --set order_by_outcome=true"
)
LEFT_OUT = {
    "failed": "not scored",
    "unmarked": "not annotated",
    "odd_scores": "with a score that is not a number",
    "unlabelled": "without a label",
    "odd_labels": "with a label that is not a number",
}
"""Counts of rollouts and scores that are not measured, in words."""
_NOT_COUNTED = {
    "equal": "equal",
    "unsure": "unsure",
    "unscored": "without a score",
    "not_asked": "of which the judge was not asked about",
}
"""Counts of labelled pairs that say nothing of a judge, in words."""
_NAME = 24
"""Characters of a judge's name in a sentence."""
_TEXTS = 4
"""Texts in a cell of a table."""
SURE = 2.0
"""Standard errors from which on a difference is no chance."""
FEW = 20
"""Groups below which position bias or a slope is mostly chance."""
LOW = 0.5
"""The middle of the scale, and a reliability below which differences are more noise than signal."""
_NEARLY, _NONE = 0.9, 0.005
"""A share of groups that is nearly all, and a reliability that is printed as 0."""
_SHOWN, _BIASED = 0.0005, 0.01
"""A difference that three decimals show, and a mean shift of scores that is worth an option."""

_NOTES = """
{0.failed_before:group} failed in an earlier run, not asked again (--retry-failed does)
{0.unanswered:request} not in the ledger: send them with `ruler batch submit` or `ruler batch export`
{0.unreadable:line or trajectory} not readable
{0.unscored:rollout} without a score: the judge refused to answer about it
{cached:group} answered from the ledger, without a call
{0.windowed:group} shown in windows
{0.escalated:group} scored by the stronger judge
{0.suspect:rollout} with text that addresses a judge (suspect)
{0.mended:reply} mended: almost the JSON that was asked for
{0.other_scale:group} scored 0 and 1 alone by a judge that left that scale later: perhaps on another one
{0.unknown_ids:unknown id} in replies, ignored
{0.shortened:group} shortened to fit the judge
{0.pictures_left_out:group} judged without some of their pictures
{0.hedged:slow call} asked a second time
{0.figures.degraded:group} without the scores of some pass or judge (degraded)
{0.figures.flawed:rollout} passed with a score below 0.5 (flawed positives)
{0.figures.near_misses:rollout} failed with a score from 0.5 on (near misses)
{0.figures.without_outcome:rollout} without an outcome
"""
"""Lines on a run that is done, from its summary."""
_REASONS = {
    "reply": "the judge's answers cannot be used (reply)",
    "transport": "the judge could not be reached, or answered with an error (transport)",
    "refused": "the judge refused (refused)",
    "too_long": "longer than the judge's context (too_long)",
    "input": "the group cannot be judged as it is (input)",
    "interrupted": "the run was stopped before (interrupted)",
}
"""Reasons why groups are not scored, by the kind that OUTPUT and `--summary` have."""


def counts(figures: ReportFigures) -> Iterator[Fact]:
    """Yield groups, rollouts, failures and cost, each with a name; none is text of the input."""
    n = figures["groups"]
    states = "none tied"
    if n["tied"]:
        states = f"{n['live']:,} live, {n['tied']:,} tied"
    scored = f"{n['scored']:,} of {n['all']:,} scored ({states})"
    others = {"failed": n["failed"], "not judged": n["unmarked"]}
    yield "groups", _joined(scored, listed(others))
    yield "failed", listed(figures["failed_by_kind"])
    n = figures["rollouts"]
    scored = f"{n['scored']:,} of {n['all']:,} scored"
    others = {
        "not annotated": n["all"] - n["scored"] - n["failed"],
        "with an original reward": n["labelled"],
        "suspect (text that addresses the judge)": n["suspect"],
    }
    yield "rollouts", _joined(scored, listed(others))
    yield "flags", listed(figures["flags"])
    yield "cost", cost(figures)


def listed(
    counts: Mapping[str, int],
) -> str:
    """List what there is of each, without what there is none of."""
    return _joined(
        *(f"{n:,} {what}" if n else "" for what, n in counts.items())
    )


def _joined(*parts: str) -> str:
    return ", ".join(filter(None, parts))


def findings(
    figures: ReportFigures,
    absent: str = "no significant {} bias",
) -> Iterator[Fact]:
    """Yield sentences about the judge of a file or a run, each with a name; `absent` is that on a bias without sign."""
    groups = figures["groups"]
    values = figures["reliability"]
    weak = weakness(groups, values["median"])
    yield "weak judge", weak
    same = groups["same_explanations"]
    if 3 * same > groups["explained"]:
        yield (
            "explanations",
            f"in {same:,} of {count(groups['explained'], 'group')} all explanations are the same",
        )
    if values["median"] is not None:
        words = reliability(values)
        if values["median"] < LOW and not weak:
            words += "; more --passes raise it"
        yield "reliability", words
    slots = figures["slots"]
    if slots["bins"] and slots["groups"] >= FEW:
        # a reliability is known from two passes on
        several = 2 * values["groups"] > slots["groups"]
        bias = position_bias(slots, several=several)
        yield "position bias", bias or absent.format("position")
    if figures["lengths"]["groups"] >= FEW:
        bias = length_bias(figures["lengths"])
        yield "length", bias or absent.format("length")


def facts(figures: ReportFigures) -> list[Fact]:
    """Return all names and sentences, for a page whose charts cannot be drawn."""
    return [*counts(figures), *times(figures), *of_scores(figures)]


def of_scores(figures: ReportFigures) -> Iterator[Fact]:
    """Yield averages, the agreement with the original reward, and all that the file tells about its judge."""
    yield "mean score", given(figures["scores"]["mean"], "{:z.2f}")
    middle = figures["spread"]["median"]
    yield "spread (sd)", given(middle, "{:.2f} in the median group")
    against = figures["against_label"]
    if against["agreement"] is not None:
        yield "agreement", ordered_pairs(against, "with different rewards")
    if "against_people" in figures:
        yield from _against_people(figures["against_people"])
    yield from findings(figures)


def _against_people(agreement: _Json) -> Iterator[Fact]:
    """Yield the accuracy of each judge against people, that of these among themselves, and the labels."""
    rows = [*agreement["scorers"]]
    names = [shorten(row["name"], _NAME) for row in rows]
    names[0] = "all judges" if len(rows) > 1 else "the judge"
    if people := agreement["people"]:
        names.append("two people agree")
        pairs = agreement["labelled"]["shared"]
        rows.append({"pairs": pairs, "pairwise_accuracy": people})
    title = "against people"
    for name, row in zip(names, rows, strict=True):
        value = row["pairwise_accuracy"]
        pairs = count(row["pairs"], "pair")
        groups = count(value["groups"], "group")
        accuracy = f"{measured(value)} ({interval(value)})"
        yield title, f"{name}: {accuracy}, {pairs} in {groups}"
        title = ""
    labels, not_counted = labelled_pairs(agreement)
    words = f"labels: {labels}"
    yield "", words + (f"; not counted: {not_counted}" if not_counted else "")


def labelled_pairs(agreement: _Json) -> tuple[str, str]:
    """Say how many pairs have a label of people, and how many of them are not counted."""
    labelled = agreement["labelled"]
    drawn = "drawn at random" if labelled["drawn"] else "chosen by people"
    more = {words: labelled[name] for name, words in _NOT_COUNTED.items()}
    return f"{count(labelled['measured'], 'pair')} {drawn}", listed(more)


def judges(figures: ReportFigures) -> str:
    """Name the judges and their passes."""
    parts = [_counted(figures["judges"])]
    passes = figures["passes"]
    if passes:
        single = [*passes] == ["1"]
        parts.append("1 pass" if single else f"{_counted(passes)} passes")
    return "; ".join(filter(None, parts))


def times(figures: ReportFigures) -> Iterator[Fact]:
    """Yield the times of the first and the last reply, with a name."""
    begin, end = figures["started_at"], figures["ended_at"]
    if begin is not None:
        minutes = dict.fromkeys([begin[:16], end[:16]])
        words = " to ".join(minutes).replace("T", " ")
        yield "judged", f"{words} UTC"


def _counted(
    counts: Mapping[str, int],
) -> str:
    """List words, with the groups of each if there are several."""
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(
        f"{name} ({count(n, 'group')})" for name, n in counts.items()
    )


def made_by(
    figures: ReportFigures,
    longest: int,
) -> Iterator[Fact]:
    """Yield what made the scores in words, each with a name; nothing for a file that does not say it.

    A text is shown by its beginning, and of several the first few.
    """
    made = figures["made_by"]
    yield "served as", _counted(made["served"])
    own = made["own_rubrics"]
    rubrics = [
        entry
        for entry in made["rubrics"]
        if entry["groups"] != own.get(entry["digest"])
    ]
    owners = count(sum(own.values()), "group has its own") if own else ""
    words = (_texts(rubrics, longest), owners)
    yield "rubric", "; ".join(filter(None, words))
    params = made["params"]
    # without a text nobody knows if any are set
    known = len(params) > 1 or [entry for entry in params if entry["text"]]
    yield "parameters", _texts(params, longest) if known else ""
    yield "ruler", _counted(made["versions"])


def _texts(listed: Sequence[_Json], longest: int) -> str:
    """Return what is set, shortened; a text that is not known is named by its digest."""
    from ruler_cli.results.figures import BUILT_IN

    several = len(listed) > 1
    parts = [f"{len(listed)} different"] if several else []
    for entry in listed[:_TEXTS]:
        text = entry["text"]
        if entry["digest"] == BUILT_IN:
            text = "built-in"
        elif text is None:
            text = f"{entry['digest']} (text not found)"
        part = shorten(" ".join(_plain(text).split()), longest)
        if several:
            part = f"{count(entry['groups'], 'group')}: {part or 'none'}"
        parts.append(part)
    return "; ".join(filter(None, parts))


def _plain(text: str) -> str:
    """Write the parameters of each judge that has some; any other text is as it was."""
    judges = []
    with suppress(ValueError, TypeError, LookupError, AttributeError):
        for judge in json.loads(text):
            name = judge.pop("judge")
            judge.pop("model", None)
            params = [
                f"{key}={json.dumps(value, ensure_ascii=False)}"
                for key, value in (judge.pop("params") | judge).items()
            ]
            if params:
                judges.append(f"{name}: {', '.join(params)}")
        return "; ".join(judges)
    return text


def opening(figures: _Json) -> str:
    """Say in which ways two files were made differently."""
    from ruler_cli.results.figures import WAYS

    differs = figures["differs"]
    unlike = [words for name, words in WAYS.items() if differs[name]]
    return f"A and B differ in {_joined(*unlike)}" if unlike else ""


def verdict(figures: _Json) -> str:
    """Say which of two judges is better against the rewards, or how far they agree if that is not known."""
    difference = figures["difference"]
    value = difference["value"]
    if value is None:
        groups = count(figures["groups"], "group")
        agreement = figures["order"]["agreement"]
        if agreement is None:
            return f"Both give equal scores throughout {groups}"
        return f"Both order {agreement:.1%} of the pairs alike in {groups}"
    groups = count(difference["groups"], "group")
    if not value:
        return f"Both are equally good in accuracy on {groups}"
    points = round(100 * abs(value))
    more = count(points, "point") if points else "less than a point"
    sure = "beyond chance" if difference["told_apart"] else "within chance"
    if difference["low"] is None:
        sure = "too few groups to rule out chance"
    better = "A" if value > 0 else "B"
    return f"{better} is {more} better in accuracy on {groups}, {sure}"


def cost(figures: ReportFigures) -> str:
    """Name money, of a group too, and tokens; of some groups only if the cost of others is not known."""
    spent = figures["cost_usd"]
    priced = figures["cost_groups"]
    groups = figures["groups"]
    money = "" if spent is None else usd(spent)
    if spent:
        each_group = f"{usd(spent / priced)} a group"
        if priced != groups["scored"] + groups["failed"]:
            each_group += f", known for {count(priced, 'group')}"
        money += f" ({each_group})"
    usage = figures["usage"]
    calls = count(usage["calls"], "call") if usage["calls"] else ""
    prompt = short(usage["prompt_tokens"])
    if usage["cached_tokens"]:
        prompt += f" ({short(usage['cached_tokens'])} of it cached)"
    tokens = f"{prompt} prompt + {short(usage['completion_tokens'])} completion tokens"
    if not usage["prompt_tokens"] + usage["completion_tokens"]:
        tokens = ""
    return _joined(money, calls, tokens)


def ordered_pairs(
    figures: _Json,
    what: str = "",
) -> str:
    """Count the `pairs` that are in order, `against` it (with a half of those `tied`), and tied."""
    tied = figures["tied"]
    against = round(figures["against"] - tied / 2)
    half = ", ties count half" if tied else ""
    words = pair_counts(figures["pairs"], against, tied, what)
    return f"{words} ({figures['agreement']:.1%}{half}; chance: 50%)"


def pair_counts(
    pairs: int,
    against: int,
    tied: int,
    what: str = "",
) -> str:
    """Count the pairs of rollouts that scores put in order, in reverse, and not at all."""
    of = f"{count(pairs, 'pair')} {what}".rstrip()
    in_order = pairs - against - tied
    return f"{in_order:,} of {of} in order, {against:,} reversed, {tied:,} tied"


def position_bias(
    slots: _Json,
    *,
    several: bool,
) -> str:
    """Describe a significant position bias and what becomes of it; empty without one.

    A bin has the `mean` difference of the scores at a position, and its standard `error`; it may be subtracted from
    the scores of some groups. `several`: there is more than one pass.
    """
    moved = []
    errors = []
    bins = slots["bins"]
    for name, bar in (("first", bins[0]), ("last", bins[-1])):
        mean = bar["mean"]
        error = bar["error"]
        if error is not None and abs(mean) > max(SURE * error, _BIASED):
            moved.append(f"{name} {mean:+.3f}")
            errors.append(error)
    if not moved:
        return ""
    done = "--set debias=true corrects it"
    if 2 * slots["corrected"] > slots["groups"]:
        done = "subtracted"
    elif several:
        done = "averaged over passes"
    return f"{', '.join(moved)} (± {max(errors):.3f}); {done}"


def weakness(groups: _Json, median: float | None) -> str:
    """Say that the judge tells few rollouts apart, if that is so.

    More than a third of the groups with something to compare got one score each, or nearly all are tied with a median
    reliability of 0.
    """
    compared = groups["scored"] - groups["alone"]
    tied = groups["tied"] - groups["alone"]
    number = count(compared, "group")
    words = ""
    if 3 * groups["one_score"] > compared:
        words = f"{groups['one_score']:,} of {number} got one score for all rollouts"
    elif median is not None and median < _NONE and tied >= _NEARLY * compared:
        words = f"{tied:,} of {number} tied, with a median reliability of 0"
    advice = (
        ": the judge cannot tell them apart; try another judge or rubric; "
        "more passes are unlikely to help"
    )
    return words and words + advice


def length_bias(trend: _Json) -> str:
    """Describe how much more longer rollouts score in their groups; empty if that may be chance."""
    slope = trend["slope"]
    error = trend["error"]
    correlation = trend["correlation"]
    if trend["groups"] < FEW or abs(slope) < max(SURE * error, _SHOWN):
        return ""
    return f"score {slope:+z.3f} ± {error:.3f} at twice the length (correlation {correlation:+z.2f})"


def reliability(values: _Json) -> str:
    """Describe the reliability of groups, and how many of them are below LOW."""
    words = f"{values['median']:.2f}"
    if values["groups"] > 1:
        low = sum(bar["n"] for bar in values["bins"] if bar["to"] <= LOW + 1e-9)
        words = f"median {words}, below {LOW} in {low:,} of {count(values['groups'], 'group')}"
    return words


def given(
    number: float | None,
    form: str,
) -> str:
    """Write a number in a format such as `sd {:.2f}`; empty for None."""
    if number is None:
        return ""
    return form.format(number)


def left_out_words(
    counts: Mapping[str, int],
) -> str:
    """Count the rollouts and scores of a file that are not measured."""
    return listed({words: counts[key] for key, words in LEFT_OUT.items()})


def measured(
    value: _Json,
    sign: str = "",
    end: str = "value",
) -> str:
    """Write a measured value, or an end of its interval, in three decimals."""
    number = value[end]
    if number is None:
        return "-"
    if not number:
        return "0.000"
    form = ".3f" if 0.001 <= abs(number) < 1000 else ".2e"
    return f"{number:{sign}{form}}"


def interval(
    value: _Json,
    sign: str = "",
) -> str:
    """Write the interval of a measured value."""
    if value["low"] is None:
        if value["value"] is not None:
            return "too few groups"
        return ""
    return f"{measured(value, sign, 'low')} to {measured(value, sign, 'high')}"


def summary_lines(
    summary: Summary,
    *,
    debug: bool = False,
) -> list[str]:
    """Return the lines on a run that is done: how it went, what needs action, how good the scores are.

    With `debug` no line names --debug: the run has shown each reply, or no reply is kept to be shown.
    """
    out = [_first_line(summary)]
    for kind, number in sorted(summary.failed.items()):
        if kind == "budget":  # the sentence of the cap counts them
            continue
        reason = _REASONS[kind]
        if kind == "transport" and summary.unanswered:
            reason = "no reply in the ledger (transport)"
        if kind == "reply" and not debug:
            reason += "; --debug shows them"
        out.append(f"{count(number, 'group')} not scored: {reason}")
    cached = summary.kept - summary.failed_before
    out += lines(_NOTES, {"cached": cached}, summary)
    for name, sentence in findings(_figures_of(summary), absent=""):
        if sentence:
            out.append(f"{name}: {sentence}")
    if summary.unsure_usd:
        more = usd(summary.unsure_usd)
        out.append(
            f"calls whose usage is unknown may have cost up to {more} more"
        )
    return out


def _figures_of(summary: Summary) -> ReportFigures:
    """Return the figures of a run about its judge as a scored file has them."""
    figures = summary.figures or BatchFigures()
    bins = [
        {"to": tenth / 10, "n": number}
        for tenth, number in enumerate(figures.reliability, 1)
    ]
    groups = figures.slot_groups
    return {
        "groups": asdict(summary),
        "reliability": {
            "median": figures.reliability_median,
            "groups": sum(figures.reliability),
            "bins": bins,
        },
        "slots": {
            "bins": [*map(asdict, figures.slot_curve)],
            "groups": groups,
            "corrected": groups if figures.debiased else 0,
        },
        "lengths": asdict(figures.length or Length(0.0, 0.0, 0.0, 0)),
    }


def _first_line(summary: Summary) -> str:
    """Return groups, time, mean score, ties, failures and cost in one line."""
    groups = max(summary.total or 0, summary.groups)
    mean = getattr(summary.figures, "mean_score", None)
    tokens = summary.usage.prompt + summary.usage.completion
    cost = calls = count(summary.usage.calls, "call")
    if summary.cost_usd is not None:
        cost = f"{usd(summary.cost_usd)} ({calls})"
    elif summary.usage.calls:
        spent = _joined(calls, f"{short(tokens)} tokens" if tokens else "")
        cost = f"cost unknown ({spent})"
    states = {"tied": summary.tied, "failed": sum(summary.failed.values())}
    parts = (given(mean, "mean {:z.2f}"), listed(states), cost)
    scored = f"{summary.scored:,} of {count(groups, 'group')} scored in {seconds(summary.seconds)}"
    return f"{scored}: {_joined(*parts)}"
