"""ruler: score groups of agent rollouts with an LLM judge, from the command line or from Python."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_cli.errors import (
        CapReached,
        RefusedError,
        RulerError,
        TooManyFailures,
        UsageError,
        WrongShapeError,
    )
    from ruler_cli.prompting.templates import DEFAULT_RUBRIC
    from ruler_cli.runs.api import (
        NotScoredError,
        TrajectoryScore,
        ruler,
        score_file,
        score_group,
        score_groups,
    )
    from ruler_cli.runs.objects import JudgedGroup
    from ruler_cli.runs.scorer import Scorer
    from ruler_cli.scoring.criteria import rubric_score
    from ruler_cli.settings.load import load_settings
    from ruler_cli.settings.models import (
        AskSettings,
        CombineSettings,
        InputSettings,
        JudgeSettings,
        MaxFailures,
        PoolSettings,
        RecordPaths,
        ScoreSettings,
    )
    from ruler_cli.types import (
        Criterion,
        JudgeRequest,
        Kind,
        Observer,
        Problem,
        Rubric,
        Status,
        Summary,
    )

__version__ = "0.1.0"
__all__ = [
    "DEFAULT_RUBRIC",
    "AskSettings",
    "CapReached",
    "CombineSettings",
    "Criterion",
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
    "RecordPaths",
    "RefusedError",
    "Rubric",
    "RulerError",
    "ScoreSettings",
    "Scorer",
    "Status",
    "Summary",
    "TooManyFailures",
    "TrajectoryScore",
    "UsageError",
    "WrongShapeError",
    "__version__",
    "load_settings",
    "rubric_score",
    "ruler",
    "score_file",
    "score_group",
    "score_groups",
]
_MODULES = (
    "settings.models",
    "errors",
    "types",
    "prompting.templates",
    "formats.annotate",
    "scoring.criteria",
    "runs.objects",
    "runs.scorer",
    "settings.load",
    "runs.api",
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
