"""A folder of small objects, created once and never overwritten, on a local disk or in an object store."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from chronolake_metastore import errors
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location
from chronolake_storage import opening
from chronolake_storage.errors import StorageError
from chronolake_storage.files import Files

OBJECT_BYTES_MAX: Final = 1 << 30
"""Heads of very many tables have a few hundred megabytes."""
_ENDPOINT: Final = "endpoint_override"
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Folder:
    """A folder of small objects. Each method raises ``ConfigurationError`` when the storage refuses."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def names(self) -> list[str]:
        """The names of the objects right in the folder, in order."""
        with configuration_errors():
            return sorted(file.file_name for file in self._files.listing() if not file.partition_path)

    def read(self, name: str) -> bytes:
        """The content of an object."""
        with configuration_errors():
            content = self._files.read(name, OBJECT_BYTES_MAX)
        if content is None:
            raise errors.ConfigurationError(f"{self._files.base_path}/{name} cannot be used: it does not exist")
        return content.body

    def create(self, name: str, content: bytes) -> None:
        """Make an object that is there whole or not at all; one that is there already is left as it is."""
        with configuration_errors():
            is_new = self._files.create(name, content)
        if not is_new:
            raise errors.ConfigurationError(
                f"{self._files.base_path}/{name} exists already, and is never overwritten"
            )


def open_folder(location: str) -> Folder:
    """The folder at a local path or a URI (``file``, ``s3``, ``gs``, ``az``); raises ``ConfigurationError``."""
    return Folder(open_location(location))


def open_location(location: str) -> Files:
    """The files below a local path or a URI; raises ``ConfigurationError``."""
    with configuration_errors():
        return opening.open_files(_absolute(location))


def key_of_links(base_path: str) -> str | None:
    """The key of a local base path with its links resolved; None for other paths, and for one that has no key.

    Raises ``OSError`` for a link that this machine may not, or cannot, read.
    """
    try:
        location = base_paths.parse(base_path)
    except ValueError:
        return None
    if location.kind is not Kind.FILE:
        return None
    real = os.path.realpath(location.path)
    try:
        real.encode()
    except UnicodeEncodeError:
        # A link leads to a name that is not UTF-8, which the database cannot keep.
        return None
    return Location(Kind.FILE, "", real).key


def location_of(text: str) -> str:
    """The normal form of a location, with the links of a local one resolved; raises ``ConfigurationError``."""
    path = _absolute(text)
    try:
        return key_of_links(path) or base_paths.parse(path).address
    except (ValueError, OSError) as exc:
        # Without the text, which may have a secret.
        raise errors.ConfigurationError(f"the location cannot be used: {exc}") from exc


def _absolute(location: str) -> str:
    is_relative = "://" not in location and not location.startswith("/")
    return os.path.abspath(location) if is_relative else location


def refuse_endpoint(options: Mapping[str, str], allowed: Collection[str]) -> None:
    """Raise ``ConfigurationError`` for an endpoint that is neither ``allowed`` nor that of the environment.

    Any client may name an endpoint as a property of a table, and would be sent the server's credentials.
    """
    endpoint = options.get(_ENDPOINT, "")
    own = [os.environ.get(name, "") for name in _ENDPOINT_VARIABLES]
    if endpoint and endpoint.rstrip("/") not in {
        allowed_endpoint.rstrip("/") for allowed_endpoint in (*allowed, *own)
    }:
        raise errors.ConfigurationError(
            f"the table's property storage.{_ENDPOINT} is {endpoint[:200]!r}, and credentials are not sent to "
            "endpoints that only a table names; if it is your storage, give --storage-endpoint with this URL"
        )


@contextlib.contextmanager
def configuration_errors() -> Iterator[None]:
    """Turns what storage refuses into ``ConfigurationError``: an operator has to look at it."""
    try:
        yield
    except (StorageError, ImportError, ValueError) as exc:
        raise errors.ConfigurationError(str(exc)) from exc
