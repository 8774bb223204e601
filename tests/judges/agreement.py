"""How often the offline judge ranks a rollout that passed its check above one that failed.

    python -m tests.judges.agreement FILE

FILE holds tau-bench results, one rollout per line.  Pairs (passed, failed) are taken within each
task that has both; a tie is half a win.  The interval resamples whole groups (2,000 times, seed 0).
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import orjson

from ruler_cli.judges.offline import Offline
from ruler_cli.records import Group, Line, Record, Rollout
from ruler_cli.scoring.reply import Reading, read
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of one mixed group, and the chance that its top-ranked rollout passed."""

    won: int
    tied: int
    lost: int
    top: float
    base: float

    @property
    def number(self) -> int:
        """How many pairs there are."""
        return self.won + self.tied + self.lost


@dataclass(frozen=True, slots=True)
class Agreement:
    """All groups of a file, and the pairs of each mixed one."""

    groups: int
    mixed: tuple[Pairs, ...]

    @property
    def accuracy(self) -> float:
        """Share of pairs won, ties half."""
        return _accuracy(self.mixed)

    @property
    def interval(self) -> tuple[float, float]:
        """Central 95 % of the accuracy over resampled groups."""
        draw = random.Random(0)
        found = sorted(_accuracy(draw.choices(self.mixed, k=len(self.mixed))) for _ in range(2000))
        return found[50], found[-51]


def read_groups(path: Path) -> list[Group]:
    """The rollouts of a tau-bench file by task."""
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        run = orjson.loads(raw)
        rollout = Rollout(run["traj"], reward=run["reward"])
        records[str(run["task_id"])].append(Record(Line(number, 0, raw), (rollout,)))
    return [Group(key, tuple(members)) for key, members in records.items()]


def judged(group: Group) -> list[float]:
    """The offline judge's score of each rollout, in input order, through a real request and reply."""
    ask = AskSettings()
    sheet = lay_out(group, ask)
    paper = compose(sheet, ask)
    reply = asyncio.run(Offline().ask(paper.request))
    reading = read(reply.text, paper.request.labels)
    assert isinstance(reading, Reading)
    scores = {paper.labels[label]: score for label, (score, _) in reading.entries.items()}
    return [scores[owner] for owner in sheet.owner if owner is not None]


def agreement(path: Path) -> Agreement:
    """Judge every group of a file and compare with its rewards."""
    groups = read_groups(path)
    mixed = [g for g in groups if len({r.reward for r in g.rollouts}) > 1]
    return Agreement(len(groups), tuple(_pairs(g, judged(g)) for g in mixed))


def _pairs(group: Group, scores: list[float]) -> Pairs:
    rewards = [rollout.reward for rollout in group.rollouts]
    gaps = [
        a - b
        for a, reward in zip(scores, rewards, strict=True)
        for b, other in zip(scores, rewards, strict=True)
        if reward > other
    ]
    best = [r for s, r in zip(scores, rewards, strict=True) if s == max(scores)]
    return Pairs(
        sum(gap > 0 for gap in gaps),
        gaps.count(0),
        sum(gap < 0 for gap in gaps),
        sum(best) / len(best),
        sum(rewards) / len(rewards),
    )


def _accuracy(mixed: tuple[Pairs, ...] | list[Pairs]) -> float:
    return sum(p.won + p.tied / 2 for p in mixed) / sum(p.number for p in mixed)


def main() -> None:
    """Print the figures."""
    found = agreement(Path(sys.argv[1]))
    mixed = found.mixed
    low, high = found.interval
    print(f"groups {found.groups}, with both outcomes {len(mixed)}, pairs {sum(p.number for p in mixed)}")
    won, tied, lost = (sum(getattr(p, field) for p in mixed) for field in ("won", "tied", "lost"))
    print(f"won {won}, tied {tied}, lost {lost}")
    print(f"pairwise accuracy {found.accuracy:.3f} (95 % over groups: {low:.3f} to {high:.3f}; chance .5)")
    print(f"top-1 passed {sum(p.top for p in mixed):.1f} (by chance {sum(p.base for p in mixed):.1f})")


if __name__ == "__main__":
    main()
