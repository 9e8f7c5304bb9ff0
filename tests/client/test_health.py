"""The health of all tables in one list."""

from __future__ import annotations

import httpx

import chronolake
from chronolake_model.publication import PublicationState
from tests.client.conftest import Cli

FIELDS = [chronolake.Field("id", "bigint", nullable=False), chronolake.Field("a b", "int")]


def made(
    client: chronolake.Client, namespace: str, name: str, fields: list[chronolake.Field]
) -> chronolake.Table:
    name = f"{namespace}.{name}"
    return client.create_table(name, base_path=f"s3://lake/{name}", schema=fields, record_key_fields=["id"])


def test_the_health_of_all_tables_says_which_are_paused_and_why(
    client: chronolake.Client, namespace: str, cli: Cli
) -> None:
    paused = made(client, namespace, "paused", FIELDS)
    good = made(client, namespace, "good", FIELDS[:1])

    healths = {health.table: health for health in client.health()}

    assert "Avro" in str(healths[paused.name].problem)
    assert healths[good.name].problem is None
    assert healths[good.name].publication.state is PublicationState.PUBLISHING
    assert (healths[good.name].log_files, healths[good.name].pending_plans) == (0, 0)
    shown = cli("health", "--problems")
    assert paused.name in shown.out
    assert good.name not in shown.out
    assert (shown.code, cli("health").code) == (1, 0)
    assert client.refusal() is None
    listed = [entry["table"] for entry in cli("health", "--json").json["tables"]]
    assert {paused.name, good.name} <= set(listed)
    assert listed == sorted(listed)


def test_the_health_is_listed_in_pages(client: chronolake.Client, namespace: str, server_url: str) -> None:
    names = [made(client, namespace, f"t{number}", FIELDS[:1]).name for number in range(3)]
    listed: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = httpx.get(f"{server_url}/v1/health", params={"limit": "1", **cursor}).json()
        listed += [entry["table"] for entry in page["tables"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [name for name in listed if name in names] == names
    assert httpx.get(f"{server_url}/v1/health", params={"limit": "101"}).status_code == 400
