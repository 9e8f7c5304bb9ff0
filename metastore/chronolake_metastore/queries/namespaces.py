"""Reading namespaces."""

from __future__ import annotations

from chronolake_metastore import errors
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.namespaces import Namespace
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.queries import cursors, paging
from chronolake_metastore.store import catalog
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import tables as wire
from chronolake_model.times import to_datetime


async def get(ctx: Context, database: Database, name: str) -> wire.Namespace:
    """One namespace; raises ``NamespaceNotFound``."""
    async with database.reading() as connection:
        namespace = await catalog.get_namespace(connection, name)
    if namespace is None:
        raise errors.NamespaceNotFound(name)
    return document(namespace)


async def page(ctx: Context, database: Database, limit: int, cursor: str | None) -> wire.NamespacePage:
    """Namespaces in the order of their names; raises ``InvalidCursor``."""
    after = "" if cursor is None else cursors.decode(cursor, str)
    readable = readable_by(ctx.rights)
    async with database.reading() as connection:

        async def fetch(last: Namespace | None, number: int) -> list[Namespace]:
            previous = after if last is None else last.name
            return await catalog.page_of_namespaces(connection, previous, number, readable)

        def size_of(namespace: Namespace) -> int:
            return paging.json_bytes(document(namespace))

        namespaces_of_page, is_cut = await paging.collect(
            fetch, size_of, limit, database.page_bytes_max, paging.LARGE_ROWS_AT_ONCE
        )
    next_cursor = cursors.encode(namespaces_of_page[-1].name) if is_cut else None
    return wire.NamespacePage([document(namespace) for namespace in namespaces_of_page], next_cursor)


def document(namespace: Namespace) -> wire.Namespace:
    """The namespace as the REST API shows it."""
    return wire.Namespace(namespace.name, namespace.properties, to_datetime(namespace.created_at))
