"""The stores that tables lie in, for tests that must hold of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from chronolake import storage as storages
from chronolake_storage import opening
from chronolake_storage.files import Files
from chronolake_storage.permits import Answers, Permit
from tests.fix_s3 import S3


class Store(msgspec.Struct, frozen=True):
    """Where a table lies, and the options to reach it."""

    base_path: str
    options: dict[str, str] | None

    def open(self) -> storages.Storage:
        return storages.open_storage(self.base_path, self.options)

    def files(self) -> Files:
        return opening.open_files(self.base_path, self.options)

    @property
    def hudi_options(self) -> dict[str, str]:
        """The options as hudi-rs takes them."""
        if self.options is None:
            return {}
        return {
            "AWS_ENDPOINT_URL": self.options["endpoint_override"],
            "AWS_ACCESS_KEY_ID": self.options["access_key"],
            "AWS_SECRET_ACCESS_KEY": self.options["secret_key"],
            "AWS_REGION": self.options["region"],
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def hadoop_options(self) -> dict[str, str]:
        """The options as Hadoop's S3A takes them."""
        if self.options is None:
            return {}
        return {
            "fs.s3a.endpoint": self.options["endpoint_override"],
            "fs.s3a.endpoint.region": self.options["region"],
            "fs.s3a.access.key": self.options["access_key"],
            "fs.s3a.secret.key": self.options["secret_key"],
            "fs.s3a.path.style.access": "true",
            # Hudi's reader of log files leaves connections open.
            "fs.s3a.connection.maximum": "2000",
        }

    def delete(self, *paths: str) -> None:
        """Delete files without the guard and the server, as an operator may."""
        assert all(outcome.failure is None for outcome in self.files().delete_permitted(permitted(paths)))


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A local folder, and a bucket."""
    if request.param == "local":
        return Store(f"{tmp_path.as_uri()}/a%20lake/orders", None)
    s3: S3 = request.getfixturevalue("s3")
    return Store(s3.base_path, s3.options)


def permitted(paths: Iterable[str]) -> Iterator[Permit]:
    """A permit for each path, whatever it is."""
    answers = Answers(by_path_and_name={}, by_claims={}, by_need={})
    return (Permit(path, answers) for path in paths)
