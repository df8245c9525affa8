"""A local HTTP server that stands for the three judges of the cleaning, and fails in every way that servers do."""

import base64
import hashlib
import json
import math
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODELS = {"verifier": "V", "embedder": "E", "reranker": "R"}
WIDTH = 5


def drawn(*parts, count=1):
    """Numbers in [0, 1) that depend on the parts alone."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return [int.from_bytes(digest[3 * i : 3 * i + 3], "big") / 2**24 for i in range(count)]


def fake_yes(text, image):
    """(probability of yes, of no) that the fake verifier gives."""
    a, b = drawn("yes", text, image, count=2)
    return 0.9 * a, (1 - 0.9 * a) * b


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the one before to be confirmed

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.server.models is None:
            return self.say({"error": "no"}, 401)
        return self.say({"data": [{"id": name, "root": f"/models/{name}"} for name in self.server.models]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mine = self.server
        if set(body) == {"model"}:
            return self.say({"error": {"message": "incomplete"}}, mine.incomplete.get(self.path, 422))
        with mine.lock:
            mine.now += 1
            mine.most = max(mine.most, mine.now)
            mine.bodies.append((self.path, body))
            key = json.dumps(body, sort_keys=True)
            mine.seen[key] += 1
            trouble = mine.trouble(key, mine.seen[key])
        try:
            time.sleep(mine.delay)
            self.reply(body, trouble)
        finally:
            with mine.lock:
                mine.now -= 1

    def reply(self, body, trouble):
        if trouble == "held":
            self.server.holding.set()
            self.server.release.wait(60)
        if trouble == "400 once one is held":
            self.server.holding.wait(60)
            trouble = 400
        if trouble in (400, 404, 429, 500, 503):
            headers = {"Retry-After": self.server.wish} if trouble == 429 else {}
            return self.say({"error": {"message": f"told so {trouble}"}}, trouble, headers)
        if trouble == "disconnect":
            self.close_connection = True
            return self.connection.close()
        if trouble == "slow":
            time.sleep(self.server.slow)
        answer = {"/v1/chat/completions": self.chat, "/v1/embeddings": self.embed, "/v1/score": self.score}[
            self.path
        ](body)
        if trouble == "malformed":
            return self.send(json.dumps(answer).encode()[:-7])
        if trouble == "html":
            return self.send(b"<html>", kind="text/html")
        if trouble == "lacking":  # what was asked for is left out
            answer = {"choices": [{"message": {"content": "Yes"}, "logprobs": None}], "data": [{}]}
        return self.say(answer)

    def chat(self, body):
        (message,) = body["messages"]
        yes, no = fake_yes(message["content"][-1]["text"], picture(message["content"]))
        masses = {"Yes": 0.7 * yes, " yes": 0.3 * yes, "No": 0.6 * no, "no": 0.4 * no, "Maybe": 1 - yes - no}
        top = [{"token": token, "logprob": math.log(max(mass, 1e-30))} for token, mass in masses.items()]
        return {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}

    def embed(self, body):
        content = body["messages"][-1]["content"]
        numbers = drawn("embed", content[-1].get("text"), picture(content), count=WIDTH)
        return {"data": [{"index": 0, "embedding": [10 * number - 5 for number in numbers]}]}

    def score(self, body):
        image = picture(body["text_1"]["content"])
        scores = [drawn("score", text, image)[0] for text in body["text_2"]]
        listed = [{"index": number, "score": score} for number, score in enumerate(scores)]
        return {"data": listed[::-1]}  # order is nobody's promise

    def say(self, document, status=200, headers=None):
        self.send(json.dumps(document).encode(), status, headers=headers)

    def send(self, content, status=200, kind="application/json", headers=None):
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def picture(content):
    for part in content:
        if part["type"] == "image_url":
            return base64.b64decode(part["image_url"]["url"].partition(",")[2])
    return None


class Fake(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.lock, self.models = threading.Lock(), list(MODELS.values())
        self.now = self.most = 0
        self.bodies, self.seen = [], Counter()
        self.delay, self.slow, self.wish = 0.0, 1.5, "0.01"
        self.holding, self.release = threading.Event(), threading.Event()  # of answers that are "held"
        self.incomplete = {}  # path -> status of requests without content
        self.trouble = lambda key, time: None

    def handle_error(self, *_):
        pass
