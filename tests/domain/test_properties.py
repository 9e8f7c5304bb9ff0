"""The properties of tables: their allowed values, and those that pending instants block."""

from __future__ import annotations

import re
from uuid import UUID

import msgspec
import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import properties, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.properties import MARKERS_PROPERTY
from chronolake_model import service_properties
from chronolake_model.merge_modes import ORDERING_FIELDS_PROPERTY
from chronolake_model.storage import S3_OPTIONS
from chronolake_model.tables import NewField
from chronolake_model.times import Micros

TABLE = tables.evolve_created(
    TableCreated(
        definition=NewDefinition(
            name="shop.orders",
            base_path="/lake",
            schema=[NewField("id", "int")],
            record_key_fields=["id"],
            properties={MARKERS_PROPERTY: "true"},
        )
    ),
    UUID(int=7),
    Micros(0),
)


@pytest.mark.parametrize("name", [*properties.PROPERTIES])
def test_a_property_that_the_server_knows_is_checked_or_is_of_the_storage(name: str) -> None:
    if name.removeprefix("storage.") in S3_OPTIONS:
        assert properties.held_by_pending([name]) == [name]
        return
    # Any text names columns or partitions, and most are regular expressions.
    takes_text = ORDERING_FIELDS_PROPERTY, service_properties.CLUSTERING_SELECTED
    is_text = name in takes_text or name.endswith((".columns", ".partition"))
    wrong = "" if is_text else "maybe["
    with pytest.raises(errors.InvalidTable, match=name):
        properties.check({name: wrong})


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(
            ("endpoint_override", text)
            for text in ("", "garbage", "ftp://s3:21", "http://", "http://a b", "s3:9000\n")
        ),
        *(("endpoint_override", text) for text in ("http://user:pw@s3:9000", "s3:", "http://s3:9000/?a=b")),
        *(("region", text) for text in ("", "x y", "eu-central-1\n", "-")),
    ],
)
def test_an_endpoint_or_a_region_of_another_form_is_refused(option: str, text: str) -> None:
    with pytest.raises(errors.InvalidTable, match=f"storage.{option}"):
        properties.check({f"storage.{option}": text})


@pytest.mark.parametrize(
    "endpoint",
    ["https://s3.eu-central-1.amazonaws.com", "http://127.0.0.1:9000/", "minio_1:9000", "http://[::1]:9000"],
)
def test_an_endpoint_is_a_url_or_a_host_with_a_port(endpoint: str) -> None:
    properties.check({"storage.endpoint_override": endpoint, "storage.region": "us-east-1"})


def test_a_property_of_the_storage_in_another_case_is_refused() -> None:
    with pytest.raises(errors.InvalidTable, match="lower case"):
        properties.check({"Storage.secret_key": "s"})


def test_a_property_of_the_users_may_be_anything_and_is_never_held() -> None:
    properties.check({"owner": "ann", "storages": ""})
    assert properties.held_by_pending(["owner", "storages", "storage.region"]) == ["storage.region"]


def test_markers_are_required_of_instants_that_were_begun_since() -> None:
    since = msgspec.structs.replace(TABLE.definition, markers_required_since=Micros(10))
    later = msgspec.structs.replace(TABLE, definition=since)
    assert TABLE.requires_markers(Micros(1))
    assert [later.requires_markers(Micros(time)) for time in (9, 10, 11)] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("hudi.publsih", "did you mean hudi.publish? Those that begin with hudi. are hudi.active-hours, "),
        ("Hudi.Publish", "did you mean hudi.publish? "),
        ("markers.requierd", "did you mean markers.required? "),
        ("deletions.by-whom-they-are-made", "made': Those that begin with deletions. are deletions.executor, "),
        ("partition-paths.hivestyle", "did you mean partition-paths.hive-style? "),
        ("conflicts.", "Those that begin with conflicts. are conflicts.yields; a property of your own needs "),
    ],
)
def test_a_name_that_begins_as_those_of_the_server_is_refused_with_the_nearest_of_them(
    name: str, advice: str
) -> None:
    with pytest.raises(errors.InvalidTable, match=re.escape(advice)):
        properties.refuse_unknown({"owner": "ann", name: "false"})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("hoodie.layout.optimise.strategy", "hoodie.layout.optimize.strategy"),
        ("hoodie.table.service.enabled", "hoodie.table.services.enabled"),
        ("table.service.enabled", "hoodie.table.services.enabled"),
        ("service.plan-expires-seconds", "services.plan-expires-seconds"),
        ("clean.commits.retained", "hoodie.clean.commits.retained"),
        ("conflict.yields", "conflicts.yields"),
        ("hudi_publish", "hudi.publish"),
    ],
)
def test_a_name_that_is_nearly_one_of_the_server_is_refused_with_that_one(name: str, nearest: str) -> None:
    with pytest.raises(errors.InvalidTable, match=re.escape(f"no property '{name}': did you mean {nearest}? ")):
        properties.refuse_unknown({"owner": "ann", name: "false"})


@pytest.mark.parametrize(
    "name",
    [
        "owner",
        "team.owner",
        "hudi",
        "my.hudi.publish",
        # Of Hudi 1.2.0, those that are the most like known ones.
        "hoodie.hfile.max.file.size",
        "hoodie.metadata.log.compaction.blocks.threshold",
        "hoodie.metadata.log.compaction.enable",
        "hoodie.table.service.manager.enabled",
        "hoodie.table.services.incremental.enabled",
        "hoodie.datasource.clustering.async.enable",
        "hoodie.layout.optimize.curve.build.method",
        *properties.PROPERTIES,
    ],
)
def test_other_names_are_free(name: str) -> None:
    properties.refuse_unknown([name])


def test_a_table_that_has_such_a_name_from_before_still_changes() -> None:
    before = msgspec.structs.replace(
        TABLE.definition, properties={"hudi.publsih": "false", "markers.requierd": ""}
    )
    table = msgspec.structs.replace(TABLE, definition=before)
    assert tables.alter(table, tables.AlterTable("shop.orders", set={"owner": "ann"}), []) is not None
    assert tables.alter(table, tables.AlterTable("shop.orders", unset=["hudi.publsih"]), []) is not None
