"""Property tests try the same examples each time, so that a red run means a change.

`HYPOTHESIS_PROFILE=explore` has them look for new ones.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
