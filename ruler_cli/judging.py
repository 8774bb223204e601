"""One group → its outcome: drive the dialogue with the pool, then say it as marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ruler_cli.judges.prices import Price
from ruler_cli.records import Failure, Fault, Group, Mark, Reply, Request, Usage, Verdict
from ruler_cli.scoring.dialogue import judge
from ruler_cli.settings import AskSettings


class Call(Protocol):
    """What asks: the pool's caller."""

    async def __call__(self, request: Request, *, again: bool = False) -> Reply | Fault:
        """One answer; `again` asks anew what was answered in an earlier run."""


Told = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group.

    `seconds` is what the judge took for its replies, `kept` that none of them had to be asked for,
    `paid` the tokens of those that were.
    """

    verdict: Verdict | Failure
    seconds: float
    kept: bool
    paid: Usage

    @property
    def usage(self) -> Usage:
        """Tokens of all replies of the group, whenever they were asked for."""
        return self.verdict.usage


async def judge_group(
    group: Group, ask: AskSettings, call: Call, on_reply: Told | None = None, *, retry_failed: bool = False
) -> Outcome:
    """Ask until there is a verdict or a failure.

    A failure that earlier answers led to is one still; with `retry_failed` the group is asked anew.
    """
    outcome = await _converse(group, ask, call, on_reply, again=False)
    if retry_failed and outcome.kept and isinstance(outcome.verdict, Failure):
        return await _converse(group, ask, call, on_reply, again=True)
    return outcome


async def _converse(
    group: Group, ask: AskSettings, call: Call, on_reply: Told | None, *, again: bool
) -> Outcome:
    dialogue = judge(group, ask)
    answer: Reply | Fault | None = None
    seconds, kept, paid = 0.0, True, Usage()
    try:
        while True:
            request = dialogue.send(answer) if answer is not None else next(dialogue)
            answer = await call(request, again=again)
            kept = kept and answer.kept
            if isinstance(answer, Reply):
                seconds += answer.seconds
                paid += Usage() if answer.kept else answer.usage
            if on_reply is not None:
                on_reply(group.key, answer.text if isinstance(answer, Reply) else answer.reason)
    except StopIteration as end:
        return Outcome(end.value, seconds, kept and answer is not None, paid)


def marks_of(group: Group, outcome: Outcome, name: str) -> list[Mark]:
    """A mark for each rollout of the group, in input order."""
    verdict = outcome.verdict
    if isinstance(verdict, Failure):
        lost = {"status": "failed", "kind": verdict.kind, "reason": verdict.reason, "judge": name}
        return [Mark(None, dict(lost)) for _ in group.rollouts]
    out = []
    for i, (score, said) in enumerate(zip(verdict.scores, verdict.explanations, strict=True)):
        if score is None:
            out.append(Mark(None, {"status": "failed", "kind": "input", "reason": said, "judge": name}))
            continue
        fields: dict[str, Any] = {
            "status": "scored",
            "score": score,
            "explanation": said,
            "judge": name,
            "passes": 1,
        }
        if i in verdict.suspects:
            fields["suspect"] = True
        out.append(Mark(score, fields))
    return out


def group_fields(group: Group, outcome: Outcome, name: str, price: Price | None) -> dict[str, Any]:
    """The group's part of the output, which stands once where the record is a group."""
    verdict, usage = outcome.verdict, outcome.usage
    failed = isinstance(verdict, Failure)
    fields: dict[str, Any] = {"status": "failed" if failed else "scored", "key": group.key}
    if isinstance(verdict, Failure):
        fields |= {"kind": verdict.kind, "reason": verdict.reason}
    fields |= {"judge": name, "size": group.compared}
    if isinstance(verdict, Verdict):
        fields |= {"passes": 1, "tied": verdict.tied}
        counts = {
            "rescaled": verdict.rescaled,
            "unknown_ids": verdict.unknown,
            "shortened": verdict.shortened,
        }
        fields |= {name: count for name, count in counts.items() if count}
    fields["usage"] = {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
    }
    fields["cost_usd"] = None if price is None else round(price.of(usage), 8)
    fields["latency_s"] = round(outcome.seconds, 3)
    fields["cached"] = outcome.kept
    return fields
