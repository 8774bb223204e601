"""One group → its outcome: drive the dialogue with the pool, then say it as marks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ruler_cli.judges.prices import Price
from ruler_cli.records import Failure, Fault, Group, Mark, Reply, Request, Usage, Verdict
from ruler_cli.scoring.dialogue import judge
from ruler_cli.settings import AskSettings

Call = Callable[[Request], Awaitable[Reply | Fault]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a group, and the last fault where it ends the whole run."""

    verdict: Verdict | Failure
    seconds: float
    fatal: Fault | None = None

    @property
    def usage(self) -> Usage:
        """Tokens of all calls of the group."""
        return self.verdict.usage


async def judge_group(
    group: Group, ask: AskSettings, call: Call, on_reply: Callable[[str, str], None] | None = None
) -> Outcome:
    """Ask until there is a verdict or a failure."""
    began = time.perf_counter()
    dialogue = judge(group, ask)
    answer: Reply | Fault | None = None
    try:
        while True:
            request = dialogue.send(answer) if answer is not None else next(dialogue)
            answer = await call(request)
            if on_reply is not None:
                on_reply(group.key, answer.text if isinstance(answer, Reply) else answer.reason)
    except StopIteration as end:
        fatal = answer if isinstance(answer, Fault) and answer.scope == "run" else None
        return Outcome(end.value, time.perf_counter() - began, fatal)


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
    fields |= {"judge": name, "size": len(group.rollouts)}
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
    fields["cached"] = False
    return fields
