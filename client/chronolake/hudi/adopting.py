"""Adopts a Hudi table: checks it, brings its history in, and takes its folder over.

Nothing is changed before the metastore has the table. From then on each step can be repeated: a second run
continues where the first one ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import msgspec

from chronolake import _base_paths, errors
from chronolake._sync.client import Client
from chronolake._sync.table import Table
from chronolake.hudi import folder, history, logs, requirements, samples, stored
from chronolake.hudi.definitions import CannotAdopt, Options
from chronolake.hudi.history import WRITER, Adoption, Pending
from chronolake.hudi.stored import StoredTable
from chronolake.storage import open_filesystem, storage_failures
from chronolake_hudi import java_properties, properties
from chronolake_hudi.errors import HudiFormatError
from chronolake_hudi.timeline_files import Layout
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.storage import options_of
from chronolake_model.vocabulary import State
from chronolake_storage import claims, opening
from chronolake_storage.claims import Owner
from chronolake_storage.errors import ClaimRefused, FolderMissing
from chronolake_storage.files import Content, Files
from chronolake_storage.overlaps import TablePlace

_REASON = "it was pending when the table was adopted from Hudi"
_MARKERS_AT_ONCE = 10_000


class Adopted(msgspec.Struct, frozen=True):
    """What was adopted, or would be. ``instants`` are those that come in, the pending ones among them.

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
    client: Client, options: Options, *, dry_run: bool = False, storage_options: Mapping[str, str] | None = None
) -> Adopted:
    """Adopt a table, or with ``dry_run`` only check all that can be checked.

    Raises ``CannotAdopt`` and the errors of ``Client.adopt_table`` before anything is changed, and
    ``StorageFailed``.
    """
    options = msgspec.structs.replace(options, base_path=_base_paths.absolute(options.base_path))
    with storage_failures():
        files = opening.open_files(options.base_path, options_of(options.properties, storage_options))
        try:
            files.check()
        except FolderMissing as exc:
            reason = "this machine sees no such folder: give the folder of the Hudi table"
            raise CannotAdopt([reason]) from exc
    existing = None if dry_run else _begun_before(client, options)
    table = _read(files, options, storage_options)
    if existing is None:
        adoption = _check(client, files, table, options)
        if dry_run:
            return _result(table, adoption, None, [])
        answer = client.adopt_table(adoption.request)
        existing = client.table_of(answer.table)
        _take_folder(client, existing, files, table)
        pending: Sequence[Pending] = adoption.pending
    else:
        _take_folder(client, existing, files, table)
        adoption = None
        pending = history.pending_of(table)
    rolled_back = _roll_back(existing, pending)
    if table.layout is Layout.ONE:
        _publish(existing)
    if adoption is None:
        return _result_of_repeat(existing, table, rolled_back)
    return _result(table, adoption, existing, rolled_back)


def _begun_before(client: Client, options: Options) -> Table | None:
    """The table, if an earlier run has adopted it from this folder."""
    try:
        table = client.table(options.name)
    except (errors.TableNotFound, errors.NamespaceNotFound):
        return None
    is_same = table.definition.base_path == options.base_path
    return table if is_same and ADOPTED_PROPERTY in table.definition.properties else None


def _read(files: Files, options: Options, storage_options: Mapping[str, str] | None) -> StoredTable:
    try:
        with storage_failures():
            table = stored.read(files)
            filesystem, root = open_filesystem(
                options.base_path, options_of(options.properties, storage_options)
            )
            table = logs.with_facts(stored.with_records(table, filesystem, root), filesystem, root)
            return samples.compared(table, requirements.stated_schema(table), filesystem, root)
    except HudiFormatError as exc:
        raise CannotAdopt([str(exc)]) from exc


def _check(client: Client, files: Files, table: StoredTable, options: Options) -> Adoption:
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


def _take_folder(client: Client, table: Table, files: Files, before: StoredTable) -> None:
    """Claim the folder and guard the table; if Hudi has written meanwhile, give it back as it was."""
    table.claim_storage()
    with storage_failures():
        content = files.read(properties.PATH, stored.PROPERTIES_BYTES_MAX)
        # A publisher of a server may have been faster.
        if not _is_guarded(content, table) and (
            content is None
            or content.tag != before.tag
            or not files.replace(
                properties.PATH, folder.guarded(before, table.definition.table_id), content.tag
            )
        ):
            _give_back(client, table, "hoodie.properties has changed")
        # A writer that began before the guard was there.
        listed = {path for instant in before.instants for path in instant.paths}
        later = sorted(set(stored.timeline_paths(files, before.layout)) ^ listed)
        if later:
            present = files.read(properties.PATH, stored.PROPERTIES_BYTES_MAX)
            if present is not None:
                files.replace(properties.PATH, before.text, present.tag)
            _give_back(client, table, f"the timeline has changed: {later[0]}")


def _is_guarded(content: Content | None, table: Table) -> bool:
    if content is None:
        return False
    stated = java_properties.decode(content.body, properties.PATH)
    return stated.get(properties.TABLE_ID_KEY) == table.definition.table_id


def _give_back(client: Client, table: Table, why: str) -> NoReturn:
    client.drop_table(table.name)
    raise CannotAdopt(
        [
            f"Hudi has written to the table while it was adopted ({why}); it is as Hudi left it, and "
            f"{table.name} is dropped: stop the writers, and adopt it again with --reuse-base-path"
        ]
    )


def _roll_back(table: Table, pending: Iterable[Pending]) -> list[str]:
    """Undo what was pending, by the ordinary rollback, and then take it off Hudi's timeline."""
    undone = []
    for instant in pending:
        if instant.is_adopted:
            if table.instant(instant.requested_time).state is not State.ROLLED_BACK:
                for at in range(0, len(instant.markers), _MARKERS_AT_ONCE):
                    part = instant.markers[at : at + _MARKERS_AT_ONCE]
                    table.create_markers(instant.requested_time, part, writer=WRITER)
                table.rollback(instant.requested_time, _REASON, writer=WRITER, execute=True)
            table.finish_rollbacks()
        undone.append(instant.requested_time)
        # The inflight file first: a requested instant alone has no files.
        table.remove_undone_of_hudi(sorted(instant.paths))
    return undone


def _publish(table: Table) -> None:
    """Write the timeline anew, in the layout of version 8, unless a server is at it."""
    try:
        table.publish()
    except (errors.LeaseLive, errors.NotPublished, errors.PublicationFenced):
        # chronolake hudi status says why.
        return


def _result(table: StoredTable, adoption: Adoption, adopted: Table | None, rolled_back: list[str]) -> Adopted:
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
        notes=["the table was adopted before; this run has finished what was left to do"],
    )
