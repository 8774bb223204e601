"""Measure the share of pairs in which the offline judge ranks a passed rollout above a failed one.

    python -m tests.judges.agreement FILE

FILE holds tau-bench results, one rollout per line.  They are scored here without a run of `ruler score`;
the measure is that of `ruler agree`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from pathlib import Path

import orjson

from ruler_cli.judges.offline import Offline
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.results.agreement import Agreement
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.scoring.parse_reply import parse
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, Line, Record, Rollout
from tests.results.agree_values import measure
from tests.values import first_request


def read_groups(path: Path) -> list[Group]:
    """Return the rollouts of a tau-bench file by task."""
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        run = orjson.loads(raw)
        rollout = Rollout(run["traj"], reward=run["reward"])
        records[str(run["task_id"])].append(
            Record(Line(number, 0, raw), (rollout,))
        )
    return [Group(key, tuple(members)) for key, members in records.items()]


def offline_scores(group: Group) -> list[float]:
    """Return the offline judge's score of each rollout, in input order, through a real request and reply."""
    ask = AskSettings()
    layout = build_layout(group, ask)
    prompt = first_request(layout, ask)
    reply = asyncio.run(Offline().ask(prompt))
    parsed = parse(reply.text, prompt.labels)
    scores = {
        prompt.shown[label]: score
        for label, ((score,), _) in parsed.entries.items()
    }
    return [scores[owner] for owner in layout.owner if owner is not None]


def agreement(path: Path) -> Agreement:
    """Score every group of a file and compare with its rewards."""
    groups = (
        GroupRecord(
            "scored",
            group.key,
            rollouts=tuple(
                RolloutRecord(
                    "scored",
                    score,
                    score,
                    indices=(at,),
                    label=float(rollout.reward),
                )
                for at, (score, rollout) in enumerate(
                    zip(offline_scores(group), group.rollouts, strict=True)
                )
            ),
        )
        for group in read_groups(path)
    )
    return measure(groups, "offline")


def main() -> None:
    """Print the figures."""
    result = agreement(Path(sys.argv[1]))
    (judge,) = result["scorers"]
    mixed = result["mixed_groups"]
    print(
        f"groups {result['groups']}, with both outcomes {mixed}, pairs {judge['pairs']}"
    )
    for name, figure in judge.items():
        if isinstance(figure, dict) and figure["value"] is not None:
            ends = f"{figure['low']:.3f} to {figure['high']:.3f}"
            print(f"{name} {figure['value']:.3f} (95 % over groups: {ends})")


if __name__ == "__main__":
    main()
