"""A PostgreSQL of the test's own whose clock the test sets, and a standby of it with another clock.

libfaketime moves all that PostgreSQL knows of the time but its monotonic clock.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from typing import Self

import psycopg
import pytest

from chronolake_metastore import embedded
from chronolake_metastore.embedded import EmbeddedPostgres

CACHE_SECONDS = 1.0
"""How long a process goes by the clock that it has seen last; libfaketime knows whole seconds only."""


class FakedPostgres:
    """A PostgreSQL of its own, whose clock is set by ``step``."""

    def __init__(self, folder: Path, offset: str = "+0") -> None:
        self._clock = folder / "clock"
        self.step(offset)
        folder.chmod(0o755)
        library = resources.files("libfaketime") / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
        faked = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": str(int(CACHE_SECONDS)),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._faked = faked
        self._folder = folder
        self._start()

    @classmethod
    def make(cls) -> Self:
        """One in a new folder."""
        return cls(_new_folder())

    def standby(self, offset: str) -> FakedPostgres:
        """A synchronous standby of it, on a machine whose clock is so far off."""
        folder = _new_folder()
        copy = folder / "postgres"
        program = str(embedded.programs() / "pg_basebackup")
        options = ["--dbname", self.uri, "--pgdata", str(copy), "--checkpoint=fast", "--write-recovery-conf"]
        subprocess.run([program, *options], check=True, capture_output=True)
        embedded.own(copy)
        standby = FakedPostgres(folder, offset)
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
        return standby

    def _start(self) -> None:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self._faked.items():
                environment.setenv(name, value)
            self._server = EmbeddedPostgres(self._folder)
            self._server.start()
        self.dsn = self._server.dsn
        self.uri = self._server.uri

    def start_again(self, offset: str) -> None:
        """Stop it, and go on with a clock that is so far off, as on another machine."""
        self.stop()
        self.step(offset)
        self._start()

    def step(self, offset: str) -> None:
        """Set the clock so far off the machine's, such as ``-1h``."""
        written = self._clock.with_suffix(".new")
        written.write_text(offset + "\n")
        written.chmod(0o644)
        written.rename(self._clock)

    def crash(self) -> None:
        """End it without a word to its clients."""
        process = int((self._folder / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(process, signal.SIGQUIT)

    def promote(self) -> None:
        """Make a standby the primary."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)

    def stop(self) -> None:
        """Stop it."""
        self._server.release()


def _new_folder() -> Path:
    # As in fix_postgres: pytest's own folder is closed to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="chronolake-faketime-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
