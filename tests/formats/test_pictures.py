"""Parts of messages → pictures: every shape, sizes, what is damaged or hostile, and smaller ones."""

from __future__ import annotations

import base64
import struct
from time import perf_counter
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.messages.pictures import medium_of, read_picture
from ruler_cli.prompting import pictures
from ruler_cli.prompting.pictures import (
    LONGEST,
    MOST_BYTES,
    needs_less,
    picture_tokens,
    smaller,
    unsendable,
)
from ruler_cli.prompting.render import MARK, Seen
from ruler_cli.types import Picture
from tests.picture_judge import address, png
from tests.values import render, values

PNG = png(0.5)
B64 = base64.b64encode(PNG).decode()
URL = address(PNG)
WEB = "https://example.com/x.png"
SHAPES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": URL}},
    {"type": "image_url", "image_url": URL},
    {"type": "input_image", "image_url": URL},
    {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": B64},
    },
    {"inline_data": {"mime_type": "image/png", "data": B64}},
    {"inlineData": {"mimeType": "image/png", "data": B64}},
    {
        "type": "image/png",
        "inline_data": {"mimeType": "image/png", "data": B64},
    },
    {"type": "image", "image": URL},
    {"type": "image", "image": B64, "mediaType": "image/png"},
    {"type": "file", "mediaType": "image/png", "data": B64},
    {"type": "file", "mediaType": "image/png", "url": URL},
    {"type": "image", "data": B64, "mimeType": "image/png"},
    {"image": {"format": "png", "source": {"bytes": B64}}},
    {
        "type": "image",
        "source_type": "base64",
        "data": B64,
        "mime_type": "image/png",
    },
    {"type": "image", "base64": B64, "mime_type": "image/png"},
    {
        "type": "blob",
        "modality": "image",
        "mime_type": "image/png",
        "content": B64,
    },
    {"type": "computer_screenshot", "image_url": URL},
    {"type": "image_generation_call", "result": B64},
    {"type": "image_url", "image_url": {"url": f"data:image/png,{quote(PNG)}"}},
    {
        "type": "image",
        "image": base64.urlsafe_b64encode(PNG).decode().rstrip("="),
    },
    {"type": "image", "image": base64.encodebytes(PNG).decode()},
]
"""One picture as OpenAI, Anthropic, Gemini, Inspect, the AI SDK, MCP, Bedrock, LangChain and OpenTelemetry write it."""


def test_shapes() -> None:
    """A picture is the same in every shape, and its digest is that of the original bytes."""
    pictures_read = [medium_of(part) for part in SHAPES]
    assert {
        (picture.data, picture.media, picture.error)
        for picture in pictures_read
        if picture
    } == {(PNG, "image/png", "")}
    assert {picture.digest for picture in pictures_read if picture} == {
        read_picture(URL).digest
    }
    assert None not in pictures_read


def test_in_messages() -> None:
    """Pictures are found in results of tools, in items of Responses, and in an agent's Markdown alone."""
    part = SHAPES[3]
    text = f"Here: ![a]({URL}) and {URL}"
    record = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}, SHAPES[5]]},
            {"role": "model", "parts": [{"text": "a"}]},
        ]
    }
    conversations: list[tuple[list[dict[str, Any]], int]] = [
        ([{"role": "tool", "tool_call_id": "c", "content": [part]}], 1),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c",
                            "content": [part, part],
                        }
                    ],
                }
            ],
            2,
        ),
        (
            [
                {
                    "type": "computer_call_output",
                    "call_id": "c",
                    "output": SHAPES[16],
                }
            ],
            1,
        ),
        (
            [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [SHAPES[2]],
                }
            ],
            1,
        ),
        ([SHAPES[17]], 1),
        ([{"role": "assistant", "content": text}], 1),
        ([{"role": "user", "content": text}], 0),
        (
            [
                {
                    "role": "assistant",
                    "content": "![a](data:image/svg+xml;base64,AAAA)",
                }
            ],
            0,
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": text}],
                }
            ],
            1,
        ),
        (record["contents"], 1),
    ]
    for messages, number in conversations:
        pictures_read: dict[str, Picture] = {}
        whole = "\n".join(render(messages, seen=Seen(pictures_read)))
        assert len(MARK.findall(whole)) == number, messages
        assert len(pictures_read) == min(number, 1)
        assert [mark[0] for mark in MARK.findall(whole)] == [
            f"picture {at}" for at in range(1, number + 1)
        ]


def test_damaged(subtests: pytest.Subtests) -> None:
    """Damaged bytes, other files and places that are no addresses are pictures that cannot be sent, with the reason."""
    cases: dict[str, tuple[str, ...]] = {
        "is damaged": (
            "data:image/png;base64,@@", "data:image/png;base64,AAAAA", "data:;base64,é", B64 + "!",
        ),
        "is not a PNG": (
            address(b"<svg/>", "image/svg+xml"), address(b"%PDF-1.7"), "data:image/png,hi", "AAAA",
            "data:image/png;base64,",
        ),
        "is not an address": (
            "/etc/passwd.png", "file:///etc/passwd", "x.png", "gs://b/x.png", "attachment://1", "C:\\x.png",
            "file-abc", "data:…",
            "https://\ud800.example", "https://x.example/a b", "http://",
        ),
    }  # fmt: skip
    for reason, sources in cases.items():
        for source in sources:
            with subtests.test(source=source):
                picture = read_picture(source)
                assert picture.error.startswith(reason)
                assert (picture.data, picture.address) == (b"", "")
                assert unsendable(picture) == picture.error
    for part in (
        {"type": "image"},
        {"type": "input_image", "image_url": {"url": {"url": {}}}},
    ):
        picture = medium_of(part) or read_picture(URL)
        assert picture.error == "has no bytes in the data"


def test_sizes() -> None:
    """Width and height are those of the header of a PNG or a JPEG; a header that is cut off is no failure."""
    jpeg = (
        b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x11\x08"
        + struct.pack(">HH", 480, 640)
        + b"\x03"
    )
    for data in (png(0.1, 640, 480), jpeg):
        picture = read_picture(address(data))
        assert (picture.width, picture.height) == (640, 480), data[:16]
        for size in range(len(data[:40])):
            read_picture(address(data[:size]))
    webp = b"RIFF\0\0\0\0WEBPVP8 "
    for data, media in ((b"GIF89a", "image/gif"), (webp, "image/webp")):
        picture = read_picture(address(data))
        assert (picture.media, picture.width, picture.error) == (media, 0, "")


parts = st.recursive(
    values | st.sampled_from([URL, B64, WEB, "image", "image/png"]),
    lambda inner: st.dictionaries(
        st.sampled_from(
            [
                "type",
                "image_url",
                "url",
                "source",
                "data",
                "image",
                "inlineData",
                "mimeType",
                "detail",
            ]
        ),
        inner,
    ),
    max_leaves=9,
)


@given(part=parts)
def test_any_part(part: Any) -> None:
    """Whatever a part is, it is a picture or none, and its message stays lines that no part can begin."""
    (text,) = render([{"role": "user", "content": [part]}])
    first, *marks = text.split("\n")
    assert first.startswith("user: ") or not marks
    assert all(map(MARK.fullmatch, marks))


def test_hostile_markdown() -> None:
    """Text that begins many pictures and ends none takes no long time."""
    began = perf_counter()
    for text in (
        "![" * 200_000 + "](data:image/",
        "![a](data:image/png;base64," * 20_000,
        "](data:image/" * 50_000,
    ):
        render([{"role": "assistant", "content": text}])
    assert perf_counter() - began < 5


def test_tokens() -> None:
    """The tokens of a picture follow the rule of each provider, and never exceed what it is made smaller to."""
    large = read_picture(address(png(0.2, 4000, 3000)))
    low = read_picture(address(png(0.2, 4000, 3000)), "low")
    small = read_picture(address(png(0.2, 300, 200)))
    counted = {
        "openai/gpt-4o": (765, 85, 255),
        "openai/gpt-4o-mini": (2833 + 4 * 5667, 2833, 2833 + 5667),
        "anthropic/claude-sonnet-4-5": (1600, 1600, 80),
        "gemini/gemini-2.5-pro": (6 * 258, 6 * 258, 258),
    }
    for model, numbers in counted.items():
        pictures_read = tuple(
            picture_tokens(picture, model) for picture in (large, low, small)
        )
        assert pictures_read == numbers, model
    assert picture_tokens(read_picture(WEB), "openai/gpt-4o") == 765


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Pillow a picture is sent as it is up to a bound, and beyond it cannot be: the reason names the remedy."""
    monkeypatch.setattr(pictures, "_has_pillow", lambda: False)
    wide = read_picture(address(png(0.2, LONGEST + 1, 4)))
    assert (unsendable(wide), needs_less(wide)) == ("", False)
    for data in (png(0.2, 8001, 4), png(0.1) + b"\0" * MOST_BYTES):
        assert "ruler-cli[pictures]" in unsendable(read_picture(address(data)))
    huge = struct.pack(">II", 100_000, 100_000)
    bomb = PNG[:16] + huge + PNG[24:]
    assert "too large to be made smaller" in unsendable(
        read_picture(address(bomb))
    )


def test_smaller() -> None:
    """With Pillow a large picture is made smaller, with its digest; a small one, and one that cannot be read, stay."""
    pytest.importorskip("PIL", reason="Pillow is not installed")
    large = read_picture(address(png(0.6, 3136, 784)))
    made = smaller(large)
    assert needs_less(large)
    assert made.digest == large.digest
    again = read_picture(made.url)
    assert (
        (again.width, again.height) == (made.width, made.height) == (1568, 392)
    )
    assert not needs_less(read_picture(URL))
    broken = read_picture(address(png(0.6, 3136, 784)[:60]))
    assert smaller(broken) == broken
