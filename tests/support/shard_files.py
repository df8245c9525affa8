"""Tar shards for tests: GRIT's layout and plain pairs, with images of one shade."""

import io
import tarfile

from PIL import Image


def jpeg(shade, size=(40, 30)):
    buffer = io.BytesIO()
    Image.new("RGB", size, (shade % 256, 80, 200)).save(buffer, "JPEG")
    return buffer.getvalue()


def write_shard(path, members):
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def grit_sample(key, boxes=2):
    members = [(f"{key}.child.jpg", jpeg(int(key))), (f"{key}.child.txt", f"whole {key}".encode())]
    members.append((f"{key}.numparents.txt", str(boxes).encode()))
    for box in range(boxes):
        members += [
            (f"{key}.parent{box:03d}.jpg", jpeg(int(key) + box, (20, 20))),
            (f"{key}.parent{box:03d}.txt", f"part {box} of {key}".encode()),
        ]
    return members


def pair_members(shard, size, damaged=()):
    """Image-caption pairs whose captions tell shard and row; those in `damaged` have no image."""
    members = []
    for row in range(size):
        name = f"{shard}-{row}"
        if name not in damaged:
            members.append((f"{name}.jpg", jpeg(row)))
        members.append((f"{name}.txt", name.encode()))
    return members


def cut_short(path, member):
    """Break off the shard within the content of its member number `member`."""
    with tarfile.open(path) as archive:
        end = archive.getmembers()[member].offset_data + 3
    path.write_bytes(path.read_bytes()[:end])
    return path
