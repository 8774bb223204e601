"""INPUT and ledger → the requests that the ledger lacks, and the lines, limits and price of a batch of them.

Nothing is sent. A panel has a file of requests for each judge, named after it: `requests.1-openai-o3.jsonl`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import anyio.lowlevel

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import KeyTable
from ruler_cli.formats.input import open_input
from ruler_cli.judges.chat_completions import chat_body, first_format
from ruler_cli.judges.providers import EMBEDDED, Price, listed_batch_price
from ruler_cli.judges.resolve import (
    LOCAL,
    OPENAI,
    cached_only,
    model_at_endpoint,
    model_of,
)
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import cache_of, open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.messages.pictures import with_smaller
from ruler_cli.pool.engine import (
    Bounds,
    Engine,
    StopSignal,
    in_thread,
    inline,
    threaded,
)
from ruler_cli.runs.file import (
    held_groups,
    nothing_to_compare,
    refuse_reading,
)
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.settings.parameters import body_of, headers_of
from ruler_cli.types import Group, GroupResult, Observer, Problem, Request

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._]+")
_MAX_JUDGE_NAME = 80
"""Longest name of a judge in a file's name, in characters."""
_OVERHEAD = 64
"""Bytes of a batch, which may be one HTTP request, outside of its lines."""

Target = Literal["openai", "anthropic", "vllm"]
Line = Callable[[bytes, Request], bytes]
"""Make the line of a request file from a key and a request."""
OnMissing = Callable[[int, bytes, Request], None]
"""Receives a missing request: the index of its judge in `settings.judges`, its key, the request."""


class BatchForm(NamedTuple):
    """The form of a batch's requests, and a batch API's limits.

    `opening`, `between` and `closing` join request lines to
    a request file. `skew` is the most that the provider's clock may differ from ours, in seconds; where
    batches store our tag a longer listing does no harm.
    """

    target: Target
    most_requests: int
    most_bytes: int
    skew: float
    opening: bytes
    between: bytes
    closing: bytes

    def allow(self, requests: int, size: int) -> bool:
        """Return whether a batch may hold so many requests with so many bytes together."""
        return (
            requests <= self.most_requests
            and size + _OVERHEAD <= self.most_bytes
        )


FORMS: dict[Target, BatchForm] = {
    "openai": BatchForm(
        "openai", 50_000, 200_000_000, 86400.0, b"", b"\n", b"\n"
    ),
    "anthropic": BatchForm(
        "anthropic",
        100_000,
        256_000_000,
        900.0,
        b'{"requests":[\n',
        b",\n",
        b"\n]}",
    ),
}
"""A megabyte is 1,000,000 bytes, even if a provider may count 1,048,576."""


def batch_target(judge: JudgeSettings) -> Target | None:
    """Return the batch API for a judge; None if there is none that ruler knows."""
    provider = judge.model.partition("/")[0]
    if provider == "anthropic":
        return "anthropic"
    if judge.model in EMBEDDED or not (judge.api_base or provider == "openai"):
        return None
    return "openai"


def target_of(
    judge: JudgeSettings, target: Literal["auto"] | Target = "auto"
) -> Target:
    """Choose the form of the requests by the judge's name, unless given; UsageError if that is unknown."""
    if target != "auto":
        return target
    provider = judge.model.partition("/")[0]
    if provider in ("hosted_vllm", "vllm", "sglang"):
        return "vllm"
    form: Target | None = "openai" if judge.api_base else batch_target(judge)
    if form is None:
        problem = "the form of its requests is not known"
        remedy = "use --target openai, or --target vllm for your own engine"
        raise UsageError(problem, remedy, place=f"judge {judge.model}")
    return form


def request_line(
    target: Target, judge: JudgeSettings, refused: Iterable[str] = ()
) -> Line:
    """Return a function that makes lines of a request file; their `custom_id` is the key in hex.

    The messages `refused` the bound on the answers of earlier lines.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError if the form
    cannot hold the judge's name or parameters.
    """
    if headers_of(judge.params) or judge.params.get("extra_query"):
        problem = (
            "has further headers or a query, for which a batch has no place"
        )
        remedy = "leave them out"
        raise UsageError(problem, remedy, place=f"judge {judge.label}")
    if target == "anthropic":
        from ruler_cli.judges.litellm import anthropic_params

        params = anthropic_params(judge)
        return lambda key, request: (
            b'{"custom_id":"%s","params":%s}\n'
            % (key.hex().encode(), params(request))
        )
    model = model_at_endpoint(judge)
    at_openai = target == "openai" and not judge.api_base
    if at_openai and model == judge.model and "/" in model:
        from ruler_cli.judges.litellm import read_name

        model = read_name(model)[0]  # without the name of the provider
    address = judge.api_base or (OPENAI if at_openai else LOCAL)
    answer_format = replace(first_format(judge, address), stream="")
    if answer_format.responses:
        problem = "is answered at /v1/responses only, and a batch is written for chat completions"
        remedy = "name another one with --model"
        raise UsageError(problem, remedy, place=f"judge {judge.label}")
    body = body_of(judge.params)
    for message in refused:
        accepted = answer_format.after_refusal(answer_format, 400, message)
        answer_format = accepted or answer_format
    return lambda key, request: (
        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        % (key.hex().encode(), chat_body(model, body, request, answer_format))
    )


def batch_price(judge: JudgeSettings) -> tuple[Price | None, str]:
    """Return a judge's batch price, and if it is `listed` or `half` of its price for calls; None if unknown."""
    if not (judge.price or judge.api_base):
        listed = listed_batch_price(judge.model)
        if listed:
            return listed, "listed"
    price = model_of(judge).price
    return price and price.halved, "half"


def names_for(name: str, judges: Sequence[str]) -> list[str]:
    """Return the file name for each judge: `name` itself for one, else with its number and name.

    UsageError if several judges would share stdout.
    """
    if len(judges) == 1:
        return [name]
    if name == "-":
        remedy = "use a file name, or one judge"
        raise UsageError("a request file has one model", remedy, place=name)
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    names = []
    for number, judge in enumerate(judges, 1):
        slug = _NOT_PLAIN.sub("-", judge)[-_MAX_JUDGE_NAME:]
        names.append(
            str(path.with_name(f"{stem}.{number}-{slug}{dot}{ending}"))
        )
    return names


@dataclass(slots=True)
class MissingRequests:
    """Counts of the missing requests.

    `requests` are by judge, in the order of `settings.judges`. The `answered` groups need no request. `lost`
    groups failed with the ledger's replies, `unaskable` ones allow no request: nothing to judge, or too long.
    All others miss at least one request. `unreadable` counts records.
    """

    requests: list[int]
    answered: int = 0
    lost: int = 0
    unaskable: int = 0
    unreadable: int = 0


_HELD = 16 << 20
"""Bytes of groups that are held at once."""


def ledger_engine(
    runner: JudgeRunner, groups: Iterator[Group], *, waits: bool
) -> Engine[GroupRun, GroupResult]:
    """Return an engine that judges groups by the ledger alone; `waits`: they come from a pipe or a network."""
    pull = (threaded if waits else inline)(groups)

    async def next_run() -> GroupRun | None:
        group = await pull()
        return None if group is None else runner.start(group)

    return Engine(
        next_run,
        GroupRun.judge,
        lambda group_run: group_run.group.size,
        anyio.lowlevel.checkpoint,
        Bounds(size=_HELD),
    )


async def find_missing(
    settings: ScoreSettings, on_missing: OnMissing, observer: Observer
) -> MissingRequests:
    """Judge each group by the ledger alone, and call `on_missing` with each request that it lacks, once.

    `on_missing` runs in the event loop, in the order of INPUT; its errors end the rendering. A ledger that
    does not exist counts as empty and is not created. RulerError if INPUT or the ledger cannot be read, or if a
    judge cannot be asked about each rollout, and is. No paid call is in flight, so it may be cancelled at any time.
    """
    refuse_reading(settings)
    for judge in settings.judges:
        if judge.spoken != "chat":
            problem = "is a decision model, which no batch API asks"
            remedy = "leave it out, or score without a batch"
            raise UsageError(problem, remedy, place=f"judge {judge.label}")
    counts = MissingRequests([0 for _ in settings.judges])
    resolved = [cached_only(judge) for judge in settings.judges]
    with ExitStack() as stack:
        seen = KeyTable()
        opened = Ledger(settings.ledger, settings.ledgers, make=False)
        ledger = stack.enter_context(opened)
        panel = open_panel(settings, resolved, StopSignal(), ledger)
        caches = [cache_of(ledger, judge) for judge in settings.judges]

        def on_problem(problem: Problem) -> None:
            counts.unreadable += 1
            observer.problem(problem)

        # in a thread: a pipe may be silent for long, and the survey of a large file takes long
        reading = partial(open_input, settings.input, stack, on_problem)
        source = await in_thread(reading)
        if error := nothing_to_compare(settings, source):
            raise error
        source.report(observer)
        groups: Iterator[Group] | None = held_groups(settings, source, observer)
        while groups is not None:
            scales = [replace(judge.scale) for judge in panel.judges]
            counts.answered = counts.unaskable = counts.lost = 0
            runner = JudgeRunner(settings, panel.judges)
            engine = ledger_engine(runner, groups, waits=source.waits)
            async with engine:
                async for group_run, result in engine:
                    for judge_index, request in group_run.missing:
                        key = caches[judge_index].key(request)
                        before = len(seen)
                        if seen.number(key) == before:
                            counts.requests[judge_index] += 1
                            on_missing(judge_index, key, with_smaller(request))
                    if group_run.missing:
                        continue
                    if result.pass_scores or not result.failed_calls:
                        counts.answered += 1
                        continue
                    failed = result.failed_calls[0].error
                    observer.failed(
                        group_run.group.key, failed.kind, failed.reason
                    )
                    unaskable = failed.kind in ("input", "too_long")
                    counts.unaskable += unaskable
                    counts.lost += not unaskable
            # scores of only 0 and 1 that were read before may stand on another scale by now
            same = scales == [judge.scale for judge in panel.judges]
            groups = None if same or source.survey is None else source.again()
        source.report(observer, end=True)
    for sentence in panel.outdated():
        observer.warn(sentence)
    return counts
