"""A run that is left alone: what is taken away from under it, and what its judge does at night."""

from __future__ import annotations

import threading

from ruler_cli.groups import Index
from ruler_cli.records import Line


def test_index_closed_while_read() -> None:
    """An index that is closed under the thread that fills it ends that thread, not the process."""
    for _ in range(20):
        index, ended, begun = Index(), [], threading.Event()

        def fill(
            index: Index = index, ended: list[Exception] = ended, begun: threading.Event = begun
        ) -> None:
            try:
                for number in range(10**6):
                    index.add(Line(number, 0, b""), str(number), 1)
                    if number == 4_000:
                        begun.set()
            except Exception as error:  # noqa: BLE001 - whatever ends the thread
                ended.append(error)

        thread = threading.Thread(target=fill)
        thread.start()
        assert begun.wait(10)
        index.close()
        thread.join(10)
        assert len(ended) == 1
