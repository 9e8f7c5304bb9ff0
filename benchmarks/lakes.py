"""Folders for the tables of a benchmark: on the local disk, and in an S3 API on loopback."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing

import msgspec
import pyarrow.fs as pafs

from chronolake_model.storage import PREFIX
from chronolake_storage import opening
from chronolake_storage.files import Files

KEYS = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
_BUCKET = "lake"
_READY_SECONDS_MAX = 30.0


class Lake(msgspec.Struct, frozen=True):
    """Where tables are. ``properties`` are those that a table of this place needs."""

    name: str
    root: str
    options: dict[str, str] = {}
    properties: dict[str, str] = {}

    def base_path(self, table: str) -> str:
        """The base path of a table."""
        return f"{self.root}/{table}"

    def files(self, table: str) -> Files:
        """The files of a table; a local folder is made."""
        files = opening.open_files(self.base_path(table), self.options)
        files.make_folder()
        return files


def local() -> Lake:
    """A folder that goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="chronolake-bench-lake-")
    atexit.register(folder.cleanup)
    return Lake("local disk", folder.name)


def s3() -> Lake:
    """A bucket in a moto server, a process of its own, which ends with this one.

    Servers that this process starts from now on have the credentials and may use the endpoint.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.terminate)
    _wait_for(port)
    url = f"http://127.0.0.1:{port}"
    filesystem = pafs.S3FileSystem(
        **KEYS, endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
    )
    filesystem.create_dir(_BUCKET)
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = (
        KEYS["access_key"],
        KEYS["secret_key"],
    )
    os.environ["CHRONOLAKE_STORAGE_ENDPOINTS"] = url
    public = {"endpoint_override": url, "region": KEYS["region"]}
    properties = {f"{PREFIX}{name}": value for name, value in public.items()}
    return Lake("S3 (moto)", f"s3://{_BUCKET}", {**KEYS, **public}, properties)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("moto does not answer")
