"""The memory that Arrow takes while file groups are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from chronolake.writing import arrow_memory

_OWN = "mimalloc"


def chosen() -> str:
    return str(pa.default_memory_pool().backend_name)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    yield
    pa.set_memory_pool(before)


def test_the_first_write_replaces_the_choice_of_arrow_and_the_last_puts_it_back() -> None:
    with arrow_memory.in_small_pages():
        assert chosen() == "jemalloc"
        values = pa.array(range(1_000))
        with arrow_memory.in_small_pages():
            assert chosen() == "jemalloc"
        assert chosen() == "jemalloc"

    assert chosen() == _OWN
    assert values.to_pylist() == list(range(1_000))


def test_a_write_that_fails_puts_it_back() -> None:
    with pytest.raises(ZeroDivisionError), arrow_memory.in_small_pages():
        raise ZeroDivisionError

    assert chosen() == _OWN


def test_writes_by_threads_at_the_same_time_put_it_back_once() -> None:
    everybody = threading.Barrier(8)

    def write() -> None:
        for _ in range(200):
            with arrow_memory.in_small_pages():
                assert chosen() == "jemalloc"
        everybody.wait(30)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert not everybody.broken
    assert chosen() == _OWN


def test_another_choice_of_the_process_stays() -> None:
    pa.set_memory_pool(pa.system_memory_pool())
    with arrow_memory.in_small_pages():
        assert chosen() == "system"
    assert chosen() == "system"


def test_a_choice_that_the_process_makes_meanwhile_stays() -> None:
    with arrow_memory.in_small_pages():
        pa.set_memory_pool(pa.system_memory_pool())
    assert chosen() == "system"
