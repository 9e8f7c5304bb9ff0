"""Files in an object store, accessed through obstore, which has conditional puts and bulk deletes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location
from chronolake_model.credentials import StorageAccess, TableCredentials
from chronolake_model.storage import check_options
from chronolake_storage.errors import BasePathMissing, failed, reason, too_large
from chronolake_storage.files import (
    CONTENT_BYTES_MAX,
    MARKERS_FOLDER,
    METADATA_FOLDER,
    Content,
    Deletion,
    StoredFile,
    check_path,
)
from chronolake_storage.permits import Permit

if TYPE_CHECKING:
    from obstore.store import ObjectStore

THREADS: Final = 16
"""The concurrent requests of one caller to a store."""
AT_ONCE: Final = 1_000
"""The files in one bulk request, the maximum of S3."""
RETRIES_MAX: Final = 7
RETRY_SECONDS_MAX: Final = 30.0

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_OPTION_NAMES: Final = {
    "endpoint_override": "endpoint",
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
    "region": "region",
}
"""obstore's names of the options, by pyarrow's."""

KeysFor: TypeAlias = Callable[[StorageAccess], TableCredentials]
"""Gives keys of S3 that are valid now, for an access."""

_Result = TypeVar("_Result")


def open_objects(base_path: str, options: Mapping[str, str], keys: KeysFor | None = None) -> ObjectFiles:
    """The objects below a URI. Raises ``ValueError``, ``ImportError``, ``StorageError``. Sends no request yet.

    Only the region of an AWS bucket is requested if it is not configured.
    """
    check_options(options)
    location = base_paths.parse(base_path)
    if "?" in base_path or "#" in base_path:
        raise ValueError(f"{base_path!r} has a '?' or '#'; storage options are properties of the table")
    if location.kind is not Kind.S3 and options:
        raise ValueError(f"storage options are for s3://bucket/path, not for {base_path!r}")
    if location.kind is Kind.HDFS:
        raise ValueError(
            f"{base_path!r}: on HDFS nothing is deleted, because it has no conditional put for claims"
        )
    obstore, exceptions = _obstore(base_path)

    @functools.cache
    def opened(path: str, access: StorageAccess) -> ObjectStore:
        try:
            if location.kind is Kind.S3:
                return _s3(location.bucket, path, dict(options), keys and partial(keys, access))
            return _other(base_path.removesuffix("/").removesuffix(location.path) + path)
        except (exceptions.BaseError, ValueError) as exc:
            raise failed(base_path, exc) from exc

    def opened_for(path: str, access: StorageAccess) -> ObjectStore:
        # Without keys for each access, one store serves all.
        return opened(path, StorageAccess.MAINTAIN if keys is None else access)

    if keys is None:
        opened_for(location.path, StorageAccess.READ)
    return ObjectFiles(base_path, location, opened_for, obstore, exceptions, has_vended_keys=keys is not None)


class ObjectFiles:
    """As ``Files``, in an object store. There are no links and no folders."""

    def __init__(
        self,
        base_path: str,
        location: Location,
        opened: Callable[[str, StorageAccess], ObjectStore],
        obstore: Any,
        exceptions: Any,
        *,
        has_vended_keys: bool,
    ) -> None:
        self._has_vended_keys = has_vended_keys
        self._base_path = base_path
        self._location = location
        self._kind = location.kind
        self._opened = opened
        self._obstore = obstore
        self._refusals = (exceptions.BaseError, OSError)
        self._exists = exceptions.AlreadyExistsError
        self._forbidden = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
        self._changed = (exceptions.PreconditionError, exceptions.NotFoundError, FileNotFoundError)

    @property
    def base_path(self) -> str:
        return self._base_path

    @property
    def _store(self) -> ObjectStore:
        return self._opened(self._location.path, StorageAccess.READ)

    @property
    def _writable(self) -> ObjectStore:
        return self._opened(self._location.path, StorageAccess.WRITE)

    def _deletable(self, paths: Iterable[str]) -> ObjectStore:
        """The store for deletions. Writers may delete markers, and nothing else."""
        are_markers = all(path.startswith(f"{MARKERS_FOLDER}/") for path in paths)
        access = StorageAccess.WRITE if are_markers else StorageAccess.MAINTAIN
        return self._opened(self._location.path, access)

    def check(self) -> None:
        try:
            next(iter(self._obstore.list(self._store, chunk_size=1)), None)
        except self._refusals as exc:
            self._refuse_missing_bucket(exc)
            raise failed(self._base_path, exc) from exc

    def make_folder(self) -> None:
        pass

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        return _in_threads(self._size, paths)

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        prefix = f"{_checked(folder)}/" if folder else None
        try:
            for page in self._obstore.list(self._store, prefix, chunk_size=AT_ONCE):
                for entry in page:
                    at, _, name = entry["path"].rpartition("/")
                    if folder or at.partition("/")[0] != METADATA_FOLDER:
                        yield StoredFile(at, name, entry["size"], entry["last_modified"].timestamp())
        except self._refusals as exc:
            raise failed(self._full(folder), exc) from exc

    def files_in(self, folder: str) -> list[StoredFile]:
        try:
            listed = self._obstore.list_with_delimiter(self._store, f"{_checked(folder)}/")["objects"]
        except self._refusals as exc:
            raise failed(self._full(folder), exc) from exc
        return [
            StoredFile(
                folder, entry["path"].rpartition("/")[2], entry["size"], entry["last_modified"].timestamp()
            )
            for entry in listed
        ]

    def create_all_empty(self, paths: Iterable[str]) -> Iterator[bool]:
        return _in_threads(lambda path: self.create(path, b""), paths)

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        try:
            response = self._obstore.get(self._store, _checked(path))
            if response.meta["size"] > bytes_max:
                raise too_large(self._full(path), bytes_max)
            return Content(bytes(response.bytes()), response.meta["e_tag"] or "")
        except FileNotFoundError as exc:
            self._refuse_missing_bucket(exc)
            return None
        except self._refusals as exc:
            if self._is_missing(path, exc):
                return None
            raise failed(self._full(path), exc) from exc

    def read_range(self, path: str, begin: int, end: int) -> bytes | None:
        try:
            return bytes(self._obstore.get_range(self._store, _checked(path), start=begin, end=end))
        except FileNotFoundError as exc:
            self._refuse_missing_bucket(exc)
            return None
        except self._refusals as exc:
            if self._is_missing(path, exc):
                return None
            raise failed(self._full(path), exc) from exc

    def read_above(self, path: str) -> Iterator[tuple[str, bytes]]:
        if not self._location.path:
            return
        bucket = self._opened("", StorageAccess.WRITE)
        parts = self._location.path.split("/")
        paths = ["/".join([*parts[:depth], _checked(path)]) for depth in range(len(parts))]
        for above, body in zip(paths, _in_threads(partial(self._read_in, bucket), paths), strict=True):
            if body is not None:
                yield f"{self._kind}://{self._location.bucket}/{above}", body

    def create(self, path: str, body: bytes) -> bool:
        try:
            self._obstore.put(self._writable, _checked(path), body, mode="create", use_multipart=False)
        except self._exists:
            return False
        except self._refusals as exc:
            raise failed(self._full(path), exc) from exc
        return True

    def create_all(self, bodies: Sequence[tuple[str, bytes]], *, in_order: bool) -> list[bool]:
        if in_order:
            return [self.create(path, body) for path, body in bodies]
        by_path = dict(bodies)
        return list(_in_threads(lambda path: self.create(path, by_path[path]), by_path))

    def create_stages(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        for bodies in stages:
            self.create_all(bodies, in_order=False)

    def replace(self, path: str, body: bytes, tag: str) -> bool:
        try:
            self._obstore.put(self._writable, _checked(path), body, mode={"e_tag": tag}, use_multipart=False)
        except self._changed:
            return False
        except self._refusals as exc:
            raise failed(self._full(path), exc) from exc
        return True

    def put(self, path: str, body: bytes) -> None:
        try:
            self._obstore.put(self._writable, _checked(path), body, use_multipart=False)
        except self._refusals as exc:
            raise failed(self._full(path), exc) from exc

    def delete_permitted(self, permits: Iterable[Permit]) -> Iterator[Deletion]:
        left = iter(permits)
        while part := list(islice(left, AT_ONCE)):
            yield from self._delete_part([permit.path for permit in part])

    def remove_empty_folders_unguarded(self, folder: str) -> None:
        pass

    def _delete_part(self, paths: list[str]) -> Iterator[Deletion]:
        try:
            self._obstore.delete(self._deletable(paths), [_checked(path) for path in paths])
        except (*self._refusals, TypeError, ValueError):
            # The error does not say which file failed, so the files are deleted one by one.
            return _in_threads(self._delete, paths)
        return map(Deletion, paths)

    def _delete(self, path: str) -> Deletion:
        try:
            self._obstore.delete(self._deletable([path]), _checked(path))
        except FileNotFoundError as exc:
            # The file did not exist any more. On S3 this error means that the bucket does not exist.
            return Deletion(path, reason(exc) if self._kind is Kind.S3 else None)
        except (*self._refusals, TypeError, ValueError) as exc:
            return Deletion(path, reason(exc))
        return Deletion(path)

    def _size(self, path: str) -> int | None:
        try:
            return int(self._obstore.head(self._store, _checked(path))["size"])
        except FileNotFoundError:
            return None
        except (*self._refusals, ValueError) as exc:
            if self._is_missing(path, exc):
                return None
            raise failed(self._full(path), exc) from exc

    def _is_missing(self, path: str, exc: Exception) -> bool:
        """Whether there is no such object, although the store refuses it as a forbidden one.

        S3 does so to callers who may list a part of the bucket only, as with vended keys. With other keys a
        refusal is a fault of the storage, which is reported.
        """
        if not self._has_vended_keys or not isinstance(exc, self._forbidden):
            return False
        # Names after the given one, in their order.
        pages = self._obstore.list(self._store, path.rpartition("/")[0] or None, offset=path[:-1], chunk_size=1)
        try:
            listed = next((entry["path"] for page in pages for entry in page if entry["path"] >= path), None)
        except self._refusals:
            return False
        return listed != path

    def _read_in(self, store: ObjectStore, path: str) -> bytes | None:
        try:
            response = self._obstore.get(store, path)
            if response.meta["size"] > CONTENT_BYTES_MAX:
                raise too_large(path, CONTENT_BYTES_MAX)
            return bytes(response.bytes())
        except (FileNotFoundError, *self._forbidden):
            # Credentials that are limited to the base path cannot read above it.
            return None
        except self._refusals as exc:
            raise failed(path, exc) from exc

    def _refuse_missing_bucket(self, exc: BaseException) -> None:
        if "NoSuchBucket" in str(exc):
            raise BasePathMissing(f"{self._base_path}: the bucket does not exist") from exc

    def _full(self, path: str) -> str:
        return f"{self._base_path}/{path}"


def _checked(path: str) -> str:
    check_path(path)
    return path


def _in_threads(work: Callable[[str], _Result], paths: Iterable[str]) -> Iterator[_Result]:
    """The results in order. Paths are processed in batches, so a long list is never held as a whole."""
    left = iter(paths)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="chronolake-storage") as threads:
        while part := list(islice(left, AT_ONCE)):
            yield from threads.map(work, part)


def _obstore(base_path: str) -> tuple[Any, Any]:
    try:
        import obstore  # noqa: PLC0415 - only object stores need the wheel
        from obstore import exceptions  # noqa: PLC0415
    except ImportError as exc:
        raise ImportError(
            f"{base_path} is in an object store, and obstore is not installed: "
            "pip install 'chronolake[storage]'"
        ) from exc
    return obstore, exceptions


def _other(base_path: str) -> ObjectStore:
    from obstore import store  # noqa: PLC0415

    return store.from_url(base_path, retry_config=_retries())


def _s3(
    bucket: str, path: str, options: dict[str, str], keys: Callable[[], TableCredentials] | None = None
) -> ObjectStore:
    from obstore import store  # noqa: PLC0415

    if keys is not None:
        present = keys()
        options = {"region": present.region, "endpoint_override": present.endpoint_override or ""}
    config: Any = {_OPTION_NAMES[name]: text for name, text in options.items() if text}
    endpoint = config.pop("endpoint", "") or _variable(_ENDPOINTS)
    if endpoint:
        # https is the default scheme, as in pyarrow.
        config["endpoint"] = endpoint if "://" in endpoint else f"https://{endpoint}"
    elif "region" not in config and not _variable(_REGIONS):
        config |= _region_of(bucket)
    return store.S3Store(
        bucket,
        prefix=path or None,
        config=config,
        client_options={"allow_http": config.get("endpoint", "").startswith("http://")},
        retry_config=_retries(),
        credential_provider=keys and _provider(keys),
    )


def _provider(keys: Callable[[], TableCredentials]) -> Callable[[], Any]:
    """The function that obstore calls some minutes before the keys expire that it has."""

    def provide() -> Any:
        present = keys()
        return {
            "access_key_id": present.access_key,
            "secret_access_key": present.secret_key,
            "token": present.session_token,
            "expires_at": present.expires_at,
        }

    return provide


def _retries() -> Any:
    return {
        "max_retries": RETRIES_MAX,
        "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }


def _region_of(bucket: str) -> dict[str, str]:
    """The region of an AWS bucket, if pyarrow is installed to find it."""
    try:
        from pyarrow.fs import resolve_s3_region  # noqa: PLC0415
    except ImportError:
        return {}
    try:
        return {"region": resolve_s3_region(bucket)}
    except OSError as exc:
        raise failed(f"s3://{bucket}", exc) from exc


def _variable(names: Iterable[str]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")
