"""A complete writer of Chronolake tables: pyarrow, and no package of Chronolake's; see docs/writing.md.

    python python_writer.py URL NAMESPACE.TABLE insert|upsert ROWS.jsonl
    python python_writer.py vectors vectors.json

It writes copy-on-write tables with a bucket index. Each line of ROWS.jsonl is a JSON object with every column;
decimals are texts, dates texts (2026-01-31) or days since 1970-01-01, timestamps microseconds since then.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from python_keys import (
    base_file_name,
    bucket_of,
    file_id_of,
    key_hash,
    key_text,
    partition_path,
    partition_text,
    record_key,
    write_token,
)

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
FIRST_META_ID = 2_000_000_001
LEASE_SECONDS = 60
ACTOR = "python-writer"
"""The sender in the log. A job of yours has a name by which its owner knows it."""
RETRY_SECONDS = 60.0
CONFLICTS_MAX = 10
CLAIM = ".hoodie/.chronolake-claim.json"
Json = dict[str, Any]

# ---- the server: REST, with retries


class Refused(Exception):
    """The server refused: ``status``, and ``code`` of the problem (RFC 9457)."""

    def __init__(self, status: int, problem: Json) -> None:
        super().__init__(f"{status} {problem.get('code')}: {problem.get('detail')}")
        self.status = status
        self.code = problem.get("code")


class Server:
    """Sends requests, and repeats them without an answer, a command under the same idempotency key."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._trusted = ssl.create_default_context(cafile=os.environ.get("CHRONOLAKE_CA_FILE"))
        self._table_id: str | None = None

    def open_table(self, name: str) -> Json:
        """A table. No later request reaches another table that has the name by then."""
        table = self.get(f"/v1/tables/{name}")
        self._table_id = table["table_id"]
        return table

    def get(self, path: str) -> Json:
        """The answer to a GET."""
        return self._send("GET", path, None)

    def post(self, path: str, body: Json) -> Json:
        """The answer to a command. Raises ``Refused``, and ``OSError`` when no server answers in time."""
        return self._send("POST", path, json.dumps(body).encode())

    def pages(self, path: str, entries: str) -> Iterator[Json]:
        """The entries of all pages of a list."""
        cursor = ""
        while cursor is not None:
            page = self.get(path + (f"{'&' if '?' in path else '?'}cursor={quote(cursor)}" if cursor else ""))
            yield from page[entries]
            cursor = page["next_cursor"]

    def _send(self, method: str, path: str, body: bytes | None) -> Json:
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        if self._table_id is not None:
            headers["Chronolake-Table-Id"] = self._table_id
        deadline, pause = time.monotonic() + RETRY_SECONDS, 0.1
        while True:
            request = urllib.request.Request(self._url + path, body, headers, method=method)
            # A redirection to another server does not get the token.
            request.add_unredirected_header(*_sender())
            try:
                with urllib.request.urlopen(request, timeout=30, context=self._trusted) as response:
                    answer: Json = json.loads(response.read() or b"{}")
                    return answer
            except urllib.error.HTTPError as exc:
                # 502, 503, 504: there was no decision, or its answer was lost.
                if exc.code not in (502, 503, 504) or time.monotonic() > deadline:
                    raise Refused(exc.code, _problem(exc.read())) from exc
            except (OSError, ValueError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 5.0)


def _sender() -> tuple[str, str]:
    """The header that names the sender. A token is read for each request, because it may be replaced."""
    token, file = os.environ.get("CHRONOLAKE_TOKEN"), os.environ.get("CHRONOLAKE_TOKEN_FILE")
    if not token and file:
        token = Path(file).read_text(encoding="ascii").strip()
    return ("Authorization", f"Bearer {token}") if token else ("Chronolake-Actor", ACTOR)


def _problem(body: bytes) -> Json:
    with contextlib.suppress(ValueError):
        problem: Json = json.loads(body)
        return problem
    return {"detail": body[:200].decode(errors="replace")}


# ---- one write


def write(server: Server, name: str, operation: str, rows: Sequence[Json]) -> Json:
    """Insert or upsert rows as one instant, and give it, completed.

    Begins again when another writer has published the file groups first. Raises ``Refused``, ``ValueError``.
    """
    for _ in range(CONFLICTS_MAX):
        attempt = Attempt(server, name, operation)
        try:
            return attempt.run(rows)
        except Refused as exc:
            if exc.code != "write-conflict":
                raise
    raise RuntimeError(f"{name}: {CONFLICTS_MAX} times another writer was faster")


class Attempt:
    """One instant from begin to complete, or to its rollback."""

    def __init__(self, server: Server, name: str, operation: str) -> None:
        self.server = server
        self.operation = operation
        self.table = server.open_table(name)
        if self.table["type"] != "copy_on_write" or self.table["index"]["type"] != "bucket":
            raise ValueError(f"{name} is no copy-on-write table with a bucket index")
        self.types = {field["name"]: field["type"] for field in self.table["schema"]}
        self.merge_field: str | None = self.table["ordering_field"]
        if self.table["properties"].get("merge.mode") == "commit-time":
            self.merge_field = None
        refuse_other_types(self.types)
        self.filesystem, self.root = file_system(self.table["base_path"])
        self.writer = f"python-writer-{uuid.uuid4()}"
        self.instants = f"/v1/tables/{name}/instants"
        self.schemas = f"/v1/tables/{name}/schemas"
        self.snapshot = f"/v1/tables/{name}/snapshot"

    def run(self, rows: Sequence[Json]) -> Json:
        """Write and complete. After a failure, roll the instant back and delete its files."""
        groups = self.file_groups([stored_row(number, row, self.types) for number, row in enumerate(rows, 1)])
        self.check_claim(self.table["metastore_id"], self.table["table_id"])
        begin = {"writer": self.writer, "operation": self.operation, "lease_seconds": LEASE_SECONDS}
        self.instant = self.server.post(self.instants, begin)
        self.time = self.instant["requested_time"]
        self.path = f"{self.instants}/{self.time}"
        try:
            if self.instant["buckets"] != self.table["index"]["buckets"]:
                raise ValueError("the table was resized meanwhile: the rows belong to other buckets; try again")
            with self.heartbeats():
                # The snapshot is read after begin: a completion in between is a conflict, not a lost update.
                stored = self.stored_files()
                stats = [
                    stat
                    for number, (group, new) in enumerate(sorted(groups.items()))
                    if (stat := self.write_group(number, group, new, stored.get(group)))
                ]
            body = {"writer": self.writer, "write_stats": stats}
            body["schema_version"] = self.table["schema_version"]
            return self.server.post(f"{self.path}/complete", body)
        except BaseException as exc:
            # 410: the lease had ended, and another client or the server has rolled the instant back.
            if not (isinstance(exc, Refused) and exc.status == 410):
                self.roll_back(str(exc))
            raise

    def check_claim(self, metastore_id: str, table_id: str) -> None:
        """Claim the base path if it has no claim. Raises ``ValueError`` if another table has claimed it.

        A claim is made on a local disk only: elsewhere it takes a conditional put, which pyarrow does not have.
        """
        owner = {"metastore_id": metastore_id, "table_id": table_id}
        claim = self.read_claim()
        if claim is None and isinstance(self.filesystem, pafs.LocalFileSystem):
            self.make_claim(owner | {"format_version": 1, "table": self.table["name"]})
            claim = self.read_claim()
        if claim is not None and claim["format_version"] != 1:
            raise ValueError(f"{self.root}/{CLAIM} has a format that this writer does not know")
        if claim is not None and {part: claim[part] for part in owner} != owner:
            raise ValueError(f"{self.root} is claimed by {claim['table']} of metastore {claim['metastore_id']}")

    def read_claim(self) -> Json | None:
        """The claim of the base path, if there is one."""
        try:
            with self.filesystem.open_input_file(f"{self.root}/{CLAIM}") as file:
                claim: Json = json.loads(file.read())
                return claim
        except FileNotFoundError:
            return None

    def make_claim(self, claim: Json) -> None:
        """Write a complete claim, unless another client was faster."""
        path = Path(self.root, CLAIM)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4()}")
        claimed_at = datetime.now(UTC).isoformat(timespec="seconds")
        temporary.write_text(json.dumps({**claim, "claimed_at": claimed_at}), encoding="utf-8")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()

    def file_groups(self, rows: Sequence[Json]) -> dict[tuple[str, int], dict[str, Json]]:
        """The rows by partition path and bucket, in there by record key: one row per key."""
        keys, partitions = self.table["record_key_fields"], self.table["partition_fields"]
        style = spelling(self.table["properties"])
        groups: dict[tuple[str, int], dict[str, Json]] = {}
        for row in rows:
            texts = [key_text(row[name], self.types[name]) for name in keys]
            values = [partition_text(row[name], self.types[name]) for name in partitions]
            path = partition_path(partitions, values, **style)
            group = groups.setdefault((path, bucket_of(texts, self.table["index"]["buckets"])), {})
            key = record_key(keys, texts)
            if key in group and self.operation == "insert":
                raise ValueError(f"the key {key!r} comes twice")
            if key not in group or self.replaces(row, group[key]):
                group[key] = row
        return groups

    def replaces(self, new: Json, old: Json) -> bool:
        """Whether a row replaces another of its key: the greater ordering value wins, or the later row."""
        field = self.merge_field
        if field is None or old[field] is None:
            return True
        if new[field] is None:
            return False
        later, earlier = (column([row[field]], self.types[field])[0].as_py() for row in (new, old))
        return bool(later >= earlier)

    def stored_files(self) -> dict[tuple[str, int], Json]:
        """The present base file of each file group: file id, path, and the version of its schema."""
        slices = self.server.pages(self.snapshot, "slices")
        return {
            (slice_["partition_path"], int(slice_["file_id"][:8])): {
                "file_id": slice_["file_id"],
                **slice_["base_file"],
            }
            for slice_ in slices
            if slice_["base_file"]
        }

    def write_group(
        self, number: int, group: tuple[str, int], new: dict[str, Json], stored: Json | None
    ) -> Json | None:
        """Merge rows into a file group's base file: the write stat of the next one; None if nothing changes."""
        partition, bucket = group
        old = self.read(stored) if stored else None
        old_keys = old["_hoodie_record_key"].to_pylist() if old else []
        if self.operation == "insert" and (known := new.keys() & set(old_keys)):
            raise ValueError(f"the table has the key {min(known)!r} already")
        if self.merge_field and old:
            new = self.winners(new, old, old_keys)
        if not new:
            return None
        # Partition, stage and attempt of the task: no two attempts of one instant may share a name.
        token = write_token(number, 0, 0)
        file_id = stored["file_id"] if stored else file_id_of(bucket)
        name = base_file_name(file_id, token, self.time)
        kept = [index for index, key in enumerate(old_keys) if key not in new]
        tables = [self.renamed(old.take(pa.array(kept, pa.int64())), name)] if old else []
        tables.append(self.stamped(new, partition, name, number))
        size = self.write_file(partition, name, "MERGE" if stored else "CREATE", pa.concat_tables(tables))
        updates = len(old_keys) - len(kept)
        stat = {"partition_path": partition, "file_id": file_id, "file_name": name, "size_bytes": size}
        counts = {"records": len(kept) + len(new), "inserts": len(new) - updates, "updates": updates}
        return stat | counts | {"has_field_ids": True}

    def winners(self, new: dict[str, Json], old: pa.Table, old_keys: list[str]) -> dict[str, Json]:
        """The rows that are new, or that replace stored records."""
        field = self.merge_field
        assert field is not None, "without one, all rows win"
        values = dict(zip(old_keys, physical(old[field]), strict=True))
        return {
            key: row
            for key, row in new.items()
            if key not in values or self.replaces(row, {field: values[key]})
        }

    def read(self, stored: Json) -> pa.Table:
        """A base file with the table's present columns; those that it lacks are null."""
        version = stored["schema_version"]
        fields = self.table["schema"]
        if version != self.table["schema_version"]:
            fields = self.server.get(f"{self.schemas}/{version}")["fields"]
        names = {field["field_id"]: field["name"] for field in fields}
        with self.filesystem.open_input_file(f"{self.root}/{stored['path']}") as source:
            file = pq.read_table(source)
        own = [
            file[names[field["field_id"]]].cast(arrow_type(field["type"]))
            if field["field_id"] in names
            else pa.nulls(len(file), arrow_type(field["type"]))
            for field in self.table["schema"]
        ]
        return pa.table([*(file[name] for name in META), *own], schema=self.schema())

    def schema(self) -> pa.Schema:
        """The layout of a base file: five texts, then the table's columns; all may be null, with field ids."""
        meta = [parquet_field(name, pa.string(), FIRST_META_ID + index) for index, name in enumerate(META)]
        own = [
            parquet_field(field["name"], arrow_type(field["type"]), field["field_id"])
            for field in self.table["schema"]
        ]
        return pa.schema([*meta, *own])

    def renamed(self, old: pa.Table, name: str) -> pa.Table:
        """Stored rows in another file: only the file name changes. They keep the commit that wrote them."""
        return old.set_column(4, old.schema.field(4), pa.array([name] * len(old), pa.string()))

    def stamped(self, new: dict[str, Json], partition: str, name: str, number: int) -> pa.Table:
        """New rows with the five columns before their own."""
        count = len(new)
        numbers = [f"{self.time}_{number}_{index}" for index in range(count)]
        meta = [[self.time] * count, numbers, list(new), [partition] * count, [name] * count]
        own = [column([row[field] for row in new.values()], type_) for field, type_ in self.types.items()]
        return pa.table([*(pa.array(values, pa.string()) for values in meta), *own], schema=self.schema())

    def write_file(self, partition: str, name: str, kind: str, rows: pa.Table) -> int:
        """Mark the file, then write it, and give its size: a file in storage always has a marker."""
        marker = {"partition_path": partition, "file_name": name, "kind": kind}
        self.server.post(f"{self.path}/markers", {"markers": [marker], "writer": self.writer})
        folder = f"{self.root}/{partition}".rstrip("/")
        if isinstance(self.filesystem, pafs.LocalFileSystem):
            self.filesystem.create_dir(folder, recursive=True)
        with self.filesystem.open_output_stream(f"{folder}/{name}") as sink:
            pq.write_table(rows, sink, compression="zstd", coerce_timestamps="us")
            return int(sink.tell())

    @contextlib.contextmanager
    def heartbeats(self) -> Iterator[None]:
        """Renew the lease three times in each lease, while the block runs."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(LEASE_SECONDS / 3):
                with contextlib.suppress(Refused, OSError):
                    self.server.post(f"{self.path}/heartbeat", {"writer": self.writer})

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def roll_back(self, reason: str) -> None:
        """Roll the instant back, delete its marked files, and report them. If that fails, its lease ends."""
        with contextlib.suppress(Refused, OSError, ValueError):
            undone = self.server.post(f"{self.path}/rollback", {"writer": self.writer, "reason": reason[:500]})
            rollback = f"{self.instants}/{undone['rolled_back_by']}"
            if self.server.get(rollback)["state"] != "inflight":
                return
            files = [
                {"partition_path": marker["partition_path"], "file_name": marker["file_name"]}
                for marker in self.server.pages(f"{self.path}/markers?unpublished=true", "markers")
            ]
            for first in range(0, len(files), 5_000):
                self.delete(rollback, files[first : first + 5_000])
            # The server refuses this until all files are reported.
            self.server.post(f"{rollback}/complete", {"writer": self.writer})

    def delete(self, rollback: str, files: Sequence[Json]) -> None:
        """Delete the files that a rollback may delete, and report them."""
        answer = self.server.post(f"{rollback}/deletable", {"files": files, "writer": self.writer})
        self.check_claim(answer["metastore_id"], answer["table_id"])
        refused = {(file["partition_path"], file["file_name"]) for file in answer["refused"]}
        deletable = [file for file in files if (file["partition_path"], file["file_name"]) not in refused]
        for file in deletable:
            path = f"{file['partition_path']}/{file['file_name']}".lstrip("/")
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(f"{self.root}/{path}")
        if deletable:
            self.server.post(f"{rollback}/deletions", {"files": deletable, "writer": self.writer})


# ---- columns


def file_system(base_path: str) -> tuple[pafs.FileSystem, str]:
    """Where the table's files are. S3 takes its credentials from the environment."""
    if "://" not in base_path:
        return pafs.LocalFileSystem(), base_path.rstrip("/")
    filesystem, root = pafs.FileSystem.from_uri(base_path)
    return filesystem, root.rstrip("/")


def refuse_other_types(types: dict[str, str]) -> None:
    """Raise ``ValueError`` for columns of types that this example does not write."""
    others = [
        f"{name} ({type_})" for name, type_ in types.items() if kind_of(type_) not in (*ARROW_TYPES, "decimal")
    ]
    if others:
        raise ValueError(
            f"this example does not write the columns {', '.join(others)}; it writes the types "
            f"{', '.join(ARROW_TYPES)} and decimal"
        )


def kind_of(type_: str) -> str:
    """A type without precision and scale, in lower case."""
    return type_.strip().lower().partition("(")[0]


def parquet_field(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    """A column of a file, with its field id."""
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a column."""
    if kind_of(type_) == "decimal":
        precision, scale = type_.partition("(")[2].strip(") ").split(",")
        return pa.decimal128(int(precision), int(scale))
    return ARROW_TYPES[kind_of(type_)]


def stored_row(number: int, row: Json, types: dict[str, str]) -> Json:
    """A row with whole numbers for dates, timestamps and integers; ``ValueError`` names row and column."""
    if row.keys() != types.keys():
        raise ValueError(f"row {number} has the columns {', '.join(row)}, and the table {', '.join(types)}")
    stored = dict(row)
    for name, type_ in types.items():
        if row[name] is not None and kind_of(type_) in COUNTED:
            try:
                stored[name] = whole_number(row[name], kind_of(type_))
            except ValueError as exc:
                form = FORMS[kind_of(type_)]
                raise ValueError(f"row {number}: {row[name]!r} is no {type_}; write {name} as {form}") from exc
    return stored


def whole_number(value: Any, kind: str) -> int:
    """Days, microseconds, or the integer itself. Raises ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("neither an integer nor a text")
    if kind != "date" or isinstance(value, int):
        return int(value)
    return (datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC) - EPOCH).days


ARROW_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
FORMS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "an integer"),
    "date": "2026-01-31, or the days since 1970-01-01 as an integer",
    "timestamp": "the microseconds since 1970-01-01 00:00 UTC as an integer",
    "timestamp_ntz": "the microseconds since 1970-01-01 00:00 as an integer",
}
COUNTED = FORMS.keys()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def column(values: Sequence[Any], type_: str) -> pa.Array:
    """A column of values of ``stored_row``; a value that the type cannot hold raises ``pa.ArrowInvalid``."""
    arrow = arrow_type(type_)
    if kind_of(type_) == "decimal":
        return pa.array([None if value is None else Decimal(value) for value in values], arrow)
    if kind_of(type_) not in COUNTED:
        return pa.array(values, arrow)
    numbers = pa.array(values, pa.int64())
    return numbers.cast(pa.int32()).cast(arrow) if pa.types.is_date(arrow) else numbers.cast(arrow)


def physical(values: pa.ChunkedArray) -> list[Any]:
    """The values of a column as ``stored_row`` has them."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    # NaN counts as null: it compares with nothing.
    return [None if value != value else value for value in values.to_pylist()]  # noqa: PLR0124


def spelling(properties: dict[str, str]) -> dict[str, bool]:
    """How the table spells its partition paths."""
    return {
        "hive_style": properties.get("partition-paths.hive-style") != "false",
        "url_encode": properties.get("partition-paths.url-encode") != "false",
    }


# ---- the command line


def computed(vectors: Json) -> Json:
    """The results of this writer for the test vectors, in the form of the file."""
    return {
        **vectors,
        "keys": [_computed_key(vector) for vector in vectors["keys"]],
        "partition_paths": [_computed_path(vector) for vector in vectors["partition_paths"]],
        "names": [_computed_names(vector) for vector in vectors["names"]],
    }


def _computed_key(vector: Json) -> Json:
    texts = _texts(vector)
    answer = {"fields": vector["fields"], "values": vector["values"], "texts": texts, "key": None}
    with contextlib.suppress(ValueError):
        answer["key"] = record_key([name for name, _ in vector["fields"]], texts)
        answer["xxhash64"] = str(key_hash(texts))
        answer["buckets"] = {count: bucket_of(texts, int(count)) for count in vector["buckets"]}
    return answer


def _computed_path(vector: Json) -> Json:
    pairs = zip(vector["values"], vector["fields"], strict=True)
    texts = [partition_text(value, type_) for value, (_, type_) in pairs]
    style = spelling(vector.get("properties", {}))
    answer = {**vector, "path": None}
    with contextlib.suppress(ValueError):
        answer["path"] = partition_path([name for name, _ in vector["fields"]], texts, **style)
    return answer


def _computed_names(vector: Json) -> Json:
    token = write_token(*vector["attempt"])
    file_id = file_id_of(vector["bucket"], vector["generation"])
    name = base_file_name(file_id, token, vector["requested_time"])
    given = {part: vector[part] for part in ("bucket", "generation", "attempt", "requested_time", "number")}
    return given | {
        "file_id": file_id,
        "write_token": token,
        "file_name": name,
        "marker": f"region=eu/{name}.marker.CREATE",
        "commit_seqno": f"{vector['requested_time']}_{vector['attempt'][0]}_{vector['number']}",
    }


def _texts(vector: Json) -> list[str | None]:
    return [
        key_text(value, type_) for value, (_, type_) in zip(vector["values"], vector["fields"], strict=True)
    ]


def main(args: Sequence[str]) -> None:
    """Run one command line."""
    if args[:1] == ["vectors"]:
        with open(args[1], encoding="utf-8") as file:
            print(json.dumps(computed(json.load(file))))
        return
    if len(args) != 4:
        raise ValueError("usage: python_writer.py URL NAMESPACE.TABLE insert|upsert ROWS.jsonl")
    url, name, operation, path = args
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    print(json.dumps(write(Server(url), name, operation, rows)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (Refused, ValueError, OSError, ArithmeticError, pa.ArrowException) as failure:
        sys.exit(f"python_writer.py: {failure}")
