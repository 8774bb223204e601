"""The options by which several processes share one input: the shard, and the ledgers of all."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Annotated

import typer

from ruler_cli import shard as shards
from ruler_cli.errors import UsageError
from ruler_cli.settings import ScoreSettings

_VARIABLE = "RULER_LEDGER"

Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        envvar="RULER_SHARD",
        help="Judge only the groups of shard I of N; the first is 1. Limits and cost cap are this process's.",
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        envvar="RULER_SHARD",
        help="Write only the requests for the groups of shard I of N; the first is 1.",
    ),
]
"""`--shard` where nothing is sent."""
Ledger = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        envvar="RULER_LEDGER",
        help="Where paid replies are kept.  [default: ruler/ledger.sqlite in the user's cache directory]",
    ),
]
Ledgers = Annotated[
    list[str] | None,
    typer.Option(
        "--ledger",
        metavar="PATH|none",
        # typer would split what the variable holds at every space
        help="Where paid replies are kept; repeat it to read others as well, e.g. of shards.  [default: "
        f"ruler/ledger.sqlite in the user's cache directory]  [env var: {_VARIABLE}]",
    ),
]


def shard(text: str | None) -> shards.Shard | None:
    """`--shard I/N` → the shard; UsageError where there is no such shard."""
    return None if text is None else shards.shard_of(text)


def ledgers(given: list[str] | None) -> tuple[Path | None, tuple[Path, ...]]:
    """`--ledger` as often as given, else its variable → the ledger that is written, and the others."""
    from ruler_cli.files.database import located

    if not given:
        return located(os.environ.get(_VARIABLE)), ()
    first, *others = given
    if _is_pattern(first):
        raise UsageError(
            f"--ledger {first}: the first ledger is written, and a pattern names several; write --ledger "
            f"PATH --ledger '{first}'"
        )
    if others and "none" in (first, *others):
        raise UsageError("--ledger none: keeps nothing, so no other --ledger goes with it; leave one out")
    if "" in others:
        raise UsageError("--ledger: one of them has no name; give its path")
    named = [name for other in others for name in _matched(other)]
    return located(first), tuple(path for path in map(located, named) if path is not None)


def _is_pattern(text: str) -> bool:
    """Whether a name stands for several; a file that is called so is itself."""
    return glob.has_magic(text) and not os.path.exists(os.path.expanduser(text))  # noqa: PTH110, PTH111 - no error for what is no path


def _matched(text: str) -> list[str]:
    """The ledgers that a name stands for, in order; UsageError where a pattern stands for none."""
    if not _is_pattern(text):
        return [text]
    from ruler_cli.files.database import at_home

    found = sorted(glob.glob(str(at_home(text))))  # noqa: PTH207 - a pattern may begin at the root
    if not found:
        raise UsageError(f"--ledger {text}: no file matches this pattern; check the path")
    return found


def note_of_ledger(settings: ScoreSettings) -> str | None:
    """That no ledger is where answers are to come from, which is a mistyped path more often than not."""
    from ruler_cli.files.database import default_path

    place = settings.ledger
    if not settings.cached_only or settings.ledgers or place is None or place == default_path():
        return None
    if place.exists():
        return None
    return f"--cached-only: there is no ledger at {place} yet, so nothing is answered; check --ledger"


def refuse_what_needs_all(settings: ScoreSettings) -> None:
    """UsageError where a shard would need the groups of the others."""
    if settings.input.shard is None:
        return
    last = "the last run, over the whole file with the --ledger of every shard"
    how = settings.combine
    if settings.adaptive:
        from ruler_cli.scoring.gain import FIRST

        raise UsageError(
            f"--adaptive: passes are allotted among all groups, and a shard has some; give --passes {FIRST} "
            f"here, and --adaptive to {last}"
        )
    if settings.escalate is not None:
        raise UsageError(
            "--escalate: groups are chosen among all of them, and a shard has some; leave it out here, and "
            f"give it to {last}"
        )
    for name, given in (("--debias", how.debias), ("--standardize", how.standardize)):
        if given:
            raise UsageError(
                f"{name}: needs the replies to all groups, and a shard has some; leave it out here, and "
                f"give it to {last}: it costs no call"
            )


def note(settings: ScoreSettings) -> str | None:
    """What figures of a shard's OUTPUT rest on, where that is less than they seem to."""
    several = settings.ask.passes > 1 or (settings.panel and not settings.fallback)
    if settings.input.shard is None or not several:
        return None
    return (
        f"{settings.input.shard}: reliability and weight rest on this shard's groups here, scores do not; "
        "the last run, over the whole file, writes those of the whole"
    )
