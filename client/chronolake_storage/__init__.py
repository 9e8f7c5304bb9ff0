"""The files of tables in storage, and the guard that deletes them (docs/architecture.md#markers-and-deletion).

``opening`` opens a base path on a local disk (``local``) or in an object store (``objects``). ``claims``
records the owner of a base path. ``guard`` checks every deletion. The client and the server both use this
package.
"""

from __future__ import annotations
