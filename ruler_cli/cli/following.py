"""The command that follows one, as it can be copied: with its input, its options and its ledger."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ruler_cli.files.remote import public

_VALUED = frozenset({"--target", "--timeout", "--settle"})
_FLAGS = frozenset({"--wait"})
"""Options of `ruler batch submit` and `ruler render` that `ruler score` has not, or for another thing."""


def on_ledger(words: Sequence[str]) -> str:
    """` --ledger PATH` where a command line names one: what follows must find the same."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name == "--ledger":
            return f" --ledger {shlex.quote(value if equals else next(rest, ''))}"
    return ""


def scoring(words: Sequence[str], source: str, requests: str | None = None) -> str:
    """`ruler score …` for a line of `ruler batch submit` or `ruler render`; OUTPUT is left to be named.

    `words` are those behind the command, `requests` is the argument in OUTPUT's place, if there is one.
    """
    return f"ruler score {' '.join(_words(words, source, requests))} --cached-only"


def _words(words: Sequence[str], source: str, requests: str | None) -> Iterator[str]:
    rest, sources, outputs = iter(words), [source], [requests]
    for word in rest:
        name, equals, _ = word.partition("=")
        if name in _VALUED:
            if not equals:
                next(rest, None)
        elif word in sources:
            sources.clear()
            yield shlex.quote(public(word))
            if requests is None:
                yield "OUTPUT"
        elif not sources and word in outputs:
            outputs.clear()
            yield "OUTPUT"
        elif name not in _FLAGS:
            yield shlex.quote(word)
