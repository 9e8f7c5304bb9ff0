"""Base paths: which spellings are one folder, and which are refused since readers would not agree on them."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

from chronolake_model import base_paths

CHARACTER = st.characters(exclude_categories=["C", "Z"], exclude_characters="/")
PART = st.text(CHARACTER, min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))
PARTS = st.lists(PART, max_size=4)
BUCKET = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
OBJECT_PART = st.from_regex(r"[A-Za-z0-9_=+][A-Za-z0-9_.=+ ~-]{0,5}[A-Za-z0-9]", fullmatch=True)


@st.composite
def spellings(draw: st.DrawFn, parts: list[str]) -> str:
    """A spelling of the local folder with these parts."""
    path = "".join(
        draw(st.sampled_from(["/", "//", "/./", "/x/../", "/a/b/../../"])) + part for part in [*parts, ""]
    )
    path += draw(st.sampled_from(["", "/", "//", ".", "y/.."]))
    prefix = draw(st.sampled_from(["", "file:", "file://", "FILE://", "file://localhost", "File://LOCALHOST"]))
    if not prefix:
        # Never with a colon before two slashes.
        return re.sub(":/+", ":/", path)
    if prefix == "file:":
        path = "/" + path.lstrip("/")
    escaped = quote(path, safe="/" if draw(st.booleans()) else "/:@!$&'()*+,;=~")
    return prefix + escaped + draw(st.sampled_from(["", "?a=b", "#c", "?a=/d#/e"]))


@given(PARTS.flatmap(lambda parts: st.tuples(st.just(parts), spellings(parts), spellings(parts))))
def test_all_spellings_of_a_local_folder_have_one_key(drawn: tuple[list[str], str, str]) -> None:
    parts, first, second = drawn
    assert base_paths.canonical(first) == base_paths.canonical(second)
    assert base_paths.parse(first).path == "/" + "/".join(parts)


def overlap(first: str, second: str) -> bool:
    """Whether one of two folders lies in the other, by their keys."""
    a, b = base_paths.canonical(first), base_paths.canonical(second)
    return a.startswith(b) or b.startswith(a)


@given(PARTS, PARTS)
def test_local_folders_overlap_exactly_when_one_lies_in_the_other(a: list[str], b: list[str]) -> None:
    shorter = min(len(a), len(b))
    first, second = ("file:///" + quote("/".join(parts)) for parts in (a, b))
    assert overlap(first, second) == (a[:shorter] == b[:shorter])


@given(BUCKET, BUCKET, st.lists(OBJECT_PART, max_size=3), st.lists(OBJECT_PART, max_size=3), st.data())
def test_folders_of_buckets_overlap_exactly_when_one_lies_in_the_other(
    bucket: str, other_bucket: str, a: list[str], b: list[str], data: st.DataObject
) -> None:
    schemes = st.sampled_from(["s3", "s3a", "s3n", "S3", "S3A"])
    first = f"{data.draw(schemes)}://{bucket.upper()}/{'/'.join(a)}"
    second = f"{data.draw(schemes)}://{other_bucket}/{'/'.join(b)}{'/' if b else ''}?region=x#y"
    shorter = min(len(a), len(b))
    assert overlap(first, second) == (bucket == other_bucket and a[:shorter] == b[:shorter])


@given(PARTS | st.just(["a%20b", "%", "é ü"]))
def test_a_key_is_its_own_key(parts: list[str]) -> None:
    key = base_paths.canonical("file:///" + quote("/".join(parts)))
    assert base_paths.canonical(key) == key
    assert key.endswith("/")


@pytest.mark.parametrize(
    ("spelling", "key"),
    [
        ("/lake/a b%20", "file:///lake/a b%2520/"),
        ("file:///lake/a%20b%2520", "file:///lake/a b%2520/"),
        ("/what?#", "file:///what%3F%23/"),
        ("/", "file:///"),
        ("/lake\\x", "file:///lake\\x/"),
        ("s3://lake", "s3://lake/"),
        ("gcs://lake/a", "gs://lake/a/"),
        ("abfss://box@account.dfs.core.windows.net/a", "az://box/a/"),
        ("abfs://box/a", "az://box/a/"),
        ("azure://box/a", "az://box/a/"),
        ("hdfs://name:8020/a", "hdfs:///a/"),
        ("hdfs://service/a/", "hdfs:///a/"),
        ("hdfs:///a", "hdfs:///a/"),
    ],
)
def test_a_spelling_has_this_key(spelling: str, key: str) -> None:
    assert base_paths.canonical(spelling) == key
    assert base_paths.canonical(key) == key


@pytest.mark.parametrize(
    ("spelling", "why"),
    [
        ("lake/orders", "relative"),
        ("", "relative"),
        ("~/lake", "relative"),
        ("file:lake", "relative"),
        ("file://host/lake", "localhost"),
        ("/../lake", "above the root"),
        ("file:///a/%2e%2e/../b", "above the root"),
        ("/la\0ke", "control"),
        ("file:///la%00ke", "control"),
        ("s3://lake/a\nb", "control"),
        (" s3://lake/a", "white space"),
        ("/lake/a://b", "://"),
        ("file:///%ff", "UTF-8"),
        ("s3://", "bucket"),
        ("s3:///orders", "bucket"),
        ("s3:/lake/orders", "bucket"),
        ("s3://lake:443/orders", "port"),
        ("s3://lake./orders", "bucket"),
        ("s3://lake/a%20b", "percent"),
        ("s3://l%61ke/a", "percent"),
        ("s3://lake//a", "empty part"),
        ("s3://lake/a//", "empty part"),
        ("s3://lake/x/../a", "'..'"),
        ("gs://lake/./a", "'.'"),
        ("abfss://account.blob.core.windows.net/box/a", "bucket"),
        ("abfss://box@example.org/a", "dfs.core.windows.net"),
        ("hdfs://-/a", "host"),
        ("https://lake.s3.amazonaws.com/a", "s3://bucket/path"),
        ("wasb://box@account.blob.core.windows.net/a", "s3 (s3a, s3n)"),
        ("viewfs://x/a", "schemes are"),
        ("memory://a", "schemes are"),
        ("/" + "long/" * 200, "900 bytes"),
    ],
)
def test_an_incomparable_base_path_is_refused(spelling: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        base_paths.canonical(spelling)


@pytest.mark.parametrize(
    "spelling",
    [
        "s3://key:hush@lake/a",
        "s3a://key:hush@lake/a%20b",
        "gs://hush@lake/a",
        "file://me:hush@localhost/a",
        "abfss://box:hush@account.dfs.core.windows.net/a",
        "hdfs://hush@name/a",
        "https://hush@lake/a",
    ],
)
def test_a_user_in_a_base_path_is_refused_and_never_repeated(spelling: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        base_paths.canonical(spelling)
    assert "hush" not in str(refused.value)


def test_a_percent_sign_in_a_bucket_is_refused_in_a_sentence_that_names_the_base_path_once() -> None:
    with pytest.raises(ValueError, match="choose a base path without one") as refused:
        base_paths.canonical("s3://lake/a%20b")
    assert str(refused.value).startswith("'s3://lake/a%20b' has a percent sign, which ")
    assert str(refused.value).count("a%20b") == 1
