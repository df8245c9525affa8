"""Archives unpack as they are, and not at all where a member would reach outside the folder."""

import io
import os
import shutil
import stat
import tarfile
import zipfile

import pytest

from hierbench.acquire import archives
from hierbench.acquire.archives import is_archive, unpack
from hierbench.errors import DataError, OutputError

FILES = {"a/one.jpg": b"one", "a/b/two.jpg": b"two" * 100_000, "three.txt": b""}


def make_zip(path, files=FILES, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a/empty/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path, files=FILES, mode="w"):
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("./")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def special(path, name, kind, target=""):
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("good.txt")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"good"))
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return path


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "mode"),
    [("x.tar", "w"), ("x.tgz", "w:gz"), ("x.tar.bz2", "w:bz2"), ("noname", "w:xz"), ("x.zip", None)],
)
def test_what_is_in_it_comes_out(tmp_path, name, mode):
    archive = make_tar(tmp_path / name, mode=mode) if mode else make_zip(tmp_path / name)
    assert is_archive(archive)
    assert unpack(archive, tmp_path / "out") == 3
    assert content(tmp_path / "out") == FILES
    assert unpack(archive, tmp_path / "out") == 3  # again, over what is there
    assert content(tmp_path / "out") == FILES


def test_several_archives_share_a_folder(tmp_path):
    unpack(make_zip(tmp_path / "1.zip", {"val/a.jpg": b"a"}), tmp_path / "out")
    unpack(make_tar(tmp_path / "2.tar", {"val/b.jpg": b"b"}), tmp_path / "out")
    assert content(tmp_path / "out") == {"val/a.jpg": b"a", "val/b.jpg": b"b"}


def test_backslashes_of_windows_are_folders(tmp_path):
    info = zipfile.ZipInfo("x")
    info.filename = "2750\\Forest\\Forest_1.jpg"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, b"x")
    unpack(tmp_path / "x.zip", tmp_path / "out")
    assert content(tmp_path / "out") == {"2750/Forest/Forest_1.jpg": b"x"}


def test_a_hard_link_within_the_archive_is_a_file(tmp_path):
    unpack(special(tmp_path / "x.tar", "twin.txt", tarfile.LNKTYPE, "good.txt"), tmp_path / "out")
    assert content(tmp_path / "out") == {"good.txt": b"good", "twin.txt": b"good"}


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/etc/evil", "absolute path"),
        ("C:/evil", "absolute path"),
        ("C:\\evil", "absolute path"),
        ("../evil", "`..`"),
        ("a/../../evil", "`..`"),
        ("a\\..\\..\\evil", "`..`"),
    ],
)
def test_names_that_leave_the_folder(tmp_path, make, name, reason):
    archive = make(tmp_path / "x", {name: b"evil"})
    with pytest.raises(DataError, match=reason) as caught:
        unpack(archive, tmp_path / "deep" / "out")
    assert "evil" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize(
    ("kind", "target", "reason"),
    [
        (tarfile.SYMTYPE, "/etc/passwd", "'bad' is a symbolic link"),
        (tarfile.SYMTYPE, "../outside", "'bad' is a symbolic link"),
        (tarfile.SYMTYPE, "good.txt", "'bad' is a symbolic link"),
        (tarfile.LNKTYPE, "../secret", r"hard link 'bad', '\.\./secret' has `\.\.`"),
        (tarfile.LNKTYPE, "/etc/passwd", "hard link 'bad', '/etc/passwd' has an absolute"),
        (tarfile.LNKTYPE, "later.txt", "'bad' leads to 'later.txt', no file before it"),
        (tarfile.CHRTYPE, "", "'bad' is a device"),
        (tarfile.BLKTYPE, "", "'bad' is a device"),
        (tarfile.FIFOTYPE, "", "'bad' is a device"),
    ],
)
def test_links_and_devices_in_a_tar(tmp_path, kind, target, reason):
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(DataError, match=reason):
        unpack(special(tmp_path / "x.tar", "bad", kind, target), tmp_path / "out")
    assert not os.path.lexists(tmp_path / "out" / "bad")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(stat.S_IFLNK | 0o777, "symbolic link"), (stat.S_IFCHR, "a device"), (stat.S_IFIFO, "device")],
)
def test_links_and_devices_in_a_zip(tmp_path, mode, reason):
    info = zipfile.ZipInfo("bad")
    info.external_attr = mode << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, b"/etc/passwd")
    with pytest.raises(DataError, match=f"'bad' is .*{reason}"):
        unpack(tmp_path / "x.zip", tmp_path / "out")


def test_a_file_that_a_hard_link_shares_is_not_written_through(tmp_path):
    """A later member of the same name must not change the twin."""
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, kind, text in (("a", b"0", b"first"), ("b", tarfile.LNKTYPE, b""), ("a", b"0", b"second")):
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(text), "a" if kind == tarfile.LNKTYPE else ""
            archive.addfile(info, io.BytesIO(text))
    unpack(tmp_path / "x.tar", tmp_path / "out")
    assert content(tmp_path / "out") == {"a": b"second", "b": b"first"}


@pytest.mark.parametrize(
    ("name", "mode"), [("x.tar", "w"), ("x.tgz", "w:gz"), ("x.tar.bz2", "w:bz2"), ("x.txz", "w:xz")]
)
@pytest.mark.parametrize("keep", [0.5, 0.9])
def test_tars_that_break_off(tmp_path, name, mode, keep):
    archive = make_tar(tmp_path / name, {"a.bin": os.urandom(60_000), "b.bin": os.urandom(60_000)}, mode)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(DataError, match=rf"{name} is damaged \(.*fetch it again"):
        unpack(archive, tmp_path / "out")


def test_a_flipped_bit_in_a_compressed_tar_is_noticed(tmp_path):
    archive = make_tar(tmp_path / "x.tgz", {"a.bin": os.urandom(60_000)}, "w:gz")
    content = bytearray(archive.read_bytes())
    content[30_000] ^= 1  # random bytes are stored as they are: only the checksum tells
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"is damaged \(CRC check failed"):
        unpack(archive, tmp_path / "out")


def test_damaged_zips(tmp_path):
    archive = make_zip(tmp_path / "x.zip", {"a.bin": b"abc" * 50_000}, zipfile.ZIP_STORED)
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-30])
    with pytest.raises(DataError, match="is damaged"):
        unpack(archive, tmp_path / "out")
    archive.write_bytes(whole.replace(b"abc", b"abd", 1))
    with pytest.raises(DataError, match=r"is damaged \(Bad CRC"):
        unpack(archive, tmp_path / "out")


def test_what_is_no_archive(tmp_path):
    (tmp_path / "x.rar").write_bytes(b"Rar!\x1a\x07\x00" + bytes(600))
    assert not is_archive(tmp_path / "x.rar")
    with pytest.raises(DataError, match="unpack it yourself and give the folder"):
        unpack(tmp_path / "x.rar", tmp_path / "out")
    (tmp_path / "x.tar.gz").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match="is damaged"):
        unpack(tmp_path / "x.tar.gz", tmp_path / "out")


def test_an_encrypted_zip(tmp_path):
    archive = make_zip(tmp_path / "x.zip", {"a.jpg": b"a"})
    content = bytearray(archive.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + place] |= 1
            at = content.find(mark, at + 1)
    archive.write_bytes(content)
    with pytest.raises(DataError, match="is encrypted"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_too_little_disk_is_said_before_anything_is_written(tmp_path, monkeypatch, make):
    archive = make(tmp_path / "x", {"big.bin": b"b" * 300_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 299_999})())
    with pytest.raises(DataError, match=r"needs 3\d\d,\d\d\d bytes in .*out, where 299,999 are free"):
        unpack(archive, tmp_path / "out")
    assert content(tmp_path / "out") == {}


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(OutputError, match="cannot be unpacked into"):
        unpack(make_zip(tmp_path / "x.zip"), tmp_path / "out")


# ------------------------------------------------------------------------------------------ decompression bombs


@pytest.fixture
def small_limits(monkeypatch):
    """64 KiB and 50 times the archive's size."""
    monkeypatch.setattr(archives, "SLACK", 64 << 10)


def written(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ZEROS = bytes(8 << 20)


@pytest.mark.parametrize(
    ("name", "mode"), [("x.zip", None), ("x.tgz", "w:gz"), ("x.tar.bz2", "w:bz2"), ("x.txz", "w:xz")]
)
def test_bombs_are_refused_before_they_are_written(tmp_path, small_limits, name, mode):
    files = {"0.jpg": b"fine"} | {f"{k}.bin": ZEROS for k in range(1, 4)}
    archive = make_tar(tmp_path / name, files, mode) if mode else make_zip(tmp_path / name, files)
    assert archive.stat().st_size < 100_000
    with pytest.raises(
        DataError, match=r"may be a decompression bomb: it holds .*more than 0 MiB and 50 times"
    ):
        unpack(archive, tmp_path / "out")
    assert written(tmp_path / "out") <= len(b"fine")


def test_a_zip_whose_members_share_their_bytes(tmp_path, small_limits):
    """Each entry of the index points at the same compressed data, as in bombs that need no nesting."""
    archive = make_zip(tmp_path / "x.zip", {"a": bytes(40_000)})
    with zipfile.ZipFile(archive, "a") as opened:
        (info,) = [info for info in opened.infolist() if info.filename == "a"]
        for number in range(200):
            twin = zipfile.ZipInfo(f"{number}")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(twin, name, getattr(info, name))
            opened.filelist.append(twin)
        opened._didModify = True
    with pytest.raises(DataError, match="may be a decompression bomb"):
        unpack(archive, tmp_path / "out")


def test_headers_padding_and_holes_count_as_well(tmp_path, small_limits):
    import gzip

    padded = gzip.compress(make_tar(tmp_path / "x.tar", {"a": b"a"}).read_bytes() + ZEROS)
    header = tarfile.TarInfo("a")
    header.type, header.size = tarfile.XHDTYPE, len(ZEROS)
    claimed = gzip.compress(header.tobuf(tarfile.USTAR_FORMAT) + ZEROS)
    for number, content in enumerate((padded, claimed)):
        archive = tmp_path / f"{number}.tgz"
        archive.write_bytes(content)
        with pytest.raises(DataError, match="may be a decompression bomb: it holds more than"):
            unpack(archive, tmp_path / "out")
    sparse = tarfile.TarInfo("a")
    sparse.type, sparse.size = tarfile.GNUTYPE_SPARSE, 0
    buffer = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    buffer[483:495] = b"%011o\0" % (1 << 32)  # the size with its holes: 4 GiB
    buffer[148:156] = b" " * 8
    buffer[148:156] = b"%06o\0 " % sum(buffer)
    (tmp_path / "hole.tar").write_bytes(buffer + bytes(1024))
    with pytest.raises(DataError, match=r"it holds 4,294,967,296 bytes, more than"):
        unpack(tmp_path / "hole.tar", tmp_path / "out")


def test_far_more_members_than_the_dataset_has_images(tmp_path):
    archive = make_tar(tmp_path / "x.tar", {f"{k}": b"" for k in range(50)})
    assert unpack(archive, tmp_path / "a", most_files=51) == 50  # and the folder
    with pytest.raises(DataError, match="has more than 20 members, far more than the dataset has images"):
        unpack(archive, tmp_path / "b", most_files=20)
    assert len(list((tmp_path / "b").iterdir())) < 20


def test_tables_that_compress_well_are_no_bombs(tmp_path):
    table = "\n".join(f"{k},a photo of a dog,http://x/{k}.jpg" for k in range(100_000)).encode()
    archive = make_zip(tmp_path / "x.zip", {"a.csv": table})
    assert len(table) > 7 * archive.stat().st_size
    assert unpack(archive, tmp_path / "out") == 1
