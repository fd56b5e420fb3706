"""`python -m papers.tsm2`: measures the rows of the page again and redraws it."""

import sys

from ..measure import main

if __name__ == "__main__":
    sys.exit(main("tsm2"))
