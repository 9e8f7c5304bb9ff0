"""Files to ingest: finding them, and inspecting their content."""

from __future__ import annotations

import glob
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chronolake.ingest import csv_files, formats, json_files, json_types, parquet_files, parquet_rows
from chronolake.ingest.bad_rows import BadRows
from chronolake.ingest.csv_files import ReadOptions
from chronolake.ingest.csv_profiles import Profile
from chronolake.ingest.formats import Format
from chronolake.slices import errors
from chronolake_model.tables import Field

_NAMES_MAX = 5
_TSV = ". Convert files with tabs to .csv, as docs/ingest.md#other-separators shows"


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Files of one format, in the order of their names. ``left_out`` names those beside them of no format."""

    format: Format
    files: tuple[Path, ...]
    left_out: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """A description for messages."""
        names = ", ".join(self.left_out[:_NAMES_MAX]) + (", …" if len(self.left_out) > _NAMES_MAX else "")
        left_out = f" (left out, of no known format: {names})" if names else ""
        return f"{len(self.files)} {self.format} file{'s' if len(self.files) > 1 else ''}{left_out}"


def find(where: str) -> SourceFiles:
    """The files that a path, a folder or a glob pattern names.

    Files of a folder whose names begin with ``.`` or ``_``, or say no known format, are left out. Raises
    ``SourceUnreadable`` when there are none, or files of several formats.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        return _of_folder(path)
    paths = [path] if path.is_file() else [Path(name) for name in glob.glob(str(path), recursive=True)]
    files = sorted(file.resolve() for file in paths if file.is_file())
    named = {formats.format_of(file) for file in files}
    if not files:
        raise errors.SourceUnreadable(f"no file or folder matches {where!r} (working directory: {Path.cwd()})")
    if len(named) > 1 or None in named:
        raise errors.SourceUnreadable(
            f"{where!r} names {_formats_in(files)}; name files of one format: {formats.KNOWN}"
            f"{_TSV if any(file.suffix.lower() == '.tsv' for file in files) else ''}"
        )
    return SourceFiles(named.pop() or Format.PARQUET, tuple(files))


def column_names(source: SourceFiles, encoding: str) -> list[str] | None:
    """The names of the columns, from headers and footers; None for JSON, whose records have to be read.

    Raises ``SourceUnreadable``.
    """
    match source.format:
        case Format.CSV:
            return list(csv_files.header_of(source.files[0], encoding))
        case Format.PARQUET:
            return list(
                dict.fromkeys(name for file in source.files for name in parquet_files.schema_of(file).names)
            )
        case Format.JSON:
            return None


def digest(path: Path) -> str:
    """A fingerprint of the file's content, independent of its name."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class SourceContent:
    """The content of files: the columns of all of them together, and the number of rows if it was counted.

    ``profiles`` are those of columns whose types were inferred from texts. ``untyped`` are columns of Parquet
    files that have no type, and only nulls.
    """

    fields: tuple[Field, ...]
    rows: int | None
    profiles: Mapping[str, Profile]
    untyped: Sequence[str] = ()


def inspect(
    source: SourceFiles, reading: ReadOptions, check: Callable[[], None], bad: BadRows
) -> SourceContent:
    """The columns of all files of ``source``, from all of their rows.

    CSV files are read as a whole, and checked for anything that loading would refuse. Bad rows are added to
    ``bad``. ``check`` is called now and then, and may raise to end it. Raises ``SourceUnreadable``,
    ``SchemaMismatch``, ``TooManyBadRows``.
    """
    if source.format is Format.CSV:
        inspection = csv_files.inspect(source.files, reading, check, bad)
        fields = [Field(name, _type_of(name, of, reading)) for name, of in inspection.profiles.items()]
        inferred = {name: of for name, of in inspection.profiles.items() if reading.column(name) is None}
        return SourceContent(tuple(fields), inspection.rows, inferred)
    if source.format is Format.JSON:
        shape = json_files.shape_of(source.files, op_column=reading.op_column, check=check, bad=bad)
        return SourceContent(tuple(json_types.fields_of(shape, reading)), None, {})
    parquet_files.check(source.files, reading.op_column, check, bad.add)
    untyped = parquet_files.untyped_columns(source.files)
    return SourceContent(tuple(parquet_rows.fields_of(source.files)), None, {}, untyped)


def _type_of(name: str, profile: Profile, reading: ReadOptions) -> str:
    known = reading.column(name)
    return profile.type if known is None else known.type


def _of_folder(folder: Path) -> SourceFiles:
    visible = [file for file in folder.resolve().iterdir() if file.is_file() and file.name[0] not in "._"]
    files = [(file, format_) for file in visible if (format_ := formats.format_of(file)) is not None]
    chosen = {format_ for _, format_ in files}
    if not chosen:
        raise errors.SourceUnreadable(
            f"the folder {folder} holds no {formats.KNOWN} files; for files in folders below it give a "
            f"pattern, like '{folder}/**/*.parquet'"
        )
    if len(chosen) > 1:
        raise errors.SourceUnreadable(
            f"the folder {folder} holds {_formats_in([file for file, _ in files])}; load the files of each "
            f"format by a pattern, like '{folder}/*{files[0][0].suffix}'"
        )
    left_out = sorted({file.name for file in visible} - {file.name for file, _ in files})
    return SourceFiles(chosen.pop(), tuple(sorted(file for file, _ in files)), tuple(left_out))


def _formats_in(files: Sequence[Path]) -> str:
    counts = Counter(formats.format_of(file) or f"unknown ({file.suffix or file.name})" for file in files)
    return ", ".join(f"{count} x {name}" for name, count in counts.items())
