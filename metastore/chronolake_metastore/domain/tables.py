"""Tables: created, checked and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.domain import base_paths, definitions, locations, properties, publication
from chronolake_metastore.domain.base_paths import Neighbour
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableAdopted, TableAltered, TableCreated, TableDropped
from chronolake_metastore.domain.locations import AllowedLocations
from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.rights import UNLIMITED, Rights
from chronolake_model import base_paths as keys, nested_fields, storage
from chronolake_model.columns import (
    PROPERTIES_BYTES_MAX,
    PROPERTIES_MAX,
    BucketIndex,
    SchemaField,
    refuse_larger,
)
from chronolake_model.marker_names import TYPE_PROPERTY, MarkersType
from chronolake_model.names import split_table_name
from chronolake_model.times import Micros, Tick, format_time
from chronolake_model.vocabulary import (
    ADOPTING_PROPERTY,
    GRACE_PROPERTY,
    GRACE_SECONDS_DEFAULT,
    IndexType,
    TableType,
    Yields,
)


class Adoption(msgspec.Struct, frozen=True):
    """The end of the history that a table has brought from Hudi. Unless it ``is_published``, the timeline is
    written anew, and Hudi's former one stays beside it."""

    version: int
    time: Micros
    is_published: bool = True


class FormerBuckets(msgspec.Struct, frozen=True):
    """A number of buckets that the table had until this completion time, and the instant that changed it."""

    buckets: int
    until: Micros
    changed_by: Micros


class Definition(msgspec.Struct, frozen=True):
    """The definition of a table.

    ``last_field_id`` is the greatest field id that a column or a nested field of it ever had.

    ``markers_required_since`` is when the property that requires markers was set, of a table that was created
    without it. ``adoption`` is that of a table that Hudi has written before. ``former_buckets`` are the
    earlier numbers of buckets, oldest first.
    """

    name: str
    base_path: str
    schema: list[SchemaField]
    record_key_fields: list[str]
    type: TableType
    partition_fields: list[str]
    ordering_field: str | None
    index: BucketIndex
    tick: Tick
    properties: dict[str, str]
    schema_version: int
    last_field_id: int
    markers_required_since: Micros | UnsetType = UNSET
    adoption: Adoption | UnsetType = UNSET
    former_buckets: list[FormerBuckets] | UnsetType = UNSET

    @property
    def former(self) -> list[FormerBuckets]:
        """The earlier numbers of buckets, oldest first."""
        return [] if self.former_buckets is UNSET else self.former_buckets

    @property
    def has_timeline_of_hudi(self) -> bool:
        """Whether Hudi has written the beginning of the table's published timeline."""
        return self.adoption is not UNSET and self.adoption.is_published

    def buckets_as_of(self, time: Micros) -> int:
        """The number of buckets as of a time."""
        return next((former.buckets for former in self.former if time < former.until), self.index.buckets)


class Table(msgspec.Struct, frozen=True):
    """A table in its present state; a dropped one is kept for auditors.

    ``cleaned_before`` is the first completion time that it is served as of; none, as long as nothing was
    cleaned. ``earliest_commit_to_retain`` is the requested time from which on cleans keep all files.
    """

    table_id: UUID
    definition: Definition
    created_at: Micros
    dropped_at: Micros | None = None
    cleaned_before: Micros | None = None
    earliest_commit_to_retain: Micros | None = None

    @property
    def name(self) -> str:
        """``namespace.table``."""
        return self.definition.name

    @property
    def yields(self) -> Yields:
        """Which side gives way when a write and a table service conflict."""
        return Yields(self.definition.properties.get(properties.YIELDS_PROPERTY, Yields.TABLE_SERVICE))

    def buckets_as_of(self, time: Micros) -> int | None:
        """The number of buckets as of a time; None without a bucket index."""
        is_bucket = self.definition.index.type is IndexType.BUCKET
        return self.definition.buckets_as_of(time) if is_bucket else None

    @property
    def detects_early(self) -> bool:
        """Whether a marker is refused if another instant has marked its file group."""
        return self.definition.properties.get(properties.EARLY_PROPERTY) == "true"

    @property
    def markers_type(self) -> MarkersType:
        """The default place of the markers of its writes."""
        return MarkersType(self.definition.properties.get(TYPE_PROPERTY, MarkersType.SERVER))

    def requires_markers(self, requested_time: Micros) -> bool:
        """Whether an instant publishes a file only if its marker was created.

        Not if it was begun before the table required markers: it may have written files without any.
        """
        since = self.definition.markers_required_since
        is_required = self.definition.properties.get(properties.MARKERS_PROPERTY) == "true"
        return is_required and (since is UNSET or requested_time > since)

    def refuse_unfinished(self) -> None:
        """Raise ``IllegalTransition`` while its adoption is not finished: Hudi may still write to it."""
        if ADOPTING_PROPERTY in self.definition.properties:
            raise errors.IllegalTransition(f"{self.name!r}: {properties.UNFINISHED}", table=self.name)

    @property
    def grace_seconds(self) -> int:
        """How long after a deletion the name of its file is checked once more."""
        return int(self.definition.properties.get(GRACE_PROPERTY, GRACE_SECONDS_DEFAULT))


class CreateTable(Command, frozen=True):
    """``base_path_key`` is the key with local links resolved, if they were resolved."""

    definition: NewDefinition
    base_path_key: str | None = None

    @override
    def identity(self) -> Command:
        # The targets of links are not part of the request, and may have changed when it is sent again.
        return msgspec.structs.replace(self, base_path_key=None)


class AlterTable(Command, frozen=True):
    name: str
    new_name: str | None = None
    set: dict[str, str] = msgspec.field(default_factory=dict)
    unset: Sequence[str] = ()

    @property
    def concerns_storage(self) -> bool:
        """Whether it may change where the table is, or in which namespace's locations that must be."""
        names = [*self.set, *self.unset]
        return self.new_name is not None or any(name.startswith(storage.PREFIX) for name in names)


class DropTable(Command, frozen=True):
    """With a ``version``, the table is dropped only if this is the last version of its log."""

    name: str
    version: int | None = None


class FormerHolders(msgspec.Struct, frozen=True):
    """The other tables that had a name before: dropped under it, or renamed since.

    ``last_time`` is the last time that any of them has issued under the name. ``shared`` are the requested
    times that the table which is to get the name has in common with them, where either instant is pending;
    or may have, where the other one would have left the database.
    """

    last_time: Micros | None = None
    shared: Sequence[Micros] = ()


def create(
    namespace: Namespace | None,
    existing: Table | None,
    command: CreateTable,
    allowed: AllowedLocations,
    neighbours: Sequence[Neighbour] = (),
    rights: Rights = UNLIMITED,
) -> TableCreated:
    """Create a table, whose base path overlaps with those of ``neighbours``. ``rights`` are of the caller.

    Raises ``InvalidTable``, ``TableExists``, ``LocationNotAllowed``, ``BasePathTaken``, or
    ``NamespaceNotFound`` when nothing else is wrong.
    """
    definition = command.definition
    definitions.check(definition)
    publication.refuse_unreadable(definition)
    key = base_path_key(command)
    if existing is not None:
        raise errors.TableExists(
            f"the table {definition.name!r} exists already; use it, drop it, or choose another name",
            table=definition.name,
        )
    # Checked before neighbours, so that a caller learns nothing about tables elsewhere.
    allowed.refuse_outside(definition.base_path, locations.address_of(definition.base_path, key))
    base_paths.refuse_taken(definition, neighbours, rights)
    if namespace is None:
        raise errors.NamespaceNotFound(split_table_name(definition.name)[0])
    return TableCreated(
        definition=definition, base_path_key=key, took_over=[neighbour.table_id for neighbour in neighbours]
    )


def base_path_key(command: CreateTable) -> str:
    """The key of a new table's base path; raises ``InvalidTable``."""
    try:
        key = keys.canonical(command.definition.base_path)
        return key if command.base_path_key is None else keys.canonical(command.base_path_key)
    except ValueError as exc:
        raise errors.InvalidTable(str(exc)) from exc


def alter(table: Table, command: AlterTable, pending: Sequence[Micros]) -> TableAltered | None:
    """Change a table's name and properties; None if nothing would change.

    ``pending`` are the first of its pending instants, if there are any. Raises ``InvalidTable``, and
    ``IllegalTransition`` when a property would change that pending instants hold.
    """
    _check_change(table, command)
    before = table.definition.properties
    properties.refuse_unknown((name for name in command.unset if name not in before), of_storage=True)
    payload = TableAltered(
        name=table.name,
        new_name=None if command.new_name == table.name else command.new_name,
        set={name: text for name, text in command.set.items() if before.get(name) != text},
        unset=[name for name in command.unset if name in before],
    )
    if payload == TableAltered(name=table.name):
        return None
    after = _altered(before, payload)
    if len(after) > PROPERTIES_MAX:
        raise errors.InvalidTable(f"a table has {PROPERTIES_MAX:,} properties at most, not {len(after):,}")
    try:
        refuse_larger("properties", after, PROPERTIES_BYTES_MAX)
    except ValueError as exc:
        raise errors.InvalidTable(f"{exc}, in {table.name!r}") from exc
    properties.refuse_unknown(payload.set)
    properties.refuse_unsortable(payload.set, table.definition.schema)
    properties.check(after)
    publication.refuse_unreadable(msgspec.structs.replace(table.definition, properties=after))
    held = properties.held_by_pending([*payload.set, *payload.unset])
    if held and pending:
        raise _held(table, pending, f"{', '.join(held)} cannot change, for pending instants have files there")
    return payload


def namespace_to_check(table: Table, change: TableAltered) -> str | None:
    """The namespace in whose locations the base path must be; None for a change that does not concern it.

    Storage options say in which storage a base path is.
    """
    before, after = (split_table_name(name)[0] for name in (table.name, change.new_name or table.name))
    if before != after or any(name.startswith(storage.PREFIX) for name in [*change.set, *change.unset]):
        return after
    return None


def _check_change(table: Table, command: AlterTable) -> None:
    if command.new_name is None and not command.set and not command.unset:
        raise errors.InvalidTable(f"nothing of {table.name!r} would change; give name, set or unset")
    named = [*command.set, *command.unset]
    for fixed in properties.fixed(command.set, command.unset):
        raise errors.InvalidTable(
            f"the property {fixed} is of the beginning of {table.name!r}, and cannot change",
            property=fixed,
        )
    if len(set(named)) != len(named):
        twice = next(name for name in command.unset if named.count(name) > 1)
        raise errors.InvalidTable(f"the property {twice[:100]!r} is named twice", property=twice)


def refuse_rename(
    table: Table, name: str, namespace: Namespace | None, holder: Table | None, former: FormerHolders
) -> None:
    """Raise unless the table may get another name, which ``former`` had before.

    Raises ``NamespaceNotFound``, ``TableExists``, and ``IllegalTransition`` when a writer that still uses the
    name could mistake an instant of this table for its own.
    """
    if namespace is None:
        raise errors.NamespaceNotFound(split_table_name(name)[0])
    if holder is not None:
        raise errors.TableExists(
            f"the table {name!r} exists already; rename or drop it, or choose another name", table=name
        )
    if former.shared:
        what = f"it cannot be renamed to {name!r}, for a table that had this name has instants of equal times"
        what += ", or may have had them before they left for the archive"
        raise _held(table, former.shared, what, "choose another name, or ")


def _held(table: Table, times: Sequence[Micros], what: str, advice: str = "") -> errors.IllegalTransition:
    instants = [format_time(time, table.definition.tick) for time in times]
    advice = f"{advice}complete or roll back what is pending, and try again"
    return errors.IllegalTransition(
        f"{table.name!r}: {what}: {', '.join(instants)}; {advice}",
        table=table.name,
        instants=instants,
    )


def _altered(before: Mapping[str, str], change: TableAltered) -> dict[str, str]:
    kept = {name: text for name, text in before.items() if name not in change.unset}
    return kept | change.set


def drop(existing: Table | None, command: DropTable, version: int) -> TableDropped:
    """Drop a table, whose log ends at ``version``: its timeline ends, its files and its history stay.

    Raises ``TableNotFound``, and ``IllegalTransition`` for another version than the command expects.
    """
    if existing is None:
        raise errors.TableNotFound(command.name)
    if command.version not in (None, version):
        raise errors.IllegalTransition(
            f"the log of {command.name!r} ends at version {version}, not {command.version}: the table has "
            "changed meanwhile; look at it, and try again",
            table=command.name,
            version=version,
        )
    return TableDropped(name=command.name)


def evolve_created(event: TableCreated, table_id: UUID, time: Micros) -> Table:
    """The table that ``event`` made: its columns are numbered from 1, in their order, then nested fields."""
    requested = event.definition
    fields, last_field_id = nested_fields.numbered_columns(requested.schema)
    definition = Definition(
        name=requested.name,
        base_path=requested.base_path,
        schema=fields,
        record_key_fields=requested.record_key_fields,
        type=requested.type,
        partition_fields=requested.partition_fields,
        ordering_field=requested.ordering_field,
        index=requested.index,
        tick=requested.tick,
        properties=requested.properties,
        schema_version=1,
        last_field_id=last_field_id,
    )
    return Table(table_id, definition, created_at=time)


def evolve_altered(table: Table, event: TableAltered, time: Micros) -> Table:
    """The table after ``event``."""
    before = table.definition
    after = _altered(before.properties, event)
    since: Micros | UnsetType = UNSET
    if _requires_markers(after):
        since = before.markers_required_since if _requires_markers(before.properties) else time
    definition = msgspec.structs.replace(
        before, name=event.new_name or before.name, properties=after, markers_required_since=since
    )
    return msgspec.structs.replace(table, definition=definition)


def _requires_markers(of_table: Mapping[str, str]) -> bool:
    return of_table.get(properties.MARKERS_PROPERTY) == "true"


def evolve_dropped(table: Table, time: Micros) -> Table:
    """The table once it is dropped."""
    return msgspec.structs.replace(table, dropped_at=time)


def evolve_adopted(table: Table, event: TableAdopted, version: int, time: Micros) -> Table:
    """The table after the history that it brought with it."""
    if event.cleaned_before is not None:
        table = evolve_cleaned(table, event.cleaned_before)
    adoption = Adoption(version, time, event.is_published)
    return msgspec.structs.replace(
        table, definition=msgspec.structs.replace(table.definition, adoption=adoption)
    )


def evolve_cleaned(table: Table, before: Micros | None, earliest: Micros | None = None) -> Table:
    """The table once its history before that time is cleaned, and the earliest commit to retain is known.

    Neither goes back: cleaned history never comes back.
    """
    times = (before, table.cleaned_before), (earliest, table.earliest_commit_to_retain)
    cleaned_before, retained = (max((time for time in pair if time), default=None) for pair in times)
    return msgspec.structs.replace(table, cleaned_before=cleaned_before, earliest_commit_to_retain=retained)


def archived_instant(table: Table, requested_time: Micros, instants_from: Micros) -> errors.IllegalTransition:
    """The refusal to change an instant that was requested before those of which the database has all."""
    tick = table.definition.tick
    time, first = format_time(requested_time, tick), format_time(instants_from, tick)
    return errors.IllegalTransition(
        f"instants of {table.name!r} that were requested before {first} have ended and left the database, so "
        f"that of {time} cannot be changed, undone or saved any more; the archive of the log has it",
        table=table.name,
        requested_time=time,
        state="archived",
        instants_from=first,
    )
