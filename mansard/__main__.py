"""`python -m mansard` is the command `mansard`."""

import sys

from .cli import main

sys.exit(main())
