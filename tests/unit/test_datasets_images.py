"""What becomes of images of every kind, and what the data report says of them."""

from __future__ import annotations

import io
import json
import re
import shlex
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image, PngImagePlugin

from fixtures.archives import encoded, photo
from fixtures.commands import Done, call
from fixtures.runs import make_record, write_plan
from fixtures.studies import built, text_of
from fixtures.studies import report as study_report
from fixtures.toy_dataset import lines_of
from touchstone.datasets import catalogue, data_report, formats, photos

SIZE = (12, 9)
"""Width and height."""


def noise(seed: int) -> np.ndarray:
    """Grey noise, 8 bits."""
    return np.random.RandomState(seed).randint(0, 256, SIZE[::-1]).astype(np.uint8)


def colours(seed: int) -> Image.Image:
    """Smooth colours, which JPEG keeps."""
    return Image.open(io.BytesIO(photo(seed, *SIZE))).convert("RGB")


def sixteen(values: np.ndarray, mode: str = "I;16", kind: str = "PNG") -> bytes:
    """Grey values up to 65,535 as a file of that byte order."""
    order = ">u2" if mode == "I;16B" else "<u2"
    image = Image.frombytes(mode, values.shape[::-1], values.astype(order).tobytes())
    return encoded(image, kind)


def turned(seed: int, orientation: int, kind: str = "JPEG") -> bytes:
    """A photo that its EXIF orientation turns upright."""
    exif = Image.Exif()
    exif[274] = orientation
    more = {"tiffinfo": {274: orientation}} if kind == "TIFF" else {"quality": 95}
    return encoded(colours(seed), kind, exif=exif, **more)


def cut_out() -> bytes:
    """Green that an alpha channel hides on the left half."""
    pixels = np.full((*SIZE[::-1], 4), [0, 255, 0, 0], np.uint8)
    pixels[:, SIZE[0] // 2 :] = [10, 20, 30, 255]
    return encoded(Image.fromarray(pixels), "PNG")


def animation() -> bytes:
    frames = [Image.fromarray(noise(50 + i)) for i in range(3)]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def profiled() -> bytes:
    return encoded(colours(60), "PNG", icc_profile=b"\0" * 128)


def put(root: Path, files: dict[str, bytes]) -> Path:
    """Write files by their path below a folder."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def two_classes(root: Path, count: int = 6) -> Path:
    """Grey PNG files of two classes."""
    names = [(name, i) for name in ("cat", "dog") for i in range(count)]
    return put(
        root,
        {
            f"{name}/{i}.png": encoded(Image.fromarray(noise(100 * (name == "dog") + i)), "PNG")
            for name, i in names
        },
    )


def describe(root: Path, *options: object, name: str = "mine") -> Done:
    """Call describe-folder; the catalogue's file is beside the folder."""
    output = root.parent / f"{name}.yaml"
    share = () if "--test-folder" in options else ("--test-share", 0.34)
    return call("describe-folder", root, *share, *options, "--output", output)


def report(folder: Path, name: str = "mine") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.report.json").read_text())
    return found


def convert(folder: Path) -> list[formats.Example]:
    """The examples of `mine` after its conversion."""
    options = ["--config-folder", folder, "--source", folder, "--format", "lmdb"]
    done = call("convert", "mine", *options, "--output", folder / "data/lmdb")
    assert done.returncode == 0, done.stderr
    dataset = catalogue.load("mine", folder)
    shape = None if dataset.photos else dataset.shape
    return [
        example
        for split in ("train", "test")
        for example in formats.load("lmdb").read(folder / "data/lmdb" / split, shape)
    ]


@pytest.mark.parametrize(("mode", "kind"), [("I;16", "PNG"), ("I;16", "TIFF"), ("I;16B", "TIFF")])
@pytest.mark.parametrize("options", [(), ("--photos", "--shape", 9, 12, 1)], ids=["pixels", "jpeg"])
def test_the_same_noise_in_8_and_in_16_bits_is_the_same_data(
    tmp_path: Path, mode: str, kind: str, options: tuple[object, ...]
) -> None:
    """A class that was kept in 16 bits had been white, and was learned to 100 %."""
    suffix = kind.lower()
    files = {f"well/{i}.png": encoded(Image.fromarray(noise(i)), "PNG") for i in range(4)}
    files |= {f"ill/{i}.{suffix}": sixteen(noise(i) * np.uint16(257), mode, kind) for i in range(4)}
    root = put(tmp_path / "images", files)
    done = describe(root, "--bits", 16, *options)
    assert done.returncode == 0, done.stderr
    of_class: dict[int, set[bytes]] = {0: set(), 1: set()}
    for label, image in convert(tmp_path):
        of_class[label].add(formats.content(image))
    assert len(of_class[0]) == 4 and of_class[0] == of_class[1]
    (remark,) = [one for one in report(tmp_path)["remarks"] if one["what"].startswith("16-bit")]
    assert remark["count"] == 4 and mode in remark["what"]
    assert remark["treatment"].startswith("the 8 highest of 16 bits are kept")


@pytest.mark.parametrize("options", [(), ("--photos",)], ids=["pixels", "jpeg"])
def test_values_of_16_bits_need_a_number_of_bits_which_the_message_names(
    tmp_path: Path, options: tuple[object, ...]
) -> None:
    root = two_classes(tmp_path / "images")
    values = noise(1).astype(np.uint16) << 4
    values[0, 0] = 4095
    put(root, {"cat/deep.png": sixteen(values)})
    done = describe(root, *options)
    (line,) = lines_of(done)
    assert "such as cat/deep.png (PNG of mode I;16, 16 bits); " in line
    assert "largest value is 4,095; give --bits 12" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]
    assert describe(root, "--bits", 12, *options).returncode == 0
    pixels = photos.as_pixels((root / "cat/deep.png").read_bytes(), [9, 12, 1], 12)
    assert pixels[0, 0, 0] == 255
    np.testing.assert_array_equal(pixels.ravel()[1:], noise(1).ravel()[1:])
    entry = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    del entry["decoder"]["bits"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(entry))
    where = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "lmdb"]
    (line,) = lines_of(call("convert", "mine", *where, "--output", tmp_path / "data/lmdb"))
    assert line.startswith(
        f"{root}/cat/deep.png: a PNG of mode I;16 with 16 bits a channel, and nothing says"
    )
    (tmp_path / "mine.yaml").unlink()
    (line,) = lines_of(describe(root, "--bits", 9, *options))
    assert "with the value 4095, which needs 12 bits; give --bits 12" in line


FLOAT = encoded(Image.fromarray(noise(1) / np.float32(255)), "TIFF")
REFUSED = {
    "TIFF of mode F with 32 bits": FLOAT,
    "TIFF of mode I with 32 bits": encoded(Image.fromarray(noise(1).astype(np.int32)), "TIFF"),
    "TIFF of mode LAB with 8 bits": encoded(Image.new("LAB", SIZE), "TIFF"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("options", [(), ("--photos",)], ids=["pixels", "jpeg"])
def test_what_no_rule_covers_is_refused_with_file_and_mode(
    tmp_path: Path, kind: str, options: tuple[object, ...]
) -> None:
    """Of these, a float image had been black, and a 32-bit one white."""
    root = two_classes(tmp_path / "images")
    assert describe(root, *options).returncode == 0
    put(root, {"cat/1.png": REFUSED[kind]})
    message = f"{root}/cat/1.png: a {kind} a channel, of which no rule"
    where = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "lmdb"]
    (line,) = lines_of(call("convert", "mine", *where, "--output", tmp_path / "data/lmdb"))
    assert line.startswith(message)
    (line,) = lines_of(describe(root, *options, name="other"))
    assert line.startswith(message) and not (tmp_path / "other.yaml").exists()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_image_is_upright_as_pixels_and_as_a_photo(kind: str, orientation: int) -> None:
    """The scene is the same, whichever way the camera was held."""
    scene = np.asarray(colours(3)).astype(int)
    apply = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2), 6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(a.transpose(1, 0, 2), 2), 8: np.rot90,
    }  # fmt: skip
    upright = apply[orientation](scene)
    content = turned(3, orientation, kind)
    pixels = photos.as_pixels(content, list(upright.shape)).astype(int)
    jpeg = Image.open(io.BytesIO(photos.as_jpeg(content, None, 95)))
    assert np.abs(pixels - upright).mean() < 12
    assert np.abs(np.asarray(jpeg).astype(int) - upright).mean() < 12
    assert photos.opened(content).facts.size == (upright.shape[1], upright.shape[0])
    if (kind, orientation) == ("JPEG", 1):
        assert photos.as_jpeg(content, None, 95) == content


def test_a_hidden_colour_stays_hidden() -> None:
    """The ground of a cut-out is white, whatever colour its transparent pixels have."""
    pixels = photos.as_pixels(cut_out(), [9, 12, 3])
    assert (pixels[:, :6] == 255).all() and (pixels[:, 6:] == [10, 20, 30]).all()
    palette = Image.fromarray(noise(2) // 128).convert("P")
    content = encoded(palette, "PNG", transparency=0)
    assert (photos.as_pixels(content, [9, 12, 1])[noise(2) < 128] == 255).all()
    clear = np.asarray(noise(3)).astype(np.uint16) * 257
    clear[0, 0] = 5
    file = io.BytesIO()
    Image.fromarray(clear).save(file, "PNG", transparency=5)
    assert photos.as_pixels(file.getvalue(), [9, 12, 1], 16)[0, 0, 0] == 255


ONE_OF_EACH: dict[str, tuple[bytes, str]] = {
    "cat/sixteen.png": (sixteen(noise(9) * np.uint16(257)), "16-bit, mode I;16"),
    "cat/float.tif": (FLOAT, "32-bit, mode F"),
    "cat/cmyk.jpg": (encoded(colours(10).convert("CMYK")), "CMYK"),
    "cat/palette.png": (encoded(colours(11).convert("P"), "PNG"), "palette"),
    "cat/lying.jpg": (turned(12, 6), "EXIF orientation"),
    "cat/cut-out.png": (cut_out(), "transparency"),
    "dog/moving.gif": (animation(), "several frames"),
    "dog/profile.png": (profiled(), "colour profile"),
    "dog/jpeg.png": (encoded(colours(13)), "suffix of another format"),
    "cat/again.png": (encoded(Image.fromarray(noise(0)), "PNG"), "duplicates within a class"),
    "dog/cat.bmp": (encoded(Image.fromarray(noise(1)), "BMP"), "duplicates across classes"),
}


def test_the_report_of_one_file_of_each_kind_names_each(tmp_path: Path) -> None:
    root = two_classes(tmp_path / "images")
    put(root, {name: content for name, (content, _) in ONE_OF_EACH.items()})
    done = describe(root, "--bits", 16, "--shape", 9, 12, 1)
    (line,) = lines_of(done)
    assert line.startswith(f"{root}/cat/float.tif: a TIFF of mode F with 32 bits")
    lines = done.stdout.splitlines()
    for name, (_, what) in ONE_OF_EACH.items():
        (row,) = [row for row in lines if row.strip().startswith(f"{what}: ")]
        assert name in row, row
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]
    (root / "cat/float.tif").unlink()
    done = describe(root, "--bits", 16, "--shape", 9, 12, 1)
    assert done.returncode == 0, done.stderr
    found = data_report.read(tmp_path / "mine.report.json")
    assert found is not None and found.lines == done.stdout.splitlines()[1:]
    whats = {remark.what: remark for remark in found.remarks}
    for name, (_, what) in ONE_OF_EACH.items():
        assert name == "cat/float.tif" or any(name in one for one in whats[what].first)
    assert found.formats == {"PNG": 17, "JPEG": 3, "GIF": 1, "BMP": 1}
    assert found.images == {"train": 15, "test": 7}


def test_equal_pixels_are_found_within_and_across_classes_and_splits(tmp_path: Path) -> None:
    """Whatever the file's format, its depth and its orientation."""
    root = two_classes(tmp_path / "train", 3)
    put(root, {"cat/wide.tif": sixteen(noise(100) * np.uint16(257), "I;16B", "TIFF")})
    other = two_classes(tmp_path / "val", 3)
    put(other, {"dog/0.png": (root / "dog/2.png").read_bytes()})
    put(other, {"cat/1.bmp": encoded(Image.fromarray(noise(900)), "BMP")})
    put(other, {f"cat/{i}.png": encoded(Image.fromarray(noise(900 + i)), "PNG") for i in range(3)})
    put(other, {f"dog/{i}.png": encoded(Image.fromarray(noise(800 + i)), "PNG") for i in (1, 2)})
    done = describe(root, "--test-folder", other, "--bits", 16)
    assert done.returncode == 0, done.stderr
    found = {one["what"]: one["first"] for one in report(tmp_path)["remarks"]}
    assert found["duplicates within a class"] == [
        "train/dog/2.png = val/dog/0.png",
        "val/cat/0.png = val/cat/1.bmp",
    ]
    assert found["duplicates across classes"] == ["train/cat/wide.tif = train/dog/0.png"]
    assert found["duplicates across splits"] == ["train/dog/2.png = val/dog/0.png"]


def test_a_class_without_a_test_image_is_named(tmp_path: Path) -> None:
    root = two_classes(tmp_path / "images")
    put(root, {"rare/0.png": encoded(Image.fromarray(noise(1)), "PNG")})
    done = describe(root)
    assert "  no test image: 1 (classes without one): rare" in done.stdout.splitlines()
    options = ["--config-folder", tmp_path, "--source", tmp_path, "--format", "lmdb"]
    done = call("convert", "mine", *options, "--output", tmp_path / "data/lmdb")
    assert done.returncode == 0
    assert "mine: no test example of 1 of its classes: rare" in done.stderr.splitlines()


def png_of(width: int, height: int, head: tuple[int, int] = (8, 0), data: bytes = b"x") -> bytes:
    """A PNG file of this size, bit depth and kind of colour; `data` are its rows."""
    parts = [
        (b"IHDR", struct.pack(">2I5B", width, height, *head, 0, 0, 0)),
        (b"IDAT", zlib.compress(data)),
        (b"IEND", b""),
    ]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_of_colours_of_16_bits_the_8_highest_count() -> None:
    """Pillow calls them RGB, as if they had 8."""
    values = np.random.RandomState(4).randint(0, 2**16, (9, 12, 3)).astype(">u2")
    content = png_of(*SIZE, (16, 2), b"".join(b"\0" + row.tobytes() for row in values))
    np.testing.assert_array_equal(photos.as_pixels(content, [9, 12, 3], 16), values >> 8)
    for bits, cause in ((None, "nothing says how many bits"), (12, "16 bits count, not 12")):
        with pytest.raises(photos.UnfitImage, match=f"PNG of mode RGB with 16 bits.*{cause}"):
            photos.as_pixels(content, [9, 12, 3], bits)


def text_bomb() -> bytes:
    """A PNG file whose text unpacks to 80 MB."""
    info = PngImagePlugin.PngInfo()
    info.add_text("x", "0" * 80_000_000, zip=True)
    return encoded(Image.fromarray(noise(1)), "PNG", pnginfo=info)


def broken_scan() -> bytes:
    """A JPEG file with good headers and end mark, and a scan that ends early."""
    content = encoded(colours(1))
    return content[: len(content) // 2 + 150] + b"\xff\xd9"


BOMBS = {
    "huge": lambda: png_of(20_000, 20_000),
    "beyond": lambda: png_of(2**31 - 1, 2**31 - 1),
    "text": text_bomb,
    "scan": broken_scan,
    "signature": lambda: b"\xff\xd8\xff",
    "tiff": lambda: b"II*\0" + b"\xff" * 60,
}


@pytest.mark.parametrize("options", [(), ("--photos",)], ids=["pixels", "jpeg"])
def test_damaged_and_dangerous_files_are_named_at_once(
    tmp_path: Path, options: tuple[object, ...]
) -> None:
    """Each had been a traceback, or had hidden the others."""
    root = two_classes(tmp_path / "images")
    put(root, {f"cat/{name}.png": make() for name, make in BOMBS.items()})
    put(
        root,
        {"dog/float.tif": FLOAT, "dog/notes.txt": b"no image"},
    )
    (root / "empty").mkdir()
    lines = lines_of(describe(root, *options, "--shape", 9, 12, 1))
    named = [line.split(":")[0].removeprefix(f"{root}/") for line in lines]
    bombs = [f"cat/{name}.png" for name in sorted(BOMBS)]
    assert sorted(named) == sorted([*bombs, "dog/float.tif", "dog/notes.txt", "empty"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]


def test_a_photo_too_long_for_a_jpeg_file_is_refused() -> None:
    content = encoded(Image.new("RGB", (3000, 1)), "PNG")
    with pytest.raises(photos.UnfitImage, match="768000 x 256 pixels, and a JPEG file has at most"):
        photos.as_jpeg(content, 256, None)


def test_the_name_of_the_file_is_checked_before_the_images_are_read(tmp_path: Path) -> None:
    done = describe(tmp_path / "nowhere", name="my images")
    assert done.returncode != 0 and "no such folder" not in done.stderr
    assert "a data set's file is NAME.yaml" in done.stderr


def the_command(message: str) -> list[str]:
    """The arguments of the command that a message gives."""
    found = re.search(r"`describe-folder (.+?)`", message)
    assert found, message
    return shlex.split(found[1])


@pytest.mark.parametrize(("train", "val"), [("train", "val"), ("Training", "test"), ("train", "")])
def test_folders_of_splits_are_answered_with_the_command_that_reads_them(
    tmp_path: Path, train: str, val: str
) -> None:
    root = tmp_path / "my data"
    for split in filter(None, (train, val)):
        two_classes(root / split)
    (line,) = lines_of(describe(root))
    assert "its folders are splits and not classes" in line
    output = ("--output", tmp_path / "mine.yaml")
    done = call("describe-folder", *the_command(line), *output)
    assert done.returncode == 0, done.stderr
    dataset = catalogue.load("mine", tmp_path)
    assert (dataset.classes, sum(count for _, count in dataset.splits)) == (
        ["cat", "dog"],
        24 if val else 12,
    )
    assert len(convert(tmp_path)) == (24 if val else 12)


def test_tiny_imagenets_layout_is_read(tmp_path: Path) -> None:
    root = tmp_path / "tiny"
    flat = two_classes(tmp_path / "flat", 5)
    for name in ("cat", "dog"):
        for path in (flat / name).iterdir():
            put(root, {f"train/{name}/images/{path.name}": path.read_bytes()})
            put(root, {f"val/images/{name}{path.name}": path.read_bytes()})
        put(root, {f"train/{name}/{name}_boxes.txt": b"x"})
    put(root, {"val/val_annotations.txt": b"x", "test/images/a.png": b"x"})
    (line,) = lines_of(describe(root))
    arguments = the_command(line)
    assert arguments == [str(root / "train"), "--test-share", "0.2"]
    done = call("describe-folder", *arguments, "--output", tmp_path / "mine.yaml")
    assert done.returncode == 0, done.stderr
    assert len(convert(tmp_path)) == 10
    put(root, {"train/cat/stray.png": (flat / "cat/0.png").read_bytes()})
    (line,) = lines_of(describe(root / "train", name="other"))
    assert line.startswith(f"{root}/train/cat/stray.png: beside the folder images; move it into")
    (root / "train/cat/stray.png").rename(root / "train/cat/images/stray.png")
    assert describe(root / "train", name="other").returncode == 0


def test_a_test_folder_with_other_classes_is_named_with_the_classes(tmp_path: Path) -> None:
    root, other = two_classes(tmp_path / "a"), two_classes(tmp_path / "b")
    put(other, {"fox/0.png": (root / "cat/0.png").read_bytes()})
    (line,) = lines_of(describe(root, "--test-folder", other))
    assert line.startswith(f"{other}: its classes are not those of the training images: ")
    assert "and a class more: fox" in line and "draft" not in line
    (other / "fox/0.png").unlink()
    (other / "fox").rmdir()
    (other / "dog").rename(tmp_path / "dog")
    (line, *_) = lines_of(describe(root, "--test-folder", other))
    assert "1 folders of classes" in line


def test_the_page_of_a_study_has_the_report_of_the_images_that_were_trained_on(
    tmp_path: Path,
) -> None:
    root = put(two_classes(tmp_path / "images"), {"cat/cut-out.png": cut_out()})
    assert describe(root).returncode == 0
    results = tmp_path / "results"
    make_record(results / "runs", results / "records")
    write_plan(results / "plan.tsv", [{}], repeats=1)
    (results / "config.resolved.yaml").write_text("title: One\n")
    built(results, images=False)
    assert "Data set" not in text_of(results)
    options = ["--plan", results / "plan.tsv", "--records", results / "records"]
    options += ["--output", results / "tables", "--findings", results / "findings.json"]
    options += ["--data", tmp_path / "mine.report.json"]
    assert call("gather", *options).returncode == 0 and study_report(results).returncode == 0
    page = text_of(results)
    assert "Data set mine images train 9, test 4 transparency 1 (laid on white)" in page
    assert "cut-out" not in page  # a page may be published, and names of files tell of people
    entry = yaml.safe_load((tmp_path / "mine.yaml").read_text())
    entry["fingerprints"]["test"] = "0" * 64  # of other images
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(entry))
    assert call("gather", *options).returncode == 0 and study_report(results).returncode == 0
    assert "Data set" not in text_of(results)
