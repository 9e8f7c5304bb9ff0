"""Adopts a Hudi table: checks it, brings its history in, and takes its folder over.

Nothing is changed before the metastore has the table. From then on each step can be repeated: a second run
continues where the first one ended, if Hudi's timeline is still the one from which the history was made
(docs/decisions/0042-adoption.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import msgspec

from chronolake import errors
from chronolake._sync.client import Client
from chronolake._sync.table import Table
from chronolake.calls import catalog
from chronolake.hudi import (
    archive,
    folder,
    footers,
    history,
    logs,
    requirements,
    samples,
    spellings,
    stored,
)
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.hudi.footers import Footers
from chronolake.hudi.history import WRITER, Pending, PlannedAdoption
from chronolake.hudi.stored import StoredInstant, StoredTable
from chronolake.storage import open_files, open_filesystem, storage_failures
from chronolake_hudi import java_properties, properties
from chronolake_hudi.errors import HudiFormatError
from chronolake_hudi.timeline_files import Layout
from chronolake_model.adoption import ADOPTED_PROPERTY, ADOPTING_PROPERTY, timeline_digest
from chronolake_model.instants import Instant
from chronolake_model.storage import options_of
from chronolake_model.vocabulary import Action, State
from chronolake_storage import claims
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused, FolderMissing
from chronolake_storage.files import Content, Files
from chronolake_storage.overlaps import TablePlace

_REASON = "it was pending when the table was adopted from Hudi"
_MARKERS_AT_ONCE = 10_000
_WRITES: Final = frozenset(
    {
        Action.COMMIT,
        Action.DELTACOMMIT,
        Action.REPLACECOMMIT,
        Action.COMPACTION,
        Action.LOGCOMPACTION,
        Action.CLUSTERING,
    }
)


class Adopted(msgspec.Struct, frozen=True):
    """The result of an adoption, or of its dry run. ``instants`` come in, the pending ones among them.

    ``rolled_back`` are the pending instants that were undone. ``table_id`` is null after a dry run.
    """

    table: str
    base_path: str
    table_id: str | None
    table_version: int
    instants: int
    files: int
    cleaned_before: str | None
    rolled_back: list[str]
    notes: list[str]


def adopt(
    client: Client,
    options: Options,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Adopted:
    """Adopt a table, or with ``dry_run`` only check all that can be checked.

    The base files that come in are opened, for ``footers.CHECK_SECONDS`` at most; ``progress`` hears of it.

    Raises ``CannotAdopt`` and the errors of ``Client.adopt_table`` before anything is changed, and
    ``StorageFailed``.
    """
    options = msgspec.structs.replace(options, base_path=catalog.absolute_path(options.base_path))
    with storage_failures():
        files = open_files(options.base_path, options_of(options.properties, storage_options))
        try:
            files.check()
        except FolderMissing as exc:
            reason = "this machine sees no such folder: give the folder of the Hudi table"
            raise CannotAdopt([reason]) from exc
    begun = None if dry_run else _begun_before(client, options)
    if begun is not None:
        return _finish(client, begun, files)
    with storage_failures():
        filesystem, root = open_filesystem(options.base_path, options_of(options.properties, storage_options))
    table = _read_with_archive(files, progress)
    table_footers = _footers(table, filesystem, root, progress)
    table = _with_facts(table, filesystem, root, table_footers)
    adoption = _readable(_check(client, files, table, options), table_footers)
    if dry_run:
        return _result(table, adoption, None, [])
    adopted = client.table_of(client.adopt_table(adoption.request).table)
    _take_folder(client, adopted, files, table.text)
    rolled_back = _roll_back(adopted, adoption.pending)
    _publish(adopted)
    return _result(table, adoption, adopted, rolled_back)


def _begun_before(client: Client, options: Options) -> Table | None:
    """The table, if an earlier run has adopted it from this folder."""
    try:
        table = client.table(options.name)
    except (errors.TableNotFound, errors.NamespaceNotFound):
        return None
    is_same = table.definition.base_path == options.base_path
    return table if is_same and ADOPTED_PROPERTY in table.definition.properties else None


def _read(files: Files, former: bytes | None = None) -> StoredTable:
    with _cannot_adopt(), storage_failures():
        return stored.read(files, former)


def _read_with_archive(files: Files, progress: Callable[[str], None]) -> StoredTable:
    with _cannot_adopt(), storage_failures():
        return archive.with_archived(stored.read(files), files, progress)


def _footers(table: StoredTable, filesystem: Any, root: str, progress: Callable[[str], None]) -> Footers:
    with _cannot_adopt():
        types = {field.name: field.type for field in requirements.stated_schema(table)}
    return Footers(filesystem, root, bounded=spellings.bounded_columns(table, types), progress=progress)


def _with_facts(table: StoredTable, filesystem: Any, root: str, table_footers: Footers) -> StoredTable:
    """The table with the facts in its data files: records, blocks of log files, keys unlike Chronolake's."""
    schema = requirements.stated_schema(table)
    with _cannot_adopt(), storage_failures():
        table = logs.with_facts(footers.with_records(table, table_footers), filesystem, root)
        return samples.compared(table, schema, filesystem, root, table_footers)


def _readable(adoption: PlannedAdoption, table_footers: Footers) -> PlannedAdoption:
    """The adoption, if its files can be read. Raises ``CannotAdopt``."""
    checked = footers.check(adoption.request, table_footers)
    if checked.reasons:
        raise CannotAdopt(checked.reasons)
    if checked.opened == checked.files:
        return adoption
    note = (
        f"{checked.opened:,} of {checked.files:,} base files were opened, the newest first, in "
        f"{footers.CHECK_SECONDS:.0f} seconds; the others were not checked"
    )
    return msgspec.structs.replace(adoption, notes=[*adoption.notes, note])


@contextlib.contextmanager
def _cannot_adopt() -> Iterator[None]:
    try:
        yield
    except HudiFormatError as exc:
        raise CannotAdopt([str(exc)]) from exc


def _check(client: Client, files: Files, table: StoredTable, options: Options) -> PlannedAdoption:
    """The adoption, if neither the table, nor a claim, nor the metastore refuses it. Nothing is changed."""
    reasons = [] if options.reuse_base_path else _claim_without_reuse(files)
    try:
        adoption = history.adoption_of(table, options)
    except CannotAdopt as exc:
        raise CannotAdopt([*exc.reasons, *reasons]) from exc
    if reasons:
        raise CannotAdopt(reasons)
    try:
        check = client.check_adoption(adoption.request)
    except (errors.InvalidTable, errors.InvalidPlan) as exc:
        raise CannotAdopt([f"a table of Chronolake cannot have it: {exc}"]) from exc
    except errors.InvalidWriteStat as exc:
        time = exc.context.get("requested_time")
        path = next((entry.paths[-1] for entry in table.instants if entry.requested_time == time), None)
        if path is None:
            raise
        raise CannotAdopt([f"{files.base_path}/{path} names files that a table cannot have: {exc}"]) from exc
    owner = Owner(check.metastore_id, "", options.name, check.took_over)
    with storage_failures():
        try:
            claims.refuse_taken(files, owner, lambda: _places(client))
        except ClaimRefused as exc:
            raise CannotAdopt([str(exc)]) from exc
    return adoption


def _claim_without_reuse(files: Files) -> list[str]:
    with storage_failures():
        claim = files.read(claims.PATH)
    if claim is None:
        return []
    return [
        f"{files.base_path}/{claims.PATH} says that the folder is a table of Chronolake; if that table was "
        "released or dropped from this metastore, give --reuse-base-path"
    ]


def _places(client: Client) -> Iterator[TablePlace]:
    for table in client.tables():
        definition = table.definition
        yield TablePlace(definition.table_id, definition.name, definition.base_path)
    for dropped in client.dropped_tables():
        yield TablePlace(dropped.table_id, dropped.name, dropped.base_path, is_dropped=True)


def _finish(client: Client, table: Table, files: Files) -> Adopted:
    """Do what an earlier run has left to do. Raises ``CannotAdopt`` if Hudi has written to the table since."""
    former = table.definition.properties[ADOPTED_PROPERTY].encode("latin-1")
    _take_folder(client, table, files, former)
    before = _read(files, former)
    known = {instant.requested_time: instant for instant in table.instants()}
    rolled_back = _roll_back(table, _left_pending(before, known))
    _refuse_unknown(table, before, known)
    _publish(table)
    return _result_of_repeat(table, before, rolled_back)


def _take_folder(client: Client, table: Table, files: Files, former: bytes) -> None:
    """Claim the folder and guard the table; if Hudi has written since the history was made, give it back.

    After this the adoption is finished, and the table may be written to. A second run does nothing.
    """
    version = table.reload().publication().version
    digest = table.reload().definition.properties.get(ADOPTING_PROPERTY)
    if digest is None:
        return
    table.claim_storage()
    layout = properties.decode(former).version.layout
    with storage_failures():
        why = _changed(table, files, layout, digest)
        if why is None and not _guard(table, files, former):
            why = "hoodie.properties has changed"
        # A writer that began before the guard was there.
        why = why or _changed(table, files, layout, digest)
        if why is not None:
            _give_back(client, table, files, former, version, why)
    table.alter(unset=[ADOPTING_PROPERTY])


def _changed(table: Table, files: Files, layout: Layout, digest: str) -> str | None:
    """The change of the timeline since the history was made from it; None if there is none."""
    paths = stored.timeline_paths(files, layout)
    if timeline_digest(paths) == digest:
        return None
    known = {instant.requested_time for instant in table.instants()}
    new = [path for path in paths if path.rpartition("/")[2].partition(".")[0].partition("_")[0] not in known]
    return f"the timeline has changed, {new[-1]}" if new else "files of the timeline have changed or are gone"


def _guard(table: Table, files: Files, former: bytes) -> bool:
    """Write the guard, unless it is there; False if the properties are not those that were adopted."""
    content = files.read(properties.PATH, stored.PROPERTIES_BYTES_MAX)
    if _is_guarded(content, table):
        return True
    guarded = folder.guarded(former, table.definition.table_id)
    return (
        content is not None and content.body == former and files.replace(properties.PATH, guarded, content.tag)
    )


def _is_guarded(content: Content | None, table: Table) -> bool:
    if content is None:
        return False
    stated = java_properties.decode(content.body, properties.PATH)
    return stated.get(properties.TABLE_ID_KEY) == table.definition.table_id


def _give_back(client: Client, table: Table, files: Files, former: bytes, version: int, why: str) -> NoReturn:
    """Take the guard out of the folder, and drop the table, whose log ended at ``version``.

    In this order: a guard that no table has would lock Hudi out. While its adoption is not finished, a table
    takes no writes, so none is lost.
    """
    content = files.read(properties.PATH, stored.PROPERTIES_BYTES_MAX)
    if content is not None and _is_guarded(content, table):
        files.replace(properties.PATH, former, content.tag)
    client.drop_table(table.name, version=version)
    raise CannotAdopt(
        [
            f"Hudi has written to the table while it was adopted ({why}); it is as Hudi left it, and "
            f"{table.name} is dropped: stop the writers, and adopt it again with --reuse-base-path"
        ]
    )


def _left_pending(before: StoredTable, known: Mapping[str, Instant]) -> list[Pending]:
    """The pending instants that the adoption is to undo: not those that were begun here since."""

    def is_left(pending: Pending) -> bool:
        of_table = known.get(pending.requested_time)
        return not pending.is_adopted if of_table is None else of_table.writer == WRITER

    return [pending for pending in history.pending_of(before) if is_left(pending)]


def _refuse_unknown(table: Table, before: StoredTable, known: Mapping[str, Instant]) -> None:
    """Raise ``CannotAdopt`` if Hudi's timeline has writes that the table does not have."""
    unknown = [instant.paths[-1] for instant in before.instants if _is_unknown(instant, known)]
    if unknown:
        raise CannotAdopt(
            [
                f"a writer of Hudi, which the guard does not stop because it was running before, has written "
                f"{unknown[0]} after {table.name} was adopted, so {table.name} does not have it: stop that "
                "writer. If nothing was written through Chronolake since, drop the table (chronolake tables "
                "drop), take the lines hoodie.table.keygenerator.class and chronolake.table-id out of "
                "hoodie.properties, and adopt it again with --reuse-base-path; else copy the rows of that "
                "instant into the table, and remove its files"
            ]
        )


def _is_unknown(instant: StoredInstant, known: Mapping[str, Instant]) -> bool:
    if instant.action not in _WRITES or instant.is_schema_only:
        return False
    of_table = known.get(instant.requested_time)
    return of_table is None or (instant.state is State.COMPLETED and of_table.state is not State.COMPLETED)


def _roll_back(table: Table, pending: Iterable[Pending]) -> list[str]:
    """Undo what was pending, by the ordinary rollback, and then take it off Hudi's timeline."""
    undone = []
    for instant in pending:
        if instant.is_adopted:
            is_rolled_back = table.instant(instant.requested_time).state is State.ROLLED_BACK
            if not is_rolled_back:
                for at in range(0, len(instant.markers), _MARKERS_AT_ONCE):
                    part = instant.markers[at : at + _MARKERS_AT_ONCE]
                    table.create_markers(instant.requested_time, part, writer=WRITER)
                table.rollback(instant.requested_time, _REASON, writer=WRITER, execute=True)
            table.finish_rollbacks()
            if is_rolled_back and instant.markers:
                _delete_unmarked(table, instant.requested_time)
        undone.append(instant.requested_time)
        # The inflight file first: a requested instant alone has no files.
        table.remove_undone_of_hudi(sorted(instant.paths))
    return undone


def _delete_unmarked(table: Table, requested_time: str) -> None:
    """Delete the files of an instant that a server has rolled back, after its lease, before it had markers."""
    report = table.orphans()
    left = [orphan for orphan in report.orphans if orphan.requested_time == requested_time]
    table.delete_orphans(msgspec.structs.replace(report, orphans=left))


def _publish(table: Table) -> None:
    """Publish the table to its end, unless a server is at it: of version 6, the whole timeline."""
    try:
        table.publish()
    except (errors.LeaseLive, errors.NotPublished, errors.PublicationFenced):
        # chronolake hudi status says why.
        return


def _result(
    table: StoredTable, adoption: PlannedAdoption, adopted: Table | None, rolled_back: list[str]
) -> Adopted:
    request = adoption.request
    return Adopted(
        table=request.definition.name,
        base_path=request.definition.base_path,
        table_id=None if adopted is None else adopted.definition.table_id,
        table_version=table.config.version.value,
        instants=len(request.instants),
        files=sum(len(instant.write_stats) for instant in request.instants),
        cleaned_before=request.cleaned_before,
        rolled_back=rolled_back,
        notes=adoption.notes,
    )


def _result_of_repeat(adopted: Table, table: StoredTable, rolled_back: list[str]) -> Adopted:
    definition = adopted.definition
    return Adopted(
        table=definition.name,
        base_path=definition.base_path,
        table_id=definition.table_id,
        table_version=table.config.version.value,
        instants=sum(1 for _ in adopted.instants()),
        files=len(table.data_files),
        cleaned_before=definition.cleaned_before,
        rolled_back=rolled_back,
        notes=[
            "the table was adopted before; this run has finished what was left to do. Its log says, in "
            "TableAdopted, which archived instants of Hudi did not come in"
        ],
    )
