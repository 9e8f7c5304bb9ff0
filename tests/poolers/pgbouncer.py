"""A real pgbouncer in front of the tests' PostgreSQL, in a process of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chronolake_metastore import embedded
from tests.fix_server import free_port

START_SECONDS_MAX = 30.0


def program() -> str:
    """The program: ``PGBOUNCER``, or the one that is installed."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    found = shutil.which(os.environ.get("PGBOUNCER", "pgbouncer"), path=places)
    assert found, "pgbouncer is not there: run apt-get install pgbouncer, or name its program with PGBOUNCER"
    return found


class PgBouncer:
    """A pgbouncer for one database, whose settings can change while it runs."""

    def __init__(self, folder: Path, dsn: str, **settings: str | int) -> None:
        given = conninfo_to_dict(dsn)
        self._folder = folder
        self._port = free_port()
        self._server = make_conninfo(
            host=given["host"], port=given.get("port") or 5432, dbname=given["dbname"], user=given["user"]
        )
        self.dsn = make_conninfo(
            host="127.0.0.1", port=self._port, dbname=given["dbname"], user=given["user"], sslmode="disable"
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._write(**settings)

    def start(self) -> PgBouncer:
        """Start, and wait until it accepts connections."""
        # Root may not run it, and as the account of PostgreSQL it reaches the embedded one's socket.
        user = {"user": _account()} if os.geteuid() == 0 else {}
        with (self._folder / "output.log").open("ab") as output:
            command = [program(), str(self._folder / "pgbouncer.ini")]
            self._process = subprocess.Popen(command, stdout=output, stderr=output, **user)  # type: ignore[call-overload]
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._accepts():
            assert self._process.poll() is None, (self._folder / "output.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it at once: its clients lose their connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def change(self, **settings: str | int) -> None:
        """Have it read other settings, as an operator does."""
        assert self._process is not None
        self._write(**settings)
        self._process.send_signal(signal.SIGHUP)

    def _write(self, **settings: str | int) -> None:
        lines = {
            "listen_addr": "127.0.0.1",
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "default_pool_size": 100,
            **settings,
        }
        text = "\n".join(f"{name} = {value}" for name, value in lines.items())
        path = self._folder / "pgbouncer.ini"
        path.write_text(f"[databases]\n* = {self._server}\n[pgbouncer]\n{text}\n")
        if os.geteuid() == 0:
            embedded.own(self._folder)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


def _account() -> str:
    try:
        return pwd.getpwnam("pgserver").pw_name
    except KeyError:
        return "nobody"


def version() -> str:
    """The version of the program."""
    shown = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    return shown.split()[1]


def advisory_locks(dsn: str) -> int:
    """The number of advisory locks that sessions hold in a database."""
    query = """
        SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory'
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
    with psycopg.connect(dsn) as connection:
        [[count]] = connection.execute(query).fetchall()
    return int(count)
