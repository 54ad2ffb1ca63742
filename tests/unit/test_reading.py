"""Files that may hold anything, read within limits."""

import os
import threading

import pytest

from touchstone.reading import text_of


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert text_of(path, 5) == "12345"
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        text_of(path, 4)


@pytest.mark.parametrize("most, fits", [(5000, True), (4999, False)])
def test_a_pipe_has_no_size_and_is_read_whole_or_refused(tmp_path, most, fits):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"x" * 5000,))
    writer.start()
    try:
        if fits:
            assert text_of(path, most) == "x" * 5000
        else:
            with pytest.raises(ValueError, match="longer than 4,999 bytes"):
                text_of(path, most)
    finally:
        writer.join()
