"""Input files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.files.inputs import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a file, from a text or from values as JSON, and returns its path."""

    def write(name: str, *content: object) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in content))
        return str(path)

    return write
