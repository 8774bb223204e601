"""The driver's side without a cluster: what it refuses, and a chunk over which workers end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ruler_cli.cluster.chunk import Chunk
from ruler_cli.cluster.environment import needed
from ruler_cli.cluster.fleet import Fleet, _Member
from ruler_cli.cluster.hub import Desk
from ruler_cli.cluster.source import Sent
from ruler_cli.judges.choose import choose
from ruler_cli.observer import Observer
from ruler_cli.pool.halt import Halt
from ruler_cli.records import Line
from ruler_cli.settings import InputSettings, JudgeSettings, ScoreSettings
from tests.conftest import Ruler, group, write


class Gone(Exception):  # noqa: N818 - as Ray calls an actor that is no more
    """A worker is."""


class _Ray:
    """As much of the package as the driver asks about errors."""

    class exceptions:  # noqa: N801 - a module's name
        """Ray's."""

        RayError = Gone

        class RayTaskError(Gone):
            """Raised by what ran there."""


class _Handle:
    """A worker that ends over some chunks."""

    def __init__(self, deadly: Callable[[int], bool]) -> None:
        self._deadly, self.judge, self.asked = deadly, self, list[int]()

    async def remote(self, block: int, row: int, repeated: bool) -> bytes:
        """Judge, or end."""
        self.asked.append(block)
        await anyio.lowlevel.checkpoint()
        if self._deadly(block):
            raise Gone
        import pickle

        from ruler_cli.cluster.messages import Snapshot

        return pickle.dumps(([block], Snapshot()))


def _fleet(halt: Halt) -> Fleet:
    settings = ScoreSettings(InputSettings("in.jsonl"), "out.jsonl", JudgeSettings("offline"), engine="ray")
    fleet = Fleet(settings, [choose(settings.judge)], halt, None, Observer())
    fleet._session.ray = _Ray
    return fleet


def _sent(number: int) -> Sent:
    return Sent(number, 0, 1, 10, Chunk([Line(number, 0, b"{}")], [[(0, 0)]]).packed())


@pytest.mark.anyio
async def test_a_chunk_that_ends_workers() -> None:
    """A chunk over which three workers end stops the run and is named; others that were there are judged."""
    halt = Halt()
    fleet = _fleet(halt)
    handle = _Handle(lambda block: block == 3)
    found: dict[int, Any] = {}

    async def one(number: int) -> None:
        found[number] = await fleet._judge(_sent(number))

    async def begin() -> None:  # a new worker wherever one ended
        while True:
            if not fleet._members:
                fleet._members.append(_Member(handle, Desk()))
                fleet._move()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(begin)
        async with anyio.create_task_group() as chunks:
            for number in range(1, 6):
                chunks.start_soon(one, number)
        tasks.cancel_scope.cancel()
    assert handle.asked.count(3) == 3
    assert found.pop(3) == []
    assert found == {number: [number] for number in (1, 2, 4, 5)}
    assert "3 workers ended over line 3 to line 3" in str(halt.reason)
    assert not fleet.panel.in_flight


def test_without_ray(ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ray the command says how it is installed, before anything is read."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    monkeypatch.setattr("ruler_cli.cluster.reach.find_spec", lambda _: None)
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline", "--engine", "ray")
    assert done.returncode == 2
    assert "pip install 'ruler-cli[ray]'" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("source", "address", "says"),
    [
        ("-", "", "stdin cannot be read by other processes"),
        ("in.jsonl", "ray://head:10001", "ray job submit"),
    ],
)
def test_what_cannot_be(ruler: Ruler, tmp_path: Path, source: str, address: str, says: str) -> None:
    """What workers cannot be given is refused with the way out."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    given = ["--ray-address", address] if address else []
    done = ruler("score", source, "out.jsonl", "-m", "offline", "--engine", "ray", *given)
    assert done.returncode == 2
    assert says in done.stderr


def test_no_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are told the keys of the run's judges, and no others."""
    for name in ("OPENAI_API_KEY", "MINE", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, name.lower())
    judges = [JudgeSettings("openai/o3"), JudgeSettings("groq/x", api_key_env="MINE")]
    assert set(needed(judges)) == {"OPENAI_API_KEY", "MINE", "GROQ_API_KEY"}
    assert "AWS_SECRET_ACCESS_KEY" in needed([JudgeSettings("bedrock/x")])
    assert "OPENAI_API_KEY" not in needed([JudgeSettings("bedrock/x")])
