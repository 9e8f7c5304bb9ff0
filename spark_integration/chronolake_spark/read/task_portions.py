"""What tasks read, in portions of similar size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from chronolake_model.files import FileSlice
from chronolake_spark.read.slices import stored_slices

_TASKS_WANTED: Final = 64
_TASK_BYTES_MIN: Final = 4 * 2**20
_TASK_BYTES_MAX: Final = 128 * 2**20
_Item = TypeVar("_Item")


def of(items: Sequence[_Item], slices_of: Callable[[_Item], Iterable[FileSlice]]) -> list[list[_Item]]:
    """The items in the portions of tasks, by the sizes of their slices; none without items."""
    sizes = [
        sum(file.size_bytes for slice_ in slices_of(item) for file in stored_slices.files_of(slice_))
        for item in items
    ]
    limit = min(max(sum(sizes) // _TASKS_WANTED, _TASK_BYTES_MIN), _TASK_BYTES_MAX)
    tasks: list[list[_Item]] = []
    task_bytes = 0
    for item, size_bytes in zip(items, sizes, strict=True):
        if not tasks or task_bytes + size_bytes > limit:
            tasks.append([])
            task_bytes = 0
        tasks[-1].append(item)
        task_bytes += size_bytes
    return tasks
