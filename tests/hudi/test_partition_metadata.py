from __future__ import annotations

import pytest

from chronolake_hudi import partition_metadata
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.partition_metadata import PartitionMetadata


@pytest.mark.parametrize(("partition_path", "depth"), [("", 0), ("day=1", 1), ("a=1/b=2/c=3", 3)])
def test_the_metadata_of_a_partition_come_back(partition_path: str, depth: int) -> None:
    metadata = PartitionMetadata("20260101000000000", partition_metadata.depth_of(partition_path))

    content = partition_metadata.encode(metadata)

    assert content == f"#partition metadata\ncommitTime=20260101000000000\npartitionDepth={depth}\n".encode()
    assert partition_metadata.decode(content, "p") == metadata


@pytest.mark.parametrize(
    "content", [b"", b"commitTime=2026", b"partitionDepth=1", b"commitTime=1\npartitionDepth=x"]
)
def test_partition_metadata_that_are_cut_off_are_damage(content: bytes) -> None:
    with pytest.raises(DamagedFile, match="p: it names no commitTime, or no partitionDepth"):
        partition_metadata.decode(content, "p")
