"""Keys that strangers chose: told so that they can be seen, told apart and typed again."""

from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.cli.console import shown, typed
from tests.on_terminal import RAW

TEXT = st.text(st.characters(codec=None) | st.sampled_from("\\'$\"\n\t\x1b\u200d\ufe0f é日"), max_size=12)


@given(key=TEXT, ascii_only=st.booleans())
def test_no_two_keys_are_told_alike(key: str, *, ascii_only: bool) -> None:
    """What is told shows everything, fits one line and gives the key back."""
    told = shown(key, str.isascii) if ascii_only else shown(key)
    assert not RAW.search(told)
    assert "\n" not in told
    assert typed(told) == key
    assert not ascii_only or told.isascii()


@settings(max_examples=25)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12))
def test_a_shell_gives_the_key_back(key: str) -> None:
    """What is told in quotes of its own is the key to bash."""
    told = shown(key, str.isascii)
    if told.startswith("$'"):
        script = f"LC_ALL=C.UTF-8; printf %s {told}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=30, check=True)
        assert done.stdout.decode() == key


def test_plain_keys_stay() -> None:
    """A key of plain words is told as it is."""
    for key in ("task-17", "a b", "日本", "[bold]", "it's", "$HOME", "a\\x1b"):
        assert shown(key) == key
        assert typed(key) == key
