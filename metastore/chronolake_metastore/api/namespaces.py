"""/v1/namespaces"""

from __future__ import annotations

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from chronolake_metastore.api import parameters, problems
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import Cursor, Limit
from chronolake_metastore.domain import namespaces
from chronolake_metastore.queries import namespaces as queries
from chronolake_model.problems import ProblemCode
from chronolake_model.tables import CreateNamespace, Namespace, NamespacePage

TAGS = ["Namespaces"]


@post(
    "/namespaces",
    summary="Create a namespace",
    tags=TAGS,
    responses=problems.of_command(ProblemCode.NAMESPACE_EXISTS),
)
async def create_namespace(
    data: JSONBody[CreateNamespace], keyed_caller: NamedDependency[Caller]
) -> Response[Namespace]:
    """Create a namespace."""
    return await keyed_caller.execute(namespaces.CreateNamespace(data))


@get(
    "/namespaces",
    summary="List namespaces",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.INVALID_CURSOR),
)
async def list_namespaces(
    caller: NamedDependency[Caller],
    limit: Limit = parameters.PAGE_DEFAULT,
    cursor: Cursor = None,
) -> NamespacePage:
    """Namespaces in the order of their names, page by page."""
    return await caller.read(queries.page, limit, cursor)


@get(
    "/namespaces/{namespace:str}",
    summary="Get a namespace",
    tags=TAGS,
    responses=problems.of_query(ProblemCode.NAMESPACE_NOT_FOUND),
)
async def get_namespace(namespace: FromPath[str], caller: NamedDependency[Caller]) -> Namespace:
    """One namespace."""
    return await caller.read(queries.get, parameters.namespace(namespace))


@delete(
    "/namespaces/{namespace:str}",
    summary="Drop a namespace",
    tags=TAGS,
    responses=problems.of_command(ProblemCode.NAMESPACE_NOT_FOUND, ProblemCode.NAMESPACE_NOT_EMPTY),
)
async def drop_namespace(namespace: FromPath[str], keyed_caller: NamedDependency[Caller]) -> Response[None]:
    """Drop a namespace that has no tables."""
    return await keyed_caller.execute(namespaces.DropNamespace(parameters.namespace(namespace)))
