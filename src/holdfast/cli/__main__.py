"""`python -m holdfast.cli` is `holdfast`."""

import sys

from holdfast.cli import main

sys.argv[0] = "holdfast"  # which `holdfast ls` shows as the program
main()
