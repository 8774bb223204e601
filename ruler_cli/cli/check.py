"""`ruler check INPUT`: read and group as `score` would, and estimate its calls, tokens and cost.

The figures are made once, as `--json` prints them; the page is a verdict, then the figures in sections.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import SCORE_OPTIONS, SCORE_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import print_json
from ruler_cli.cli.sentences import rubric_in_words
from ruler_cli.cli.units import (
    Row,
    count,
    number_of,
    rounded,
    seconds,
    shorten,
)
from ruler_cli.errors import NothingToCompare, UnreadableError, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.files.values import lookup
from ruler_cli.formats.chat import paths_named
from ruler_cli.formats.input import Input, open_input, shown_key
from ruler_cli.formats.keys import PROMPT_HASH
from ruler_cli.formats.names import FIGURES, JUDGED, REFERENCES, RUBRICS
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.table import fits
from ruler_cli.judges.providers import (
    EMBEDDED,
    MissingCredentialsError,
    ModelInfo,
)
from ruler_cli.judges.resolve import model_of, with_eyes
from ruler_cli.judging.panel import cache_of, first_level
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.messages.names import words_of
from ruler_cli.runs.batch.requests import batch_price, batch_target
from ruler_cli.runs.estimate import (
    CALLS,
    NEVER,
    Estimate,
    InputCounts,
    JudgeEstimate,
    JudgeRole,
    Range,
    sample,
)
from ruler_cli.runs.file import judge_errors
from ruler_cli.scoring.statistics import quantile
from ruler_cli.settings.fields import paths
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.settings.options import Options
from ruler_cli.types import ENDINGS, Problem, printable

_HOURS = 24
"""Hours in which OpenAI and Anthropic finish a batch; requests that are left by then expire."""
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_OWN_PATH = "where the format has it"
"""A path that nobody gave."""
_COMMONEST = 5
"""Number of group sizes that are listed, the commonest first."""
_LONGEST = 60
"""Characters of a value or a key."""
_FEW = 3
"""Records that are looked at for a reference answer, and fields that are named."""
_MINUTE = 60
_HASH = re.compile(r"[0-9a-fA-F-]{16,}|[A-Za-z0-9+/_-]{40,}=*")
"""A value that is an id or a digest."""
_NAMES = 19
"""Columns of the names."""

_NO_PRICE = "unknown; use --price IN,OUT, in USD per million prompt and completion tokens"
_ROLES = {"panel": "", "fallback": " (fallback)", "escalation": " (escalation)"}
Facts = dict[str, Any]
"""Figures by name, as `--json` prints them."""


@takes("batch", "as_json", *SCORE_OPTIONS, settings=SCORE_SETTINGS)
def command(
    ctx: typer.Context,
    source: Source,
) -> int:
    """Read INPUT as `score` would, and estimate calls, tokens and cost. Nothing is sent.

    It takes every option of `score`, so one command line serves both; those that change no estimate do nothing.
    The first line says if `score` is ready to run. Requests that the ledger answers are not counted.
    A figure is the expected one, followed by the lowest and the highest. Above 64 MB figures are estimated
    from a sample of the groups and marked with `about`.

    Example: ruler check rollouts.jsonl -m openai/o3

    Exit codes: 0 ready; 1 some lines or groups cannot be scored, or there is nothing to compare; 2 bad
    usage, unreadable input, or a judge that `score` refuses. A missing key is named, but does not
    change the exit code.
    """
    with running(ctx, source) as options:
        return check(score_settings(options, source), options)


def check(settings: ScoreSettings, options: Options) -> int:
    """Read INPUT, and print the estimate of the run; return the exit code."""
    refused, missing = list[str](), list[str]()
    for error in judge_errors(settings):
        lacks = isinstance(error, MissingCredentialsError)
        sentence = str(error)
        (missing if lacks else refused).append(sentence)
    bad = list[Facts]()
    with (
        closing(Console("log", settings.input.source)) as console,
        ExitStack() as stack,
    ):

        def add_problem(problem: Problem) -> None:
            reason = str(problem.reason)
            bad.append(
                {"line": problem.line, "where": problem.where, "reason": reason}
            )
            if not options.as_json:
                console.problem(problem)

        notes = InputCounts(add_problem)
        source = open_input(
            settings.input,
            stack,
            add_problem,
            on_record=notes.add,
            on_again=notes.again,
        )
        ledger = None
        used = any(judge.model not in EMBEDDED for judge in settings.judges)
        if settings.ledger is not None and used:
            opened = Ledger(settings.ledger, settings.ledgers, make=False)
            ledger = stack.enter_context(opened)
        judges = [
            _judge_estimate(settings, number, judge, ledger)
            for number, judge in enumerate(settings.judges)
        ]
        result = Estimate(judges)
        for group, weight in sample(source, notes.bytes):
            result.add(group, weight)
        duration = _duration(settings, judges, ledger)
    reasons = [*_reasons(settings, source, result, len(bad)), *refused]
    facts = {
        "version": 2,
        "ready": not reasons,
        "not_ready": reasons,
        "missing_keys": missing,
        **_figures(settings, source, notes, result),
        "cannot_be_scored": len(bad),
        "bad": bad,
        "seconds": duration,
    }
    if options.batch:
        facts["batch"] = _batch_facts(settings.judges, judges)
    if options.as_json:
        print_json(facts)
    else:
        _print_page(facts, source, result)
    return 2 if refused else 0 if not reasons else 1


def _figures(
    settings: ScoreSettings,
    source: Input,
    notes: InputCounts,
    estimate: Estimate,
) -> Facts:
    """Return the figures on INPUT, its prompts and their cost."""
    reader, coverage = source.reader, estimate.coverage
    first, widest, sizes = estimate.judges[0], estimate.widest, estimate.sizes
    judges = []
    for bill in estimate.judges:
        totals = {**vars(bill.totals(bill.model.price))}
        del totals["max_cost_usd"]
        judges.append(
            {
                "model": bill.name,
                "asked": bill.role,
                "context_tokens": bill.model.context,
                **totals,
                "too_long": bill.too_long,
                "windows": {
                    "groups": bill.windowed,
                    "calls": bill.window_calls * CALLS,
                },
            }
        )
    grouping = source.survey.grouping if source.survey else "consecutive"
    common = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))[
        :_COMMONEST
    ]
    # if nothing is compared, the verdict says so
    alone = settings.absolute or not estimate.comparable
    warnings = (
        *source.notes,
        *source.warnings(alone=alone),
        *coverage.warnings(),
    )
    spread = estimate.spread / estimate.spreads if estimate.spreads else None
    return {
        "input": Location(settings.input.source).public,
        "format": reader and _format(notes, reader),
        "grouping": reader and grouping,
        "paths": _paths(notes, reader, settings.input) if reader else {},
        "bytes": notes.bytes,
        "records": notes.records,
        "unit": source.container.unit,
        "groups": sizes.total(),
        "rollouts": notes.rollouts,
        "group_sizes": {
            "min": min(sizes, default=None),
            "median": quantile(sizes.elements(), 0.5) or 0,
            "max": max(sizes, default=None),
            "commonest": [
                {"size": size, "groups": number} for size, number in common
            ],
        },
        "tokens_per_rollout": {
            name: quantile(estimate.lengths.elements(), share) or 0
            for name, share in _QUANTILES.items()
        },
        "shown_to_the_judge": {
            "groups": coverage.groups,
            "bytes": coverage.bytes,
            "share": coverage.share,
            "not_shown": dict(coverage.not_shown()),
            "beside": dict(coverage.not_shown(beside=True)),
            "left_out": dict(coverage.binary.most_common()),
        },
        "rubric": _rubric(notes, settings),
        "references": _references(notes, settings),
        "pictures": {
            "shown": estimate.pictures - estimate.pictures_left_out,
            "left_out": estimate.pictures_left_out,
            "unsendable": estimate.faults.total(),
            "first": str(next(iter(estimate.faults), "")),
        },
        "rollouts_without_task": source.checks.taskless,
        "groups_of_several_tasks": source.checks.mixed,
        "shared_prefix": estimate.shared / estimate.bytes
        if estimate.bytes
        else 0.0,
        "ended": {how: notes.ended[how] for how in ENDINGS},
        "identical_rollouts": estimate.identical_rollouts,
        "tied_groups": estimate.tied_groups,
        "equal_reward_groups": estimate.equal_reward_groups,
        "rewards": notes.rewards.facts | {"spread": spread},
        "outcomes": notes.outcomes.facts
        | {"of_truth": notes.outcomes.of_truth},
        "judge": {"model": first.name, "context_tokens": first.model.context},
        "judges": judges,
        "passes": settings.ask.passes,
        "adaptive": settings.adaptive,
        "windows": {
            "groups": max(bill.windowed for bill in estimate.judges),
            "calls": sum((bill["windows"]["calls"] for bill in judges), NEVER),
        },
        "estimate": estimate.totals,
        "suspect_rollouts": estimate.suspect_rollouts,
        "too_long": {
            "groups": widest.too_long,
            "first": list(widest.too_long_keys),
        },
        "laid_out": estimate.laid_out,
        "exact": estimate.exact,
        "warnings": list(map(str, warnings)),
    }


def _judge_estimate(
    settings: ScoreSettings,
    number: int,
    judge: JudgeSettings,
    ledger: Ledger | None,
) -> JudgeEstimate:
    """Return an empty estimate for a judge, with its replies in the ledger."""
    role: JudgeRole = "fallback" if settings.fallback and number else "panel"
    if judge is settings.escalate:
        role = "escalation"
    model = ModelInfo()
    with suppress(UsageError):  # of a misspelt name, which the verdict has
        model = model_of(judge)
    result = JudgeEstimate(
        judge.label,
        model,
        judge.params,
        role=role,
        panel_index=number if role == "panel" else 0,
        ask=replace(
            with_eyes(settings.ask_of(judge), judge, model),
            context_tokens=model.context,
        ),
        adaptive=settings.adaptive,
    )
    if ledger is not None:
        cache = cache_of(ledger, judge)
        result.find_reply = lambda request: cache.find(cache.key(request))
    return result


def _duration(
    settings: ScoreSettings,
    bills: Sequence[JudgeEstimate],
    ledger: Ledger | None,
) -> float | None:
    """Return the seconds that a run is expected to take: those of its slowest judge, None if no pace is known.

    A pace is that of the last calls in the ledger, or a limit. Judges of a panel are asked side by side.
    """
    longest = None
    for judge, bill in zip(settings.judges, bills, strict=True):
        limits, totals = settings.pool.of(judge), bill.totals(None)
        calls = totals.calls.expected
        tokens = (
            totals.prompt_tokens.expected + totals.completion_tokens.expected
        )
        call = ledger.pace(judge.model) if ledger else None
        level = limits.concurrency or first_level(judge.model)
        paces = [
            call and max(1.0, calls / level) * call,
            limits.rpm and _MINUTE * calls / limits.rpm,
            limits.tpm and _MINUTE * tokens / limits.tpm,
        ]
        if calls:
            longest = max(filter(None, (longest, *paces)), default=None)
    return longest


def _reasons(
    settings: ScoreSettings, source: Input, estimate: Estimate, problems: int
) -> Iterator[str]:
    """Yield why `score` would refuse the run, would not score all of it, or could compare nothing."""
    groups, too_long = estimate.sizes.total(), estimate.widest.too_long
    if not groups:
        yield "there is no group that can be scored"
    if problems:
        yield f"{count(problems, 'line or trajectory')} cannot be scored"
    for mistake, number in estimate.mistakes.items():
        yield f"{count(number, 'group')} cannot be scored: {mistake}"
    if too_long:
        yield f"too long for the judge: {count(too_long, 'group')}; --group-size N shows fewer at once"
    panel = [judge for judge in estimate.judges if judge.role == "panel"]
    unseen = min((judge.unseen for judge in panel), key=Counter.total)
    for reason, number in unseen.items():
        yield f"{count(number, 'group')}: {reason!s}"
    if faults := estimate.faults:
        first = next(iter(faults))
        why = str(first)
        yield f"{count(faults.total(), 'rollout')} cannot be scored: {why}"
    compared = estimate.comparable or settings.absolute
    if groups and source.reader and not compared:
        yield str(NothingToCompare(shown_key(source.reader)))
    cap, totals = settings.pool.max_cost, estimate.totals
    if cap is None or totals.cost_usd is None or settings.cached_only:
        return
    if totals.cost_usd.expected > cap:
        enough = rounded(totals.max_cost_usd or 0.0, up=True)
        yield f"--max-cost {cap:g} is less than the expected cost; {enough} lets every call go"


def _format(notes: InputCounts, reader: Reader) -> Facts:
    """Return the format's name, and how many of the first lines fit it."""
    form, agreed = reader.format, 0
    lines = {record.line.number: record.line for record in notes.first}
    for line in lines.values():
        with suppress(UnreadableError):
            agreed += bool(fits(form, parse(line.raw)))
    return {
        "name": form.name,
        "family": form.family,
        "shape": form.shape,
        "tells": form.signature,
        "agreed": agreed,
        "first": len(lines),
    }


def _paths(
    notes: InputCounts, reader: Reader, settings: InputSettings
) -> dict[str, Facts]:
    """Return the paths of messages, key, reward and outcome, each with the value in the first record."""
    form, rewards, outcomes = reader.format, notes.rewards, notes.outcomes
    examples: Facts = {}
    for record in notes.first:
        rollouts = [
            rollout for rollout in record.rollouts if rollout.error is None
        ]
        if rollouts and not examples:
            first = rollouts[0]
            last = first.messages[-1]
            content = last.get("content")
            examples = {
                "messages": last if content is None else content,
                "prompt": first.messages[0].get("content"),
                "group key": record.key,
                "reward": first.reward,
                "outcome": first.outcome,
            }
    own_key = reader.key
    if own_key == PROMPT_HASH:
        own_key = "the line" if form.shape == "group" else "hash of the prompt"
    own_reward = "" if form.elsewhere else form.reward
    if not own_reward and rewards.seen:
        own_reward = _OWN_PATH
    own_outcome = _OWN_PATH if outcomes.seen else ""
    parts: dict[str, tuple[Any, str, int]] = {
        "messages": (settings.messages, _OWN_PATH, 0),
        "prompt": (settings.prompt, "", 0),
        "group key": (settings.group_by, own_key, 0),
        "reward": (settings.reward, own_reward, rewards.absent),
        "outcome": (settings.outcome, own_outcome, outcomes.absent),
    }
    facts = {}
    for name, (named, usual, absent) in parts.items():
        if name == "prompt" and not named:
            continue
        path = " + ".join(paths(named)) or usual
        example = None
        if name in examples and (path or name == "reward"):
            text = dump(examples[name]).decode("utf-8", "replace")
            example = shorten(text, _LONGEST)
        facts[name] = {
            "path": path,
            "given": bool(named),
            "example": example,
            "absent": absent,
        }
    return facts


def _references(notes: InputCounts, settings: ScoreSettings) -> str:
    """Return the path of the reference answers, or those of fields that may hold them, with the option."""
    reference = settings.input.reference
    if reference:
        return f"`{reference}`, shown to the judge only"
    named = _fields_named(notes, REFERENCES)
    taken = {*paths(settings.input.messages), *paths(settings.input.prompt)}
    likely = [path for path in named if JUDGED.isdisjoint(words_of(path.split(".")[-1]))]  # fmt: skip
    likely = [path for path in likely if path not in taken]
    if not likely:
        return ""
    # an `answer` may be anybody's
    likely.sort(key=lambda path: words_of(path) <= {"answer", "answers"})
    option = shlex.join(("--reference", printable(likely[0])))
    return f"not shown; {_listed(likely)} may hold one: {option} shows it to the judge"


def _rubric(notes: InputCounts, settings: ScoreSettings) -> str:
    """Return the rubrics in words, with the fields that may hold another one, if no record states its own."""
    rubric = rubric_in_words(settings.ask.rubric, notes.own_rubrics)
    fields = _fields_named(notes, RUBRICS)
    if notes.own_rubrics or not fields:
        return rubric
    advice = "may hold one of the record: name it as `rubric` of a format"
    return f"{rubric}; {_listed(fields)} {advice}"


def _listed(fields: Sequence[str]) -> str:
    return ", ".join(f"`{printable(path)}`" for path in fields[:_FEW])


def _fields_named(notes: InputCounts, names: frozenset[str]) -> list[str]:
    """Return the fields with one of these words in their names whose text is the same in all records of a group.

    Without ids, figures, and what a rollout says.
    """
    shared: dict[tuple[str | None, str], str] = {}
    fields = dict[str, None]()
    refused = set[str]()
    for record in notes.first:
        parsed = parse(record.line.raw, exact=False)
        readable = [
            rollout for rollout in record.rollouts if rollout.error is None
        ]
        responses = {
            str(rollout.messages[-1].get("content")) for rollout in readable
        }
        for path in paths_named(parsed, names):
            value = str(lookup(parsed, path))
            first = shared.setdefault((record.key, path), value)
            if (
                first != value
                or _HASH.fullmatch(value)
                or FIGURES & {*path.split(".")}
            ):
                refused.add(path)
            elif value not in responses:
                fields[path] = None
    return [path for path in fields if path not in refused]


def _batch_facts(
    judges: Sequence[JudgeSettings], bills: list[JudgeEstimate]
) -> Facts:
    """Return USD and hours of the run in providers' batches; the cost may be unknown (None)."""
    facts: list[Facts] = []
    for judge, bill in zip(judges, bills, strict=True):
        target = batch_target(judge)
        price, kind = batch_price(judge) if target else (None, "")
        facts.append(
            {
                "model": bill.name,
                "provider": target,
                "cost_usd": price and bill.totals(price).cost_usd,
                "price": price and kind,
            }
        )
    costs = [judge["cost_usd"] for judge in facts]
    total = None if None in costs else sum(costs, NEVER)
    return {"hours": _HOURS, "cost_usd": total, "judges": facts}


def _print_page(facts: Facts, source: Input, estimate: Estimate) -> None:
    """Print the verdict and the sections on stdout."""
    from rich.table import Column
    from rich.text import Text

    from ruler_cli.cli.terminal import TITLE, Terminal

    about = "" if facts["exact"] else "about "
    verdict = list(facts["not_ready"])
    if facts["groups"]:
        verdict.append(_size(facts, about))
    verdict += facts["missing_keys"]
    terminal = Terminal()
    word = Text("ready: ", "bold green")
    if not facts["ready"]:
        word = Text("not ready: ", "bold red")
    first, *more = map(terminal.text, verdict)
    terminal.show(word + first, *more)
    sections = {"Input": _input_rows(facts, source)}
    if facts["groups"]:  # without a group there is only the first section
        sections |= {
            "Groups": _group_rows(facts, about),
            "What the judge sees": _prompt_rows(facts, estimate, about),
            "Rewards": _reward_rows(facts, about),
            "Cost": _cost_rows(facts, about),
        }
    sections["Warnings"] = (("", sentence) for sentence in facts["warnings"])
    lines: list[tuple[Text | str, str]] = []
    for title, values in sections.items():
        shown = [(f"  {name}", value) for name, value in values if value]
        if shown:
            lines += [("", ""), (Text(title, TITLE), ""), *shown]
    heads = (Column(no_wrap=True, min_width=_NAMES), Column(overflow="fold"))
    terminal.show(terminal.table(heads, lines))


def _size(facts: Facts, about: str) -> str:
    """Return the size of the run in a line."""
    left, cost = facts["estimate"], facts["estimate"].cost_usd
    judges = ", ".join(judge["model"] for judge in facts["judges"])
    calls = f"{about}{number_of(round(left.calls.expected), 'call')}"
    if left.kept:
        calls += f" (and {about}{left.kept:,} cached)"
    price = "cost unknown"
    if cost is not None:
        price = f"about ${rounded(cost.expected)}" if cost.high else "no cost"
    return (
        f"{number_of(facts['groups'], 'group')}, {calls}, {price} with {judges}"
    )


def _input_rows(facts: Facts, source: Input) -> Iterator[Row]:
    yield "input", source.found()
    form = facts["format"]
    if form:
        first = count(form["first"], "record")
        tells = f"{form['agreed']} of the first {first} have {form['tells']}"
        yield "format", f"{form['name']}: {tells}"
    yield (
        "cannot be scored",
        _some(facts["cannot_be_scored"], "line or trajectory"),
    )
    for name, part in facts["paths"].items():
        path = part["path"]
        nowhere = not part["given"] and part["absent"] >= max(
            1, facts["rollouts"]
        )
        if nowhere or not path:
            continue
        words = []
        if path != _OWN_PATH:
            words.append(path if " " in path else f"`{path}`")
        if part["given"]:
            words[0] += " as given"
        if part["example"]:
            words.append(f"first: {part['example']}")
        if part["absent"]:
            words.append(f"absent in {part['absent']:,}")
        yield name, ", ".join(words) or _OWN_PATH


def _group_rows(facts: Facts, about: str) -> Iterator[Row]:
    sizes = facts["group_sizes"]
    common = []
    for size in sizes["commonest"]:
        common.append(f"{number_of(size['groups'], 'group')} of {size['size']}")
    if sum(size["groups"] for size in sizes["commonest"]) < facts["groups"]:
        common.append("…")
    span = f"min {sizes['min']}, median {sizes['median']:g}, max {sizes['max']}"
    yield "group sizes", f"{about}{span} ({', '.join(common)})"
    records = number_of(facts["records"], facts["unit"])
    yield "rollouts", f"{facts['rollouts']:,} in {records}"
    yield "no task", _some(facts["rollouts_without_task"], "rollout")
    yield "several tasks", _some(facts["groups_of_several_tasks"], "group")
    ended = [
        f"{number:,} {how}" for how, number in facts["ended"].items() if number
    ]
    yield "ended early", ", ".join(ended)
    identical = facts["identical_rollouts"]
    yield "identical", _some(identical, "rollout", about, ", shown once")
    alike = " (one rollout, or all identical): nothing to compare"
    yield "tied groups", _some(facts["tied_groups"], "group", about, alike)


def _prompt_rows(facts: Facts, estimate: Estimate, about: str) -> Iterator[Row]:
    lengths = facts["tokens_per_rollout"]
    tokens = ", ".join(f"{name} {number:,}" for name, number in lengths.items())
    yield "rollout tokens", about + tokens
    pictures, seen = facts["pictures"], facts["shown_to_the_judge"]
    shown, hidden = "no text to show", estimate.coverage.not_shown_text()
    if seen["share"] is not None:
        shown = f"{seen['share']:.0%} of the text"
    if hidden:
        shown += f"; not shown: {hidden}"
    if pictures["left_out"]:
        shown += ", without pictures"
    yield "shown", shown
    place = printable(next(iter(seen["left_out"]), ""))
    binary = f" of base64 and ciphertext ({place})"
    yield "left out", _some(sum(seen["left_out"].values()), "byte", "", binary)
    yield "rubric", facts["rubric"]
    yield "reference", facts["references"]
    yield "pictures", _some(pictures["shown"], "picture", about, " sent")
    media = " (sound, video and files count as pictures)"
    yield "not shown", _some(pictures["left_out"], "picture", about, media)
    why = f" with such a picture ({pictures['first']})"
    yield "cannot be sent", _some(pictures["unsendable"], "rollout", about, why)
    shared = f"{about}{facts['shared_prefix']:.0%} of the prompts, shown once per group"
    yield "shared prefix", shared if round(facts["shared_prefix"], 2) else ""
    windows = facts["windows"]
    parts = (
        f" in parts, twice at least: {_range(windows['calls'])} of the calls"
    )
    yield "windows", _some(windows["groups"], "group", about, parts)
    attack = " with text that addresses a judge"
    yield "suspect", _some(facts["suspect_rollouts"], "rollout", about, attack)
    too_long, context = facts["too_long"], facts["judge"]["context_tokens"] or 0
    limit = f" for {context:,} tokens ({', '.join(too_long['first'])})"
    yield "too long", _some(too_long["groups"], "group", about, limit)
    sample = f"{facts['laid_out']:,} of {number_of(facts['groups'], 'group')}"
    note = "spread over all; figures with `about` are estimated from them"
    yield "laid out", f"{sample}, {note}" if about else ""


def _reward_rows(facts: Facts, about: str) -> Iterator[Row]:
    for name, missing in (("rewards", "no number"), ("outcomes", "no verdict")):
        values = facts[name]
        numbers, spread = values["numbers"], values.get("spread")
        if numbers:
            low, mean, high = values["min"], values["mean"], values["max"]
            span = f"min {low:.4g}, mean {mean:.4g}, max {high:.4g}"
            yield name, f"{numbers:,} of {facts['rollouts']:,} ({span})"
        yield missing, _some(values["no_number"], name.removesuffix("s"))
        if spread is not None:
            yield "range per group", f"{about}{spread:.4g} on average"
    equal, why = (
        facts["equal_reward_groups"],
        " (their own rewards teach nothing)",
    )
    yield "equal rewards", _some(equal, "group", about, why)


def _cost_rows(facts: Facts, about: str) -> Iterator[Row]:
    estimate, judges, passes = (
        facts["estimate"],
        facts["judges"],
        facts["passes"],
    )
    names = [judge["model"] + _ROLES[judge["asked"]] for judge in judges]
    yield "judge", ", ".join(names)
    if facts["adaptive"]:
        yield "passes", f"up to {passes}"
    elif passes > 1:
        yield "passes", f"{passes}"
    yield "calls", _range(estimate.calls)
    yield "cached", _some(estimate.kept, "call", about, ", not paid again")
    retry = "; --retry-failed asks again"
    yield "failed", _some(estimate.kept_failed, "call", about, retry)
    yield "prompt tokens", _range(estimate.prompt_tokens)
    yield "completion tokens", _range(estimate.completion_tokens)
    yield "cost", _dollars(estimate.cost_usd)
    cap, duration = estimate.max_cost_usd, facts["seconds"]
    if cap:
        yield (
            "--max-cost",
            f"{rounded(cap, up=True)} or more lets every call go",
        )
    if duration:
        yield "time", f"about {seconds(duration)}, at the pace that is known"
    batch = facts.get("batch")
    if batch:
        again = "again as much for requests that follow from answers"
        yield "batch time", f"up to {batch['hours']} hours; {again}"
    for number, judge in enumerate(judges if judges[1:] else (), 1):
        calls, cost = _range(judge["calls"]), _dollars(judge["cost_usd"])
        yield f"judge {number}", f"{judge['model']}: {calls} calls, {cost}"
        yield f"cached {number}", _some(judge["kept"], "call")
        context = f" for its {judge['context_tokens'] or 0:,} tokens"
        yield (
            f"too long {number}",
            _some(judge["too_long"], "group", "", context),
        )
    for number, judge in enumerate(batch["judges"] if batch else (), 1):
        cost = _dollars(judge["cost_usd"])
        if judge["price"]:
            cost += f", {judge['price']} price"
        if judge["provider"] is None:
            cost = (
                f"{judge['model']} has no batch API; use `ruler batch export`"
            )
        yield f"batch cost {number}", cost


def _some(number: int, noun: str, before: str = "", after: str = "") -> str:
    """Return a number with its noun between two texts; empty for 0, which has no line on the page."""
    return f"{before}{number_of(number, noun)}{after}" if number else ""


def _range(figure: Range) -> str:
    low, middle, high = f"{figure.low:,.0f}", f"{figure.expected:,.0f}", f"{figure.high:,.0f}"  # fmt: skip
    return middle if low == high else f"{middle} (from {low} to {high})"


def _dollars(cost: Range | None) -> str:
    if cost is None:
        return _NO_PRICE
    low, high = rounded(cost.low, up=False), rounded(cost.high, up=True)
    middle = f"${rounded(cost.expected)}"
    return f"{middle} (from ${low} to ${high})" if cost.high else middle
