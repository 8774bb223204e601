"""ruler: score groups of agent rollouts with an LLM judge, from the command line or from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ruler_cli.api import TrajectoryScore, ruler, score_group

__version__ = "0.1.0"
__all__ = ["TrajectoryScore", "__version__", "ruler", "score_group"]


def __getattr__(name: str) -> Any:
    """Import the Python functions when they are asked for: the command does not need them."""
    if name in ("TrajectoryScore", "ruler", "score_group"):
        from ruler_cli import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
