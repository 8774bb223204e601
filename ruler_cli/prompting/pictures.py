"""Pictures of messages → as a request sends them: the tokens that they take, what cannot be sent, and smaller ones."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from threading import Lock

from ruler_cli.types import Picture, Request

LONGEST = 1568
"""Pixels of the longer side from which on a picture is made smaller: Anthropic's models see no more of one
(docs.anthropic.com, Vision), and OpenAI's and Gemini's tiles hardly more."""
MOST_BYTES = 3_750_000
"""Bytes of a picture that is sent: 5 MB in base64, Anthropic's limit for one."""
_MOST_PIXELS = 8000
"""The longest side that is sent as it is, Anthropic's limit too."""
_OPENED = 64_000_000
"""Pixels of a picture that is opened to make it smaller."""
_UNKNOWN = 1024
"""Pixels of each side of a picture of unknown size, for an estimate."""


def _is_large(picture: Picture) -> bool:
    side = max(picture.width, picture.height)
    return side > LONGEST or len(picture.data) > MOST_BYTES


@lru_cache(1)
def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def unsendable(picture: Picture) -> str:
    """Return why a picture cannot be sent, as a predicate; empty if it can."""
    if picture.error or not _is_large(picture):
        return picture.error
    pixels = picture.width * picture.height
    if pixels > _OPENED:
        return f"has {picture.width} × {picture.height} pixels, more than can be made smaller"
    side = max(picture.width, picture.height)
    if not _has_pillow() and (
        side > _MOST_PIXELS or len(picture.data) > MOST_BYTES
    ):
        return (
            f"has {picture.width} × {picture.height} pixels and {len(picture.data):,} bytes, more than judges take; "
            "with Pillow, `pip install 'ruler-cli[pictures]'`, it is made smaller"
        )
    return ""


def needs_less(picture: Picture) -> bool:
    """Return whether a picture is to be made smaller before it is sent."""
    return _is_large(picture) and _has_pillow()


_ONE = Lock()
"""Held while a picture is made smaller: one takes up to some hundred megabytes."""


@lru_cache(16)
def smaller(picture: Picture) -> Picture:
    """Return a picture without a side longer than LONGEST, with the same digest; as it is if it cannot be read.

    Takes some 0.1 s.
    """
    from PIL import Image, ImageOps

    try:
        with _ONE, Image.open(BytesIO(picture.data)) as image:
            ImageOps.exif_transpose(image, in_place=True)
            image.thumbnail((LONGEST, LONGEST))
            for media, mode, options in (
                (picture.media, "", {}),
                ("image/jpeg", "RGB", {"quality": 85}),
            ):
                out = BytesIO()
                made = image.convert(mode) if mode else image
                made.save(out, media.removeprefix("image/").upper(), **options)
                if out.tell() <= MOST_BYTES:
                    break
            width, height = image.size
    except Exception:  # noqa: BLE001 - a damaged picture, in any way: the judge says so
        return picture
    return replace(
        picture, data=out.getvalue(), media=media, width=width, height=height
    )


def with_smaller(request: Request) -> Request:
    """Return a request with its large pictures made smaller, as far as Pillow is installed."""
    placed = []
    for place, picture in request.pictures:
        if needs_less(picture):
            picture = smaller(picture)  # noqa: PLW2901
        placed.append((place, picture))
    return replace(request, pictures=tuple(placed))


_AREAS = {"claude": 750, "anthropic": 750, "qwen": 784}
"""Pixels of a token, by a word in the model's name (docs.anthropic.com, Vision; Qwen's patches of 28 × 28)."""
_RULES = (
    ("gemini", 0, 258, 768, LONGEST),
    ("4o-mini", 2833, 5667, 512, 768),
    ("o4-mini", 0, 1.72, 32, LONGEST),
    ("-mini", 0, 1.62, 32, LONGEST),
    ("-nano", 0, 2.46, 32, LONGEST),
    ("o1", 75, 150, 512, 768),
    ("o3", 75, 150, 512, 768),
    ("gpt-5", 70, 140, 512, 768),
    ("", 85, 170, 512, 768),
)
"""A word in the model's name, tokens of a picture and of each of its tiles, their side, and the picture's shorter side
(platform.openai.com, Images and vision; ai.google.dev, Token counting)."""
_MOST_TILES = 1536


def picture_tokens(picture: Picture, model: str) -> int:
    """Estimate the tokens that a picture takes in a prompt to a model, by the rule of its provider."""
    width = picture.width or _UNKNOWN
    height = picture.height or _UNKNOWN
    width, height = _within(width, height, max(width, height), LONGEST)
    for word, area in _AREAS.items():
        if word in model:
            return min(1600, math.ceil(width * height / area))
    rules = (rule for rule in _RULES if rule[0] in model)
    _, whole, tile, side, shorter = next(rules)
    if whole and picture.detail == "low":
        return whole
    width, height = _within(width, height, min(width, height), shorter)
    tiles = math.ceil(width / side) * math.ceil(height / side)
    return whole + math.ceil(tile * min(_MOST_TILES, tiles))


def _within(
    width: int,
    height: int,
    side: int,
    most: int,
) -> tuple[int, int]:
    """Return the sides of a picture that is made smaller until one of them, `side`, is at most so long."""
    ratio = min(1.0, most / side)
    return max(1, round(width * ratio)), max(1, round(height * ratio))
