"""The rows of a state of a table as a dataset of pyarrow, which DuckDB and Polars read.

Apart from ``_rows``, because the import of ``pyarrow.dataset`` imports pandas, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from chronolake._rows import StateRows, reader_of


class RowsDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow is untyped
    """The rows of a state of a table, as other libraries read a dataset of pyarrow.

    DuckDB calls ``scanner``, Polars ``to_batches``, which does; both leave the filters of a query to it.
    """

    def __init__(self, rows: StateRows) -> None:
        self._rows = rows

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> RowsScanner:
        """A scan of some columns, of the rows for which an expression of pyarrow is true."""
        return RowsScanner(self._rows, self.schema.names if columns is None else list(columns), filter)


class RowsScanner:
    """A scan of a ``RowsDataset``."""

    def __init__(self, rows: StateRows, names: Sequence[str], filter: Any) -> None:
        self._rows, self._names, self._filter = rows, names, filter

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the scan."""
        return pa.schema([self._rows.schema.field(name) for name in self._names])

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as record batches, read when they are needed."""
        return reader_of(self.projected_schema, self._tables(), self._rows.reader.batch_rows)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """As ``to_reader``."""
        return iter(self.to_reader())

    def to_table(self) -> pa.Table:
        """All rows of the scan."""
        return pa.concat_tables([self.projected_schema.empty_table(), *self._tables()])

    def _tables(self) -> Iterator[pa.Table]:
        names = self._names or self._rows.schema.names[:1]
        if self._filter is not None and not _fits(self._filter, self.projected_schema):
            # It names columns that the scan does not have.
            names = self._rows.schema.names
        rows = self._rows.of_columns(names)
        for table in rows.reader.rows(rows.slices):
            matching = table if self._filter is None else table.filter(self._filter)
            yield matching.select(list(self._names))


def _fits(filter_: Any, layout: pa.Schema) -> bool:
    """Whether an expression of pyarrow names only columns of the layout."""
    try:
        layout.empty_table().filter(filter_)
    except pa.ArrowInvalid:
        return False
    return True
