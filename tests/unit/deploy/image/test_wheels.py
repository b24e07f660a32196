"""Python packages of the image: which Python may put them in."""

from pathlib import Path

import pytest

from deploy.image import wheels
from deploy.image.errors import ImageError


def test_another_python_than_the_image_s_is_refused_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "PYTHON", "3.10")
    with pytest.raises(ImageError, match=r"and the image has 3\.10: make PYTHON=python3\.10 image"):
        wheels.install(tmp_path, "amd64", "abc")
    assert not list(tmp_path.iterdir())
