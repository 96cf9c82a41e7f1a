"""The list of planted bugs."""

from tests.mutants.mutant import Mutant

PLANTED = [
    Mutant(
        "the boot clock is the monotonic one",
        "drivers/common.py",
        "time.CLOCK_BOOTTIME)",
        "time.CLOCK_MONOTONIC)",
        "tests/drivers/test_sleep.py",
    ),
]
