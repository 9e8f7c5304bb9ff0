"""Locations: a base path is in one exactly when it is the same or lies below, part by part."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import locations
from chronolake_metastore.domain.events import LocationAllowed, LocationRevoked
from chronolake_metastore.domain.locations import AllowedLocations, AllowLocation, RevokeLocation
from chronolake_model import base_paths
from tests.domain.test_base_paths import BUCKET, OBJECT_PART, PARTS, spellings

ALIKE = st.sampled_from(["t1", "t10", "t1_archive", "T1", "t", "%", "%2e", "t1%2Ft2", "*", "?", "ä"])
FOLDERS = st.lists(ALIKE | PARTS.flatmap(lambda parts: st.sampled_from(parts or ["x"])), max_size=4)


def allows(location: str, base_path: str, key: str | None = None) -> bool:
    """Whether a list of this one location allows a base path."""
    allowed = AllowedLocations("shop", [base_paths.parse(location).address])
    try:
        allowed.refuse_outside(base_path, locations.address_of(base_path, key))
    except errors.LocationNotAllowed:
        return False
    return True


@given(FOLDERS, FOLDERS, st.data())
def test_a_local_base_path_is_in_a_location_exactly_when_its_parts_begin_with_those(
    location: list[str], folder: list[str], data: st.DataObject
) -> None:
    below = data.draw(st.sampled_from([folder, location + folder]))
    spelled = [data.draw(spellings(parts)) for parts in (location, below)]

    oracle = PurePosixPath("/", *below).is_relative_to(PurePosixPath("/", *location))

    assert allows(*spelled) == oracle


@given(BUCKET, BUCKET, st.lists(OBJECT_PART, max_size=3), st.lists(OBJECT_PART, max_size=3), st.data())
def test_a_base_path_in_a_bucket_is_in_a_location_exactly_when_bucket_and_parts_are(
    bucket: str, other_bucket: str, location: list[str], folder: list[str], data: st.DataObject
) -> None:
    kinds = st.sampled_from(["s3", "s3a", "S3N", "gs", "gcs"])
    of_location, of_table = data.draw(kinds), data.draw(kinds)
    in_bucket = data.draw(st.sampled_from([bucket, other_bucket]))
    below = data.draw(st.sampled_from([folder, location + folder]))

    is_same_kind = of_location.lower().startswith("s3") == of_table.lower().startswith("s3")
    oracle = is_same_kind and in_bucket == bucket and below[: len(location)] == location

    path, base_path = "/".join([bucket, *location]), "/".join([in_bucket, *below])
    assert allows(f"{of_location}://{path}/", f"{of_table}://{base_path}") == oracle


@pytest.mark.parametrize(
    ("location", "base_path"),
    [
        ("/lake/t1", "/lake/t10"),
        ("/lake/t1", "/lake/t1_archive"),
        ("/lake/t1", "/lake"),
        ("/lake", "/lake/../etc"),
        ("/lake", "file:///lake/%2e%2e/etc"),
        ("/lake", "file:///lake/..%2fetc"),
        ("/lake", "/Lake/t1"),
        ("/lake/*", "/lake/t1"),
        ("file:///lake/%2A", "/lake/t1"),
        ("s3://lake/a", "s3://lake/ab"),
        ("s3://lake/a", "s3://lake/A/t"),
        ("s3://lake/a", "s3://lake"),
        ("s3://lake", "s3://lake-2/a"),
        ("s3://lake", "gs://lake/a"),
        ("s3://lake/a", "/lake/a"),
        # Credentials may be good for another account, whose container has the same name.
        ("abfss://lake@ours.dfs.core.windows.net/a", "abfss://lake@theirs.dfs.core.windows.net/a"),
        ("abfss://lake@ours.dfs.core.windows.net/a", "az://lake/a"),
        ("az://lake/a", "abfss://lake@theirs.dfs.core.windows.net/a"),
        # No normal form: clients and servers would read it differently.
        ("s3://lake/a", "s3://lake/a/../b"),
        ("s3://lake/a", "s3://lake/a/%2e%2e/b"),
        ("s3://lake/a", "s3://lake//a"),
        ("/", "lake/t1"),
    ],
)
def test_a_base_path_elsewhere_is_not_allowed(location: str, base_path: str) -> None:
    assert not allows(location, base_path)


@pytest.mark.parametrize(
    ("location", "base_path"),
    [
        ("/", "/lake"),
        ("/lake/t1/", "/lake/t1"),
        ("s3://lake", "s3a://lake/a/b"),
        ("ABFSS://Lake@ours.dfs.core.windows.net/a", "abfs://lake@OURS.dfs.core.windows.net/a/b"),
        ("hdfs://one:8020/lake", "hdfs://two/lake/t1"),
    ],
)
def test_a_base_path_at_or_below_a_location_is_allowed_in_every_spelling(location: str, base_path: str) -> None:
    assert allows(location, base_path)


def test_a_local_base_path_counts_where_its_links_lead() -> None:
    assert not allows("/lake", "/lake/link", key="file:///etc/")
    assert allows("/mnt/lake", "/lake/t1", key="file:///mnt/lake/t1/")


@given(PARTS)
def test_the_normal_form_of_a_location_is_its_own(parts: list[str]) -> None:
    once = base_paths.parse("file:///" + quote("/".join(parts))).address

    assert once.endswith("/")
    assert base_paths.parse(once).address == once


def test_a_refusal_names_the_locations_and_what_the_operator_runs() -> None:
    allowed = AllowedLocations("shop", ["s3://lake/shop/"])

    with pytest.raises(errors.LocationNotAllowed) as refused:
        allowed.refuse_outside("s3://lake/other", "s3://lake/other/")

    assert "chronolake-metastore locations allow shop" in refused.value.detail
    assert refused.value.context == {
        "namespace": "shop",
        "base_path": "s3://lake/other",
        "locations": ["s3://lake/shop/"],
    }


def test_an_own_list_takes_the_place_of_the_default_even_if_it_is_empty() -> None:
    assert locations.effective("shop", None, []).locations is None
    assert locations.effective("shop", None, ["s3://a/"]).locations == ["s3://a/"]
    assert locations.effective("shop", ["s3://b/"], ["s3://a/"]).locations == ["s3://b/"]
    assert locations.effective("shop", [], ["s3://a/"]).locations == []
    assert locations.effective("shop", [], []).locations == []


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["s3://a/", "s3://a/b/", "s3://c/"])), max_size=8))
def test_a_list_is_what_was_allowed_and_not_revoked_since(changes: list[tuple[bool, str]]) -> None:
    own, oracle = None, dict[str, bool]()
    for is_allowed, location in changes:
        if is_allowed:
            event = locations.allow(own, AllowLocation("shop", location))
            assert (event is None) == oracle.get(location, False)
            oracle[location] = True
            own = own if event is None else locations.evolve_allowed(own, event)
        else:
            gone = locations.revoke(own, RevokeLocation("shop", location))
            assert (gone is None) != oracle.get(location, False)
            oracle |= {location: False} if location in oracle else {}
            own = own if gone is None else locations.evolve_revoked(own, gone)

    assert (None if own is None else set(own)) == (
        {location for location, is_allowed in oracle.items() if is_allowed} if oracle else None
    )


def test_events_name_namespace_and_location() -> None:
    assert locations.allow(None, AllowLocation("shop", "s3://a/")) == LocationAllowed(
        namespace="shop", location="s3://a/"
    )
    assert locations.revoke(["s3://a/"], RevokeLocation("shop", "s3://a/")) == LocationRevoked(
        namespace="shop", location="s3://a/"
    )
