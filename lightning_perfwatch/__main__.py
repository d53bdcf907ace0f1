"""``python -m lightning_perfwatch``: the same as the ``perfwatch`` command."""

import sys

from lightning_perfwatch.cli import main

if __name__ == "__main__":
    sys.exit(main())
