"""`python -m taupy` is the command `taupy`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from taupy.commands import main

    sys.exit(main())
