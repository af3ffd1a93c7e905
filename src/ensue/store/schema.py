"""How the training data of a model was read, as its folder keeps it."""

from __future__ import annotations

from pathlib import Path

from ensue.data.schema import DataSchema
from ensue.errors import ModelFolderError
from ensue.store.folder import read_settings


def schema_of(folder: Path) -> DataSchema:
    """Return how the training data of a folder's model was read; the default where the folder does not say.

    Raises:
        ModelFolderError: no model folder, or a damaged one.
    """
    metadata = read_settings(folder).get("facts")
    values = metadata.get("reading") if isinstance(metadata, dict) else None
    try:
        return DataSchema.from_dict(values or {})
    except (ValueError, AttributeError, TypeError) as error:
        raise ModelFolderError(f"{folder}/settings.json: {error}; the folder is damaged") from error
