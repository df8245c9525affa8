"""Writes PNG files that are the same bytes on every machine.

Compressed PNGs depend on the version of zlib; these hold their pixels uncompressed ("stored" blocks of RFC 1951 in
the framing of RFC 1950), which is also the fastest to read back.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

BLOCK = 65_535
"""Bytes that a stored block may hold."""


def encode(pixels: np.ndarray) -> bytes:
    """(H, W, 3) uint8 -> an RGB PNG of 8 bits a channel, no filter, no compression."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # every row begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    content = rows.tobytes()
    stream = b"\x78\x01"
    for start in range(0, len(content), BLOCK):
        block = content[start : start + BLOCK]
        last = start + BLOCK >= len(content)
        stream += struct.pack("<BHH", last, len(block), len(block) ^ 0xFFFF) + block
    stream += struct.pack(">I", zlib.adler32(content))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", stream) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
