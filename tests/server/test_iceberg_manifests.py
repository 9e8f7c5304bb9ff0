"""Manifests of the Iceberg catalog: their entries in blocks, and damaged ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from chronolake_metastore.iceberg import avro, chunks, manifests
from chronolake_metastore.iceberg.manifests import ManifestEntry, Status


def entry_of(number: int, status: Status = Status.EXISTING) -> ManifestEntry:
    """An entry of a file group with a number."""
    return ManifestEntry(("", f"{number:08d}"), status, 7, 1, 1, 0, b"%08d" % number)


def manifest_of(*blocks: Sequence[ManifestEntry]) -> bytes:
    """A manifest of a table without partitions."""
    return manifests.write_manifest([manifests.make_block(block, 9) for block in blocks], (), {})


def test_a_manifest_has_its_entries_in_blocks() -> None:
    first, second = [entry_of(1), entry_of(2, Status.ADDED)], [entry_of(3, Status.DELETED)]
    manifest = manifest_of(first, second)
    assert [block.entries for block in manifests.blocks_of(manifest)] == [first, second]
    assert [block.is_of_any_snapshot for block in manifests.blocks_of(manifest)] == [False, False]
    assert manifests.write_manifest(manifests.blocks_of(manifest), (), {}) == manifest


def test_all_blocks_of_a_manifest_together_are_decompressed_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = [msgspec.structs.replace(entry_of(1), data_file=b"f" * 1_000)]
    monkeypatch.setattr(avro, "BLOCK_BYTES_MAX", 2_500)
    assert len(manifests.blocks_of(manifest_of(block, block))) == 2
    with pytest.raises(ValueError, match="damaged"):
        manifests.blocks_of(manifest_of(block, block, block))


def test_a_manifest_with_fewer_blocks_than_its_header_says_is_damaged() -> None:
    blocks = [manifests.make_block([entry_of(1)], 9)] * 2
    manifest = manifests.write_manifest(blocks, (), {})
    end = manifest.rindex(b"chronolake-sync1", 0, -1)
    with pytest.raises(ValueError, match="zip"):
        manifests.blocks_of(manifest[: end + 16])


def test_an_index_that_is_nested_too_deeply_is_damaged() -> None:
    nested = b'{"unknown":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    assert chunks.index_of(manifests.write_list([], "folder", 1, None, nested)) is None
