"""The claim of a base path: an object that records the table and the metastore that own the folder.

The first client or server that accesses a table's storage creates it by a conditional put, so of two
metastores exactly one gets the folder. It is read before each batch of deletions. It lies beside
``hoodie.properties``, and Hudi's readers ignore it, because it is not an instant.

It also records the head of the table's log, outside of the database: a database that lacks this event is an
earlier state of the one that recorded it (docs/decisions/0069-copies.md).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from chronolake_model import decoding
from chronolake_model.deletable import LogHead
from chronolake_storage.errors import ClaimRefused, LinkRefused, LogBehind
from chronolake_storage.files import METADATA_FOLDER, Content, Files
from chronolake_storage.local import LocalFiles
from chronolake_storage.overlaps import TablePlace, find_overlapping, is_spelled_above

PATH: Final = f"{METADATA_FOLDER}/.chronolake-claim.json"
"""The path of the claim, relative to the base path."""
FORMAT_VERSION: Final = 1
TRIES_MAX: Final = 8
"""A claim that changes between reading and replacing is read again; this is the most tries."""


_RENEW: Final = (
    "If that table no longer exists, or the database was moved or restored, an operator must renew the claim: "
    "chronolake-metastore claim --table {0}"
)
_FORCE: Final = (
    "If that table no longer exists, take its claim: chronolake-metastore claim --table {0} --force. If that "
    "table still uses the folder, do not: it could not write or delete files there any more, and its files "
    "would be orphans of this table, which may be deleted"
)


class Owner(msgspec.Struct, frozen=True):
    """A table of a metastore.

    ``took_over`` has the ids of the dropped tables whose base paths it took over: it may replace only their
    claims. The ids are known only to callers that have read the table from the metastore.
    """

    metastore_id: str
    table_id: str
    table: str
    took_over: Sequence[str] = ()


class LogState(msgspec.Struct, frozen=True):
    """The head of a table's log now, and whether the log has the event that a claim records."""

    head: LogHead
    has_recorded: bool


class Log(Protocol):
    """The log of a table. It is called in the thread that deletes or publishes."""

    def state(self, recorded: LogHead | None) -> LogState:
        """Read the head, and look for ``recorded``, which counts as found if it is None."""


class Claim(msgspec.Struct, frozen=True):
    """The content of the claim object."""

    format_version: int
    metastore_id: str
    table_id: str
    table: str
    claimed_at: str
    """ISO 8601, by the clock of the process that created it; only for messages."""
    earlier_ids: list[str] = []
    """Earlier ids of the metastore: its former database, where it still runs, finds itself here."""
    log_head: LogHead | None = None
    """The head of the table's log when a server last published or deleted files; None before the first time."""


class Renewal(enum.StrEnum):
    """The outcome of the renewal of a claim, or of its dry run."""

    KEPT = "kept"
    """The claim was valid already."""
    CLAIMED = "claimed"
    """There was no claim."""
    RENEWED = "renewed"
    """The claim was of this metastore: under an earlier identity, or of a dropped table."""
    FORCED = "forced"
    """The claim was of another metastore or table, or unreadable, and was replaced by force."""


def ensure_claim(
    files: Files,
    owner: Owner,
    present: Callable[[], Owner | None],
    tables: Callable[[], Iterable[TablePlace]],
    log: Log | None = None,
) -> LogHead | None:
    """Make sure that ``owner`` has the claim of the base path: create it if there is none.

    ``present`` reads the table from the metastore, and is called only if another table has the claim.
    ``tables`` reads the tables of the metastore, see ``guard.Metastore``, and is called only if a folder on a
    local disk has no claim. No claim is created in a folder that now overlaps that of another table, nor below
    a folder that another table has claimed, see ``refuse_claim_above``.

    The claim of a dropped table is replaced if ``owner`` took over its base path in the metastore. No other
    claim is replaced: two live tables of one metastore may share a folder that has two names. Files in a folder
    without a claim do not matter: they are older than claims.

    With a ``log``, its head is recorded in the claim. Of two copies of a database that have diverged, only the
    one that records its head first goes on. Returns the event that the claim records, if there is one.

    Raises ``LogBehind`` when the log lacks the event that the claim records; ``ClaimRefused`` when another
    table has the claim, the folder overlaps that of another table, or the claim cannot be read;
    ``StorageError``.
    """
    for _ in range(TRIES_MAX):
        stored = files.read(PATH)
        if stored is None:
            refuse_overlap(files, owner, tables)
            refuse_claim_above(files, owner)
            if files.create(PATH, _document(owner)) and log is None:
                return None
            continue
        claim = _decoded(files, stored)
        if not _is_of(claim, owner):
            now = _present_owner(files, owner, claim, present)
            if not _is_of(claim, now):
                if files.replace(PATH, _document(now), stored.tag) and log is None:
                    return None
                continue
        if log is None:
            return claim.log_head
        head = _record_head(files, stored, claim, log)
        if head is not None:
            return head
    raise ClaimRefused(f"{files.base_path}: its claim changes again and again; try again later")


def _present_owner(files: Files, owner: Owner, claim: Claim, present: Callable[[], Owner | None]) -> Owner:
    """The table as it is in the metastore now, if the claim is its own, or it may take it; else raises."""
    now = present()
    if now is None or now.table_id != owner.table_id or now.metastore_id != claim.metastore_id:
        raise _refused(files, owner, claim, _RENEW)
    if claim.table_id not in (now.table_id, *now.took_over):
        raise _refused(files, owner, claim, _RENEW)
    return now


def _record_head(files: Files, stored: Content, claim: Claim, log: Log) -> LogHead | None:
    """Record the head of the log, and return it; None if the claim was changed meanwhile."""
    recorded = claim.log_head
    state = log.state(recorded)
    if not state.has_recorded:
        assert recorded is not None, "a log has each event of none"
        raise LogBehind(
            f"{files.base_path}: the claim records the event {recorded.version} of the table {claim.table}, "
            "and the log lacks it, so the database is an earlier state of the metastore: nothing is deleted or "
            "written here. If the metastore is to go on with this database, run chronolake-metastore claim"
        )
    if recorded == state.head:
        return recorded
    replacement = msgspec.structs.replace(claim, log_head=state.head)
    return state.head if files.replace(PATH, _encoded(replacement), stored.tag) else None


def find(files: Files) -> Claim | None:
    """The claim of the base path; None if there is none, or it cannot be read."""
    stored = files.read(PATH)
    if stored is None:
        return None
    try:
        return _decoded(files, stored)
    except ClaimRefused:
        return None


def foreign(files: Files, metastore_id: str) -> Claim | None:
    """The claim of another metastore; None for one of this metastore, for none, and for an unreadable one."""
    claim = find(files)
    return None if claim is None or claim.metastore_id == metastore_id else claim


def refuse_taken(files: Files, owner: Owner, tables: Callable[[], Iterable[TablePlace]]) -> None:
    """Raise ``ClaimRefused`` where ``ensure_claim`` would, for a table that does not exist yet; change nothing.

    ``owner`` has an empty ``table_id``. Its ``took_over`` are the dropped tables whose base paths the table
    would take over: their claims do not matter. ``tables`` is as for ``ensure_claim``.
    """
    stored = files.read(PATH)
    if stored is None:
        refuse_overlap(files, owner, tables)
        refuse_claim_above(files, owner)
        return
    claim = _decoded(files, stored)
    if claim.metastore_id != owner.metastore_id or claim.table_id not in owner.took_over:
        raise ClaimRefused(
            f"{files.base_path} is claimed by the table {claim.table} ({claim.table_id}) of the metastore "
            f"{claim.metastore_id} since {claim.claimed_at}, and this metastore is {owner.metastore_id}. If "
            f"that table no longer exists, remove the claim {PATH}. If it still uses the folder, do not: two "
            "tables would delete each other's files"
        )


def claimed_folders(files: Files, folders: Sequence[str]) -> set[str]:
    """The folders below the base path that have a claim of their own: other tables lie in them."""
    paths = [f"{folder}/{PATH}" for folder in folders]
    try:
        sizes = list(files.sizes(paths))
    except LinkRefused:
        sizes = [_size_unless_linked(files, path) for path in paths]
    return {folder for folder, size in zip(folders, sizes, strict=True) if size is not None}


def _size_unless_linked(files: Files, path: str) -> int | None:
    try:
        return next(files.sizes([path]))
    except LinkRefused:
        # Files that a link leads to are never deleted, so a claim there does not matter.
        return None


def refuse_claim_above(files: Files, owner: Owner) -> None:
    """Raise ``ClaimRefused`` when the base path lies in a folder that another table has claimed.

    Only a claim of the same metastore, above the base path as it is written, does not matter: it is that of a
    dropped table, because base paths of live tables do not overlap, and the metastore compares the files of
    both. It does not know that a link or a mount leads to a dropped table.
    """
    for path, body in files.read_above(PATH):
        try:
            claim = decoding.decode(body, Claim)
        except (msgspec.DecodeError, UnicodeDecodeError):
            claim = None
        if claim is None:
            problem = "cannot be read"
        elif claim.metastore_id != owner.metastore_id:
            problem = f"is of the table {claim.table} of another metastore"
        elif not _is_spelled(files, path.removesuffix(PATH)):
            problem = f"is of the table {claim.table}, to which a link or a mount leads"
        else:
            continue
        raise ClaimRefused(
            f"{files.base_path} of the table {owner.table} lies in a claimed folder, and the claim "
            f"{path} {problem}: nothing is deleted or written here. If that table no longer exists, remove "
            "its claim; otherwise create this table at another base path"
        )


def _is_spelled(files: Files, folder: str) -> bool:
    return not isinstance(files, LocalFiles) or is_spelled_above(folder, files.base_path)


def refuse_overlap(files: Files, owner: Owner, tables: Callable[[], Iterable[TablePlace]]) -> None:
    """Raise ``ClaimRefused`` when files in the folder may belong to another table of the metastore."""
    if not isinstance(files, LocalFiles):
        # Object stores have no links, so base paths that did not overlap at creation never do.
        return
    own_ids = {owner.table_id, *owner.took_over}
    other = find_overlapping(files.base_path, (table for table in tables() if table.table_id not in own_ids))
    if other is not None:
        kind, advice = ("dropped ", "") if other.is_dropped else ("", ", or drop one of the tables")
        raise ClaimRefused(
            f"{files.base_path} of the table {owner.table} overlaps {other.base_path} of the {kind}table "
            f"{other.table}: a link or a mount leads from one folder to the other, so nothing is deleted or "
            f"written here; remove the link or the mount{advice}"
        )


def _is_of(claim: Claim, owner: Owner) -> bool:
    return (claim.metastore_id, claim.table_id) == (owner.metastore_id, owner.table_id)


def renew(
    files: Files,
    owner: Owner,
    earlier_ids: Collection[str],
    tables: Collection[TablePlace],
    *,
    force: bool = False,
    dry_run: bool = False,
) -> Renewal:
    """Renew the claim of ``owner``, at the command of an operator.

    ``earlier_ids`` are the earlier ids of the metastore, ``tables`` its tables as for ``ensure_claim``. Raises
    ``ClaimRefused`` for the claim of another metastore or table, unless ``force``; for that of another table of
    this metastore also with ``force``, and where ``ensure_claim`` would not create a first claim.
    """
    for _ in range(TRIES_MAX):
        stored = files.read(PATH)
        if stored is None:
            refuse_overlap(files, owner, lambda: tables)
            refuse_claim_above(files, owner)
        if stored is not None:
            _refuse_claim_of_other(files, owner, stored, earlier_ids, tables)
        outcome = Renewal.CLAIMED if stored is None else _renewal_of(files, owner, stored, earlier_ids, force)
        succeeded = [*earlier_ids, *_copy_in(files, stored, [owner.metastore_id, *earlier_ids])]
        if dry_run or outcome is Renewal.KEPT or _write(files, owner, stored, succeeded):
            return outcome
    raise ClaimRefused(f"{files.base_path}: its claim changes again and again; try again later")


def _refuse_claim_of_other(
    files: Files, owner: Owner, stored: Content, earlier_ids: Collection[str], tables: Collection[TablePlace]
) -> None:
    """Raise ``ClaimRefused`` for the claim of another table of this metastore, which may have files here.

    A live table keeps its claim, and so does a dropped one whose base path ``owner`` did not take over: the
    metastore would not protect their files if a link or a mount leads to them.
    """
    try:
        claim = _decoded(files, stored)
    except ClaimRefused:
        return
    is_own = claim.metastore_id in (owner.metastore_id, *earlier_ids)
    is_known = claim.table_id in {table.table_id for table in tables}
    if is_own and is_known and claim.table_id not in (owner.table_id, *owner.took_over):
        raise ClaimRefused(
            f"{files.base_path} is claimed by the table {claim.table} ({claim.table_id}) of this metastore: "
            f"its files are protected, also from --force. Create {owner.table} at another base path"
        )


def _copy_in(files: Files, stored: Content | None, own_ids: Collection[str]) -> list[str]:
    """The id of the metastore in a claim, if it has continued this one as a copy; empty if not."""
    try:
        claim = None if stored is None else _decoded(files, stored)
    except ClaimRefused:
        return []
    is_copy = claim is not None and not {*claim.earlier_ids}.isdisjoint(own_ids)
    return [claim.metastore_id] if claim is not None and is_copy and claim.metastore_id not in own_ids else []


def _write(files: Files, owner: Owner, stored: Content | None, earlier_ids: Collection[str]) -> bool:
    if stored is None:
        return files.create(PATH, _document(owner, earlier_ids))
    return files.replace(PATH, _document(owner, earlier_ids), stored.tag)


def _renewal_of(
    files: Files, owner: Owner, stored: Content, earlier_ids: Collection[str], force: bool
) -> Renewal:
    try:
        claim = _decoded(files, stored)
    except ClaimRefused:
        if force:
            return Renewal.FORCED
        raise
    if _is_of(claim, owner):
        return Renewal.KEPT
    is_own = claim.metastore_id in (owner.metastore_id, *earlier_ids)
    if is_own and claim.table_id in (owner.table_id, *owner.took_over):
        return Renewal.RENEWED
    if force:
        return Renewal.FORCED
    raise _refused(files, owner, claim, _FORCE)


def _document(owner: Owner, earlier_ids: Collection[str] = ()) -> bytes:
    claim = Claim(
        FORMAT_VERSION,
        owner.metastore_id,
        owner.table_id,
        owner.table,
        datetime.now(UTC).isoformat(timespec="seconds"),
        list(earlier_ids),
    )
    return _encoded(claim)


def _encoded(claim: Claim) -> bytes:
    return msgspec.json.format(msgspec.json.encode(claim), indent=2) + b"\n"


def _decoded(files: Files, stored: Content) -> Claim:
    try:
        claim = decoding.decode(stored.body, Claim)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ClaimRefused(
            f"the claim {files.base_path}/{PATH} cannot be read ({exc}): nothing is deleted or written here. "
            "If this table owns the folder, write it again: chronolake-metastore claim --table TABLE --force"
        ) from exc
    if claim.format_version != FORMAT_VERSION:
        raise ClaimRefused(
            f"the claim {files.base_path}/{PATH} has the format {claim.format_version}, but this release "
            f"supports only {FORMAT_VERSION}: use the release that wrote it, or a newer one"
        )
    return claim


def _refused(files: Files, owner: Owner, claim: Claim, advice: str) -> ClaimRefused:
    return ClaimRefused(
        f"{files.base_path} is claimed by the table {claim.table} ({claim.table_id}) of the metastore "
        f"{claim.metastore_id} since {claim.claimed_at}, and not by {owner.table} ({owner.table_id}) of the "
        f"metastore {owner.metastore_id}: nothing is deleted or written here. {advice.format(owner.table)}"
    )
