"""Locations: where the base paths of a namespace's tables may be (docs/decisions/0099-locations.md).

A location is a base path in its normal form, which ends with a slash. A base path is in it if it is the same or
lies below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.events import LocationAllowed, LocationRevoked
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind

SHOWN_MAX: Final = 20
"""Locations that a refusal names."""


class AllowLocation(Command, frozen=True):
    """``location`` is in its normal form, the address of ``base_paths.parse``."""

    namespace: str
    location: str


class RevokeLocation(Command, frozen=True):
    namespace: str
    location: str


class AllowedLocations(msgspec.Struct, frozen=True):
    """The locations of a namespace. None: any base path is allowed."""

    namespace: str
    locations: Sequence[str] | None

    def refuse_outside(self, base_path: str, address: str | None) -> None:
        """Raise ``LocationNotAllowed`` unless a base path is in a location.

        ``address`` is from ``address_of``.
        """
        if self.locations is None or (address is not None and is_within(address, self.locations)):
            return
        raise errors.LocationNotAllowed(
            f"tables of the namespace {self.namespace!r} may have base paths in {_listed(self.locations)}, and "
            f"not at {base_path[:200]!r}{_resolved(base_path, address)}; choose another base path, or let the "
            f"operator of the server run: chronolake-metastore locations allow {self.namespace} LOCATION",
            namespace=self.namespace,
            base_path=base_path,
            locations=list(self.locations[:SHOWN_MAX]),
        )


def is_within(address: str, locations: Sequence[str]) -> bool:
    """Whether a base path is in one of the locations: all end with a slash."""
    return any(address.startswith(location) for location in locations)


def address_of(base_path: str, key: str | None) -> str | None:
    """The normal form of a base path; None if it has none.

    The ``key`` of a local one has its links resolved.
    """
    try:
        location = base_paths.parse(base_path)
    except ValueError:
        return None
    return (key or location.key) if location.kind is Kind.FILE else location.address


def effective(namespace: str, own: Sequence[str] | None, default: Sequence[str]) -> AllowedLocations:
    """The locations of a namespace: its ``own`` list, else the ``default`` of the server, if that has any.

    A list whose last location was revoked is a list, and allows nothing.
    """
    return AllowedLocations(namespace, own if own is not None else (default or None))


def allow(own: Sequence[str] | None, command: AllowLocation) -> LocationAllowed | None:
    """Allow a location; None if it is allowed already."""
    if own is not None and command.location in own:
        return None
    return LocationAllowed(namespace=command.namespace, location=command.location)


def revoke(own: Sequence[str] | None, command: RevokeLocation) -> LocationRevoked | None:
    """Revoke a location; None if it is not in the namespace's list."""
    if own is None or command.location not in own:
        return None
    return LocationRevoked(namespace=command.namespace, location=command.location)


def evolve_allowed(own: Sequence[str] | None, event: LocationAllowed) -> Sequence[str]:
    """The list of the namespace after ``event``."""
    return sorted({*(own or ()), event.location})


def evolve_revoked(own: Sequence[str] | None, event: LocationRevoked) -> Sequence[str]:
    """The list of the namespace after ``event``."""
    return [location for location in own or () if location != event.location]


def _listed(locations: Sequence[str]) -> str:
    if not locations:
        return "no location, as all of them were revoked"
    more = f" and {len(locations) - SHOWN_MAX} others" if len(locations) > SHOWN_MAX else ""
    return ", ".join(locations[:SHOWN_MAX]) + more


def _resolved(base_path: str, address: str | None) -> str:
    """A remark that links lead to another place, if they do.

    Not the place: else any path of the server's machine, such as one below ``/proc/self``, could be looked up.
    """
    is_link = address is not None and address != address_of(base_path, None)
    return ", which leads elsewhere by a link" if is_link else ""
