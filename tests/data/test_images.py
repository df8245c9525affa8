"""Decoding and resizing: odd but valid images work, broken ones give one line, pixels equal torchvision's."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms

from hierbench.contracts import Fit
from hierbench.data import images
from hierbench.data.images import decode, to_square
from hierbench.errors import DataError


def picture(height=40, width=60, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8).squeeze()


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_claiming(width, height):
    """A PNG of a few bytes that claims to hold width x height pixels."""

    def chunk(body):
        return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))

    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(header) + chunk(b"IDAT" + zlib.compress(bytes(1000))) + chunk(b"IEND")


# ---------------------------------------------------------------------------------------------- odd but valid


def test_rgb_comes_back_as_it_was():
    pixels = picture()
    assert np.array_equal(np.asarray(decode(encoded(Image.fromarray(pixels)), "a.png")), pixels)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "RGBA", "P"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_other_modes_become_rgb(mode, kind):
    image = Image.fromarray(picture()).convert(mode)
    out = decode(encoded(image, kind), "a")
    assert (out.mode, out.size) == ("RGB", image.size)
    assert np.array_equal(np.asarray(out), np.asarray(image.convert("RGB")))


def test_cmyk_jpeg():
    image = Image.new("CMYK", (32, 24), (0, 255, 255, 0))  # no cyan, all magenta and yellow: red
    out = decode(encoded(image, "JPEG"), "a.jpg")
    assert out.mode == "RGB"
    assert np.abs(np.asarray(out).astype(int) - (255, 0, 0)).max() <= 3


def test_palette_with_transparency_keeps_its_colours():
    image = Image.fromarray(picture()).quantize(16)
    expected = np.asarray(image.convert("RGB"))
    for transparency in (3, bytes(range(0, 256, 16))):
        out = decode(encoded(image, "PNG", transparency=transparency), "a.png")
        assert np.array_equal(np.asarray(out), expected)


def test_alpha_is_dropped_not_blended():
    image = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert np.asarray(decode(encoded(image), "a.png"))[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_keeps_its_range(kind):
    grey = np.array([[0, 257, 32768], [65535, 511, 128]], np.uint16)
    out = np.asarray(decode(encoded(Image.fromarray(grey), kind), "a"))
    assert out[..., 0].tolist() == [[0, 1, 128], [255, 1, 0]]
    assert (out == out[..., :1]).all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation_is_applied(orientation, kind):
    upright = np.zeros((16, 32, 3), np.uint8)
    upright[:8, :16] = 255  # the upper left quarter is white
    across = upright.swapaxes(0, 1)
    stored = {  # how a camera stores the upright picture under each tag (EXIF 2.3, tag 274)
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: across, 6: np.rot90(upright), 7: np.rot90(across, 2), 8: np.rot90(upright, -1),
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[274] = orientation
    image = Image.fromarray(np.ascontiguousarray(stored))
    out = np.asarray(decode(encoded(image, kind, exif=exif), "a")).astype(int)
    assert out.shape == upright.shape
    assert np.abs(out - upright).max() < 40


def test_broken_exif_is_ignored():
    image = Image.fromarray(picture())
    content = encoded(image, "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\xff\xff\x01\x02garbage")
    assert decode(content, "a.jpg").size == image.size


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP", "PNG"):
        options = {"lossless": True} if kind == "WEBP" else {}
        out = decode(encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options), "a")
        assert np.asarray(out)[0, 0].tolist() == [255, 0, 0]


def test_jpeg_is_decoded_at_full_size():
    image = Image.fromarray(picture(64, 48))
    content = encoded(image, "JPEG")
    assert np.array_equal(np.asarray(decode(content, "a")), np.asarray(Image.open(io.BytesIO(content))))


# ----------------------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"not an image", "not a readable"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a readable"),
        (encoded(Image.fromarray(picture()), "JPEG")[:200], "image some/file.jpg"),
        (encoded(Image.fromarray(picture()), "JPEG")[:-300], "damaged"),
        (encoded(Image.fromarray(picture()), "PNG")[:-300], "damaged"),
        (png_claiming(20_000, 20_000), "decompression bomb"),
        (png_claiming(2**30, 2**30), "decompression bomb"),
        (png_claiming(0, 10), "image some/file.jpg"),
        (encoded(Image.new("RGB", (1, 2000))), "strip"),
    ],
)
def test_broken_images_give_one_line_naming_the_file(content, reason):
    with pytest.raises(DataError, match=reason) as caught:
        decode(content, "some/file.jpg")
    assert "image some/file.jpg" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_pixel_limit_is_ours_whatever_pil_is_set_to(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(DataError, match="decompression bomb"):
        decode(png_claiming(10_000, images.MAX_PIXELS // 10_000 + 1), "a.png")


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"]))
def test_corruption_never_escapes_as_another_error(data, kind):
    content = bytearray(encoded(Image.fromarray(picture(12, 10)), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        outcome = decode(bytes(content), "a").mode
    except DataError as error:
        outcome = str(error)
    assert outcome == "RGB" or outcome.startswith("image a ")
    assert "\n" not in outcome


# ------------------------------------------------------------------------------------------------- the square


def reference(image, size, fit, method):
    mode = transforms.InterpolationMode(method)
    if fit == Fit.SQUEEZE:
        steps = [transforms.Resize((size, size), mode)]
    else:
        steps = [transforms.Resize(size, mode), transforms.CenterCrop(size)]
    return transforms.Compose([*steps, transforms.ToTensor()])(image)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 400), st.integers(1, 400), st.sampled_from([32, 63, 224]), st.sampled_from(list(Fit)),
    st.sampled_from(["bicubic", "bilinear"]), st.integers(0, 99),
)  # fmt: skip
def test_square_equals_torchvision_bit_for_bit(height, width, size, fit, method, seed):
    if max(height, width) > 40 * min(height, width):
        width = height
    image = Image.fromarray(picture(height, width, seed=seed).reshape(height, width, 3))
    square = to_square(image, size, fit, method)
    assert square.shape == (3, size, size)
    assert square.dtype == torch.float32
    assert square.is_contiguous()
    assert torch.equal(square, reference(image, size, fit, method))


@pytest.mark.shared
def test_square_of_real_photographs_equals_torchvision(shared_data):
    for path in sorted((shared_data / "imagenet_val_sample").glob("*/*.JPEG"))[:10]:
        image = decode(path.read_bytes(), str(path))
        for fit in Fit:
            assert torch.equal(to_square(image, 224, fit), reference(image, 224, fit, "bicubic"))
