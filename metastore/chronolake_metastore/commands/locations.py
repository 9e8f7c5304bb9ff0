"""Commands on the locations of namespaces. Only the owner of the schema can record their events."""

from __future__ import annotations

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.domain import locations
from chronolake_metastore.domain.events import Origin
from chronolake_metastore.domain.locations import AllowLocation, RevokeLocation
from chronolake_metastore.domain.logs import CATALOG_ID
from chronolake_metastore.domain.results import AnyResult, LocationResult
from chronolake_metastore.domain.state import State


class AllowLocationHandler(Handler[AllowLocation, None]):
    """Allows a location. The namespace need not exist yet."""

    command = AllowLocation

    @override
    def names(self, command: AllowLocation) -> Names:
        return Names(catalog=True, namespaces=[command.namespace])

    @override
    def decide(self, state: State, command: AllowLocation, evidence: None, origin: Origin) -> AnyResult:
        allowed = locations.allow(state.locations.get(command.namespace), command)
        if allowed is not None:
            state.append(CATALOG_ID, origin, allowed)
        return LocationResult(log_id=CATALOG_ID, location=command.location, is_changed=allowed is not None)


class RevokeLocationHandler(Handler[RevokeLocation, None]):
    """Revokes a location. Tables that are there stay, and servers leave their storage alone."""

    command = RevokeLocation

    @override
    def names(self, command: RevokeLocation) -> Names:
        return Names(catalog=True, namespaces=[command.namespace])

    @override
    def decide(self, state: State, command: RevokeLocation, evidence: None, origin: Origin) -> AnyResult:
        revoked = locations.revoke(state.locations.get(command.namespace), command)
        if revoked is not None:
            state.append(CATALOG_ID, origin, revoked)
        return LocationResult(log_id=CATALOG_ID, location=command.location, is_changed=revoked is not None)
