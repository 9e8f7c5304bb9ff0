"""Reads the files of an ingest through Spark: their schema, and their rows without those that are set aside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from chronolake_spark import errors
from chronolake_spark.driver import spark_failures
from chronolake_spark.ingest import request as ingest_request, row_scans, source_files
from chronolake_spark.ingest.csv_files import ReadOptions
from chronolake_spark.ingest.files import bad_rows, parquet_files
from chronolake_spark.ingest.files.bad_rows import BadRows, TooManyBadRows
from chronolake_spark.ingest.files.formats import Format
from chronolake_spark.ingest.files.set_aside import SetAside
from chronolake_spark.ingest.request import IngestRequest
from chronolake_spark.ingest.source_files import SourceContent, SourceFiles


class IngestReader:
    """Reads the files of ``source``. ``set_aside`` has the bad rows, if the request sets them aside.

    ``check`` is called now and then, and may raise to end a read.
    """

    def __init__(
        self,
        spark: SparkSession,
        source: SourceFiles,
        request: IngestRequest,
        reading: ReadOptions,
        check: Callable[[], None],
    ) -> None:
        self.set_aside = SetAside()
        self.reading = reading
        self._spark = spark
        self._source = source
        self._request = request
        self._check = check
        self._struct: StructType | None = None

    def inspect(self, files: Sequence[Path]) -> SourceContent:
        """The schema of ``files``. An error names the unreadable file, unlike some errors of Spark.

        Raises the errors of up to ``bad_rows.REPORTED_MAX`` bad rows as one, or sets the rows aside.
        """
        inspection = self._inspect(files)
        self._struct = inspection.struct
        return inspection

    def frame(self, files: Sequence[Path]) -> DataFrame:
        """The rows of ``files`` with the columns that the partitions derive from them."""
        assert self._struct is not None, "inspect comes first"
        frame = source_files.read(self._spark, self._source, files, self._struct, self.reading, self.set_aside)
        return ingest_request.with_derived_columns(frame, self._request)

    @contextlib.contextmanager
    def locating(self, files: Sequence[Path]) -> Iterator[None]:
        """A block in which Spark reads ``files``: the error of a bad row names the places of many."""
        try:
            yield
        except (errors.InvalidRecordKey, errors.InvalidText, errors.SchemaMismatch):
            names = () if self._struct is None else self._struct.names
            with bad_rows.refused() as bad:
                row_scans.find(self._source.format, self._read(files), self._own(names), bad)
            raise

    def _inspect(self, files: Sequence[Path]) -> SourceContent:
        while True:
            bad = BadRows(bad_rows.SET_ASIDE_MAX if self._request.bad_rows else bad_rows.REPORTED_MAX)
            with contextlib.suppress(TooManyBadRows):
                inspection = self._inspect_once(files, bad)
                if not bad.errors:
                    return inspection
            if not self._request.bad_rows:
                raise bad_rows.together(bad.errors)
            if len(bad.errors) >= bad_rows.SET_ASIDE_MAX:
                raise errors.SourceUnreadable(
                    f"{bad_rows.SET_ASIDE_MAX:,} rows or more cannot be loaded, which are too many to set "
                    f"aside; the first: {bad.errors[0]}"
                )
            self.set_aside.add(bad.errors, files, self.reading.encoding)
            if self._source.format is Format.PARQUET:
                return inspection  # All kinds of bad rows are found at once.

    def _inspect_once(self, files: Sequence[Path], bad: BadRows) -> SourceContent:
        source = replace(self._source, files=tuple(self._read(files)))
        try:
            inspection = source_files.inspect(self._spark, source, self.reading, self._check, bad)
        except spark_failures.EXCEPTIONS:
            for file in source.files:
                with readable(str(file)):
                    own_file = replace(source, files=(file,))
                    source_files.inspect(self._spark, own_file, self.reading, self._check, BadRows())
            if source.format is Format.PARQUET:
                parquet_files.refuse_different_types(source.files)
            with readable(self._request.source):
                raise
        if bad.errors or self._request.bad_rows:
            own = self._own(set(inspection.struct.names))
            row_scans.find(source.format, source.files, own, bad, self._check)
        return inspection

    def _read(self, files: Sequence[Path]) -> list[Path]:
        return [self.set_aside.file(file) for file in files]

    def _own(self, names: Collection[str]) -> ReadOptions:
        """How files of these columns are read: without the key if an expression derives a column of it."""
        return self.reading if set(self.reading.key) <= set(names) else replace(self.reading, key=())


@contextlib.contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn errors of Spark about bad files or expressions into an error that names them."""
    try:
        yield
    except (*spark_failures.EXCEPTIONS, errors.SparkJobFailed) as exc:
        if encoded := errors.decoded(str(exc)):
            raise encoded from exc
        raise errors.SourceUnreadable(f"{what} cannot be ingested: {spark_failures.message_of(exc)}") from exc
