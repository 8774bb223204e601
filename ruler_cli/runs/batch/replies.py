"""Reply files → a ledger: rows of batch APIs and engines, in any order and as often as they come.

Read are output files of the OpenAI batch API and of tools that copy it (`vllm run-batch`), Anthropic's batch
results, and rows of other engines: a chat completion, or a text, beside a `custom_id`. An answer replaces a
failure, and the first of two answers to one request stays. So a file may be imported twice, and several files
at once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers.lines import lines
from ruler_cli.files.location import Location
from ruler_cli.files.source import decompressed
from ruler_cli.judges.chat_completions import limits_named
from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    classify,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.judges.replies import parse_foreign
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import BOM, CallError, Reply, clean, words_of

MAX_LINE_BYTES = 32 << 20
"""Bytes of the longest line that is read."""
_TOO_LONG = "is longer than 32 MiB"
_UNKNOWN = "holds no reply of a known form"
_KEY = re.compile(r"[0-9a-fA-F]{32}")
_ROWS, _BYTES = 2000, 8 << 20
"""Rows, or bytes of rows, that are written together."""
_MAX_REJECTED = 20
"""Rejected rows that are listed one by one."""
RENAMED = "the next batch bounds its answers by another name"
"""End of the reason of requests whose bound on the answer was refused."""
_ENDED = {"expired": "expired", "cancelled": "canceled", "canceled": "canceled"}
"""Error codes, also with the prefix `batch_`, of requests that were not processed when the batch ended."""
_STATUSES = {
    "invalid_request_error": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""HTTP statuses of Anthropic's error types; its batch results hold the type alone. Others may pass."""
_FIELDS = words_of("id type model choices content stop_reason usage")
"""Fields of a chat completion or a message; other fields of the row are columns of its input."""
_TEXT_FIELDS = words_of("generated_text output text response")
"""Fields with the answer in an engine's row, the most reliable first: `text` may be a column of the input."""
_PROMPT_TOKENS = ("prompt_tokens", "num_input_tokens", "input_tokens")
_COMPLETION_TOKENS = (
    "completion_tokens",
    "num_generated_tokens",
    "output_tokens",
)
_JSON_TOOL = "json_tool_call"
"""Tool through which litellm requests JSON from a model without schema support."""


Row = tuple[str, int, bytes | str]
"""Place, line number and text of a row; or why it cannot be read, in half a sentence."""


class ReplyRow(NamedTuple):
    """A row of a reply file: the id of its request, and the reply or an error.

    A CallError of scope "group" is a failure for good. After any other error the request is to be sent again;
    `label` is the reason in a few words, from a small set.
    """

    custom_id: str
    answer: Reply | CallError
    label: str = ""


_Parsed = tuple[Reply | CallError, str]
"""Answer and label of a row."""


class RejectedRow(NamedTuple):
    """A malformed or foreign row: its place for a message, line number, and reason (half a sentence)."""

    where: str
    line: int
    reason: str


@dataclass(slots=True)
class ImportResult:
    """Counts of an import of `rows` rows.

    `new` answers were added, `repeated` are rows whose request had an answer. `foreign` rows have a custom_id
    that is not ours, `unreadable` rows are no replies; `rejected` lists the first of both. `open` maps each
    request without an answer to (failed for good, its error kind or reason). `messages` holds the first
    sentence of each kind or reason.
    """

    rows: int = 0
    new: int = 0
    repeated: int = 0
    foreign: int = 0
    unreadable: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    open: dict[bytes, tuple[bool, str]] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict, compare=False)

    def unanswered(self, *, for_good: bool) -> dict[str, int]:
        """Count the requests that failed for good, by kind; or those to send again, by reason."""
        labels = sorted(
            label for kind, label in self.open.values() if kind == for_good
        )
        return dict(Counter(labels).most_common())


def import_rows(
    ledger: Ledger,
    rows: Iterable[Row],
    model: str | None = None,
    keys: Container[bytes] | None = None,
) -> ImportResult:
    """Write rows to a ledger, many together; OutputError if it cannot be written.

    `model` is the ledger's name of the model; by default the name in each reply. With `keys`, rows of other
    requests are foreign.
    """
    result = ImportResult()
    waiting, size = list[tuple[bytes, ReplyRow]](), 0
    for where, number, text in rows:
        result.rows += 1
        row = text if isinstance(text, str) else read_row(text)
        reason = row if isinstance(row, str) else ""
        if isinstance(row, ReplyRow):
            name = row.custom_id
            key = bytes.fromhex(name) if _KEY.fullmatch(name) else b""
            if key and (keys is None or key in keys):
                waiting.append((key, row))
                size += len(text)
            else:
                result.foreign += 1
                reason = f"has a foreign custom_id: {clean(name[:64])!r}"
        else:
            result.unreadable += 1
        if reason:
            result.rejected.append(RejectedRow(where, number, reason))
        del result.rejected[_MAX_REJECTED:]
        if len(waiting) >= _ROWS or size >= _BYTES:
            _write(ledger, waiting, model, result)
            waiting, size = [], 0
    _write(ledger, waiting, model, result)
    return result


def _write(
    ledger: Ledger,
    rows: list[tuple[bytes, ReplyRow]],
    model: str | None,
    result: ImportResult,
) -> None:
    if not rows:
        return
    # sorted keys touch fewer pages of the index; rows of one request keep their order
    rows.sort(key=itemgetter(0))
    answers = []
    for key, row in rows:
        name = model or getattr(row.answer, "model", "") or "unknown"
        # an error that a further request may avoid is not stored
        answer = row.answer
        failed = isinstance(answer, CallError) and answer.scope == "group"
        answers.append((key, name, answer if answer.body or failed else None))
    for (key, row), before in zip(rows, ledger.keep_all(answers), strict=True):
        answer = row.answer
        answered = before in ("answer", "truncated", "refusal")
        if isinstance(answer, Reply):
            result.repeated += answered
            result.new += not answered
        if isinstance(answer, Reply) or answered:
            result.open.pop(key, None)
            continue
        for_good = answer.scope == "group"
        failed = for_good or before == "fault"
        label: str = (
            answer.kind if for_good else "before" if failed else row.label
        )
        if label != "before":
            result.messages.setdefault(label, answer.reason)
        result.open[key] = max(
            (failed, label), result.open.get(key, (False, ""))
        )


def rows_of(files: Iterable[Location]) -> Iterator[Row]:
    """Yield the rows of files; a damaged file ends with a row that says so."""
    for file in files:
        shown = file.shown
        try:
            with ExitStack() as stack:
                if file.name.endswith(".parquet"):
                    records = open_container(file.name, stack).records()
                else:
                    data = stack.enter_context(file.open())
                    records = lines(
                        shown, decompressed(shown, data), MAX_LINE_BYTES
                    )
                for line in records:
                    text = _TOO_LONG if line.skipped else line.raw
                    yield f"{shown} {line.where}", line.number, text
        except UsageError as error:
            yield shown, 0, f"cannot be read: {error.problem}"


def reply_files(replies: Iterable[str]) -> list[Location]:
    """List the files of the arguments, in order; UsageError if one is missing, before any is read."""
    files = list[Location]()
    for location in map(Location, replies):
        if location.many:
            listing = location.listed()
            files += map(listing.at, listing.names)
            continue
        if location.local:
            with location.open():
                pass
        files.append(location)
    return files


def read_row(line: bytes) -> ReplyRow | str:
    """Parse one line, without its LF; never raises. If it is no row, return why in half a sentence."""
    if len(line) > MAX_LINE_BYTES:
        return _TOO_LONG
    line = line.removeprefix(BOM)
    try:
        try:
            row = parse_foreign(line)
        except orjson.JSONDecodeError:
            row = json.loads(line)  # NaN, as Python writes it
    except (ValueError, RecursionError):
        return "is cut off or no JSON"
    if not isinstance(row, Mapping):
        return "is not a JSON object"
    name = row.get("custom_id")
    if not isinstance(name, str):
        return "has no custom_id"
    try:
        parsed = _parse(row)
    except (
        RecursionError,
        TypeError,
    ):  # orjson reads deeper nesting than it writes
        return _UNKNOWN
    return parsed if isinstance(parsed, str) else ReplyRow(name, *parsed)


def _parse(row: Mapping[str, Any]) -> _Parsed | str:
    """Parse a row of any known form, else return why not; the first form that fits decides."""
    result, response = (
        _mapping(row.get("result")),
        _mapping(row.get("response")),
    )
    if "type" in result:  # Anthropic's
        label = _ENDED.get(str(result["type"]))
        if label:
            return _again("its batch ended before", label)
        if result.get("message") is not None:
            return _of_body(None, result["message"])
        error = result.get("error")
        return _of_error(None, error) if error else _UNKNOWN
    if "status_code" in response or "body" in response:  # OpenAI's
        status = _status(response.get("status_code"))
        if response.get("body") is not None:
            return _of_body(status, response["body"])
        error = row.get("error")
        if error:
            return _of_error(status, error)
        return _again("the row holds no answer", "no answer")
    reply = {name: row[name] for name in _FIELDS if name in row}
    for place in (reply, row.get("body"), response, row.get("http_response")):
        body = _mapping(place)
        if "choices" in body or body.get("type") == "message":
            return _of_body(None, body)
    error = row.get("error") or row.get(
        "__inference_error__"
    )  # of OpenAI, of Ray
    return _of_error(None, error) if error else _of_text(row)


def _of_body(status: int | None, body: Any) -> _Parsed:
    """Read the body of a response as in a live call."""
    if isinstance(body, Mapping) and isinstance(body.get("content"), list):
        body = _of_message(body)
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    answer = read_response(status or 200, data)
    if isinstance(answer, ErrorResponse):
        return _of_error_response(answer)
    return answer, "" if isinstance(answer, Reply) else "no chat completion"


def _of_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of Anthropic's API to a chat completion.

    Its texts are joined, its thinking is left out. If it uses a tool, the tool's input is the answer.
    """
    blocks = list(map(_mapping, message["content"]))
    texts = [
        block.get("text") for block in blocks if block.get("type") == "text"
    ]
    content = "".join(text for text in texts if isinstance(text, str))
    tools = [block for block in blocks if block.get("type") == "tool_use"]
    if tools and (not content or tools[0].get("name") == _JSON_TOOL):
        # escaped: it may hold a lone surrogate
        content = json.dumps(tools[0].get("input"))
    usage = _mapping(message.get("usage"))
    # cached and written tokens stand beside those of the prompt
    counts = {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
    }
    completion = _completion(message, content, message.get("stop_reason"))
    return {**completion, "usage": {**usage, **counts}}


def _of_text(row: Mapping[str, Any]) -> _Parsed | str:
    """Parse an engine's row, whose answer is a text.

    Known are the rows of Ray Data LLM (`generated_text`, `num_input_tokens`, `num_generated_tokens`),
    SGLang (`text`, `meta_info`), and plain ones (`text` or `output`, and the names of a usage object).
    """
    flat = {
        **row,
        **_mapping(row.get("usage")),
        **_mapping(row.get("meta_info")),
    }
    finish = flat.get("finish_reason") or flat.get("stop_reason")
    if isinstance(finish, Mapping):  # of SGLang
        finish = finish.get("type")
    if finish == "abort":
        return _again("the engine stopped before its end", "aborted")
    for name in _TEXT_FIELDS:
        if isinstance(text := row.get(name), str):
            return _of_body(None, _completion(flat, text, finish))
    if "params" in row or "method" in row:
        return "is a request; the file of its replies is wanted"
    return _UNKNOWN


def _completion(
    row: Mapping[str, Any], content: str, finish: Any
) -> dict[str, Any]:
    """Make a chat completion with the model and the tokens of a row."""
    message = {"role": "assistant", "content": content}
    cached = _tokens(row, "cached_tokens")
    return {
        "model": row.get("model"),
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": _tokens(row, *_PROMPT_TOKENS),
            "completion_tokens": _tokens(row, *_COMPLETION_TOKENS),
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def _of_error_response(response: ErrorResponse) -> _Parsed:
    status, codes, message, *_ = response
    error = classify(status, codes, message)
    if error.kind != "too_long" and refuses_format(status, message):
        # not specific to this request; `ruler score` falls back to a simpler format by itself
        reason = (
            f"{error.reason}; ask for any text with -p response_format=null"
        )
        return _again(reason, "the answer format was refused")
    if error.kind == "refused" and limits_named(status, message):
        return _again(
            f"{error.reason.rstrip('.')}; {RENAMED}", "max_tokens was refused"
        )
    if error.scope == "group":
        return error, ""
    return error, "rate limit" if error.rate else f"status {status}"


def _of_error(status: int | None, error: Any) -> _Parsed:
    """Classify the error of a row without a body; a failure for good only if that is certain.

    `vllm run-batch` gives status 400 to every exception of its engine, with a sentence as `error`.
    """
    codes, message = error_of(orjson.dumps({"error": error}))
    if isinstance(error, Mapping):
        inner = _mapping(error.get("error")) or error
        code = inner.get("code")
        if label := _ENDED.get(str(code).removeprefix("batch_")):
            return _again(clean(message), label)
        status = (
            status or _status(code) or _STATUSES.get(str(inner.get("type")))
        )
        if status is not None and status >= 400:
            return _of_error_response(ErrorResponse(status, codes, message, {}))
    reason = f"the judge's engine failed: {clean(message or codes)}"
    too_long = classify(500, codes, message)
    if too_long.kind == "too_long":
        return replace(too_long, reason=reason), ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Parsed:
    return CallError("transport", reason, "call"), label


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and 100 <= value < 600 else None


def _tokens(counts: Mapping[str, Any], *names: str) -> int:
    """Return the first positive count under one of these names."""
    values = map(counts.get, names)
    return next((n for n in values if type(n) is int and n > 0), 0)
