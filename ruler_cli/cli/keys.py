"""Keys of groups, which a stranger chose, in a form that can be seen whole and typed again."""

from __future__ import annotations

import re
from collections.abc import Callable

from ruler_cli.cli.console import safe

UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
"""What takes no place on a terminal, or one that depends on the terminal: a joiner, a variation."""
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([nt'\\]))")
_SHORT = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "'": "\\'"}
_LONGS = {short[1]: character for character, short in _SHORT.items()}


def visible(text: str) -> str:
    """Text with everything that cannot be seen shown as an escape; line breaks and tabs stay."""
    return UNSEEN.sub(lambda c: escape(c[0]), safe(text))


def escape(character: str) -> str:
    """A character as `\\xHH`, `\\uHHHH` or `\\UHHHHHHHH`."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def shown(key: str, has: Callable[[str], bool] = lambda _: True) -> str:
    """A key as it is told, and as `--group` takes it back; no two keys are told alike.

    One with something that cannot be seen, or that `has` says cannot be shown, is told as `$'…'`, which
    bash, zsh and ksh turn back into it.
    """
    plain = key.isprintable() and key == key.strip() and visible(key) == key and not key.startswith("$'")
    if key and plain and has(key):
        return key
    return "$'" + "".join(_in_quotes(c, has) for c in key) + "'"


def _in_quotes(character: str, has: Callable[[str], bool]) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character.isprintable() and visible(character) == character and has(character):
        return character
    # to a shell \xHH is a byte, \uHHHH a character
    return f"\\u{ord(character):04x}" if 128 <= ord(character) < 256 else escape(character)


def typed(text: str) -> str:
    """The key that `shown` told as this text; text that is no `$'…'` is the key itself."""
    if len(text) < 3 or not (text.startswith("$'") and text.endswith("'")):
        return text
    return _ESCAPE.sub(_character, text[2:-1])


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is None:
        return _LONGS[found[4]]
    return chr(int(code, 16)) if int(code, 16) < 0x110000 else found[0]
