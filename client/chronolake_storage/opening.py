"""Opens the files below a base path: a local path, or a URI (``file``, ``s3``, ``gs``, ``az``, …)."""

from __future__ import annotations

from collections.abc import Mapping

from chronolake_model import base_paths
from chronolake_model.base_paths import Kind
from chronolake_storage.files import Files
from chronolake_storage.local import LocalFiles
from chronolake_storage.objects import KeysFor, open_objects


def open_files(base_path: str, options: Mapping[str, str] | None = None, keys: KeysFor | None = None) -> Files:
    """The files below ``base_path``; ``options`` have the names of ``chronolake_model.storage.S3_OPTIONS``.

    ``keys`` gives keys of S3 that are valid now, and is asked when they are needed. Raises ``ValueError``,
    ``ImportError``, ``StorageError``.
    """
    local = local_path(base_path)
    return open_objects(base_path, options or {}, keys) if local is None else LocalFiles(local)


def local_path(base_path: str) -> str | None:
    """The local folder that a base path names; None when it is in an object store. Raises ``ValueError``."""
    location = base_paths.parse(base_path)
    return location.path if location.kind is Kind.FILE else None
