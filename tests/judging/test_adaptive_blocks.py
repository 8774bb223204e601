"""Groups that decide together: none waits for ever, and the order of their reports decides nothing."""

from __future__ import annotations

import random
from functools import partial

import anyio
import pytest

from ruler_cli.judging.adaptive import BLOCK_BYTES, BLOCK_GROUPS, BlockMember, Blocks
from ruler_cli.types import Group, GroupResult, Line, Record
from tests.scoring.group_results import failed_call, group_result, one_pass
from tests.values import few
from tests.virtual import virtually

LONGEST = 1e6


def group(size: int = 100) -> Group:
    """A group of so many bytes."""
    return Group("g", (Record(Line(1, 0, b"x" * size), ()),))


def result(number: int, passes: int, dice: random.Random) -> GroupResult:
    """The result of a group after so many passes: some clear, some noisy, some failed."""
    if number % 7 == 3:
        return group_result(
            *(failed_call(pass_index) for pass_index in range(passes)), size=4
        )
    noise = 0.02 if number % 2 else 0.15
    rows = []
    for pass_index in range(passes):
        own = random.Random(f"{number} {pass_index}")
        order = own.sample(range(8), 8)
        rows.append(
            one_pass(
                [0.5 + 0.06 * rollout + own.gauss(0, noise) for rollout in order],
                pass_index,
                distinct=order,
            )
        )
    return group_result(*rows)


async def report_until_done(
    member: BlockMember, number: int, dice: random.Random, passes: list[int]
) -> None:
    """Report and take the passes that are allotted, until there are no more."""
    while True:
        await anyio.sleep(dice.random())
        more = await member.more(result(number, passes[number], dice), 1000.0)
        if not more:
            return
        passes[number] += more


def spent(groups: int, average: int, seed: int, sizes: int = 100) -> list[int]:
    """The passes that each group ends up with, for any time that it takes to report."""
    dice, passes = random.Random(seed), [2] * groups

    async def main() -> None:
        blocks = Blocks(average)
        with anyio.fail_after(LONGEST):
            async with anyio.create_task_group() as tasks:
                for number in range(groups):
                    tasks.start_soon(
                        partial(
                            report_until_done,
                            blocks.place(group(sizes)),
                            number,
                            dice,
                            passes,
                        )
                    )
                    await anyio.sleep(dice.random() / 10)
                await anyio.sleep(50 * dice.random())
                blocks.close()

    virtually(main)
    return passes


@pytest.mark.parametrize("groups", [1, 5, BLOCK_GROUPS, BLOCK_GROUPS + 1, 150])
@pytest.mark.parametrize("average", few(1, [4, 2, 3]))
def test_ends(groups: int, average: int) -> None:
    """Every group ends, the order of reports decides nothing, and the average holds."""
    passes = spent(groups, average, 0)
    assert passes == spent(groups, average, 1) == spent(groups, average, 2)
    assert all(number >= 2 for number in passes)
    for start in range(0, groups, BLOCK_GROUPS):
        block = [
            n
            for i, n in enumerate(passes[start : start + BLOCK_GROUPS], start)
            if i % 7 != 3
        ]
        assert sum(block) <= max(average, 2) * len(block)
    assert all(passes[i] == 2 for i in range(groups) if i % 7 == 3)
    if groups > 5 and average > 3:
        assert max(passes) > 2


def test_full_block_does_not_wait() -> None:
    """A full block decides although the input goes on, and so does one before a group that is too large."""

    async def main() -> tuple[int, int]:
        blocks, ended = Blocks(2), [0]
        scored = group_result(one_pass([0.1, 0.9]), one_pass([0.2, 0.9], 1))

        async def one(member: BlockMember) -> None:
            while await member.more(scored, 10.0):
                pass
            ended[0] += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(BLOCK_GROUPS + 1):
                tasks.start_soon(one, blocks.place(group()))
            await anyio.sleep(1)
            full = ended[0]
            tasks.start_soon(one, blocks.place(group(BLOCK_BYTES + 1)))
            await anyio.sleep(1)
            before = ended[0]
            tasks.start_soon(one, blocks.place(group(10)))
            await anyio.sleep(1)
            assert ended[0] == before + 1
            blocks.close()
            blocks.close()
        return full, before

    assert virtually(main) == (BLOCK_GROUPS, BLOCK_GROUPS + 1)
