"""IAM's decision on a request, twice: by the grammar of our policies, and by IAM's own rules.

moto keeps the policy of a session and ignores it, so the tests decide themselves. ``allowed_by_grammar`` knows
no pattern but ``/*`` at an end, and fails for any other policy. ``allowed_by_iam`` was written from IAM's
documentation: patterns, conditions, upper and lower case of actions, and Deny before Allow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

_BULK_KEY = re.compile(rb"<Key>(.*?)</Key>")


class Request(NamedTuple):
    """A request to S3 as IAM sees it. ``prefix`` is that of a list; None if it has none."""

    action: str
    bucket: str
    key: str = ""
    prefix: str | None = None

    @property
    def resource(self) -> str:
        return f"arn:aws:s3:::{self.bucket}" + (f"/{self.key}" if self.key else "")


def allowed_by_grammar(policy: str, request: Request) -> bool:
    """Whether a policy of ours allows a request."""
    document = json.loads(policy)
    assert set(document) == {"Version", "Statement"}
    assert document["Statement"]
    return any([_allows(statement, request) for statement in document["Statement"]])


def _allows(statement: Mapping[str, Any], request: Request) -> bool:
    condition = statement.get("Condition")
    assert set(statement) - {"Condition"} == {"Effect", "Action", "Resource"}
    assert statement["Effect"] == "Allow"
    is_met = True
    if condition is not None:
        [pattern] = condition["StringLike"]["s3:prefix"]
        assert list(condition) == ["StringLike"]
        is_met = request.prefix is not None and _is_in(request.prefix, pattern)
    is_of_resource = any([_is_in(request.resource, resource) for resource in _list(statement["Resource"])])
    return is_met and is_of_resource and request.action in _list(statement["Action"])


def _is_in(text: str, pattern: str) -> bool:
    literal = pattern.removesuffix("/*")
    assert literal
    assert not set("*?$\"'\\") & set(literal)
    return text == pattern if literal == pattern else text.startswith(f"{literal}/")


def allowed_by_iam(policy: str, request: Request) -> bool:
    """Whether any policy allows a request, by the rules that IAM documents."""
    context = {} if request.prefix is None else {"s3:prefix": request.prefix}
    effects = {
        statement["Effect"]
        for statement in _list(json.loads(policy)["Statement"])
        if any(_like(request.action.lower(), action.lower()) for action in _list(statement["Action"]))
        and any(_like(request.resource, resource) for resource in _list(statement["Resource"]))
        and all(_meets(context, *condition) for condition in statement.get("Condition", {}).items())
    }
    return effects == {"Allow"}


def _meets(context: Mapping[str, str], operator: str, keys: Mapping[str, Any]) -> bool:
    if_exists = operator.endswith("IfExists")
    assert operator.removesuffix("IfExists") == "StringLike"
    return all(
        any(_like(context[key], pattern) for pattern in _list(patterns)) if key in context else if_exists
        for key, patterns in keys.items()
    )


def _like(text: str, pattern: str) -> bool:
    parts = {"*": ".*", "?": "."}
    return (
        re.fullmatch("".join(parts.get(char, re.escape(char)) for char in pattern), text, re.DOTALL) is not None
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def requests_of(environ: Mapping[str, Any], body: bytes) -> Iterator[Request]:
    """The actions of a request to the S3 API, whose path begins with the bucket."""
    bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().removeprefix("/").partition("/")
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    method = environ["REQUEST_METHOD"]
    match method, bool(key):
        case "GET" | "HEAD", False:
            yield Request("s3:ListBucket", bucket, prefix=query["prefix"][0] if "prefix" in query else None)
        case "POST", False if "delete" in query:
            yield from (Request("s3:DeleteObject", bucket, key.decode()) for key in _BULK_KEY.findall(body))
        case "GET", True if "uploadId" in query:
            yield Request("s3:ListMultipartUploadParts", bucket, key)
        case "GET" | "HEAD", True:
            yield Request("s3:GetObject", bucket, key)
        case "PUT" | "POST", True:
            yield Request("s3:PutObject", bucket, key)
        case "DELETE", True:
            action = "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
            yield Request(action, bucket, key)
        case _:
            yield Request(f"s3:{method}", bucket, key)
    if source := environ.get("HTTP_X_AMZ_COPY_SOURCE"):
        of_bucket, _, of_key = source.removeprefix("/").partition("/")
        yield Request("s3:GetObject", of_bucket, of_key)
