"""Make a store."""

from __future__ import annotations

import os
from uuid import uuid4

from taupy.profiledb.store.catalogue import Catalogue
from taupy.profiledb.store.files import Folder


def create(address: str, files: str) -> str:
    """Make the catalogue's tables, and mark the folder as its own.

    Args:
        address: of an empty schema `taupy` in a PostgreSQL database.
        files: a folder that all machines see, or a URL for fsspec.

    Returns:
        What the names of its roles begin with; "" if this user may not make any.

    Raises:
        DatabaseError: there is a store already, or one of the two cannot be written.
    """
    place = files if "://" in files else os.path.abspath(files)
    id = str(uuid4())
    with Catalogue(address) as catalogue:
        folder = Folder(place)
        with catalogue.transaction():
            prefix = catalogue.create({"id": id, "files": place})
            folder.mark(id)
    return prefix
