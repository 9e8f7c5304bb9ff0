"""Manifests of a record index: which files make up the index up to a completion time.

A manifest is put only if there is none of its name, so of several processes that index the same changes one
publishes, and the others take its files. The newest manifest counts. Files that a manifest does not name, such
as those of a process that was killed before it put its manifest, are never read, and are deleted later.

An index that is made again has a *generation* of its own. The newer of two manifests is the one of the later
generation, also if it covers less. A manifest whose content does not fit its name or the table is skipped, like
one that cannot be read.

The files lie in Hudi's own folder, where neither Hudi's readers nor the search for orphans look, in a folder of
the table's id: a table that takes the base path over has another one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from chronolake import storage
from chronolake.indexes.record.entry_files import IndexFile
from chronolake_model import decoding
from chronolake_storage.files import Files, StoredFile
from chronolake_storage.guard import INDEX_FOLDER

FORMAT_VERSION: Final = 2
BYTES_MAX: Final = 64 * 2**20
MANIFESTS_KEPT: Final = 10
"""A write reads the newest manifest that is not later than its snapshot, while others put newer ones."""
RETIRED_SECONDS: Final = 3_600
"""How long a file is kept that the newest manifest does not name any more: readers of older ones may use it."""
REMEMBERED_SECONDS: Final = 10_800
"""How long manifests name such a file. After that it counts as one that no manifest names."""
UNKNOWN_SECONDS: Final = 86_400
"""How long a file is kept that no manifest names: its process may still run."""
_NAME: Final = re.compile(r"(\d{6,})_(\d{14,})\.json")
"""Generation and completion time: see ``Manifest.name``."""


class RetiredFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of earlier manifests, and when it was replaced, in seconds since 1970."""

    path: str
    retired_at: float


class Manifest(msgspec.Struct, frozen=True):
    """The files of the index of a table, oldest first, with the changes up to the completion time ``covered``.

    ``instant`` is the requested time of the instant that completed at ``covered``. If the table's log has no
    such instant, the index was made from another log: the metastore was restored from an older backup.
    ``generation`` says how often the index was made again.
    """

    format_version: int
    table_id: str
    generation: int
    covered: str
    instant: str | None
    shards: int
    files: list[IndexFile]
    retired: list[RetiredFile] = []

    @property
    def name(self) -> str:
        """The name of the file."""
        return _name(self.generation, self.covered)


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
        self._table_id = table_id
        self.index_folder = index_folder_of(table_id)
        self._folder = f"{folder_of(table_id)}/manifests"

    @storage.storage_failures()
    def newest(self, covered_max: str | None = None) -> tuple[Manifest | None, int]:
        """The newest manifest of the last generation, of those that cover no more than ``covered_max``.

        With it comes the generation of an index that is made again.
        """
        orders = sorted((_order(file.file_name) for file in self._stored()), reverse=True)
        last = orders[0][0] if orders else -1
        for generation, covered in orders:
            if generation < last:
                break
            if covered_max is not None and covered > covered_max:
                continue
            # It may have been deleted since: then there are ten newer ones.
            if (manifest := self._read(_name(generation, covered))) is not None:
                return manifest, last + 1
        return None, last + 1

    @storage.storage_failures()
    def publish(self, manifest: Manifest) -> bool:
        """Put a manifest. False if another process has put one of this name."""
        return self._files.create(f"{self._folder}/{manifest.name}", msgspec.json.encode(manifest))

    @storage.storage_failures()
    def of_name(self, name: str) -> Manifest | None:
        """The manifest of a name; None if it cannot be used."""
        return self._read(name)

    @storage.storage_failures()
    def deletable(self, newest: Manifest, now: float) -> list[str]:
        """Manifests and files that no reader uses any more, relative to the base path.

        None as long as there are few manifests: so most commits need no listing of the files.
        """
        manifests = sorted(self._stored(), key=lambda file: _order(file.file_name))
        if len(manifests) <= 2 * MANIFESTS_KEPT:
            return []
        old = [file.path for file in manifests[:-MANIFESTS_KEPT] if file.file_name != newest.name]
        kept = [newest, *(self._read(file.file_name) for file in manifests[-MANIFESTS_KEPT:])]
        named = {file.path for manifest in kept if manifest for file in manifest.files}
        waiting = {file.path for file in newest.retired if now - file.retired_at < RETIRED_SECONDS}
        retired = {file.path for file in newest.retired} - waiting
        files = self._files.files_in(self.index_folder)
        return old + [
            file.path
            for file in files
            if file.path not in named | waiting and (file.path in retired or _is_old(file, now))
        ]

    def _stored(self) -> Iterable[StoredFile]:
        return (file for file in self._files.files_in(self._folder) if _NAME.fullmatch(file.file_name))

    def _read(self, name: str) -> Manifest | None:
        content = self._files.read(f"{self._folder}/{name}", BYTES_MAX)
        if content is None:
            return None
        try:
            manifest = decoding.decode(content.body, Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The index of another release, or an object that was cut off: it is made again.
            return None
        return manifest if self._fits(manifest, name) else None

    def _fits(self, manifest: Manifest, name: str) -> bool:
        """Whether a manifest is of this release, of this table, and the one that its name says."""
        return (
            manifest.format_version == FORMAT_VERSION
            and manifest.table_id == self._table_id
            and manifest.name == name
            and manifest.shards > 0
            and all(file.path.startswith(f"{self.index_folder}/") for file in manifest.files)
        )


def retired_after(before: Manifest | None, files: Iterable[IndexFile], now: float) -> list[RetiredFile]:
    """The files that ``before`` names, or has retired, and that an index of ``files`` does not need."""
    if before is None:
        return []
    paths = {file.path for file in files}
    gone = [RetiredFile(file.path, now) for file in before.files if file.path not in paths]
    return [file for file in before.retired if now - file.retired_at < REMEMBERED_SECONDS] + gone


def _name(generation: int, covered: str) -> str:
    return f"{generation:06d}_{covered}.json"


def _order(name: str) -> tuple[int, str]:
    """Generation and completion time of a manifest: manifests are ordered by them."""
    generation, covered = name.removesuffix(".json").split("_")
    return int(generation), covered


def _is_old(file: StoredFile, now: float) -> bool:
    return now - max(file.changed_at, 0.0) > UNKNOWN_SECONDS


def now() -> float:
    """The time of this machine, in seconds since 1970."""
    return time.time()
