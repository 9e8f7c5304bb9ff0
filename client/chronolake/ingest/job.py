"""The ingest job, which loads files as commits. ``chronolake ingest`` runs it; a program can run it too.

The files with all their values, the key and the types are checked before a table is created. The table is
created right before its first commit, and dropped if that fails. An engine writes the rows.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

import chronolake
from chronolake.errors import ChronolakeError, NamespaceExists, NamespaceNotFound, TableExists
from chronolake.ingest import (
    csv_advice,
    csv_files,
    loaded_files,
    request as ingest_request,
    source_files,
    text_files,
)
from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.loaded_files import LoadedFiles
from chronolake.ingest.reader import IngestReader
from chronolake.ingest.request import Batch, IngestRequest
from chronolake.ingest.set_aside import BadRow
from chronolake.slices import errors
from chronolake.writing import conflict_retries, csv_types, movable_keys, writable_tables
from chronolake.writing.counts import RowCounts, row_counts
from chronolake_hudi import publishable
from chronolake_model import nested_fields
from chronolake_model.instants import Instant
from chronolake_model.names import split_table_name
from chronolake_model.publication import PublicationState
from chronolake_model.tables import BucketIndex, CreateTable, Field, NewBucketIndex, NewField, Table
from chronolake_model.times import Tick
from chronolake_model.vocabulary import Action, IndexType, State

SOURCE = "ingest.source"
"""In a commit's extra metadata: the names of the files, or how many they were."""

SET_ASIDE = "ingest.set_aside"
"""In a commit's extra metadata: how many rows of its files were set aside."""


class Committed(msgspec.Struct, frozen=True):
    """The commit of a batch; ``seconds`` is its duration with the reading of the files.

    ``rows`` has the result of each row that was read. ``bad_rows`` were set aside before.
    """

    source: str
    requested_time: str
    completion_time: str
    inserts: int
    updates: int
    deletes: int
    rows: RowCounts
    seconds: float
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """The prepared state of an ingest. ``table`` is None until the table exists.

    ``fields`` are the columns of the files and those that partitions derive, None when there are no new files.
    ``rows`` is the number of rows, None if they were not counted. ``changed`` are files that changed after they
    were loaded. ``notes`` explain the types of columns, by column. ``creates_namespace`` if the namespace of a
    new table is new too.
    """

    table: Table | None
    batches: tuple[Batch, ...]
    digests: dict[Path, str]
    changed: tuple[Path, ...]
    fields: tuple[Field, ...] | None
    rows: int | None
    notes: Mapping[str, str]
    creates_namespace: bool = False

    @property
    def skipped(self) -> list[str]:
        """The names of the files that are not loaded: the table, or a file before them, has their content."""
        new = {file for batch in self.batches if not batch.loaded for file in batch.files}
        return [file.name for file in self.digests if file not in new]


@dataclass(frozen=True, slots=True)
class Load:
    """Files whose rows are written, or checked. Their rows are in the order of the files.

    ``metadata`` is that of the instant. When a file has another state than that in ``states``, by its path,
    nothing is stored.
    """

    reader: IngestReader
    request: IngestRequest
    files: tuple[Path, ...]
    metadata: Mapping[str, str]
    states: Mapping[str, str]


class IngestEngine(Protocol):
    """Writes the rows of files. Its errors for rows may name one; ``IngestReader.locating`` finds others.

    ``kept_bytes`` is how much of the texts of CSV files this process keeps for it between two reads of them.
    """

    kept_bytes: int

    def fields(self, load: Load) -> list[Field]:
        """The columns of the rows, with those that partitions derive."""

    def merged(self, table: Table, load: Load) -> Table:
        """The table after the changes of its schema that ``merge_schema`` makes for these rows."""

    def dry_run(self, table: Table, load: Load) -> int:
        """Do everything that ``upsert`` does except writing; returns the number of rows."""

    def upsert(self, table: chronolake.Table, load: Load) -> Instant:
        """Write the rows as one instant. Raises what a write of the engine raises."""


class IngestJob:
    """One ingest, step by step: the files are found at once, ``prepare`` reads them, ``run`` commits.

    ``check`` is called now and then, and may raise to end the ingest. ``source`` has the files, where they are
    known already; ``loaded`` tells which files the table has; ``files_max`` is the most files of a commit.
    ``table_exists`` says that ``prepare``
    found the table, ``has_created_table`` that it was created and not dropped. Raises ``SourceUnreadable``,
    and ``ValueError`` for an invalid name or encoding.
    """

    def __init__(
        self,
        client: chronolake.Client,
        engine: IngestEngine,
        request: IngestRequest,
        check: Callable[[], None] = lambda: None,
        *,
        source: source_files.SourceFiles | None = None,
        loaded: Callable[[chronolake.Table], LoadedFiles] = LoadedFiles.of,
        files_max: int | None = None,
    ) -> None:
        self.namespace, _ = split_table_name(request.table)
        text_files.check_encoding(request.encoding)
        self.request = request
        self.source = source or source_files.find(request.source)
        ingest_request.check_files(self.source.format, self.source.files, request)
        self._client = client
        self._engine = engine
        self._check = check
        self._loaded = loaded
        self._files_max = files_max
        self._stated = ingest_request.stated_types(request)
        self._reader: IngestReader | None = None
        self._file_states: dict[str, str] = {}
        self.has_created_table = False
        self.table_exists = False

    def prepare(self) -> Prepared:
        """Check everything, and write nothing.

        A file is identified by its content: one that was ingested before is skipped in any batch, because
        applying it again would overwrite later corrections. Raises
        ``TableMismatch`` when there is a table with another key, ordering field, partitions or types,
        ``SourceUnreadable`` and ``SchemaMismatch`` for files that cannot be loaded as they are,
        ``SourceChanged`` for files that changed after they were loaded, ``InvalidRecordKey`` for a row of a CSV
        file without a record key.
        """
        table = self._existing()
        self.table_exists = table is not None
        # States are read before the digests, so that a later change cannot be loaded under an old digest.
        self._file_states = {str(file): loaded_files.state_of_file(file) for file in self.source.files}
        digests = {file: source_files.digest(file) for file in self.source.files}
        known = self._loaded(self._client.table(self.request.table)) if table else LoadedFiles({})
        changed = tuple(file for file, digest in digests.items() if known.has_another(file, digest))
        _check_changed(changed, table, self.request)
        batches = tuple(
            ingest_request.batches(self.source.files, digests, known, self.request, self._files_max)
        )
        new = [file for batch in batches if not batch.loaded for file in batch.files]
        creates_namespace = table is None and not self._has_namespace()
        if not new:
            return Prepared(table, batches, digests, changed, None, 0, {}, creates_namespace)
        reading = self._reading_for(table)
        self._reader = IngestReader(self.source, self.request, reading, self._check)
        inspection = self._reader.inspect(new)
        ingest_request.check_names(inspection.fields, self.request)
        fields = tuple(self._engine.fields(self._load(new)))
        ingest_request.check_stated(fields, self._stated, self.request)
        if table is None:
            ingest_request.check_columns([field.name for field in fields], self.request)
            self._check_inferred(inspection)
        else:
            ingest_request.check_fits(table, fields, self.request)
            self._check_types_known(inspection)
        notes = csv_advice.notes(inspection.profiles)
        return Prepared(table, batches, digests, changed, fields, inspection.rows, notes, creates_namespace)

    @property
    def bad_rows(self) -> Sequence[BadRow]:
        """The rows that ``prepare`` has set aside."""
        return () if self._reader is None else self._reader.set_aside.rows

    def obstacle_for_hudi(self, prepared: Prepared) -> str | None:
        """Why Hudi's readers will not see what ``run`` loads; None if they will, or if nothing is loaded."""
        files = [file for batch in prepared.batches if not batch.loaded for file in batch.files]
        if not files:
            return None
        definition = self._definition(prepared)
        if prepared.table is None:
            return publishable.unseen(definition)
        if self.request.merge_schema:
            definition = self._engine.merged(definition, self._load(files))
        return obstacle_of(self._client.table(self.request.table), definition)

    def dry_run(self, prepared: Prepared) -> int:
        """Do everything that ``run`` does except writing; returns the number of rows that would be written.

        Raises the errors of ``run`` for rows: ``SchemaMismatch``, ``InvalidRecordKey``.
        """
        files = [file for batch in prepared.batches if not batch.loaded for file in batch.files]
        if prepared.fields is None:
            return 0
        if prepared.table is None:
            with contextlib.suppress(NamespaceNotFound):  # ``run`` creates the namespace.
                self._client.check_new_table(self._new_table(prepared))
        with self._files.locating(files):
            definition, load = self._definition(prepared), self._load(files)
            if self.request.merge_schema:
                definition = self._engine.merged(definition, load)
            return self._engine.dry_run(definition, load)

    def run(self, prepared: Prepared) -> Iterator[tuple[Batch, Committed | None]]:
        """Commit batch by batch, without files that the table has; None: a batch has no new files."""
        table: chronolake.Table | None = None
        if self.request.bad_rows is not None and self._reader is not None:
            self._reader.set_aside.write(self.request.bad_rows)
        for batch in prepared.batches:
            if batch.loaded:
                yield batch, None
                continue
            if table is not None:
                yield batch, self._commit(table, batch, prepared)
                continue
            with self._created_table(prepared) as table:
                committed = self._commit(table, batch, prepared)
            yield batch, committed

    def _commit(self, table: chronolake.Table, batch: Batch, prepared: Prepared) -> Committed | None:
        """The commit of a batch; None if another ingest has loaded its files meanwhile."""
        start = time.monotonic()

        def attempt(retries: int) -> Instant | None:
            # The winner of the conflict may have loaded the same files, and later ones, which must stay.
            files = self._not_loaded(table, batch.files, prepared) if retries else batch.files
            return self._upsert(table, Batch(files), prepared, retries) if files else None

        instant = conflict_retries.run(attempt, "retry")
        if instant is None:
            return None
        rows = row_counts(instant)
        assert rows is not None, f"{instant.requested_time} was written without counts"
        return Committed(
            source=batch.name,
            requested_time=instant.requested_time,
            completion_time=instant.completion_time or "",
            inserts=rows.inserted,
            updates=rows.updated,
            deletes=rows.deleted,
            rows=rows,
            seconds=time.monotonic() - start,
            bad_rows=self._files.set_aside.count(batch.files),
        )

    def _upsert(self, table: chronolake.Table, batch: Batch, prepared: Prepared, retries: int) -> Instant:
        digests = {file: prepared.digests[file] for file in batch.files}
        counted = {conflict_retries.RETRIES: str(retries)} if retries else {}
        if set_aside := self._files.set_aside.count(batch.files):
            counted[SET_ASIDE] = str(set_aside)
        metadata = {SOURCE: batch.name, **loaded_files.metadata(digests), **counted}
        with self._files.locating(batch.files):
            return self._engine.upsert(table, self._load(batch.files, metadata))

    def _not_loaded(
        self, table: chronolake.Table, files: Sequence[Path], prepared: Prepared
    ) -> tuple[Path, ...]:
        """The files that the table still does not have. Raises ``SourceChanged`` as ``prepare`` does."""
        known = self._loaded(table)
        changed = tuple(file for file in files if known.has_another(file, prepared.digests[file]))
        _check_changed(changed, table.definition, self.request)
        return tuple(file for file in files if not known.has(prepared.digests[file]))

    def _load(self, files: Sequence[Path], metadata: Mapping[str, str] | None = None) -> Load:
        states = {str(file): self._file_states[str(file)] for file in files}
        return Load(self._files, self.request, tuple(files), metadata or {}, states)

    def _existing(self) -> Table | None:
        """The table, if there is one. Raises ``TableMismatch``."""
        table = ingest_request.existing(self._client, self.request)
        if table is None:
            return None
        ingest_request.check_same(table, self.request, self._stated)
        return writable_tables.check(table)

    @contextlib.contextmanager
    def _created_table(self, prepared: Prepared) -> Iterator[chronolake.Table]:
        """The table, created if it does not exist. A failure within drops a new table and namespace again."""
        created_namespace = table_id = None
        try:
            if prepared.table is None:
                created_namespace = self._make_namespace()
                table_id = self._create(prepared)
            self._check()
            yield self._client.table(self.request.table)
        except BaseException:
            # The caller needs the first failure; a table that cannot be dropped is used by the next ingest.
            if table_id is not None:
                with contextlib.suppress(ChronolakeError):
                    self._drop_unused(table_id)
            if created_namespace:
                with contextlib.suppress(ChronolakeError):
                    self._client.drop_namespace(self.namespace)
            raise

    def _has_namespace(self) -> bool:
        try:
            self._client.namespace(self.namespace)
        except NamespaceNotFound:
            return False
        return True

    def _make_namespace(self) -> bool:
        try:
            self._client.create_namespace(self.namespace)
        except NamespaceExists:
            return False
        return True

    def _create(self, prepared: Prepared) -> str | None:
        """Create the table; returns its id, or None if another ingest created it meanwhile."""
        request = self.request
        try:
            made = self._client.create_table(**msgspec.structs.asdict(self._new_table(prepared)))
        except TableExists:
            ingest_request.check_same(self._client.table(request.table).definition, request, self._stated)
            return None
        self.has_created_table = True
        return made.definition.table_id

    def _new_table(self, prepared: Prepared) -> CreateTable:
        request, definition = self.request, self._definition(prepared)
        movable_keys.check(
            request.table,
            definition.schema,
            definition.type,
            definition.index.type,
            definition.partition_fields,
            definition.merge_fields,
        )
        return CreateTable(
            name=request.table,
            base_path=request.new_base_path,
            schema=[NewField.of(field) for field in definition.schema],
            record_key_fields=list(request.key),
            type=request.table_type,
            partition_fields=definition.partition_fields,
            ordering_field=request.ordering,
            index=NewBucketIndex.of(definition.index),
            reuse_base_path=request.reuse_base_path,
        )

    def _drop_unused(self, table_id: str) -> None:
        """Drop the table that this ingest created, unless another client has used it."""
        table = self._client.table(self.request.table)
        used = any(instant.state is not State.ROLLED_BACK for instant in table.instants(action=Action.COMMIT))
        if table.definition.table_id == table_id and not used:
            self._client.drop_table(table.name)
            self.has_created_table = False

    def _definition(self, prepared: Prepared) -> Table:
        """The table, as it is or as it is to be made."""
        if prepared.table is not None:
            return prepared.table
        request = self.request
        assert prepared.fields is not None, "a table is made for files"
        own = [field for field in prepared.fields if field.name != request.op_column]
        fields = ingest_request.with_stated_types(own, self._stated, request)
        return Table(
            name=request.table,
            table_id="",
            metastore_id="",
            base_path=request.new_base_path,
            type=request.table_type,
            schema=nested_fields.numbered_columns(fields)[0],
            record_key_fields=list(request.key),
            partition_fields=ingest_request.partition_fields(request),
            ordering_field=request.ordering,
            index=BucketIndex(request.index or IndexType.BUCKET, request.buckets or BucketIndex().buckets),
            tick=Tick.MILLISECOND,
            properties={},
            created_at=datetime.datetime.now(datetime.UTC),
            schema_version=1,
        )

    def _reading_for(self, table: Table | None) -> ReadOptions:
        """How the files are read: stated types first, then the table's."""
        types = {} if table is None else {field.name.lower(): field.type for field in table.schema}
        fixed = [] if table is None else [name.lower() for name in ingest_request.fixed_columns(table)]
        known = {name: csv_files.TargetColumn(type_, is_fixed=name in fixed) for name, type_ in types.items()}
        known |= {name: csv_files.TargetColumn(type_, stated=True) for name, type_ in self._stated.items()}
        text = csv_files.TargetColumn(csv_types.STRING, stated=True)
        if self.request.op_column is not None:
            known[self.request.op_column.lower()] = text
        key = self.request.key if table is None else tuple(table.record_key_fields)
        return ReadOptions(
            self.request.encoding,
            known,
            text if self.request.all_strings else None,
            key,
            self.request.op_column,
            csv_files.KeptTexts(self._engine.kept_bytes) if self._engine.kept_bytes else None,
        )

    def _check_inferred(self, inspection: source_files.SourceContent) -> None:
        """Refuse to create a table with undecidable types, or with a type that orders its rows wrongly."""
        self._check_types_known(inspection)
        ordering = self.request.ordering
        if ordering is not None and ordering in inspection.profiles:
            csv_advice.check_ordering(ordering, inspection.profiles[ordering])

    def _check_types_known(self, inspection: source_files.SourceContent) -> None:
        unknown = self._unknown(inspection)
        csv_advice.check_types_known(unknown, inspection.rows)
        csv_advice.check_typed([name for name in inspection.untyped if name in unknown])

    def _unknown(self, inspection: source_files.SourceContent) -> list[str]:
        """The columns whose types come from the files."""
        return [of.name for of in inspection.fields if self._files.reading.column(of.name) is None]

    @property
    def _files(self) -> IngestReader:
        assert self._reader is not None, "prepare comes first"
        return self._reader


def obstacle_of(table: chronolake.Table, changed: Table) -> str | None:
    """Why Hudi's readers will not see what is loaded into ``table``, whose definition will be ``changed``.

    None if they will, or if publication is off, which is a decision of the table's owner.
    """
    publication = table.publication()
    if publication.state is PublicationState.PAUSED:
        return publication.reason
    return None if publication.state is PublicationState.OFF else publishable.unseen(changed)


@contextlib.contextmanager
def warned_by_caller() -> Iterator[None]:
    """Keep the client from logging warnings that the caller prints."""
    logger = logging.getLogger("chronolake.hudi")
    logger.addFilter(_drop)
    try:
        yield
    finally:
        logger.removeFilter(_drop)


def _check_changed(changed: Sequence[Path], table: Table | None, request: IngestRequest) -> None:
    if not changed or table is None or table.ordering_fields or request.load_changed_files:
        return
    raise errors.SourceChanged(
        f"files changed after they were loaded into {table.name}: {', '.join(map(str, changed))}; the table "
        "has no ordering field, so older rows of these files would overwrite newer values of other files. "
        "Load a file with only the new rows, or load the files as they are with --load-changed-files",
        {"files": [str(file) for file in changed]},
    )


def _drop(_: logging.LogRecord) -> bool:
    return False
