"""The files of tables in storage, and the guard that deletes them (docs/architecture.md#markers-and-deletion).

``opening`` opens a base path, on a local disk (``local``) or in an object store (``objects``). ``claims`` says
whose a base path is. ``guard`` decides every deletion. The client and the server both use it.
"""

from __future__ import annotations
