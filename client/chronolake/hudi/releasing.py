"""Releases a published table: from then on it is a plain table of Hudi, which Hudi itself writes."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from chronolake import errors
from chronolake._sync.client import Client
from chronolake._sync.table import Table
from chronolake.hudi import folder, stored
from chronolake.storage import open_files, storage_failures
from chronolake_hudi import java_properties, properties
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.partition_paths import BY_GENERATOR, KEPT_PROPERTY
from chronolake_model.publication import PUBLISH_PROPERTY, Publication, PublicationState
from chronolake_model.storage import options_of
from chronolake_model.vocabulary import TableType

WAIT_SECONDS: Final = 30.0
"""How long a release waits for another publisher."""
_PAUSE_SECONDS: Final = 0.2


class CannotRelease(Exception):
    """The table cannot be released. The message says why, and what to do."""


class Released(msgspec.Struct, frozen=True):
    """A table that Hudi writes from now on; ``advice`` says with which settings."""

    table: str
    base_path: str
    table_version: str
    key_generator: str
    advice: list[str]


def release(
    client: Client,
    name: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Released:
    """Publish a table to its end, drop it here, and take the guard out of its folder.

    While another publisher is at work it waits, up to ``WAIT_SECONDS``, and says so to ``progress``.
    Raises ``CannotRelease`` and the errors of ``Table.publish`` and ``Client.drop_table`` before the table is
    dropped, and ``StorageFailed``.
    """
    table = find(client, name)
    definition = table.definition
    is_off = definition.properties.get(PUBLISH_PROPERTY) == "false"
    by_generator = definition.properties.get(KEPT_PROPERTY) == BY_GENERATOR
    if is_off and not by_generator:
        raise CannotRelease(f"{name} is not published, as its property {PUBLISH_PROPERTY} says; unset it first")
    _refuse_pending(table)
    if not by_generator:
        return _give_back(client, table, storage_options, progress)
    # Hudi's readers find it from now on, and read it rightly when the guard is out of its folder.
    table.alter(set={PUBLISH_PROPERTY: "true"})
    try:
        return _give_back(client, table, storage_options, progress)
    except (CannotRelease, errors.ChronolakeError):
        with contextlib.suppress(errors.TableNotFound):
            table.alter(set={PUBLISH_PROPERTY: "false"})
        raise


def _give_back(
    client: Client,
    table: Table,
    storage_options: Mapping[str, str] | None,
    progress: Callable[[str], None],
) -> Released:
    definition, name = table.definition, table.name
    publication = _published(table, progress)
    if publication.foreign_files:
        raise CannotRelease(
            f"{name} has files in .hoodie that no publisher of this metastore wrote, such as "
            f"{publication.foreign_files[0]}: Hudi would take them for its own; find their writer and stop it, "
            "and move them away"
        )
    if publication.state is not PublicationState.PUBLISHING or publication.lag_versions:
        raise CannotRelease(f"{name} is not published to its end: {publication.reason or 'it was written to'}")
    with storage_failures():
        files = open_files(definition.base_path, options_of(definition.properties, storage_options))
        content = files.read(properties.PATH, stored.PROPERTIES_BYTES_MAX)
        if content is None:
            raise CannotRelease(f"{files.base_path}/{properties.PATH} is not there; publish the table first")
        stated = java_properties.decode(content.body, properties.PATH)
        before = java_properties.decode(
            definition.properties.get(ADOPTED_PROPERTY, "").encode("latin-1"), properties.PATH
        )
        generator = folder.generator_of(len(definition.record_key_fields), len(definition.partition_fields))
        text = folder.released(stated, before, generator)
        log_only = _log_only(table)
        # A write since the check makes this fail, before anything has changed.
        client.drop_table(name, version=publication.version)
        # From here on the table cannot be written through Chronolake.
        if not files.replace(properties.PATH, text, content.tag):
            raise CannotRelease(
                f"{name} is dropped, but {files.base_path}/{properties.PATH} has changed meanwhile: take "
                "hoodie.table.keygenerator.class and chronolake.table-id out of it"
            )
    after = java_properties.decode(text, properties.PATH)
    return Released(
        table=name,
        base_path=definition.base_path,
        table_version=after["hoodie.table.version"],
        key_generator=after.get(folder.GENERATOR_CLASS) or after[folder.GENERATOR_TYPE],
        advice=_advice(after, log_only),
    )


def find(client: Client, name: str) -> Table:
    """The table to release. Raises ``CannotRelease`` if there is none."""
    try:
        return client.table(name)
    except errors.TableNotFound as exc:
        raise CannotRelease(
            f"{exc} If a release of it was killed, the table is dropped and its folder still keeps Hudi's "
            f"writers out: take the lines {folder.GENERATOR_CLASS} and {properties.TABLE_ID_KEY} out of "
            f"{properties.PATH} in its folder, and Hudi writes it again"
        ) from exc


def _published(table: Table, progress: Callable[[str], None]) -> Publication:
    until, is_waiting = time.monotonic() + WAIT_SECONDS, False
    # A publisher of its own: each new one looks for files that no publisher wrote.
    publisher = f"chronolake-release:{uuid.uuid4().hex[:8]}"
    while True:
        try:
            return table.publish(publisher=publisher)
        except (errors.LeaseLive, errors.PublicationFenced):
            if time.monotonic() >= until:
                raise
            if not is_waiting:
                progress(f"{table.name} is being published; waiting for it up to {WAIT_SECONDS:g} seconds")
            is_waiting = True
            time.sleep(_PAUSE_SECONDS)


def _refuse_pending(table: Table) -> None:
    pending = [instant.requested_time for instant in table.timeline.pending()]
    if pending:
        raise CannotRelease(
            f"{table.name} has pending instants, such as {pending[0]}; complete them or roll them back first"
        )


def _log_only(table: Table) -> list[str]:
    """The file ids of the file groups that have no base file."""
    if table.definition.type is not TableType.MERGE_ON_READ:
        return []
    return [slice_.file_id for slice_ in table.snapshot().slices if slice_.base_file is None]


def _advice_of_log_only(file_ids: Sequence[str]) -> str:
    return (
        "first of all, compact it (call run_compaction(op => 'scheduleAndExecute')): "
        f"{len(file_ids)} file group(s), such as {file_ids[0]}, have log files only. Hudi's simple and bloom "
        "indexes find no record in log files, so an upsert would write these records a second time"
    )


def _advice(stated: Mapping[str, str], log_only: Sequence[str]) -> list[str]:
    keys = stated.get("hoodie.table.recordkey.fields", "")
    partitions = stated.get("hoodie.table.partition.fields", "")
    version = stated["hoodie.table.version"]
    return [
        f"record keys: hoodie.datasource.write.recordkey.field={keys}",
        *([f"partitions: hoodie.datasource.write.partitionpath.field={partitions}"] if partitions else []),
        *([_advice_of_log_only(log_only)] if log_only else []),
        "index: hoodie.index.type=SIMPLE; Hudi's bucket index has another hash, and not all files that "
        "Chronolake wrote have a bloom filter",
        f"to stay at table version {version}: hoodie.write.table.version={version} and "
        "hoodie.write.auto.upgrade=false",
        "the metadata table is off; Hudi builds it anew if hoodie.metadata.enable is true",
    ]
