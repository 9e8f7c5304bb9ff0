"""The claim of a base path: one object that says which table of which metastore the folder belongs to.

The first one to touch the storage of a table makes it by a conditional put, so of two metastores exactly one
gets the folder. It is read before each batch of deletions. Hudi's readers pass over it: it is no instant, and
lies beside ``hoodie.properties``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from chronolake_storage.errors import ClaimRefused, LinkRefused
from chronolake_storage.files import METADATA_FOLDER, Content, Files
from chronolake_storage.local import LocalFiles
from chronolake_storage.overlaps import TablePlace, find_overlapping

PATH: Final = f"{METADATA_FOLDER}/.chronolake-claim.json"
"""Below the base path."""
FORMAT_VERSION: Final = 1
TRIES_MAX: Final = 3
"""A claim that changes between reading and replacing is read again, at most this often."""


_RENEW: Final = (
    "If the other one is gone for good, or the database was moved or restored, an operator renews the claim: "
    "chronolake-metastore claim --table {0}"
)
_FORCE: Final = (
    "If the other one is gone for good, take its claim: chronolake-metastore claim --table {0} --force. If the "
    "other one still uses the folder, do not: it could write and delete nothing there any more, and its files "
    "would be orphans of this table, which may be deleted"
)


class Owner(msgspec.Struct, frozen=True):
    """A table of a metastore.

    ``took_over`` are the ids of the dropped tables whose base paths it took over; only their claims may become
    its own. Who asks the metastore for the table as it is now gets them.
    """

    metastore_id: str
    table_id: str
    table: str
    took_over: Sequence[str] = ()


class Claim(msgspec.Struct, frozen=True):
    """What the object says."""

    format_version: int
    metastore_id: str
    table_id: str
    table: str
    claimed_at: str
    """ISO 8601, by the clock of the process that made it; for people only."""


class Renewal(enum.StrEnum):
    """What the renewal of a claim did, or would do."""

    KEPT = "kept"
    """The claim was right already."""
    CLAIMED = "claimed"
    """There was none."""
    RENEWED = "renewed"
    """It was of this metastore: under an earlier identity, or of a dropped table."""
    FORCED = "forced"
    """It was of a stranger, or could not be read, and was replaced because the operator said so."""


def ensure_claim(
    files: Files, owner: Owner, present: Callable[[], Owner | None], tables: Callable[[], Iterable[TablePlace]]
) -> None:
    """Return when the base path is claimed by ``owner``, which claims it now if it was unclaimed.

    ``present`` asks the metastore for the table as it is now, and is called only when the claim is another's.
    ``tables`` asks it for all live tables, and is called only when there is no claim on a local disk: in a
    folder that overlaps another table's by now, no claim is made; nor in one that lies in a folder which a
    table of another metastore has claimed.
    The claim of a dropped table is taken over by the table that took over its base path, as the metastore says.
    No other claim is: two live tables of one metastore may share a folder that has two names, which their base
    paths do not show. Files without a claim are from a time before claims, and do not matter. Raises
    ``ClaimRefused`` when another table has the claim, the folder overlaps another table's, or the object cannot
    be understood; ``StorageError``.
    """
    for _ in range(TRIES_MAX):
        stored = files.read(PATH)
        if stored is None:
            refuse_overlap(files, owner, tables)
            refuse_claim_above(files, owner)
            if files.create(PATH, _document(owner)):
                return
            continue
        claim = _decoded(files, stored)
        if _is_of(claim, owner):
            return
        now = present()
        if now is None or now.table_id != owner.table_id or now.metastore_id != claim.metastore_id:
            raise _refused(files, owner, claim, _RENEW)
        if _is_of(claim, now):
            return
        if claim.table_id not in now.took_over:
            raise _refused(files, owner, claim, _RENEW)
        if files.replace(PATH, _document(now), stored.tag):
            return
    raise ClaimRefused(f"{files.base_path}: its claim changes again and again; try again later")


def claimed_folders(files: Files, folders: Sequence[str]) -> set[str]:
    """Those of the folders below the base path that have a claim of their own: tables lie in them."""
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
        # Nothing is deleted through a link.
        return None


def refuse_claim_above(files: Files, owner: Owner) -> None:
    """Raise ``ClaimRefused`` when the base path lies in a folder that a table of another metastore has claimed.

    A claim of the same metastore above is of a dropped table: base paths of live tables do not overlap.
    """
    for path, body in files.read_above(PATH):
        try:
            claim = msgspec.json.decode(body, type=Claim)
        except (msgspec.DecodeError, UnicodeDecodeError):
            claim = None
        if claim is None or claim.metastore_id != owner.metastore_id:
            whose = "cannot be read" if claim is None else f"is of the table {claim.table} of another metastore"
            raise ClaimRefused(
                f"{files.base_path} of the table {owner.table} lies in a folder that is claimed, and the claim "
                f"{path} {whose}: nothing is deleted or written here. If that table is gone for good, remove "
                "its claim; else create this table at another base path"
            )


def refuse_overlap(files: Files, owner: Owner, tables: Callable[[], Iterable[TablePlace]]) -> None:
    """Raise ``ClaimRefused`` when the files in the folder may be those of another table of the metastore."""
    if not isinstance(files, LocalFiles):
        # Object stores have no links: base paths that did not overlap at first never do.
        return
    other = find_overlapping(files.base_path, (table for table in tables() if table.table_id != owner.table_id))
    if other is not None:
        raise ClaimRefused(
            f"{files.base_path} of the table {owner.table} overlaps {other.base_path} of the table "
            f"{other.table}: a link or a mount leads both to one folder, so nothing is deleted or written "
            "here; remove the link or the mount, or drop one of the tables"
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
    """Make ``owner`` the one whose claim it is, for an operator; ``earlier_ids`` are the metastore's own of
    before, ``tables`` all of its live tables.

    Raises ``ClaimRefused`` for the claim of a stranger, unless ``force``, and where ``hold`` makes no first
    claim.
    """
    for _ in range(TRIES_MAX):
        stored = files.read(PATH)
        if stored is None:
            refuse_overlap(files, owner, lambda: tables)
            refuse_claim_above(files, owner)
        outcome = Renewal.CLAIMED if stored is None else _renewal_of(files, owner, stored, earlier_ids, force)
        if dry_run or outcome is Renewal.KEPT or _write(files, owner, stored):
            return outcome
    raise ClaimRefused(f"{files.base_path}: its claim changes again and again; try again later")


def _write(files: Files, owner: Owner, stored: Content | None) -> bool:
    if stored is None:
        return files.create(PATH, _document(owner))
    return files.replace(PATH, _document(owner), stored.tag)


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


def _document(owner: Owner) -> bytes:
    claim = Claim(
        FORMAT_VERSION,
        owner.metastore_id,
        owner.table_id,
        owner.table,
        datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return msgspec.json.format(msgspec.json.encode(claim), indent=2) + b"\n"


def _decoded(files: Files, stored: Content) -> Claim:
    try:
        claim = msgspec.json.decode(stored.body, type=Claim)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ClaimRefused(
            f"the claim {files.base_path}/{PATH} cannot be read ({exc}): nothing is deleted or written here. "
            "If this table owns the folder, write it again: chronolake-metastore claim --table TABLE --force"
        ) from exc
    if claim.format_version != FORMAT_VERSION:
        raise ClaimRefused(
            f"the claim {files.base_path}/{PATH} has the format {claim.format_version}, and this release knows "
            f"{FORMAT_VERSION}: use the release that wrote it, or a newer one"
        )
    return claim


def _refused(files: Files, owner: Owner, claim: Claim, advice: str) -> ClaimRefused:
    return ClaimRefused(
        f"{files.base_path} is claimed by the table {claim.table} ({claim.table_id}) of the metastore "
        f"{claim.metastore_id} since {claim.claimed_at}, and not by {owner.table} ({owner.table_id}) of the "
        f"metastore {owner.metastore_id}: nothing is deleted or written here. {advice.format(owner.table)}"
    )
