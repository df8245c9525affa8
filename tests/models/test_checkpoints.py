"""Downloads against a web server in this process: whole, cut, resumed, wrong, and out of the cache."""

import hashlib
import http.server
import json
import threading
from pathlib import Path

import pytest

from hierbench.acquire import download
from hierbench.cache import cache_dir
from hierbench.errors import CheckpointError, DataError
from hierbench.models import checkpoints
from hierbench.models.catalog import ModelEntry

CONTENT = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves `content` at any path; `cuts` says after how many bytes each coming response breaks off."""

    def __init__(self):
        self.content, self.etag, self.status, self.cuts, self.ranges = CONTENT, '"one"', 200, [], []
        self.requests, self.careless = 0, None  # careless: goes on in another file, or from another place
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/folder/weights.pth"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request):
        self.requests += 1
        if self.status != 200:
            request.send_error(self.status)
            return
        start, wanted = 0, request.headers.get("Range")
        self.ranges.append(wanted)
        if wanted and (self.careless or request.headers.get("If-Range") == self.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        body = self.content[start:]
        request.send_response(206 if start else 200)
        if start and self.careless == "range":
            request.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(self.content)}")
        request.send_header("Content-Length", str(len(body)))
        request.send_header("ETag", self.etag)
        request.end_headers()
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def entry(server):
    return ModelEntry(name="some-model", family="clip", url=server.url)


def leftovers(path):
    return sorted(p.name for p in path.parent.iterdir() if not p.name.endswith(".lock"))


def test_a_download_arrives_whole_with_its_record(entry, server):
    path = checkpoints.checkpoint(entry)
    assert path.read_bytes() == CONTENT
    assert path.parent.name == "some-model"
    record = json.loads(path.with_name("weights.pth.json").read_text())
    assert record == {"source": server.url, "size": len(CONTENT), "sha256": DIGEST}
    assert leftovers(path) == ["weights.pth", "weights.pth.json"]


def test_the_second_time_and_offline_nothing_is_asked_for(entry, server):
    first = checkpoints.checkpoint(entry)
    assert checkpoints.checkpoint(entry) == checkpoints.checkpoint(entry, offline=True) == first
    assert server.requests == 1


def test_offline_without_the_file_is_one_line(entry, server):
    with pytest.raises(CheckpointError, match=r"some-model: .*not in the cache.*offline"):
        checkpoints.checkpoint(entry, offline=True)
    assert server.requests == 0


def test_a_cut_connection_goes_on_where_it_stopped(entry, server):
    server.cuts = [100_000, 50_000]
    assert checkpoints.checkpoint(entry).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_run_goes_on_from_the_kept_part(entry, server):
    server.cuts = [100_000, 0]  # the second answer brings nothing: the network is taken to be down
    with pytest.raises(CheckpointError, match=r"cut after 100,000 of 512,000 bytes; 100,000 bytes are kept"):
        checkpoints.checkpoint(entry)
    assert checkpoints.checkpoint(entry).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=100000-"


def test_a_file_that_changed_meanwhile_is_fetched_from_the_start(entry, server):
    server.cuts = [100_000, 0]
    with pytest.raises(CheckpointError):
        checkpoints.checkpoint(entry)
    server.content, server.etag = CONTENT[::-1], '"two"'
    assert checkpoints.checkpoint(entry).read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("careless", ["etag", "range"])
def test_a_server_that_goes_on_with_something_else_is_not_trusted(entry, server, careless):
    server.cuts = [100_000, 0]
    with pytest.raises(CheckpointError):
        checkpoints.checkpoint(entry)
    server.careless = careless
    if careless == "etag":
        server.content, server.etag = CONTENT[::-1], '"two"'
    assert checkpoints.checkpoint(entry).read_bytes() == server.content
    assert server.ranges[-2:] == ["bytes=100000-", None]


def test_a_server_that_always_cuts_is_given_up(entry, server):
    server.cuts = [1000] * 50
    with pytest.raises(CheckpointError, match="cut after 5,000 of 512,000"):
        checkpoints.checkpoint(entry)
    assert server.requests == download.TRIES


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, download.TRIES)])
def test_http_errors_are_one_line(entry, server, status, tries):
    server.status = status
    with pytest.raises(CheckpointError, match=f"HTTP {status}") as caught:
        checkpoints.checkpoint(entry)
    assert "\n" not in str(caught.value)
    assert server.requests == tries


def test_no_network_is_one_line():
    entry = ModelEntry(name="m", family="clip", url="http://127.0.0.1:9/weights.pth")  # nobody listens there
    with pytest.raises(CheckpointError, match=r"cannot be downloaded: .*refused"):
        checkpoints.checkpoint(entry)


def test_size_of_the_catalog_is_checked_before_a_byte_is_stored(server):
    entry = ModelEntry(name="m", family="clip", url=server.url, size=17)
    with pytest.raises(CheckpointError, match=r"has 512,000 bytes, the catalog .* says 17"):
        checkpoints.checkpoint(entry)
    assert leftovers(cache_dir() / "checkpoints" / "m" / "weights.pth") == []


def test_hash_of_the_catalog_is_checked_and_nothing_wrong_is_kept(server):
    entry = ModelEntry(name="m", family="clip", url=server.url, sha256="0" * 64)
    with pytest.raises(CheckpointError, match=f"has SHA-256 {DIGEST} instead of 0000"):
        checkpoints.checkpoint(entry)
    assert leftovers(cache_dir() / "checkpoints" / "m" / "weights.pth") == []
    right = ModelEntry(name="m", family="clip", url=server.url, size=len(CONTENT), sha256=DIGEST)
    assert checkpoints.checkpoint(right).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:-1] + b"?"], ids=["shorter", "flipped"])
def test_a_damaged_file_is_refused_offline_and_fetched_again_online(entry, server, damage):
    path = checkpoints.checkpoint(entry)
    path.write_bytes(damage(CONTENT))
    with pytest.raises(CheckpointError, match="is damaged and this run is offline"):
        checkpoints.checkpoint(entry, offline=True)
    assert checkpoints.checkpoint(entry).read_bytes() == CONTENT


def test_a_file_laid_there_by_hand_is_taken_and_recorded(entry, server):
    folder = cache_dir() / "checkpoints" / "some-model"
    folder.mkdir(parents=True)
    (folder / "weights.pth").write_bytes(b"mine")
    assert checkpoints.checkpoint(entry, offline=True).read_bytes() == b"mine"
    assert json.loads((folder / "weights.pth.json").read_text())["size"] == 4
    assert server.requests == 0


def test_a_disk_without_room_is_said_before_the_download(entry, server, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(CheckpointError, match="no room for 512,000 bytes"):
        checkpoints.checkpoint(entry)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_fills_up_is_one_line(entry, server):
    folder = cache_dir() / "checkpoints" / "some-model"
    folder.mkdir(parents=True)
    (folder / "weights.pth.part").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match=r"cannot be written \(No space left on device\)"):
        checkpoints.checkpoint(entry)


def test_a_cache_that_cannot_be_written_is_one_line(entry, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HIERBENCH_CACHE", str(tmp_path / "file"))  # a file where a folder should be
    with pytest.raises(CheckpointError, match="cannot be written"):
        checkpoints.checkpoint(entry)


def test_several_at_once_download_once(entry, server):
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(checkpoints.checkpoint(entry))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1
    assert paths[0].read_bytes() == CONTENT
    assert server.requests == 1


def test_without_a_terminal_nothing_is_printed(entry, server, capfd):
    checkpoints.checkpoint(entry)
    assert capfd.readouterr() == ("", "")


def test_an_entry_inside_the_package(tmp_path):
    assert checkpoints.checkpoint(ModelEntry(name="m", family="clip", builtin="py.typed")).name == "py.typed"
    with pytest.raises(CheckpointError, match="missing from the installation"):
        checkpoints.checkpoint(ModelEntry(name="m", family="clip", builtin="nothing.safetensors"))
    with pytest.raises(CheckpointError, match="neither url, repo nor builtin"):
        checkpoints.checkpoint(ModelEntry(name="m", family="clip"))


# ---------------------------------------------------------------------------------------------------- the hub


class Hub(Server):
    """As much of the hub's protocol as downloads of a file and of a whole repository need."""

    commit = "c" * 40

    def answer(self, request):
        self.requests += 1
        path, self.files = (
            request.path.partition("?")[0],
            {"weights.pth": self.content, "config.json": b"{}", "log.bak": b"x"},
        )
        listing = [
            {"type": "file", "path": name, "size": len(content), "oid": name}
            for name, content in self.files.items()
        ]
        status, headers, body = 404, {"X-Error-Code": "RepoNotFound"}, b""
        if path.startswith("/org/model/resolve/"):
            body = self.files.get(path.rpartition("/")[2], b"")
            status, headers = (200, {"X-Repo-Commit": self.commit, "ETag": f'"{path.rpartition("/")[2]}"'})
            if not body:
                status, headers = 404, {"X-Error-Code": "EntryNotFound"}
        elif path == "/api/models/org/model/revision/main":
            status, headers, body = 200, {}, json.dumps({"id": "org/model", "sha": self.commit}).encode()
        elif path.startswith(f"/api/models/org/model/tree/{self.commit}"):
            status, headers, body = 200, {}, json.dumps(listing).encode()
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    running = Hub()
    handler = running.http.RequestHandlerClass
    handler.do_HEAD = handler.do_GET
    monkeypatch.setattr(constants, "ENDPOINT", running.url.removesuffix("/folder/weights.pth"))
    template = constants.ENDPOINT + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    yield running
    running.http.shutdown()
    running.http.server_close()


def hub_entry(repo="org/model", file="weights.pth", **more):
    return ModelEntry(name="hub-model", family="clip", repo=repo, file=file, **more)


def test_a_hub_file_is_fetched_recorded_and_found_offline(hub):
    path = checkpoints.checkpoint(hub_entry())
    assert path.read_bytes() == CONTENT
    record = json.loads((cache_dir() / "checkpoints" / "hub-model" / "weights.pth.json").read_text())
    assert record == {"source": str(path), "size": len(CONTENT), "sha256": DIGEST}
    asked = hub.requests
    assert checkpoints.checkpoint(hub_entry(), offline=True) == path
    assert hub.requests == asked


def test_a_damaged_hub_file_is_refused_offline_and_fetched_again_online(hub):
    path = checkpoints.checkpoint(hub_entry())
    path.resolve().write_bytes(CONTENT[:-7])
    with pytest.raises(CheckpointError, match="is damaged and this run is offline"):
        checkpoints.checkpoint(hub_entry(), offline=True)
    assert checkpoints.checkpoint(hub_entry()).read_bytes() == CONTENT


def test_hub_failures_are_one_line_each(hub):
    with pytest.raises(CheckpointError, match=r"org/model/weights\.pth is not in the hub cache"):
        checkpoints.checkpoint(hub_entry(), offline=True)
    with pytest.raises(CheckpointError, match="no such hub repository"):
        checkpoints.checkpoint(hub_entry(repo="org/nothing"))
    with pytest.raises(CheckpointError, match="no such file or revision"):
        checkpoints.checkpoint(hub_entry(file="other.pth"))
    with pytest.raises(CheckpointError, match=r"has 512,000 bytes instead of 5"):
        checkpoints.checkpoint(hub_entry(size=5))
    with pytest.raises(CheckpointError, match="cannot be downloaded"):
        checkpoints.checkpoint(hub_entry(repo="no/such/name"))


def test_a_whole_repository_brings_what_transformers_reads_and_is_found_offline(hub, monkeypatch):
    monkeypatch.setattr(checkpoints, "SNAPSHOT_FILES", ["*.json", "*.pth"])
    folder = checkpoints.checkpoint(hub_entry(file=None))
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "weights.pth"]
    asked = hub.requests
    assert checkpoints.hub_snapshot("org/model", offline=True) == folder
    assert hub.requests == asked
    with pytest.raises(CheckpointError, match="org/nothing: no such hub repository"):
        checkpoints.hub_snapshot("org/nothing")
    with pytest.raises(CheckpointError, match="org/other is not in the hub cache"):
        checkpoints.hub_snapshot("org/other", offline=True)


def test_hub_offline_is_undone_afterwards(hub):
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    with checkpoints.hub_offline(True), pytest.raises(LocalEntryNotFoundError):
        hf_hub_download("org/model", "weights.pth")
    assert hub.requests == 0
    assert not constants.HF_HUB_OFFLINE


def test_failures_of_the_hub_are_data_errors_for_datasets(hub):
    with pytest.raises(DataError, match="dataset org/nothing: no such hub repository"):
        download.hub_dataset("org/nothing", patterns=("test/*",))
