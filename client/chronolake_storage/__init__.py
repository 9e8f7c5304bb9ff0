"""The files of tables in storage, and the one door through which they are deleted (design.md section 9).

``opening`` opens a base path, on a local disk (``local``) or in an object store (``objects``). ``claims`` says
whose a base path is. ``guard`` decides every deletion. The client and the server both use it.
"""

from __future__ import annotations
