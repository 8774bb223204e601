"""Replies of a judge about rollouts whose text ends in their true score."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from ruler_cli.judges.offline import blocks
from ruler_cli.judging.panel import PanelJudge
from ruler_cli.pool.limits import Allowance
from ruler_cli.types import CallError, Group, Reply, Request, Usage
from tests.values import group, talk

TRUTH = {"a": 0.1, "b": 0.5, "c": 0.9}
GROUP = group(*map(talk, TRUTH))
Answer = Callable[[Request], Reply | CallError]


class Call(Protocol):
    """Answer one request."""

    async def __call__(
        self, request: Request, *, again: bool = False
    ) -> Reply | CallError:
        """`again` skips the cache."""


class StubJudge(PanelJudge):
    """A judge of a panel that is a function."""

    def __init__(self, call: Call, context: int | None = None) -> None:
        super().__init__(None, context=context)
        self._call = call

    async def call(
        self,
        request: Request,
        *,
        again: bool = False,
        allowance: Allowance | None = None,
    ) -> Reply | CallError:
        """Return the function's answer."""
        return await self._call(request, again=again)


def entries(request: Request, scale: float = 1) -> list[dict[str, Any]]:
    """The true scores of a request."""
    texts = blocks(request.user)
    return [
        {
            "trajectory_id": label,
            "explanation": "so",
            "score": TRUTH[texts[label][-2]] * scale,
        }
        for label in request.labels
    ]


def reply(text: str, **more: Any) -> Reply:
    """A reply with this text."""
    return Reply(text, Usage(100, 10, 0, 1), **more)


def good(request: Request) -> Reply:
    """A right answer."""
    return reply(json.dumps({"scores": entries(request)}))


def bad(request: Request) -> Reply:
    """An answer without one id."""
    return reply(json.dumps({"scores": entries(request)[1:]}))


def refusal(request: Request) -> Reply:
    """A refusal."""
    return reply("", refusal="I will not")


def cut(keep: int) -> Answer:
    """An answer that is cut off behind `keep` entries."""

    def answer(request: Request) -> Reply:
        text = json.dumps({"scores": entries(request)})
        end = (
            [i for i, c in enumerate(text) if c == "}"][keep - 1] + 1
            if keep
            else 5
        )
        return reply(text[:end] + ', {"traj', truncated=True)

    return answer


def call_error(**more: Any) -> Answer:
    """A call that fails."""
    made = CallError(
        more.pop("kind", "transport"),
        "it broke",
        more.pop("scope", "group"),
        **more,
    )
    return lambda request: made


def long_group() -> Group:
    """A group that can be shortened."""
    tool = {"role": "tool", "content": "output " * 3000}
    return group(*([*talk(a)[:1], tool, *talk(a)[1:]] for a in TRUTH))
