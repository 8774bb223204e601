"""ruler: score groups of agent rollouts with an LLM judge, from the command line or from Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_cli.api import NotScoredError, TrajectoryScore, ruler, score_file, score_group, score_groups
    from ruler_cli.config import (
        AskSettings,
        CombineSettings,
        InputSettings,
        JudgeSettings,
        MaxFailures,
        PoolSettings,
        ScoreSettings,
    )
    from ruler_cli.errors import (
        CapReached,
        RefusedError,
        RulerError,
        TooManyFailures,
        UsageError,
        WrongShapeError,
    )
    from ruler_cli.object_groups import GroupWithoutScores, GroupWithScores, JudgedGroup
    from ruler_cli.observer import Observer, Status, Summary
    from ruler_cli.options import SettingsOptions
    from ruler_cli.prompting.templates import DEFAULT_RUBRIC
    from ruler_cli.run_settings import settings
    from ruler_cli.scorer import Scorer
    from ruler_cli.types import JudgeRequest, Kind, Problem
    from ruler_cli.writing.fields import GroupFields, TrajectoryFields

__version__ = "0.1.0"
__all__ = [
    "DEFAULT_RUBRIC",
    "AskSettings",
    "CapReached",
    "CombineSettings",
    "GroupFields",
    "GroupWithScores",
    "GroupWithoutScores",
    "InputSettings",
    "JudgeRequest",
    "JudgeSettings",
    "JudgedGroup",
    "Kind",
    "MaxFailures",
    "NotScoredError",
    "Observer",
    "PoolSettings",
    "Problem",
    "RefusedError",
    "RulerError",
    "ScoreSettings",
    "Scorer",
    "SettingsOptions",
    "Status",
    "Summary",
    "TooManyFailures",
    "TrajectoryFields",
    "TrajectoryScore",
    "UsageError",
    "WrongShapeError",
    "__version__",
    "ruler",
    "score_file",
    "score_group",
    "score_groups",
    "settings",
]
_MODULES = (
    "config",
    "errors",
    "types",
    "observer",
    "options",
    "prompting.templates",
    "writing.fields",
    "object_groups",
    "scorer",
    "run_settings",
    "api",
)
"""The modules that define these names: the ones that import little come first."""


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: the command does not need them."""
    if name in __all__:
        for module in _MODULES:
            value = vars(import_module(f"ruler_cli.{module}")).get(name)
            if value is not None:
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, which a module that is imported does not change."""
    return sorted(__all__)
