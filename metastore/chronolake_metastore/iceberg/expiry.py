"""Files of the catalog that no retained state of a table needs any more.

The name of a file has the snapshot that first has it. A list needs its own snapshot; a manifest that is older
than the retained snapshots may be carried by their lists; and the newest metadata is needed, for a server that
restarts goes on from it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from chronolake_metastore.iceberg import chunks
from chronolake_metastore.iceberg.folders import LIST_BYTES_MAX, MetadataFolder
from chronolake_metastore.queries.iceberg import TableStates

METADATA_MAX: Final = 16
"""The most files of metadata that a server reads when it starts with a table."""
METADATA_SUFFIX: Final = ".metadata.json"
LIST_PREFIX: Final = "snap-"
_SNAPSHOT: Final = re.compile(r"(?:snap-)?([0-9]+)-", re.ASCII)


def snapshot_of(name: str) -> int:
    """The snapshot in the name of a file; -1 for another file."""
    match = _SNAPSHOT.match(name)
    return -1 if match is None else int(match[1])


def newest_metadata(sizes: Mapping[str, int]) -> list[str]:
    """The ``METADATA_MAX`` largest files of metadata of the newest snapshot that has some.

    Several servers, or one after the other, may have made them with snapshots of more and more states. The
    largest have the most of them, and servers answer with them. ``sizes`` are by name.
    """
    metadata = [name for name in sizes if name.endswith(METADATA_SUFFIX)]
    newest = max(map(snapshot_of, metadata), default=None)
    of_newest = [name for name in metadata if snapshot_of(name) == newest]
    return sorted(of_newest, key=lambda name: (-sizes[name], name))[:METADATA_MAX]


async def find_unneeded(folder: MetadataFolder, found: TableStates, served: str) -> frozenset[str]:
    """The names of the files in a folder that none of the table's states needs; ``served`` is the metadata.

    Those of a state that is newer than ``found`` are among them: they are not when it is found.
    """
    retained = {int(state.time) for state in found.states}
    sizes = await folder.sizes()
    metadata = {name for name in sizes if name.endswith(METADATA_SUFFIX)}
    lists = {name for name in sizes if name.startswith(LIST_PREFIX)}
    old_manifests = {name for name in sizes if snapshot_of(name) not in {-1, *retained}} - metadata - lists
    needed_lists = [name for name in lists if snapshot_of(name) in retained]
    unneeded = lists.difference(needed_lists)
    newest = max(map(snapshot_of, metadata), key=lambda snapshot: (snapshot in retained, snapshot), default=0)
    kept = newest_metadata({name: sizes[name] for name in metadata if snapshot_of(name) == newest})
    unneeded |= metadata.difference(kept, {served})
    for name in needed_lists:
        if not old_manifests:
            break
        if (content := await folder.read(name, LIST_BYTES_MAX)) is not None:
            if (index := await asyncio.to_thread(chunks.index_of, content)) is None:
                # It may name any of them.
                return frozenset(unneeded)
            old_manifests.difference_update(manifest.path for manifest in index.manifests)
    return frozenset(unneeded | old_manifests)
