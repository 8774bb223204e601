"""The input as Ray Data reads it: chunks of groups, in their order, few of them at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli.cluster.chunk import Chunk, chunks_of
from ruler_cli.cluster.plan import Range, read_chunks
from ruler_cli.formats.reader import Reader
from ruler_cli.groups import Survey
from ruler_cli.reading import reread
from ruler_cli.settings import InputSettings

_BLOCK = 4 << 20
"""Bytes of chunks that come as one block of Ray Data: each costs the driver milliseconds."""

_LAST, _POLL = 10.0, 0.05
"""Seconds in which a block that is being read may come to its end."""

Read = Callable[[], Iterator[Chunk]]


@dataclass(frozen=True, slots=True)
class Part:
    """What one read task reads; how many chunks and bytes of input that is, None: not known."""

    read: Read
    chunks: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A chunk in Ray's store: its block, its row there, how many groups and bytes of input it holds."""

    block: Any
    row: int
    groups: int
    size: int
    body: Any


def ranged(plan: str, source: str, unit: str, ranges: Sequence[Range]) -> list[Part]:
    """A plain file, read by the places of its lines."""

    def reading(part: Range) -> Read:
        return lambda: read_chunks(plan, source, unit, part)

    return [Part(reading(part), part.chunks, part.size) for part in ranges]


def streamed(settings: InputSettings, reader: Reader, found: Survey, together: bool) -> list[Part]:
    """Whatever else can be read from its first record on, as it was surveyed."""

    def read() -> Iterator[Chunk]:
        with ExitStack() as stack:
            yield from chunks_of(reread(settings, reader, found, stack), together)

    return [Part(read, None, None)]


class Flow:
    """The chunks of an input in their order, as they are asked for; what reads them ends with `close`."""

    def __init__(self, ray: Any, parts: Sequence[Part], node: str | None) -> None:
        """`node` is where the parts are to be read, None: anywhere."""
        self._blocks = _blocks(ray, parts, node)
        self._waiting = deque[Sent]()

    async def pull(self) -> Sent | None:
        """The next one, None at the end; RayError where it cannot be read."""
        while not self._waiting:
            found = await anyio.to_thread.run_sync(next, self._blocks, None, abandon_on_cancel=True)
            if found is None:
                return None
            self._waiting.extend(found)
        return self._waiting.popleft()

    async def close(self) -> None:
        """Nothing is read any more: Ray must not go while its executor runs."""
        self._waiting.clear()
        with anyio.move_on_after(_LAST, shield=True):
            while True:
                try:
                    return await anyio.to_thread.run_sync(self._blocks.close)
                except ValueError:  # a thread that nobody waits for is in it
                    await anyio.sleep(_POLL)


def _blocks(ray: Any, parts: Sequence[Part], node: str | None) -> Generator[list[Sent]]:
    """The chunks of each block that Ray Data reads."""
    data = ray.data
    context = data.DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = _BLOCK
    context.target_min_block_size = 1
    context.execution_options.preserve_order = True
    context.execution_options.verbose_progress = False
    where = {} if node is None else {"label_selector": {"ray.io/node-id": node}}
    with data.DataContext.current(context):
        # reading waits for the judge nearly all the time: it takes no CPU away from workers
        dataset = data.read_datasource(
            _datasource(ray, parts),
            override_num_blocks=len(parts),
            num_cpus=0,
            concurrency=min(2, len(parts)),
            **where,
        )
        bundles = dataset.iter_internal_ref_bundles()
    for bundle in bundles:
        for block in bundle.block_refs:
            table = ray.get(block)
            rows = enumerate(zip(table["groups"].to_pylist(), table["size"].to_pylist(), strict=True))
            yield [Sent(block, row, *told, table["chunk"][row].as_buffer()) for row, told in rows]


def _datasource(ray: Any, parts: Sequence[Part]) -> Any:
    from ray.data.block import BlockMetadata

    class Rollouts(ray.data.Datasource):  # type: ignore[misc]  # ray's classes have no types here
        """Read tasks, one for each part."""

        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *more: Any, **named: Any) -> list[Any]:
            return [
                ray.data.ReadTask(
                    _tables(part.read),
                    BlockMetadata(
                        num_rows=part.chunks, size_bytes=part.size, input_files=None, exec_stats=None
                    ),
                )
                for part in parts
            ]

    return Rollouts()


def _tables(read: Read) -> Callable[[], Iterable[Any]]:
    """Chunks as tables of one row."""

    def tables() -> Iterator[Any]:
        import pyarrow

        for chunk in read():
            size = sum(len(line.raw) for line in chunk.lines)
            body = pyarrow.array([chunk.packed()], pyarrow.large_binary())
            yield pyarrow.table({"chunk": body, "groups": [len(chunk.groups)], "size": [size]})

    return tables


def body_of(block: Any, row: int) -> memoryview:
    """A chunk's bytes, where a block came as a table."""
    return memoryview(block["chunk"][row].as_buffer())
