"""Manifests of a record index: which files make up the index up to a completion time. No Spark.

A manifest is put only if there is none of its name, so of several processes that index the same changes one
publishes, and the others take its files. The newest manifest counts. Files that a manifest does not name, such
as those of a process that was killed before it put its manifest, are never read, and are deleted later.

The files lie in Hudi's own folder, where neither Hudi's readers nor the search for orphans look, in a folder of
the table's id: a table that takes the base path over has another one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake import storage
from chronolake_spark.index_files import IndexFile
from chronolake_storage.files import Files, StoredFile
from chronolake_storage.guard import INDEX_FOLDER

FORMAT_VERSION: Final = 1
BYTES_MAX: Final = 64 * 2**20
MANIFESTS_KEPT: Final = 10
"""A write reads the newest manifest that is not later than its snapshot, while others put newer ones."""
RETIRED_SECONDS: Final = 3_600
"""How long a file is kept that the newest manifest does not name any more: readers of older ones may use it."""
REMEMBERED_SECONDS: Final = 10_800
"""How long manifests name such a file. After that it counts as one that no manifest names."""
UNKNOWN_SECONDS: Final = 86_400
"""How long a file is kept that no manifest names: its process may still run."""


class RetiredFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of earlier manifests, and when it was replaced, in seconds since 1970."""

    path: str
    retired_at: float


class Manifest(msgspec.Struct, frozen=True):
    """The files of the index of a table, oldest first, with the changes up to the completion time ``covered``.

    ``generation`` counts the manifests of one ``covered``: a later one is of an index that was made again.
    """

    format_version: int
    covered: str
    generation: int
    shards: int
    files: list[IndexFile]
    retired: list[RetiredFile] = []

    @property
    def name(self) -> str:
        """The name of the file. Names are ordered as manifests are."""
        return f"{self.covered}_{self.generation:06d}.json"


def folder_of(table_id: str) -> str:
    """The folder of a table's record index, relative to its base path."""
    return f"{INDEX_FOLDER}/{table_id}/record"


def index_folder_of(table_id: str) -> str:
    """The folder of the index files, relative to the base path."""
    return f"{folder_of(table_id)}/files"


class StoredManifests:
    """The manifests of one index in storage. Each method raises ``StorageFailed``."""

    def __init__(self, files: Files, table_id: str) -> None:
        self._files = files
        self.index_folder = index_folder_of(table_id)
        self._folder = f"{folder_of(table_id)}/manifests"

    @storage.storage_failures()
    def newest(self, covered_max: str | None = None) -> Manifest | None:
        """The newest manifest, of those that cover no more than ``covered_max``; None if there is none."""
        names = sorted((file.file_name for file in self._files.files_in(self._folder)), reverse=True)
        for name in names:
            if covered_max is not None and name.partition("_")[0] > covered_max:
                continue
            # It may have been deleted since: then there are ten newer ones.
            if (manifest := self._read(name)) is not None:
                return manifest
        return None

    @storage.storage_failures()
    def publish(self, manifest: Manifest) -> bool:
        """Put a manifest. False if another process has put one of this name."""
        return self._files.create(f"{self._folder}/{manifest.name}", msgspec.json.encode(manifest))

    @storage.storage_failures()
    def of_name(self, name: str) -> Manifest | None:
        """The manifest of a name."""
        return self._read(name)

    @storage.storage_failures()
    def deletable(self, newest: Manifest, now: float) -> list[str]:
        """Manifests and files that no reader uses any more, relative to the base path.

        None as long as there are few manifests: so most commits need no listing of the files.
        """
        manifests = sorted(self._files.files_in(self._folder), key=lambda file: file.file_name)
        if len(manifests) <= 2 * MANIFESTS_KEPT:
            return []
        old = [file.path for file in manifests[:-MANIFESTS_KEPT]]
        kept = [self._read(file.file_name) for file in manifests[-MANIFESTS_KEPT:]]
        named = {file.path for manifest in kept if manifest for file in manifest.files}
        waiting = {file.path for file in newest.retired if now - file.retired_at < RETIRED_SECONDS}
        retired = {file.path for file in newest.retired} - waiting
        files = self._files.files_in(self.index_folder)
        return old + [
            file.path
            for file in files
            if file.path not in named | waiting and (file.path in retired or _is_old(file, now))
        ]

    def _read(self, name: str) -> Manifest | None:
        content = self._files.read(f"{self._folder}/{name}", BYTES_MAX)
        if content is None:
            return None
        try:
            manifest = msgspec.json.decode(content.body, type=Manifest)
        except msgspec.DecodeError:
            # The index of another release, or an object that was cut off: it is made again.
            return None
        return manifest if manifest.format_version == FORMAT_VERSION else None


def following(
    before: Manifest | None, covered: str, files: Sequence[IndexFile], shards: int, now: float
) -> Manifest:
    """The manifest after ``before``, with these files."""
    paths = {file.path for file in files}
    retired: list[RetiredFile] = []
    generation = 0
    if before is not None:
        generation = before.generation + 1 if before.covered == covered else 0
        gone = [RetiredFile(file.path, now) for file in before.files if file.path not in paths]
        retired = [file for file in before.retired if now - file.retired_at < REMEMBERED_SECONDS] + gone
    return Manifest(FORMAT_VERSION, covered, generation, shards, list(files), retired)


def _is_old(file: StoredFile, now: float) -> bool:
    return now - max(file.changed_at, 0.0) > UNKNOWN_SECONDS


def now() -> float:
    """The time of this machine, in seconds since 1970."""
    return time.time()
