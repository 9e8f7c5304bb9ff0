"""The store of the soak: a local folder, or a bucket of moto.

``python -m benchmarks.soak_store <port>`` serves the S3 API of the tests, in a process of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
from werkzeug.serving import make_server

import chronolake
from benchmarks import running
from chronolake.storage import open_storage
from tests.fix_s3 import KEYS, Gateway
from tests.fix_server import free_port
from tests.processes import wait_until

_BUCKET = "soak"


@contextlib.contextmanager
def base_path(storage: str, folder: Path) -> Iterator[str]:
    """The base path of a table in a store, ``local`` or ``s3``. All processes find S3 by their environment."""
    if storage == "local":
        yield str(folder / "table")
        return
    port = free_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEYS["access_key"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret_key"],
        "AWS_REGION": KEYS["region"],
    }
    command = [sys.executable, "-m", "benchmarks.soak_store", str(port)]
    with subprocess.Popen(command, cwd=running.HERE.parent) as moto:
        try:
            wait_until(lambda: _makes_bucket(port))
            yield f"s3://{_BUCKET}/table"
        finally:
            moto.kill()


def _makes_bucket(port: int) -> bool:
    files = pafs.S3FileSystem(
        **KEYS, endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
    )
    with contextlib.suppress(OSError):
        files.create_dir(_BUCKET)
        return True
    return False


def data_files(table: chronolake.Table) -> list[str]:
    """The base files and log files of a table in its store, by their paths there."""
    listing = open_storage(table.definition.base_path).listing()
    paths = [file.path for file in listing]
    return [path for path in paths if path.endswith(".parquet") or ".log." in path]


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    make_server("127.0.0.1", int(sys.argv[1]), Gateway(), threaded=True).serve_forever()
