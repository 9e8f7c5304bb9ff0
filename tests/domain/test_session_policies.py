"""Policies of vended credentials allow the objects of one table, and nothing else.

The numbers are those of faults of other catalogs.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from chronolake_metastore import errors
from chronolake_metastore.domain import session_policies
from chronolake_model import base_paths
from chronolake_model.credentials import StorageAccess
from tests import iam
from tests.iam import Request

READ, WRITE, MAINTAIN = StorageAccess.READ, StorageAccess.WRITE, StorageAccess.MAINTAIN
CLAIM = ".hoodie/.chronolake-claim.json"
OF_OBJECTS = {
    "s3:GetObject": {READ, WRITE, MAINTAIN},
    "s3:PutObject": {WRITE, MAINTAIN},
    "s3:AbortMultipartUpload": {WRITE, MAINTAIN},
    "s3:ListMultipartUploadParts": {WRITE, MAINTAIN},
    "s3:DeleteObject": {MAINTAIN},
    "s3:PutObjectAcl": set(),
    "s3:GetBucketPolicy": set(),
}
PARTS = st.text("abT1_-=.", min_size=1, max_size=4).filter(lambda part: part not in (".", ".."))
FOLDERS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)


@st.composite
def keys_near(draw: st.DrawFn, folder: str) -> str:
    """A key in a folder, beside it, above it, or anywhere."""
    above = draw(st.sampled_from(["", *("/".join(folder.split("/")[:depth]) + "/" for depth in range(1, 4))]))
    return draw(
        st.sampled_from(
            [
                f"{folder}/{draw(FOLDERS)}",
                f"{folder}/.hoodie/.temp/{draw(FOLDERS)}",
                f"{folder}{draw(PARTS)}/{draw(FOLDERS)}",
                f"{folder}",
                f"{folder}/",
                f"{folder[:-1]}/{draw(FOLDERS)}",
                f"{folder.swapcase()}/a",
                f"{above}{CLAIM}",
                f"{above}{CLAIM}x",
                draw(st.text("ab/*?.T1", min_size=1, max_size=8)),
            ]
        )
    )


def allowed(policy: str, request: Request) -> bool:
    """The answer of both evaluators, which must be the same."""
    answer = iam.allowed_by_grammar(policy, request)
    assert answer == iam.allowed_by_iam(policy, request)
    return answer


@given(st.data(), FOLDERS, st.sampled_from(StorageAccess), st.sampled_from(sorted(OF_OBJECTS)))
def test_a_key_is_allowed_if_and_only_if_it_is_below_the_base_path(
    data: st.DataObject, folder: str, access: StorageAccess, action: str
) -> None:
    location = session_policies.location_of(f"s3://lake/{folder}")
    policy = session_policies.policy_of(location, access)
    key = data.draw(keys_near(folder))
    bucket = data.draw(st.sampled_from(["lake", "lak", "lakes", "Lake"]))
    folders = folder.split("/")

    is_below = key.startswith(f"{folder}/")
    is_marker = is_below and key.startswith(f"{folder}/.hoodie/.temp/")
    claims_above = {"/".join([*folders[:depth], CLAIM]) for depth in range(len(folders))}
    expected = (
        (is_below and access in OF_OBJECTS[action])
        or (is_marker and action == "s3:DeleteObject" and access is WRITE)
        or (action == "s3:GetObject" and access is not READ and key in claims_above)
    )

    assert allowed(policy, Request(action, bucket, key)) == (bucket == "lake" and expected)
    is_listed = bucket == "lake" and is_below
    assert allowed(policy, Request("s3:ListBucket", bucket, prefix=key)) == is_listed
    # T43: without a prefix the whole bucket would be listed.
    assert not allowed(policy, Request("s3:ListBucket", bucket))
    assert not allowed(policy, Request("s3:ListBucket", bucket, prefix=""))


@pytest.mark.parametrize("access", StorageAccess)
@pytest.mark.parametrize("sibling", ["t10/a", "t1_archive/a", "t1", "t1.bak", "T1/a", "t/a"])
def test_t41_siblings_with_the_same_beginning_are_not_allowed(access: StorageAccess, sibling: str) -> None:
    policy = session_policies.policy_of(session_policies.location_of("s3a://LAKE/shop/t1/"), access)

    assert not any(allowed(policy, Request(action, "lake", f"shop/{sibling}")) for action in OF_OBJECTS)
    assert not allowed(policy, Request("s3:ListBucket", "lake", prefix=f"shop/{sibling}"))
    assert not allowed(policy, Request("s3:ListBucket", "lake", prefix="shop/t1"))
    # T42: the slash between the folder and the pattern.
    assert allowed(policy, Request("s3:GetObject", "lake", "shop/t1/day=1/a.parquet"))


@given(st.text(min_size=1, max_size=12))
@example("f*")  # T38
@example("a'b")  # T39
@example('a"b')
@example("a\\b")
@example("${aws:username}")
@example("a?b")
@example("a#b")
@example("../t1")  # T40
@example("ä")
@example("/")
@example("s\x7f")
def test_t38_t39_t40_a_base_path_whose_characters_may_mean_something_gets_no_policy(path: str) -> None:
    try:
        location = session_policies.location_of(f"s3://lake/shop{path}")
    except errors.CredentialsNotVended:
        return
    policy = session_policies.policy_of(location, READ)

    assert location == base_paths.parse(f"s3://lake/shop{path}")
    assert policy.isascii()
    [objects, listing] = json.loads(policy)["Statement"]
    assert objects["Resource"] == f"arn:aws:s3:::lake/{location.path}/*"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": [f"{location.path}/*"]}}
    assert not set(location.path) & set("*?$'\"\\#")
    assert not allowed(policy, Request("s3:GetObject", "lake", "elsewhere/a"))


@pytest.mark.parametrize(
    "base_path", ["s3://lake", "s3://lake/", "/tmp/lake", "gs://lake/t1", "az://lake/t1", "hdfs://n/t1", "t1"]
)
def test_t43_a_bucket_as_a_whole_and_other_stores_get_no_policy(base_path: str) -> None:
    with pytest.raises(errors.CredentialsNotVended):
        session_policies.location_of(base_path)


def test_t45_a_policy_that_is_longer_than_sts_accepts_is_refused_before_it_is_sent() -> None:
    deep = session_policies.location_of("s3://lake/" + "/".join(["a-folder"] * 20))
    with pytest.raises(errors.CredentialsNotVended, match="fewer folders"):
        session_policies.policy_of(deep, WRITE)

    usual = session_policies.location_of(f"s3://{'b' * 63}/warehouse/a-department/a-team/{'t' * 60}")
    for access in StorageAccess:
        policy = session_policies.policy_of(usual, access)
        # T44: a session without a policy has all rights of its role.
        assert 0 < len(policy) <= session_policies.CHARS_MAX
        assert len(json.loads(policy)["Statement"]) <= 4


def test_the_names_of_resources_are_of_the_partition_of_the_role() -> None:
    policy = session_policies.policy_of(session_policies.location_of("s3://lake/t1"), WRITE, "aws-cn")

    assert policy.count("arn:aws-cn:s3:::lake") == policy.count("arn:")
