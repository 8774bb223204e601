"""In which order a pass shows the rollouts: balanced over passes, keyed by content.

A judge prefers some places. An order and its reverse give each rollout places that sum to the same;
further pairs start a quarter of the group later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

CYCLE = 8
"""Turns that one drawn order serves: four shifts of it, each with its reverse."""


def balanced(base: Sequence[int], turn: int) -> list[int]:
    """The order of a turn within its cycle: `base`, its reverse, `base` a quarter later, its reverse, …."""
    pair, back = divmod(turn % CYCLE, 2)
    shift = -(-len(base) * pair // (CYCLE // 2)) % max(len(base), 1)  # rounded up: two and three move too
    order = [*base[shift:], *base[:shift]]
    return order[::-1] if back else order


def order_of(digest: bytes, digests: Sequence[bytes], *, seed: int, turn: int) -> list[int]:
    """The order in which a turn shows all bodies, given by their digests; `digest` is the group's."""
    key = salt(digest, seed=seed, turn=turn - turn % CYCLE, attempt=0)
    return balanced(drawn(range(len(digests)), digests, key), turn)


def drawn(bodies: Iterable[int], digests: Sequence[bytes], key: bytes) -> list[int]:
    """Bodies in an order that only `key` and their digests decide."""
    return sorted(bodies, key=lambda i: keyed(key, b"order", digests[i]))


def salt(digest: bytes, *, seed: int, turn: int, attempt: int) -> bytes:
    """What all draws for one attempt of a turn are keyed with."""
    return digest + (b"%d/%d/%d" % (seed, attempt, turn) if turn else b"%d/%d" % (seed, attempt))


def keyed(*parts: bytes | str) -> bytes:
    """A hash that no other parts have, however they are cut."""
    whole = []
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole += [len(data).to_bytes(8), data]
    return blake2b(b"".join(whole), digest_size=16).digest()
