from __future__ import annotations

import string
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import markers
from chronolake_metastore.domain.conflicts import ConcurrentInstant
from chronolake_metastore.domain.files import FileGroup
from chronolake_metastore.domain.instants import Instant
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.tables import Definition, Table
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.markers import Marker, MarkerKind, check_marker, parse_marker
from chronolake_model.tables import BucketIndex
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import Action, Operation, State, TableType

TIME = "20260203040506789"
MINE, THEIRS, NOW = parse_time(TIME), Micros(parse_time(TIME) + 1_000), Micros(parse_time(TIME) + 10_000)
GROUP = bucket_file_id(3)
BASE = base_file_name(GROUP, "0-1-2", TIME)
LOG = f".{GROUP}_{TIME}.log.3_1-2-0"

FOLDERS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=40
).filter(lambda name: name not in (".", "..", ".hoodie"))
TOKENS = st.tuples(*[st.integers(0, 10**6)] * 3).map(lambda ids: "-".join(map(str, ids)))
FILE_IDS = st.text(string.ascii_letters + string.digits + "-", max_size=40).map(lambda text: f"a{text}")
BASES = st.builds(base_file_name, FILE_IDS, TOKENS, st.just(TIME))
LOGS = st.builds("{}{}_{}.log.{}_{}".format, st.just("."), FILE_IDS, st.just(TIME), st.integers(1, 99), TOKENS)
PARTITIONS = st.lists(FOLDERS, max_size=4).map("/".join)
MARKERS = st.builds(
    Marker, PARTITIONS, BASES, st.sampled_from([MarkerKind.CREATE, MarkerKind.MERGE])
) | st.builds(Marker, PARTITIONS, LOGS, st.just(MarkerKind.APPEND))


# ---------------------------------------------------------------------------------- names


@given(MARKERS)
def test_the_name_of_a_marker_gives_back_its_parts(marker: Marker) -> None:
    assert parse_marker(marker.name) == marker


def test_a_marker_is_called_as_hudi_calls_it() -> None:
    assert Marker("day=1/hour=2", BASE, MarkerKind.CREATE).name == f"day=1/hour=2/{BASE}.marker.CREATE"
    assert Marker("", LOG, MarkerKind.APPEND).name == f"{LOG}.marker.APPEND"


def test_the_data_file_may_be_called_like_a_marker_of_its_partition() -> None:
    marker = Marker("a.marker.CREATE", BASE, MarkerKind.MERGE)

    assert parse_marker(marker.name) == marker


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "does not end with"),
        (BASE, "does not end with"),
        (f"{BASE}.marker.", "does not end with"),
        (f"{BASE}.marker.create", "does not end with"),
        (f"{BASE}.marker.CREATE\n", "does not end with"),
        (f"{BASE}.marker.DELETE", "is of the kind CREATE, MERGE, APPEND"),
        (f"{BASE}.marker.APPEND", "of a base file is of the kind CREATE or MERGE"),
        (f"{LOG}.marker.CREATE", "of a log file is of the kind APPEND"),
        ("part-00000.parquet.marker.CREATE", "is neither"),
        (f"/{BASE}.marker.CREATE", "begins with a slash"),
        (f"a//{BASE}.marker.CREATE", "without empty"),
        (f"../{BASE}.marker.CREATE", "without empty"),
        (f".hoodie/{BASE}.marker.CREATE", r"is \.hoodie"),
        (f"a\nb/{BASE}.marker.CREATE", "control character"),
        (f"a\\b/{BASE}.marker.CREATE", "backslash"),
        (f"{'a' * 1_000}/{BASE}.marker.CREATE", "more than 1024 bytes"),
        (f"{'ü' * 490}/{BASE}.marker.CREATE", "more than 1024 bytes"),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_an_invalid_marker_name_is_refused(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_marker(name)


def read(name: str) -> Marker | None:
    """The marker of a name, if it is the name of one."""
    try:
        return parse_marker(name)
    except ValueError:
        return None


@given(st.text(max_size=80).flatmap(lambda text: st.sampled_from([text, f"{text}/{BASE}.marker.CREATE"])))
def test_no_text_is_read_as_a_marker_of_another_name(text: str) -> None:
    marker = read(text)

    assert marker is None or (marker.name == text and check_marker(marker).file_id == GROUP)


# ---------------------------------------------------------------------------------- which an instant may have


def creation(*named: Marker, time: Micros = MINE) -> CreateMarkers:
    return CreateMarkers("shop.orders", time, list(named))


def test_a_marker_of_another_instants_file_is_refused_by_its_place() -> None:
    with pytest.raises(
        errors.InvalidMarker, match=r"markers\[1\]: the name says instant 20260203040506790"
    ) as got:
        markers.check(
            creation(
                Marker("", BASE, MarkerKind.CREATE),
                Marker("", base_file_name(GROUP, "0-0-0", "20260203040506790"), MarkerKind.CREATE),
            )
        )
    assert got.value.context["index"] == 1


def test_digits_of_a_microsecond_tick_name_the_same_instant() -> None:
    name = base_file_name(GROUP, "0-0-0", format_time(MINE, Tick.MICROSECOND))

    markers.check(creation(Marker("", name, MarkerKind.CREATE)))


# ---------------------------------------------------------------------------------- early conflicts

TABLE = Table(
    UUID(int=1),
    Definition(
        name="shop.orders",
        base_path="/",
        schema=[],
        record_key_fields=[],
        type=TableType.MERGE_ON_READ,
        partition_fields=[],
        ordering_field=None,
        index=BucketIndex(),
        tick=Tick.MILLISECOND,
        properties={"markers.early-conflict-detection": "true"},
        schema_version=1,
        last_field_id=1,
    ),
    created_at=Micros(0),
)
IN_GROUP = FileGroup(TABLE.table_id, "", GROUP)


def instant(action: Action = Action.DELTACOMMIT, time: Micros = MINE, lease: int = 1) -> Instant:
    expires = Micros(NOW + lease)
    return Instant(time, action, Operation.UPSERT, State.INFLIGHT, "w", 60, expires, version=2)


def refuse(mine: MarkerKind, *others: ConcurrentInstant) -> None:
    """Request a marker in a file group that other instants have marked."""
    name = LOG if mine is MarkerKind.APPEND else BASE
    markers.refuse_early(TABLE, instant(), [Marker("", name, mine)], {}, {IN_GROUP: set(others)}, NOW)


def theirs(kind: MarkerKind, lease: int = 1) -> ConcurrentInstant:
    return markers.holder(instant(time=THEIRS, lease=lease), kind)


@pytest.mark.parametrize(
    ("mine", "their"),
    [
        (MarkerKind.CREATE, MarkerKind.CREATE),
        (MarkerKind.MERGE, MarkerKind.CREATE),
        (MarkerKind.APPEND, MarkerKind.MERGE),
        (MarkerKind.MERGE, MarkerKind.APPEND),
    ],
)
def test_a_group_that_a_live_pending_instant_writes_is_refused(mine: MarkerKind, their: MarkerKind) -> None:
    with pytest.raises(
        errors.WriteConflict, match="the pending deltacommit 20260203040506790 has markers"
    ) as got:
        refuse(mine, theirs(their))
    assert got.value.context["winner"] == "20260203040506790"
    assert got.value.context["file_groups"] == [{"partition_path": "", "file_id": GROUP}]


def test_two_that_append_to_a_group_go_together() -> None:
    refuse(MarkerKind.APPEND, theirs(MarkerKind.APPEND))


def test_a_dead_writer_has_nothing_in_hand() -> None:
    refuse(MarkerKind.CREATE, theirs(MarkerKind.CREATE, lease=0))


def test_an_instants_own_markers_are_not_against_it() -> None:
    refuse(MarkerKind.CREATE, markers.holder(instant(), MarkerKind.MERGE))
