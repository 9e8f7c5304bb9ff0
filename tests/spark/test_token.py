"""A job of Spark against a server with access control: its tasks have the token, and nothing shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import chronolake
from tests.fix_server import ServerProcess

SECRET: Final = "an-admins-secret-of-more-than-32-characters"
PROGRAM: Final = """
import sys
import chronolake, chronolake_spark

spark = chronolake_spark.session("token", master="local[1]")
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

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tasks_have_the_token_of_the_variable_and_nothing_shows_it(
    new_server: Callable[..., ServerProcess], dsn: str, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(SECRET)
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
    assert SECRET not in ended.stdout + ended.stderr + server.log()
    with chronolake.connect(server.url, token=SECRET) as client:
        assert {event.actor for event in client.events()} == {"admin"}
