"""The operator's commands on the locations of namespaces, as tests give them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from chronolake_metastore.cli.locating import change
from chronolake_metastore.domain.locations import AllowLocation, RevokeLocation
from chronolake_metastore.object_storage import location_of
from chronolake_metastore.settings import Settings
from tests import forked_program


def allow(dsn: str, namespace: str, location: Path | str) -> None:
    """Allow a location, in this process."""
    assert change(Settings(dsn=dsn), AllowLocation(namespace, location_of(str(location))))


def revoke(dsn: str, namespace: str, location: Path | str) -> None:
    """Revoke a location, in this process."""
    assert change(Settings(dsn=dsn), RevokeLocation(namespace, location_of(str(location))))


def run(dsn: str, command: str, *arguments: Path | str) -> subprocess.CompletedProcess[str]:
    """Run a command of the operator."""
    return forked_program.run("locations", command, "--dsn", dsn, *map(str, arguments))
