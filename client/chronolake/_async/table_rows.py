"""The rows of a table, read by this process without Spark. Needs pyarrow, ``chronolake[arrow]``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from chronolake import calls
from chronolake._async.reading import AsyncReading
from chronolake._async.table_files import AsyncTableFiles
from chronolake._concurrency import awaiting as concurrency
from chronolake._filters import filter_of
from chronolake_model import operations
from chronolake_model.cuts import AsOf
from chronolake_model.files import Changes, FileSlice, Snapshot
from chronolake_model.filters import Filter
from chronolake_model.tables import SchemaField

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    from chronolake._record_versions import RecordVersion
    from chronolake._rows import RowReader, StateRows


class AsyncTableRows(AsyncTableFiles):
    """The methods of ``AsyncTable`` that read rows.

    ``as_of`` is the time to read as of. ``where`` is a text or an expression of ``chronolake.col``: the server
    leaves out files by it, and the rows of the other files are filtered. ``columns`` are the columns to return,
    of the table or Hudi's five. Methods that return all rows read under a lease. The others do not, and a clean
    may delete the files meanwhile: for a long read take a lease by ``reading``, and read as of its time.
    """

    async def to_batches(
        self,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
        batch_rows: int | None = None,
    ) -> pa.RecordBatchReader:
        """The rows as record batches, read when they are needed: memory is bounded, whatever the table's size.

        Slices are read in parallel, and their rows come in one order. A batch has ``batch_rows`` at most.
        Raises ``HistoryCleaned``, ``InvalidFilter``, ``ValueError`` for a text that is no filter,
        ``SchemaMismatch`` for an unknown column; the reader raises ``HistoryCleaned`` if a clean deletes files
        meanwhile, ``BaseFileDamaged``, ``LogFileDamaged`` and ``LogFileUnsupported``.
        """
        rows = await self._state_rows(as_of, where, columns)
        return await concurrency.run_blocking(rows.batches, batch_rows)

    async def to_arrow(
        self,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """All rows as an Arrow table, read under a lease. Raises what ``to_batches`` raises."""
        async with await self.reading(as_of) as reading:
            # A table that nothing has completed in has no time to read as of.
            rows = await self._state_rows(reading.as_of or as_of, where, columns)
            return await concurrency.run_blocking(rows.table)

    async def to_pandas(
        self,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """All rows as a frame of pandas with Arrow's types: integers with nulls stay integers."""
        pandas = library("pandas")
        rows = await self.to_arrow(as_of, where=where, columns=columns)
        return rows.to_pandas(types_mapper=pandas.ArrowDtype)

    async def to_polars(
        self,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pl.LazyFrame:
        """The rows as a lazy frame of Polars: ``collect`` reads the columns that it needs, of this state."""
        polars = library("polars")
        rows = await self._state_rows(as_of, where, columns)
        return polars.scan_pyarrow_dataset(_dataset_of(rows))

    async def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a relation of DuckDB, of ``connection`` or of the default one.

        Each query reads the columns that it needs, of this state. SQL names it by the Python variable.
        """
        duckdb = library("duckdb")
        rows = await self._state_rows(as_of, where, columns)
        return (connection or duckdb.default_connection()).from_arrow(_dataset_of(rows))

    async def to_dataset(
        self,
        as_of: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> ds.Dataset:
        """The rows as a dataset of pyarrow: each ``scanner`` and ``to_table`` reads them, of this state.

        Another process that gets it pickled asks no server: to it a file that a clean deleted is a lost one.
        """
        return _dataset_of(await self._state_rows(as_of, where, columns))

    async def changes_to_arrow(
        self,
        from_: AsOf | None = None,
        to: AsOf | None = None,
        *,
        where: Filter | str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The records that changed in the range (from_, to], each once, with the column ``_change_type``.

        They are ``upsert`` with their state at the range's end, or ``delete`` with their state before it; what
        was inserted and deleted within the range is left out. Both ends are as in ``changes``, and ``where``
        holds for the state with which a record comes. All is read under a lease. Raises what ``to_batches``
        raises.
        """
        library("pyarrow")
        async with await self._reading_since(from_):
            changes = await self.changes(from_, to)
            reader = await self._row_reader(_slices_of(changes), where, columns, changes.from_ or changes.to)
            return await concurrency.run_blocking(reader.changed_rows, changes)

    async def differences_to_arrow(
        self,
        from_: AsOf | None = None,
        to: AsOf | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The records that differ in two states: ``change`` (insert, update, delete), ``before`` and ``after``.

        ``from_`` is the earlier state. A record whose columns have the same values in both is left out. All is
        read under a lease. Raises what ``to_batches`` raises.
        """
        library("pyarrow")
        from chronolake import _record_versions  # noqa: PLC0415  # an extra

        async with await self._reading_since(from_):
            changes = await self.changes(from_, to)
            reader = await self._row_reader(_slices_of(changes), None, columns, changes.from_ or changes.to)
            return await concurrency.run_blocking(_record_versions.differences, reader, changes)

    async def record_history(self, key: Any) -> list[RecordVersion]:
        """The versions of a record in the history that can be read: who made each, and the record before.

        What a restore has undone is not in it.

        A key is the value of the record key field, a tuple of values if there are several fields, or a dict by
        field. The changes of each write are fetched, and the record is looked up in the files that it changed:
        in a table with buckets only in those of its bucket. All is read under a lease. Raises
        ``SchemaMismatch`` for another key.
        """
        library("pyarrow")
        from chronolake import _record_versions  # noqa: PLC0415  # an extra

        async with await self._reading_since(None):
            self._adopt(await self._transport.send(calls.call(operations.catalog.GET_TABLE, self.name)))
            return await self._versions_of(*_record_versions.record_key(self.definition, key))

    async def _versions_of(self, text: str, key_texts: Sequence[pa.Array]) -> list[RecordVersion]:
        """The versions of the record with this record key, whose fields have these texts."""
        from chronolake import _record_versions  # noqa: PLC0415  # an extra

        versions: list[RecordVersion] = []
        last = self.definition.cleaned_before
        timeline = self.timeline.completed().by_completion_time().where(action=_record_versions.WRITES)
        async for instant in timeline if last is None else timeline.after(last):
            if instant.operation in _record_versions.SERVICES:
                continue
            changes = await self.changes(last, instant)
            last = instant.completion_time
            groups = _record_versions.groups_of(self.definition, instant, changes, key_texts)
            if groups:
                reader = await self._row_reader(_slices_of(changes), None, None, changes.from_ or changes.to)
                versions += await concurrency.run_blocking(
                    _record_versions.versions, reader, instant, groups, text
                )
        return versions

    async def _reading_since(self, from_: AsOf | None) -> AsyncReading:
        """A lease on all times from ``from_`` on, by default from the earliest."""
        return await self.reading("earliest" if from_ is None else from_, follows=True)

    async def _state_rows(
        self, as_of: AsOf | None, where: Filter | str | None, columns: Sequence[str] | None
    ) -> StateRows:
        library("pyarrow")
        while True:
            pruned_by = self.definition.schema_version
            snapshot = await self._snapshot_for(as_of, where)
            reader = await self._row_reader(snapshot.slices, where, columns, snapshot.as_of)
            if where is None or pruned_by == reader.table.schema_version:
                return reader.of_state(snapshot)

    async def _snapshot_for(self, as_of: AsOf | None, where: Filter | str | None) -> Snapshot:
        if where is None:
            return await self.snapshot(as_of)
        return await self.scan(filter_of(where, self.definition.schema), as_of)

    async def _row_reader(
        self,
        slices: Iterable[FileSlice],
        where: Filter | str | None,
        columns: Sequence[str] | None,
        time: str | None,
    ) -> RowReader:
        """A reader of the rows of slices, as of ``time`` or later, in the columns that the table has now."""
        from chronolake import _rows  # noqa: PLC0415  # pyarrow and numpy are an extra

        # Fetched after the slices: so it knows every column that they may have.
        self._adopt(await self._transport.send(calls.call(operations.catalog.GET_TABLE, self.name)))
        table = self.definition
        fields: dict[int, Sequence[SchemaField]] = {table.schema_version: table.schema}
        for version in _rows.versions_of(slices) - fields.keys():
            call = calls.call(operations.catalog.GET_SCHEMA, self.name, version)
            fields[version] = (await self._transport.send(call)).fields
        filter = None if where is None else filter_of(where, table.schema)
        cleaned = None if time is None else _rows.CleanCheck(concurrency.blocking_table(self), time)
        return _rows.reader(table, fields, self.storage_options, columns, filter, cleaned)


def _dataset_of(rows: StateRows) -> ds.Dataset:
    from chronolake import _rows_dataset  # noqa: PLC0415  # slow

    return _rows_dataset.RowsDataset(rows)


def _slices_of(changes: Changes) -> list[FileSlice]:
    return [
        slice for group in changes.file_groups for slice in (group.before, group.after) if slice is not None
    ]


def library(name: str) -> Any:
    """A library that is an extra. Raises ``ImportError`` that names the extra."""
    try:
        return importlib.import_module(name)
    except ImportError as exc:
        extra = "arrow" if name == "pyarrow" else name
        raise ImportError(f"this needs {name}: pip install 'chronolake[{extra}]'") from exc
