"""Waiting commands form large groups, in order, and a slow table delays no other table."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.batching.batcher import BatchQueue, Bounds

SOON = 0.0
NEVER = 3_600.0


class Waiting(msgspec.Struct, frozen=True):
    """An entry of the line."""

    name: str
    keys: frozenset[str]
    files: int = 0
    size_bytes: int = 0


def waits(name: str, *tables: str, files: int = 0, size_bytes: int = 0) -> Waiting:
    return Waiting(name, frozenset(tables), files, size_bytes)


def line(overdue_seconds: float, group_max: int = 100) -> BatchQueue[Waiting]:
    bounds = Bounds(length_max=4, bytes_max=100, group_max=group_max, group_bytes_max=50, files_max=10)
    return BatchQueue(bounds, overdue_seconds=overdue_seconds)


def names(group: list[Waiting]) -> str:
    return " ".join(entry.name for entry in group)


async def taken(waiting: BatchQueue[Waiting]) -> list[Waiting]:
    return await asyncio.wait_for(waiting.take(), 10)


async def assert_no_group_is_ready(waiting: BatchQueue[Waiting]) -> None:
    """Fail when another lane gets a group although it should wait."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(waiting.take(), 0.05)


def test_all_that_waits_goes_in_one_group_in_its_order() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        for name in "abc":
            waiting.put(waits(name, name))
        assert names(await taken(waiting)) == "a b c"

    asyncio.run(scenario())


def test_commands_that_arrive_while_a_group_runs_form_the_next_group() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        waiting.put(waits("a", "t"))
        group = await taken(waiting)
        waiting.put(waits("b", "u"))
        waiting.put(waits("c", "v"))
        await assert_no_group_is_ready(waiting)
        waiting.done(group)
        assert names(await taken(waiting)) == "b c"

    asyncio.run(scenario())


def test_during_a_slow_group_another_lane_serves_the_other_tables() -> None:
    async def scenario() -> None:
        waiting = line(SOON)
        waiting.put(waits("a", "t"))
        held_up = await taken(waiting)
        waiting.put(waits("b", "t"))
        waiting.put(waits("c", "u"))
        assert names(await taken(waiting)) == "c"
        waiting.done(held_up)
        assert names(await taken(waiting)) == "b"

    asyncio.run(scenario())


def test_a_lane_waits_when_all_that_waits_is_held_up() -> None:
    async def scenario() -> None:
        waiting = line(SOON)
        waiting.put(waits("a", "t"))
        held_up = await taken(waiting)
        waiting.put(waits("b", "t"))
        await assert_no_group_is_ready(waiting)
        waiting.done(held_up)
        assert names(await taken(waiting)) == "b"

    asyncio.run(scenario())


def test_no_command_overtakes_a_command_of_several_tables_on_any_of_them() -> None:
    async def scenario() -> None:
        waiting = line(SOON)
        waiting.put(waits("a", "t"))
        held_up = await taken(waiting)
        waiting.put(waits("b", "t", "u"))
        waiting.put(waits("c", "u"))
        waiting.put(waits("d", "v"))
        assert names(await taken(waiting)) == "d"
        waiting.done(held_up)
        assert names(await taken(waiting)) == "b c"

    asyncio.run(scenario())


def test_a_group_has_its_limits_and_a_command_beyond_them_goes_alone() -> None:
    async def scenario() -> None:
        waiting = line(SOON, group_max=2)
        waiting.put(waits("a", "a", files=11))
        waiting.put(waits("b", "b", files=5))
        waiting.put(waits("c", "c", files=5))
        waiting.put(waits("d", "d"))
        assert [names(await taken(waiting)) for _ in range(3)] == ["a", "b c", "d"]

    asyncio.run(scenario())


def test_a_full_queue_accepts_no_command() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        for name in "abcd":
            waiting.put(waits(name, name))
        with pytest.raises(errors.Overloaded):
            waiting.put(waits("e", "e"))

    asyncio.run(scenario())


def test_disbanding_returns_all_waiting_and_all_running_commands() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        waiting.put(waits("a", "t"))
        await taken(waiting)
        waiting.put(waits("b", "t"))
        assert names(waiting.disband()) == "a b"

    asyncio.run(scenario())


def test_a_group_ends_at_its_bytes_and_has_one_command_at_least() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        for name, size_bytes in (("a", 80), ("b", 10)):
            waiting.put(waits(name, name, size_bytes=size_bytes))
        group = await taken(waiting)
        assert names(group) == "a"
        waiting.done(group)
        assert names(await taken(waiting)) == "b"

    asyncio.run(scenario())


def test_commands_beyond_the_bytes_that_may_wait_are_refused_until_some_are_taken() -> None:
    async def scenario() -> None:
        waiting = line(NEVER)
        waiting.put(waits("a", "a", size_bytes=500))
        with pytest.raises(errors.Overloaded, match="500 bytes are waiting already"):
            waiting.put(waits("b", "b", size_bytes=1))
        await taken(waiting)
        waiting.put(waits("b", "b", size_bytes=1))

    asyncio.run(scenario())
