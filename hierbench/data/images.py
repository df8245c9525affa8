"""From encoded bytes to the square of pixels that a model reads. Runs in worker processes."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from collections.abc import Callable

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor

from hierbench.contracts import Fit
from hierbench.errors import DataError, one_line

MAX_PIXELS = 89_478_485
"""Images with more pixels are refused: a quarter of a GiB as RGB, the size at which PIL itself warns."""

MAX_ASPECT = 500
"""Longer side over shorter side beyond which an image is refused: cropping resizes the shorter side to the
model's, so a 1 x 100,000 strip would grow to billions of pixels."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""What is tried; PIL knows more, some of which start other programs (EPS)."""


Enough = Callable[[int, int], tuple[int, int]]
"""Width and height of an encoded image -> those that suffice; for turned images, too, so it must treat both alike."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""What turns an image upright, by EXIF orientation (tag 0x0112; Exif 2.32, section 4.6.4)."""


def decode(content: bytes, where: str, enough: Enough | None = None) -> Image.Image:
    """Encoded bytes -> RGB image, upright as its EXIF orientation says; see `decode_stored`."""
    image, turn = decode_stored(content, where, enough)
    return image if turn is None else image.transpose(turn)


def decode_stored(
    content: bytes, where: str, enough: Enough | None = None
) -> tuple[Image.Image, Image.Transpose | None]:
    """Encoded bytes -> RGB image as its pixels are stored, and what turns it upright (None where it stands so).

    The first frame of an animation.
    Grey (8 and 16 bits, floats from 0 to 1), CMYK and palette images become RGB; alpha is dropped without blending, as
    in the usual loaders. JPEGs are decoded at full size, unless `enough` says that of a size a smaller one will do:
    then at the least of a half, a quarter or an eighth that is no smaller (PIL's draft mode, which changes the pixels a
    little and saves most of the time; for training alone).
    Raises DataError, naming `where`, for content that is empty, no image, truncated, corrupt or too large.
    """
    if not content:
        raise DataError(f"image {where} is empty (0 bytes): fetch it again or remove it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # broken EXIF blocks and odd TIFF tags are common and harmless
        try:
            image = Image.open(io.BytesIO(content), formats=FORMATS)
            _check_size(image.size, where)
            if enough is not None:
                image.draft(None, enough(*image.size))
            image.load()
            return _to_rgb(image, where), _turn(image)
        except DataError:
            raise
        except Image.DecompressionBombError:
            raise DataError(_bomb(where, "more pixels than PIL accepts")) from None
        except Image.UnidentifiedImageError:
            raise DataError(
                f"image {where} is not a readable {', '.join(FORMATS)} file: fetch it again or remove it"
            ) from None
        except Exception as error:  # PIL's decoders raise nearly anything on corrupt input
            raise DataError(
                f"image {where} is damaged ({one_line(error)}): fetch it again or remove it"
            ) from error


def as_plain_png(content: bytes, where: str) -> bytes:
    """Encoded bytes -> a PNG that every reader decodes to the pixels of `decode`: RGB, 8 bits, upright, one frame.

    A file that is one already is returned as it is. Raises DataError as `decode` does.
    """
    image = decode(content, where)
    if _is_plain_png(content):
        return content
    out = io.BytesIO()
    image.info.clear()  # profiles, gamma, transparency: other readers may act on them
    image.save(out, "PNG", compress_level=1)
    return out.getvalue()


def to_square(image: Image.Image, size: int, fit: Fit, resample: str = "bicubic") -> Tensor:
    """RGB image -> (3, size, size) float32 in [0, 1].

    CROP resizes the shorter side to `size` and cuts out the centre; SQUEEZE resizes both sides. Resizing is
    PIL's (antialiased). The same bits as torchvision's Resize, CenterCrop and ToTensor on a PIL image.
    """
    method = Image.Resampling[resample.upper()]
    width, height = image.size
    if fit == Fit.SQUEEZE:
        image = image.resize((size, size), method)
    else:
        short, long = min(width, height), int(size * max(width, height) / min(width, height))
        width, height = (size, long) if width == short else (long, size)
        image = image.resize((width, height), method)
        left, top = round((width - size) / 2), round((height - size) / 2)
        image = image.crop((left, top, left + size, top + size))
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    return pixels.to(torch.float32, memory_format=torch.contiguous_format).div_(255)


PNG_HEADER = struct.Struct(
    ">8s4x4s8xBBBBB"
)  # signature, IHDR, bits, colour type, compression, filter, interlacing
PLAIN_CHUNKS = {
    b"IHDR",
    b"IDAT",
    b"IEND",
    b"pHYs",
    b"tIME",
}  # others, texts too, may tell of colour or orientation


def _is_plain_png(content: bytes) -> bool:
    if len(content) < PNG_HEADER.size:
        return False
    if PNG_HEADER.unpack_from(content)[:4] != (b"\x89PNG\r\n\x1a\n", b"IHDR", 8, 2):
        return False
    place = 8
    while place + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, place)
        if kind not in PLAIN_CHUNKS:
            return False
        place += 12 + length
    return True


def _check_size(size: tuple[int, int], where: str) -> None:
    width, height = size
    if width * height > MAX_PIXELS:
        raise DataError(_bomb(where, f"{width} x {height} pixels, the limit is {MAX_PIXELS:,}"))
    if max(size) > MAX_ASPECT * min(size):
        raise DataError(
            f"image {where} is a strip of {width} x {height} pixels: remove it or cut it to a picture"
        )


def _bomb(where: str, reason: str) -> str:
    return f"image {where} may be a decompression bomb ({reason}): remove it or store it smaller"


def _turn(image: Image.Image) -> Image.Transpose | None:
    with contextlib.suppress(
        Exception
    ):  # an EXIF block that cannot be parsed says nothing about the orientation
        return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    return None


def _to_rgb(image: Image.Image, where: str) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode == "F" or image.mode.startswith("I"):
        image = Image.fromarray(_eight_bits(np.asarray(image), where))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _eight_bits(samples: np.ndarray, where: str) -> np.ndarray:
    """Grey values of 16 bits, or floats from 0 to 1, as bytes: by the range of the kind, whatever the picture holds.

    PIL's own conversion would clip at 255: floats become black, 16 bits white. Raises DataError for values that are
    outside of that range, whose scale nobody knows.
    """
    most = 1 if samples.dtype.kind == "f" else 65535
    low, high = samples.min(), samples.max()
    if not (low >= 0 and high <= most):  # true of NaN, too
        raise DataError(
            f"image {where} has samples from {low:g} to {high:g} where 0 to {most} is expected: nobody knows what is "
            "white; store it with 8 bits a sample"
        )
    if samples.dtype.kind == "f":
        return np.rint(samples * 255).astype(np.uint8)
    return (samples >> 8).astype(np.uint8)
