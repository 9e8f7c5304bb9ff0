"""Tables that come in from Hudi, and go back: adoption and release.

``stored`` reads a Hudi table's folder, ``requirements`` says what cannot be adopted, ``history`` makes the
request from it, ``adopting`` and ``releasing`` change the folder and the metastore.
"""

from __future__ import annotations
