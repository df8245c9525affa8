"""Shards at URLs: through a local server that breaks off, lists nothing, or is not there."""

import threading
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import fsspec
import pytest
from shard_files import cut_short, pair_members, write_shard

from hierbench.errors import DataError
from hierbench.reference.training import remote
from hierbench.reference.training.shards import Stream, find_shards, parse_pair, read_stream

aiohttp = pytest.importorskip("aiohttp", reason="needs fsspec[http], of the extra `train`")


class Breaking(SimpleHTTPRequestHandler):
    """Serves a folder with ranges; of the first `broken` answers only a part arrives."""

    broken = 0
    answers = 0

    def do_GET(self):
        content = (self.server.folder / self.path.strip("/")).read_bytes()
        begin, end = 0, len(content)
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end = int(first), min(int(last) + 1, end) if last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        part = content[begin:end]
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        type(self).answers += 1
        if type(self).broken:
            type(self).broken -= 1
            self.wfile.write(part[: len(part) // 3])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(part)

    def do_HEAD(self):
        self.send_response(200 if (self.server.folder / self.path.strip("/")).is_file() else 404)
        file = self.server.folder / self.path.strip("/")
        self.send_header("Content-Length", str(file.stat().st_size if file.is_file() else 0))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """(folder, its URL, the handler) of a running server; waits between tries are none."""
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0, 0.0, 0.0))
    handler = type("Handler", (Breaking,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler))
    server.folder = tmp_path
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}", handler
    server.shutdown()
    server.server_close()
    fsspec.filesystem("http").invalidate_cache()


def captions(shards, count, tally):
    stream = read_stream(shards, Stream(0, 1), parse_pair, seed=0, tally=tally)
    return [sample.caption for sample in islice(stream, count)]


@pytest.mark.parametrize("broken", [0, 3])
def test_a_stream_goes_on_where_its_connection_broke(served, broken):
    folder, url, handler = served
    for shard in range(2):
        write_shard(folder / f"{shard:05d}.tar", pair_members(shard, 6))
    handler.broken = broken
    shards = find_shards(f"{url}/{{00000..00001}}.tar")
    assert shards == [f"{url}/00000.tar", f"{url}/00001.tar"]
    tally = Counter()
    found = captions(shards, 12, tally)
    assert sorted(found) == sorted(f"{shard}-{row}" for shard in range(2) for row in range(6))
    assert not tally
    assert handler.broken == 0


def test_a_server_that_stays_broken_is_one_line_and_no_damage(served):
    folder, url, handler = served
    write_shard(folder / "0.tar", pair_members(0, 6))
    handler.broken = 10**6
    tally = Counter()
    with pytest.raises(
        DataError, match=r"0\.tar cannot be read beyond byte 0, tried 5 times .*--resume"
    ) as caught:
        captions([f"{url}/0.tar"], 1, tally)
    assert "\n" not in str(caught.value)
    assert not tally


def test_a_shard_that_is_not_there(served):
    _, url, handler = served
    with pytest.raises(DataError, match=r"9\.tar does not exist: check data\.shards"):
        captions([f"{url}/9.tar"], 1, Counter())
    assert handler.answers == 0  # asked once by its head, not tried again


def test_damage_behind_a_url_is_counted_as_on_disk(served):
    folder, url, _ = served
    path = cut_short(write_shard(folder / "0.tar", pair_members(0, 6)), 8)
    here, there = Counter(), Counter()
    assert captions([str(path)], 4, here) == captions([f"{url}/0.tar"], 4, there)
    assert here == there
    assert sum(here.values()) >= 1


def test_places_that_list_their_shards():
    files = fsspec.filesystem("memory")
    for number in range(3):
        files.pipe(f"/hierbench-test/{number}.tar", b"x")
    files.pipe("/hierbench-test/notes.txt", b"x")
    told = [f"memory:///hierbench-test/{number}.tar" for number in range(3)]
    assert find_shards("memory://hierbench-test") == find_shards("memory://hierbench-test/*.tar") == told
    with pytest.raises(DataError, match="no tar shards match memory://nowhere"):
        find_shards("memory://nowhere/*.tar")


@pytest.mark.parametrize("url", ["gopher://host/0.tar", "gopher://host/grit"])
def test_a_protocol_that_nothing_reads(url):
    with pytest.raises(DataError, match=r"gopher://host/.*cannot be opened: Protocol not known: gopher"):
        captions(find_shards(url), 1, Counter())
