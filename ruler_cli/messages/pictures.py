"""Parts of messages → pictures and other media: their bytes and sizes.

No address is opened here, and no file: the bytes stand in the record, or a judge is handed an address on the web.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from itertools import chain
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from ruler_cli.files.values import (
    JsonObject,
    first,
    first_of,
    is_object,
    is_text,
    lookup,
    words,
)
from ruler_cli.messages.form import Text
from ruler_cli.types import Picture

_HOLDERS = words(
    "image_url source image url inline_data inlineData file_data fileData input_audio audio audio_url video video_url "
    "file document resource"
)
"""Fields of a part that hold a picture or another medium as an object, in several dialects."""
_BYTES = words(
    "blob file_data url data image_url image base64 bytes b64_json result file_uri fileUri uri content path file_id "
    "file_url audio audio_url video video_url document"
)
"""Fields that hold its bytes or its address as a text."""
_MEDIA = words("media_type mediaType mime_type mimeType mime")
_MEDIUM = re.compile(
    r"((in|out)put_|computer_)?(image|screenshot|audio|video|file|document|pdf)([-_]?url|_file|_generation_call)?"
    r"|(image|audio|video|application|text)/.*|media|blob|uri|container_upload",
    re.IGNORECASE,
)
"""Kinds of parts that are pictures or other media."""
_REFERENCE = re.compile(
    r"@@@langfuseMedia:type=\w{1,20}/[\w.+-]{1,80}\|id=[^|\s\"\\]{1,80}\|source=\w{1,40}@@@"
    r"|mlflow-attachment://[^\s\"\\]{0,200}?content_type=[^\s\"\\)]{1,200}"
)
"""The text that a tracer writes in place of a medium that it stores elsewhere."""
REFERENCES = ("@@@langfuseMedia:", "mlflow-attachment://")
"""Characters that such a text begins with."""
_NOT_HELD = "is not an address on the web, and the data does not hold its bytes"
_ELSEWHERE = "is kept by a tracer, and the data does not hold its bytes"
_UNSHOWN = "cannot be sent: judges are sent only pictures"
_PLACE = re.compile(
    r"[a-z][a-z0-9+.-]*:|[.~\\@]|[^\n]{1,255}\.\w{2,4}$|file-", re.IGNORECASE
)
"""Beginnings of an address, or a file's name: never of a picture in base64."""
_DEEPEST = 4
MARKDOWN = "](data:image/"
"""The sign of a picture in Markdown text."""
_IN_MARKDOWN = re.compile(
    r"(!\[[^]\n]{0,300}\]\()(data:image/[a-z+.-]{1,20};base64,[\w+/=-]+)(?=\))"
)


def medium_of(part: JsonObject) -> Picture | None:
    """Return the picture, audio, video or file that a part of a message is; None if it is none."""
    # the part, and the objects inside it that hold its bytes or its address
    levels = [part]
    for _ in range(_DEEPEST):
        inner = first(filter(is_object, map(levels[-1].get, _HOLDERS)))
        if inner is None:
            break
        levels.append(inner)
    media = [first_of(level, ("modality", *_MEDIA)) for level in levels]
    held = [name for name in _HOLDERS if lookup(part, f"{name}.source")]
    kind = str(part.get("type"))
    if not (_MEDIUM.fullmatch(kind) or held or any(media[1:])):
        return None
    kind = _kind_of(f"{kind} {held} {media}")
    texts = chain.from_iterable(map(level.get, _BYTES) for level in levels)
    source = first(filter(is_text, texts))
    if kind == "picture":
        stated = filter(None, [level.get("detail") for level in levels])
        detail = str(first(stated) or "")[:20]
        if source is None:
            return _named("", detail, error="has no bytes in the data")
        return read_picture(source, detail)
    if kind == "file":
        # anything may be called a file, and one may hold its text
        names = ("text",) if any(media) else ("text", "content")
        held_texts = [first_of(level, names) for level in levels]
        if source is None or any(map(is_text, held_texts)):
            return None
    if source is None:
        if is_text(part.get("transcript")):
            return None
        with suppress(TypeError):
            source = orjson.dumps(part, option=orjson.OPT_SORT_KEYS).decode()
    return _named(
        source or "",
        "",
        error=_UNSHOWN,
        kind=kind,
    )


def _kind_of(text: str) -> str:
    """Return the kind of a medium by a word in what is said of it."""
    text = text.lower()
    if "image" in text or "screenshot" in text:
        return "picture"
    return first(kind for kind in ("audio", "video") if kind in text) or "file"


def mark_media(
    text: str,
    mark: Callable[[Picture], str],
) -> str:
    """Replace each reference that a tracer wrote in place of a medium by its mark."""

    def marked(match: re.Match[str]) -> str:
        kind = _kind_of(match[0].partition("type=")[2])
        return mark(
            _named(
                match[0],
                "",
                error=_ELSEWHERE,
                kind=kind,
            )
        )

    return _REFERENCE.sub(marked, text)


def read_picture(
    source: str,
    detail: str = "",
) -> Picture:
    """Return the picture at an address on the web, in a data address, or in base64; else one with the error."""
    if re.fullmatch("https?://[!-~]+", source, re.IGNORECASE):
        return _named(source, detail, address=source)
    stated = re.match("data:[^,]{0,200},", source, re.IGNORECASE)
    head = stated[0] if stated else ""
    if head and not head.lower().endswith(";base64,"):
        data: bytes | None = unquote_to_bytes(source[len(head) :])
    elif not head and _PLACE.match(source[:300]):
        return _named(source, detail, error=_NOT_HELD)
    else:
        data = _from_base64(source[len(head) :])
    if data is None:
        error = "is damaged: its base64 cannot be read"
        return _named(source, detail, error=error)
    measured = _measure(data)
    if measured is None:
        return _named(data, detail, error="is not a PNG, JPEG, GIF or WebP")
    media, width, height = measured
    return _named(
        data,
        detail,
        data=data,
        media=media,
        width=width,
        height=height,
    )


def _named(
    source: str | bytes,
    detail: str,
    **fields: Any,
) -> Picture:
    """Return a picture with its digest."""
    kind = b"data"
    if isinstance(source, str):
        kind = b"text"
        source = source.encode("utf-8", "replace")
    salt = detail.encode("utf-8", "replace")[:16]
    digest = blake2b(
        source,
        digest_size=16,
        person=kind,
        salt=salt,
    )
    return Picture(digest.hexdigest(), detail=detail, **fields)


def _from_base64(text: str) -> bytes | None:
    """Return the bytes of base64, also of its form for addresses; None if it is damaged."""
    # nearly all of it is as it should be
    with suppress(ValueError):
        return binascii.a2b_base64(text, strict_mode=True)
    if "%" in text:
        text = unquote_to_bytes(text).decode("latin-1")
    text = "".join(text.split()).translate({45: 43, 95: 47}).rstrip("=")
    padding = "=" * (-len(text) % 4)
    with suppress(ValueError):
        return binascii.a2b_base64(text + padding, strict_mode=True)
    return None


def markdown_pieces(text: Text) -> Text:
    """Return a text with each picture in Markdown in place of its address; what is not a picture stays text."""
    parts = [text] if is_text(text) else text
    pieces: list[Any] = []
    for part in parts:
        if not is_text(part):
            pieces.append(part)
            continue
        end = 0
        for match in _IN_MARKDOWN.finditer(part):
            picture = read_picture(match[2])
            if not picture.error:
                pieces += (part[end : match.end(1)], picture)
                end = match.end()
        pieces.append(part[end:])
    return tuple(pieces) if len(pieces) > len(parts) else text


def _measure(data: bytes) -> tuple[str, int, int] | None:
    """Return the media type, the width and the height that the header of a picture states; None for no picture.

    A size of zeros is not known.
    """
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
        return "image/png", _number(data[16:20]), _number(data[20:24])
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif", 0, 0
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", 0, 0
    if data[:3] != b"\xff\xd8\xff":
        return None
    # the segments of a JPEG; those of some kinds begin with its size
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind = data[at + 1]
        if kind & 0xF0 == 0xC0 and kind not in (0xC4, 0xC8, 0xCC):
            height = _number(data[at + 5 : at + 7])
            return "image/jpeg", _number(data[at + 7 : at + 9]), height
        at += 2 + max(2, _number(data[at + 2 : at + 4]))
    return "image/jpeg", 0, 0


_number = int.from_bytes
"""The number that bytes are, the highest first."""
