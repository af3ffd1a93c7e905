"""Model folders on a model hub: push and pull with ``huggingface_hub`` (extra ``hub``).

A repository holds the files of the folder and, as ``README.md``, the model card with metadata. A pull takes the files
that ``B2SUMS`` lists and nothing else, compares their checksums, and runs nothing. The address of the hub and the token
are those of ``huggingface_hub``: ``HF_ENDPOINT``, and ``HF_TOKEN`` or what ``hf auth login`` stored.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from ensue.errors import EnsueError, MissingLibraryError, ModelFolderError, SettingError
from ensue.lines import one_line, without_credentials
from ensue.store import checksums
from ensue.store.archive import MAX_FILES, SETTINGS, require_no_model, verified
from ensue.store.card import read_card, scores_of
from ensue.store.checksums import FILE, chunks, names_in, opened, sums_of
from ensue.store.folder import Settings, read_settings, require_whole, write_folder

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD = "CARD.md"
_REPOSITORY = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class Pushed(NamedTuple):
    """A commit of a repository.

    Attributes:
        address: of the commit, for people.
        is_private: whether only those whom the owner lets see it.
    """

    address: str
    is_private: bool


def push(folder: str | Path, repository: str, *, public: bool = False, license: str = "") -> Pushed:
    """Upload a model folder to a repository of the hub, which is made if it is not there.

    Args:
        folder: a model folder.
        repository: ``OWNER/NAME``.
        public: whether everybody may see a new repository, and whether one that everybody sees may be pushed to.
        license: identifier of the licence for the metadata, such as ``apache-2.0``. [default: none is stated]

    Raises:
        ModelFolderError: the folder is incomplete or damaged.
        SettingError: the extra ``hub`` is missing, a name is wrong, or the repository is public and ``public`` is off.
        EnsueError: the hub cannot be reached, or refuses.
    """
    source = Path(folder)
    _require_name(repository)
    if license and not _LICENSE.fullmatch(license):
        raise SettingError(f"license is {license!r}; give an identifier such as apache-2.0 or cc-by-4.0")
    require_whole(source)
    settings = read_settings(source)
    with _hub(repository) as api:
        library = import_module("huggingface_hub")
        operations = [library.CommitOperationAdd(name, str(source / name)) for name in names_in(source) if name != CARD]
        card = read_card(source)
        operations.append(library.CommitOperationAdd(CARD, card.encode()))
        operations.append(library.CommitOperationAdd("README.md", _readme(settings, card, license).encode()))
        api.create_repo(repository, private=not public, exist_ok=True)
        is_private = bool(api.model_info(repository).private)
        if not (public or is_private):
            raise SettingError(
                f"{repository}: is public; what the folder stores would be too; give --public if it may be"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Parquet in a repository of models: an item table is a part of one
            commit = api.create_commit(repository, operations, commit_message=f"Model {settings['model']} of ensue")
    return Pushed(str(commit.commit_url), is_private)


def pull(repository: str, folder: str | Path, *, revision: str = "") -> str:
    """Write the model folder that a repository of the hub holds; nothing is left of a damaged one.

    Args:
        repository: ``OWNER/NAME``.
        folder: the new model folder.
        revision: a branch, tag or commit. [default: the latest commit]

    Returns:
        The commit that was read.

    Raises:
        ModelFolderError: the repository holds no model or a damaged one, or the folder holds a model already.
        SettingError: the extra ``hub`` is missing, or a name is wrong.
        EnsueError: the hub cannot be reached, or refuses.
    """
    target = Path(folder)
    _require_name(repository)
    require_no_model(target)
    with _hub(repository) as api, TemporaryDirectory(prefix="ensue-pull-") as temporary:
        info = api.model_info(repository, revision=revision or None, files_metadata=True)
        commit = str(info.sha)
        sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or ()}
        if not {FILE, SETTINGS} <= set(sizes):
            raise ModelFolderError(f"{repository}: holds no model of ensue ({FILE} or {SETTINGS} is missing)")
        source = Path(temporary)

        def download(name: str) -> None:
            api.hf_hub_download(repository, name, revision=commit, local_dir=source)

        # The list of files is read first, and bounds what is downloaded.
        _require_room({FILE: sizes[FILE]}, checksums.MAX_BYTES, repository)
        download(FILE)
        sums = sums_of(source)
        names = [*sums, *([CARD] if CARD in sizes else [])]
        if missing := [name for name in names if name not in sizes]:
            raise ModelFolderError(f"{repository}: {missing[0]} is missing; push the model again")
        if len(names) > MAX_FILES:
            raise ModelFolderError(f"{repository}: {FILE} lists {len(names):,} files, more than {MAX_FILES}")
        free = shutil.disk_usage(source).free
        _require_room({name: sizes[name] for name in names}, free, repository)
        for name in names:
            download(name)
        read_settings(source)
        write_folder(target, {name: _content(source, name, sums.get(name)) for name in names})
    return commit


def _content(folder: Path, name: str, expected: str | None) -> Iterator[bytes]:
    with opened(folder, name) as file:
        yield from verified(chunks(file), name, expected, folder)


def _require_room(sizes: Mapping[str, int], limit: int, repository: str) -> None:
    if (total := sum(sizes.values())) > limit:
        raise ModelFolderError(f"{repository}: {', '.join(sizes)[:200]} take {total:,} bytes, more than {limit:,}")


def _require_name(repository: str) -> None:
    if not _REPOSITORY.fullmatch(repository):
        raise SettingError(f"repository {repository!r}: give OWNER/NAME, such as our-team/next-items")


@contextmanager
def _hub(repository: str) -> Iterator[HfApi]:
    """Yield the client of the hub, and turn its errors into one line."""
    try:
        library = import_module("huggingface_hub")
        failures = (import_module("huggingface_hub.errors").HfHubHTTPError, import_module("httpx2").HTTPError)
    except ModuleNotFoundError as error:
        raise MissingLibraryError("push and pull need huggingface_hub; pip install 'ensue[hub]'") from error
    try:
        # Read now: the library reads the variable when it is imported.
        yield library.HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="ensue")
    except EnsueError:
        raise
    except (*failures, OSError, ValueError) as error:
        reason = one_line(without_credentials(" ".join(str(error).split())) or type(error).__name__, 160)
        hint = "check the name, and the token: `hf auth login`, or HF_TOKEN"
        raise EnsueError(f"{repository}: the hub refused or cannot be reached ({reason}); {hint}") from error


def _readme(settings: Settings, card: str, license: str) -> str:
    """Return the card with the metadata that the hub shows."""
    library = import_module("huggingface_hub")
    task = str(settings["task"])
    metadata = library.ModelCardData(
        library_name="ensue",
        tags=["ensue", f"ensue-{task}", str(settings["model"])],
        license=license or None,
        model_name=f"{settings['model']} for task {task}",
        eval_results=_results(card, task, library.EvalResult) or None,
    )
    return f"---\n{metadata.to_yaml()}\n---\n\n{card}"


def _results(card: str, task: str, result_type: type) -> list[object]:
    """Return the test metrics of a card, x 100 as there."""
    scores = scores_of(card)
    if scores is None:
        return []
    metrics = {name: _NUMBER.match(text) for name, text in scores["figures"].items()}
    shared = {
        "task_type": f"ensue-{task}",
        "dataset_type": "test",
        "dataset_name": scores["protocol"].get("data", "test"),
    }
    return [
        result_type(metric_type=name, metric_value=float(number[0]), **shared)
        for name, number in metrics.items()
        if number
    ]
