"""The command line. Thin: parse, call, show."""

from holdfast.cli.app import main

__all__ = ["main"]
