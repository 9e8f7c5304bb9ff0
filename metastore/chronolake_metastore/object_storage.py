"""Small objects in object storage: listed, read, and created once; never overwritten.

A local folder needs nothing but Python; anything else is reached through obstore (the extra ``storage``).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from chronolake_metastore import errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class Folder(Protocol):
    """A folder of small objects. Each method raises ``ConfigurationError`` when the storage refuses."""

    def names(self) -> list[str]:
        """The names of the objects right in the folder, in order."""

    def read(self, name: str) -> bytes:
        """The content of an object."""

    def create(self, name: str, content: bytes) -> None:
        """Make an object that is there whole or not at all; one that is there already is left as it is."""


def open_folder(location: str) -> Folder:
    """The folder at a local path or a URI (``file``, ``s3``, ``gs``, ``az``); raises ``ConfigurationError``."""
    if "://" not in location:
        return _LocalFolder(Path(location).expanduser())
    parts = urlsplit(location)
    if parts.scheme == "file":
        return _LocalFolder(Path(unquote(parts.path)))
    return _StoredFolder(location)


class _LocalFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        try:
            return sorted(path.name for path in self._folder.iterdir() if path.is_file())
        except OSError as exc:
            raise _refused(str(self._folder), exc) from exc

    def read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as exc:
            raise _refused(str(self._folder / name), exc) from exc

    def create(self, name: str, content: bytes) -> None:
        target = self._folder / name
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", suffix=".part") as part:
                part.write(content)
                part.flush()
                os.fsync(part.fileno())
                # A link is made only if nothing has that name, unlike a rename.
                os.link(part.name, target)
            target.chmod(0o444)
        except FileExistsError as exc:
            raise _exists(str(target)) from exc
        except OSError as exc:
            raise _refused(str(target), exc) from exc


class _StoredFolder:
    def __init__(self, location: str) -> None:
        try:
            import obstore  # noqa: PLC0415 - only who goes beyond local folders needs the wheel
            from obstore import exceptions, store  # noqa: PLC0415
        except ImportError as exc:
            raise errors.ConfigurationError(
                f"{location} is no local folder, and obstore is not installed: "
                "pip install 'chronolake[storage]'"
            ) from exc
        self._location = location
        self._obstore = obstore
        self._exceptions = exceptions
        try:
            self._store: ObjectStore = store.from_url(location)
        except (exceptions.BaseError, ValueError) as exc:
            raise _refused(location, exc) from exc

    def names(self) -> list[str]:
        try:
            listed = self._obstore.list_with_delimiter(self._store)
        except (self._exceptions.BaseError, OSError) as exc:
            raise _refused(self._location, exc) from exc
        return sorted(entry["path"].rpartition("/")[2] for entry in listed["objects"])

    def read(self, name: str) -> bytes:
        try:
            return bytes(self._obstore.get(self._store, name).bytes())
        except (self._exceptions.BaseError, OSError) as exc:
            raise _refused(f"{self._location}/{name}", exc) from exc

    def create(self, name: str, content: bytes) -> None:
        try:
            self._obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except self._exceptions.AlreadyExistsError as exc:
            raise _exists(f"{self._location}/{name}") from exc
        except (self._exceptions.BaseError, OSError) as exc:
            raise _refused(f"{self._location}/{name}", exc) from exc


def _exists(what: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{what} exists already, and is never overwritten")


def _refused(what: str, exc: Exception) -> errors.ConfigurationError:
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc).strip().splitlines()[0]
    return errors.ConfigurationError(f"{what} cannot be used: {reason}")
