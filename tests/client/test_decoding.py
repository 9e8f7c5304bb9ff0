"""Threads that use a type for the first time at once: msgspec alone crashes the process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_FIRST_USES = r"""
import os, sys, threading

{imports}

def child():
    sys.setswitchinterval(1e-6)
    barrier = threading.Barrier(16)
    def run():
        barrier.wait()
        {use}
    threads = [threading.Thread(target=run) for _ in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    os._exit(0)

codes = set()
for _ in range(12):
    process = os.fork()
    if process == 0:
        child()
    codes.add(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(sorted(codes))
"""
_TIMELINE = """
from chronolake_hudi import metadata
from chronolake_hudi.timeline_files import Layout
content = b'{"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f"}]}, "extraMetadata": {}}'
"""
_FILES = """
file = {"partition_path": "p", "file_id": "f", "file_name": "n", "size_bytes": 1, "records": 1}
instant = {"requested_time": "20260101000000000", "action": "commit", "write_stats": [file]}
column = {"name": "k", "type": "int"}
definition = {"name": "a.b", "base_path": "/b", "schema": [column], "record_key_fields": ["k"]}
"""
_CLIENT = f"""
import httpx, json
from chronolake import _http, calls
from chronolake_model import operations
{_FILES}
table = definition | {{
    "table_id": "1", "metastore_id": "2", "type": "copy_on_write", "partition_fields": [],
    "ordering_field": None, "index": {{"type": "bucket", "buckets": 4}}, "tick": "1ms", "properties": {{}},
    "schema_version": 1, "created_at": "2026-01-01T00:00:00Z",
    "schema": [column | {{"nullable": False, "field_id": 1}}],
}}
call = calls.call(operations.catalog.GET_TABLE, "a.b")
response = httpx.Response(200, json=table, request=httpx.Request("GET", "http://localhost"))
"""
_SERVER = f"""
import json, msgspec
from chronolake_metastore.app import create_app
from chronolake_metastore.settings import Settings
from chronolake_model.adoption import AdoptTable
{_FILES}
content = json.dumps({{"definition": definition, "instants": [instant], "writer": "w"}})
create_app(Settings(dsn=""))
"""


@pytest.mark.parametrize(
    ("imports", "use"),
    [
        (_TIMELINE, 'metadata.decode(content, metadata.CommitMetadata, "p", Layout.ONE)'),
        (_CLIENT, "_http.answer_of(call, response)"),
        (_SERVER, "msgspec.json.decode(content, type=AdoptTable)"),
    ],
    ids=["a timeline", "answers of the server", "requests in the server"],
)
def test_threads_may_use_a_type_for_the_first_time_at_once(imports: str, use: str) -> None:
    # Children are forked from a process that has imported the types, and not used them.
    script = _FIRST_USES.format(imports=imports, use=use)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[0]"


def test_types_are_decoded_and_converted_by_one_module_only(repository: Path) -> None:
    arguments = r"(?:[^()]|\([^()]*\))*"
    typed = re.compile(
        rf"msgspec\.(convert\(|json\.Decoder\(|msgpack\.|yaml\.|toml\.|json\.decode\({arguments}type=)"
    )
    found = [
        f"{path.relative_to(repository)}: {match.group()}"
        for folder in ("client", "metastore", "migrations", "spark_integration")
        for path in (repository / folder).rglob("*.py")
        if path.name != "decoding.py"
        for match in typed.finditer(path.read_text())
    ]
    assert found == []
