"""Executes the steps of a publication: what ``.hoodie`` of a table holds for Hudi's readers.

Server and client share it. A step names whole files, and the same log gives the same bytes, so a step that was
executed in part is executed again: a file that is there already is done. The files of the timeline appear in
the order of the log, and ``hoodie.properties`` last: without it readers find no table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from chronolake_model.publication import PublicationFiles, PublicationStep, PublishedFile
from chronolake_storage.errors import ClaimRefused
from chronolake_storage.files import METADATA_FOLDER, Files
from chronolake_storage.guard import Guard

PROPERTIES_PATH: Final = f"{METADATA_FOLDER}/hoodie.properties"
TIMELINE_FOLDER: Final = f"{METADATA_FOLDER}/timeline"
PARTITION_METADATA: Final = ".hoodie_partition_metadata"
PROPERTIES_BYTES_MAX: Final = 1024 * 1024
HUDI_FILES: Final = (
    f"{METADATA_FOLDER}/hoodie.properties.backup",
    f"{METADATA_FOLDER}/metadata/.hoodie/hoodie.properties",
)
"""Files outside of the timeline that only Hudi's writers make."""
_TABLE_ID: Final = re.compile(rb"(?m)^chronolake\.table-id=(\S+)\s*$")


def refuse_foreign_table(files: Files, table_id: str) -> None:
    """Raise ``ClaimRefused`` if the folder has a Hudi table that this table of Chronolake did not publish."""
    stored = files.read(PROPERTIES_PATH, PROPERTIES_BYTES_MAX)
    if stored is None:
        return
    match = _TABLE_ID.search(stored.body)
    if match is None or match[1].decode() != table_id:
        raise ClaimRefused(
            f"{files.base_path}/{PROPERTIES_PATH} is of another Hudi table, and is not overwritten: remove "
            "that table's .hoodie and its data files, or set hudi.publish to false"
        )


def execute(files: Files, guard: Guard, steps: Sequence[PublicationStep], *, is_hidden: bool) -> None:
    """Execute steps. Raises ``StorageError``; then the steps are executed again from the first one.

    While the table ``is_hidden`` from readers, the order matters only for ``hoodie.properties``: it goes first
    when it is removed, and comes last when it is written.
    """
    if is_hidden:
        _execute_hidden(files, guard, steps)
        return
    written: list[PublishedFile] = []
    for step in steps:
        written += step.writes
        if step.removes or PROPERTIES_PATH in [file.path for file in step.writes]:
            _write(files, written, in_order=True)
            _remove(guard, step.removes)
            written = []
    _write(files, written, in_order=True)


def _execute_hidden(files: Files, guard: Guard, steps: Sequence[PublicationStep]) -> None:
    if any(PROPERTIES_PATH in step.removes for step in steps):
        _remove(guard, [PROPERTIES_PATH])
    removed = [path for step in steps for path in step.removes if path != PROPERTIES_PATH]
    # A file that a later step removes is not written first: the page may be executed again.
    content = {file.path: file for step in steps for file in step.writes if file.path not in removed}
    last = content.pop(PROPERTIES_PATH, None)
    _write(files, [*content.values()], in_order=False)
    _remove(guard, removed)
    if last is not None:
        _write(files, [last], in_order=True)


def _remove(guard: Guard, paths: Sequence[str]) -> None:
    if paths:
        guard.remove_published(paths)


def _write(files: Files, written: Sequence[PublishedFile], *, in_order: bool) -> None:
    """Write files; those that are there with the same content are done. ``hoodie.properties`` comes last."""
    new = [file for file in written if file.path != PROPERTIES_PATH]
    created = files.create_all([(file.path, file.content) for file in new], in_order=in_order) if new else []
    # Whoever wrote the metadata of a partition first: readers need only the depth.
    others = [
        file
        for file, is_new in zip(new, created, strict=True)
        if not is_new and not file.path.endswith(PARTITION_METADATA)
    ]
    for file in [*others, *(file for file in written if file.path == PROPERTIES_PATH)]:
        if not _is_there(files, file):
            files.put(file.path, file.content)


def _is_there(files: Files, file: PublishedFile) -> bool:
    [size_bytes] = files.sizes([file.path])
    if size_bytes != len(file.content):
        return False
    stored = files.read(file.path, len(file.content))
    return stored is not None and stored.body == file.content


class Owned(msgspec.Struct):
    """What a publication has put into ``.hoodie``.

    ``timeline`` has its files, each with the version of its step. ``properties`` is the content of
    ``hoodie.properties``; None while the table is hidden. For ``adopted_at`` see ``PublicationFiles``.
    """

    timeline: dict[str, int] = {}
    properties: bytes | None = None
    adopted_at: str | None = None

    def add(self, page: PublicationFiles) -> None:
        """Add the files of the next events."""
        self.timeline.update(page.written)
        for path in page.removed:
            self.timeline.pop(path, None)
        self.properties, self.adopted_at = page.properties, page.adopted_at


class Found(msgspec.Struct, frozen=True):
    """What a check has found: files that no publisher wrote, and files that are missing or damaged."""

    foreign: list[str]
    missing: list[str]


def check(files: Files, owned: Owned) -> Found:
    """Compare ``.hoodie`` with what is published; ``hoodie.properties`` is put right at once.

    The contents of the timeline's files are not compared: only an empty one is damaged. Of an adopted table,
    what Hudi wrote of times up to the adoption, its archive and its metadata table are not foreign.
    """
    stored = {file.path: file.size_bytes for file in files.listing(TIMELINE_FOLDER)}
    foreign = [path for path in stored if path not in owned.timeline and not _is_temporary(path)]
    adopted_at = owned.adopted_at
    if adopted_at is None:
        sizes = files.sizes(HUDI_FILES)
        foreign += [path for path, size in zip(HUDI_FILES, sizes, strict=True) if size is not None]
    else:
        foreign = [path for path in foreign if not _is_of_hudi(path, adopted_at)]
    if owned.properties is not None and not _is_there(files, PublishedFile(PROPERTIES_PATH, owned.properties)):
        files.put(PROPERTIES_PATH, owned.properties)
    return Found(sorted(foreign), [path for path in owned.timeline if not stored.get(path)])


def repair(files: Files, steps: Sequence[PublicationStep], missing: Collection[str]) -> None:
    """Write those files of steps that are missing."""
    written = [file for step in steps for file in step.writes if file.path in missing]
    _write(files, written, in_order=True)


def _is_of_hudi(path: str, adopted_at: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder != TIMELINE_FOLDER or name[:17] <= adopted_at


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")
