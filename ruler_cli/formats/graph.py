"""Messages as nodes that name their parent → conversations, one for each leaf."""

from __future__ import annotations

from typing import Any

from ruler_cli.errors import UnreadableError


def branches(nodes: Any) -> list[list[Any]]:
    """The messages from the root to each leaf, in the order of the leaves; UnreadableError says why not."""
    if not isinstance(nodes, list) or not nodes:
        raise UnreadableError("has no messages in `nodes` (the rollout ended before the first turn)")
    parents: list[int | None] = []
    for i, node in enumerate(nodes):
        parent = node.get("parent") if isinstance(node, dict) else None
        if not isinstance(node, dict) or "message" not in node:
            raise UnreadableError(f"`nodes[{i}]` holds no `message`")
        if parent is not None and (not isinstance(parent, int) or not 0 <= parent < i):
            raise UnreadableError(f"`nodes[{i}]` has no earlier node as its `parent`")
        parents.append(parent)
    inner = set(parents)
    found = []
    for leaf in range(len(nodes)):
        if leaf in inner:
            continue
        way: list[Any] = []
        at: int | None = leaf
        while at is not None:
            way.append(nodes[at]["message"])
            at = parents[at]
        found.append(way[::-1])
    return found
