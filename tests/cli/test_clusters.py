"""What is told of `--engine ray` before anything is read."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ruler_cli.cli.clusters import refuse_what_leads_nowhere
from tests.conftest import Ruler, group, write


def test_nobody_there(ruler: Ruler, tmp_path: Path) -> None:
    """An address where nobody listens ends the run at once, with the way to the right one."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        done = ruler("score", "in.jsonl", "out.jsonl", "-m", "hosted_vllm/q", "--api-base", "http://h/v1",
                     "--engine", "ray", "--ray-address", address)  # fmt: skip
    assert done.returncode == 3
    assert f"--ray-address {address}: nobody answers there" in done.stderr


@pytest.mark.parametrize("option", [("--ray-workers", "4"), ("--ray-address=h:1",)])
def test_without_ray(ruler: Ruler, tmp_path: Path, option: tuple[str, ...]) -> None:
    """An option of Ray does not go unheard without Ray; a variable that is set for other runs does."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    run = ("score", "in.jsonl", "out.jsonl", "-m", "offline")
    done = ruler(*run, *option)
    assert (done.returncode, "give --engine ray too" in done.stderr) == (2, True)
    assert ruler(*run, RULER_RAY_WORKERS="4").returncode == 0


@pytest.mark.parametrize("address", [None, "auto", "local", "h:", "h:99999"])
def test_other_addresses(address: str | None) -> None:
    """What is no host with its port is left to Ray."""
    refuse_what_leads_nowhere("ray", address, [])


def test_somebody_there() -> None:
    """An address where somebody listens is taken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_what_leads_nowhere("ray", f"127.0.0.1:{server.getsockname()[1]}", [])
