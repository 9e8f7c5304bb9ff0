"""A job of Spark with vended keys alone: each task asks for its own, and no plan and no log shows one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import chronolake
from tests import fix_secrets
from tests.fix_s3 import S3
from tests.fix_secrets import ADMIN_TOKEN, STORAGE_SECRET
from tests.server.access import AccessServer

PROGRAM: Final = """
import sys
import chronolake, chronolake_spark
from chronolake_spark.common.format_options import SECRETS_OPTION, secrets_to_json

spark = chronolake_spark.session("vended", master="local[2]")
spark.sparkContext.setLogLevel("DEBUG")
vended = {"credentials": "vended"}
client = chronolake.connect(storage_options=vended)
client.create_namespace("shop")
rows = spark.createDataFrame([(1, "de"), (2, "fr")], "id long, country string")
chronolake_spark.create_table(
    client, "shop.orders", rows.schema, base_path=sys.argv[1], record_key_fields=["id"], buckets=2
)
given = {"table": "shop.orders", SECRETS_OPTION: secrets_to_json(vended)}
rows.write.format("chronolake").options(**given).mode("append").save()
rows.where("id = 1").write.format("chronolake").options(**given).mode("append").save()
frame = spark.read.format("chronolake").options(**given).load()
frame.explain(True)
print(spark.sparkContext.getConf().getAll(), repr(client), frame.count())
print("rows", sorted(map(tuple, frame.collect())))
"""

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tasks_ask_for_keys_and_nothing_shows_them(
    dsn: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles, url = tmp_path / "roles.toml", s3.options["endpoint_override"]
    roles.write_text(
        f'[roles.lake]\nlocation = "s3://{s3.bucket}/"\nregion = "us-east-1"\n'
        f'role_arn = "arn:aws:iam::123456789012:role/lake"\n'
        f'sts_endpoint = "{url}"\nendpoint_override = "{url}"\n'
    )
    server = AccessServer(dsn, tmp_path, "--credentials-file", str(roles))
    with monkeypatch.context() as of_server:
        of_server.setenv("AWS_ACCESS_KEY_ID", "key")
        of_server.setenv("AWS_SECRET_ACCESS_KEY", STORAGE_SECRET)
        server.process.start()
    variables = {"CHRONOLAKE_URL": server.process.url, "CHRONOLAKE_TOKEN_FILE": str(tmp_path / "admin")}
    try:
        with s3.only_sessions() as refused:
            ended = subprocess.run(
                [sys.executable, "-c", PROGRAM, s3.base_path],
                env=os.environ | variables,
                capture_output=True,
                text=True,
                check=False,
            )
        assert "rows [(1, 'de'), (2, 'fr')]" in ended.stdout, ended.stderr[-4_000:]
        assert refused == []
        texts = ended.stdout + ended.stderr + server.process.log()
        # The keys of moto's sessions begin so.
        assert "ASIA" not in texts
        assert " DEBUG " in ended.stderr
        fix_secrets.search(texts, "the log of Spark or of the server")
        with chronolake.connect(server.process.url, token=ADMIN_TOKEN) as client:
            assert client.table("shop.orders").credentials().access_key.startswith("ASIA")
    finally:
        server.stop()
