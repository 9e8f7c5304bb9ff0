"""chronolake_metastore"""

from __future__ import annotations
