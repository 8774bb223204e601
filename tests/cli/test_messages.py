"""Foreign keys on stderr, and the next command."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.cli.safe_text import parse_key, printable_key
from tests.on_terminal import RAW

TEXT = st.text(
    st.characters(codec=None)
    | st.sampled_from("\\'$\"\n\t\x1b\u200d\ufe0f é日"),
    max_size=12,
)


@given(key=TEXT, ascii_only=st.booleans())
def test_printed_key(key: str, *, ascii_only: bool) -> None:
    """A printed key shows every character, fits one line and can be parsed back to the key."""
    printed = (
        printable_key(key, str.isascii) if ascii_only else printable_key(key)
    )
    assert not RAW.search(printed)
    assert "\n" not in printed
    assert parse_key(printed) == key
    assert not ascii_only or printed.isascii()
