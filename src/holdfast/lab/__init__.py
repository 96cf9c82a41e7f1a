"""The third body: virtual time, for trying to break locks."""
