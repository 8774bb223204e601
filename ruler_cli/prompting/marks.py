"""The pictures of rendered texts: their marks, their sizes, and those that are not shown."""

from __future__ import annotations

from collections.abc import Mapping

from ruler_cli.prompting.pictures import picture_tokens, unsendable
from ruler_cli.prompting.render import MARK
from ruler_cli.settings.models import AskSettings
from ruler_cli.tokens import BYTES_PER_TOKEN
from ruler_cli.types import Picture, Placed


def count_marks(*texts: str) -> int:
    """Count the pictures that texts show."""
    return sum(len(MARK.findall(text)) for text in texts)


def shown_in(text: str, pictures: Mapping[str, Picture]) -> list[Picture]:
    """Return the pictures whose marks stand in a text, in order."""
    return [pictures[mark[2]] for mark in MARK.finditer(text)]


def size_of(text: str, pictures: Mapping[str, Picture], model: str) -> int:
    """Return the bytes of a text, with its pictures as text of as many tokens."""
    tokens = 0
    for picture in shown_in(text, pictures):
        tokens += picture_tokens(picture, model)
    return len(text.encode()) + int(tokens * BYTES_PER_TOKEN)


def with_last(text: str, most: int | None) -> str:
    """Leave out the pictures of a text but for the last `most`, and say so in their places."""
    if most is None:
        return text
    first = count_marks(text) - most
    if first <= 0:
        return text
    return MARK.sub(r"(\1 is not shown)", text, first)


def with_shared(context: str, most: int | None) -> str:
    """Return the context with all of its pictures, or with none."""
    return with_last(context, 0) if most == 0 else context


def fault_in(
    context: str, text: str, pictures: Mapping[str, Picture], ask: AskSettings
) -> str:
    """Return why a picture that a judge is to be shown cannot be sent, with its number; empty if all can."""
    most = ask.shown_pictures
    shown = f"{with_shared(context, most)}\n{with_last(text, most)}"
    for mark in MARK.finditer(shown):
        picture = pictures[mark[2]]
        why = unsendable(picture)
        if why:
            ways = "use --pictures leave to judge without it"
            if picture.kind == "picture":
                ways = f"put its bytes into the data, or {ways}"
            return f"{mark[1]} {why}; {ways}"
    return ""


def placed(text: str, pictures: Mapping[str, Picture]) -> tuple[str, Placed]:
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


def tokens_of_pictures(pictures: Placed, ask: AskSettings) -> int:
    """Return the tokens of pictures, as the judge's model counts them."""
    return sum(
        picture_tokens(picture, ask.judge_model) for _, picture in pictures
    )
