"""`python -m tests.e2e.cluster VERB`; see cli.py."""

import sys

from tests.e2e.cluster.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
