"""A judge over HTTP for tests and benchmarks: answers as asked, or misbehaves on cue.

    python tests/judge_server.py [--port 0] [--latency SECONDS] [--lifetime SECONDS]

It binds 127.0.0.1, prints `{"port": N}` and ends when its stdin closes or its lifetime is over.
`POST …/chat/completions` is judged; `GET /stats`, `GET /requests` and `POST /reset` are for tests.

The `model` field (after its last `/`) is the cue.  `KIND` misbehaves always, `once-KIND` on the
first request for a group of rollouts, `twice-KIND` on its first two; any other name answers well.

Labels      reordered duplicate-same duplicate missing extra integer position
Wrapping    fenced think prose decoy list
Scores      ten percent fraction strings mixed negative nan null-score bool-score
No answer   cutoff empty null-content refusal filter not-json no-choices html huge
Refusals    schema-refused format-refused 400 400-context 401 403 404 429 429-date quota 500 502 529
Connection  drop half drip hang slow
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import Any

import orjson

_ASK = "trajectory_ids to score: "
_TRUTH = re.compile(r"truth=([01](?:\.\d+)?)")
_OPENING = re.compile(r'\n<trajectory id="([^"\n]*)">(?=\n)')
_CLOSING = "\n</trajectory>\n"
_Entries = list[dict[str, Any]]
_Say = Callable[[_Entries], str]


def expected_score(body: str) -> float:
    """Score a rollout, the text between its delimiters: by its last `truth=`, else by its hash."""
    if found := _TRUTH.findall(body):
        return float(found[-1])
    return int(hashlib.sha256(body.encode()).hexdigest()[:8], 16) % 21 / 20


@dataclass(slots=True)
class _Ask:
    model: str
    form: str  # response_format.type, or "none"
    texts: list[str]
    bodies: dict[str, str]  # of every rollout shown, by label
    entries: _Entries  # the right answer


@dataclass(slots=True)
class _Reply:
    body: bytes
    status: int = 200
    mime: str = "application/json"
    headers: str = ""
    delivery: str = "whole"  # a key of _DELIVERIES
    delay: float = 0.0

    def wire(self, length: int) -> bytes:
        head = f"HTTP/1.1 {self.status} {'OK' if self.status == 200 else 'Error'}\r\n"
        head += f"Content-Type: {self.mime}\r\nContent-Length: {length}\r\n{self.headers}\r\n"
        return head.encode() + self.body


def _read_ask(request: Any) -> _Ask:
    """Raise ValueError for a prompt that no judge could answer, so that a test sees it at once."""
    try:
        contents = [message["content"] for message in request["messages"]]
        form = str((request.get("response_format") or {"type": "none"})["type"])
        model = str(request["model"])
        texts = [c if isinstance(c, str) else "".join(p["text"] for p in c) for c in contents]
        last = texts[-1].rstrip().rpartition("\n")[2]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a chat completion request: {error!r}") from error
    if not last.startswith(_ASK):
        raise ValueError(f"the last line does not start with {_ASK!r}")
    labels, bodies = orjson.loads(last.removeprefix(_ASK)), _read_rollouts(texts[-1])
    if not labels or not all(isinstance(label, str) and label in bodies for label in labels):
        raise ValueError(f"asked to score {labels}, shown {list(bodies)}")
    return _Ask(model, form, texts, bodies, [_judge(label, bodies[label]) for label in labels])


def _read_rollouts(prompt: str) -> dict[str, str]:
    text, bodies, at = f"\n{prompt}", {}, 0
    while opening := _OPENING.search(text, at):
        at = text.find(_CLOSING, opening.end())  # find: a regex is slow on long rollouts
        if at < 0 or opening[1] in bodies:
            raise ValueError(f"the rollout {opening[1]!r} is not closed, or shown twice")
        bodies[opening[1]] = text[opening.end() + 1 : at]
        at += len(_CLOSING) - 1  # the newline also begins the next delimiter
    return bodies


def _judge(label: str, body: str) -> dict[str, Any]:
    reason = f"judged {label} by its content alone."
    return {"trajectory_id": label, "explanation": reason, "score": expected_score(body)}


def _complete(ask: _Ask, content: str | None, finish: str = "stop", **message: Any) -> _Reply:
    answer = {"role": "assistant", "content": content, **message}
    used, made = sum(map(len, ask.texts)) // 4, len(content or "") // 4
    usage = {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}
    document = {
        "id": "chatcmpl-judge",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": ask.model,
        "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
        "usage": usage,
    }
    return _Reply(orjson.dumps(document))


def _good(ask: _Ask) -> _Reply:
    return _complete(ask, _wrap(ask.entries))


def _wrap(entries: _Entries) -> str:
    return json.dumps({"scores": entries})  # not orjson: NaN has to come out as NaN


def _with(entry: dict[str, Any], label: str | int) -> dict[str, Any]:
    return {**entry, "trajectory_id": label}


def _each(change: Callable[[float], Any]) -> _Say:
    return lambda entries: _wrap([{**entry, "score": change(entry["score"])} for entry in entries])


def _first(score: Any) -> _Say:
    return lambda entries: _wrap([{**entries[0], "score": score}, *entries[1:]])


def _wrong(score: float) -> float:
    return 0.0 if score > 0.5 else 1.0


def _after_decoy(before: str, between: str) -> _Say:
    return lambda entries: before + _each(_wrong)(entries) + between + _wrap(entries)


def _best_first(entries: _Entries) -> str:
    best = sorted(entries, key=lambda entry: -entry["score"])
    return _wrap(best if best != entries else best[::-1])  # never the asked order


def _of_ten(entries: _Entries, share: float = 1.0) -> str:
    """Put the best `share` on a 0-10 scale; some score exceeds 1, or no one could tell."""
    scores = [entry["score"] for entry in entries]
    ranks = sorted(range(len(scores)), key=lambda at: -scores[at])
    for at in ranks[: max(1, int(len(scores) * share))]:
        scores[at] = round(scores[at] * 10, 6)
    if scores[ranks[0]] <= 1:
        scores[ranks[0]] = 2.0
    return _wrap([{**entry, "score": s} for entry, s in zip(entries, scores, strict=True)])


_TEXTS: dict[str, _Say] = {
    "reordered": _best_first,
    "duplicate-same": lambda all_: _wrap([*all_, all_[0]]),
    "duplicate": lambda all_: _wrap([*all_, {**all_[0], "score": _wrong(all_[0]["score"])}]),
    "missing": lambda all_: _wrap(all_[:-1]),
    "extra": lambda all_: _wrap([*all_, _with(all_[0], "no-such-label")]),
    "integer": lambda all_: _wrap([_with(entry, n) for n, entry in enumerate(all_, 1)]),
    "position": lambda all_: _wrap([{"score": entry["score"]} for entry in all_]),
    "fenced": lambda all_: f"Here it is:\n\n```json\n{_wrap(all_)}\n```\n\nThat is all.",
    "think": _after_decoy("<think>\nMaybe ", "? No.\n</think>\n\n"),
    "prose": lambda all_: f"I read them all. {_wrap(all_)} I hope this helps.",
    "decoy": _after_decoy("The form is, for example:\n", "\nMy answer is:\n"),
    "list": json.dumps,
    "ten": _of_ten,
    "percent": _each(lambda score: f"{score * 100:g}%"),
    "fraction": _each(lambda score: f"{score * 10:g}/10"),
    "strings": _each(str),
    "mixed": lambda all_: _of_ten(all_, share=0.5),
    "negative": _first(-0.5),
    "nan": _first(float("nan")),
    "null-score": _first(None),
    "bool-score": _first(True),
    "empty": lambda _: "",
    "not-json": lambda _: "All of them did well, the first one most of all.",
    "huge": lambda _: "The agent did rather well. " * 185_186,  # just over 5 MB
}


def _saying(say: _Say) -> Callable[[_Ask], _Reply]:
    return lambda ask: _complete(ask, say(ask.entries))


def _cut_off(ask: _Ask) -> _Reply:
    """Stop inside the second-to-last entry, so that the reply lacks more than its last one."""
    *before, cut = map(json.dumps, ask.entries[:-1] or ask.entries)
    text = '{"scores": [' + ", ".join([*before, cut[: len(cut) // 2]])
    return _complete(ask, text, finish="length")


def _no_choices(ask: _Ask) -> _Reply:
    return _Reply(orjson.dumps({**orjson.loads(_good(ask).body), "choices": []}))


def _page(status: int, title: str) -> _Reply:
    body = f"<html><head><title>{title}</title></head><body>{title}</body></html>"
    return _Reply(body.encode(), status, mime="text/html")


def _refuse(status: int, message: str, code: str | None = None, headers: str = "") -> _Reply:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    return _Reply(orjson.dumps({"error": error}), status, headers=headers)


def _refuse_form(ask: _Ask) -> _Reply:
    message = f"Invalid parameter: 'response_format' of type '{ask.form}' is not supported."
    return _refuse(400, message)


def _refuse_long(ask: _Ask) -> _Reply:
    tokens, most = len(ask.texts[-1].encode()) // 4, 3000
    if tokens <= most:
        return _good(ask)
    message = f"This model's maximum context length is {most} tokens. "
    message += f"However, your messages resulted in {tokens} tokens."
    return _refuse(400, message, "context_length_exceeded")


def _limit(retry_after: str) -> _Reply:
    header = f"Retry-After: {retry_after}\r\n"
    return _refuse(429, "Rate limit reached for requests.", "rate_limit_exceeded", header)


def _deliver(how: str, delay: float = 0.0) -> Callable[[_Ask], _Reply]:
    return lambda ask: replace(_good(ask), delivery=how, delay=delay)


CUES: dict[str, Callable[[_Ask], _Reply]] = {
    **{kind: _saying(say) for kind, say in _TEXTS.items()},
    "cutoff": _cut_off,
    "null-content": lambda ask: _complete(ask, None),
    "refusal": lambda ask: _complete(ask, None, refusal="I'm sorry, I can't help with that."),
    "filter": lambda ask: _complete(ask, "", finish="content_filter"),
    "no-choices": _no_choices,
    "html": lambda ask: _page(200, "Welcome to the portal"),
    "schema-refused": lambda ask: (_refuse_form if ask.form == "json_schema" else _good)(ask),
    "format-refused": lambda ask: (_refuse_form if ask.form != "none" else _good)(ask),
    "400": lambda ask: _refuse(400, "We could not parse your request."),
    "400-context": _refuse_long,
    "401": lambda ask: _refuse(401, "Incorrect API key provided.", "invalid_api_key"),
    "403": lambda ask: _refuse(403, "Your key has no access to this.", "permission_denied"),
    "404": lambda ask: _refuse(404, f"The model `{ask.model}` is unknown.", "model_not_found"),
    "429": lambda ask: _limit("0"),
    "429-date": lambda ask: _limit(formatdate(time.time() + 1, usegmt=True)),
    "quota": lambda ask: _refuse(429, "You exceeded your current quota.", "insufficient_quota"),
    "500": lambda ask: _refuse(500, "The server had an error."),
    "502": lambda ask: _page(502, "502 Bad Gateway"),  # a gateway speaks HTML, not JSON
    "529": lambda ask: _refuse(529, "Overloaded", "overloaded_error"),
    "drop": _deliver("drop"),
    "half": _deliver("half"),
    "drip": _deliver("drip"),
    "hang": _deliver("hang"),
    "slow": _deliver("whole", delay=1.0),
}
_SPELLS = {"once": 1, "twice": 2}


class _Judge:
    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.in_flight = 0
        self.reset()

    def reset(self) -> None:
        self.count = 0
        self.in_flight_max = self.in_flight
        self.statuses: Counter[str] = Counter()
        self.forms: Counter[str] = Counter(json_schema=0, json_object=0, none=0)
        self.keys: dict[str, None] = {}
        self.requests: deque[Any] = deque(maxlen=200)
        self.seen: Counter[tuple[str, int]] = Counter()

    def chat(self, body: bytes, key: str | None) -> _Reply:
        self.count += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        if key is not None:
            self.keys[key] = None
        try:
            request = orjson.loads(body)
            self.requests.append(request)
            ask = _read_ask(request)
            self.forms[ask.form] += 1
            reply = self.behaviour(ask)(ask)
        except ValueError as error:
            reply = _refuse(400, f"judge_server: {error}")
        reply.delay += self.latency
        # What never arrives whole has no status: it counts by the name of its delivery.
        self.statuses[str(reply.status) if reply.delivery == "whole" else reply.delivery] += 1
        return reply

    def behaviour(self, ask: _Ask) -> Callable[[_Ask], _Reply]:
        cue = ask.model.rpartition("/")[2]
        spell, _, kind = cue.partition("-")
        if spell not in _SPELLS:
            return CUES.get(cue, _good)
        group = (cue, hash(frozenset(ask.bodies.values())))
        self.seen[group] += 1
        return _good if self.seen[group] > _SPELLS[spell] else CUES.get(kind, _good)

    def other(self, route: str) -> _Reply:
        if route == "GET /stats":
            stats = {"requests": self.count, "in_flight_max": self.in_flight_max}
            counts = {"by_status": self.statuses, "by_format": self.forms, "keys": list(self.keys)}
            return _Reply(orjson.dumps({**stats, **counts}))
        if route == "GET /requests":
            return _Reply(orjson.dumps(list(self.requests)))
        if route == "POST /reset":
            self.reset()
            return _Reply(b"{}")
        return _refuse(404, f"Unknown request URL: {route}", "unknown_url")


class _Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive: one request at a time, in order."""

    transport: asyncio.Transport

    def __init__(self, judge: _Judge) -> None:
        self.judge = judge
        self.buffer = bytearray()
        self.request_line = ""
        self.headers: dict[str, str] = {}
        self.busy = self.judging = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()
        self.judge.in_flight -= self.judging

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.busy:
            self.read_request()

    def read_request(self) -> None:
        if not self.request_line:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self.request_line, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines)
            self.headers = {name.lower(): value.strip() for name, _, value in pairs}
            del self.buffer[: end + 4]
        length = int(self.headers.get("content-length", 0))
        if len(self.buffer) >= length:
            body = bytes(self.buffer[:length])
            del self.buffer[:length]
            self.serve(body)

    def serve(self, body: bytes) -> None:
        method, target, _ = self.request_line.split(" ", 2)
        path, self.request_line, self.busy = target.partition("?")[0], "", True
        if "transfer-encoding" in self.headers:
            self.headers["connection"] = "close"  # where that body ends is unknown
            reply = _refuse(411, "A Content-Length is required.")
        elif method == "POST" and path.endswith("/chat/completions"):
            self.judging = True
            reply = self.judge.chat(body, self.headers.get("authorization"))
        else:
            reply = self.judge.other(f"{method} {path}")
        deliver = _DELIVERIES[reply.delivery]
        if reply.delay:
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(reply.delay, deliver, self, reply)
        else:
            deliver(self, reply)

    def whole(self, reply: _Reply) -> None:
        self.judge.in_flight -= self.judging
        self.busy = self.judging = False
        self.transport.write(reply.wire(len(reply.body)))
        if self.headers.get("connection", "").lower() == "close":
            self.transport.close()
        elif self.buffer:
            self.read_request()

    def half(self, reply: _Reply) -> None:
        self.transport.write(reply.wire(len(reply.body))[: -len(reply.body) // 2])
        self.transport.close()

    def drip(self, reply: _Reply) -> None:
        """Send a byte at a time of a body without end: a limit on silence is never reached."""
        self.transport.write(replace(reply, body=b"").wire(10**9))
        self.drip_byte()

    def drip_byte(self) -> None:
        self.transport.write(b" ")
        self.timer = asyncio.get_running_loop().call_later(0.05, self.drip_byte)

    def drop(self, reply: _Reply) -> None:
        self.transport.close()

    def hang(self, reply: _Reply) -> None:
        """Stay busy: whatever else comes on this connection is left unread."""


_DELIVERIES: dict[str, Callable[[_Connection, _Reply], None]] = {
    "whole": _Connection.whole,
    "half": _Connection.half,
    "drip": _Connection.drip,
    "drop": _Connection.drop,
    "hang": _Connection.hang,
}


class JudgeServer:
    """The server in a process of its own: `with JudgeServer() as judge: … judge.base …`."""

    def __init__(self, latency: float = 0.0, lifetime: float = 600.0) -> None:
        self.options = ["--latency", str(latency), "--lifetime", str(lifetime)]
        # Loopback is never reached through a proxy of the environment.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.root = self.base = ""

    def __enter__(self) -> JudgeServer:
        command = [sys.executable, __file__, *self.options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.__exit__()
            raise RuntimeError(f"the judge server ended with {self.process.returncode}")
        self.root = f"http://127.0.0.1:{json.loads(line)['port']}"
        self.base = f"{self.root}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stats(self) -> Any:
        """Return the counters since the last reset."""
        return self._call("GET", "/stats")

    def requests(self) -> Any:
        """Return the last 200 request bodies, oldest first."""
        return self._call("GET", "/requests")

    def reset(self) -> None:
        """Forget every request: the counters, the bodies and which groups were seen."""
        self._call("POST", "/reset")

    def _call(self, method: str, path: str) -> Any:
        request = urllib.request.Request(self.root + path, method=method)
        with self.opener.open(request, timeout=10) as reply:
            return json.load(reply)


async def _serve(port: int, latency: float, lifetime: float) -> None:
    loop, over, judge = asyncio.get_running_loop(), asyncio.Event(), _Judge(latency)
    # A benchmark opens a thousand connections at once.
    server = await loop.create_server(lambda: _Connection(judge), "127.0.0.1", port, backlog=4096)

    def watch_stdin() -> None:
        # os.read: sys.stdin has a lock, and a thread that holds it at exit is a fatal error.
        with contextlib.suppress(OSError):  # no stdin at all
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the lifetime is over, the loop closed
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=watch_stdin, daemon=True).start()
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(over.wait(), lifetime)
    server.close()


def _main() -> None:
    parser = argparse.ArgumentParser(description="A judge that misbehaves on cue.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--lifetime", type=float, default=600.0, help="seconds until it ends")
    options = parser.parse_args()
    # A thousand connections exceed the usual soft limit; macOS allows no more than 10240.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 10240)), hard))
    with contextlib.suppress(KeyboardInterrupt):  # it reaches every process of a terminal
        asyncio.run(_serve(options.port, options.latency, options.lifetime))


if __name__ == "__main__":
    _main()
