"""Create a store."""

from __future__ import annotations

import os
from uuid import uuid4

from taupy.store.catalogue import Catalogue
from taupy.store.files import Folder
from taupy.store.trusted import remember


def create(address: str, files: str) -> str:
    """Create the catalogue's tables, and mark the folder as belonging to it.

    Args:
        address: of a PostgreSQL database without a schema `taupy`.
        files: a folder visible to all machines, or a URL for fsspec.

    Returns:
        The prefix of its roles' names; "" if this user may not create roles.

    Raises:
        DatabaseError: a store exists already, or one of the two cannot be written.
    """
    place = files if "://" in files else os.path.abspath(files)
    id = str(uuid4())
    with Catalogue(address) as catalogue:
        folder = Folder(place)
        with catalogue.transaction():
            prefix = catalogue.create({"id": id, "files": place})
            folder.mark(id)
    remember(id, place)
    return prefix
