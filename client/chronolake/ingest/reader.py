"""Reads the files of an ingest: their columns, and their rows without those that are set aside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chronolake.ingest import bad_rows, formats, parquet_rows, row_scans, source_files
from chronolake.ingest.bad_rows import BadRows, TooManyBadRows
from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.file_rows import FilePart, FileRows
from chronolake.ingest.formats import Format
from chronolake.ingest.request import IngestRequest
from chronolake.ingest.set_aside import SetAside
from chronolake.ingest.source_files import SourceContent, SourceFiles
from chronolake.slices import errors


class IngestReader:
    """Reads the files of ``source``. ``set_aside`` has the bad rows, if the request sets them aside.

    ``check`` is called now and then, and may raise to end a read.
    """

    def __init__(
        self, source: SourceFiles, request: IngestRequest, reading: ReadOptions, check: Callable[[], None]
    ) -> None:
        self.set_aside = SetAside()
        self.reading = reading
        self._source = source
        self._request = request
        self._check = check
        self._rows: FileRows | None = None

    @property
    def rows(self) -> FileRows:
        """How the files are read."""
        assert self._rows is not None, "inspect comes first"
        return self._rows

    def inspect(self, files: Sequence[Path]) -> SourceContent:
        """The columns of ``files``.

        Raises the errors of up to ``bad_rows.REPORTED_MAX`` bad rows as one, or sets the rows aside.
        """
        inspection = self._inspect(files)
        self._rows = FileRows.of(self._source.format, inspection.fields, self.reading)
        return inspection

    def parts(self, files: Sequence[Path]) -> list[FilePart]:
        """The parts in which ``files`` are read, in their order."""
        return [part for number, file in enumerate(files) for part in self._parts(number, file)]

    @contextlib.contextmanager
    def locating(self, files: Sequence[Path]) -> Iterator[None]:
        """A block in which rows of ``files`` are read: the error of a bad row names the places of many."""
        try:
            yield
        except (errors.InvalidRecordKey, errors.InvalidText, errors.SchemaMismatch):
            names = () if self._rows is None else [field.name for field in self._rows.own]
            with bad_rows.refused() as bad:
                row_scans.find(self._source.format, self._read(files), self._own(names), bad)
            raise

    def _parts(self, number: int, file: Path) -> Iterator[FilePart]:
        read, left_out = self.set_aside.file(file), frozenset(self.set_aside.numbers(file))
        groups: Sequence[int | None] = [None]
        if formats.format_of(file) is Format.PARQUET:
            groups = range(parquet_rows.row_groups(file))
        for group in groups:
            yield FilePart(number, read, group, left_out)

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
            before = self._read(files)
            self.set_aside.add(bad.errors, files, self.reading.encoding)
            if self.reading.kept is not None:
                for file in {*before} - {*self._read(files)}:
                    self.reading.kept.drop(file)
            if self._source.format is Format.PARQUET:
                return inspection  # All kinds of bad rows are found at once.

    def _inspect_once(self, files: Sequence[Path], bad: BadRows) -> SourceContent:
        source = replace(self._source, files=tuple(self._read(files)))
        inspection = source_files.inspect(source, self.reading, self._check, bad)
        if bad.errors or self._request.bad_rows:
            own = self._own({field.name for field in inspection.fields})
            row_scans.find(source.format, source.files, own, bad, self._check)
        return inspection

    def _read(self, files: Sequence[Path]) -> list[Path]:
        return [self.set_aside.file(file) for file in files]

    def _own(self, names: Collection[str]) -> ReadOptions:
        """How files of these columns are read: without the key if an expression derives a column of it."""
        return self.reading if set(self.reading.key) <= set(names) else replace(self.reading, key=())
