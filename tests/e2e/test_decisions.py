"""A real decision model: llama.cpp's System One over a small model's weights, and litellm's proxy in front of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler, read
from tests.e2e import runs
from tests.e2e.llama import Llama, missing, weights
from tests.e2e.proxy import MASTER_KEY, Proxy, deployment, interpreter

_TEMPLATE = """{{ state }}

{{ instructions }}
{% for option in options %}{{ option.label }}: {{ option.key }}
{% endfor %}Answer with one label."""
_STRING, _LIST = 8, 9
"""Types of values of a file of weights: a text, a list; all others are numbers, of these bytes."""
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_ALIGNED = 32


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


class _Reader:
    """A file of weights in GGUF, read up to its tensors."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 24

    def number(self, form: str) -> Any:
        """Take the next number."""
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def skip(self, kind: int) -> None:
        """Pass over a value: a number of some bytes, a text, or a list."""
        if kind == _STRING:
            size = self.number("<Q")
            self.at += size
        elif kind == _LIST:
            inner = self.number("<I")
            for _ in range(self.number("<Q")):
                self.skip(inner)
        else:
            self.at += _SIZES[kind]


def decider(folder: Path) -> Path:
    """Write the weights again as those of a decision model: with two more values before the tensors."""
    data = weights().read_bytes()
    _, version, tensors, values = struct.unpack_from("<IIQQ", data)
    reader = _Reader(data)
    for _ in range(values):
        reader.skip(_STRING)
        reader.skip(reader.number("<I"))
    end = reader.at
    for _ in range(tensors):
        reader.skip(_STRING)
        dimensions = reader.number("<I")
        reader.at += 8 * dimensions + 12
    more = b"".join(
        _text(name) + struct.pack("<I", _STRING) + _text(text)
        for name, text in (
            ("llama.decision.type", "lev"),
            ("tokenizer.chat_template.systemone", _TEMPLATE),
        )
    )
    head = data[:4] + struct.pack("<IQQ", version, tensors, values + 2)
    begin = head + data[24:end] + more + data[end : reader.at]
    rest = data[-(-reader.at // _ALIGNED) * _ALIGNED :]
    path = folder / "decider.gguf"
    path.write_bytes(begin + bytes(-len(begin) % _ALIGNED) + rest)
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Llama]:
    """The decision model in two slots of 2,048 tokens."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("decider")
    with Llama(folder, context=2048, slots=2, model=decider(folder)) as llama:
        yield llama


def judge(base: str, *more: str) -> tuple[str, ...]:
    """The options of the judge at an address."""
    return ("-m", "hosted_vllm/decider", "--api-base", base, *more)


def rewards(path: Path) -> list[float]:
    """The scores of OUTPUT."""
    return [
        rollout["reward"]
        for group in read(path)
        for rollout in group["trajectories"]
    ]


@pytest.mark.parametrize("ask", ["group", "each"])
def test_scored(ask: str, server: Llama, ruler: Ruler, tmp_path: Path) -> None:
    """Real probabilities are scores that differ, with one request a pass or a rollout; a second run asks nothing."""
    source = runs.orders(tmp_path, 2)
    options = judge(server.root, "--api", "systemone", "--ask", ask)
    done = ruler("score", source, "out.jsonl", *options)
    assert done.returncode == 0, done.stderr
    scores = rewards(tmp_path / "out.jsonl")
    assert len({*scores}) > 1
    assert all(0 < score < 1 for score in scores)
    again = ruler("score", source, "again.jsonl", *options)
    assert "2 groups answered from the ledger" in again.stderr
    assert rewards(tmp_path / "again.jsonl") == scores


def test_too_long(server: Llama, ruler: Ruler, tmp_path: Path) -> None:
    """A group that does not fit the context is shown in less text, or fails as too long; it is never scored unseen."""
    source = tmp_path / "long.jsonl"
    task = {"role": "user", "content": "Count."}
    rollouts = [
        {
            "messages": [
                task,
                {"role": "assistant", "content": f"{n} word " * 3000},
            ]
        }
        for n in range(2)
    ]
    source.write_text(
        json.dumps({"group_id": "long", "trajectories": rollouts})
    )
    done = ruler(
        "score", source, "out.jsonl", *judge(server.root, "--api", "systemone")
    )
    assert done.returncode == 1
    (group,) = read(tmp_path / "out.jsonl")
    assert group["ruler"]["kind"] == "too_long"


@pytest.mark.skipif(
    interpreter() is None, reason="litellm[proxy] is not installed"
)
def test_proxy(server: Llama, ruler: Ruler, tmp_path: Path) -> None:
    """litellm's proxy answers OpenAI's Decisions in front of it, with the same scores."""
    source = runs.orders(tmp_path, 1)
    done = ruler(
        "score", source, "one.jsonl", *judge(server.root, "--api", "systemone")
    )
    assert done.returncode == 0, done.stderr
    model = deployment("decider", "decider", server.base)
    model["litellm_params"]["model"] = "hosted_vllm/decider"
    with Proxy(tmp_path, [model]) as proxy:
        options = judge(
            f"{proxy.root}/v1", "--api", "decisions", "--ledger", "none"
        )
        key = ("--api-key-env", "PROXY_KEY")
        done = ruler(
            "score", source, "two.jsonl", *options, *key, PROXY_KEY=MASTER_KEY
        )
    assert done.returncode == 0, done.stderr
    first, two = (
        rewards(tmp_path / f"{name}.jsonl") for name in ("one", "two")
    )
    assert two == pytest.approx(first, abs=0.02)
