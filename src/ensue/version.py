"""The version, as it stands in every model folder."""

__version__ = "0.1.0"
