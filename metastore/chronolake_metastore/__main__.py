"""``python -m chronolake_metastore``"""

from __future__ import annotations

from chronolake_metastore.cli.main import main

main()
