"""Sound, video and files in messages, which no judge is sent; base64 and ciphertext, which no judge can read."""

from __future__ import annotations

import base64
import json
import random
import string
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from ruler_cli.messages.binary import mark_of, without_binary
from ruler_cli.messages.pictures import medium_of
from ruler_cli.prompting.render import MARK, Seen
from ruler_cli.types import Picture
from tests.conftest import ROOT, Ruler, write
from tests.conftest import read as read_file
from tests.values import render

DRAWN = random.Random(7)
BYTES = DRAWN.randbytes(9000)
B64 = base64.b64encode(BYTES).decode()
URL = "https://example.com/x"
LANGFUSE = "@@@langfuseMedia:type={}|id=cc48838a-3da8|source=base64_data_uri@@@"
MLFLOW = "mlflow-attachment://0b1c?content_type={}&trace_id=tr-1"
ROWS = (ROOT / "tests/data/media.jsonl").read_text()
PARTS = [
    json.loads(
        row.replace('"B64"', f'"{B64}"')
        .replace("base64,B64", f"base64,{B64}")
        .replace("URL", URL)
    )
    for row in ROWS.splitlines()
]
AUDIO, VIDEO, FILE = (
    next(row["part"] for row in PARTS if row["kind"] == kind)
    for kind in ("audio", "video", "file")
)


def test_media(subtests: pytest.Subtests) -> None:
    """Sound, video and files are told in every shape, cannot be sent, and are the same only if their bytes are."""
    for kind, part in map(dict.values, PARTS):
        if kind != "text":
            with subtests.test(part=str(part)[:80]):
                medium = medium_of(part)
                assert medium
                assert (medium.kind, bool(medium.error)) == (kind, True)
                text = json.dumps(part)
                for old, new in (
                    (B64, B64[4:]),
                    (URL, URL + "2"),
                    ("_1", "_2"),
                    ("f1", "f2"),
                    ("-1", "-2"),
                    ("b/x", "b/y"),
                ):
                    if old in text:
                        other = medium_of(json.loads(text.replace(old, new)))
                        assert other
                        assert other.digest != medium.digest
                (lines,) = render([{"role": "user", "content": [part]}])
                assert (
                    lines == f'user: "[{kind} 1]"\n({kind} 1 {medium.digest})'
                )


def test_texts_of_files() -> None:
    """A file whose text stands in the message, and a part that is only named like one, is text."""
    for part in [row["part"] for row in PARTS if row["kind"] == "text"]:
        (line,) = render([{"role": "user", "content": [part]}])
        assert "x" in line.removeprefix("user: ").replace("text", ""), part


REFERENCES = {
    "picture": (LANGFUSE.format("image/png"), MLFLOW.format("image/png")),
    "audio": (LANGFUSE.format("audio/wav"), MLFLOW.format("audio/wav")),
    "file": (
        LANGFUSE.format("application/pdf"),
        MLFLOW.format("application/pdf"),
    ),
}


def test_references_of_tracers() -> None:
    """The text that a tracer writes in place of a medium is one that the data does not hold, wherever it stands."""
    for kind, references in REFERENCES.items():
        for reference in references:
            for message in (
                {"role": "user", "content": reference},
                {"role": "tool", "content": json.dumps({"shot": reference})},
                {"role": "assistant", "content": [{"type": "text", "text": f"See {reference}!"}]},
                {"role": "assistant", "content": "Done.", "shown": reference},
            ):  # fmt: skip
                found: dict[str, Picture] = {}
                text = "\n".join(render([message], seen=Seen(found)))
                (medium,) = found.values()
                assert (medium.kind, MARK.findall(text)) == (
                    kind,
                    [(f"{kind} 1", medium.digest)],
                )
                assert reference not in text
    part = {"type": "image_url", "image_url": {"url": REFERENCES["picture"][0]}}
    held = medium_of(part)
    assert held
    assert "does not hold its bytes" in held.error
    for plain in (
        "@@@langfuseMedia:@@@",
        "Write mlflow-attachment://ID in its place.",
    ):
        assert render([{"role": "user", "content": plain}]) == [
            f'user: "{plain}"'
        ]


def rollout(*parts: Any) -> dict[str, Any]:
    """An agent that answers with these parts."""
    return {
        "messages": [
            {"role": "user", "content": "Say it."},
            {"role": "assistant", "content": [*parts]},
        ]
    }


def test_scored(tmp_path: Path, ruler: Ruler) -> None:
    """A rollout with sound, video, a file or a reference fails with reason and remedy; with `leave` it is scored."""
    words = {"type": "text", "text": "I say it."}
    reference = {"type": "text", "text": LANGFUSE.format("image/png")}
    media = [AUDIO, VIDEO, FILE, reference]
    group = [
        rollout(words),
        rollout({**words, "text": "No."}),
        *(rollout(words, one) for one in media),
    ]
    write(tmp_path / "in.jsonl", [{"group_id": 1, "trajectories": group}])
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline")
    (scored,) = read_file(tmp_path / "out.jsonl")
    assert [one["reward"] is None for one in scored["trajectories"]] == [
        False
    ] * 2 + [True] * 4
    assert done.returncode == 1
    for kind in ("audio", "video", "file", "picture"):
        assert f"{kind} 1 " in done.stderr
    assert done.stderr.count("--pictures leave") == 4
    checked = ruler("check", "in.jsonl", "-m", "offline")
    assert "1 rollout cannot be scored: audio 1" in " ".join(
        checked.stdout.split()
    )
    left = ruler(
        "score",
        "in.jsonl",
        "left.jsonl",
        "-m",
        "offline",
        "--pictures",
        "leave",
    )
    assert left.returncode == 0, left.stderr
    (scored,) = read_file(tmp_path / "left.jsonl")
    assert scored["ruler"]["pictures_left_out"] == 4
    two = [
        rollout({**AUDIO, "input_audio": {"data": data}})
        for data in (B64, B64[4:])
    ]
    write(tmp_path / "in.jsonl", [{"group_id": 1, "trajectories": two}])
    ruler(
        "score", "in.jsonl", "two.jsonl", "-m", "offline", "--pictures", "leave"
    )
    (partial,) = tmp_path.glob("two.jsonl*")
    (scored,) = read_file(partial)
    assert "rollouts 1 and 2 differ only in media" in scored["ruler"]["reason"]


def random_text(alphabet: str, size: int = 9000) -> str:
    """A text of characters drawn at random."""
    return "".join(DRAWN.choices(alphabet, k=size))


WRAPPED = base64.encodebytes(BYTES).decode()
TOKEN = ".".join(
    base64.urlsafe_b64encode(
        json.dumps({"n": [*range(1500)]}).encode()
    ).decode()
    for _ in "ab"
)
BINARY = {
    "as it is": B64, "for addresses": base64.urlsafe_b64encode(BYTES).decode(), "in lines": WRAPPED,
    "in lines of Windows": WRAPPED.replace("\n", "\r\n"), "in a data address": f"data:image/png;base64,{B64[:1200]}",
    "in JSON": json.dumps({"shot": B64}),
    "in lines in JSON": json.dumps({"shot": WRAPPED}),
    "in JSON in JSON": json.dumps(json.dumps({"shot": WRAPPED})),
}  # fmt: skip
KEPT = {
    "short": B64[:3000], "hex": BYTES.hex(),
    "DNA": random_text("ACGT"), "a protein": random_text("ACDEFGHIKLMNPQRSTVWY"),
    "digits": random_text(string.digits), "letters": random_text(string.ascii_letters), "one letter": "a" * 9000,
    "minified code": random_text(string.ascii_letters + string.digits + "(){};=.,"), "a log-in token": TOKEN,
    "text in base64": base64.b64encode("Wie schön, 13 Vögel. ".encode() * 400).decode(),
    "names in a row": "GetUserNameForOrderId2" * 400, "silence": base64.b64encode(bytes(9000)).decode(),
    "a path": "/usr/lib/python3.11/site-packages" * 300, "words": "the quick brown fox " * 500,
    "a short address": f"data:image/png;base64,{B64[:900]}",
}  # fmt: skip


def test_binary_text(subtests: pytest.Subtests) -> None:
    """Some kilobytes of base64 become a mark with their size, and what is not surely binary stays."""
    for law, text in BINARY.items():
        with subtests.test(law):
            (line,) = render([{"role": "tool", "content": text}])
            assert len(line) < 200
            assert "characters of base64 left out by ruler" in line
            assert json.loads(line.removeprefix("tool: "))
    for law, text in KEPT.items():
        with subtests.test(law):
            assert without_binary(text) == text
    one, other = (without_binary(text) for text in (B64, B64[:-8] + "AAAAAAA="))
    assert one != other
    assert one == mark_of(B64)
    assert "12,000" in one


CIPHER = "gAAAAABk" * 30
CIPHERS: tuple[Any, ...] = (
    [{"type": "web_search_tool_result", "content": [{"title": "T", "encrypted_content": CIPHER}]}],
    [{"type": "redacted_thinking", "data": CIPHER}],
    [{"x": {"data": CIPHER, "parts": [{"type": "redacted_thinking", "data": CIPHER}]}}],
    [{"type": "code", "encrypted_stdout": CIPHER}],
    json.dumps({"found": [{"encrypted_content": CIPHER}]}),
    json.dumps({"found": json.dumps({"encrypted_content": CIPHER})}),
)  # fmt: skip


def test_ciphertext() -> None:
    """Ciphertext is left out at any depth, so rollouts do not differ in it; a task about a cipher keeps its texts."""
    for content in CIPHERS[:2] + CIPHERS[3:]:
        message = {
            "role": "assistant",
            "content": content,
            "encrypted_content": CIPHER,
        }
        assert CIPHER not in render([message])[0]
        other = json.loads(json.dumps(message).replace(CIPHER, "hBBB" + CIPHER))
        assert render([other]) == render([message])
    nested = render([{"role": "assistant", "content": CIPHERS[2]}])[0]
    assert nested.count(CIPHER) == 1
    for text in (
        '{"encrypted_content":"Uryyb"}',
        json.dumps({"encrypted_content": "Attack at dawn. " * 9}),
    ):
        assert render([{"role": "tool", "content": text}]) == [
            "tool: " + json.dumps(json.loads(text), separators=(",", ":"))
        ]


def test_time() -> None:
    """No text takes long to be looked through."""
    began = perf_counter()
    line = B64[:76]
    for text in (
        ("a" * 3999 + " ") * 500, "data:" * 400_000, (line + "\\n") * 14 + "!", ((line + "\\n") * 14 + "!") * 1000,
        '"encrypted_content":' * 100_000, "[" * 500_000, "\\" * 2_000_000, "@@@langfuseMedia:type=" * 100_000,
        "mlflow-attachment://" * 100_000, ("A" * 60 + "\\" * 500) * 500,
    ):  # fmt: skip
        render([{"role": "tool", "content": text}])
    assert perf_counter() - began < 10


def test_attachments() -> None:
    """Files beside the content of a message are its files, under both names, as objects or as ids."""
    for beside in ({"attachments": [{"file_id": "f_1"}]}, {"files": ["f_1"]}):
        message = {"role": "assistant", "content": "See it.", **beside}
        (line,) = render([message])
        text, mark = line.split("\n")
        assert text == 'assistant: "See it.\\n[file 1]"'
        assert mark.startswith("(file 1 ")
        other = json.loads(json.dumps(message).replace("f_1", "f_2"))
        assert render([other]) != [line]
