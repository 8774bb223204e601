"""Judges and formats of other packages, by their entry points."""

from __future__ import annotations

from typing import Any, Literal

from ruler_cli.errors import UnreadableError, UsageError


def extensions(
    group: Literal["ruler.judges", "ruler.formats"],
) -> dict[str, Any]:
    """Return the names of a group's entry points, each with its entry point, which is not imported."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load(point: Any) -> Any:
    """Import what an entry point names; UsageError if that fails."""
    try:
        return point.load()
    except Exception as error:
        problem = f"`{point.value}` cannot be imported ({error!r:.200})"
        remedy = "install its package anew"
        raise UsageError(problem, remedy, place=point.name) from error


def judge_function(name: str) -> Any:
    """Return the function of a package's judge; None if no package has one of this name."""
    point = extensions("ruler.judges").get(name)
    if point is None:
        return None
    function = load(point)
    if not callable(function):
        problem = f"`{point.value}` is not an asynchronous function"
        raise UsageError(problem, "correct its package", place=name)
    return function


def guarded(name: str, function: Any) -> Any:
    """Return a package's function of a record, whose errors are reasons why the record cannot be read."""

    def call(record: Any) -> Any:
        try:
            return function(record)
        except Exception as error:
            reason = f"cannot be read as {name} ({error!r:.80})"
            raise UnreadableError(reason) from error

    return function and call
