"""INPUT and ledger → the requests that the ledger lacks, and the lines, limits and price of a batch of them.

Nothing is sent. A panel has a file of requests for each judge, in their order: `requests.1.jsonl`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from ruler_cli.errors import UsageError
from ruler_cli.files.scratch import KeyTable
from ruler_cli.judges.chat_completions import chat_body, first_format
from ruler_cli.judges.providers import (
    EMBEDDED,
    QUEUEING_ENGINES,
    Price,
    lacks_chat,
    listed_batch_price,
)
from ruler_cli.judges.resolve import (
    LOCAL,
    OPENAI,
    cached_only,
    model_at_endpoint,
    model_of,
)
from ruler_cli.judging.panel import cache_of, open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread
from ruler_cli.prompting.pictures import with_smaller
from ruler_cli.runs.file import (
    FileSource,
    nothing_to_compare,
    refuse_reading,
)
from ruler_cli.runs.input import open_input
from ruler_cli.runs.session import Scored, ScoringSession, run
from ruler_cli.settings.models import (
    CombineSettings,
    JudgeSettings,
    MaxFailures,
    ScoreSettings,
)
from ruler_cli.settings.parameters import body_of, headers_of
from ruler_cli.types import Observer, Problem, Request

Target = Literal["openai", "anthropic"]
Line = Callable[[bytes, Request], bytes]
"""Make the line of a request file from a key and a request."""
OnMissing = Callable[[int, bytes, Request], None]
"""Receives a missing request: the index of its judge in `settings.judges`, its key, the request."""


def batch_target(judge: JudgeSettings) -> Target | None:
    """Return the batch API for a judge, by its name; None if there is none that ruler knows."""
    provider = judge.model.partition("/")[0]
    if provider == "anthropic":
        return "anthropic"
    in_openais_form = provider == "openai" or judge.api_base
    return "openai" if in_openais_form else None


def target_of(judge: JudgeSettings) -> Target:
    """Return the form of the requests to a judge; UsageError if none is known, or if it is embedded."""
    target = batch_target(judge)
    engine = judge.model.startswith(QUEUEING_ENGINES)
    if judge.model in EMBEDDED or not (target or engine):
        raise UsageError(
            "has no batch API, and the form of its requests is not known",
            "use openai/… or anthropic/…, an endpoint with a batch API like OpenAI's (--api-base URL), or "
            "hosted_vllm/… for an engine of your own with `ruler batch export` and `ruler batch import`",
            place=f"judge {judge.model}",
        )
    return target or "openai"


def request_line(judge: JudgeSettings) -> Line:
    """Return a function that makes lines of a request file; their `custom_id` is the key in hex.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError if the form
    cannot hold the judge's name or parameters.
    """
    if headers_of(judge.params) or judge.params.get("extra_query"):
        raise UsageError(
            "has further headers or a query, which a batch cannot carry",
            "leave them out",
            place=f"judge {judge.label}",
        )
    if target_of(judge) == "anthropic":
        from ruler_cli.judges.litellm import anthropic_params

        line = b'{"custom_id":"%s","params":%s}\n'
        write = anthropic_params(judge)
    else:
        line = b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        write = _chat_bodies(judge)
    return lambda key, request: line % (key.hex().encode(), write(request))


def _chat_bodies(judge: JudgeSettings) -> Callable[[Request], bytes]:
    """Return a function that writes the body of a chat completion."""
    model = model_at_endpoint(judge)
    at_openai = judge.model.startswith("openai/")
    address = judge.api_base or (OPENAI if at_openai else LOCAL)
    answer_format = first_format(judge, address)
    if lacks_chat(judge.model) and not judge.api_base:
        raise UsageError(
            "is answered at /v1/responses only, and a batch is written for chat completions",
            "name another one with --model",
            place=f"judge {judge.label}",
        )
    body = body_of(judge.params)
    return lambda request: chat_body(model, body, request, answer_format)


def batch_price(judge: JudgeSettings) -> Price | None:
    """Return a judge's batch price: a listed one, else half of its price for calls.

    None if it is unknown, or if there is no batch API.
    """
    if batch_target(judge) is None:
        return None
    if not (judge.price or judge.api_base):
        listed = listed_batch_price(judge.model)
        if listed:
            return listed
    price = model_of(judge).price
    return price and price.halved


def names_for(name: str, judges: int) -> list[str]:
    """Return the file name for each judge: `name` itself for one, else with its number.

    UsageError if several judges would share stdout.
    """
    if judges == 1:
        return [name]
    if name == "-":
        raise UsageError(
            "a request file is for one model",
            "use a file name, or one judge",
            place=name,
        )
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    return [
        str(path.with_name(f"{stem}.{number}{dot}{ending}"))
        for number in range(1, judges + 1)
    ]


class MissingRequests:
    """The sink of a run without calls: it takes the requests that the ledger lacks, each once.

    `requests` counts them by judge, in the order of `settings.judges`. The `answered` groups need no request. `lost`
    groups failed with the ledger's replies, `unaskable` ones allow no request: nothing to judge, or too long.
    All others miss at least one request. `unreadable` counts records.
    """

    at_once = True

    def __init__(self, settings: ScoreSettings, on_missing: OnMissing) -> None:
        self.requests = [0 for _ in settings.judges]
        self.answered = self.lost = self.unaskable = self.unreadable = 0
        self._caches = [cache_of(None, judge) for judge in settings.judges]
        self._on_missing = on_missing
        self._seen = KeyTable()

    async def take(self, scored: Scored) -> None:
        """Count a group, and pass on the requests that it misses."""
        result = scored.result
        for judge_index, request in result.missing:
            key = self._caches[judge_index].key(request)
            before = len(self._seen)
            if self._seen.number(key) == before:
                self.requests[judge_index] += 1
                self._on_missing(judge_index, key, with_smaller(request))
        if result.missing:
            return
        if result.pass_scores or not result.failed_calls:
            self.answered += 1
        elif result.failed_calls[0].error.kind in ("input", "too_long"):
            self.unaskable += 1
        else:
            self.lost += 1


async def find_missing(
    settings: ScoreSettings, on_missing: OnMissing, observer: Observer
) -> MissingRequests:
    """Judge each group by the ledger alone, and call `on_missing` with each request that it lacks, once.

    `on_missing` runs in the event loop, in the order of INPUT; its errors end the run. A ledger that
    does not exist counts as empty and is not created. RulerError if INPUT or the ledger cannot be read, or if a
    judge cannot be asked about each rollout, and is. No paid call is in flight, so it may be cancelled at any time.
    """
    refuse_reading(settings)
    for judge in settings.judges:
        if judge.typed:
            raise UsageError(
                "is a decision model, which no batch API serves",
                "leave it out, or score without a batch",
                place=f"judge {judge.label}",
            )
    # a group that lacks replies is not a failure here, and no score waits for the last group
    settings = replace(
        settings,
        max_failures=MaxFailures(100, percent=True),
        combine=CombineSettings(standardize=False),
    )
    missing = MissingRequests(settings, on_missing)

    def on_problem(problem: Problem) -> None:
        missing.unreadable += 1
        observer.problem(problem)

    resolved = [cached_only(judge) for judge in settings.judges]
    with ExitStack() as stack:
        opened = Ledger(settings.ledger, settings.ledgers, make=False)
        ledger = stack.enter_context(opened)
        panel = open_panel(settings, resolved, StopSignal(), ledger)
        # in a thread: a pipe may be silent for long, and the survey of a large file takes long
        reading = partial(open_input, settings.input, stack, on_problem)
        source = await in_thread(reading)
        if error := nothing_to_compare(settings, source):
            raise error
        source.report(observer)
        groups = None
        scales = [0 for _ in panel.judges]
        async with ScoringSession(settings, observer, panel) as session:
            while source.reader is not None:
                missing.answered = missing.unaskable = missing.lost = 0
                file = FileSource(session, source, groups)
                await run(session, file, missing)
                if reason := session.stop_signal.reason:
                    raise reason
                before = scales
                scales = [judge.scale.left for judge in panel.judges]
                if scales == before or source.streamed:
                    break
                # scores of only 0 and 1 that were read before may stand on another scale by now
                groups = source.again()
        source.report(observer, end=True)
    return missing
