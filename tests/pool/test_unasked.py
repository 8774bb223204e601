"""What stands where a judge is not asked finds what is kept, and tells what is not."""

from __future__ import annotations

import anyio

from ruler_cli.judges.nobody import Nobody
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.unasked import Unasked
from ruler_cli.records import UNANSWERED, Fault, Reply, Request

ONE, OTHER = Request("s", "one", ("a",)), Request("s", "other", ("a",))
OK = Reply("ok", body=b"{}", kept=True)
MARK = Fault("too_long", "too long", "group", kept=True)


class Shelf:
    """A ledger in memory; it has a key for a text."""

    def __init__(self, **held: Reply | Fault) -> None:
        self.held = held

    def key(self, request: Request) -> bytes:
        """The text."""
        return request.user.encode()

    def find(self, key: bytes) -> Reply | Fault | None:
        """What it holds."""
        return self.held.get(key.decode())

    async def keep(self, key: bytes, answer: Reply | Fault) -> None:
        """Nothing is to be kept."""
        raise AssertionError("nobody is asked")


def asked(shelf: Shelf, *requests: Request, again: bool = False) -> tuple[list[Reply | Fault], list[bytes]]:
    """The answers, and the keys of what was wanted."""
    wanted: list[bytes] = []

    async def main() -> list[Reply | Fault]:
        caller = Unasked(Nobody("one"), Halt(), shelf, lambda key, _: wanted.append(key))
        found = [await caller.call(request, again=again) for request in requests]
        assert caller.tally.unanswered == len(wanted)
        assert caller.tally.asked == 0
        return found

    return anyio.run(main), wanted


def test_what_is_kept() -> None:
    """A kept reply or mark is the answer; what is not kept is told, and is a Fault that nobody keeps."""
    assert asked(Shelf(one=OK), ONE, OTHER) == ([OK, UNANSWERED], [b"other"])
    assert asked(Shelf(one=MARK), ONE) == ([MARK], [])


def test_again() -> None:
    """Asked again are calls that failed, not replies: a second reply to one request would not be taken in."""
    assert asked(Shelf(one=MARK, other=OK), ONE, OTHER, again=True) == ([UNANSWERED, OK], [b"one"])
    assert asked(Shelf(), ONE, again=True) == ([UNANSWERED], [b"one"])
