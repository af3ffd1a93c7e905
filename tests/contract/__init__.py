"""The public surface, as data; see :mod:`scripts.contract`."""
