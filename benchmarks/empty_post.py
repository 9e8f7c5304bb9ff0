"""The server with endpoints that do nothing: they measure the cost of a request without a command.

``POST /v1/empty`` does not read its body, and answers without one. ``POST /v1/caller`` receives the identity of
the caller, as a command does, in place of access control. The ``/empty`` of an instant receives it too, reads
the body of a request for markers, and answers with JSON.
"""

from __future__ import annotations

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from chronolake_metastore import app
from chronolake_metastore.api.callers import Caller
from chronolake_metastore.api.parameters import RequestedTimeInPath, TableInPath
from chronolake_metastore.cli import main
from chronolake_model.markers import CreatedMarkers, CreateMarkers


@post("/empty", status_code=200)
async def post_empty() -> None:
    """Answer nothing."""


@post("/caller", status_code=200)
async def post_with_caller(keyed_caller: NamedDependency[Caller]) -> None:
    """Answer nothing, after the caller is authenticated."""


@post("/tables/{table:str}/instants/{requested_time:str}/empty", status_code=200)
async def post_no_markers(
    table: TableInPath,
    requested_time: RequestedTimeInPath,
    data: JSONBody[CreateMarkers],
    keyed_caller: NamedDependency[Caller],
) -> CreatedMarkers:
    """Decode the body, and create no markers."""
    return CreatedMarkers([])


if __name__ == "__main__":
    app.V1 = (*app.V1, post_empty, post_with_caller, post_no_markers)
    main.app()
