"""The table services of a table: planned by the server, executed by any client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chronolake import calls
from chronolake._async.transport import AsyncTransport
from chronolake._http import default_writer
from chronolake_model import operations
from chronolake_model.services import (
    PlanServices,
    ServicesPlanned,
    ServicesPreview,
    ServicesStatus,
    TableService,
)


class AsyncServices:
    """The table services of one table; see ``AsyncTable.services``."""

    def __init__(self, transport: AsyncTransport, table: str) -> None:
        self._transport = transport
        self._table = table

    async def preview(self) -> ServicesPreview:
        """The instants that ``plan`` would record now, and why it would not record more. Nothing changes."""
        return await self._transport.send(calls.call(operations.services.PREVIEW_SERVICES, self._table))

    async def plan(
        self,
        services: TableService | str | Iterable[TableService] = (),
        *,
        force: bool = False,
        details: Mapping[str, str] | None = None,
        writer: str | None = None,
    ) -> ServicesPlanned:
        """Plan what the policies of the table ask for, and return the requested instants, which may be none.

        ``services`` are all four unless given. With ``force`` neither triggers nor switches count; what
        protects writers, readers and savepoints does. ``details`` are added to those of each plan; properties
        of policies among them count in place of those of the table. Execute an instant by ``table.execute``.
        ``writer`` is user@host:pid unless given.
        """
        # A text is a service too, and no list of letters.
        wanted = [TableService(services)] if isinstance(services, str) else list(services)
        body = PlanServices(writer or default_writer(), wanted, force, dict(details or {}))
        return await self._transport.send(calls.call(operations.services.PLAN_SERVICES, self._table, body=body))

    async def status(self) -> ServicesStatus:
        """The pending plans and who executes them, the last run of each service, cancelled clusterings."""
        return await self._transport.send(calls.call(operations.services.GET_SERVICES, self._table))
