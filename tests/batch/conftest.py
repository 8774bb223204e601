"""A separate batch server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.judge_server import BatchServer


@pytest.fixture
def batch_server() -> Iterator[BatchServer]:
    """Both batch APIs on loopback."""
    with BatchServer() as server:
        yield server
