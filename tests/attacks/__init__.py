"""Attacks of rollouts on their judge, by family, and innocent text that looks like them.

`python -m tests.attacks` prints the results for each family.
"""

from __future__ import annotations

from tests.attacks.families import FAMILIES
from tests.attacks.innocents import INNOCENT
from tests.attacks.item import Attack
from tests.attacks.places import PLACES, Place

__all__ = ["FAMILIES", "INNOCENT", "PLACES", "Attack", "Place"]
