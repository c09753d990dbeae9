"""Which URLs a store may send its clients to.

A store says where its files are, and whoever can write to its settings can change that. A URL makes
the client connect, with the user's credentials. It is used only if the user has named it: when the
store was created, by `--trust-files`, or in pyproject.toml. What was named once for a store is
remembered. A folder makes no connection, and needs no such word.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from taupy.errors import DatabaseError, UsageError
from taupy.model.project import project_settings
from taupy.store.manifest import cache_folder
from taupy.store.places import scheme_of

_NAME = "store-files.json"
_LARGEST = 1 << 20

_trusts_files = False


def trust_files() -> None:
    """From now on, this process uses and remembers the URLs that stores name."""
    global _trusts_files
    _trusts_files = True


def trusted(store: str, place: str) -> str:
    """The place, if the user trusts it for the store.

    Raises:
        DatabaseError: it is a URL that the user has not named.
        UsageError: the setting is not a list of texts.
    """
    if scheme_of(place) == "file" or place in _remembered().get(store, []):
        return place
    if _trusts_files or any(_is_below(place, url) for url in _configured()):
        remember(store, place)
        return place
    raise DatabaseError(
        f"the store says that its files are at {place}, which you have not used with it yet: "
        "check that this is right, then say --trust-files once, or add the URL to `trust_files` of "
        "[tool.taupy] in pyproject.toml"
    )


def remember(store: str, place: str) -> None:
    """Use this URL for the store from now on."""
    folder, places = cache_folder(), _remembered()
    if scheme_of(place) == "file" or not folder or place in places.get(store, []):
        return
    places[store] = [*places.get(store, []), place]
    path = os.path.join(folder, _NAME)
    draft = f"{path}.{os.getpid()}"
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as out:
            json.dump(places, out)
        os.replace(draft, path)


def _remembered() -> dict[str, list[str]]:
    """The URLs that were used before, by store."""
    with suppress(OSError, ValueError, RecursionError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        path = os.path.join(cache_folder() or os.devnull, _NAME)
        with open(os.open(path, flags), encoding="utf-8") as file:
            places = json.loads(file.read(_LARGEST))
        return {store: list(urls) for store, urls in places.items()}
    return {}


def _configured() -> list[str]:
    urls = project_settings().get("trust_files", [])
    if not (isinstance(urls, list) and all(isinstance(url, str) for url in urls)):
        raise UsageError(
            f"`trust_files` of [tool.taupy] in pyproject.toml is not a list of URLs: {urls!r}"
        )
    return urls


def _is_below(place: str, url: str) -> bool:
    """Whether a place is that of the URL, or in a folder below it."""
    return place == url or place.startswith(f"{url.rstrip('/')}/")
