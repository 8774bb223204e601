"""Replies: completions, errors in OpenAI's form, and pages of a gateway."""

from __future__ import annotations

import math
import time
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import orjson

from tests.judge_server.asks import Ask, Question

LEAN = 0.1
"""The score that a leaning judge adds for the first rollout shown, and takes from the last."""
SILENT = "undecidable"
"""The word in rollouts about which a judge that declines, or leaves out, answers nothing."""


@dataclass(slots=True)
class Reply:
    """One reply, its delivery, and its cost."""

    body: bytes
    status: int = 200
    mime: str = "application/json"
    headers: str = ""
    delivery: str = "whole"  # a key of connection.DELIVERIES
    delay: float = 0.0
    asked: float = 0.0  # when its request had come in, by the monotonic clock
    prompt_tokens: int = 0
    completion_tokens: int = 0
    content: int = 0  # which request it answers, for the books

    @property
    def charged(self) -> bool:
        """Return whether its tokens are paid for: a completion, good or not, that arrives whole."""
        return (
            self.status == 200
            and self.delivery == "whole"
            and self.content != 0
        )

    def wire(self, length: int) -> bytes:
        """The bytes to send, whose head announces a body of `length`."""
        head = (
            f"HTTP/1.1 {self.status} {'OK' if self.status == 200 else 'Error'}\r\n"
            f"Content-Type: {self.mime}\r\nContent-Length: {length}\r\n{self.headers}\r\n"
        )
        return head.encode() + self.body


def complete(
    ask: Ask,
    content: str | None,
    finish: str = "stop",
    logprobs: Any = None,
    **message: Any,
) -> Reply:
    """A chat completion with this content."""
    used, made = ask.prompt_tokens, ask.completion_tokens
    if made is None:
        made = len(content or "") // 4
    document = {
        "id": "chatcmpl-judge",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": ask.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "logprobs": logprobs,
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": used,
            "completion_tokens": made,
            "total_tokens": used + made,
        },
    }
    return Reply(
        orjson.dumps(document), prompt_tokens=used, completion_tokens=made
    )


def likely(ask: Ask, most: float = 20, **words: float) -> Reply:
    """The likeliest of some words, and the logarithms of the probabilities of `most` of them."""
    best = sorted(words, key=lambda word: -words[word])
    listed = [
        {
            "token": word,
            "logprob": math.log(max(words[word], 1e-9)),
            "bytes": None,
        }
        for word in best[: int(min(most, ask.likely))]
    ]
    ask.completion_tokens = 1
    told = {"content": [{**listed[0], "top_logprobs": listed}]}
    return complete(ask, best[0], "length", logprobs=told)


def good(ask: Ask, *more: str) -> Reply:
    """The right answer, in the requested form; probabilities as the cues of the model's name have them."""
    cues = {*ask.model.rpartition("/")[2].split("+"), *more}
    if ask.likely:
        (asked,) = ask.questions
        shares = spread(asked, cues)
        words = "ABCDEFGHIJ"[: len(shares)] if asked.levels else ("No", "Yes")
        listed = {
            word: 0.9 * (0.01 + (1 - 0.01 * len(shares)) * share)
            for word, share in zip(words, shares, strict=True)
        }
        return likely(ask, **listed, Maybe=0.1)
    if ask.questions:
        return decide(ask, cues)
    scores: Any = ask.entries
    if (
        ask.completion_tokens is None
    ):  # by the longer form, so that both cost the same
        ask.completion_tokens = len(orjson.dumps({"scores": scores})) // 4
    if ask.keyed:
        scores = {
            entry["trajectory_id"]: {
                name: own
                for name, own in entry.items()
                if name != "trajectory_id"
            }
            for entry in ask.entries
        }
    return complete(ask, orjson.dumps({"scores": scores}).decode())


def spread(asked: Question, cues: Set[str]) -> list[float]:
    """The probabilities of No and Yes, or of the levels, whose mean place is the right one."""
    right = asked.right + LEAN * asked.place * ("leaning" in cues)
    at = min(1.0, max(0.0, right)) * (len(asked.levels or "ny") - 1)
    shares = [
        max(0.0, 1 - abs(at - n)) for n, _ in enumerate(asked.levels or "ny")
    ]
    digits = 2 if "rounded" in cues else 6
    return [round(share, digits) for share in shares]


def decide(ask: Ask, cues: Set[str]) -> Reply:
    """The answers of a decision model, with members that mean nothing to a reader of probabilities."""
    listed = ask.form == "decisions"
    answers: dict[str, Any] = {}
    kind, member = ("predicate", "probability") if listed else ("noul", "noul")
    for asked in ask.questions:
        shares = spread(asked, cues)
        answer: dict[str, Any] = {"type": kind, member: shares[-1]}
        if asked.levels:
            by_level = {str(n): share for n, share in enumerate(shares)}
            rows = [
                {"value": n, "probability": p} for n, p in enumerate(shares)
            ]
            likeliest = shares.index(max(shares))
            answer = {"type": "score", "score": likeliest, "confidence": 0.5}
            answer["probabilities"] = rows if listed else by_level
        if SILENT in asked.rollout and "leaves-out" in cues:
            continue
        if SILENT in asked.rollout and "declines" in cues:
            answer = {"type": "refusal"}
        answers[asked.name] = answer
    usage: dict[str, Any] = {
        "input_tokens": ask.prompt_tokens,
        "output_tokens": 0,
    }
    if "costs" in cues:
        usage["cost"] = 0.001
    named = [{"name": name, **answer} for name, answer in answers.items()]
    document = {
        "model": ask.model,
        "answers": named if listed else answers,
        "usage": usage,
    }
    return Reply(orjson.dumps(document), prompt_tokens=ask.prompt_tokens)


def page(status: int, title: str) -> Reply:
    """A page for people, as a gateway or a portal sends it."""
    body = (
        f"<html><head><title>{title}</title></head><body>{title}</body></html>"
    )
    return Reply(body.encode(), status, mime="text/html")


def refuse(
    status: int, message: str, code: str | None = None, headers: str = ""
) -> Reply:
    """An error in OpenAI's form."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Reply(orjson.dumps({"error": error}), status, headers=headers)


def limit(retry_after: str | None) -> Reply:
    """A 429 with a time to come back, or without one."""
    header = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    return refuse(
        429, "Rate limit reached for requests.", "rate_limit_exceeded", header
    )


def too_long(tokens: int, most: int) -> Reply:
    """A 400 that states the context and the size of the request, as OpenAI words it."""
    message = f"This model's maximum context length is {most} tokens. "
    message += f"However, your messages resulted in {tokens} tokens."
    return refuse(400, message, "context_length_exceeded")
