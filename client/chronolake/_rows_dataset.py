"""The rows of a state of a table as a dataset of pyarrow, which DuckDB and Polars read.

Apart from ``_rows``, because the import of ``pyarrow.dataset`` imports pandas, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
from typing_extensions import override

from chronolake._rows import StateRows, reader_of

_NO_FILE: Final = "/dev/null/the rows of a Chronolake table are read by the methods of their dataset"


class RowsDataset(ds.UnionDataset):  # type: ignore[misc]  # pyarrow is untyped
    """The rows of a state of a table, as other libraries read a dataset of pyarrow.

    DuckDB calls ``scanner``, Polars ``to_batches``, which does; both leave the filters of a query to it.
    ``count_rows``, ``head``, ``take``, ``to_batches`` and ``to_table`` of the base class do, too. Its C++ part
    has one file that does not exist, so code of pyarrow that reads without ``scanner`` ends with an error.
    """

    def __init__(self, rows: StateRows, filter: Any = None) -> None:
        format_, files = ds.ParquetFileFormat(), pafs.LocalFileSystem()
        no_rows = ds.FileSystemDataset([format_.make_fragment(_NO_FILE, files)], rows.schema, format_, files)
        super().__init__(rows.schema, [no_rows])
        self._rows, self._filter = rows, filter

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return RowsDataset, (self._rows.without_client(), self._filter)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._rows.schema

    @property
    def children(self) -> list[ds.Dataset]:
        """Not supported."""
        raise _not_supported("children")

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_options: Any) -> RowsScanner:
        """A scan of some columns, of the rows for which an expression of pyarrow is true."""
        if isinstance(columns, Mapping):
            raise NotImplementedError("name the columns: a dict of expressions is not supported")
        names = self.schema.names if columns is None else list(columns)
        return RowsScanner(self._rows, names, self._both(filter))

    def filter(self, expression: Any) -> RowsDataset:
        """The rows for which an expression of pyarrow is true."""
        return RowsDataset(self._rows, self._both(expression))

    def sort_by(self, sorting: Any, **options: Any) -> ds.Dataset:
        """The rows in an order, in memory."""
        return ds.dataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.Dataset:
        """A join with another dataset, in memory."""
        return ds.dataset(self.to_table().join(right_dataset.to_table(), *arguments, **options))

    def join_asof(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.Dataset:
        """A join with the nearest rows of another dataset, in memory."""
        return ds.dataset(self.to_table().join_asof(right_dataset.to_table(), *arguments, **options))

    def get_fragments(self, filter: Any = None) -> Iterator[ds.Fragment]:
        """Not supported: a log file is no fragment."""
        raise _not_supported("get_fragments")

    def replace_schema(self, schema: pa.Schema) -> ds.Dataset:
        """Not supported."""
        raise _not_supported("replace_schema")

    def _both(self, filter_: Any) -> Any:
        parts = [part for part in (self._filter, filter_) if part is not None]
        return parts[0] & parts[1] if len(parts) > 1 else next(iter(parts), None)


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

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        held, left = [self.projected_schema.empty_table()], num_rows
        for rows in self._tables():
            held.append(rows.slice(0, left))
            left -= len(held[-1])
            if left <= 0:
                break
        return pa.concat_tables(held)

    def take(self, indices: Any) -> pa.Table:
        """The rows with these numbers. All rows of the scan are read."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """The number of rows."""
        return sum(map(len, RowsScanner(self._rows, [], self._filter)._tables()))

    def _tables(self) -> Iterator[pa.Table]:
        schema = self._rows.schema
        needed = {*self._names, *_columns_in(self._filter, schema)}
        rows = self._rows.of_columns([name for name in schema.names if name in needed] or schema.names[:1])
        for table in rows.reader.rows(rows.slices):
            matching = table if self._filter is None else table.filter(self._filter)
            yield matching.select(list(self._names))


def _columns_in(filter_: Any, layout: pa.Schema) -> list[str]:
    """The columns that an expression of pyarrow needs; all, if it has a column by its number.

    pyarrow does not tell them: those that are in its text are needed if it fails without them.
    """
    if filter_ is None:
        return []
    text, rows = str(filter_), layout.empty_table()
    if "FieldPath(" in text:
        return list(layout.names)
    return [name for name in layout.names if name in text and not _fits(filter_, rows.drop_columns(name))]


def _fits(filter_: Any, rows: pa.Table) -> bool:
    try:
        rows.filter(filter_)
    except pa.ArrowInvalid:
        return False
    return True


def _not_supported(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"{name}: rows of a table with log files have no such part of a dataset; use scanner"
    )
