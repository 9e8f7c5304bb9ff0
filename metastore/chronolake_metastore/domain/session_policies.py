"""Policies of vended credentials: IAM's language, for the objects of one table and nothing else.

An S3 key has no folders: a table's objects are those whose keys begin with its base path and a slash, and not
those of a sibling whose name is longer (docs/decisions/0101-vended-credentials.md).
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from chronolake_metastore import errors
from chronolake_model import base_paths
from chronolake_model.base_paths import Kind, Location
from chronolake_model.credentials import StorageAccess

CHARS_MAX: Final = 2048
"""The longest policy that STS accepts."""
_READS: Final = ("s3:GetObject",)
_WRITES: Final = (*_READS, "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
_DELETES: Final = "s3:DeleteObject"
_ON_OBJECTS: Final = {
    StorageAccess.READ: _READS,
    StorageAccess.WRITE: _WRITES,
    StorageAccess.MAINTAIN: (*_WRITES, _DELETES),
}
_MARKERS: Final = ".hoodie/.temp"
_CLAIM: Final = ".hoodie/.chronolake-claim.json"
_LITERAL: Final = re.compile(r"[ !%&()+,./0-9:;<=>@A-Z\[\]^_`a-z{|}~-]+")
"""Characters that mean themselves in a policy and in a URI. ``*``, ``?`` and ``$`` do not, quotes and
backslashes may end a text, and others STS refuses."""


def location_of(base_path: str) -> Location:
    """The place of a base path, if a policy can be limited to it; raises ``CredentialsNotVended``."""
    try:
        location = base_paths.parse(base_path)
    except ValueError as exc:
        raise errors.CredentialsNotVended(str(exc)) from exc
    if location.kind is not Kind.S3:
        raise errors.CredentialsNotVended(f"{base_path[:200]!r} is not in S3; use credentials of your own")
    if not location.path:
        raise errors.CredentialsNotVended(
            f"{base_path[:200]!r} is a whole bucket, and credentials are only for a folder in it"
        )
    if "?" in base_path or "#" in base_path or not _LITERAL.fullmatch(location.path):
        raise errors.CredentialsNotVended(
            f"{base_path[:200]!r} has a character that would mean something else in a policy (such as * ? $ # "
            "a quote, a backslash, or one that is not ASCII); use credentials of your own"
        )
    return location


def policy_of(location: Location, access: StorageAccess, partition: str = "aws") -> str:
    """The session policy, for a ``location`` of ``location_of``; raises ``CredentialsNotVended``.

    ``partition`` is the first part of the names of resources: aws, aws-cn or aws-us-gov.
    """
    bucket = f"arn:{partition}:s3:::{location.bucket}"
    folder = f"{bucket}/{location.path}"
    statements: list[dict[str, Any]] = [
        _allow(_ON_OBJECTS[access], f"{folder}/*"),
        _allow("s3:ListBucket", bucket) | {"Condition": {"StringLike": {"s3:prefix": [f"{location.path}/*"]}}},
    ]
    if access is StorageAccess.WRITE:
        statements.append(_allow(_DELETES, f"{folder}/{_MARKERS}/*"))
    if access is not StorageAccess.READ:
        # Who claims the folder for a table looks for claims of tables above it. Readers do not.
        statements.append(_allow("s3:GetObject", [f"{bucket}/{key}" for key in _claims_above(location)]))
    policy = msgspec.json.encode({"Version": "2012-10-17", "Statement": statements}).decode()
    if len(policy) > CHARS_MAX:
        raise errors.CredentialsNotVended(
            f"the policy for {location.key!r} has {len(policy)} characters, and STS accepts {CHARS_MAX}; "
            "use credentials of your own, or a base path that is shorter or has fewer folders"
        )
    return policy


def _claims_above(location: Location) -> list[str]:
    folders = location.path.split("/")
    return ["/".join([*folders[:depth], _CLAIM]) for depth in range(len(folders))]


def _allow(actions: tuple[str, ...] | str, resources: list[str] | str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}
