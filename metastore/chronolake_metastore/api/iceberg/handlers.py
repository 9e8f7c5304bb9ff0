"""The endpoints of Iceberg's REST specification that a reader needs; what would change a table is refused.

Spec: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, Router, get, head, post
from litestar.datastructures import State
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, QueryParameter

from chronolake_metastore import errors
from chronolake_metastore.api import callers
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.iceberg import refusals
from chronolake_metastore.iceberg.catalog import Catalog
from chronolake_metastore.queries import credentials, namespaces, tables
from chronolake_metastore.service.service import Service
from chronolake_metastore.vending import Vendor
from chronolake_model import decoding
from chronolake_model.names import NAME_PATTERN, split_table_name

PAGE_MAX: Final = 1_000
_VENDED: Final = "vended-credentials"
_NOT_STORED: Final = {"Cache-Control": "no-store"}
LISTED_MAX: Final = 100_000
"""The most entries of a list for a client that does not ask for pages."""
METRICS_BYTES_MAX: Final = 1024 * 1024
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)
_NAMESPACE: Final = "/v1/namespaces/{namespace:str}"
_TABLES: Final = f"{_NAMESPACE}/tables"
_TABLE: Final = f"{_TABLES}/{{table:str}}"
_ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
)

Parent = Annotated[str | None, QueryParameter(name="parent")]
Snapshots = Annotated[str, QueryParameter(name="snapshots")]
PageToken = Annotated[str | None, QueryParameter(name="pageToken")]
PageSize = Annotated[int | None, QueryParameter(name="pageSize", ge=1)]


@get("/v1/config", include_in_schema=False)
async def get_config() -> dict[str, Any]:
    """The endpoints; no client needs an option."""
    return {"defaults": {}, "overrides": {}, "endpoints": list(_ENDPOINTS)}


@get("/v1/namespaces", include_in_schema=False)
async def list_namespaces(
    caller: NamedDependency[Caller],
    parent: Parent = None,
    page_token: PageToken = None,
    page_size: PageSize = None,
) -> dict[str, Any]:
    """All namespaces; none is within another one."""
    if parent:
        await caller.read(namespaces.get, _namespace(parent))
        return {"namespaces": [], "next-page-token": None}

    async def page(limit: int, cursor: str | None) -> tuple[list[Any], str | None]:
        found = await caller.read(namespaces.page, limit, cursor)
        return [[namespace.name] for namespace in found.namespaces], found.next_cursor

    listed, token = await _listed(page, page_token, page_size)
    return {"namespaces": listed, "next-page-token": token}


@get(_NAMESPACE, include_in_schema=False)
async def get_namespace(namespace: FromPath[str], caller: NamedDependency[Caller]) -> dict[str, Any]:
    """A namespace with its properties."""
    found = await caller.read(namespaces.get, _namespace(namespace))
    return {"namespace": [found.name], "properties": found.properties}


@head(_NAMESPACE, include_in_schema=False, status_code=HTTPStatus.NO_CONTENT)
async def has_namespace(namespace: FromPath[str], caller: NamedDependency[Caller]) -> None:
    """Whether a namespace exists."""
    await caller.read(namespaces.get, _namespace(namespace))


@get(_TABLES, include_in_schema=False)
async def list_tables(
    namespace: FromPath[str],
    caller: NamedDependency[Caller],
    page_token: PageToken = None,
    page_size: PageSize = None,
) -> dict[str, Any]:
    """The tables of a namespace."""
    name = _namespace(namespace)

    async def page(limit: int, cursor: str | None) -> tuple[list[Any], str | None]:
        found = await caller.read(tables.page, name, limit, cursor)
        names = [table.name.partition(".")[2] for table in found.tables]
        return [{"namespace": [name], "name": table} for table in names], found.next_cursor

    listed, token = await _listed(page, page_token, page_size)
    return {"identifiers": listed, "next-page-token": token}


@get(_TABLE, include_in_schema=False)
async def load_table(
    request: Request[Any, Any, State],
    namespace: FromPath[str],
    table: FromPath[str],
    caller: NamedDependency[Caller],
    catalog: NamedDependency[Catalog],
    vendor: NamedDependency[Vendor],
    snapshots: Snapshots = "all",
) -> Response[Any]:
    """A table with its metadata, and with credentials if the client asks; 304 if the client has it already."""
    if snapshots not in ("all", "refs"):
        raise errors.InvalidParameter(f"snapshots is all or refs, not {snapshots!r}", parameter="snapshots")
    loaded = await catalog.load(caller.ctx, _table(namespace, table))
    answer = loaded.answer_of_refs if snapshots == "refs" else loaded.answer
    if _VENDED in request.headers.get("X-Iceberg-Access-Delegation", ""):
        found = await _credentials(caller, _table(namespace, table), vendor)
        if found:
            return Response(_with(answer, found), media_type="application/json", headers=_NOT_STORED)
    etag = f'"{loaded.digest}-{snapshots}"'
    wanted = [tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")]
    if etag in wanted:
        return Response(None, status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": etag})
    return Response(answer, media_type="application/json", headers={"ETag": etag})


@head(_TABLE, include_in_schema=False, status_code=HTTPStatus.NO_CONTENT)
async def has_table(namespace: FromPath[str], table: FromPath[str], caller: NamedDependency[Caller]) -> None:
    """Whether a table exists."""
    await caller.read(tables.get, _table(namespace, table))


@get(f"{_TABLE}/credentials", include_in_schema=False)
async def get_credentials(
    namespace: FromPath[str],
    table: FromPath[str],
    caller: NamedDependency[Caller],
    vendor: NamedDependency[Vendor],
) -> Response[dict[str, Any]]:
    """Credentials to read the files; none, if clients read the storage with their own."""
    found = await _credentials(caller, _table(namespace, table), vendor)
    return Response({"storage-credentials": found}, headers=_NOT_STORED)


@post(
    f"{_TABLE}/metrics",
    include_in_schema=False,
    status_code=HTTPStatus.NO_CONTENT,
    request_max_body_size=METRICS_BYTES_MAX,
)
async def report_metrics(
    request: Request[Any, Any, State],
    namespace: FromPath[str],
    table: FromPath[str],
    caller: NamedDependency[Caller],
) -> None:
    """A client's report of a scan, which nothing uses."""
    await request.body()
    await caller.read(tables.get, _table(namespace, table))


def router(service: Service, catalog: Catalog) -> Router:
    """The routes of the catalog."""
    return Router(
        refusals.PREFIX,
        route_handlers=[
            get_config,
            list_namespaces,
            get_namespace,
            has_namespace,
            list_tables,
            load_table,
            has_table,
            get_credentials,
            report_metrics,
        ],
        dependencies={
            "caller": callers.providers(service)["caller"],
            "catalog": Provide(lambda: catalog, sync_to_thread=False),
        },
    )


async def _credentials(caller: Caller, table: str, vendor: Vendor) -> list[dict[str, Any]]:
    """Credentials to read the files of a table; none if the server gives none."""
    try:
        keys = await caller.read(credentials.for_reading, table, vendor)
    except errors.CredentialsNotVended:
        return []
    config = {
        "s3.access-key-id": keys.access_key,
        "s3.secret-access-key": keys.secret_key,
        "s3.session-token": keys.session_token,
        "s3.session-token-expires-at-ms": str(int(keys.expires_at.timestamp() * 1000)),
        "client.region": keys.region,
    }
    if keys.endpoint_override is not None:
        config["s3.endpoint"] = keys.endpoint_override
    return [{"prefix": keys.location, "config": config}]


def _with(answer: bytes, found: list[dict[str, Any]]) -> bytes:
    """The answer with credentials: older clients find them in its ``config``."""
    document = decoding.decode(answer, dict[str, msgspec.Raw])
    config = msgspec.json.decode(document["config"]) | found[0]["config"]
    document["config"] = msgspec.Raw(msgspec.json.encode(config))
    document["storage-credentials"] = msgspec.Raw(msgspec.json.encode(found))
    return msgspec.json.encode(document)


async def _listed(
    page: Callable[[int, str | None], Awaitable[tuple[Sequence[Any], str | None]]],
    token: str | None,
    size: int | None,
) -> tuple[list[Any], str | None]:
    """One page for a client that asks for pages, else the whole list."""
    if token is not None:
        entries, cursor = await page(min(size or PAGE_MAX, PAGE_MAX), token or None)
        return list(entries), cursor
    listed: list[Any] = []
    cursor = None
    while True:
        entries, cursor = await page(PAGE_MAX, cursor)
        listed += entries
        if cursor is None or len(listed) >= LISTED_MAX:
            return listed, cursor


def _namespace(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise errors.NamespaceNotFound(name)
    return name


def _table(namespace: str, table: str) -> str:
    name = f"{namespace}.{table}"
    try:
        split_table_name(name)
    except ValueError as exc:
        raise errors.TableNotFound(name) from exc
    return name
