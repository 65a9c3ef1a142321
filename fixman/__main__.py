"""``python -m fixman``, the same as ``fixman``."""

import sys

from fixman.cli import main

sys.exit(main())
