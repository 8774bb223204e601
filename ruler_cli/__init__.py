"""ruler: score groups of agent rollouts with an LLM judge, from the command line or from Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_cli.api import NotScoredError, TrajectoryScore, ruler, score_file, score_group, score_groups
    from ruler_cli.cli.settings import settings
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
    from ruler_cli.object_groups import JudgedGroup
    from ruler_cli.observer import Observer, Summary
    from ruler_cli.scorer import Scorer

__version__ = "0.1.0"
__all__ = [
    "AskSettings",
    "CapReached",
    "CombineSettings",
    "InputSettings",
    "JudgeSettings",
    "JudgedGroup",
    "MaxFailures",
    "NotScoredError",
    "Observer",
    "PoolSettings",
    "RefusedError",
    "RulerError",
    "ScoreSettings",
    "Scorer",
    "Summary",
    "TooManyFailures",
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
_MODULES = ("config", "errors", "observer", "object_groups", "scorer", "api", "cli.settings")
"""The modules that define these names: the ones that import little come first."""


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: the command does not need them."""
    if name in __all__:
        for module in _MODULES[-1:] if name == "settings" else _MODULES:
            value = vars(import_module(f"ruler_cli.{module}")).get(name)
            if value is not None:
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
