"""Endings of rollouts, from what dumps say: by itself, at a limit, stopped, or in an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from ruler_cli.files.values import is_object, is_text

_MEANINGS = {
    "": """
        0|f|n|na|nan|false|none|null|no|ok|pass(ed)?|success|completed? | (verifier|reward)[a-z]*
        | .*(no|without)(any)?(error|exception)s?
    """,
    "truncated": """
        (is)?truncated | incomplete | length | limit | prompttoolong | agenttimeout(error)? | timeout(reached|error)?
        | (limits?|time|deadline|budget)exceeded | code4
        | (error)?max(turns?|turnrequests|steps?|iterations|messages|budgetusd|length|(prompt|response)length|tokens
        |(in|out)puttokens|total(completion)?tokens)(reached|exceeded)?
        | (model)?context(window|length)?(overflow|exceeded(error)?)? | modellength
        | exit(cost|context|commandtimeout|totalexecutiontime) | messageoutputlengtherror
        | (maximumnumberof|tokenusagelimit|timeoutof)[a-z0-9]*reached.* | .*reachedmaximum(iteration|budget).*
    """,
    "aborted": """
        (is)?abort(ed)? | cancell?(ed)? | interrupt(ed|ion)? | userinterruption | keyboardinterrupt | operator
        | turnaborted | messageabortederror | code10?
    """,
    "error": """
        failed | failure | exceptioninfo | exit(api|format) | errorduringexecution | code(2|13|14)
        | .*(error|exception)s?
    """,
}
"""Patterns of endings in dumps, in small letters and without punctuation: values, names of flags, a name and its
number.

The first that fits counts. A limit is one of length, turns, time or cost. The words are those of slime, miles, verl,
SkyRL, rLLM, verifiers, Inspect, tau2-bench, eval-protocol, SWE-agent, mini-swe-agent, OpenHands, Harbor, AutoGen, of
coding agents, and of the APIs of models. An error of the grader is none of the rollout.
"""
_KNOWN = {
    ended: re.compile(text, re.VERBOSE) for ended, text in _MEANINGS.items()
}
_SET = ("", "1", "true", "yes", "y", "t")
"""Values of a flag that is set, and of an object without a type."""
_ENDING_NAMES = re.compile("error|exception|limit")
"""Names of fields that say how a rollout ended, whatever their value is."""
_MARKS = re.compile(r"[\W_]+")
_LONGEST = 200
"""Characters of a text that are read."""


def first_ending(
    paths: Iterable[str],
    value_at: Callable[[str], Any],
) -> str:
    """Return how a rollout ended by the first of several paths that says it; empty if none does."""
    for path in paths:
        ended = ending(path, value_at(path))
        if ended:
            return ended
    return ""


def ending(
    path: str,
    value: Any,
) -> str:
    """Return how a rollout ended by the value at a path: `truncated`, `aborted` or `error`.

    It is empty for a normal end, and for words that are not known.
    """
    if not value or (isinstance(value, float) and math.isnan(value)):
        return ""
    # a limit of Inspect, a reason of SGLang, an error of verifiers
    stated = value.get("type") if is_object(value) else value
    readable = is_text(stated) or stated in range(99)
    text = str(stated)[:_LONGEST] if readable else ""
    return _meaning(path.rpartition(".")[2], text)


@lru_cache(1024)
def _meaning(
    name: str,
    stated: str,
) -> str:
    value = _plain(stated)
    name = _plain(name)
    words = [value, name + value]
    # a flag says no more than its name, nor does what stands at an error or a limit
    if value in _SET or _ENDING_NAMES.search(name):
        words.append(name)
    for word in words:
        for ended, pattern in _KNOWN.items():
            if pattern.fullmatch(word):
                return ended
    return ""


def _plain(text: str) -> str:
    """Return a word in small letters, without marks; of `submitted (exit_cost)` the part in brackets."""
    return _MARKS.sub("", text.rpartition("(")[2]).casefold()
