"""A commit by the client that openapi-python-client has generated."""

from __future__ import annotations

import sys

from chronolake_client import Client
from chronolake_client.api.files import get_snapshot
from chronolake_client.api.namespaces import create_namespace, get_namespace
from chronolake_client.api.tables import create_table
from chronolake_client.api.timeline import begin_instant, complete_instant
from chronolake_client.models import (
    BeginInstant,
    CompleteInstant,
    CreateNamespace,
    CreateTable,
    NewField,
    WriteStat,
)
from chronolake_client.models.create_table_properties import CreateTableProperties

url, namespace, base_path, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
table, file_id = f"{namespace}.made", "00000000-0000-0000-0000-000000000000-0"
client = Client(base_url=url)
create_namespace.sync(client=client, body=CreateNamespace(name=namespace))
properties = CreateTableProperties.from_dict({"hudi.publish": "false"})
fields = [NewField(name="id", type_="bigint")]
definition = CreateTable(
    name=table, base_path=base_path, schema=fields, record_key_fields=["id"], properties=properties
)
create_table.sync(client=client, body=definition)
begun = begin_instant.sync(table, client=client, body=BeginInstant(writer="generated"))
time = begun.requested_time
stat = WriteStat(
    partition_path="", file_id=file_id, file_name=f"{file_id}_0-0-0_{time}.parquet", size_bytes=size, records=1
)
complete_instant.sync(table, time, client=client, body=CompleteInstant(writer="generated", write_stats=[stat]))
snapshot = get_snapshot.sync(table, client=client)
print(snapshot.slices[0].base_file.size_bytes)
print(get_namespace.sync("nothing", client=client).code)
