"""The properties of a table that the server knows: what each may be, and when it may change.

Other names are free, also those of Hudi that have no meaning here: the table keeps them for its users. But a
name that begins as one of these do, or is nearly one of them, is taken for a misspelled one, and refused.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from chronolake_hudi import properties as hudi
from chronolake_hudi.errors import HudiFormatError
from chronolake_metastore import errors
from chronolake_model import column_types, storage
from chronolake_model.column_types import ArrayType, MapType, StructType
from chronolake_model.columns import Field
from chronolake_model.file_sizes import (
    BYTES_MAX,
    MAX_FILE_SIZE_PROPERTY,
    RECORD_SIZE_PROPERTY,
    SMALL_FILE_LIMIT_PROPERTY,
)
from chronolake_model.marker_names import EXECUTOR_PROPERTY, TYPE_PROPERTY, Executor, MarkersType
from chronolake_model.merge_modes import MERGE_MODE_PROPERTY, ORDERING_FIELDS_PROPERTY, MergeMode
from chronolake_model.partition_paths import (
    BY_GENERATOR,
    HIVE_STYLE_PROPERTY,
    KEPT_KEYS_PROPERTY,
    KEPT_PROPERTY,
    URL_ENCODE_PROPERTY,
)
from chronolake_model.publication import (
    ACTIVE_HOURS_PROPERTY,
    KEEP_MAX_DEFAULT,
    KEEP_MAX_PROPERTY,
    KEEP_MIN_DEFAULT,
    KEEP_MIN_PROPERTY,
    LOG_BLOCKS_PROPERTY,
    PUBLISH_PROPERTY,
    PUBLISHER_PROPERTY,
    TABLE_VERSION_PROPERTY,
    Publisher,
)
from chronolake_model.service_properties import (
    CLUSTERING_LAYOUT,
    CLUSTERING_SORT_COLUMNS,
    CURVE_COLUMNS_MAX,
    FAMILIES,
    HUDI_PREFIX,
    LAYOUTS,
    SERVICE_PROPERTIES,
    listed,
    value_of,
)
from chronolake_model.vocabulary import (
    ADOPTED_PROPERTY,
    ADOPTING_PROPERTY,
    GRACE_PROPERTY,
    GRACE_SECONDS_MAX,
    TIMELINE_DIGEST_PATTERN,
    Yields,
)

YIELDS_PROPERTY: Final = "conflicts.yields"
EARLY_PROPERTY: Final = "markers.early-conflict-detection"
MARKERS_PROPERTY: Final = "markers.required"
STREAM_PENDING_MAX: Final = "streams.pending-max"
STREAM_WAIT_SECONDS: Final = "streams.wait-seconds"
STREAM_EMPTY_COMMITS: Final = "streams.empty-commits"


UNFINISHED: Final = (
    "its adoption from Hudi is not finished; run chronolake hudi adopt again, with the same folder and name"
)


class Change(enum.Enum):
    """When a property may be set to another value, or removed."""

    ALWAYS = enum.auto()
    """Pending instants use the value at their begin, or do not depend on it."""
    WITHOUT_PENDING = enum.auto()
    """While no instant of the table is pending: its writer would go on with the value before."""
    REMOVAL = enum.auto()
    """It is set at the beginning or never, and may be removed."""
    NEVER = enum.auto()
    """It says how the files are written, from the first one on."""


class Property(msgspec.Struct, frozen=True):
    """One property; ``allowed`` says in words which values it ``accepts``."""

    allowed: str
    accepts: Callable[[str], bool]
    change: Change = Change.ALWAYS


def _one_of(*values: str, change: Change = Change.ALWAYS) -> Property:
    return Property(" or ".join(values), frozenset(values).__contains__, change)


def _is_grace(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None and int(text) <= GRACE_SECONDS_MAX


def _number(what: str, *, least: int, most: int) -> Property:
    def is_number(text: str) -> bool:
        return re.fullmatch(r"[0-9]{1,9}", text) is not None and least <= int(text) <= most

    return Property(f"{what}, {least} to {most}", is_number)


def _bytes(*, least: int) -> Property:
    def is_size(text: str) -> bool:
        return re.fullmatch(r"[0-9]{1,13}", text) is not None and least <= int(text) <= BYTES_MAX

    return Property(f"a number of bytes, {least} to {BYTES_MAX}", is_size)


def _is_of_hudi(text: str) -> bool:
    """Whether publication can go on from these properties, which a table had before it was adopted."""
    try:
        hudi.encode(hudi.adopted(text, "", hudi.TableVersion.NINE, hudi.HudiMergeMode.COMMIT_TIME))
    except (HudiFormatError, UnicodeEncodeError):
        return False
    return True


def _is_digest(text: str) -> bool:
    return re.fullmatch(TIMELINE_DIGEST_PATTERN, text) is not None


def _of_storage(option: str) -> Property:
    """An option of the storage. Pending writers write to the storage before; rollbacks delete there."""
    match option:
        case "endpoint_override":
            return Property("http(s)://host:port or host:port", storage.is_endpoint, Change.WITHOUT_PENDING)
        case "region":
            return Property("the name of a region", storage.is_region, Change.WITHOUT_PENDING)
        case _:  # A secret, which storage.check_properties refuses without its value.
            return Property("never kept", lambda _: True, Change.WITHOUT_PENDING)


PROPERTIES: Final[Mapping[str, Property]] = {
    YIELDS_PROPERTY: _one_of(*Yields),
    EARLY_PROPERTY: _one_of("true", "false"),
    MARKERS_PROPERTY: _one_of("true", "false"),
    TYPE_PROPERTY: _one_of(*MarkersType),
    EXECUTOR_PROPERTY: _one_of(*Executor),
    PUBLISH_PROPERTY: _one_of("true", "false"),
    PUBLISHER_PROPERTY: _one_of(*Publisher),
    TABLE_VERSION_PROPERTY: _one_of("8", "9"),
    LOG_BLOCKS_PROPERTY: _one_of("avro", "parquet"),
    KEEP_MAX_PROPERTY: _number("a number of commits", least=2, most=1_000_000),
    KEEP_MIN_PROPERTY: _number("a number of commits", least=1, most=1_000_000),
    ACTIVE_HOURS_PROPERTY: _number("a number of hours", least=0, most=100 * 366 * 24),
    MERGE_MODE_PROPERTY: _one_of(*MergeMode, change=Change.NEVER),
    ADOPTED_PROPERTY: Property("the text of a hoodie.properties", _is_of_hudi, Change.NEVER),
    ADOPTING_PROPERTY: Property("a digest of 64 digits", _is_digest, Change.REMOVAL),
    HIVE_STYLE_PROPERTY: _one_of("true", "false", change=Change.NEVER),
    URL_ENCODE_PROPERTY: _one_of("true", "false", change=Change.NEVER),
    KEPT_PROPERTY: _one_of("true", BY_GENERATOR, change=Change.NEVER),
    KEPT_KEYS_PROPERTY: _one_of("true", change=Change.NEVER),
    ORDERING_FIELDS_PROPERTY: Property("names of columns", bool, Change.NEVER),
    GRACE_PROPERTY: Property(f"a number of seconds, {GRACE_SECONDS_MAX} at most", _is_grace),
    STREAM_PENDING_MAX: _number("a number of instants", least=1, most=1_000),
    STREAM_WAIT_SECONDS: _number("a number of seconds", least=0, most=366 * 86_400),
    STREAM_EMPTY_COMMITS: _one_of("true", "false"),
    SMALL_FILE_LIMIT_PROPERTY: _bytes(least=0),
    MAX_FILE_SIZE_PROPERTY: _bytes(least=1),
    RECORD_SIZE_PROPERTY: _bytes(least=1),
    **{name: Property(policy.allowed, policy.accepts) for name, policy in SERVICE_PROPERTIES.items()},
    **{f"{storage.PREFIX}{option}": _of_storage(option) for option in storage.S3_OPTIONS},
}

PREFIXES: Final = (
    *sorted({name.partition(".")[0] + "." for name in PROPERTIES if not name.startswith(HUDI_PREFIX)}),
    *FAMILIES,
)
"""The names that begin with one of these are Chronolake's, or of policies that it takes from Hudi."""


def check(properties: Mapping[str, str]) -> None:
    """Raise ``InvalidTable`` when no table may have these properties."""
    for name, known in PROPERTIES.items():
        given = properties.get(name)
        if given is not None and not known.accepts(given):
            raise errors.InvalidTable(
                f"the property {name} is {known.allowed}, not {given[:100]!r}", property=name
            )
    most, least = (
        int(properties.get(name, default))
        for name, default in ((KEEP_MAX_PROPERTY, KEEP_MAX_DEFAULT), (KEEP_MIN_PROPERTY, KEEP_MIN_DEFAULT))
    )
    if most <= least:
        raise errors.InvalidTable(
            f"{KEEP_MAX_PROPERTY} is {most}, and {KEEP_MIN_PROPERTY} {least}: the first must be more than the "
            "second; set both",
            property=KEEP_MAX_PROPERTY,
        )
    try:
        storage.check_properties(properties)
    except ValueError as exc:
        raise errors.InvalidTable(str(exc)) from exc


def refuse_unsortable(properties: Mapping[str, str], schema: Sequence[Field]) -> None:
    """Raise ``InvalidTable`` when records are to be sorted by a column that cannot order them."""
    reason = unsortable(listed(properties.get(CLUSTERING_SORT_COLUMNS, "")), schema)
    if reason is not None:
        raise errors.InvalidTable(f"the property {reason}", property=CLUSTERING_SORT_COLUMNS)


def refuse_details(details: Mapping[str, str], schema: Sequence[Field]) -> None:
    """Raise ``InvalidPlan`` for details of a plan that no executor follows: wrong policies, or misspelt ones.

    Other names are free, as those of properties are.
    """
    policies = {name: text for name, text in details.items() if name in SERVICE_PROPERTIES}
    try:
        refuse_unknown(details)
        for name in sorted(details.keys() & PROPERTIES.keys() - SERVICE_PROPERTIES.keys()):
            _refuse(name, (), "Details of a plan have policies of services; this is a property of the table")
        check(policies)
    except errors.InvalidTable as exc:
        raise errors.InvalidPlan(f"details: {exc}", **exc.context) from exc
    reason = impossible_layout(details, schema)
    if reason is not None:
        raise errors.InvalidPlan(f"details: {reason}", property=CLUSTERING_SORT_COLUMNS)


def impossible_layout(details: Mapping[str, str], schema: Sequence[Field]) -> str | None:
    """Why records of a table cannot be laid out as the details of a plan state; None if they can."""
    names = listed(details.get(CLUSTERING_SORT_COLUMNS, ""))
    columns = len(set(names))
    if value_of(details, CLUSTERING_LAYOUT).lower() != LAYOUTS[0] and columns > CURVE_COLUMNS_MAX:
        return (
            f"{CLUSTERING_SORT_COLUMNS} names {columns} columns, and the curve of {CLUSTERING_LAYOUT} has "
            f"{CURVE_COLUMNS_MAX} at most"
        )
    return unsortable(names, schema)


def unsortable(names: Iterable[str], schema: Sequence[Field]) -> str | None:
    """Why records of a table cannot be sorted by these columns; None if they can."""
    # As schemas and executors do, without regard to case.
    columns = {field.name.lower(): field for field in schema}
    for name in names:
        if (reason := _without_order(name, columns)) is not None:
            return f"{CLUSTERING_SORT_COLUMNS} names {name[:100]!r}, {reason}"
    return None


def _without_order(name: str, columns: Mapping[str, Field]) -> str | None:
    column = columns.get(name.lower())
    if column is None:
        names = sorted(field.name for field in columns.values())
        return f"which is no column: the columns are {', '.join(names[:20])}"
    if isinstance(column_types.parse(column.type), ArrayType | MapType | StructType):
        return f"whose type {column.type[:100]} has no order"
    return None


def refuse_unknown(names: Iterable[str], *, of_storage: bool = False) -> None:
    """Raise ``InvalidTable`` for an unknown name that begins as the names that the server knows.

    The same holds for nearly one of them, such as ``hudi_publish`` or ``hoodie.table.service.enabled``. Unless
    ``of_storage``, names of the storage are left to ``check``, which knows which of them are secrets.
    """
    for name in sorted(set(names) - PROPERTIES.keys()):
        prefix = next((prefix for prefix in PREFIXES if name.lower().startswith(prefix)), None)
        if prefix == storage.PREFIX and not of_storage:
            continue
        if prefix is not None:
            known = sorted(known for known in PROPERTIES if known.startswith(prefix))
            nearest = difflib.get_close_matches(name.lower(), known, 1)
            advice = (
                f"Those that begin with {prefix} are {', '.join(known)}; a property of your own needs another"
            )
            _refuse(name, nearest, f"{advice} beginning")
        elif spelled := _misspelt(name):
            _refuse(name, spelled, "A property of your own needs another name")


def _refuse(name: str, nearest: Sequence[str], advice: str) -> NoReturn:
    question = f"did you mean {nearest[0]}? " if nearest else ""
    raise errors.InvalidTable(f"there is no property {name[:100]!r}: {question}{advice}", property=name)


def _misspelt(name: str) -> list[str]:
    """The known name that this one is nearly; nothing if it is none.

    Most names of Hudi have no meaning here and are free, so one of them is compared with others of Hudi only. A
    name without Hudi's beginning may lack it; with more parts than a known name, it is another one.
    """
    spelled = _SPELLINGS.get(_letters(name))
    if spelled is not None:
        return [spelled]
    short = name.lower()[:_COMPARED_MAX].removeprefix(HUDI_PREFIX)
    is_of_hudi = name.lower().startswith(HUDI_PREFIX)
    compared = {
        known.removeprefix(HUDI_PREFIX): known
        for known in PROPERTIES
        if (known.startswith(HUDI_PREFIX) if is_of_hudi else _parts(known) == short.count("."))
    }
    return [compared[near] for near in difflib.get_close_matches(short, compared, 1, _LIKENESS)]


def _parts(known: str) -> int:
    return known.removeprefix(HUDI_PREFIX).count(".")


def _letters(name: str) -> str:
    """A name without its separators, so that spellings of one name are equal."""
    return re.sub(r"[^a-z0-9]", "", re.sub(r"^hoodie\b", "hudi", name.lower()))


_SPELLINGS: Final = {_letters(name): name for name in PROPERTIES}
_COMPARED_MAX: Final = 200
_LIKENESS: Final = 0.9
"""A wrong letter or two. Of the names of Hudi 1.2.0 that are free, the nearest to a known one has 0.87."""


def held_by_pending(names: Iterable[str]) -> list[str]:
    """The names of properties, among ``names``, that may not change while an instant is pending."""
    return _that_change(names, Change.WITHOUT_PENDING)


def fixed(set_: Iterable[str], unset: Iterable[str]) -> list[str]:
    """The properties to set and to unset that a table has from its creation, or never."""
    set_names = list(set_)
    return _that_change([*set_names, *unset], Change.NEVER) + _that_change(set_names, Change.REMOVAL)


def _that_change(names: Iterable[str], change: Change) -> list[str]:
    return sorted(name for name in names if name in PROPERTIES and PROPERTIES[name].change is change)
