"""The rows of files of any format in Arrow: their columns have one type, and each row has a number.

Both engines read files by this module: Spark in its tasks, the other one in the process of the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import numpy as np
import pyarrow as pa

from chronolake.ingest import csv_files, formats, json_rows, parquet_rows, row_scans
from chronolake.ingest.csv_files import ReadOptions, TargetColumn
from chronolake.ingest.formats import Format
from chronolake.ingest.parquet_rows import Numbers
from chronolake.writing import csv_types
from chronolake_model.tables import Field


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of files that is read in one go: a file, or one of its row groups.

    ``number`` is that of the file in its load. Rows of the numbers ``left_out`` are not read.
    """

    number: int
    file: Path
    row_group: int | None = None
    left_out: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class FileRows:
    """Reads files whose columns have the types ``own``. Strings get the types that ``reading`` knows."""

    own: tuple[Field, ...]
    reading: ReadOptions
    _targets: Mapping[str, TargetColumn] = field(default_factory=dict)

    @classmethod
    def of(cls, format_: Format, own: Sequence[Field], reading: ReadOptions) -> FileRows:
        """The rows of files of a format, which have the columns ``own``."""
        if format_ is Format.CSV:
            return cls(tuple(own), reading)
        known = {of.name: reading.column(of.name) for of in own if of.type == csv_types.STRING}
        targets = {
            name: column
            for name, column in known.items()
            if column is not None
            and column.type != csv_types.STRING
            and csv_types.arrow_type(column.type) is not None
        }
        return cls(tuple(own), reading, targets)

    @property
    def fields(self) -> list[Field]:
        """The columns of the rows."""
        return [
            Field(of.name, self._targets[of.name].type if of.name in self._targets else of.type)
            for of in self.own
        ]

    def batches(self, part: FilePart) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The rows of a part, and the number of each in its file, from 0.

        Raises ``SourceUnreadable``, and ``SchemaMismatch`` for a string that does not fit its column.
        """
        for numbers, batch in self._read(part):
            yield self._converted(part, batch, numbers), pa.array(numbers, pa.int64())

    def _read(self, part: FilePart) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
        format_ = formats.format_of(part.file)
        assert format_ is not None, part.file
        match format_:
            case Format.CSV:
                types = {of.name: of.type for of in self.own}
                return _numbered(csv_files.rows(part.file, types, self.reading))
            case Format.JSON:
                return _numbered(json_rows.rows(part.file, self.own))
            case Format.PARQUET:
                return parquet_rows.rows(part.file, self.own, part.row_group, part.left_out)
            case _:
                assert_never(format_)

    def _converted(self, part: FilePart, batch: pa.RecordBatch, numbers: Numbers) -> pa.RecordBatch:
        for name, column in self._targets.items():
            values = batch[name]
            try:
                converted = csv_types.convert(values, column.type, stated=column.stated)
            except csv_types.ValueMismatch as mismatch:
                raise self._misfit(part, name, values, mismatch, numbers) from mismatch
            batch = batch.set_column(batch.schema.get_field_index(name), name, converted)
        return batch

    def _misfit(
        self,
        part: FilePart,
        name: str,
        values: pa.Array,
        mismatch: csv_types.ValueMismatch,
        numbers: Numbers,
    ) -> Exception:
        number = int(numbers[mismatch.index])
        is_json = formats.format_of(part.file) is Format.JSON
        place = json_rows.place_of(part.file, number) if is_json else f"row {number + 1}"
        context: dict[str, object] = {"file": str(part.file)}
        context |= {"place": place} if is_json else {"row": number + 1}
        error = row_scans.misfit(name, values[mismatch.index].as_py(), self._targets[name])
        return error(f"{part.file}, {place}", context)


def _numbered(batches: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[Numbers, pa.RecordBatch]]:
    for start, batch in batches:
        yield np.arange(start, start + len(batch)), batch
