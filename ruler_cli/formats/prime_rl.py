"""prime-rl: `rollouts/step_N/…/traces.jsonl`, verifiers' episodes (2026-08) or traces (2026-07) with a group.

Written by `src/prime_rl/monitors/file.py` `FileMonitor.log_episodes`. Traps beside those of verifiers:
- The group is `group.id`, in July `group_id`; the task comes again in later steps with another group.
- `all/` is in the order of arrival; in `effective/` groups may be smaller than they were.
- Token ids, masks and log probabilities on the nodes are most of the bytes.
`train_rollouts.jsonl` (2026-04) has the shape of verifiers' results and is read as that.
"""

from __future__ import annotations

from ruler_cli.formats.interface import Format, Layout, lookup
from ruler_cli.formats.verifiers_traces import (
    PLAIN,
    WEIGHTED,
    is_episode,
    is_trace,
    read_bare,
    read_episode,
)

EPISODE = Format(
    name="prime-rl episodes",
    family="prime-rl",
    shape="trajectory",
    tells="`traces`, `task`, `group.id`",
    matches=lambda record: is_episode(record) and lookup(record, "group.id") is not None,
    rollouts=read_episode,
    keys=("group.id",),
    layout=WEIGHTED,
)


def _bare(name: str, kind: str, layout: Layout) -> Format:
    return Format(
        name=name,
        family="prime-rl",
        shape="trajectory",
        tells="`nodes`, `task`, `rewards`, `group_id`",
        matches=lambda record: is_trace(record) == kind and "group_id" in record,
        rollouts=read_bare,
        keys=("group_id",),
        layout=layout,
    )


FORMATS = (
    EPISODE,
    _bare("prime-rl weighted traces", "weighted", WEIGHTED),
    _bare("prime-rl traces", "plain", PLAIN),
)
