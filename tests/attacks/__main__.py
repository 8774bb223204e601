"""Count the attacks of each family that fail, and the innocent texts that are flagged."""

from __future__ import annotations

from ruler_cli.judges.offline import blocks
from ruler_cli.prompting.injection import is_suspect
from ruler_cli.prompting.prompt import build_layout, write_prompt
from ruler_cli.settings.models import AskSettings
from tests.attacks import FAMILIES, INNOCENT, PLACES
from tests.attacks.real import real_dumps, rollouts_of


def _flagged(text: str) -> bool:
    return bool(build_layout(PLACES[0].group(text), AskSettings()).suspects)


def _held(text: str) -> bool:
    """Tell if the prompt holds exactly the real rollouts; the tests assert more."""
    layout = build_layout(PLACES[0].group(text), AskSettings())
    prompt = write_prompt(layout, AskSettings())
    return blocks(prompt.user) == {
        label: layout.distinct[i] for label, i in prompt.shown.items()
    }


def main() -> None:
    """Print the table."""
    print(
        f"{'family':<22}{'items':>7}{'held':>11}{'to flag':>9}{'flagged':>9}{'missed':>8}"
    )
    totals = [0] * 5
    for family, attacks in FAMILIES.items():
        row = (
            len(attacks),
            sum(_held(attack.text) for attack in attacks),
            sum(attack.flagged for attack in attacks),
            sum(_flagged(attack.text) for attack in attacks),
            sum(bool(attack.missed) for attack in attacks),
        )
        totals = [total + number for total, number in zip(totals, row, strict=True)]
        print("{:<22}{:>7}{:>11}{:>9}{:>9}{:>8}".format(family, *row))
    print("{:<22}{:>7}{:>11}{:>9}{:>9}{:>8}".format("all", *totals))
    print(
        f"each in up to {len(PLACES)} places, of which the judge sees {sum(p.own for p in PLACES)} as its own"
    )
    print(f"innocent texts: {len(INNOCENT)}, flagged {sum(map(_flagged, INNOCENT))}")
    real = {
        dump: [is_suspect(rollout) for rollout in rollouts_of(dump)]
        for dump in real_dumps()
    }
    read = {dump: flags for dump, flags in real.items() if flags}
    rollouts, flagged = sum(map(len, read.values())), sum(map(sum, read.values()))
    print(
        f"real dumps and examples: {len(read)} files, {rollouts} distinct rollouts, flagged {flagged}"
    )
    print(
        "held: the structure stops it; to flag: only the judge can, so it must be suspect"
    )
    for why, text in (
        (a.missed, a.text) for attacks in FAMILIES.values() for a in attacks if a.missed
    ):
        print(f"missed, since it {why}: {text!a}")


if __name__ == "__main__":
    main()
