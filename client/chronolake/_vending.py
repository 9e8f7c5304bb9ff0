"""Credentials that the server gives for a table's storage, asked for when needed and renewed at half-life.

The storage option ``credentials`` is ``vended`` where a user gives it. Opened tables have a text there that
says how to ask: the access to the server and the table. It has no keys and no token, so it may travel in
plans to executors, which read the token themselves.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from chronolake import calls, errors
from chronolake._access import ServerAccess
from chronolake._http import Endpoint, endpoint_of
from chronolake_model import decoding
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.storage import CREDENTIALS_OPTION, SECRETS, VENDED
from chronolake_model.tables import Table

_TIMEOUT_SECONDS: Final = 30.0
_RENEWAL_SECONDS: Final = 5.0
"""How long a renewal is tried while the keys are still valid, and how long after it the next one begins."""
_VALID_SECONDS_MIN: Final = 30.0
"""Keys that are valid for a shorter time may expire under way."""


class _Held(msgspec.Struct):
    keys: TableCredentials
    renews_at: float
    ends_at: float


class VendedKeys:
    """The keys that a process has from one server. Threads may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._held: dict[tuple[str, StorageAccess], _Held] = {}
        self._lock = threading.Lock()

    def of(self, table: str, table_id: str, access: StorageAccess) -> TableCredentials:
        """Keys that are valid for a while. Raises what the server refuses, and ``ServerUnavailable``.

        If they cannot be renewed now, the present ones are used to their end.
        """
        with self._lock:
            held = self._held.get((table_id, access))
            now = time.monotonic()
            if held is None or now >= held.ends_at - _VALID_SECONDS_MIN:
                held = self._vend(table, table_id, access, None)
            elif now >= held.renews_at:
                try:
                    held = self._vend(table, table_id, access, _RENEWAL_SECONDS)
                except (errors.ConnectionFailed, errors.ServerUnavailable):
                    held.renews_at = now + 2 * _RENEWAL_SECONDS
            self._held[table_id, access] = held
            return held.keys

    def options_of(self, options: Mapping[str, str] | None, definition: Table) -> Mapping[str, str] | None:
        """The options of a client for the storage of a table; raises ``ValueError``."""
        if not options or CREDENTIALS_OPTION not in options:
            return options
        if secrets := sorted(SECRETS & set(options)):
            raise ValueError(f"give the storage option {CREDENTIALS_OPTION} or {secrets[0]}, not both")
        if options[CREDENTIALS_OPTION] != VENDED:
            # From another process: this one asks the server of its own client.
            _source_of(options[CREDENTIALS_OPTION])
        source = _Source(self._endpoint.access, definition.name, definition.table_id)
        return {**options, CREDENTIALS_OPTION: _Text.of(source, self)}

    def _vend(self, table: str, table_id: str, access: StorageAccess, retry_seconds: float | None) -> _Held:
        # A process that opens storage may have no client, and one of asyncio cannot be called from here.
        from chronolake._sync.transport import Transport  # noqa: PLC0415  # the layers above

        asked_at = time.monotonic()
        with contextlib.closing(Transport(self._endpoint)) as transport:
            call = calls.catalog.get_credentials(table, access)
            keys = transport.for_table(table_id).send(call, retry_seconds=retry_seconds)
        return _Held(keys, asked_at + keys.seconds_left / 2, asked_at + keys.seconds_left)


class _Source(msgspec.Struct, frozen=True):
    """Where keys come from, for a process that has no keys yet."""

    access: ServerAccess
    table: str
    table_id: str


class _Text(str):
    """The text of a source, with the keys of this process."""

    keys: VendedKeys

    @classmethod
    def of(cls, source: _Source, keys: VendedKeys) -> _Text:
        text = cls(msgspec.json.encode(source).decode())
        text.keys = keys
        return text

    def __reduce__(self) -> tuple[object, ...]:  # type: ignore[explicit-override]  # typing.override is Python 3.12's
        return str, (str(self),)


def split(
    options: Mapping[str, str],
) -> tuple[Callable[[StorageAccess], TableCredentials] | None, dict[str, str]]:
    """The function that gives valid keys, if the options say that they are vended; and the other options.

    Raises ``ValueError``.
    """
    others = {name: text for name, text in options.items() if name != CREDENTIALS_OPTION}
    text = options.get(CREDENTIALS_OPTION)
    if text is None:
        return None, others
    source = _source_of(text)
    keys = text.keys if isinstance(text, _Text) else _of_process(source.access)
    return functools.partial(keys.of, source.table, source.table_id), others


def _source_of(text: str) -> _Source:
    try:
        return decoding.decode(text.encode(), _Source)
    except msgspec.DecodeError as exc:
        raise ValueError(
            f"the storage option {CREDENTIALS_OPTION} is {VENDED!r}, for tables that a client has opened; give "
            "credentials of your own for other storage"
        ) from exc


@functools.cache
def _of_process(access: ServerAccess) -> VendedKeys:
    """The keys of a process that was told only where to ask, as an executor."""
    return VendedKeys(endpoint_of(access, _TIMEOUT_SECONDS, None))


class VendedFileSystem:
    """The methods of pyarrow's file systems that tables need, with keys that are renewed.

    ``made`` makes the file system of keys. An open file keeps the keys that it was opened with.
    """

    def __init__(
        self,
        keys: Callable[[StorageAccess], TableCredentials],
        made: Callable[[Mapping[str, str]], Any],
    ) -> None:
        self._keys = keys
        self._made = made
        self._present: dict[StorageAccess, tuple[TableCredentials, Any]] = {}

    def open_input_file(self, path: str) -> Any:
        """A file to read at any place. Raises ``FileNotFoundError``."""
        return self._read(path, lambda filesystem: filesystem.open_input_file(path))

    def open_input_stream(self, path: str, buffer_size: int | None = None) -> Any:
        """A file to read from its beginning. Raises ``FileNotFoundError``."""
        return self._read(path, lambda filesystem: filesystem.open_input_stream(path, buffer_size=buffer_size))

    def open_output_stream(self, path: str) -> Any:
        """A new file."""
        return self._of(StorageAccess.WRITE).open_output_stream(path)

    def get_file_info(self, path: str) -> Any:
        """The kind and the size of a file."""
        filesystem = self._of(StorageAccess.READ)
        try:
            return filesystem.get_file_info(path)
        except OSError:
            return _listed(filesystem, path)

    def _read(self, path: str, opened: Callable[[Any], Any]) -> Any:
        filesystem = self._of(StorageAccess.READ)
        try:
            return opened(filesystem)
        except FileNotFoundError:
            raise
        except OSError as exc:
            if not _listed(filesystem, path).is_file:
                raise FileNotFoundError(path) from exc
            raise

    def _of(self, access: StorageAccess) -> Any:
        keys = self._keys(access)
        present = self._present.get(access)
        if present is None or present[0] is not keys:
            present = self._present[access] = (keys, self._made(_options_of(keys)))
        return present[1]


def _options_of(keys: TableCredentials) -> dict[str, str]:
    """The storage options that keys are."""
    options = {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "session_token": keys.session_token,
        "region": keys.region,
    }
    return (
        options if keys.endpoint_override is None else options | {"endpoint_override": keys.endpoint_override}
    )


def _listed(filesystem: Any, path: str) -> Any:
    """The entry of a file in the list of its folder.

    To callers who may list a part of the bucket only, S3 refuses a missing object as a forbidden one.
    """
    from pyarrow import fs  # noqa: PLC0415  # an extra

    folder = fs.FileSelector(path.rpartition("/")[0], allow_not_found=True)
    entries = {info.path: info for info in filesystem.get_file_info(folder)}
    return entries.get(path) or fs.FileInfo(path, fs.FileType.NotFound)
