"""The stores that tables lie in, for tests that must hold of each."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chronolake import storage as storages
from chronolake_storage import opening
from chronolake_storage.files import Files
from tests.fix_s3 import S3


class Store(msgspec.Struct, frozen=True):
    """Where a table lies, and the options to reach it."""

    base_path: str
    options: dict[str, str] | None

    def open(self) -> storages.Storage:
        return storages.open_storage(self.base_path, self.options)

    def files(self) -> Files:
        return opening.open_files(self.base_path, self.options)

    def delete(self, *paths: str) -> None:
        """Delete files without the guard and the server, as an operator may."""
        assert all(outcome.failure is None for outcome in self.files().delete_unguarded(paths))


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A local folder, and a bucket."""
    if request.param == "local":
        return Store(f"{tmp_path.as_uri()}/a%20lake/orders", None)
    s3: S3 = request.getfixturevalue("s3")
    return Store(s3.base_path, s3.options)
