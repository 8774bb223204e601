"""What a file that is to be looked at may lack, in sentences with the way out."""

from __future__ import annotations

from ruler_cli.errors import UsageError
from ruler_cli.formats.interface import plain


def refuse_unmarked(name: str, groups: int, unmarked: int) -> None:
    """UsageError where no group of the file `name` has ever been scored."""
    if groups == unmarked:
        raise UsageError(
            f"{name}: no rollout has a mark of ruler; score it first, with "
            f"`ruler score {name} scored.jsonl`, and give what that writes"
        )


def refuse_unusable(name: str, path: str | None, labelled: int) -> None:
    """UsageError where a path of labels was given and no rollout of the file `name` has one there."""
    if path is not None and not labelled:
        raise UsageError(
            f"--labels {plain(path)}: no rollout of {name} has a label there that can be used; a label is a "
            "number, a truth value, or a word such as passed"
        )


def doubt(path: str | None, own: int, scored: int) -> str | None:
    """That labels may be what ruler wrote: scores that agree with themselves say nothing.

    `own` of the `scored` rollouts have their own score for a label; `path` is what the user gave.
    """
    if path is None or not 1 < own == scored:
        return None
    return (
        f"--labels {plain(path)}: every label is the very score of its rollout; if that is where ruler "
        "wrote it, leave --labels out for the original rewards, or name where a verifier's word stands"
    )
