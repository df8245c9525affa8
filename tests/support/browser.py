"""A headless Chromium, driven over its debugging pipe (the DevTools protocol), for tests of pages."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. `errors` collects whatever the console and the page's scripts complained of."""

    def __init__(self, program, timeout=60):
        self.timeout, self.number, self.errors, self.buffer, self.requests = timeout, 0, [], b"", []
        self.profile = tempfile.mkdtemp()
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        flags = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
            f"--user-data-dir={self.profile}", "--force-device-scale-factor=1", "about:blank",
        ]  # fmt: skip
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, *flags], pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        target = self._send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self._send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        self.loaded = set()  # the loads that have ended, by Chromium's own name for each
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send("Page.setLifecycleEventsEnabled", {"enabled": True})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for descriptor in (self.out, self.into):
            os.close(descriptor)
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, address):
        """Go to a file or an address and wait until the page has loaded."""
        where = address.absolute().as_uri() if isinstance(address, Path) else address
        # A load of the empty tab may end later than this one is asked for.
        load = self._send("Page.navigate", {"url": where})["loaderId"]
        self._until(lambda: load in self.loaded)

    def run(self, expression):
        """The value of an expression in the page; waits where it is a promise."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = self._send("Runtime.evaluate", asked)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"]["exception"].get("description"))
        return found["result"].get("value")

    def wait(self, expression):
        """Until an expression in the page is true."""
        self._until(lambda: self.run(f"Boolean({expression})"))

    def press(self, key, code=None, text=""):
        """A key, by its name in the DOM."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        about = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes.get(key, 0)}
        about |= {"text": text or ("\r" if key == "Enter" else "")}
        self._send("Input.dispatchKeyEvent", {"type": "keyDown", **about})
        self._send("Input.dispatchKeyEvent", {"type": "keyUp", **about})

    def size(self, width, height, dark=False):
        """The window's size in pixels, and the system's wish for a theme."""
        about = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._send("Emulation.setDeviceMetricsOverride", about)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", {"features": [theme]})

    def screenshot(self, path):
        """The window as a PNG."""
        Path(path).write_bytes(base64.b64decode(self._send("Page.captureScreenshot")["data"]))

    def _until(self, done):
        end = time.monotonic() + self.timeout
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"the page did not come to it in {self.timeout} s")
            self._receive(0.05)

    def _send(self, method, params=None):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params or {}}
        if hasattr(self, "session"):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while time.monotonic() < end:
            for answer in self._receive(1):
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise AssertionError(f"{method}: {answer['error']}")
                    return answer["result"]
        raise TimeoutError(f"{method} was not answered in {self.timeout} s")

    def _receive(self, seconds):
        """Answers that have come; events are taken note of."""
        if not select.select([self.into], [], [], seconds)[0]:
            return []
        found = os.read(self.into, 1 << 20)
        if not found:
            raise AssertionError("Chromium ended")
        *messages, self.buffer = (self.buffer + found).split(b"\0")
        answers = []
        for message in map(json.loads, messages):
            self._note(message.get("method"), message.get("params", {}))
            answers.append(message)
        return answers

    def _note(self, event, about):
        if event == "Page.lifecycleEvent" and about["name"] == "load":
            self.loaded.add(about["loaderId"])
        elif event == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(entry.get("value", entry)) for entry in about["args"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
