"""Files on a local disk, opened folder by folder without following a link (openat, O_NOFOLLOW).

Each folder is opened from the folder above it, and every file is accessed by its name in an open folder. So
the open itself fails at a link, even if the link replaces a folder at that moment. No separate check can race
with it. A mount below the base path is refused by the open folder itself, so a later mount does not matter.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from chronolake_storage.errors import FolderMissing, LinkRefused, StorageError, failed, reason, too_large
from chronolake_storage.files import (
    CONTENT_BYTES_MAX,
    METADATA_FOLDER,
    Content,
    Deletion,
    StoredFile,
    check_path,
)
from chronolake_storage.mounts import folders_above, mount_of, paths_above_mount, present
from chronolake_storage.permits import Permit

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BELOW: Final = _FOLDER | os.O_NOFOLLOW
_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITERS: Final = 8
"""Threads that write files of one caller at a time."""
_OPEN_FOLDERS: Final = 64
"""Folders that stay open within one batch."""


class LocalFiles:
    """As ``Files``, in the folder ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def base_path(self) -> str:
        return self._root

    def check(self) -> None:
        with self._opened():
            pass

    def make_folder(self) -> None:
        try:
            os.makedirs(self._root, exist_ok=True)
        except OSError as exc:
            raise StorageError(
                f"{self._root}: {reason(exc)}. This machine must be able to make the table's folder: check the "
                "rights and the mounts above it, or create the table at another base path"
            ) from exc

    def sizes(self, paths: Iterable[str]) -> Iterator[int | None]:
        with self._opened(missing=True) as folders:
            for path in paths:
                yield _size(folders, path)

    def listing(self, folder: str = "") -> Iterator[StoredFile]:
        unlisted = [folder]
        with self._opened(missing=True) as folders:
            while unlisted:
                at = unlisted.pop()
                try:
                    files, below = _entries(folders, at)
                except LinkRefused:
                    if at == folder:
                        raise
                    # A mount: a link is among the files of the folder above.
                    files, below = [StoredFile(*check_path(at), 0)], []
                yield from files
                unlisted += [path for path in reversed(below) if path != METADATA_FOLDER]

    def files_in(self, folder: str) -> list[StoredFile]:
        with self._opened(missing=True) as folders:
            return _entries(folders, folder)[0]

    def create_all_empty(self, paths: Iterable[str]) -> Iterator[bool]:
        self.make_folder()
        with self._opened() as folders:
            for path in paths:
                at, name = check_path(path)
                yield _create(folders.make(at), name, self._full(path))

    def open_new(self, path: str) -> int:
        """A descriptor to write a new file; an existing file of that name is truncated."""
        at, name = check_path(path)
        self.make_folder()
        with self._opened() as folders:
            try:
                flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                return os.open(name, flags, 0o644, dir_fd=folders.make(at))
            except OSError as exc:
                raise failed(self._full(path), exc) from exc

    def read(self, path: str, bytes_max: int = CONTENT_BYTES_MAX) -> Content | None:
        at, name = check_path(path)
        with self._opened(missing=True) as folders:
            folder = folders.open(at)
            if folder is None:
                return None
            body = _read(folder, name, self._full(path), bytes_max)
        return None if body is None else Content(body, _tag(body))

    def read_range(self, path: str, begin: int, end: int) -> bytes | None:
        at, name = check_path(path)
        with self._opened(missing=True) as folders:
            folder = folders.open(at)
            return None if folder is None else _read(folder, name, self._full(path), end - begin, begin)

    def read_above(self, path: str) -> Iterator[tuple[str, bytes]]:
        check_path(path)
        folders = [*folders_above(os.path.realpath(self._root)), *paths_above_mount(self._root, present())]
        for folder in folders:
            full = f"{folder.rstrip('/')}/{path}"
            body = _read(None, full, full, CONTENT_BYTES_MAX)
            if body is not None:
                yield full, body

    def create(self, path: str, body: bytes) -> bool:
        at, name = check_path(path)
        self.make_folder()
        with self._opened() as folders:
            folder = folders.make(at)
            try:
                return _publish(folder, name, body)
            except OSError as exc:
                raise failed(self._full(path), exc) from exc

    def create_all(self, bodies: Sequence[tuple[str, bytes]], *, in_order: bool) -> list[bool]:
        # Files of one folder together: only writing their content takes long, and that has no order.
        ordered = [(*check_path(path), body, number) for number, (path, body) in enumerate(bodies)]
        if not in_order:
            ordered.sort(key=lambda entry: entry[0])
        together = [list(entries) for _, entries in itertools.groupby(ordered, key=lambda entry: entry[0])]
        self.make_folder()
        with ThreadPoolExecutor(_WRITERS) as writers:
            if in_order or len(together) == 1:
                created = self._create_in_folders(together, writers.map)
            else:
                # Many folders have few files each: each thread has folders of its own.
                parts = [together[number::_WRITERS] for number in range(_WRITERS)]
                created = {}
                for of_part in writers.map(lambda part: self._create_in_folders(part, map), parts):
                    created |= of_part
        return [created[number] for number in range(len(bodies))]

    def create_stages(self, stages: Sequence[Sequence[tuple[str, bytes]]]) -> None:
        # Their order costs nothing here, unlike another stage.
        self.create_all([body for bodies in stages for body in bodies], in_order=True)

    def _create_in_folders(
        self, together: Sequence[Sequence[tuple[str, str, bytes, int]]], run: Callable[..., Iterable[str]]
    ) -> dict[int, bool]:
        """Create files, given folder by folder with their numbers: whether each is new, by its number."""
        created: dict[int, bool] = {}
        with self._opened() as folders:
            for entries in together:
                at = entries[0][0]
                named = [(name, body) for _, name, body, _ in entries]
                try:
                    flags = _publish_all(folders.make(at), named, run)
                except OSError as exc:
                    raise failed(self._full(at), exc) from exc
                created |= zip((number for *_, number in entries), flags, strict=True)
        return created

    def replace(self, path: str, body: bytes, tag: str) -> bool:
        at, name = check_path(path)
        with self._opened() as folders:
            folder = folders.make(at)
            # A disk has no compare-and-swap, so every replacement takes the lock of the folder first.
            fcntl.flock(folder, fcntl.LOCK_EX)
            present = _read(folder, name, self._full(path), CONTENT_BYTES_MAX)
            if present is None or _tag(present) != tag:
                return False
            try:
                _overwrite(folder, name, body)
            except OSError as exc:
                raise failed(self._full(path), exc) from exc
            return True

    def put(self, path: str, body: bytes) -> None:
        at, name = check_path(path)
        self.make_folder()
        with self._opened() as folders:
            try:
                _overwrite(folders.make(at), name, body)
            except OSError as exc:
                raise failed(self._full(path), exc) from exc

    def delete_permitted(self, permits: Iterable[Permit]) -> Iterator[Deletion]:
        with self._opened() as folders:
            for permit in permits:
                yield Deletion(permit.path, _delete(folders, permit.path))

    def remove_empty_folders_unguarded(self, folder: str) -> None:
        with self._opened() as folders, contextlib.suppress(LinkRefused):
            _remove_empty(folders, folder)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextlib.contextmanager
    def _opened(self, *, missing: bool = False) -> Iterator[_Folders]:
        """The folders below the base path. If ``missing``, a base path that does not exist has no folders."""
        try:
            # The base path itself may be a link. It is opened once, and all other folders are opened from it.
            root = os.open(self._root, _FOLDER)
        except OSError as exc:
            if not (missing and isinstance(exc, FileNotFoundError)):
                is_missing = isinstance(exc, FileNotFoundError)
                failure = FolderMissing if is_missing else StorageError
                problem = (
                    "does not exist: run this on a machine that has its files, or create the folder if it "
                    "never had files"
                    if is_missing
                    else f"cannot be opened as a folder: {reason(exc)}"
                )
                raise failure(f"{self._root} {problem}") from exc
            root = None
        folders = _Folders(self._root, root)
        try:
            yield folders
        finally:
            folders.close()


class _Folders:
    """The open folders of one batch, by path; the oldest one is closed first."""

    def __init__(self, root_path: str, root: int | None) -> None:
        self._root_path = root_path
        self._root = root
        self._mount = None if root is None else mount_of(root)
        self._open: dict[str, int] = {}

    def open(self, path: str) -> int | None:
        """A folder below the base path; None if it does not exist. Raises ``LinkRefused``, ``StorageError``."""
        if not path or self._root is None:
            return self._root
        folder = self._open.get(path)
        return folder if folder is not None else self._walk(path, make=False)

    def make(self, path: str) -> int:
        """A folder below the base path, which is created if it does not exist."""
        folder = self.open(path)
        if folder is None and self._root is not None:
            folder = self._walk(path, make=True)
        if folder is None:
            raise StorageError(f"{self._root_path}/{path} is not a folder")
        return folder

    def full(self, path: str) -> str:
        """The full path, for messages."""
        return f"{self._root_path}/{path}"

    def close(self) -> None:
        """Close all folders."""
        for folder in (*self._open.values(), self._root):
            if folder is not None:
                os.close(folder)

    def _walk(self, path: str, *, make: bool) -> int | None:
        assert self._root is not None
        folder = os.dup(self._root)
        at = self._root_path
        for name in path.split("/"):
            at = f"{at}/{name}"
            try:
                below = _open_below(folder, name, at, make=make)
            finally:
                os.close(folder)
            if below is None:
                return None
            if mount_of(below) != self._mount:
                os.close(below)
                raise LinkRefused(
                    f"{at} is a mount: mounts below a table's base path are not followed; unmount it, or mount "
                    "the base path itself"
                )
            folder = below
        return self._keep(path, folder)

    def _keep(self, path: str, folder: int) -> int:
        if len(self._open) >= _OPEN_FOLDERS:
            os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = folder
        return folder


def _open_below(above: int, name: str, at: str, *, make: bool) -> int | None:
    """A folder in an open folder; None if it does not exist, or is a file."""
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
        return os.open(name, _BELOW, dir_fd=above)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        if not isinstance(exc, OSError) or exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise failed(at, exc) from exc
    status = _stat(above, name)
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise LinkRefused(f"{at} is a link: links below a table's base path are not followed; remove it")
    return None


def _stat(folder: int, name: str) -> os.stat_result | None:
    """The status of a name in an open folder, of a link and not of its target; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _size(folders: _Folders, path: str) -> int | None:
    at, name = check_path(path)
    folder = folders.open(at)
    if folder is None:
        return None
    try:
        status = _stat(folder, name)
    except OSError as exc:
        raise failed(folders.full(path), exc) from exc
    return None if status is None or stat.S_ISDIR(status.st_mode) else status.st_size


def _entries(folders: _Folders, at: str) -> tuple[list[StoredFile], list[str]]:
    """The files directly in a folder, and the paths of the folders in it, by name."""
    folder = folders.open(at)
    if folder is None:
        return [], []
    files, below = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    below.append(f"{at}/{entry.name}" if at else entry.name)
                elif (status := _stat(folder, entry.name)) is not None:
                    # The change of the inode: unlike that of the content, no program sets it.
                    files.append(StoredFile(at, entry.name, status.st_size, status.st_ctime))
    except OSError as exc:
        raise failed(folders.full(at), exc) from exc
    return files, below


def _create(folder: int, name: str, full: str) -> bool:
    try:
        os.close(os.open(name, _NEW, 0o644, dir_fd=folder))
    except FileExistsError:
        return False
    except OSError as exc:
        raise failed(full, exc) from exc
    return True


def _read(folder: int | None, name: str, full: str, bytes_max: int, begin: int | None = None) -> bytes | None:
    """A small file in an open folder, or by its full path, or its part from ``begin`` on; None if missing."""
    try:
        # Without O_NONBLOCK, opening a pipe of this name would block.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StorageError(f"{full} is not a regular file; remove it")
            if begin is not None:
                return os.pread(file.fileno(), bytes_max, begin)
            body = file.read(bytes_max + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise LinkRefused(f"{full} is a link: links below a table's base path are not followed") from exc
        raise failed(full, exc) from exc
    if len(body) > bytes_max:
        raise too_large(full, bytes_max)
    return body


def _publish(folder: int, name: str, body: bytes) -> bool:
    """Create a file atomically and durably; returns False if the name exists."""
    is_new = _link(folder, _write_part(folder, name, body), name)
    if is_new:
        os.fsync(folder)
    return is_new


def _publish_all(
    folder: int, bodies: Sequence[tuple[str, bytes]], run: Callable[..., Iterable[str]]
) -> list[bool]:
    """As ``_publish`` for several files, which appear in order. After a failure, some of them are there.

    ``run`` is ``map``, or that of an executor.
    """
    parts = run(lambda entry: _write_part(folder, *entry), bodies)
    flags = [_link(folder, part, name) for part, (name, _) in zip(parts, bodies, strict=True)]
    os.fsync(folder)
    return flags


def _link(folder: int, part: str, name: str) -> bool:
    try:
        # Unlike a rename, link fails if the name exists.
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        os.unlink(part, dir_fd=folder)
    return True


def _overwrite(folder: int, name: str, body: bytes) -> None:
    # Hadoop keeps a checksum beside each file that it writes to a local disk, and fails if it is of another
    # content. Without it nothing is compared.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f".{name}.crc", dir_fd=folder)
    os.rename(_write_part(folder, name, body), name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def _write_part(folder: int, name: str, body: bytes) -> str:
    """Write a temporary file durably; returns its name."""
    # Where the metadata of a partition is missing, Hudi's Spark reader takes each file for it whose name begins
    # with .hoodie_partition_metadata, and fails at a second one. So the name of the file does not come first.
    part = f".{uuid.uuid4().hex}.{name.removeprefix('.')}.part"
    with open(os.open(part, _NEW, 0o444, dir_fd=folder), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    return part


def _tag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _delete(folders: _Folders, path: str) -> str | None:
    """Delete a file; returns the reason if it could not be deleted."""
    try:
        at, name = check_path(path)
        folder = folders.open(at)
        if folder is not None:
            # If the name is a link, the link is removed and not its target.
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, StorageError) as exc:
        return reason(exc)
    return None


def _remove_empty(folders: _Folders, path: str) -> None:
    """Remove a folder and the folders in it, if they are empty, the deepest first."""
    for below in _entries(folders, path)[1]:
        _remove_empty(folders, below)
    above, _, name = path.rpartition("/")
    folder = folders.open(above)
    if folder is not None:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=folder)
