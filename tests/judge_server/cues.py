"""Misbehaviours of the server, by the cue that names each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import orjson

from ruler_cli.scoring.parse_reply import SCALE
from tests.judge_server.asks import Ask, Entries
from tests.judge_server.replies import (
    Reply,
    complete,
    good,
    likely,
    limit,
    page,
    refuse,
    too_long,
)

Say = Callable[[Entries], str]


def _wrap(entries: Entries) -> str:
    return json.dumps(
        {"scores": entries}
    )  # not orjson: NaN has to come out as NaN


def _with(entry: dict[str, Any], label: str | int) -> dict[str, Any]:
    return {**entry, "trajectory_id": label}


def _each(change: Callable[[float], Any]) -> Say:
    return lambda entries: _wrap(
        [{**entry, "score": change(entry["score"])} for entry in entries]
    )


def _first(score: Any) -> Say:
    return lambda entries: _wrap([{**entries[0], "score": score}, *entries[1:]])


def _wrong(score: float) -> float:
    return 0.0 if score > 0.5 else 1.0


def _after_decoy(before: str, between: str) -> Say:
    return lambda entries: (
        before + _each(_wrong)(entries) + between + _wrap(entries)
    )


HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://127.0.0.1/\x1b\\\x9b31m\x9d52;c;x\x9c\r\x08\x00\x7f\x85\u061c\u200f\u2028\u202e\u2066"
"""Escapes that clear a terminal, name its window, link, write its clipboard, colour, go back and turn it."""


def _hostile(entries: Entries) -> str:
    return json.dumps(
        {"scores": [{**entry, "explanation": HOSTILE} for entry in entries]},
        ensure_ascii=False,
    )


def _best_first(entries: Entries) -> str:
    best = sorted(entries, key=lambda entry: -entry["score"])
    return _wrap(
        best if best != entries else best[::-1]
    )  # never the asked order


def _of_ten(entries: Entries, share: float = 1.0) -> str:
    """Put the best `share` on a 0-10 scale; some score exceeds 1, or no one could tell."""
    scores = [entry["score"] for entry in entries]
    ranks = sorted(range(len(scores)), key=lambda at: -scores[at])
    for at in ranks[: max(1, int(len(scores) * share))]:
        scores[at] = round(scores[at] * 10, 6)
    if scores[ranks[0]] <= 1:
        scores[ranks[0]] = 2.0
    return _wrap(
        [
            {**entry, "score": s}
            for entry, s in zip(entries, scores, strict=True)
        ]
    )


_TEXTS: dict[str, Say] = {
    "reordered": _best_first,
    "duplicate-same": lambda all_: _wrap([*all_, all_[0]]),
    "duplicate": lambda all_: _wrap(
        [*all_, {**all_[0], "score": _wrong(all_[0]["score"])}]
    ),
    "missing": lambda all_: _wrap(all_[:-1]),
    "extra": lambda all_: _wrap([*all_, _with(all_[0], "no-such-label")]),
    "integer": lambda all_: _wrap(
        [_with(entry, n) for n, entry in enumerate(all_, 1)]
    ),
    "position": lambda all_: _wrap(
        [{"score": entry["score"]} for entry in all_]
    ),
    "fenced": lambda all_: (
        f"Here it is:\n\n```json\n{_wrap(all_)}\n```\n\nThat is all."
    ),
    "think": _after_decoy("<think>\nMaybe ", "? No.\n</think>\n\n"),
    "prose": lambda all_: f"I read them all. {_wrap(all_)} I hope this helps.",
    "decoy": _after_decoy("The form is, for example:\n", "\nMy answer is:\n"),
    "list": json.dumps,
    "plain-map": lambda all_: json.dumps(
        {"scores": {entry["trajectory_id"]: entry["score"] for entry in all_}}
    ).replace("}}", ",}}"),
    "ten": _of_ten,
    "percent": _each(lambda score: f"{score * 100:g}%"),
    "fraction": _each(lambda score: f"{score * 10:g}/10"),
    "strings": _each(str),
    "same": _each(lambda _: 0.5),
    "mixed": lambda all_: _of_ten(all_, share=0.5),
    "negative": _first(-0.5),
    "nan": _first(float("nan")),
    "null-score": _first(None),
    "bool-score": _first(True),
    "empty": lambda _: "",
    "not-json": lambda _: "All of them did well, the first one most of all.",
    "escapes": _hostile,
    "raw-escapes": lambda _: HOSTILE,
    "huge": lambda _: "The agent did rather well. " * 185_186,  # just over 5 MB
}


def _saying(say: Say) -> Callable[[Ask], Reply]:
    return lambda ask: complete(ask, say(ask.entries))


def _cut_off(ask: Ask) -> Reply:
    """Stop inside the second-to-last entry, so that the reply lacks more than its last one."""
    *before, cut = map(json.dumps, ask.entries[:-1] or ask.entries)
    text = '{"scores": [' + ", ".join([*before, cut[: len(cut) // 2]])
    return complete(ask, text, finish="length")


def _no_choices(ask: Ask) -> Reply:
    reply = good(ask)
    return replace(
        reply, body=orjson.dumps({**orjson.loads(reply.body), "choices": []})
    )


def _refuse_form(ask: Ask) -> Reply:
    message = f"Invalid parameter: 'response_format' of type '{ask.form}' is not supported."
    return refuse(400, message)


def _refuse_system(ask: Ask) -> Reply:
    """Refuse as the template of Gemma does."""
    return (
        good(ask)
        if len(ask.texts) == 1
        else refuse(400, "System role not supported")
    )


def _fail_inside(ask: Ask) -> Reply:
    """Report an error as OpenRouter does if it comes while an answer is written."""
    reply = complete(ask, '{"scores": [', finish="error")
    body = orjson.loads(reply.body)
    body["choices"][0]["error"] = {"code": 502, "message": "Upstream is gone"}
    return replace(reply, body=orjson.dumps(body))


def _refuse_long(ask: Ask) -> Reply:
    tokens, most = len(ask.texts[-1].encode()) // 4, 3000
    return good(ask) if tokens <= most else too_long(tokens, most)


def _refuse_limit(ask: Ask) -> Reply:
    """Refuse as OpenAI does for models that think."""
    message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
    return (
        refuse(400, f"{message} instead.")
        if "max_tokens" in ask.limits
        else good(ask)
    )


def _refuse_limits(ask: Ask) -> Reply:
    """Refuse as a strict endpoint does for each name."""
    return (
        refuse(422, f"extra fields not permitted: {', '.join(ask.limits)}")
        if ask.limits
        else good(ask)
    )


def _refuse_beside(ask: Ask) -> Reply:
    """Refuse as vLLM does if the context holds the prompt and 300 more tokens."""
    prompt = len(ask.texts[-1]) // 4
    if all(limit <= 300 for limit in ask.limits.values()):
        return good(ask)
    message = f"This model's maximum context length is {prompt + 300} tokens and your request has {prompt} input"
    return refuse(
        400,
        f"'max_tokens' or 'max_completion_tokens' is too large: 576. {message} tokens.",
    )


def _deliver(how: str, delay: float = 0.0) -> Callable[[Ask], Reply]:
    return lambda ask: replace(good(ask), delivery=how, delay=delay)


def _of_ten_once(ask: Ask) -> Reply:
    """Grade from 0 to 10 in whole numbers, until a request names the scale."""
    if SCALE in ask.texts[-1]:
        return good(ask)
    return complete(ask, _each(lambda score: round(10 * score))(ask.entries))


def _refuse_many(ask: Ask) -> Reply:
    return refuse(400, f"top_logprobs: {ask.likely} is more than 5")


DECISIONS = ("leaning", "rounded", "declines", "leaves-out", "costs")
"""Ways of a judge that is read by probability; a model's name joins several with `+`."""

CUES: dict[str, Callable[[Ask], Reply]] = {
    **{cue: lambda ask, cue=cue: good(ask, cue) for cue in DECISIONS},  # type: ignore[misc]  # a default
    **{kind: _saying(say) for kind, say in _TEXTS.items()},
    "cutoff": _cut_off,
    "null-content": lambda ask: complete(ask, None),
    "refusal": lambda ask: complete(
        ask, None, refusal="I'm sorry, I can't help with that."
    ),
    "filter": lambda ask: complete(ask, "", finish="content_filter"),
    "of-ten-once": _of_ten_once,
    "no-choices": _no_choices,
    "html": lambda ask: page(200, "Welcome to the portal"),
    "keyed-refused": lambda ask: (_refuse_form if ask.keyed else good)(ask),
    "schema-refused": lambda ask: (
        _refuse_form if ask.form == "json_schema" else good
    )(ask),
    "format-refused": lambda ask: (
        _refuse_form if ask.form != "none" else good
    )(ask),
    "limit-refused": _refuse_limit,
    "limits-refused": _refuse_limits,
    "beside": _refuse_beside,
    "no-logprobs": lambda ask: complete(ask, "Yes", "length"),
    "logprobs-refused": lambda ask: refuse(
        400, "'logprobs' is not supported with this model."
    ),
    "five-logprobs": lambda ask: (_refuse_many if ask.likely > 5 else good)(
        ask
    ),
    "top-1": lambda ask: likely(ask, 1, Yes=0.7, No=0.3),
    "maybe": lambda ask: likely(ask, Maybe=0.99, Yes=0.004, No=0.003),
    "no-system": _refuse_system,
    "error-inside": _fail_inside,
    "400": lambda ask: refuse(400, "We could not parse your request."),
    "400-context": _refuse_long,
    "400-escapes": lambda ask: refuse(400, f"Bad {HOSTILE} request."),
    "401": lambda ask: refuse(
        401, "Incorrect API key provided.", "invalid_api_key"
    ),
    "403": lambda ask: refuse(
        403, "Your key has no access to this.", "permission_denied"
    ),
    "404": lambda ask: refuse(
        404, f"The model `{ask.model}` is unknown.", "model_not_found"
    ),
    "429": lambda ask: limit("0"),
    "429-bare": lambda ask: limit(None),
    "429-date": lambda ask: limit(formatdate(time.time() + 1, usegmt=True)),
    "quota": lambda ask: refuse(
        429, "You exceeded your current quota.", "insufficient_quota"
    ),
    "500": lambda ask: refuse(500, "The server had an error."),
    "502": lambda ask: page(
        502, "502 Bad Gateway"
    ),  # a gateway speaks HTML, not JSON
    "529": lambda ask: refuse(529, "Overloaded", "overloaded_error"),
    "drop": _deliver("drop"),
    "half": _deliver("half"),
    "drip": _deliver("drip"),
    "hang": _deliver("hang"),
    "slow": _deliver("whole", delay=1.0),
}

MALFORMED = (
    "not-json",
    "cutoff",
    "missing",
    "empty",
    "null-content",
    "no-choices",
    "html",
    "half",
)
"""Replies without a whole answer, each a different one: chaos draws one of them."""
