"""The share of the rollouts' text that judges are shown, and the paths of the rest.

It reveals a dump that is read wrongly, of any shape: then the answers, or the tasks, are text that is in the records
and in no prompt. Only sentences count: no ids, paths, signatures or binary data. A line is shown if half of its
sequences of words are in a prompt, so that a diff, JSON text or the printed form of an object counts as the text
itself. What graders, references, errors and metadata say is not part of a rollout, unless it stands in turns: the names
of keys tell it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse
from ruler_cli.files.values import first_of, is_text, words
from ruler_cli.messages.names import GRADED, words_of
from ruler_cli.messages.parts import NAMES
from ruler_cli.messages.side_fields import ABOUT, HARNESS
from ruler_cli.prompting.prompt import PromptLayout
from ruler_cli.types import Group, printable, rubric_text, shorten

SHORTEST = 20
"""Characters of the shortest text that counts: shorter ones are roles, kinds and names."""
ENOUGH = 20
"""Groups that a run looks at: to look at one takes as long as to judge it."""
_PIECE = 12
"""Characters of the shortest line that counts."""
_MOST_PATHS = 10_000
_DEEPEST = 60
_SHARE = 0.85
_LEAST = 200
"""The share of the text that judges should be shown, and the bytes that may be missing in any case."""
_NAMED = 3
"""Paths that a sentence names."""
_LINE = 200
"""Characters of types that a sentence names: a dump may state any."""

_BESIDE = GRADED | ABOUT | frozenset(words("error exception traceback stderr"))
"""Words of keys with text of graders, references and errors, not of a rollout."""
_HARNESS = HARNESS | frozenset(words("base skill"))
_RULES = frozenset(words("system developer"))
"""Words of roles and types of a harness, whose rules are shown in one format and left out in another."""
_CONTEXT = re.compile(
    r"\s*<(?!untrusted)\w+[_ -](context|instructions|reminder)\b"
)
"""The tag before what a harness writes in the user's place."""
_ACTS = frozenset(words("tool function observation"))
"""Words of keys, types and roles of calls and their results."""
_LONGEST = 40
"""Characters of role and type that are looked at."""
_ARGUMENTS = frozenset(words("arguments args tool_input"))
"""Keys of what a tool is called with."""
_TURNS = frozenset(
    words("messages turns steps history conversation transcript trajectory")
)
"""Words of keys with turns, which may stand among those of a harness."""
_ANY_KEY = re.compile(r"[0-9]+|[0-9a-fA-F-]{8,}|.{41,}", re.DOTALL)
"""Keys that are ids rather than names: in a path they all become `*`."""
_ESCAPE = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|.)?")
_BREAKS = re.compile(
    r"""(?:\\+(?:u[0-9a-fA-F]{4}|.)?|["'`<>{}\[\]|\x00-\x1f\x7f-\x9f\u2028-\u202e])+"""
)
"""Characters that another form of a text may escape, drop or replace, with the escapes themselves."""
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"[\W\d_]*")
"""The number of a line in a diff or a listing, with the marks beside it."""
_RULER = "ruler"
_LOG = "RULER explanation: "
"""Key and beginning of what ruler itself wrote into a record."""
Shown = str | tuple[str, ...]
"""A word of a prompt, or four words that follow one another."""


@dataclass(slots=True)
class Coverage:
    """Bytes of the sentences of groups, each distinct text once: those that prompts show, and of the others by path.

    A path has `[]` for any item of a list. `missing` weighs the texts that are not shown. `unknown` are the types of
    events that are shown as JSON. `continued` counts groups in which a rollout goes on where another ends.
    """

    groups: int = 0
    shown: int = 0
    missing: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    first_continued: str = ""
    _acts: bool = False
    _reported: bool = False
    _seen: set[int] = field(default_factory=set)

    def add(self, group: Group, layout: PromptLayout) -> None:
        """Add a group with the layout of its prompts."""
        if not layout.distinct:
            return
        self.groups += 1
        for rollout, later in itertools.pairwise(sorted(layout.distinct)):
            if not rollout or later.startswith(rollout + "\n"):
                self.continued += 1
                self.first_continued = self.first_continued or group.key
                break
        spoken = "\n".join((layout.context, *layout.distinct))
        rubric = rubric_text(layout.rubric)
        prompt = "\n".join((spoken, layout.tools, layout.reference, rubric))
        prompt = _ESCAPE.sub(" ", prompt)
        sequences = {*_WORD.findall(prompt.lower()), *_sequences(prompt)}
        for record in group.records:
            for part in record.rollouts:
                self.unknown.update(part.unknown)
            # the columns of a columnar record hold other groups, too
            if record.parts > 1:
                continue
            try:
                value = parse(record.line.raw, exact=False)
            except (UnreadableError, RecursionError):
                continue
            for path, text, kind in _texts(value):
                if kind != "call":
                    self._count(
                        path,
                        text,
                        kind,
                        sequences,
                    )
                elif text not in spoken:
                    self._count_missing(path, len(text), kind)

    def _count(
        self, path: str, text: str, kind: str, prompt: set[Shown]
    ) -> None:
        digest = hash(text)
        if digest in self._seen:
            return
        self._seen.add(digest)
        shown = lost = 0
        for piece in _BREAKS.split(text):
            line = _NUMBER.sub("", piece, count=1).rstrip()
            sentence = " " in line or not line.isascii()
            if not sentence or len(line) < _PIECE:
                continue
            sequences = _sequences(line)
            seen = sum(sequence in prompt for sequence in sequences)
            size = len(line.encode("utf-8", "surrogatepass"))
            if 2 * seen >= len(sequences):
                shown += size
            else:
                lost += size
        self.shown += shown
        # of a copy, whose form is another, most is shown
        if lost > shown and kind != "rules" and not _CONTEXT.match(text):
            self._count_missing(path, lost, kind)

    def _count_missing(self, path: str, size: int, kind: str) -> None:
        """Count a text that is not shown, unless it is a grader's or the harness's."""
        named = words_of(path)
        harness = named & _HARNESS and not named & _TURNS
        full = path not in self.unseen and len(self.unseen) == _MOST_PATHS
        if full or harness or named & _BESIDE:
            return
        self.unseen[path] += size
        if kind or named & _ACTS:
            # a short one says as much as a long one
            size = max(size, self.shown // max(1, len(self._seen)))
            self._acts = True
        self.missing += size

    @property
    def share(self) -> float | None:
        """The share of the bytes that is shown; None if there is no text."""
        whole = self.shown + self.missing
        return self.shown / whole if whole else None

    @property
    def enough(self) -> bool:
        """True if a run has looked at enough groups."""
        return self.groups >= ENOUGH

    def not_shown(self) -> dict[str, int]:
        """Return the paths with text of rollouts that is not shown, and its bytes; the most bytes first."""
        return dict(self.unseen.most_common())

    def warnings(self) -> list[str]:
        """Return a warning if judges are not shown enough of the rollouts' text.

        And one if rollouts seem to be steps of one run, each with all steps before it.
        """
        sentences = []
        if self.continued:
            sentences.append(
                f"in {self.continued:,} of {self.groups:,} groups rollouts continue another rollout of the group "
                f"(first: {printable(self.first_continued)}); if they are steps of one run, keep the last step of "
                "each"
            )
        if self.unknown:
            types = shorten(", ".join(map(printable, self.unknown)), _LINE)
            sentences.append(
                f"ruler does not know the types of {self.unknown.total():,} events, which are shown as JSON: {types}"
            )
        share = self.share
        enough = self._acts or self.missing > _LEAST
        if share is not None and share < _SHARE and enough:
            paths = []
            for path, size in self.unseen.most_common(_NAMED):
                paths.append(f"{printable(path)} {size:,} bytes")
            sentences.append(
                f"judges are shown {share:.0%} of the text in the first {self.groups} groups; "
                f"not shown: {', '.join(paths)} (`ruler check` names every path, in JSON)"
            )
        return sentences

    def report(self) -> list[str]:
        """Return the warnings of a run; none if it is called again."""
        if self._reported:
            return []
        self._reported = True
        return self.warnings()


def _sequences(text: str) -> Sequence[Shown]:
    """Return all sequences of four words of a text; of a shorter one its words."""
    words = _WORD.findall(text.lower())
    shifted = [words[at:] for at in range(4)]
    return list(zip(*shifted, strict=False)) or words


def _texts(
    value: Any, path: str = "", kind: str = "", depth: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Yield path, text and kind of each string that may count, in order: `act`, `rules`, or no kind.

    And the name of each tool that is called, of the kind `call`. Without ruler's own, and without demonstrations, which
    an agent is given and formats leave out.
    """
    if isinstance(value, str):
        shortest = _PIECE if kind == "act" else SHORTEST
        if len(value) >= shortest and not value.startswith(_LOG):
            yield path, value, kind
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _texts(
                item,
                f"{path}[]",
                kind,
                depth + 1,
            )
    elif isinstance(value, dict) and depth < _DEEPEST:
        if value.get("is_demo") is True:
            return
        stated = filter(is_text, map(value.get, ("role", "type")))
        named = words_of(" ".join(stated)[:_LONGEST])
        if named & _RULES:
            kind = "rules"
        elif named & _ACTS:
            kind = "act"
        tool = first_of(value, NAMES)
        if is_text(tool) and not _ARGUMENTS.isdisjoint(value):
            yield path, tool, "call"
        for key, inner in value.items():
            name = "*" if _ANY_KEY.fullmatch(key) else key
            if key != _RULER:
                below = f"{path}.{name}" if path else name
                yield from _texts(
                    inner,
                    below,
                    kind,
                    depth + 1,
                )
