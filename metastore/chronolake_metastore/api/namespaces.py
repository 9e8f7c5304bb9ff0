"""/v1/namespaces"""

from __future__ import annotations

from litestar import Response
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from chronolake_metastore.api import parameters
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit
from chronolake_metastore.api.routes import route
from chronolake_metastore.domain import namespaces
from chronolake_metastore.queries import namespaces as queries
from chronolake_model import operations
from chronolake_model.tables import CreateNamespace, Namespace, NamespacePage


@route(operations.catalog.CREATE_NAMESPACE)
async def create_namespace(
    data: JSONBody[CreateNamespace], keyed_caller: NamedDependency[Caller]
) -> Response[Namespace]:
    """Create a namespace."""
    return await keyed_caller.execute(namespaces.CreateNamespace(**asdict(data)))


@route(operations.catalog.LIST_NAMESPACES)
async def list_namespaces(
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> NamespacePage:
    """Namespaces in the order of their names, page by page."""
    return await caller.read(queries.page, limit, cursor)


@route(operations.catalog.GET_NAMESPACE)
async def get_namespace(namespace: FromPath[str], caller: NamedDependency[Caller]) -> Namespace:
    """One namespace."""
    return await caller.read(queries.get, parameters.namespace(namespace))


@route(operations.catalog.DROP_NAMESPACE)
async def drop_namespace(namespace: FromPath[str], keyed_caller: NamedDependency[Caller]) -> Response[None]:
    """Drop a namespace that has no tables."""
    return await keyed_caller.execute(namespaces.DropNamespace(parameters.namespace(namespace)))
