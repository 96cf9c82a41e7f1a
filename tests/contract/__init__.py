"""The contract: what every engine keeps, in both colours. `engines.py` says over what it runs."""
