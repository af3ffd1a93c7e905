"""The version, as it stands in every model folder."""

VERSION = "0.1.0"
