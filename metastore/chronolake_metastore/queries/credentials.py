"""Credentials for a table's storage. There is a function for each access, because each needs another right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from chronolake_metastore import errors, telemetry
from chronolake_metastore.domain import locations as allowed_locations, session_policies
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.rights import Rights
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.queries import tables
from chronolake_metastore.store import locations
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.vending import StorageRole, Vendor
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.names import split_table_name
from chronolake_model.roles import RIGHTS, Right
from chronolake_model.storage import options_of
from chronolake_model.times import from_datetime

_SESSION_CHARS_MAX: Final = 64
_NO_SESSION_CHAR: Final = re.compile(r"[^A-Za-z0-9_+,.@=-]")

_log = telemetry.logger(__name__)


async def for_reading(ctx: Context, database: Database, name: str, vendor: Vendor) -> TableCredentials:
    """Credentials to read the files of a table; raises as ``Vendor.keys``, and ``LocationNotAllowed``."""
    return await _vend(ctx, database, name, vendor, StorageAccess.READ)


async def for_writing(ctx: Context, database: Database, name: str, vendor: Vendor) -> TableCredentials:
    """As ``for_reading``, also to write files; raises ``MetastoreMoved``, too."""
    vendor.refuse()
    return await _vend(ctx, database, name, vendor, StorageAccess.WRITE)


async def for_maintenance(ctx: Context, database: Database, name: str, vendor: Vendor) -> TableCredentials:
    """As ``for_writing``, also to delete files."""
    vendor.refuse()
    return await _vend(ctx, database, name, vendor, StorageAccess.MAINTAIN)


BY_ACCESS: Final = {
    StorageAccess.READ: for_reading,
    StorageAccess.WRITE: for_writing,
    StorageAccess.MAINTAIN: for_maintenance,
}


async def _vend(
    ctx: Context, database: Database, name: str, vendor: Vendor, access: StorageAccess
) -> TableCredentials:
    namespace, _ = split_table_name(name)
    async with database.reading() as connection:
        table = await tables.find(ctx, connection, name)
        allowed = await locations.allowed(database, connection, namespace)
    _refuse_other_table(ctx.rights, table, access)
    base_path = table.definition.base_path
    location = session_policies.location_of(base_path)
    # As of now: the list may have changed since the table was created.
    allowed.refuse_outside(base_path, allowed_locations.address_of(base_path, None))
    role = vendor.role_of(location.key)
    _refuse_other_endpoint(table.definition.properties, role)
    policy = session_policies.policy_of(location, access, role.partition)
    session = session_name(ctx.subject)
    keys = await vendor.keys(role, session, policy)
    vendor.record(ctx, table, access, from_datetime(keys.expires_at))
    _log.info(
        "credentials",
        table=table.name,
        access=access,
        subject=ctx.subject.name,
        session=session,
        expires_at=keys.expires_at.isoformat(),
        request_id=ctx.request_id,
    )
    return TableCredentials(
        table_id=str(table.table_id),
        location=location.key,
        access=access,
        access_key=keys.access_key,
        secret_key=keys.secret_key,
        session_token=keys.session_token,
        expires_at=keys.expires_at,
        seconds_left=keys.seconds_left,
        region=role.region,
        endpoint_override=role.endpoint_override,
    )


def session_name(subject: Subject) -> str:
    """The name of the session of a subject, which the logs of the storage have; each subject has its own."""
    name = subject.name.replace(":", "=")
    if len(name) <= _SESSION_CHARS_MAX and "=" not in subject.name and not _NO_SESSION_CHAR.search(name):
        return name
    digest = hashlib.sha256(subject.name.encode()).hexdigest()[:16]
    return f"{_NO_SESSION_CHAR.sub('-', name)[: _SESSION_CHARS_MAX - len(digest) - 1]}-{digest}"


def _refuse_other_table(rights: Rights, table: Table, access: StorageAccess) -> None:
    """Raise ``TableNotFound`` unless the caller's role is on this table by its id, or on names such as its own.

    The name may belong to another table since the rights were read, and keys are valid for long.
    """
    if not rights.is_unlimited and not any(
        Right(access) in RIGHTS[held.role]
        and (held.table_id == table.table_id if held.prefix is None else table.name.startswith(held.prefix))
        for held in rights.held
    ):
        raise errors.TableNotFound(table.name)


def _refuse_other_endpoint(properties: Mapping[str, str], role: StorageRole) -> None:
    """Raise ``CredentialsNotVended`` if a property of the table leads clients to another store.

    It would get the session's token, and the keys would be of no use there.
    """
    stated = options_of(properties).get("endpoint_override", "").rstrip("/")
    if stated and stated != (role.endpoint_override or "").rstrip("/"):
        raise errors.CredentialsNotVended(
            f"the table's property storage.endpoint_override is {stated[:200]!r}, and the credentials of this "
            "server are for another store; unset the property, or use credentials of your own"
        )
