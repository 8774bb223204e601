"""`ruler select SCORED OUTPUT`: keep groups and rollouts by their scores, or make data for training of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import (
    Adaptive,
    ApiBase,
    Ask,
    Config,
    Escalate,
    Fallback,
    Force,
    Format,
    GroupBy,
    Grouping,
    GroupSize,
    Labels,
    Ledgers,
    MaxRecord,
    Messages,
    MostPictures,
    On,
    Order,
    Param,
    Passes,
    Pictures,
    Prompt,
    Prompts,
    Question,
    Reference,
    Rubric,
    Scored,
    Seed,
    Single,
    Tools,
    option,
    output_option,
)
from ruler_cli.cli.progress import Console, Problems, group_counter
from ruler_cli.cli.signals import run_cancellable, unwind_on_signal
from ruler_cli.cli.units import lines
from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import score_settings, scored_input
from ruler_cli.settings.options import COMMAND_LINE, Options
from ruler_cli.types import Problem, printable

if TYPE_CHECKING:
    from ruler_cli.results.choice import Choice, Keep, Selector
    from ruler_cli.results.labels import RolloutMark
    from ruler_cli.runs.input import Input

_LEFT_OUT = """
{unscored:group} without a score left out
{unanswered:group} without an answer left out
{unmatched:line} of marks that named nothing there
{unreadable:line} not readable
"""
_KEPT = """
{kept groups!s} of {groups:group}, {kept rollouts!s} of {rollouts:rollout} kept
"""
_PAIRS = """
pairs written: {0.pairs!s}, from {0.groups!s} of {groups:group}
groups without a pair: {0.no_pair}
rollouts that cannot be written: {0.left_out}
"""
_REPLIES = """
replies written: {examples!s}, about {groups:group}
{missing:request} without a reply in the ledger
{unusable:reply} that could not be used left out
{pictures:reply} about pictures left out
"""
_OF_PAIRS = "gap per_group shape"
_OF_RUN = (
    "model api_base passes rubric param fallback escalate adaptive order seed group_size single ask question pictures "
    "most_pictures reference ledger"
)
_ONLY = {"pairs": _OF_PAIRS.split(), "judge": _OF_RUN.split()}
"""Options that only one kind of data has."""
_KINDS = {"pairs": "pairs", "judge": "replies of a judge"}


def command(
    ctx: typer.Context,
    source: Scored,
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="JSON lines; a list as .json, a table as .parquet; `-` is stdout.",
        ),
    ],
    where: Annotated[
        list[str] | None,
        option(
            "Groups that are live (scored, not tied), tied, failed or scored, or whose reliability or disagreement "
            "lies in a range; rollouts whose score does, or whose value at a path is VALUE. Repeatable: all must hold.",
            "NAME[=LOW..HIGH]|PATH=VALUE",
        ),
    ] = None,
    marks: Annotated[
        list[str] | None,
        option(
            "Only the groups and rollouts that a file of marks names. Repeatable.",
            "FILE",
        ),
    ] = None,
    keep: Annotated[
        int | None, option("At most M rollouts of each group, by --by.", "M")
    ] = None,
    by: Annotated[
        str | None,
        option(
            "Rollouts to keep: those whose scores vary most, the best, or the best with the commonest answer.",
            "variance|score|majority",
        ),
    ] = None,
    answer: Annotated[
        str | None,
        option("Dotted path of a rollout's answer, for --by majority.", "PATH"),
    ] = None,
    as_: Annotated[
        str | None,
        option(
            "Write data for training instead: pairs of a chosen and a rejected rollout, or the judge's replies.",
            "pairs|judge",
            "--as",
        ),
    ] = None,
    gap: Annotated[
        float,
        output_option("Least difference between the scores of a pair.", "SCORE"),
    ] = 0.2,
    per_group: Annotated[int, output_option("Most pairs of a group.", "K")] = 1,
    shape: Annotated[
        str,
        output_option(
            "Pairs as lists of messages, or as texts.", "conversational|standard"
        ),
    ] = "conversational",
    labels: Labels = None,
    model: Annotated[
        list[str] | None,
        option(
            "For --as judge: the judge of the run. This and the other options on judges and quality are those that "
            "the run had.",
            "NAME",
            "--judge-model",
            "--model",
            "-m",
        ),
    ] = None,
    api_base: ApiBase = None,
    passes: Passes = 1,
    rubric: Rubric = None,
    param: Param = None,
    fallback: Fallback = False,
    escalate: Escalate = None,
    adaptive: Adaptive = False,
    order: Order = "random",
    seed: Seed = 0,
    group_size: GroupSize = 32,
    single: Single = "flag",
    ask: Ask = "group",
    question: Question = None,
    pictures: Pictures = "auto",
    most_pictures: MostPictures = None,
    reference: Reference = None,
    ledger: Ledgers = None,
    force: Force = False,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    tools: Tools = None,
    prompts: Prompts = None,
    on: On = None,
    max_record: MaxRecord = 512,
    config: Config = None,
) -> int:
    """Keep groups and rollouts of a scored file by their scores.

    Kept bytes are unchanged. Conditions come before --keep. A group without a figure is in no range of it, and
    `disagreement` without a range means that the judge orders some pair of rollouts against their labels.
    Rollouts without a score are never kept by --keep. null and empty text do not count as answers.

    \b
    Example:
      ruler select scored.jsonl train.jsonl --where live --where reliability=0.7..
      ruler select scored.jsonl sharp.jsonl --keep 4 --by variance
      ruler select scored.jsonl - --keep 1 --by majority --answer metadata.answer
      ruler select scored.jsonl - --where disagreement=0.5.. | ruler report -
      ruler select scored.jsonl pairs.jsonl --as pairs --gap 0.2

    Exit codes: 0 written, even if nothing is left; 1 written, but some lines could not be read, some lines of
    marks named nothing in SCORED, or the ledger lacked some replies; 2 bad usage, unreadable input, no group with
    the figure of a condition, or nothing left of SCORED in its place.
    """
    with running(ctx, source, output) as options:
        return _run(options, source, output)


def _run(options: Options, source: str, output: str) -> int:
    from ruler_cli.results.choice import Choice
    from ruler_cli.results.conditions import parse_condition
    from ruler_cli.results.labels import Labels as LabelFiles

    _refuse_others(options)
    conditions = list(map(parse_condition, options.where))
    files = LabelFiles.read(options.marks, option="marks") if options.marks else None
    choice = Choice(conditions, _keep(options), files)
    if choice == Choice([]) and options.as_ is None:
        raise UsageError(
            "say what to keep, e.g. --where live, or --keep 4 --by variance"
        )
    console = Console("log", source)

    def describe(opened: Input) -> None:
        for sentence in (opened.found(), *opened.notes):
            console.note(sentence)

    with group_counter() as bar:
        watch = _Watch(describe, console.problem, bar.update)
        write = _write_replies if options.as_ == "judge" else _write_selection
        selector, sentences, whole = write(options, source, output, choice, watch)
    console.close()
    unmatched = selector.unmatched
    _name_unmatched(unmatched, source)
    counts = {**selector.counts, "unmatched": len(unmatched)}
    console.note("; ".join([*sentences, *lines(_LEFT_OUT, counts)]))
    return 0 if whole and not unmatched and not counts.get("unreadable") else 1


class _Watch(NamedTuple):
    """Functions that are called with INPUT, with each line that cannot be read, and after each group."""

    on_open: Callable[[Input], None]
    on_problem: Callable[[Problem], None]
    on_group: Callable[[], object]


_Written = tuple["Selector", list[str], bool]
"""The selector, sentences on what was written, and if nothing is missing."""


def _write_selection(
    options: Options, source: str, output: str, choice: Choice, watch: _Watch
) -> _Written:
    """Write the groups and rollouts of a choice, or pairs of them."""
    from ruler_cli.results.pairs import PairMaker
    from ruler_cli.results.select import select

    settings = replace(scored_input(options, source), reference=None)
    pairs = None
    if options.as_ == "pairs":
        table = Location(output).unpacked.endswith(".parquet")
        pairs = PairMaker(options.gap, options.per_group, options.shape, table=table)
    with unwind_on_signal():
        selector = select(
            settings, output, choice, pairs, force=options.force, **watch._asdict()
        )
    if pairs is None:
        return selector, [*lines(_KEPT, selector.counts)], True
    return selector, [*lines(_PAIRS, selector.counts, pairs)], True


def _write_replies(
    options: Options, source: str, output: str, choice: Choice, watch: _Watch
) -> _Written:
    """Write the judge's replies about the groups of a choice."""
    from ruler_cli.results.judge_data import JudgeData

    run = score_settings(options, source, output)
    data = JudgeData(replace(run, input=scored_input(options, source)), choice)
    run_cancellable(partial(data.write, **watch._asdict()))
    sentences = [*lines(_REPLIES, data.counts)]
    return data.selector, sentences, not data.counts["missing"]


def _name_unmatched(marks: Sequence[RolloutMark], source: str) -> None:
    """Name the lines of marks that named nothing in SCORED."""
    problems = Problems("lines of marks that name nothing there")
    for one in marks:
        rollout = f", rollout {printable(one.rollout)}" if one.rollout else ""
        place = Location(source).shown
        problems.add(f"{place} has no group {printable(one.group)!r}{rollout}")
    problems.close()


def _refuse_others(options: Options) -> None:
    """Raise UsageError for a typed option of another kind of data."""
    for kind, names in _ONLY.items():
        for name in names:
            if options.as_ != kind and options.rank(name) == COMMAND_LINE:
                remedy = Sentence("add {as_:{kind}}, or leave it out", kind=kind)
                raise UsageError(f"is for {_KINDS[kind]}", remedy, option=name)
    if options.as_ == "judge" and options.keep is not None:
        raise UsageError(
            "a reply is about a whole group", "leave it out", option="keep"
        )


def _keep(options: Options) -> Keep | None:
    """Check --keep, --by and --answer together; UsageError with the way out."""
    from ruler_cli.results.choice import Keep

    most = options.keep
    by = options.by
    answer = options.answer
    wrong = (
        (by and most is None, "by", by, "needs --keep M"),
        (most and by is None, "keep", most, "needs --by score, variance or majority"),
        (by == "majority" and answer is None, "by", by, "needs --answer PATH"),
        (answer and by != "majority", "answer", answer, "only with --by majority"),
        (most == 1 and by == "variance", "keep", 1, "one score has no variance"),
    )
    for holds, field, value, problem in wrong:
        if holds:
            raise UsageError(problem, option=field, value=value)
    if most is None or by is None:
        return None
    return Keep(most, by, answer)
