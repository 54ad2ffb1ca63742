"""Downloads against a server on the loopback interface that fails in every known way."""

from __future__ import annotations

import gzip
import hashlib
import random
import signal
import subprocess
import time
import zipfile
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fixtures.commands import call, command_line, largest_file
from fixtures.loopback_server import Cut, LoopbackServer, Status
from touchstone.datasets import fetch as fetching
from touchstone.datasets import verify
from touchstone.datasets.catalogue import Source
from touchstone.datasets.errors import DatasetError
from touchstone.datasets.fetch import Patience, fetch, mirror_urls
from touchstone.safe_text import has_control

BODY = random.Random(1).randbytes(100_000)
HASTE = Patience(tries=3, wait=0.01, longest_wait=0.2, timeout=5)


def source(*urls: str, body: bytes = BODY, **more: Any) -> Source:
    """A source whose right bytes are `body`."""
    digest = hashlib.sha256(body).hexdigest()
    return Source(name="toy.bin", size=len(body), sha256=digest, urls=list(urls), **more)


def assert_fetched(folder: Path, body: bytes = BODY) -> None:
    """The file is there, right, and the only one."""
    assert (folder / "toy.bin").read_bytes() == body
    assert [path.name for path in folder.iterdir()] == ["toy.bin"]


def assert_refused(folder: Path, wanted: Source, *causes: str) -> None:
    """The download fails with one line that names the file, each cause and a remedy."""
    with pytest.raises(DatasetError) as error:
        fetch(wanted, folder, patience=HASTE)
    message = str(error.value)
    assert message.startswith(f"{folder / 'toy.bin'}: no origin gave the right file (")
    assert "\n" not in message and "; check the network" in message
    for cause in causes:
        assert cause in message
    assert not (folder / "toy.bin").exists()


def test_a_file_is_fetched_once(server: LoopbackServer, tmp_path: Path) -> None:
    wanted = source(server.add("/toy", BODY))
    assert fetch(wanted, tmp_path, patience=HASTE) == tmp_path / "toy.bin"
    assert_fetched(tmp_path)
    fetch(wanted, tmp_path, patience=HASTE)
    assert len(server.requests) == 1


def test_a_wrong_file_that_is_there_is_replaced(server: LoopbackServer, tmp_path: Path) -> None:
    (tmp_path / "toy.bin").write_bytes(b"old")
    fetch(source(server.add("/toy", BODY)), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)


def test_503_twice(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Status(503), Status(503)])
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert len(server.requests) == 3


def test_503_for_ever(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Status(503)] * 100)
    assert_refused(tmp_path, source(url), f"{url}: HTTP 503")
    assert len(server.requests) == HASTE.tries


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a download waits before each try, on a clock that only waiting moves."""
    asked: list[float] = []
    clock = SimpleNamespace(sleep=asked.append, monotonic=lambda: sum(asked), time=time.time)
    monkeypatch.setattr(fetching, "time", clock)
    return asked


def test_retry_after_is_honoured_and_bounded(
    server: LoopbackServer, tmp_path: Path, waits: list[float]
) -> None:
    date = formatdate(time.time() + 3600, usegmt=True)
    url = server.add("/toy", BODY, faults=[Status(503, "3600"), Status(429, date)])
    fetch(source(url), tmp_path, patience=HASTE)
    assert len(server.requests) == 3
    assert waits == pytest.approx([0.0, HASTE.longest_wait, HASTE.longest_wait])


def test_the_next_mirror_does_not_wait_for_the_first(
    server: LoopbackServer, tmp_path: Path, waits: list[float]
) -> None:
    first = server.add("/1", BODY, faults=[Status(503, "3600")] * 100)
    second = server.add("/2", BODY)
    fetch(source(first, second), tmp_path)
    assert waits == [0.0, 0.0]
    assert_fetched(tmp_path)


def test_a_cut_connection_is_resumed(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(30_000)] * 3)
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert [request.range for request in server.requests] == [
        *(None, "bytes=29999-", "bytes=59998-", "bytes=89997-"),
    ]
    assert server.requests[1].if_range == '"1"'


def test_progress_does_not_count_as_a_failure(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(15_000)] * 6)
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert len(server.requests) == 7 > HASTE.tries


def test_a_mirror_that_always_cuts_is_given_up(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(30_000)] * 100, ranges=False)
    assert_refused(tmp_path, source(url), "the connection ended after 30000 of 100000 bytes")
    assert len(server.requests) == 1 + HASTE.tries


def test_a_cut_without_range_support_starts_again(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(30_000)], ranges=False)
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert [request.range for request in server.requests] == [None, None]


def test_a_changed_file_is_not_resumed(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", b"old" * 30_000, faults=[Cut(30_000), Status(404)])
    assert_refused(tmp_path, source(url, body=b"old" * 30_000), "HTTP 404")
    server.add("/toy", BODY, etag='"2"')
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert (server.requests[-1].range, len(server.requests)) == ("bytes=29999-", 3)


def test_a_part_that_went_bad_is_thrown_away(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(30_000), Status(404)])
    assert_refused(tmp_path, source(url), "HTTP 404")
    (tmp_path / "toy.bin.part").write_bytes(b"x" * 30_000)
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert [request.range for request in server.requests[2:]] == ["bytes=29999-", None]


def test_a_whole_part_is_checked_and_kept(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", BODY, faults=[Cut(30_000), Status(404)])
    assert_refused(tmp_path, source(url), "HTTP 404")
    (tmp_path / "toy.bin.part").write_bytes(BODY)
    fetch(source(url), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert server.requests[-1].range == "bytes=99999-"


def test_a_redirect_is_followed(server: LoopbackServer, tmp_path: Path) -> None:
    server.add("/toy", BODY)
    fetch(source(server.add("/moved", b"", redirect="/toy")), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)


@pytest.mark.parametrize("place", ["ftp://127.0.0.1:9/toy", "file:///etc/hosts", "data:,toy"])
def test_a_redirect_out_of_http_is_refused(
    server: LoopbackServer, tmp_path: Path, place: str
) -> None:
    """So is such an address of a mirror."""
    url = server.add("/moved", b"", redirect=place)
    assert_refused(tmp_path, source(url), place)
    with pytest.raises(DatasetError, match="no http or https address"):
        fetch(source(url), tmp_path, [place], HASTE)


def test_nothing_that_a_mirror_says_controls_a_terminal(
    server: LoopbackServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = "\x1b]0;owned\x07 \x1b[2Jgone"
    url = server.add("/toy", BODY, faults=[Status(403, reason=said)])
    with pytest.raises(DatasetError) as error:
        fetch(source(url), tmp_path, patience=HASTE)
    printed = capfd.readouterr().err
    for text in (str(error.value), printed.rstrip("\n")):
        assert "HTTP 403" in text and "gone" in text and not has_control(text)


def test_404_goes_on_to_the_next_mirror_at_once(server: LoopbackServer, tmp_path: Path) -> None:
    fetch(source(f"{server.url}/none", server.add("/toy", BODY)), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert [request.path for request in server.requests] == ["/none", "/toy"]


def test_a_dead_port_goes_on_to_the_next_mirror(server: LoopbackServer, tmp_path: Path) -> None:
    with LoopbackServer() as dead:
        url = f"{dead.url}/toy"
    fetch(source(url, server.add("/toy", BODY)), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)


def test_404_everywhere(server: LoopbackServer, tmp_path: Path) -> None:
    urls = [f"{server.url}/1", f"{server.url}/2"]
    assert_refused(tmp_path, source(*urls), *(f"{url}: HTTP 404 Not Found" for url in urls))
    assert len(server.requests) == 2


def test_a_corrupt_body_goes_on_to_the_next_mirror(server: LoopbackServer, tmp_path: Path) -> None:
    corrupt = server.add("/1", b"\0" + BODY[1:])
    fetch(source(corrupt, server.add("/2", BODY)), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)
    assert len(server.requests) == 2


def test_a_corrupt_body_everywhere(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", b"\0" + BODY[1:])
    assert_refused(tmp_path, source(url), "100000 bytes with SHA-256 ", source(url).sha256)
    assert list(tmp_path.iterdir()) == []


def test_an_html_page_with_status_200(server: LoopbackServer, tmp_path: Path) -> None:
    url = server.add("/toy", b"<html>log in</html>")
    assert_refused(tmp_path, source(url), "19 bytes, not 100000: another file or an error page")


def test_a_body_that_does_not_end_is_cut_off_at_the_expected_size(
    server: LoopbackServer, tmp_path: Path
) -> None:
    endless = server.add("/1", BODY * 1000, announced=False)
    assert_refused(tmp_path, source(endless), "more than 100,000 bytes: another file")
    assert list(tmp_path.iterdir()) == []
    fetch(source(endless, server.add("/2", BODY)), tmp_path, patience=HASTE)
    assert_fetched(tmp_path)


def test_a_mirror_that_drips_is_given_up(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SLOWEST", 10**9)
    drips = server.add("/1", BODY, bytes_per_second=100_000)
    with pytest.raises(DatasetError, match=r"fewer than 1,000,000,000 bytes/s over 0.1 s"):
        fetch(source(drips), tmp_path, patience=replace(HASTE, slow=0.1))
    assert len(server.requests) == 1
    monkeypatch.undo()
    fetch(source(drips), tmp_path, patience=replace(HASTE, slow=0.1))
    assert_fetched(tmp_path)


def test_a_mirror_may_compress_the_same_content_again(
    server: LoopbackServer, tmp_path: Path
) -> None:
    official, anew = gzip.compress(BODY, 9, mtime=1), gzip.compress(BODY, 1, mtime=2)
    url = server.add("/toy", anew)
    assert_refused(tmp_path, source(url, body=official), "not ")
    content = hashlib.sha256(BODY).hexdigest()
    fetch(source(url, body=official, content_sha256=content), tmp_path, patience=HASTE)
    assert_fetched(tmp_path, anew)


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"<html>log in</html>", "not a whole gzip file (Not a gzipped file"),
        (gzip.compress(BODY)[:-9], "not a whole gzip file (Compressed file ended"),
        (gzip.compress(b"other"), f"content {hashlib.sha256(b'other').hexdigest()}"),
    ],
    # Names of their own: gzip writes the time, and all workers must collect the same tests.
    ids=["no gzip file", "cut short", "other content"],
)
def test_other_content_is_refused(
    server: LoopbackServer, tmp_path: Path, body: bytes, cause: str
) -> None:
    content = hashlib.sha256(BODY).hexdigest()
    assert_refused(tmp_path, source(server.add("/toy", body), content_sha256=content), cause)


def test_no_more_is_unpacked_than_the_right_file_can_hold(tmp_path: Path) -> None:
    (tmp_path / "toy.bin").write_bytes(gzip.compress(bytes(100 << 20)))
    wanted = source(body=b"12345", package="toy==1.0", content_sha256="0" * 64)
    cause = verify.fault(tmp_path / "toy.bin", wanted)
    assert cause and cause.endswith("not a whole gzip file (its content is more than 5,160 bytes)")


def test_progress_is_shown(
    server: LoopbackServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = server.add("/toy", BODY, bytes_per_second=200_000)
    fetch(source(url), tmp_path, patience=Patience(report_every=0.1))
    lines = capfd.readouterr().err.splitlines()
    assert any(" of 0.1 MB (" in line and "MB/s, 0 s left" in line for line in lines[:-1])
    assert lines[-1] == f"toy.bin: 0.1 MB from {url}"


def test_the_mirror_is_tried_first_in_two_places(server: LoopbackServer, tmp_path: Path) -> None:
    server.add("/base/toy.bin", BODY)
    first = mirror_urls(f"{server.url}/base/", "toyset", "toy.bin")
    fetch(source(f"{server.url}/own"), tmp_path, first, HASTE)
    assert_fetched(tmp_path)
    assert [request.path for request in server.requests] == [
        *("/base/toyset/toy.bin", "/base/toy.bin"),
    ]
    assert mirror_urls("", "toyset", "toy.bin") == []


def wheel(folder: Path) -> Source:
    """Make a tiny wheel in `folder`, and the source that it is the file of."""
    path = folder / "touchstone_toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        info = "touchstone_toy-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: touchstone-toy\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    body = path.read_bytes()
    return Source(
        name=path.name,
        size=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        package="touchstone-toy==1.0",
    )


def test_a_package_comes_from_where_pip_looks(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").mkdir()
    wanted = wheel(tmp_path / "links")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    output = tmp_path / "output"
    first = mirror_urls(server.url, "toyset", wanted.name)
    fetch(wanted, output, first, HASTE)
    assert len(server.requests) == 2
    assert [path.name for path in output.iterdir()] == [wanted.name]
    other = wanted.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(DatasetError, match=r"touchstone-toy==1\.0: ERROR: .*DO NOT MATCH"):
        fetch(other, tmp_path / "other", patience=HASTE)
    assert list((tmp_path / "other").iterdir()) == []


def test_a_package_comes_from_the_mirror_first(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = wheel(tmp_path)
    server.add(f"/{wanted.name}", (tmp_path / wanted.name).read_bytes())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    fetch(wanted, tmp_path / "output", mirror_urls(server.url, "toyset", wanted.name), HASTE)
    assert (tmp_path / "output" / wanted.name).is_file()


def entry(folder: Path, url: str) -> list[str]:
    """Write the catalogue entry `toy` into `folder`; return the command that downloads it, and its
    arguments."""
    digest = hashlib.sha256(BODY).hexdigest()
    content = {
        "title": "Toy",
        "licence": "CC0",
        "citation": "nobody",
        "shape": [1, 1, 1],
        "classes": ["a", "b"],
        "splits": {"train": 1, "test": 1},
        "mean": [0.5],
        "std": [0.5],
        "sources": [{"name": "toy.bin", "size": len(BODY), "sha256": digest, "urls": [url]}],
        "decoder": {"name": "mlxtend-csv", "archive": "toy.bin", "member": "a", "seed": 0},
    }
    (folder / "toy.yaml").write_text(yaml.safe_dump(content))
    return ["download", "toy", "--config-folder", str(folder), "--output", str(folder / "output")]


@pytest.mark.slow
def test_main_resumes_after_kill_9(server: LoopbackServer, tmp_path: Path) -> None:
    command = entry(tmp_path, server.add("/toy", BODY, bytes_per_second=50_000))
    part = tmp_path / "output" / "toy.bin.part"
    with subprocess.Popen(command_line(*command), stderr=subprocess.DEVNULL) as process:
        while not part.exists() or part.stat().st_size < 20_000:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    have = part.stat().st_size
    assert not (tmp_path / "output" / "toy.bin").exists()
    server.resources["/toy"].bytes_per_second = None
    assert call(*command).returncode == 0
    assert_fetched(tmp_path / "output")
    assert server.requests[-1].range == f"bytes={have - 1}-"


@pytest.mark.parametrize("by_option", [True, False])
def test_main_takes_the_mirror(
    server: LoopbackServer, tmp_path: Path, by_option: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("/mirror/toy/toy.bin", BODY)
    command = entry(tmp_path, f"{server.url}/own")
    mirror = f"{server.url}/mirror"
    if by_option:
        assert call(*command, "--mirror", mirror).returncode == 0
    else:
        monkeypatch.setenv("TOUCHSTONE_MIRROR", mirror)
        assert call(*command, "--mirror", "").returncode == 0
    assert_fetched(tmp_path / "output")
    assert [request.path for request in server.requests] == ["/mirror/toy/toy.bin"]


def error_of(command: list[str]) -> str:
    """The last line on stderr of a command that must fail without a traceback."""
    result = call(*command)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert lines == result.stderr.splitlines()[-1:]
    return lines[0]


def test_main_reports_faults_in_one_line(server: LoopbackServer, tmp_path: Path) -> None:
    command = entry(tmp_path, f"{server.url}/none")
    output = tmp_path / "output"
    assert error_of(command).startswith(f"error: {output}/toy.bin: no origin gave the right file")
    assert "error: ftp://x: not a base URL; give" in error_of([*command, "--mirror", "ftp://x"])
    output.rmdir()
    output.write_text("a file where the folder should be")
    assert error_of(command).startswith(f"error: {output}")


def test_main_reports_a_full_disk(server: LoopbackServer, tmp_path: Path) -> None:
    """A limit on the size of a file stands for the disk."""
    command = entry(tmp_path, server.add("/toy", BODY))
    with largest_file(1 << 16):
        message = error_of(command)
    assert message.startswith(f"error: {tmp_path / 'output'}: File too large; check the space")
    assert not (tmp_path / "output" / "toy.bin").exists()
    assert len(server.requests) == 1
