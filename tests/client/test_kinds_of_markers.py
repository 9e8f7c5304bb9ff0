"""Rules that hold for all kinds of markers: with the server, in a local folder, in a bucket."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import chronolake
from chronolake import Marker, MarkerKind, MarkerOutcome, MarkersType, errors
from tests.client.conftest import SCHEMA
from tests.client.stored import base, log
from tests.fix_s3 import S3, Fault

CREATED, EXISTED = MarkerOutcome.CREATED, MarkerOutcome.EXISTED
CREATE, MERGE, APPEND = MarkerKind


@pytest.fixture(params=["server", "local", "s3"])
def marked(
    request: pytest.FixtureRequest, server_url: str, namespace: str, tmp_path: Path
) -> Iterator[chronolake.Table]:
    """A table for each place that its markers may be in."""
    is_s3 = request.param == "s3"
    s3: S3 | None = request.getfixturevalue("s3") if is_s3 else None
    type_ = MarkersType.SERVER if request.param == "server" else MarkersType.DIRECT
    options = None if s3 is None else s3.options
    with chronolake.connect(server_url, retry_seconds=10, storage_options=options) as client:
        yield client.create_table(
            f"{namespace}.marked_{uuid.uuid4().hex[:8]}",
            base_path=str(tmp_path) if s3 is None else s3.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            properties={"markers.type": type_},
        )


def test_a_marker_is_created_once(marked: chronolake.Table) -> None:
    write = marked.begin()
    first, second = base(write, 0), base(write, 1)

    assert write.mark(first) == [CREATED]
    assert write.mark(second, first, second) == [CREATED, EXISTED, EXISTED]
    assert marked.create_markers(write.requested_time, [log(write, 0)]) == [CREATED]


def test_all_markers_of_an_instant_and_no_others_are_listed(marked: chronolake.Table) -> None:
    write, other = marked.begin(), marked.begin()
    wanted = [base(write, 0), base(write, 1), base(write, 0, ""), log(write, 0)]
    write.mark(*wanted)
    other.mark(base(other, 3))

    assert list(marked.markers(write.requested_time)) == sorted(wanted)
    assert list(marked.markers(marked.begin().requested_time)) == []


def test_a_marker_is_looked_up_by_its_whole_name(marked: chronolake.Table) -> None:
    write = marked.begin()
    marker = base(write, 0)
    write.mark(marker)

    assert marked.has_marker(write.requested_time, marker)
    assert not marked.has_marker(write.requested_time, Marker(marker.partition_path, marker.file_name, MERGE))
    assert not marked.has_marker(write.requested_time, base(write, 0, "name=2"))
    with pytest.raises(ValueError, match="APPEND"):
        marked.has_marker(write.requested_time, Marker("", marker.file_name, APPEND))


def test_they_are_deleted_with_their_instant_and_no_others(marked: chronolake.Table) -> None:
    write, other = marked.begin(), marked.begin()
    write.mark(base(write, 0), log(write, 1))
    other.mark(base(other, 0))
    marked.rollback(write.requested_time, writer=write.instant.writer, files_to_delete=[base(write, 9).path])

    assert marked.delete_markers(write.requested_time) == 2
    assert marked.delete_markers(write.requested_time) == 0
    assert list(marked.markers(write.requested_time)) == []
    assert list(marked.markers(other.requested_time)) == [base(other, 0)]


def test_a_list_with_an_invalid_marker_creates_none(marked: chronolake.Table) -> None:
    write, other = marked.begin(), marked.begin()

    with pytest.raises(errors.InvalidMarker):
        write.mark(base(write, 0), base(other, 0))
    with pytest.raises(errors.InvalidMarker):
        write.mark(base(write, 0, "../elsewhere"))
    with pytest.raises(errors.InvalidMarker):
        write.mark(Marker("", "notes.txt", CREATE))
    assert list(marked.markers(write.requested_time)) == []


def test_a_direct_marker_is_an_empty_file_where_hudi_has_it(
    client: chronolake.Client, namespace: str, tmp_path: Path
) -> None:
    table = client.create_table(
        f"{namespace}.plain", base_path=tmp_path.as_uri(), schema=SCHEMA, record_key_fields=["id"]
    )
    write = table.begin(markers=MarkersType.DIRECT)

    write.mark(base(write, 0))

    marker = tmp_path / ".hoodie" / ".temp" / write.requested_time / base(write, 0).name
    assert marker.read_bytes() == b""
    assert list(table.markers(write.requested_time)) == []
    direct = table.markers_of(write.requested_time, markers=MarkersType.DIRECT)
    assert list(direct.listed()) == [base(write, 0)]
    with pytest.raises(ValueError, match="by publication"):
        direct.listed(unpublished=True)


def test_a_direct_marker_that_the_store_refuses_stops_the_writer(
    server_url: str, namespace: str, s3: S3
) -> None:
    with chronolake.connect(server_url, storage_options=s3.options) as client:
        table = client.create_table(
            f"{namespace}.refused", base_path=s3.base_path, schema=SCHEMA, record_key_fields=["id"]
        )
        write = table.begin(markers=MarkersType.DIRECT)
        s3.faults.append(Fault("PUT", ".marker.CREATE", 403, "AccessDenied"))

        with pytest.raises(errors.StorageFailed, match="privileges"):
            write.mark(base(write, 0))


def test_markers_are_with_the_server_or_direct(client: chronolake.Client, namespace: str) -> None:
    with pytest.raises(errors.InvalidTable, match="server or direct"):
        client.create_table(
            f"{namespace}.odd",
            base_path="file:///lake/odd",
            schema=SCHEMA,
            record_key_fields=["id"],
            properties={"markers.type": "timeline_server_based"},
        )


def test_a_table_gives_the_storage_options_and_the_client_the_secrets(
    server_url: str, namespace: str, s3: S3
) -> None:
    secrets = {name: s3.options[name] for name in ("access_key", "secret_key")}
    storage_properties = {f"storage.{name}": text for name, text in s3.options.items() if name not in secrets}
    assert storage_properties
    with chronolake.connect(server_url, storage_options=secrets) as client:
        table = client.create_table(
            f"{namespace}.reached",
            base_path=s3.base_path,
            schema=SCHEMA,
            record_key_fields=["id"],
            properties={"markers.type": "direct", **storage_properties},
        )
        write = table.begin()

        assert write.mark(base(write, 0)) == [CREATED]
