"""A judge that looks at the PNGs that it is sent, and pictures for it: one colour each, which is its score.

with PictureJudge() as judge: …  --api-base judge.base
"""

from __future__ import annotations

import base64
import json
import re
import struct
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def png(score: float, width: int = 8, height: int = 6, note: int = 0) -> bytes:
    """Make a PNG whose colour is a score; `note` changes its bytes and not what is seen."""
    pixel = bytes((round(score * 250), 40, note))
    rows = (b"\0" + pixel * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def seen_in(data: bytes) -> float:
    """Return the score that the colour of a PNG is."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at = 8
    pixels = b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            pixels += data[at + 8 : at + 8 + size]
        at += size + 12
    return zlib.decompress(pixels)[1] / 250


def address(data: bytes, media: str = "image/png") -> str:
    """Return bytes as a data address."""
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def part(score: float, **more: Any) -> dict[str, Any]:
    """Return a picture as a part of an OpenAI message."""
    return {
        "type": "image_url",
        "image_url": {"url": address(png(score)), **more},
    }


def rollout(*parts: Any, text: str = "Done.") -> dict[str, Any]:
    """Return a trajectory whose agent does something, sees these parts, and ends with a text."""
    return {
        "messages": [
            {"role": "user", "content": "Make the window red."},
            {"role": "assistant", "content": "I press the button."},
            {"role": "user", "content": list(parts)},
            {"role": "assistant", "content": text},
        ]
    }


def screenshots(groups: int, rollouts: int) -> tuple[str, list[list[float]]]:
    """Return groups, as JSON lines, whose rollouts differ only in their screenshots, and the true scores."""
    truths = [
        [((7 * g + 31 * r) % 50) / 50 for r in range(rollouts)]
        for g in range(groups)
    ]
    lines = [
        json.dumps(
            {
                "group_id": f"g{g}",
                "trajectories": [rollout(part(t)) for t in own],
            }
        )
        for g, own in enumerate(truths)
    ]
    return "\n".join(lines) + "\n", truths


def look(content: Any) -> dict[str, float]:
    """Return the score of each rollout of a user message: the colour of its last picture."""
    scores: dict[str, float] = {}
    label = ""
    for each in (
        content
        if isinstance(content, list)
        else [{"type": "text", "text": content}]
    ):
        if each["type"] == "text":
            for mark in re.finditer(
                r'<trajectory id="(\w+)">|^</trajectory>$',
                each["text"],
                re.MULTILINE,
            ):
                label = mark[1] or ""
        elif label:
            data = each["image_url"]["url"].partition(";base64,")[2]
            scores[label] = seen_in(base64.b64decode(data))
    return scores


def pictures_in(body: dict[str, Any]) -> int:
    """Count the pictures of a request."""
    content = body["messages"][1]["content"]
    parts = [] if isinstance(content, str) else content
    return sum(each["type"] == "image_url" for each in parts)


class PictureJudge:
    """The server, in a thread; `requests` are the bodies that it was sent, `wait` the seconds of an answer.

    With a `refusal` it says that instead, if more than `most` pictures are sent; `{sent}` in it is their number.
    """

    def __init__(self, wait: float = 0.0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.refusal = ""
        self.most = -1
        judge = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answer with the score of each rollout that has pictures, and 0.5 for any other."""
                body = json.loads(
                    self.rfile.read(int(self.headers["Content-Length"]))
                )
                judge.requests.append(body)
                time.sleep(wait)
                sent = pictures_in(body)
                message = (
                    judge.refusal.format(sent=sent) if sent > judge.most else ""
                )
                said: dict[str, Any] = {"error": {"message": message}}
                reply = json.dumps(
                    said if message else judge.answer(body)
                ).encode()
                self.send_response(400 if message else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the chat completion for a request."""
        content = body["messages"][1]["content"]
        text = content if isinstance(content, str) else content[-1]["text"]
        wanted = json.loads(text.rpartition("trajectory_ids to score: ")[2])
        scores = look(content)
        entries = [
            {
                "trajectory_id": label,
                "explanation": "Seen.",
                "score": scores.get(label, 0.5),
            }
            for label in wanted
        ]
        message = {
            "role": "assistant",
            "content": json.dumps({"scores": entries}),
        }
        return {
            "model": "eyes",
            "choices": [
                {"index": 0, "message": message, "finish_reason": "stop"}
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 10,
                "total_tokens": 110,
            },
        }

    def __enter__(self) -> PictureJudge:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
