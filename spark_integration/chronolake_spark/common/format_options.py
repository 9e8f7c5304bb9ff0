"""The options of ``format("chronolake")``: their names and their meaning."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, get_args

import msgspec

from chronolake import ServerAccess, _access
from chronolake.writing import choices
from chronolake.writing.choices import Duplicates, OnConflict, Replaces, Replayed, ServicesSwitch
from chronolake_model import decoding
from chronolake_model.cuts import AsOf, Cut, is_json
from chronolake_model.markers import MarkersType
from chronolake_model.times import digits_of
from chronolake_spark import errors

FORMAT: Final = "chronolake"
SECRETS_OPTION: Final = "storage_secrets"
"""How the storage is reached. Spark shows the options of a write in its plans and logs, but not those of such a
name (``spark.redaction.regex``)."""

_TABLE: Final = ("table", "path", *_access.NAMES, SECRETS_OPTION)
_READ: Final = ("as_of", "from", "to", "filter", "view", "meta_columns")
_READ_STREAM: Final = ("after", "max_commits", "max_files", "max_bytes", "lease_seconds", "idle_ms", "reader")
_WRITE: Final = (
    "operation",
    "duplicates",
    "delete_when",
    "row_order",
    "markers",
    "services",
    "on_conflict",
    "merge_schema",
    "partitions",
)
_WRITE_STREAM: Final = ("stream", "pending_max", "replayed")
NAMES: Final = (*_TABLE, *_READ, *_READ_STREAM, *_WRITE, *_WRITE_STREAM)
"""All options. A temporary view is read and written, so each read and each write accepts all of them."""


class Use(enum.Enum):
    """Kinds of reads and writes that have options, each with the names of its options."""

    READ = (*_TABLE, *_READ)
    READ_STREAM = (*_TABLE, "from", "view", "meta_columns", *_READ_STREAM)
    WRITE = (*_TABLE, *_WRITE)
    WRITE_STREAM = (*_TABLE, *_WRITE, *_WRITE_STREAM)
    ANY = NAMES
    """All kinds: Spark asks for the columns before it names the kind, and a view is read and written."""


_REPLACED_PARTITIONS: Final = (
    'to replace partitions use .mode("overwrite") with the option partitions set to dynamic'
)
_NO_TOKEN: Final = (
    "Spark shows options in its plans, so secrets are in files that each machine has: use token_file or "
    "oauth_client_secret_file, or set CHRONOLAKE_TOKEN_FILE for driver and executors"
)
_OF_OTHER_FORMATS: Final = {
    "token": _NO_TOKEN,
    "oauth_client_secret": _NO_TOKEN,
    "tokenfile": "use token_file",
    "cafile": "use ca_file",
    "versionasof": "use as_of, with a completion time",
    "timestampasof": "use as_of",
    "as.of.instant": "use as_of, with a completion time",
    "startingversion": "use from, with a completion time",
    "startingtimestamp": "use from",
    "endingversion": "use to, with a completion time",
    "endingtimestamp": "use to",
    "maxfilespertrigger": "use max_files",
    "maxbytespertrigger": "use max_bytes",
    "mergeschema": "use merge_schema",
    "paths": "a frame is of one table, given by .load('namespace.table')",
    "replacewhere": _REPLACED_PARTITIONS,
    "partitionoverwritemode": _REPLACED_PARTITIONS,
    "hoodie.datasource.query.type": "use view",
    "hoodie.datasource.write.operation": "use operation",
}
"""Names that users try, as those of Delta Lake and Hudi, with the option of this format."""

_OF_CREATE_TABLE: Final = "provider"
"""An option that Spark adds in CREATE TABLE, and only there."""
_BOOLEANS: Final = {"true": True, "false": False}

NO_TABLE: Final = (
    "CREATE TABLE … USING chronolake makes a table only in a catalog of Chronolake: call "
    "chronolake_spark.catalog(spark, 'lake', url), then CREATE TABLE lake.namespace.table … TBLPROPERTIES "
    "(record_key = 'id'). A view of a table is CREATE TEMPORARY VIEW … USING chronolake OPTIONS (table "
    "'namespace.table')"
)

_Choice = TypeVar("_Choice", bound=enum.StrEnum)


class QueryView(enum.StrEnum):
    """The view of a table that a read shows (Hudi: hoodie.datasource.query.type)."""

    SNAPSHOT = "snapshot"
    """Base files merged with log files: the records of all completed instants."""
    READ_OPTIMIZED = "read_optimized"
    """Base files only: faster, without what was appended to the log since the last compaction."""
    CHANGES = "changes"
    """The records that changed in a range of completion times."""


class WriteOperation(enum.StrEnum):
    """The operation of a write on its rows (Hudi: hoodie.datasource.write.operation)."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options, checked. Those that are not given are None, or have their default value."""

    table: str
    access: ServerAccess = field(default_factory=ServerAccess)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    as_of: AsOf | None = None
    from_: AsOf | None = None
    to: AsOf | None = None
    filter: str | None = None
    view: QueryView = QueryView.SNAPSHOT
    meta_columns: bool = False
    operation: WriteOperation = WriteOperation.UPSERT
    duplicates: Duplicates | None = None
    delete_when: str | None = None
    row_order: tuple[str, ...] = ()
    markers: MarkersType | None = None
    services: ServicesSwitch | None = None
    on_conflict: OnConflict = "fail"
    merge_schema: bool = False
    partitions: Replaces | None = None
    stream: str | None = None
    pending_max: int = 0
    replayed: Replayed = "fail"
    given: frozenset[str] = frozenset()
    """The names of the options that are given."""

    @property
    def given_for_reads(self) -> list[str]:
        """The given options that only a read has."""
        return [name for name in (*_READ, *_READ_STREAM) if name in self.given]


def parse(options: Mapping[str, str], use: Use = Use.ANY) -> FormatOptions:
    """The options of a read or a write, whose names may have any case. Raises ``InvalidOption``.

    An error for an unknown option lists those of ``use``; others are accepted.
    """
    given = {name.lower(): text for name, text in options.items()}
    if _OF_CREATE_TABLE in given:
        raise errors.InvalidOption(NO_TABLE)
    for name in given:
        _refuse_unknown(name, use)
    secrets = given.get(SECRETS_OPTION)
    return FormatOptions(
        table=_table(given),
        access=_access_of(given),
        storage_options={} if secrets is None else secrets_of(secrets),
        as_of=_moment(given, "as_of"),
        from_=_moment(given, "from"),
        to=_moment(given, "to"),
        filter=given.get("filter"),
        view=_view(given),
        meta_columns=_boolean(given, "meta_columns"),
        operation=_choice(given, "operation", WriteOperation) or WriteOperation.UPSERT,
        duplicates=_duplicates(given),
        delete_when=given.get("delete_when"),
        row_order=tuple(name.strip() for name in given.get("row_order", "").split(",") if name.strip()),
        markers=_choice(given, "markers", MarkersType),
        services=_word(given, "services", get_args(ServicesSwitch)),
        on_conflict=_word(given, "on_conflict", get_args(OnConflict)) or "fail",
        merge_schema=_boolean(given, "merge_schema"),
        partitions=_choice(given, "partitions", Replaces),
        stream=given.get("stream"),
        pending_max=_number(given, "pending_max"),
        replayed=_word(given, "replayed", get_args(Replayed)) or "fail",
        given=frozenset(given),
    )


def refuse_mode(mode: str, options: FormatOptions) -> None:
    """Raise ``InvalidOption`` unless rows can be written to an existing table in this mode."""
    match mode.lower():
        case "append" if "partitions" in options.given:
            raise errors.InvalidOption(
                'the option partitions is for .mode("overwrite"), and for INSERT OVERWRITE'
            )
        case "overwrite" if "operation" in options.given:
            raise errors.InvalidOption(
                f'the operation {options.operation} is for .mode("append"); the mode overwrite replaces '
                "records: leave the option operation out"
            )
        case "append" | "overwrite":
            return
        case _:
            raise errors.InvalidOption(
                'give a mode: df.write.format("chronolake").option("table", …).mode("append").save(). Without '
                'one, and with "errorifexists" or "ignore", Spark writes only to tables that do not exist; '
                "make them with chronolake_spark.create_table"
            )


def refuse_stream_options(options: FormatOptions) -> None:
    """Raise ``InvalidOption`` if the options are of a stream that is written."""
    if names := [name for name in _WRITE_STREAM if name in options.given]:
        raise errors.InvalidOption(f"the options {', '.join(names)} are for df.writeStream")


def refuse_read_options(options: FormatOptions) -> None:
    """Raise ``InvalidOption`` if the options are of a read, as those of a view of the past."""
    if names := options.given_for_reads:
        raise errors.InvalidOption(f"the options {', '.join(names)} are for reads: leave them out of a write")


def refuse_options_of_read_streams(options: FormatOptions) -> None:
    """Raise ``InvalidOption`` for options that only ``readStream`` has."""
    if names := [name for name in _READ_STREAM if name in options.given]:
        raise errors.InvalidOption(
            f"the options {', '.join(names)} are for readStream: leave them out of spark.read"
        )


def secrets_to_json(storage_options: Mapping[str, str]) -> str:
    """The text of the option that holds secrets."""
    return msgspec.json.encode({name: str(text) for name, text in storage_options.items()}).decode()


def secrets_from_json(text: str) -> dict[str, str]:
    """The options in a text of ``secrets_to_json``."""
    return decoding.decode(text, dict[str, str])


def _refuse_unknown(name: str, use: Use) -> None:
    if name in NAMES:
        return
    if name in _OF_OTHER_FORMATS:
        hint = f": {_OF_OTHER_FORMATS[name]}."
    else:
        nearest = difflib.get_close_matches(name, use.value, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    raise errors.InvalidOption(
        f"the format chronolake has no option {name!r}{hint} Its options are {', '.join(sorted(use.value))}",
        {"option": name},
    )


def _table(given: Mapping[str, str]) -> str:
    names = {given[option] for option in ("table", "path") if option in given}
    if not names:
        raise errors.InvalidOption(
            'no table is given: use .option("table", "namespace.table"). If CREATE TABLE or saveAsTable made '
            "the entry in Spark's catalog, drop it (DROP TABLE): Spark keeps no options of such entries; "
            "chronolake_spark.catalog(spark, 'lake') has all tables"
        )
    if len(names) > 1:
        raise errors.InvalidOption(
            f"two tables are given: the option table is {given['table']!r} and the path is {given['path']!r}; "
            "leave one of them out"
        )
    [name] = names
    if name.count(".") != 1 or "/" in name:
        raise errors.InvalidOption(
            f"{name!r} is not the name of a table: give namespace.table, as in shop.orders; the metastore "
            "knows its folder"
        )
    return name


def _access_of(given: Mapping[str, str]) -> ServerAccess:
    try:
        return _access.access_of(given)
    except ValueError as exc:
        raise errors.InvalidOption(str(exc)) from None


def secrets_of(text: str) -> dict[str, str]:
    """The storage options in the option ``storage_secrets``. Raises ``InvalidOption``."""
    try:
        return secrets_from_json(text)
    except msgspec.DecodeError:
        # Without the text: it may be a secret.
        raise errors.InvalidOption(
            f"the option {SECRETS_OPTION} is not a JSON object of texts, as "
            '{"access_key": "…", "secret_key": "…"}'
        ) from None


def _moment(given: Mapping[str, str], name: str) -> AsOf | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return Cut.from_json(text) if is_json(text) else digits_of(text)
    except ValueError as exc:
        raise errors.InvalidOption(f"the option {name}: {exc}", {"option": name}) from None


def _view(given: Mapping[str, str]) -> QueryView:
    view = _choice(given, "view", QueryView)
    of_changes = [name for name in ("from", "to") if name in given]
    if of_changes and view not in (None, QueryView.CHANGES):
        raise errors.InvalidOption(f"the option {of_changes[0]} is for the view changes, not for {view}")
    if of_changes or view is QueryView.CHANGES:
        if "as_of" in given:
            raise errors.InvalidOption(
                "as_of is for snapshots. Changes are read with from and to, and streams begin with from: give "
                "one or the other"
            )
        return QueryView.CHANGES
    return view or QueryView.SNAPSHOT


def _boolean(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in _BOOLEANS:
        raise errors.InvalidOption(f"the option {name} is true or false, not {text!r}", {"option": name})
    return _BOOLEANS[text]


def _number(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "0")
    if not text.isdecimal():
        raise errors.InvalidOption(
            f"the option {name} is a whole number, 0 or more, not {text!r}", {"option": name}
        )
    return int(text)


def _duplicates(given: Mapping[str, str]) -> Duplicates | None:
    duplicates: Duplicates | None = _word(given, "duplicates", get_args(Duplicates))
    if duplicates is not None and given.get("operation", "").lower() != WriteOperation.INSERT:
        raise errors.InvalidOption("the option duplicates is for the operation insert; an upsert updates keys")
    return duplicates


def _choice(given: Mapping[str, str], name: str, choices: type[_Choice]) -> _Choice | None:
    word = _word(given, name, [str(choice) for choice in choices])
    return None if word is None else choices(word)


def _word(given: Mapping[str, str], name: str, words: Sequence[str]) -> Any:
    """The option in small letters, which is one of ``words``; None if it is not given."""
    text = given.get(name)
    if text is None or text.lower() in words:
        return text and text.lower()
    raise errors.InvalidOption(choices.refusal(f"the option {name}", text, words), {"option": name})
