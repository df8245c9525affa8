"""`hierbench miniature show`."""

import numpy as np
import pytest
from PIL import Image

from hierbench.cli.miniature import app
from hierbench.errors import OutputError, UsageError
from hierbench.miniature.grid import save_grid


def test_show_writes_a_picture(tmp_path, capsys):
    file = tmp_path / "deep" / "grid.png"
    app(["show", "3", "-o", str(file)], standalone_mode=False)
    assert str(file) in capsys.readouterr().err
    picture = np.asarray(Image.open(file).convert("RGB"))
    assert picture.shape[0] > 300
    assert picture.shape[1] > 500
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 300  # scenes, not an empty page
    assert [path.name for path in file.parent.iterdir()] == ["grid.png"]


@pytest.mark.parametrize(
    ("count", "options", "message"),
    [
        (0, {}, "0 to 1999"),
        (5, {"start": 1996}, "0 to 1999"),
        (5, {"start": -1}, "0 to 1999"),
        (5, {"split": "validation"}, "train, test, pool"),
        (501, {}, "at most 500"),
    ],
)
def test_scenes_that_there_are_not(tmp_path, count, options, message):
    with pytest.raises(UsageError, match=message):
        save_grid(tmp_path / "grid.png", count, **options)
    assert not list(tmp_path.iterdir())


def test_another_kind_of_picture(tmp_path):
    with pytest.raises(UsageError, match=r"name in \.png"):
        save_grid(tmp_path / "grid.jpg", 1)


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        save_grid(tmp_path / "file" / "grid.png", 1)
