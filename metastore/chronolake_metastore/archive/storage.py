"""The files of an archive: a manifest, which is replaced on condition, and a folder for each run.

A run is listed after all of its files are there. A folder that the manifest does not list is no part of the
archive, whatever wrote it.
"""

from __future__ import annotations

import io
import itertools
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from typing_extensions import override

from chronolake_metastore import errors, object_storage
from chronolake_metastore.domain import archives
from chronolake_metastore.domain.archives import (
    ArchivedFile,
    ArchiveManifest,
    ArchiveRun,
    ListedRun,
    RowBounds,
)
from chronolake_metastore.domain.proof import NOTHING
from chronolake_metastore.object_storage import OBJECT_BYTES_MAX
from chronolake_model import base_paths
from chronolake_storage import guard, opening
from chronolake_storage.files import CONTENT_BYTES_MAX, Files

MANIFEST: Final = "manifest.json"
_DESCRIPTION: Final = "run.json"


class ArchiveDamaged(errors.ConfigurationError):
    """A file of an archive that is missing, or not as it was written."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(f"{name}: expected {expected}, found {found}")
        self.name, self.expected, self.found = name, expected, found


class BlockReader(io.RawIOBase):
    """A file of a run, read by blocks, each of which is compared with its digest. It keeps the last one."""

    def __init__(self, files: Files, path: str, file: ArchivedFile) -> None:
        super().__init__()
        self._files = files
        self._path = path
        self._file = file
        self._position = 0
        self._number, self._block = -1, b""

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        self._position = begin + offset
        return self._position

    @override
    def read(self, size: int = -1) -> bytes:
        end = self._file.size_bytes if size < 0 else min(self._position + size, self._file.size_bytes)
        parts = []
        while self._position < end:
            number, begin = divmod(self._position, archives.BLOCK_BYTES)
            part = self._read_block(number)[begin : begin + end - self._position]
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _read_block(self, number: int) -> bytes:
        if number != self._number:
            begin = number * archives.BLOCK_BYTES
            end = min(begin + archives.BLOCK_BYTES, self._file.size_bytes)
            with object_storage.configuration_errors():
                block = self._files.read_range(self._path, begin, end)
            digest = NOTHING if block is None else archives.sha256(block)
            if block is None or digest != self._file.sha256[number]:
                raise ArchiveDamaged(self._path, self._file.sha256[number], digest)
            self._number, self._block = number, block
        return self._block


class StoredManifest(msgspec.Struct, frozen=True):
    """A manifest and the tag of its version in storage; without a tag there is none yet."""

    manifest: ArchiveManifest
    tag: str | None


class ArchiveStorage:
    """The files of one archive. Methods block, and raise ``ConfigurationError`` when storage refuses."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @property
    def key(self) -> str | None:
        """The location as tables have theirs, with links resolved; None when it cannot be compared."""
        local = opening.local_path(self._files.base_path)
        return base_paths.canonical_if_comparable(
            self._files.base_path if local is None else os.path.realpath(local)
        )

    @property
    def location(self) -> str:
        """The location, as a path or a URI."""
        return self._files.base_path

    def manifest(self) -> ArchiveManifest:
        """The present manifest; raises ``ArchiveDamaged``."""
        return self.stored_manifest().manifest

    def stored_manifest(self) -> StoredManifest:
        """The present manifest with its tag, for ``replace_manifest``; raises ``ArchiveDamaged``."""
        with object_storage.configuration_errors():
            stored = self._files.read(MANIFEST)
        if stored is None:
            return StoredManifest(ArchiveManifest(), None)
        try:
            return StoredManifest(archives.decode_manifest(stored.body), stored.tag)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
            raise ArchiveDamaged(MANIFEST, "a manifest", str(exc)) from exc

    def existing_manifest(self) -> ArchiveManifest:
        """As ``manifest``; raises ``ConfigurationError`` where there is no archive."""
        stored = self.stored_manifest()
        if stored.tag is None:
            raise errors.ConfigurationError(
                f"there is no archive at {self.location}, because it has no {MANIFEST}; check the location "
                "(archive write begins an archive)"
            )
        return stored.manifest

    def replace_manifest(self, stored: StoredManifest, manifest: ArchiveManifest) -> bool:
        """Put a manifest made from ``stored`` in its place; False if another archiver replaced that before."""
        content = archives.encode(manifest)
        assert len(content) <= CONTENT_BYTES_MAX
        with object_storage.configuration_errors():
            if stored.tag is None:
                is_new = self._files.create(MANIFEST, content)
            else:
                is_new = self._files.replace(MANIFEST, content, stored.tag)
        # The answer to a request that was sent again says that the manifest has changed: by this archiver.
        return self.manifest() == manifest or is_new

    def run(self, listed: ListedRun) -> ArchiveRun:
        """The description of a run; raises ``ArchiveDamaged``."""
        content = self._read(listed.name, _DESCRIPTION)
        if archives.sha256(content) != listed.sha256:
            raise ArchiveDamaged(_path(listed.name, _DESCRIPTION), listed.sha256, archives.sha256(content))
        try:
            return archives.decode_run(content)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
            raise ArchiveDamaged(_path(listed.name, _DESCRIPTION), "a description", str(exc)) from exc

    def content(self, listed: ListedRun, file: ArchivedFile) -> bytes:
        """A file of a run; raises ``ArchiveDamaged`` unless it is as the description says."""
        content = self._read(listed.name, file.name)
        found = archives.digests(content)
        if found != file.sha256:
            expected, differing = _first_difference(file.sha256, found)
            raise ArchiveDamaged(_path(listed.name, file.name), expected, differing)
        return content

    def opened(self, listed: ListedRun, file: ArchivedFile) -> BlockReader:
        """A file of a run, of which parts are read; a read raises ``ArchiveDamaged`` as ``content`` does."""
        return BlockReader(self._files, _path(listed.name, file.name), file)

    def location_of(self, listed: ListedRun, file: ArchivedFile) -> str:
        """The path or the URI of a file of a run."""
        return f"{self._files.base_path}/{_path(listed.name, file.name)}"

    def add(
        self, run: ArchiveRun, spool: Path, bounds: Mapping[str, Mapping[str, RowBounds]]
    ) -> tuple[ListedRun, ArchiveRun]:
        """Copy the files of a run, by table and name; gives what a manifest lists of it."""
        name = f"{run.end:020}-{run.level:02}-{uuid.uuid4().hex}"
        files = []
        for table, names in bounds.items():
            for file_name, of_file in names.items():
                content = (spool / file_name).read_bytes()
                self._put(_path(name, file_name), content)
                files.append(ArchivedFile(file_name, table, of_file, len(content), archives.digests(content)))
        run = msgspec.structs.replace(run, files=files)
        self._put(_path(name, _DESCRIPTION), archives.encode(run))
        return archives.list_run(name, run), run

    def remove(self, names: Sequence[str]) -> None:
        """Remove runs that the present manifest does not list."""
        listed = {run.name for run in self.manifest().runs}
        with object_storage.configuration_errors():
            for name in names:
                guard.remove_archived(self._files, name, listed)

    def unlisted(self, manifest: ArchiveManifest) -> Iterator[str]:
        """The paths of files of runs that the manifest does not list."""
        listed = {run.name for run in manifest.runs}
        with object_storage.configuration_errors():
            for file in self._files.listing():
                folder, _, name = file.partition_path.partition("/")
                if folder == guard.ARCHIVED_RUNS and name not in listed:
                    yield file.path

    def _read(self, run_name: str, name: str) -> bytes:
        path = _path(run_name, name)
        with object_storage.configuration_errors():
            stored = self._files.read(path, OBJECT_BYTES_MAX)
        if stored is None:
            raise ArchiveDamaged(path, "a file", "nothing")
        return stored.body

    def _put(self, path: str, content: bytes) -> None:
        with object_storage.configuration_errors():
            self._files.put(path, content)


def _first_difference(expected: Sequence[str], found: Sequence[str]) -> tuple[str, str]:
    pairs = itertools.zip_longest(expected, found, fillvalue=NOTHING)
    return next(pair for pair in pairs if pair[0] != pair[1])


def _path(run_name: str, name: str) -> str:
    return f"{guard.ARCHIVED_RUNS}/{run_name}/{name}"
