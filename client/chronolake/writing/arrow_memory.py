"""The memory that Arrow takes while file groups are written.

Arrow's own choice on Linux, mimalloc, asks the kernel for huge pages. A write takes and gives back memory for
each file group, and a kernel that must first make room for a huge page takes up to a third of the write's time.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

_REPLACED: Final = "mimalloc"
_CHOSEN: Final = "jemalloc"


class _ProcessMemory:
    """Arrow's choice for the process: the first write replaces it, and the last one that ends puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes = 0
        self._replaced: pa.MemoryPool | None = None

    def begin_write(self) -> None:
        with self._lock:
            self._writes += 1
            if self._writes == 1 and _is_replaceable():
                self._replaced = pa.default_memory_pool()
                pa.set_memory_pool(pa.jemalloc_memory_pool())

    def end_write(self) -> None:
        with self._lock:
            self._writes -= 1
            if self._writes or self._replaced is None:
                return
            # Somebody else may have chosen meanwhile.
            if pa.default_memory_pool().backend_name == _CHOSEN:
                pa.set_memory_pool(self._replaced)
            self._replaced = None


_process = _ProcessMemory()


@contextlib.contextmanager
def in_small_pages() -> Iterator[None]:
    """A block in which Arrow takes new memory in small pages, if it can: for all threads of the process.

    Another choice than Arrow's own, as by ``ARROW_DEFAULT_MEMORY_POOL``, stays.
    """
    _process.begin_write()
    try:
        yield
    finally:
        _process.end_write()


def _is_replaceable() -> bool:
    is_own = pa.default_memory_pool().backend_name == _REPLACED
    return sys.platform == "linux" and is_own and _CHOSEN in pa.supported_memory_backends()
