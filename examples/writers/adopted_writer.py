"""A writer of adopted tables: upserts into the file groups that Hudi made (docs/concepts/adoption.md).

It is for copy-on-write tables without an ordering field.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import chronolake
from chronolake import MarkerKind, field_ids
from chronolake.storage import open_filesystem

KEY = "_hoodie_record_key"
HUDI = ("_hoodie_commit_time", "_hoodie_commit_seqno", KEY, "_hoodie_partition_path", "_hoodie_file_name")


def upsert(table: chronolake.Table, partition_path: str, rows: pa.Table) -> None:
    """Write rows into a partition, in place of the stored rows with their keys.

    `rows` has all columns of the table, and each key once. Ordering values are not compared. The table is
    copy-on-write and has one key field, a string or an integer. None of its columns was renamed or widened.
    """
    [key_field] = table.definition.record_key_fields
    filesystem, root = open_filesystem(table.definition.base_path, table.storage_options)
    rows = rows.append_column(KEY, rows[key_field].cast(pa.string()))
    with table.begin(operation=chronolake.Operation.UPSERT) as write:
        # After begin: if another writer changes a file group from now on, complete is refused.
        for file_slice in table.snapshot(partition_path=partition_path).slices:
            assert file_slice.base_file is not None
            with filesystem.open_input_file(f"{root}/{file_slice.base_file.path}") as file:
                stored = pq.ParquetFile(file).read()
            is_here = pc.is_in(rows[KEY], stored[KEY])
            if pc.any(is_here).as_py():
                others = stored.filter(pc.invert(pc.is_in(stored[KEY], rows[KEY])))
                group = (partition_path, file_slice.file_id)
                put(table, write, group, MarkerKind.MERGE, others, rows.filter(is_here))
                rows = rows.filter(pc.invert(is_here))
        if rows.num_rows:
            group = (partition_path, f"{uuid.uuid4()}-0")
            put(table, write, group, MarkerKind.CREATE, rows.slice(0, 0), rows)
        write.complete(keys_looked_up=True)


def put(
    table: chronolake.Table,
    write: chronolake.Write,
    group: tuple[str, str],
    kind: MarkerKind,
    others: pa.Table,
    rows: pa.Table,
) -> None:
    """Write the next base file of a file group, with the `others` of the file before, and add it to the commit.

    `group` is the partition path and the file id.
    """
    filesystem, root = open_filesystem(table.definition.base_path, table.storage_options)
    (partition_path, file_id), time, task = group, write.requested_time, len(write.stats)
    name = f"{file_id}_{task}-0-0_{time}.parquet"
    write.mark(chronolake.Marker(partition_path, name, kind))
    # A record that does not change keeps its values in all columns of Hudi but the name of the file.
    sequence = pa.array([f"{time}_{task}_{number}" for number in range(len(rows))], pa.string())
    rows = rows.append_column("_hoodie_commit_time", pa.repeat(time, len(rows)))
    rows = rows.append_column("_hoodie_commit_seqno", sequence)
    rows = rows.append_column("_hoodie_partition_path", pa.repeat(partition_path, len(rows)))
    content = pa.concat_tables([others, rows], promote_options="default")
    columns = {column: content[column] for column in content.column_names}
    columns["_hoodie_file_name"] = pa.chunked_array([pa.repeat(name, len(content))])
    names = [*HUDI, *(field.name for field in table.definition.schema)]
    # A table without the metadata of the file before: its bloom filter is of other keys.
    content = pa.table({column: columns[column] for column in names})
    content = content.cast(field_ids.with_field_ids(content.schema, table.definition.schema))
    filesystem.create_dir(f"{root}/{partition_path}")
    path = f"{root}/{partition_path}/{name}".replace("//", "/")
    pq.write_table(content, path, filesystem=filesystem)
    size_bytes, updates = filesystem.get_file_info(path).size, len(rows) if kind is MarkerKind.MERGE else 0
    write.add(
        chronolake.WriteStat(
            partition_path,
            file_id,
            name,
            size_bytes,
            len(content),
            inserts=len(rows) - updates,
            updates=updates,
        )
    )
