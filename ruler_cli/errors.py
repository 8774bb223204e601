"""Errors that end a run, or a record: values with an option or a place, a problem and a remedy."""

from __future__ import annotations

import copyreg
import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

_NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?")
_STOPPED = "stopped"
"""The place of an error that stops a run on behalf of its user."""
Names = Callable[[str, str], str]
"""The field of an option, and its value or an empty text → how a user names it."""


class Sentence(str):
    """A sentence that names options: as a text, with the names that they have in Python.

    In its template `{max_cost}` is an option, by its field, `{max_cost:5}` one with a value, and
    `{retry_failed:yes}` a flag that is set. Other names are those of `values`, of which each may be a
    sentence or an error.
    """

    __slots__ = ("template", "values")

    def __new__(cls, template: str, **values: object) -> Sentence:
        """Return the sentence; KeyError is impossible: a name that is no value is an option."""
        made = super().__new__(cls, _filled(template, values, _in_python))
        made.template, made.values = template, values
        return made

    template: str
    values: Mapping[str, object]

    @classmethod
    def joined(cls, between: str, parts: Sequence[str]) -> Sentence:
        """Return sentences as one, with the same text between any two."""
        values = {f"part{i}": part for i, part in enumerate(parts)}
        return cls(between.join(f"{{{name}}}" for name in values), **values)

    def named(self, names: Names) -> str:
        """Return the sentence with other names of the options."""
        return _filled(self.template, self.values, names)

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, object]]:
        return (self.template,), self.values


def named(sentence: object, names: Names) -> str:
    """Return a sentence, an error or any value as text, with other names of options."""
    said = sentence.sentence if isinstance(sentence, RulerError) else sentence
    return said.named(names) if isinstance(said, Sentence) else str(said)


class _Option:
    """An option in a template; the format is its value."""

    def __init__(self, field: str, names: Names) -> None:
        self._field, self._names = field, names

    def __format__(self, value: str) -> str:
        return self._names(self._field, value)


class _Fields(dict[str, object]):
    """The values of a template; any other name is an option."""

    names: Names

    def __missing__(self, field: str) -> _Option:
        return _Option(field, self.names)


def _filled(template: str, values: Mapping[str, object], names: Names) -> str:
    fields = _Fields(values)
    fields.names = names
    for name, value in values.items():
        if isinstance(value, Sentence | RulerError):
            fields[name] = named(value, names)
    return template.format_map(fields)


def _in_python(field: str, value: str) -> str:
    """Return an option as Python names it, e.g. `max_cost=5`; a word in capitals stands for a value."""
    name = "params" if field == "param" else field.strip("_")
    if not value:
        return name
    if value == "yes" or (field, value) == ("ledger", "none"):
        return f"{name}={'True' if value == 'yes' else None}"
    if field == "param":
        key, _, given = value.partition("=")
        return f"{name}={{{key!r}: {given}}}" if given else f"{name}[{key!r}]"
    return f"{name}={value if value.isupper() or _NUMBER.fullmatch(value) else repr(value)}"


class RulerError(Exception):
    """A run cannot go on; the text is one sentence with a way out, in which options are named as in Python.

    Its parts: the `problem`, the `remedy`, and what has it: a `place`, an `option` by its field, with its
    `value`. Each but the problem may be empty.
    """

    exit_code = 1
    resumable = True
    """The same command goes on."""

    def __init__(
        self,
        problem: str,
        remedy: str = "",
        *,
        option: str = "",
        value: object = "",
        place: str = "",
    ) -> None:
        """Take the parts; the problem alone may be the whole sentence."""
        self.problem = problem
        self.remedy = remedy
        self.option = option
        self.value = value
        self.place = place
        super().__init__(self._words())

    def set(self, **parts: object) -> None:
        """Replace parts."""
        vars(self).update(parts)
        self.args = (self._words(),)

    def _words(self, *, head: bool = True, tail: bool = True) -> Sentence:
        """Return the sentence, or it without what has the problem, or without the remedy."""
        template = "{problem}"
        if head and self.option:
            template = f"{{{self.option}:{{value}}}}: {template}"
        if head and self.place:
            template = f"{{place}}: {template}"
        if tail and self.remedy:
            template += "; {remedy}"
        names = ("value", "place", "problem", "remedy")
        return Sentence(template, **{name: getattr(self, name) for name in names})

    @property
    def brief(self) -> str:
        """The sentence without the remedy."""
        return self._words(tail=False)

    @property
    def reason(self) -> str:
        """The sentence, without the word that says that a run stopped."""
        return self._words(head=self.place != _STOPPED)

    @property
    def sentence(self) -> str:
        """The whole sentence."""
        whole: Sentence = self.args[0]
        return whole

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the sentence in a copy or a pickle: `__init__` of some errors makes it from numbers."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # of protocol 2


class UsageError(RulerError):
    """Bad usage or unreadable input; nothing was sent.

    Unless a stream turns out late to have groups that are not adjacent.
    """

    exit_code = 2
    resumable = False


class WrongShapeError(UsageError, TypeError):
    """An argument of a Python function is of another kind than it takes; nothing was sent."""


class UnknownShapeError(UsageError):
    """No format fits INPUT; `values` are its first records, from which a row may be proposed."""

    values: Sequence[Any] = ()


class NothingToCompare(UsageError):  # noqa: N818 - the input is no error by itself
    """No group of INPUT has two rollouts that differ; nothing was sent."""

    def __init__(self, key: str) -> None:
        """`key` says what makes rollouts one group."""
        alike = f"each has one rollout, or rollouts that are all alike ({key})"
        super().__init__(
            f"no group of INPUT has anything to compare: {alike}",
            Sentence(
                "name what the rollouts of one task share with {group_by:PATH}, or have each scored by "
                "itself with {single:score}"
            ),
        )


class ForeignError(UsageError):
    """A file of a kind without records; a directory is read without it."""


class InputChanged(RulerError):  # noqa: N818 - as the next ones
    """INPUT is not what it was when the run began; what was written by then is whole."""

    def __init__(self, name: str, reason: str) -> None:
        """`name` is that of INPUT, `reason` the place that differs, or why it cannot be read any more."""
        problem = f"changed while it was read ({reason})"
        super().__init__(problem, "run again when no program writes it", place=name)


class RefusedError(RulerError):
    """The judge refused the whole run: key, quota, unknown model, unreachable."""

    exit_code = 3


class NoUsableReply(RefusedError):  # noqa: N818 - the judge answered
    """None of the first groups that the judges were asked about in this run got a score."""

    resumable = False

    def __init__(self, groups: int, reason: str = "", first: int = 1) -> None:
        """`reason` is that of the last of so many `groups`; the `first` of them has this number in INPUT."""
        none = f"none of the first {groups} groups that were asked about got a score"
        last = Sentence("{none}, the last because {reason}", none=none, reason=reason)
        super().__init__(last if reason else none, place=_STOPPED)
        self.first = first


class OutputError(RulerError):
    """OUTPUT could not be written to its end."""


class TooManyFailures(RulerError):  # noqa: N818 - the run stops as the user asked
    """More failed than the user allows."""

    def __init__(self, allowed: str) -> None:
        """`allowed` is the bound, as given."""
        problem = "more failed than {max_failures:{allowed}} allows"
        if allowed.rstrip("%") == "0":
            problem = "a group or line failed, and {max_failures:{allowed}} allows none"
        super().__init__(
            Sentence(problem, allowed=allowed),
            Sentence("raise the limit, or ask again with {retry_failed:yes}"),
            place=_STOPPED,
        )


class CapReached(RulerError):  # noqa: N818 - the run stops as the user asked
    """The next call could have cost more than the user allows."""

    exit_code = 4

    def __init__(
        self, cap: float, left: int, cut: int = 0, least: float | None = None
    ) -> None:
        """`cap` in USD; `left` groups could not be judged for it, `cut` lack some of their passes.

        `least` is what the cheapest of them may cost, in USD: above the cap, another run would do the same.
        """
        groups = "1 group is" if left == 1 else f"{left} groups are"
        fewer = f", {cut} scored by fewer passes than asked for" if cut else ""
        self.resumable = least is None or least <= cap
        reached, way_out = "reached", "another run may spend as much again"
        if least is not None and not self.resumable:
            reached = "less than any group left may cost"
            way_out = f"give {1.1 * least:.2g} or more"  # two digits, never rounded to less than its cost
        problem = f"{reached}: {groups} not scored{fewer}"
        super().__init__(
            Sentence("{max_cost:{cap:g}} is {problem}", cap=cap, problem=problem),
            way_out,
        )


class ReaderGone(RulerError):  # noqa: N818 - the end of a pipe is no error
    """The reader of stdout is gone (`| head`)."""

    exit_code = 0

    def __init__(self) -> None:
        """Take no arguments: there is one message."""
        super().__init__("nobody reads stdout any more")


class InterruptedRun(RulerError):  # noqa: N818 - an interruption is no error
    """A signal stopped the run; `exit_code` is 128 + its number, as in shells."""

    def __init__(self, signum: int, outage: str = "") -> None:
        """`signum` is the number of the signal, `outage` the sentence on a judge that was down."""
        super().__init__(f"interrupted; {outage}" if outage else "interrupted")
        self.signum, self.exit_code = signum, 128 + signum


class UnreadableError(Exception):
    """A record, or one trajectory of it, cannot be read; counted, never fatal to the rest."""

    def __init__(self, reason: str) -> None:
        """Take the reason, which may name options."""
        super().__init__(reason)
        self.reason = reason


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def system_problem(error: OSError) -> tuple[str, str]:
    """Return the problem of an error of the system, and the remedy if one is known."""
    full = error.errno in _DISK_FULL
    return error.strerror or str(error), "make room" if full else ""


@contextmanager
def system_errors(
    verb: str, kind: type[RulerError], remedy: str = "", **where: Any
) -> Iterator[None]:
    """Turn an error of the system into one of a kind; `where` is its option and value, or its place."""
    try:
        yield
    except OSError as error:
        problem, known = system_problem(error)
        raise kind(f"cannot be {verb}: {problem}", remedy or known, **where) from None
    except UnicodeDecodeError:
        raise kind(
            "is not text in UTF-8", remedy or "save it as UTF-8", **where
        ) from None
