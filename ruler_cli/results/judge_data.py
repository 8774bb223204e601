"""Groups and the ledger → each usable reply as an example for a judge in training: prompt, completion, scores.

The requests of a run are laid out again, so the settings of that run are needed; nothing is sent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio.lowlevel

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location
from ruler_cli.files.output import Output, refuse_clashes
from ruler_cli.files.parse import dump_escaped
from ruler_cli.judges.resolve import cached_only
from ruler_cli.judging.adaptive import BLOCK_BYTES
from ruler_cli.judging.exchange import read_reply
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel, open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import (
    Bounds,
    Engine,
    StopSignal,
    in_thread,
    inline,
    threaded,
)
from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.choice import Choice, Selected, Selector
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.runs.input import Input, open_input
from ruler_cli.scoring.parse_reply import DefectError
from ruler_cli.scoring.probability import yes_share
from ruler_cli.scoring.statistics import concordance
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    CallError,
    Group,
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
"""The number of a judge, a request to it, and the reply that the ledger has."""


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
        self._unlike = ""
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
        source = settings.input.source
        shown = Location(source).shown
        refuse_clashes(source, settings.output, tasks=settings.input.prompts)
        if source != "-" and Location(source).same(settings.output):
            raise UsageError("is INPUT", "give another name", place=settings.output)
        resolved = [cached_only(judge) for judge in settings.judges]
        with ExitStack() as stack:
            ledger = Ledger(settings.ledger, settings.ledgers, make=False)
            stack.enter_context(ledger)
            panel = open_panel(settings, resolved, StopSignal(), ledger)
            output = stack.enter_context(Output(settings.output, keep=False))
            output.write_new()

            def unreadable(problem: Problem) -> None:
                self.selector.counts["unreadable"] += 1
                on_problem(problem)

            opened = await in_thread(
                partial(open_input, settings.input, stack, unreadable)
            )
            on_open(opened)
            if opened.reader is not None:
                self.selector.open(opened.reader, settings.input)
                await self._groups(opened, panel, output, on_group)
                self.selector.refuse_missing(shown)
                self._refuse_none(shown)
            output.commit()

    async def _groups(
        self,
        opened: Input,
        panel: Panel,
        output: Output,
        on_group: Callable[[], object],
    ) -> None:
        """Judge the groups by the ledger alone, and write the replies about each."""
        pending: dict[GroupRun, tuple[Selected | None, Replies]] = {}
        settings = self.settings
        # further passes depend on the groups beside
        every = settings.adaptive or settings.escalate is not None

        def on_reply(
            run: GroupRun, judge: int, request: Request, reply: Reply | CallError
        ) -> None:
            pending[run][1].append((judge, request, reply))

        runner = JudgeRunner(settings, panel.judges, on_reply)

        def chosen() -> Iterator[tuple[Group, Selected | None]]:
            for group in opened.groups:
                on_group()
                selected = self.selector.select(group)
                if selected or every:
                    yield group, selected

        pull = (threaded if opened.waits else inline)(chosen())

        async def next_run() -> GroupRun | None:
            pulled = await pull()
            if pulled is None:
                return None
            group, selected = pulled
            run = runner.start(group)
            pending[run] = (selected, [])
            return run

        engine = Engine(
            next_run,
            GroupRun.judge,
            lambda run: run.group.size,
            anyio.lowlevel.checkpoint,
            Bounds(size=BLOCK_BYTES),
            runner.end,
        )
        async with engine:
            async for run, result in engine:
                selected, replies = pending.pop(run)
                if selected is None:
                    continue
                examples = self._examples(selected, result, replies)
                if run.missing:
                    self.counts["missing"] += len(run.missing)
                    self._unlike = self._unlike or _made_by(selected.scored)
                self.counts["groups"] += bool(examples)
                numbers = range(self.counts["examples"] + 1, 1 << 62)
                output.write(
                    [
                        (number, dump_escaped(readable(one)))
                        for number, one in zip(numbers, examples, strict=False)
                    ]
                )
                self.counts["examples"] += len(examples)

    def _examples(
        self, selected: Selected, result: GroupResult, replies: Replies
    ) -> list[dict[str, Any]]:
        """Return an example for each usable reply about a group."""
        scored = selected.scored
        about = _Distinct(selected, result)
        examples = []
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
            examples.append(
                {
                    "prompt": [
                        {"role": "system", "content": system},
                        {"role": "user", "content": request.user},
                    ],
                    "completion": [{"role": "assistant", "content": reply.text}],
                    "scores": about.entries(request, scores),
                    "agreement": about.agreement(request, scores),
                    "rescaled": rescaled,
                    "group": group_name(scored.key),
                    "judge": self.settings.judges[judge].label,
                    "model": reply.model,
                    "pass": request.pass_index + 1,
                }
            )
        return examples

    def _refuse_none(self, name: str) -> None:
        """Raise UsageError if no reply was found, and requests lack one."""
        missing = self.counts["missing"]
        found = self.counts["examples"] + self.counts["unusable"]
        if not missing or found or self.counts["pictures"]:
            return
        raise UsageError(
            f"{name}: the ledger has no reply to any of its {missing} requests",
            Sentence(
                "a request depends on the whole group and on the run's {model}, {param}, {passes}, {rubric}, {order}, "
                "{seed}, {ask}, {reference} and {pictures}; name them as the run did, and its {ledger}{unlike}",
                unlike=f" ({name} says: {self._unlike})" if self._unlike else "",
            ),
        )


def _made_by(scored: ScoredGroup) -> str:
    """Return the words of a group's annotation on the run that made its scores."""
    passes = f"passes {scored.passes}" if scored.passes else ""
    return ", ".join(filter(None, (scored.judge, passes)))


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
    scores: dict[str, float | None] = {}
    for label in request.labels:
        numbers = reading.entries[label][0]
        whole = not request.criteria
        score = numbers[0] if whole else None
        if result.rubric and len(numbers) == len(result.rubric.criteria):
            score = result.rubric.score(numbers)
        scores[label] = score
    return scores, reading.rescaled


class _Distinct:
    """The rollouts of a group by the distinct rollout that a request shows for each."""

    def __init__(self, selected: Selected, result: GroupResult) -> None:
        scored = selected.scored
        self._rollouts: dict[int | None, list[tuple[str, ScoredRollout]]] = {}
        ids = rollout_ids(selected.group, scored)
        for name, rollout in zip(ids, scored.rollouts, strict=True):
            distinct = result.owner[rollout.indices[0]]
            self._rollouts.setdefault(distinct, []).append((name, rollout))

    def entries(
        self, request: Request, scores: Mapping[str, float | None]
    ) -> list[dict[str, Any]]:
        """Return the score and the label of each rollout that a reply scores; identical ones are one."""
        return [
            {
                "trajectory_id": label,
                "rollout": self._rollouts[request.shown[label]][0][0],
                "score": score,
                "label": self._label(request.shown[label]),
            }
            for label, score in scores.items()
        ]

    def agreement(
        self, request: Request, scores: Mapping[str, float | None]
    ) -> float | None:
        """Return the share of pairs with different labels that a reply orders as these do; a tie counts half."""
        rows = [
            (score, own.label)
            for label, score in scores.items()
            for _, own in self._rollouts[request.shown[label]]
            if score is not None and own.label is not None
        ]
        found = concordance(rows)
        if not found.pairs:
            return None
        return 1 - found.against / found.pairs

    def _label(self, distinct: int) -> float | None:
        labels: Sequence[float | None]
        labels = [own.label for _, own in self._rollouts[distinct]]
        return next((label for label in labels if label is not None), None)
