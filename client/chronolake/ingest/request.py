"""The request of an ingest, and the refusal of requests that do not fit the files or the table."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chronolake import Client
from chronolake.calls import catalog
from chronolake.errors import NamespaceNotFound, TableExists, TableNotFound
from chronolake.ingest import bad_rows, ddl, formats, loaded_files, source_files, text_files
from chronolake.ingest.formats import Format
from chronolake.ingest.loaded_files import LoadedFiles
from chronolake.ingest.source_files import SourceFiles
from chronolake.slices import errors
from chronolake.writing import column_names, conversions
from chronolake_model import base_paths, column_types
from chronolake_model.tables import CreateTable, Field, NewField, Table
from chronolake_model.vocabulary import IndexType, TableType

_DERIVED = re.compile(r"(?P<name>\w+)\s*=(?!=)(?P<expression>.+)", re.DOTALL)
"""A partition that an expression derives."""


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """Source, table and options of an ingest. ``partition`` holds columns, or ``name=SQL expression``.

    ``base_path``, ``index`` and ``buckets`` are those of a new table; None stands for the default, or for the
    values of an existing table. ``schema`` is DDL of columns whose types are stated; ``all_strings`` makes all
    others strings. ``load_changed_files`` loads files that changed after they were loaded also into a table
    without an ordering field, where their older rows overwrite newer values. ``merge_schema`` adds columns of
    the files to an existing table. ``bad_rows`` is a file for the rows that cannot be loaded; without it they
    end the load.
    """

    table: str
    source: str
    key: tuple[str, ...]
    base_path: str | None = None
    ordering: str | None = None
    partition: tuple[str, ...] = ()
    op_column: str | None = None
    one_commit_per_file: bool = False
    buckets: int | None = None
    index: IndexType | None = None
    table_type: TableType = TableType.COPY_ON_WRITE
    schema: str = ""
    all_strings: bool = False
    encoding: str = text_files.UTF8
    load_changed_files: bool = False
    merge_schema: bool = False
    reuse_base_path: bool = False
    bad_rows: Path | None = None

    @property
    def new_base_path(self) -> str:
        """The base path that a new table gets."""
        return self.base_path or str(Path("chronolake-data", *self.table.split(".")).absolute())


def stated_types(request: IngestRequest) -> dict[str, str]:
    """The types that ``--schema`` states, by the names of columns in lower case."""
    return {field.name.lower(): field.type for field in _stated(request)}


def required_columns(request: IngestRequest) -> set[str]:
    """The columns that ``--schema`` states as NOT NULL, in lower case."""
    return {field.name.lower() for field in _stated(request) if not field.nullable}


def _stated(request: IngestRequest) -> list[Field]:
    if not request.schema.strip():
        return []
    try:
        fields = ddl.fields_of(request.schema)
    except ValueError as exc:
        raise errors.SchemaMismatch(
            f"the schema {request.schema!r} is not DDL like 'id BIGINT, name STRING': {exc}"
        ) from exc
    column_names.refuse_reserved("the schema", [field.name for field in fields])
    return fields


def problem_of_bad_rows(request: IngestRequest) -> str | None:
    """Why bad rows cannot be written to the file of the request, or would be loaded; None without a problem."""
    if (file := request.bad_rows) is None:
        return None
    folder = file.absolute().parent
    if file.is_dir():
        return f"{file} is a folder; name a file"
    if not folder.is_dir():
        return f"there is no folder {folder}; create it, or name another file"
    if formats.format_of(file) and folder == Path(request.source).absolute():
        return "the next ingest of the source would load it"
    return None


def check(client: Client, request: IngestRequest, source: SourceFiles | None) -> None:
    """Refuse what can be refused without Spark. ``source`` is None if the files are not known yet.

    Raises the errors of ``check_files``, ``existing``, ``check_options`` and ``check_columns``.
    """
    if source is not None:
        check_files(source.format, source.files, request)
    table = existing(client, request)
    if table is not None:
        check_options(table, request)
    elif source is not None and (names := source_files.column_names(source, request.encoding)) is not None:
        check_columns(names, request)


def check_files(format_: Format, files: Iterable[Path], request: IngestRequest) -> None:
    """Refuse options that files have no use for, or that cannot be followed for them."""
    if format_ is not Format.CSV and codecs.lookup(request.encoding).name != text_files.UTF8:
        raise errors.SourceUnreadable(f"{format_} files have one encoding; --encoding is for CSV files")
    if format_ is Format.PARQUET and request.all_strings:
        raise errors.SourceUnreadable(
            "Parquet files have types of their own; --all-strings is for CSV and JSON"
        )
    if request.bad_rows is not None and format_ is Format.JSON:
        for file in files:
            if text_files.is_json_array(file):
                raise errors.SourceUnreadable(
                    f"{file} is one array, and --bad-rows sets aside lines of JSON: "
                    f"{bad_rows.WITHOUT_ARRAYS}, or leave --bad-rows out"
                )


def existing(client: Client, request: IngestRequest) -> Table | None:
    """The table, if there is one.

    Raises ``TableMismatch`` if the request does not say what a new table needs, and ``BasePathTaken`` or
    ``InvalidTable`` if none could be created at its base path.
    """
    try:
        return client.table(request.table).definition
    except TableNotFound:
        check_new(request)
        _check_base_path(client, request)
        return None


def _check_base_path(client: Client, request: IngestRequest) -> None:
    # The columns are not known yet. The answer about the name and the base path does not depend on them.
    column = "id"
    definition = CreateTable(
        name=request.table,
        base_path=request.new_base_path,
        schema=[NewField(column, "string")],
        record_key_fields=[column],
        reuse_base_path=request.reuse_base_path,
    )
    # The ingest creates the namespace, and loads into a table that another one has created meanwhile.
    with contextlib.suppress(NamespaceNotFound, TableExists):
        client.check_new_table(definition)


def check_new(request: IngestRequest) -> None:
    """Refuse a request without the options that a new table needs."""
    if not request.key:
        raise errors.TableMismatch(
            f"there is no table {request.table} yet, or you may not read it; to create it, name the columns of "
            "its record key: --key id, or --key date,country"
        )


def check_stated(fields: Iterable[Field], stated: Mapping[str, str], request: IngestRequest) -> None:
    """Refuse types of columns that the files do not have."""
    names = [field.name for field in fields]
    have = {name.lower() for name in names}
    if unknown := [name for name in stated if name not in have]:
        raise errors.SchemaMismatch(
            f"the files of {request.source} have no column called {', '.join(unknown)}, which --schema names; "
            f"they have {_text_of(names)}",
            {"missing": unknown},
        )


def _text_of(names: Sequence[str]) -> str:
    return ", ".join(names) or "no records with columns"


def partition_fields(request: IngestRequest) -> list[str]:
    """The columns by which a new table is partitioned."""
    matches = [(text, _DERIVED.fullmatch(text)) for text in request.partition]
    return [match["name"] if match else text for text, match in matches]


def derived_columns(request: IngestRequest) -> dict[str, str]:
    """The columns that partitions derive, and their expressions, in Spark's SQL."""
    matches = [match for text in request.partition if (match := _DERIVED.fullmatch(text))]
    return {match["name"]: match["expression"] for match in matches}


def check_names(fields: Iterable[Field], request: IngestRequest) -> None:
    """Refuse files with columns that no table can have."""
    names = [field.name for field in fields if field.name != request.op_column]
    column_names.refuse_reserved(f"the source {request.source}", names, are_of_files=True)


def check_columns(names: Sequence[str], request: IngestRequest) -> None:
    """Refuse a new table of columns that the files, which have ``names``, lack, and no expression derives."""
    derived = derived_columns(request)
    optional = [name for name in (request.ordering, request.op_column) if name is not None]
    wanted = [*request.key, *partition_fields(request), *optional]
    unknown = [name for name in wanted if name not in (*names, *derived)]
    if unknown:
        raise errors.SchemaMismatch(
            f"the files of {request.source} have no column called {', '.join(unknown)}; "
            f"they have {_text_of(names)}",
            {"missing": unknown},
        )


def check_same(table: Table, request: IngestRequest, stated: Mapping[str, str]) -> None:
    """Refuse options that contradict the existing table; options that are not given are not compared."""
    for field in table.schema:
        if (type_ := stated.get(field.name.lower(), field.type)) != field.type:
            raise errors.TableMismatch(
                f"{table.name} exists, and its column {field.name} is {field.type}, not {type_}; leave it "
                f"out of --schema{_or_widen(table, field, type_)}"
            )
    never_null = {field.name.lower() for field in table.schema if not field.nullable}
    if may_be_null := sorted(required_columns(request) - never_null):
        raise errors.TableMismatch(
            f"{table.name} exists, and its columns may be null, but for those that it was created with as NOT "
            f"NULL; leave NOT NULL out of --schema for {', '.join(may_be_null)}"
        )
    check_options(table, request)


def fixed_columns(table: Table) -> list[str]:
    """The columns whose types no change of the schema widens."""
    return [*table.record_key_fields, *table.partition_fields, *table.ordering_fields]


def _or_widen(table: Table, field: Field, type_: str) -> str:
    """How to give the column this type, if the server does so."""
    if field.name in fixed_columns(table):
        return ", because columns of the record key, the partition and the ordering keep their types"
    if not column_types.is_wider(type_, than=field.type):
        return f", because no change of the schema makes {field.type} a {type_}"
    change = column_names.argument(f"{column_names.plain(field.name)}:{type_}")
    return f", or widen it before with `chronolake schema change {table.name} --widen {change}`"


def check_options(table: Table, request: IngestRequest) -> None:
    """Refuse options of a new table that do not fit the one that exists."""
    own_path, given_path = _comparable(table.base_path), _comparable(request.base_path or table.base_path)
    options = (
        ("--key", "record key", request.key, table.record_key_fields),
        ("--ordering", "ordering field", _as_list(request.ordering), table.ordering_fields),
        ("--partition", "partition fields", partition_fields(request), table.partition_fields),
        ("--buckets", "number of buckets", _as_list(request.buckets), [table.index.buckets]),
        ("--index", "index", _as_list(request.index), [table.index.type]),
        ("--base-path", "base path", _as_list(given_path), _as_list(own_path)),
    )
    for option, what, given, own in options:
        if given and list(given) != list(own):
            raise errors.TableMismatch(
                f"{table.name} exists, and {option} {_text(given)} is not its {what}, {_text(own)}; leave the "
                "option out to use the table as it is, or choose another name with --table"
            )


def check_fits(table: Table, fields: Sequence[Field], request: IngestRequest) -> None:
    """Refuse files that lack columns of a table that exists, or have others that are not to be added.

    Also a column of another kind than the table's: the engines would convert it by rules of their own.
    """
    have = {field.name.lower(): field.type for field in fields}
    wanted = {field.name.lower() for field in table.schema}
    if missing := [field.name for field in table.schema if field.name.lower() not in have]:
        derive = ""
        if derivable := [name for name in missing if name in table.partition_fields]:
            derive = f", or derive it with --partition {column_names.argument(f'{derivable[0]}=EXPRESSION')}"
        raise errors.SchemaMismatch(
            f"the files of {request.source} have no column called {', '.join(missing)}, which {table.name} "
            f"has; add it to the files{derive}",
            {"missing": missing},
        )
    if request.op_column is not None and request.op_column.lower() not in have:
        raise errors.SchemaMismatch(
            f"the files of {request.source} have no column called {request.op_column}, which --op-column names",
            {"missing": [request.op_column]},
        )
    unknown = [
        field for field in fields if field.name.lower() not in wanted and field.name != request.op_column
    ]
    if unknown and not request.merge_schema:
        added = column_names.argument(f"{column_names.plain(unknown[0].name)}:{unknown[0].type}")
        raise errors.SchemaMismatch(
            f"the files of {request.source} have columns that {table.name} does not have: "
            f"{', '.join(field.name for field in unknown)}; add them to the table with --merge-schema, or one "
            f"by one with `chronolake schema change {table.name} --add {added}`, remove them from the files, "
            "or name the one with the operation of each row with --op-column",
            {"unknown": [field.name for field in unknown]},
        )
    for field in table.schema:
        given = have[field.name.lower()]
        if (advice := conversions.other_kind(given, field.type)) is not None:
            raise errors.SchemaMismatch(
                f"the column {field.name} of the files of {request.source} is {given}, which is not converted "
                f"to the {field.type} of {table.name}; {advice}",
                {"column": field.name, "given": given, "wanted": field.type},
            )


def _comparable(base_path: str) -> str | None:
    return base_paths.canonical_if_comparable(catalog.absolute_path(base_path))


def _as_list(value: object) -> list[object]:
    return [] if value is None else [value]


def _text(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values) or "none"


def with_stated_types(
    fields: Iterable[Field], stated: Mapping[str, str], request: IngestRequest
) -> list[Field]:
    """``fields`` with the stated types, which are those of names in lower case, and with NOT NULL."""
    required = required_columns(request)
    return [
        Field(field.name, stated.get(field.name.lower(), field.type), field.name.lower() not in required)
        for field in fields
    ]


class Batch(msgspec.Struct, frozen=True):
    """Files that become one commit. ``loaded`` says that the table has all of them already."""

    files: tuple[Path, ...]
    loaded: bool = False

    @property
    def name(self) -> str:
        """The name of the batch in messages."""
        return self.files[0].name if len(self.files) == 1 else f"{len(self.files)} files"


def batches(
    files: Sequence[Path],
    digests: Mapping[Path, str],
    known: LoadedFiles,
    request: IngestRequest,
    files_max: int | None,
) -> Iterator[Batch]:
    """The commits to be, in order, each without the files that the table has, or that came before."""
    seen: set[str] = set()
    new: list[Path] = []
    for file in files:
        if not known.has(digests[file]) and digests[file] not in seen:
            seen.add(digests[file])
            new.append(file)
    if request.one_commit_per_file:
        yield from (Batch((file,), loaded=file not in new) for file in files)
    else:
        # One commit names all of its files, and has room for some thousand names.
        for portion in loaded_files.portions(new, digests, files_max):
            yield Batch(portion)
        if not new:
            yield Batch(tuple(files), loaded=True)
