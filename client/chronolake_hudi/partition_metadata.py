"""The file ``.hoodie_partition_metadata`` in each folder of a partition.

Hudi's Java readers silently leave out a partition whose folder has none; the folder of a table without
partitions needs one too.
"""

from __future__ import annotations

from typing import Final

import msgspec

from chronolake_hudi import java_properties
from chronolake_hudi.errors import DamagedFile

FILE_NAME: Final = ".hoodie_partition_metadata"
_ADVICE: Final = "delete the file, and write it again with the depth of its folder"


class PartitionMetadata(msgspec.Struct, frozen=True):
    """The contents of the file (Hudi: HoodiePartitionMetadata).

    ``commit_time`` is the requested time of the instant that wrote the first file of the partition, ``depth``
    the number of folders between the base path and the partition: 0 for a table without partitions.
    """

    commit_time: str
    depth: int


def depth_of(partition_path: str) -> int:
    """The depth of a partition, given by its path relative to the base path; empty without partitions."""
    return partition_path.count("/") + 1 if partition_path else 0


def encode(metadata: PartitionMetadata) -> bytes:
    """The content of the file. The same metadata give the same bytes."""
    return java_properties.encode(
        {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.depth)}, "partition metadata"
    )


def decode(content: bytes, path: str) -> PartitionMetadata:
    """The contents of the file ``path``. Raises ``DamagedFile`` when it has no time or no depth."""
    properties = java_properties.decode(content, path)
    commit_time, depth = properties.get("commitTime"), properties.get("partitionDepth", "")
    if commit_time is None or not (depth.isascii() and depth.isdigit()):
        raise DamagedFile(path, "it names no commitTime, or no partitionDepth", _ADVICE)
    return PartitionMetadata(commit_time, int(depth))
