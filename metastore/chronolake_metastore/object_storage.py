"""Object storage: folders of small objects, created once and never overwritten; and the files of tables.

A local folder needs nothing but Python; anything else is reached through obstore (the extra ``storage``).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from chronolake_metastore import errors
from chronolake_model.storage import check_options

if TYPE_CHECKING:
    from obstore.store import ObjectStore

AT_ONCE: Final = 16
"""Requests to a store under way at a time, of one caller."""
LISTED_AT_ONCE: Final = 1_000
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_OPTION_NAMES: Final = {
    "endpoint_override": "endpoint",
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
    "region": "region",
}
"""What obstore calls the options that pyarrow calls otherwise."""
_RETRIES: Final[Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=30)}


class Folder(Protocol):
    """A folder of small objects. Each method raises ``ConfigurationError`` when the storage refuses."""

    def names(self) -> list[str]:
        """The names of the objects right in the folder, in order."""

    def read(self, name: str) -> bytes:
        """The content of an object."""

    def create(self, name: str, content: bytes) -> None:
        """Make an object that is there whole or not at all; one that is there already is left as it is."""


class TableFiles(Protocol):
    """The files below a table's base path; paths are relative to it. Nothing here blocks the event loop."""

    async def check(self) -> None:
        """Raise ``ConfigurationError`` unless the table's folder, or its bucket, is to be seen from here.

        Where it is not, every file would look as if it had been deleted already.
        """

    async def delete_all(self, paths: Sequence[str]) -> dict[str, str]:
        """Delete files; gives why, of each that could not be deleted. What is gone counts as deleted."""

    async def find(self, paths: Sequence[str]) -> list[str]:
        """Those of ``paths`` that are there; raises ``ConfigurationError``."""

    def listing(self, folder: str) -> AsyncIterator[list[str]]:
        """The paths of all files below ``folder``, part by part; raises ``ConfigurationError``."""


def open_folder(location: str) -> Folder:
    """The folder at a local path or a URI (``file``, ``s3``, ``gs``, ``az``); raises ``ConfigurationError``."""
    local = _local_path(location)
    return _StoredFolder(location) if local is None else _LocalFolder(local)


def open_table(base_path: str, options: Mapping[str, str]) -> TableFiles:
    """The files below a table's base path, with options by pyarrow's names; raises ``ConfigurationError``.

    Nothing is asked of the store yet.
    """
    local = _local_path(base_path)
    if local is not None:
        return _LocalFiles(local)
    if urlsplit(base_path).scheme == "s3":
        return _StoredFiles(base_path, _s3_config(options))
    if options:
        raise errors.ConfigurationError(f"storage options are for s3://bucket/path, not for {base_path!r}")
    return _StoredFiles(base_path, {})


def _local_path(location: str) -> Path | None:
    if "://" not in location:
        return Path(location).expanduser()
    parts = urlsplit(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


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
        self._location = location
        self._obstore, self._exceptions, self._store = _open_store(location)

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


class _LocalFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def check(self) -> None:
        if not await asyncio.to_thread(self._folder.is_dir):
            raise errors.ConfigurationError(f"{self._folder} is no folder on this machine")

    async def delete_all(self, paths: Sequence[str]) -> dict[str, str]:
        return await asyncio.to_thread(self._delete_all, paths)

    async def find(self, paths: Sequence[str]) -> list[str]:
        return await asyncio.to_thread(self._find, paths)

    async def listing(self, folder: str) -> AsyncIterator[list[str]]:
        found = await asyncio.to_thread(self._list, folder)
        for at in range(0, len(found), LISTED_AT_ONCE):
            yield found[at : at + LISTED_AT_ONCE]

    def _list(self, folder: str) -> list[str]:
        def refuse(exc: OSError) -> None:
            if not isinstance(exc, FileNotFoundError):
                raise _refused(str(self._folder), exc) from exc

        walked = os.walk(self._folder / _below(folder), onerror=refuse)
        return sorted(
            os.path.relpath(os.path.join(at, name), self._folder) for at, _, names in walked for name in names
        )

    def _delete_all(self, paths: Sequence[str]) -> dict[str, str]:
        failures = {}
        for path in paths:
            try:
                (self._folder / _below(path)).unlink(missing_ok=True)
            except NotADirectoryError:
                # What should be the file's folder is none: the file is not there.
                continue
            except (OSError, ValueError) as exc:
                failures[path] = _reason(exc)
        return failures

    def _find(self, paths: Sequence[str]) -> list[str]:
        try:
            return [path for path in paths if os.path.lexists(self._folder / _below(path))]
        except (OSError, ValueError) as exc:
            raise _refused(str(self._folder), exc) from exc


class _StoredFiles:
    def __init__(self, location: str, config: dict[str, str]) -> None:
        self._location = location
        self._obstore, self._exceptions, self._store = _open_store(location, config)

    async def check(self) -> None:
        try:
            await anext(aiter(self._obstore.list(self._store)), None)
        except (self._exceptions.BaseError, OSError) as exc:
            raise _refused(self._location, exc) from exc

    async def delete_all(self, paths: Sequence[str]) -> dict[str, str]:
        try:
            await self._obstore.delete_async(self._store, [_below(path) for path in paths])
        except (self._exceptions.BaseError, OSError, TypeError, ValueError):
            # Which of them it was is not said.
            failures = await self._of_each(self._delete, paths)
            return {path: why for path, why in zip(paths, failures, strict=True) if why is not None}
        return {}

    async def find(self, paths: Sequence[str]) -> list[str]:
        found = await self._of_each(self._is_there, paths)
        return [path for path, is_there in zip(paths, found, strict=True) if is_there]

    async def listing(self, folder: str) -> AsyncIterator[list[str]]:
        try:
            async for page in self._obstore.list(self._store, f"{_below(folder)}/", chunk_size=LISTED_AT_ONCE):
                yield [entry["path"] for entry in page]
        except (self._exceptions.BaseError, OSError) as exc:
            raise _refused(f"{self._location}/{folder}", exc) from exc

    async def _of_each(self, ask: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
        """The answers in order; so many are asked for at a time."""
        free = asyncio.Semaphore(AT_ONCE)

        async def one(path: str) -> Any:
            async with free:
                return await ask(path)

        return await asyncio.gather(*map(one, paths))

    async def _delete(self, path: str) -> str | None:
        try:
            await self._obstore.delete_async(self._store, _below(path))
        except FileNotFoundError as exc:
            # Gone before; S3 says so of its buckets only.
            return _reason(exc) if self._location.startswith("s3://") else None
        except (self._exceptions.BaseError, OSError, TypeError, ValueError) as exc:
            return _reason(exc)
        return None

    async def _is_there(self, path: str) -> bool:
        try:
            await self._obstore.head_async(self._store, _below(path))
        except FileNotFoundError:
            return False
        except (self._exceptions.BaseError, OSError, ValueError) as exc:
            raise _refused(f"{self._location}/{path}", exc) from exc
        return True


def _open_store(location: str, config: dict[str, str] | None = None) -> tuple[Any, Any, ObjectStore]:
    """obstore, its exceptions, and the store; raises ``ConfigurationError``."""
    try:
        import obstore  # noqa: PLC0415 - only who goes beyond local folders needs the wheel
        from obstore import exceptions, store  # noqa: PLC0415
    except ImportError as exc:
        raise errors.ConfigurationError(
            f"{location} is no local folder, and obstore is not installed: pip install 'chronolake[storage]'"
        ) from exc
    more: dict[str, Any] = {"config": config, "retry_config": _RETRIES} if config is not None else {}
    if config is not None and config.get("endpoint", "").startswith("http://"):
        more["client_options"] = {"allow_http": True}
    try:
        return obstore, exceptions, store.from_url(location, **more)
    except (exceptions.BaseError, ValueError) as exc:
        raise _refused(location, exc) from exc


def _s3_config(options: Mapping[str, str]) -> dict[str, str]:
    """What obstore is told of S3; what is not said here it takes from the environment itself."""
    try:
        check_options(options)
    except ValueError as exc:
        raise errors.ConfigurationError(str(exc)) from exc
    said = {_OPTION_NAMES[name]: text for name, text in options.items() if text}
    endpoint = said.pop("endpoint", "") or next(
        (found for name in _ENDPOINTS if (found := os.environ.get(name))), ""
    )
    if endpoint:
        # pyarrow takes https for granted too.
        said["endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
    return said


def _below(path: str) -> str:
    """The path; raises ``ValueError`` when it does not stay below a table's base path."""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise ValueError(f"{path!r} is no path below a table's base path")
    return path


def _exists(what: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{what} exists already, and is never overwritten")


def _refused(what: str, exc: Exception) -> errors.ConfigurationError:
    return errors.ConfigurationError(f"{what} cannot be used: {_reason(exc)}")


def _reason(exc: Exception) -> str:
    return exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc).strip().splitlines()[0]
