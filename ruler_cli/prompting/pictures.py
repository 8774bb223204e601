"""Pictures of messages → as a request sends them: their marks in texts, their tokens, and what cannot be sent."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from io import BytesIO
from threading import Lock

from ruler_cli.prompting.render import MARK
from ruler_cli.settings.models import AskSettings
from ruler_cli.tokens import BYTES_PER_TOKEN
from ruler_cli.types import Picture, Placed, Request

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


@lru_cache(1)
def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def _is_large(picture: Picture) -> bool:
    side = max(picture.width, picture.height)
    return side > LONGEST or len(picture.data) > MOST_BYTES


def needs_less(picture: Picture) -> bool:
    """Return whether a picture is to be made smaller before it is sent."""
    return _is_large(picture) and _has_pillow()


def unsendable(picture: Picture) -> str:
    """Return the reason why a picture cannot be sent, as a predicate; empty if it can."""
    if picture.error:
        return picture.error
    size = f"has {picture.width} × {picture.height} pixels"
    if picture.width * picture.height > _OPENED:
        return f"{size}, too large to be made smaller"
    side = max(picture.width, picture.height)
    taken = side <= _MOST_PIXELS and len(picture.data) <= MOST_BYTES
    if taken or _has_pillow():
        return ""
    return (
        f"{size} and {len(picture.data):,} bytes, more than judges take; "
        "with Pillow, `pip install 'ruler-cli[pictures]'`, it is made smaller"
    )


_LOCK = Lock()
"""Held while a picture is made smaller: one takes up to some hundred megabytes."""


@lru_cache(16)
def smaller(picture: Picture) -> Picture:
    """Return a picture without a side longer than LONGEST, with the same digest; as it is if it cannot be read.

    Takes some 0.1 s.
    """
    from PIL import Image, ImageOps

    media = picture.media
    try:
        with _LOCK, Image.open(BytesIO(picture.data)) as image:
            ImageOps.exif_transpose(image, in_place=True)
            image.thumbnail((LONGEST, LONGEST))
            out = BytesIO()
            image.save(out, media.removeprefix("image/").upper())
            if out.tell() > MOST_BYTES:
                media = "image/jpeg"
                out = BytesIO()
                image.convert("RGB").save(out, "JPEG", quality=85)
            width, height = image.size
    except Exception:  # noqa: BLE001 - a damaged picture, in any way: the judge says so
        return picture
    return replace(
        picture,
        data=out.getvalue(),
        media=media,
        width=width,
        height=height,
    )


def with_smaller(request: Request) -> Request:
    """Return a request with its large pictures made smaller, as far as Pillow is installed."""
    pictures = []
    for place, picture in request.pictures:
        sent = smaller(picture) if needs_less(picture) else picture
        pictures.append((place, sent))
    return replace(request, pictures=tuple(pictures))


_AREAS = {"claude": 750, "anthropic": 750, "qwen": 784}
"""Pixels of a token, by a word in the model's name (docs.anthropic.com, Vision; Qwen's patches of 28 × 28)."""
_RULES = (
    ("gemini", 0, 258, 768, LONGEST),
    ("4o-mini", 2833, 5667, 512, 768),
    ("-mini", 0, 1.72, 32, LONGEST),
    ("-nano", 0, 2.46, 32, LONGEST),
    ("", 85, 170, 512, 768),
)
"""A word in the model's name, tokens of a picture and of each of its tiles, their side, and the picture's shorter side
(platform.openai.com, Images and vision; ai.google.dev, Token counting)."""
_MOST_TILES = 1536


def picture_tokens(
    picture: Picture,
    model: str,
) -> int:
    """Estimate the tokens that a picture takes in a prompt to a model, by the rule of its provider."""
    width = picture.width or _UNKNOWN
    height = picture.height or _UNKNOWN
    width, height = _within(
        width,
        height,
        max(width, height),
        LONGEST,
    )
    for word, area in _AREAS.items():
        if word in model:
            return min(1600, math.ceil(width * height / area))
    rules = (rule for rule in _RULES if rule[0] in model)
    _, whole, tile, side, shorter = next(rules)
    if whole and picture.detail == "low":
        return whole
    width, height = _within(
        width,
        height,
        min(width, height),
        shorter,
    )
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


def shown_in(
    text: str,
    pictures: Mapping[str, Picture],
) -> list[Picture]:
    """Return the pictures whose marks stand in a text, in order."""
    if not pictures:
        return []
    return [pictures[mark[2]] for mark in MARK.finditer(text)]


def size_of(
    text: str,
    pictures: Mapping[str, Picture],
    model: str,
) -> int:
    """Return the bytes of a text, with its pictures as text of as many tokens."""
    tokens = 0
    for picture in shown_in(text, pictures):
        tokens += picture_tokens(picture, model)
    return len(text.encode()) + int(tokens * BYTES_PER_TOKEN)


def with_last(
    text: str,
    most: int | None,
) -> str:
    """Leave out the pictures of a text but for the last `most`, and say so in their places."""
    if most is None:
        return text
    first = len(MARK.findall(text)) - most
    if first <= 0:
        return text
    return MARK.sub(r"(\1 is not shown)", text, first)


def placed(
    text: str,
    pictures: Mapping[str, Picture],
) -> tuple[str, Placed]:
    """Return a text with the numbers of its pictures alone, and the pictures with their places in it."""
    if not pictures:
        return text, ()
    plain = ""
    places = []
    at = 0
    for mark in MARK.finditer(text):
        plain += f"{text[at : mark.start()]}({mark[1]})"
        places.append((len(plain), pictures[mark[2]]))
        at = mark.end()
    return plain + text[at:], tuple(places)


def tokens_of_pictures(
    pictures: Placed,
    ask: AskSettings,
) -> int:
    """Return the tokens of pictures, as the judge's model counts them."""
    tokens = 0
    for _, picture in pictures:
        tokens += picture_tokens(picture, ask.judge_model)
    return tokens
