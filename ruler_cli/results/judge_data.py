"""Groups and the ledger → each usable reply as an example for a judge in training: prompt, completion, scores.

The requests of a run are laid out again, so the settings of that run are needed; nothing is sent.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.output import Output, refuse_clashes, refuse_input
from ruler_cli.files.parse import dump_escaped
from ruler_cli.judges.resolve import cached_only
from ruler_cli.judging.exchange import read_reply
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread
from ruler_cli.results.choice import Choice, Selected, Selector
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.runs.batch.requests import ledger_engine
from ruler_cli.runs.input import Input, open_input
from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.probability import yes_share
from ruler_cli.scoring.statistics import concordance
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    CallError,
    GroupResult,
    Problem,
    Reply,
    Request,
    keyed,
    readable,
)

_KEYED = re.compile(r'"scores"\s*:\s*\{')
"""The begin of an answer with the ids as keys."""
Replies = list[tuple[int, Request, Reply | CallError]]
"""The number of a judge, a request to it, and what the ledger has for a reply."""
Example = dict[str, Any]


class JudgeData:
    """Makes the examples of groups.

    `counts` are those of `examples`, of `groups` with one, of `unusable` replies, of requests that the ledger does not
    answer (`missing`) and of replies about `pictures`, which are not written. `selector` has those of groups.
    """

    def __init__(self, settings: ScoreSettings, choice: Choice) -> None:
        """`settings` are those of the run whose replies are wanted, with the scored file as its input."""
        self.settings = settings
        self.selector = Selector(choice)
        self.counts = Counter[str]()
        self._made_by = ""
        """The words of SCORED on the run that made the first group without a reply."""

    async def write(
        self,
        *,
        on_open: Callable[[Input], None],
        on_problem: Callable[[Problem], None],
        on_group: Callable[[], object] = lambda: None,
    ) -> None:
        """Write the examples to the settings' OUTPUT; UsageError if the ledger has no reply about any group."""
        settings = self.settings
        source = Location(settings.input.source)
        refuse_clashes(source.name, settings.output, tasks=settings.input.prompts)
        refuse_input(source.name, settings.output)
        resolved = [cached_only(judge) for judge in settings.judges]
        replies: defaultdict[GroupRun, Replies] = defaultdict(list)

        def unreadable(problem: Problem) -> None:
            self.selector.counts["unreadable"] += 1
            on_problem(problem)

        def on_reply(
            run: GroupRun, judge: int, request: Request, reply: Reply | CallError
        ) -> None:
            replies[run].append((judge, request, reply))

        with ExitStack() as stack:
            opened = Ledger(settings.ledger, settings.ledgers, make=False)
            ledger = stack.enter_context(opened)
            panel = open_panel(settings, resolved, StopSignal(), ledger)
            runner = JudgeRunner(settings, panel.judges, on_reply)
            output = stack.enter_context(
                Output(settings.output, keep=False, force=settings.force)
            )
            output.write_new()
            # in a thread: a pipe may be silent for long
            reading = partial(open_input, settings.input, stack, unreadable)
            found = await in_thread(reading)
            on_open(found)
            if found.reader is not None:
                self.selector.open(found.reader, settings.input)
                # also those that are left out: further passes may depend on the groups beside
                engine = ledger_engine(runner, found.groups, waits=found.waits)
                async with engine:
                    async for run, result in engine:
                        on_group()
                        own = replies.pop(run, [])
                        if selected := self.selector.select(run.group):
                            self._take(selected, run, result, own, output)
                self.selector.refuse_missing(source.shown)
                self._refuse_none(source.shown)
            output.commit()

    def _take(
        self,
        selected: Selected,
        run: GroupRun,
        result: GroupResult,
        replies: Replies,
        output: Output,
    ) -> None:
        """Write the replies about a group, and count them."""
        counts = self.counts
        if run.missing:
            scored = selected.scored
            counts["missing"] += len(run.missing)
            passes = f"passes {scored.passes}" if scored.passes else ""
            made_by = filter(None, (scored.judge, passes))
            self._made_by = self._made_by or ", ".join(made_by)
        before = counts["examples"]
        for example in self._examples(selected, result, replies):
            counts["examples"] += 1
            output.write([(counts["examples"], dump_escaped(readable(example)))])
        counts["groups"] += counts["examples"] > before

    def _examples(
        self, selected: Selected, result: GroupResult, replies: Replies
    ) -> Iterator[Example]:
        """Yield an example for each usable reply about a group."""
        rollouts = _LabelledRollouts(selected, result)
        for judge, request, reply in replies:
            if isinstance(reply, CallError):
                continue
            if request.pictures:
                self.counts["pictures"] += 1
                continue
            try:
                scores, rescaled = _scores(request, reply, result)
            except DefectError:
                self.counts["unusable"] += 1
                continue
            is_keyed = _KEYED.search(reply.text) and not request.each
            system = keyed(request.system) if is_keyed else request.system
            own = rollouts.entries(request, scores)
            yield {
                "prompt": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": request.user},
                ],
                "completion": [{"role": "assistant", "content": reply.text}],
                "scores": own,
                "agreement": _agreement(own),
                "rescaled": rescaled,
                "group": group_name(selected.group.key),
                "judge": self.settings.judges[judge].label,
                "model": reply.model,
                "pass": request.pass_index + 1,
            }

    def _refuse_none(self, name: str) -> None:
        """Raise UsageError if no reply was found, and requests lack one."""
        counts = self.counts
        if not counts["missing"] or counts.total() > counts["missing"]:
            return
        raise UsageError(
            f"{name}: the ledger has no reply to any of its {counts['missing']} requests",
            Sentence(
                "a request depends on the whole group and on the run's {model}, {param}, {passes}, {rubric}, {order}, "
                "{seed}, {ask}, {reference} and {pictures}; name them as the run did, and its {ledger}{made_by}",
                made_by=f" ({name} says: {self._made_by})" if self._made_by else "",
            ),
        )


def _scores(
    request: Request, reply: Reply, result: GroupResult
) -> tuple[Mapping[str, float | None], bool]:
    """Return the score of each label in a reply, and if its scale went to 10; DefectError if it cannot be used.

    A reply about some of the criteria has no scores.
    """
    if request.each:
        if reply.refusal is not None:
            raise DefectError(reply.refusal)
        share = yes_share(reply.likely).score
        return dict.fromkeys(request.shown, share), False
    reading = read_reply(reply, request)
    rubric = result.rubric
    scores: dict[str, float | None] = {}
    for label in request.labels:
        numbers = reading.entries[label][0]
        if not request.criteria:
            scores[label] = numbers[0]
        elif rubric and len(numbers) == len(rubric.criteria):
            scores[label] = rubric.score(numbers)
        else:
            scores[label] = None
    return scores, reading.rescaled


class _LabelledRollouts:
    """The id and the label of each distinct rollout of a group, of identical ones the first with a label."""

    def __init__(self, selected: Selected, result: GroupResult) -> None:
        scored = selected.scored
        self._known: dict[int | None, tuple[str, float | None]] = {}
        ids = rollout_ids(selected.group, scored)
        for name, rollout in zip(ids, scored.rollouts, strict=True):
            distinct = result.owner[rollout.indices[0]]
            if self._known.get(distinct, ("", None))[1] is None:
                self._known[distinct] = (name, rollout.label)

    def entries(
        self, request: Request, scores: Mapping[str, float | None]
    ) -> list[Example]:
        """Return the scores of a reply, each with its rollout."""
        entries = []
        for label, score in scores.items():
            name, known = self._known[request.shown[label]]
            own = {"trajectory_id": label, "rollout": name}
            entries.append({**own, "score": score, "label": known})
        return entries


def _agreement(entries: list[Example]) -> float | None:
    """Return the share of pairs with different labels that scores order as these do; a tie counts half."""
    rows = [(one["score"], one["label"]) for one in entries]
    found = concordance([row for row in rows if None not in row]).agreement
    return None if found is None else round(found, 6)
