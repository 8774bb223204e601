"""Reply files → a ledger: rows of batch APIs and engines, in any order and as often as they come.

Read are output files of the OpenAI batch API and of tools that copy it (`vllm run-batch`), Anthropic's batch
results, and rows of a user's own: a chat completion, or a text, beside a `custom_id`. An answer replaces a
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
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers.lines import lines
from ruler_cli.files.location import Location
from ruler_cli.files.source import decompressed
from ruler_cli.files.values import JsonObject
from ruler_cli.judges.chat_completions import limits_named
from ruler_cli.judges.provider_errors import (
    classify,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.judges.replies import parse_foreign
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.types import CallError, Reply, clean, words_of

MAX_LINE_BYTES = 32 << 20
"""Bytes of the longest line that is read."""
_TOO_LONG = "is longer than 32 MiB"
_UNKNOWN = "holds no reply of a known form"
_KEY = re.compile(r"[0-9a-fA-F]{32}")
_TOGETHER = 500
"""Rows whose answers are written together."""
_MAX_REJECTED = 20
"""Rejected rows that are listed one by one."""
_ENDED = {"expired": "expired", "cancelled": "canceled", "canceled": "canceled"}
"""Error codes, also with the prefix `batch_`, of requests that were not processed when the batch ended."""
_STATUSES = {
    "invalid_request_error": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""HTTP statuses of Anthropic's error types; its batch results hold the type alone. Others may pass."""
_STATUS = re.compile("[45][0-9][0-9]")
_FIELDS = words_of("id type model choices content stop_reason usage")
"""Fields of a chat completion or a message; other fields of the row are columns of its input."""
_TEXT_FIELDS = words_of("generated_text output text response")
"""Fields with the answer in an engine's row, the most reliable first: `text` may be a column of the input."""
_JSON_TOOL = "json_tool_call"
"""Tool through which litellm requests JSON from a model without schema support."""


Row = tuple[str, int, bytes | str]
"""Place, line number and text of a row; or why it cannot be read, in half a sentence."""
_Parsed = tuple[Reply | CallError, str]
"""Answer and label of a row."""


class ReplyRow(NamedTuple):
    """A row of a reply file: the id of its request, and the reply or an error.

    A CallError of scope "group" is a failure for good. After any other error the request is to be sent again;
    `label` is the reason in a few words, from a small set.
    """

    custom_id: str
    answer: Reply | CallError
    label: str = ""


class RejectedRow(NamedTuple):
    """A malformed or foreign row: its place for a message, line number, and reason (half a sentence)."""

    where: str
    line: int
    reason: str


@dataclass(slots=True)
class ImportResult:
    """Counts of an import of `rows` rows.

    `new` answers were added, `repeated` are answers to requests that had one. `foreign` rows have a custom_id that is
    not ours, `unreadable` rows are not replies; `rejected` lists the first of both. `failed` counts the requests that
    failed for good, by kind, `again` those to send again, by reason. `messages` holds the first sentence of each kind
    or reason.
    """

    rows: int = 0
    new: int = 0
    repeated: int = 0
    foreign: int = 0
    unreadable: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict, compare=False)


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
    failed = dict[bytes, tuple[str, str]]()
    replies = 0
    ours = _rows_of_ours(rows, keys, result)
    while together := list(islice(ours, _TOGETHER)):
        answers = []
        for key, row in together:
            answer = row.answer
            for_good = False
            if isinstance(answer, Reply):
                replies += 1
            else:
                failure = row.label, answer.reason
                failed[key] = max(failure, failed.get(key, failure))
                for_good = answer.scope == "group"
            # an error that a further request may avoid is not stored
            if answer.body or for_good:
                name = model or getattr(answer, "model", "") or "unknown"
                answers.append((key, name, answer))
        # sorted keys touch fewer pages of the index; answers to one request keep their order
        answers.sort(key=itemgetter(0))
        result.new += ledger.keep_all(answers)
    result.repeated = replies - result.new
    for key, (label, reason) in failed.items():
        kept = ledger.find(key)
        if isinstance(kept, CallError):
            result.failed[kept.kind] += 1
            result.messages.setdefault(kept.kind, kept.reason)
        elif kept is None:
            result.again[label] += 1
            result.messages.setdefault(label, reason)
    return result


def _rows_of_ours(
    rows: Iterable[Row], keys: Container[bytes] | None, result: ImportResult
) -> Iterator[tuple[bytes, ReplyRow]]:
    """Yield the key and the parsed row of each of our requests; count all rows."""
    for where, number, text in rows:
        result.rows += 1
        try:
            row = read_row(text)
        except UnreadableError as error:
            result.unreadable += 1
            reason = error.reason
        else:
            name = row.custom_id
            key = bytes.fromhex(name) if _KEY.fullmatch(name) else b""
            if key and (keys is None or key in keys):
                yield key, row
                continue
            result.foreign += 1
            reason = f"has a foreign custom_id: {clean(name[:64])!r}"
        result.rejected.append(RejectedRow(where, number, reason))
        del result.rejected[_MAX_REJECTED:]


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


def read_row(line: bytes | str) -> ReplyRow:
    """Parse one line, without its LF; UnreadableError if it is not a row, or is the reason why."""
    if isinstance(line, str):
        raise UnreadableError(line)
    try:
        try:
            row = parse_foreign(line)
        except orjson.JSONDecodeError:
            row = json.loads(line)  # NaN, as Python writes it
    except (ValueError, RecursionError):
        raise UnreadableError("is cut off, or not JSON") from None
    if not isinstance(row, Mapping):
        raise UnreadableError("is not a JSON object")
    name = row.get("custom_id")
    if not isinstance(name, str):
        raise UnreadableError("has no custom_id")
    try:
        return ReplyRow(name, *_parse(row))
    except (RecursionError, TypeError):
        # orjson reads deeper nesting than it writes
        raise UnreadableError(_UNKNOWN) from None


def _parse(row: JsonObject) -> _Parsed:
    """Parse a row of any known form, else UnreadableError; the first form that fits decides."""
    result = _mapping(row.get("result"))  # Anthropic's
    response = _mapping(row.get("response"))  # OpenAI's
    label = _ENDED.get(str(result.get("type")))
    if label:
        return _again("its batch ended before", label)
    code = response.get("status_code")
    status = code if isinstance(code, int) else 0
    answer = result.get("message", response.get("body"))
    if answer is not None:
        return _of_body(status or 200, answer)
    reply = {name: row[name] for name in _FIELDS if name in row}
    for body in (reply, response):
        if "choices" in body or body.get("type") == "message":
            return _of_body(200, body)
    error = result.get("error") or row.get("error")
    if error:
        return _of_error(status, error)
    if "status_code" in response:
        return _again("the row holds no answer", "no answer")
    return _of_text(row)


def _of_body(status: int, body: Any) -> _Parsed:
    """Read the body of a response as in a live call."""
    if isinstance(_mapping(body).get("content"), list):
        body = _of_message(body)
    data = body.encode() if isinstance(body, str) else orjson.dumps(body)
    answer = read_response(status, data)
    if isinstance(answer, Reply):
        return answer, ""
    if isinstance(answer, CallError):
        return answer, "no chat completion"
    status, codes, message, _ = answer
    error = classify(status, codes, message)
    refused = refuses_format(status, message) or limits_named(status, message)
    if refused and error.kind != "too_long":
        # not specific to this request; `ruler score` finds by itself what is taken
        return _again(
            f"{error.reason}; set what it takes with -p, "
            "e.g. response_format=null or max_completion_tokens=8000",
            "the form of the answer was refused",
        )
    if error.scope == "group":
        return error, ""
    label = "rate limit" if error.rate else f"status {status}"
    return error, label


def _of_message(message: JsonObject) -> JsonObject:
    """Make a chat completion of a message of Anthropic's API. If it uses the tool for JSON, that is the answer."""
    content = message["content"]
    for block in map(_mapping, content):
        if block.get("name") == _JSON_TOOL:
            # escaped: it may hold a lone surrogate
            content = json.dumps(block.get("input"))
    return _completion(message, content, message.get("stop_reason"))


def _of_text(row: JsonObject) -> _Parsed:
    """Parse a row of the user's own, whose answer is a text."""
    finish = row.get("finish_reason")
    for name in _TEXT_FIELDS:
        text = row.get(name)
        if isinstance(text, str):
            return _of_body(200, _completion(row, text, finish))
    raise UnreadableError(_UNKNOWN)


def _completion(row: JsonObject, content: Any, finish: Any) -> JsonObject:
    message = {"role": "assistant", "content": content}
    return {
        "model": row.get("model"),
        "choices": [{"message": message, "finish_reason": finish}],
        "usage": row.get("usage"),
    }


def _of_error(status: int, error: Any) -> _Parsed:
    """Classify the error of a row without a body; a failure for good only if that is certain.

    `vllm run-batch` gives status 400 to every exception of its engine, with a sentence as `error`.
    """
    codes, message = error_of(orjson.dumps({"error": error}))
    for code in codes.split():
        label = _ENDED.get(code.removeprefix("batch_"))
        if label:
            return _again(clean(message), label)
        status = status or _STATUSES.get(code, 0)
        if not status and _STATUS.fullmatch(code):
            status = int(code)
    if status >= 400 and isinstance(error, Mapping):
        return _of_body(status, {"error": error})
    reason = f"the judge's engine failed: {clean(message or codes)}"
    too_long = classify(500, codes, message)
    if too_long.kind == "too_long":
        return replace(too_long, reason=reason), ""
    return _again(reason, "engine error")


def _again(reason: str, label: str) -> _Parsed:
    return CallError("transport", reason, "call"), label


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
