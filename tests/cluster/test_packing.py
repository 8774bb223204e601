"""What processes of a run exchange comes out as it went in."""

from __future__ import annotations

from dataclasses import fields

from ruler_cli.cluster.messages import Answer, Claim, Parcel, Room, Snapshot
from ruler_cli.cluster.packing import _TYPES, packed, unpacked
from ruler_cli.observer import Status
from ruler_cli.pool.caller import Tally
from ruler_cli.records import Failure, Fault, Line, Reply, Usage


def test_values() -> None:
    """Values are equal after their way, those that are not compared included."""
    tally = Tally(3, Usage(1, 2, 3, 4), 1, 2, {"rate": 1}, 5)
    told = (Claim(1, 0, b"key", again=True, look=False, repeated=True), Room())
    parcel = Parcel(7, told, Snapshot(2, (Status(1),), (tally,), 1.5, 0.5))
    answers = (Answer(1), Answer(2, Reply("x", body=b"{}", seconds=2.0, kept=True)), Failure("reply", "why"))
    for value in (parcel, answers, Line(1, 2, b"raw", "item 1"), Fault("budget", "no", "group", body=b"b")):
        found = unpacked(packed(value))
        assert found == value
    assert unpacked(packed(answers))[1].given.body == b"{}"
    assert unpacked(packed(answers))[1].given.kept


def test_every_field_is_an_argument() -> None:
    """Types that are packed by their constructor take each of their fields there, in order."""
    for made in _TYPES:
        assert all(field.init and not field.kw_only for field in fields(made)), made
        assert not hasattr(made, "__post_init__"), made
