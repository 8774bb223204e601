"""What is told of `--engine ray` before anything is read."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path

import pytest

from ruler_cli.cli.clusters import refuse_what_leads_nowhere
from ruler_cli.errors import RefusedError, UsageError
from tests.conftest import Ruler, group, write

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@needs_ray
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


@needs_ray
@pytest.mark.parametrize("address", [None, "auto", "local", "h:", "h:99999", "ray://h:1"])
def test_other_addresses(address: str | None) -> None:
    """What is no host with its port is left to Ray."""
    refuse_what_leads_nowhere("ray", address, [])


@needs_ray
def test_somebody_there() -> None:
    """An address where somebody listens is taken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_what_leads_nowhere("ray", f"127.0.0.1:{server.getsockname()[1]}", [])


def test_nobody_there_by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own variable is looked at as the option is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setattr("ruler_cli.cluster.reach.find_spec", lambda _: object())
        with pytest.raises(RefusedError, match=f"RAY_ADDRESS {address}: nobody answers"):
            refuse_what_leads_nowhere("ray", None, [])


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray that is not installed is told before anything is read."""
    monkeypatch.setattr("ruler_cli.cluster.reach.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'ruler-cli\[ray\]'"):
        refuse_what_leads_nowhere("ray", None, [])
