"""Jobs of Spark against a server with access control: their tasks have the token, and nothing shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import chronolake
from tests import fix_secrets
from tests.fix_secrets import ADMIN_TOKEN
from tests.fix_server import ServerProcess
from tests.identity_provider import IdentityProvider

PROGRAM: Final = """
import sys
import chronolake, chronolake_spark

spark = chronolake_spark.session("token", master="local[1]")
spark.sparkContext.setLogLevel("DEBUG")
client = chronolake.connect()
client.create_namespace("shop")
rows = spark.createDataFrame([(1, "de"), (2, "fr")], "id long, country string")
chronolake_spark.create_table(
    client, "shop.orders", rows.schema, base_path=sys.argv[1], record_key_fields=["id"], buckets=2
)
rows.write.format("chronolake").option("table", "shop.orders").mode("append").save()
frame = spark.read.format("chronolake").option("table", "shop.orders").load()
frame.explain(True)
print(spark.sparkContext.getConf().getAll(), repr(client), frame.count())
print("rows", sorted(map(tuple, frame.collect())))
"""

BY_OPTIONS: Final = """
import sys
from pathlib import Path
import chronolake, chronolake_spark
from chronolake import TableType
from pyspark.errors import IllegalArgumentException

folder, url, token_file, secret_file, token_url = sys.argv[1:]
logged = {"enabled": "true", "dir": Path(folder, "events").as_uri(), "compress": "false"}
spark = chronolake_spark.session(
    "token", master="local[1]", settings={f"spark.eventLog.{name}": text for name, text in logged.items()}
)
spark.sparkContext.setLogLevel("DEBUG")
client = chronolake.connect(url, token_file=token_file)
client.create_namespace("shop")
rows = spark.createDataFrame([(1, "de"), (2, "fr")], "id long, country string")
for name in ("orders", "copy"):
    chronolake_spark.create_table(
        client, f"shop.{name}", rows.schema, base_path=f"{folder}/{name}", record_key_fields=["id"], buckets=2,
        type=TableType.MERGE_ON_READ,
    )
orders = chronolake_spark.table(spark, "shop.orders", client=client)
orders.upsert(rows)
orders.upsert(rows)
print("compacted", len(orders.compact().instants))
given = {"table": "shop.orders", "url": url, "token_file": token_file}
rows.write.format("chronolake").options(**given).mode("append").save()
frame = spark.read.format("chronolake").options(**given).load()
frame.explain(True)
print("rows", sorted(map(tuple, frame.collect())))
options = ", ".join(f"{name} '{text}'" for name, text in given.items())
spark.sql(f"CREATE TEMPORARY VIEW plain USING chronolake OPTIONS ({options})")
print("plain", spark.sql("SELECT count(*) FROM plain").first()[0])
changes = spark.readStream.format("chronolake").options(**given).load().select("id", "country")
copied = given | {"table": "shop.copy", "checkpointLocation": f"{folder}/checkpoints"}
query = changes.writeStream.format("chronolake").options(**copied).trigger(availableNow=True)
query.start().awaitTermination()
print("streamed", chronolake_spark.table(spark, "shop.copy", client=client).read().count())
etl = {"client_id": "etl", "client_secret_file": secret_file, "token_url": token_url}
chronolake_spark.catalog(spark, "etl", url, {f"oauth_{name}": text for name, text in etl.items()})
spark.sql("INSERT INTO etl.shop.orders VALUES (3, 'it')")
print("catalog", spark.sql("SELECT count(*) FROM etl.shop.orders").first()[0])
try:
    spark.read.format("chronolake").options(table="shop.orders", url=url).load()
except IllegalArgumentException as refused:
    print("refused", refused)
for name, file in (("token", token_file), ("oauth_client_secret", secret_file)):
    try:
        spark.read.format("chronolake").options(table="shop.orders").option(name, Path(file).read_text()).load()
    except IllegalArgumentException as refused:
        print(refused)
"""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tasks_have_the_token_of_the_variable_and_nothing_shows_it(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(ADMIN_TOKEN)
    server = new_server(dsn, "--access", "on", "--admin-token-file", str(token_file))
    variables = {"CHRONOLAKE_URL": server.url, "CHRONOLAKE_TOKEN_FILE": str(token_file)}

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "orders")],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "rows [(1, 'de'), (2, 'fr')]" in ended.stdout, ended.stderr[-4_000:]
    assert " DEBUG " in ended.stderr
    fix_secrets.search(ended.stdout + ended.stderr + server.log(), "the log of Spark or of the server")
    with chronolake.connect(server.url, token=ADMIN_TOKEN) as client:
        assert {event.actor for event in client.events()} == {"admin"}


def test_tasks_read_the_files_that_options_name_and_nothing_shows_what_is_in_them(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-token")
    (tmp_path / "events").mkdir()
    with IdentityProvider() as idp:
        etl = idp.credentials(tmp_path)
        server = new_server(dsn, *idp.flags(tmp_path))
        idp.grant(server.url)
        token_file = str(tmp_path / "admin-token")
        arguments = (str(tmp_path), server.url, token_file, etl.client_secret_file, etl.token_url)

        ended = subprocess.run(
            [sys.executable, "-c", BY_OPTIONS, *arguments],
            env=os.environ | {"CHRONOLAKE_TOKEN_FILE": str(wrong)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert "rows [(1, 'de'), (2, 'fr')]" in ended.stdout, ended.stderr[-4_000:]
    assert [
        line
        for line in ended.stdout.splitlines()
        if line.startswith(("compacted", "plain", "streamed", "catalog"))
    ] == [
        "compacted 1",
        "plain 2",
        "streamed 2",
        "catalog 3",
    ]
    assert "refused The request has no token" in ended.stdout
    assert ended.stdout.count("secrets are in files") == 2
    events = "".join(path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file())
    assert "shop.orders" in events
    assert " DEBUG " in ended.stderr
    fix_secrets.add("not-the-token", *idp.given)
    fix_secrets.search(ended.stdout + ended.stderr + server.log() + events, "a log or an event")
    with chronolake.connect(server.url, token=ADMIN_TOKEN) as client:
        assert {event.actor for event in client.events()} == {"admin", "oidc:corp:etl"}
