from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.storage import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
    database.create()
    yield database
    database.close()
