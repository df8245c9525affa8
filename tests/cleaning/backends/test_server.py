"""The server backend against a local HTTP server that also fails in every way that servers do."""

import hashlib
import io
import math
import threading
from collections import Counter

import numpy as np
import pytest
from judge_server import MODELS, WIDTH, Handler, drawn, fake_yes, picture
from PIL import Image

from hierbench.cleaning import sources
from hierbench.cleaning.backends import open_cast, prompts, remembered, server
from hierbench.cleaning.roles import Embedder, Pair, Question, Reranker, Verifier
from hierbench.cleaning.select import Rules
from hierbench.data.images import decode
from hierbench.errors import DataError, ServerError, UsageError


def cast(fake, **options):
    urls = dict.fromkeys(MODELS, fake.url)
    return server.cast(
        MODELS, urls, **{"concurrency": 6, "timeout": 1.0, "retries": 5, "pause": 0.01, **options}
    )


def encoded(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


IMAGES = [encoded(Image.new("RGB", (3, 2), (number, 0, 9))) for number in range(5)]
QUESTIONS = [Question(f"is it {n}?", IMAGES[n % 5]) for n in range(12)] + [Question("text alone?")]
PAIRS = [Pair(IMAGES[n % 3], f"caption {n}") for n in range(70)] + [Pair(IMAGES[4], "another")]
TEXTS = [f"text {n}" for n in range(8)]


def answers(played):
    return (
        played.verifier.probability_of_yes(QUESTIONS),
        played.embedder.embed_images(IMAGES),
        played.embedder.embed_texts(TEXTS),
        played.reranker.relevance(PAIRS),
    )


def test_answers_are_the_models(fake):
    played = cast(fake)
    assert isinstance(played.verifier, Verifier)
    assert isinstance(played.embedder, Embedder)
    assert isinstance(played.reranker, Reranker)
    yes, images, texts, relevance = answers(played)
    for question, found in zip(QUESTIONS, yes, strict=True):
        a, b = fake_yes(question.text, question.image)
        assert found == pytest.approx(a / (a + b))
    assert images.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm([*images, *texts], axis=1), 1, atol=1e-6)
    raw = 10 * np.array(drawn("embed", "text 3", None, count=WIDTH)) - 5
    np.testing.assert_allclose(texts[3], raw / np.linalg.norm(raw), atol=1e-6)
    assert relevance.tolist() == [drawn("score", pair.caption, pair.image)[0] for pair in PAIRS]
    record = played.verifier.tally.record()
    shares = [sum(fake_yes(question.text, question.image)) for question in QUESTIONS]
    assert record["answers"] == len(QUESTIONS)
    assert record["neither"] == sum(share < 0.5 for share in shares)
    assert record["lowest_share"] == pytest.approx(min(shares))
    both = played.verifier.probability_and_share(QUESTIONS)
    np.testing.assert_array_equal(both[:, 0], yes)
    np.testing.assert_allclose(both[:, 1], shares)


def test_requests(fake):
    played = cast(fake)
    answers(played)
    by_path = {}
    for path, body in fake.bodies:
        by_path.setdefault(path, []).append(body)
    chat = next(b for b in by_path["/v1/chat/completions"] if len(b["messages"][0]["content"]) == 2)
    assert {key: value for key, value in chat.items() if key != "messages"} == {
        "model": "V", "max_tokens": 1, "logprobs": True, "top_logprobs": 20, "temperature": 1, "top_p": 1, "top_k": -1,
        "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
    }  # fmt: skip
    assert chat["messages"][0]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
    embed = by_path["/v1/embeddings"][0]
    assert embed["model"] == "E"
    assert embed["messages"][0] == {
        "role": "system",
        "content": [{"type": "text", "text": prompts.REPRESENT}],
    }
    assert embed["add_generation_prompt"] is True
    sizes = [len(body["text_2"]) for body in by_path["/v1/score"]]
    assert sorted(sizes) == [1, 23, 23, 24]  # captions of an image go together
    assert all(body["model"] == "R" for body in by_path["/v1/score"])
    assert 1 < fake.most <= 6


def test_a_server_that_fails_in_every_way_gives_the_same_answers(fake):
    """Each of the first tries of most requests fails, in turn: results equal a fault-free run."""
    expected = answers(cast(fake))
    ways = [500, 429, "malformed", "lacking", "disconnect", 503, "html"]
    happened = Counter()

    def trouble(key, time):
        number = int(hashlib.sha256(key.encode()).hexdigest(), 16)
        failures = number % 4  # 0 to 3 failures, then an answer
        if time > failures:
            return None
        way = "slow" if number % 29 == 0 and time == 1 else ways[(number // 4 + time) % len(ways)]
        happened[way] += 1
        return way

    fake.seen.clear()
    fake.trouble = trouble
    found = answers(cast(fake))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(ways) <= set(happened)


def cleaned(clean, fake, out, **options):
    """The whole cleaning of 12 samples of the built-in world, asked from the server."""
    given = sources.miniature(12, 0.3, "noise")
    rules = Rules(keep=5, negatives=3, ambiguity_level=1)
    clean(
        out,
        cast=cast(fake, **options),
        rules=rules,
        given=given,
        top_captions=4,
        top_images=1,
        chunk=16,
        probe=False,
    )


def test_a_whole_cleaning_over_a_failing_server(clean, contents, fake, tmp_path):
    cleaned(clean, fake, tmp_path / "calm")
    asked = fake.seen.total()
    ways = [500, 429, "malformed", "lacking", "disconnect", 503]
    fake.seen.clear()
    fake.trouble = lambda key, time: ways[int(hashlib.sha256(key.encode()).hexdigest(), 16) % 18 % 6] if (
        time == 1 and int(hashlib.sha256(key.encode()).hexdigest(), 16) % 3 == 0
    ) else None  # fmt: skip
    cleaned(clean, fake, tmp_path / "failing")
    assert fake.seen.total() > asked
    assert contents(tmp_path / "failing") == contents(tmp_path / "calm")


def test_a_server_that_goes_down_takes_no_answers_with_it(clean, contents, fake, tmp_path):
    cleaned(clean, fake, tmp_path / "calm")
    asked = len(fake.seen)
    fake.seen.clear()
    fake.trouble = lambda key, time: 503 if fake.seen.total() > 40 else None
    with pytest.raises(ServerError, match="failed 2 times at /chat/completions: status 503"):
        cleaned(clean, fake, tmp_path / "broken", retries=1)
    fake.trouble, before = lambda key, time: None, fake.seen.total()
    cleaned(clean, fake, tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(tmp_path / "calm")
    again = fake.seen.total() - before
    assert again <= asked - 40 + 16  # of what was answered, at most the chunk in progress is asked again


def test_other_rules_need_no_server(clean, fake, tmp_path):
    """A cast is known by its answers; one that is asked after all says why it cannot be reached."""
    cleaned(clean, fake, tmp_path)
    down = ServerError("nobody is there")
    known = remembered(tmp_path / "answers", "server", MODELS, "auto", down)
    assert known.verifier.identity == cast(fake).verifier.identity
    given, rules = sources.miniature(12, 0.3, "noise"), Rules(keep=7, negatives=2, ambiguity_level=1)
    outcome = clean(tmp_path, cast=known, rules=rules, given=given, top_captions=4, top_images=1, probe=False)
    assert sum(outcome.kept) == 7
    with pytest.raises(ServerError, match="nobody is there"):
        clean(tmp_path, cast=known, rules=rules, given=given, top_captions=5, top_images=1, probe=False)
    assert remembered(tmp_path / "answers", "server", MODELS | {"reranker": "R2"}, "auto", down) is None
    assert remembered(tmp_path / "answers", "transformers", MODELS, "auto", down) is None
    assert remembered(tmp_path / "none", "server", MODELS, "auto", down) is None


def test_slow_answers_are_asked_for_again(fake):
    fake.trouble = lambda key, time: "slow" if time == 1 else None
    found = cast(fake, timeout=1.0).verifier.probability_of_yes(QUESTIONS[:2])
    assert len(fake.seen) == 2
    assert min(fake.seen.values()) >= 2  # on a loaded machine another answer may be late as well
    assert np.isfinite(found).all()


def test_concurrency_is_a_limit(fake):
    fake.delay = 0.02
    cast(fake, concurrency=2).embedder.embed_texts(TEXTS)
    assert fake.most == 2


def test_what_stays_wrong_is_one_line(fake):
    played = cast(fake, retries=2)
    for way, words in {
        "lacking": "failed 3 times at /chat/completions: the answer has no log probabilities",
        "malformed": "failed 3 times at /chat/completions: the answer is no JSON",
        500: "failed 3 times at /chat/completions: status 500, .*told so",
        "disconnect": "failed 3 times at /chat/completions: .*isconnect",
    }.items():
        fake.trouble = lambda key, time, way=way: way
        with pytest.raises(ServerError, match=f"the verifier's server at {fake.url} {words}") as caught:
            played.verifier.probability_of_yes(QUESTIONS)
        assert "\n" not in str(caught.value)
    fake.trouble = lambda key, time: "lacking"
    with pytest.raises(ServerError, match="the answer holds no embedding"):
        played.embedder.embed_texts(TEXTS)
    with pytest.raises(ServerError, match=r"does not hold \d+ scores"):
        played.reranker.relevance(PAIRS)


def test_what_the_server_refuses_is_not_asked_again(fake):
    fake.trouble = lambda key, time: 400
    with pytest.raises(ServerError, match=r"refuses /chat/completions: status 400, .*told so 400"):
        cast(fake, concurrency=1).verifier.probability_of_yes(QUESTIONS)
    assert set(fake.seen.values()) == {1}
    assert fake.seen.total() < len(QUESTIONS)  # the others are not even asked


class Pauses(list):
    """Stands for the event that ends pauses: remembers how long they were to be."""

    def wait(self, seconds):
        self.append(seconds)


def test_pauses_double_and_follow_the_servers_wish(fake):
    verifier = cast(fake, retries=4, pause=1.0).verifier.server
    for status, least in ((500, 0.0), (429, 20.0)):  # with the second comes a wish
        fake.trouble, fake.wish, pauses = (lambda key, time, status=status: status), "20", Pauses()
        with pytest.raises(ServerError):
            verifier._answer(("/chat/completions", {"messages": []}, dict), pauses)
        assert len(pauses) == 4
        assert all(
            max(least, 0.5 * 2**n) <= pause <= max(least, 1.5 * 2**n) for n, pause in enumerate(pauses)
        )


def test_answers_out_of_range(fake, monkeypatch):
    played = cast(fake, retries=0)
    monkeypatch.setattr(Handler, "score", lambda self, body: {"data": [{"index": 0, "score": 7.5}]})
    with pytest.raises(ServerError, match="not between 0 and 1"):
        played.reranker.relevance(PAIRS[:1])
    monkeypatch.setattr(Handler, "embed", lambda self, body: {"data": [{"embedding": [0.0, 0.0]}]})
    with pytest.raises(ServerError, match="zero or not finite"):
        played.embedder.embed_texts(["x"])
    monkeypatch.setattr(
        Handler, "embed",
        lambda self, body: {"data": [{"embedding": [1.0] * len(body["messages"][1]["content"][0]["text"])}]},
    )  # fmt: skip
    with pytest.raises(ServerError, match="embeddings of 1 and of 2 numbers"):
        played.embedder.embed_texts(["x", "xy"])


def test_neither_yes_nor_no(fake, monkeypatch, caplog):
    top = [{"token": "Perhaps", "logprob": -0.1}]
    monkeypatch.setattr(
        Handler,
        "chat",
        lambda self, body: {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]},
    )
    played = cast(fake)
    with caplog.at_level("WARNING", "hierbench"):
        assert played.verifier.probability_of_yes(QUESTIONS[:3]).tolist() == [0, 0, 0]
    assert played.verifier.tally.record() == {"answers": 3, "neither": 3, "lowest_share": 0.0}
    assert len(caplog.records) == 1
    top[0] = {"token": "Yes", "logprob": math.nan}
    with pytest.raises(ServerError, match="are not numbers"):
        cast(fake, retries=0).verifier.probability_of_yes(QUESTIONS[:1])


def test_servers_that_are_not_there(fake):
    with pytest.raises(ServerError, match=r"does not answer \(.*refused.*\): start it \(vllm serve V\)"):
        open_cast("server", **MODELS, base_url="http://127.0.0.1:9/v1")
    fake.models = ["other"]
    with pytest.raises(ServerError, match="does not serve 'V': it serves 'other'"):
        cast(fake)
    fake.models = None
    with pytest.raises(ServerError, match=r"answers status 401.*OPENAI_API_KEY"):
        cast(fake)


def test_servers_of_another_role_are_told_at_once(fake):
    fake.incomplete = {"/v1/score": 404}
    with pytest.raises(
        ServerError,
        match=r"reranker's server at .* refuses /score: status 404.*: is it .* vllm serve R --runner",
    ):
        cast(fake)
    fake.incomplete = {"/v1/embeddings": 401}  # the list of models is open, questions are not
    with pytest.raises(ServerError, match=r"embedder's .* refuses /embeddings: status 401.*OPENAI_API_KEY"):
        cast(fake)
    assert not fake.seen
    fake.incomplete = {}
    played = cast(fake)
    fake.trouble = lambda key, time: 404
    with pytest.raises(ServerError, match=r"refuses /score: status 404, .*told so 404.*--runner pooling"):
        played.reranker.relevance(PAIRS)


def test_an_answer_that_hangs_does_not_hold_up_a_failure(fake):
    """Nor the end of the process: the threads that still wait are daemons."""
    played = cast(fake, timeout=120.0, retries=0)
    troubles = {"it 0?": "held", "it 3?": "400 once one is held"}
    fake.trouble = lambda key, time: next((troubles[part] for part in troubles if part in key), None)
    try:
        with pytest.raises(ServerError, match="refuses"):
            played.verifier.probability_of_yes(QUESTIONS)
        assert fake.now > 0  # the failure came, and the held answer has not
        others = [thread for thread in threading.enumerate() if thread.name.endswith("(work)")]
        assert others
        assert all(thread.daemon for thread in others)
    finally:
        fake.release.set()


def test_long_pauses_are_told_once(fake, caplog):
    verifier = cast(fake, retries=3, pause=0.01).verifier.server
    fake.trouble, fake.wish = (lambda key, time: 429), "1e9"
    pauses = Pauses()
    with caplog.at_level("WARNING", "hierbench"), pytest.raises(ServerError, match="failed 4 times"):
        verifier._answer(("/chat/completions", {"messages": []}, dict), pauses)
    assert pauses == [server.LONGEST_PAUSE] * 3
    assert len(caplog.records) == 1
    assert "status 429" in caplog.text
    assert "next try in 60 s" in caplog.text


def test_a_page_that_is_no_list_of_models(fake, monkeypatch):
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.send(b"<html>", kind="text/html"))
    with pytest.raises(ServerError, match="no OpenAI-compatible list of models"):
        cast(fake)


def test_identity(fake):
    identity = cast(fake).reranker.identity
    assert identity == {
        "model": "R", "revision": "/models/R", "prompt_hash": prompts.prompt_hash("reranker"), "backend": "server",
        "dtype": "as served", "images": "8-bit upright PNG",
    }  # fmt: skip


def test_addresses_and_options(fake):
    with pytest.raises(UsageError, match="no address of a server"):
        open_cast("server", **MODELS, base_url="localhost:8000")
    with pytest.raises(
        UsageError, match="servers are needed for verifier, embedder, reranker, given for verifier"
    ):
        open_cast("server", **MODELS, base_url={"verifier": fake.url})
    with pytest.raises(UsageError, match="concurrency of at least 1"):
        open_cast("server", **MODELS, base_url=fake.url, concurrency=0)
    played = open_cast("server", **MODELS, base_url=fake.url.removesuffix("/v1"))  # the usual path is added
    assert played.embedder.embed_texts(["x"]).shape == (1, WIDTH)
    assert played.embedder.embed_texts([]).shape[0] == 0
    assert played.verifier.probability_of_yes([]).shape == (0,)
    assert played.reranker.relevance([]).shape == (0,)


def pictures():
    """Name -> (file, the pixels it shows, worked out by hand): red, green, blue from left to right, mostly."""
    red, green, blue = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    row = Image.new("RGB", (3, 1))
    row.putdata([red, green, blue])
    wide = row.resize((48, 16), Image.Resampling.NEAREST)  # JPEG's blocks of one colour each
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned clockwise: what is left comes to the top
    deep = Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], np.uint16))
    palette = Image.new("P", (3, 1))
    palette.putpalette([*red, *green, *blue])
    palette.putdata([0, 1, 2])
    across, down = [[red, green, blue]], [[red], [green], [blue]]
    return {
        "plain": (encoded(row), across),
        "stored as BMP": (encoded(row, "BMP"), across),
        "EXIF in a JPEG": (encoded(wide, "JPEG", quality=100, subsampling=0, exif=turned), down),
        "EXIF in a PNG": (encoded(row, exif=turned), down),
        "16 bits": (encoded(deep), [[(0,) * 3, (0x12,) * 3, (255,) * 3]]),
        "palette": (encoded(palette), across),
        "CMYK": (encoded(Image.new("CMYK", (2, 1), (0, 255, 255, 0)), "TIFF"), [[red, red]]),
        "transparent": (encoded(Image.new("RGBA", (1, 1), (*red, 0))), [[red]]),
        "one colour transparent": (encoded(row, transparency=red), across),
        "profiled": (encoded(row, icc_profile=b"none that anyone could read"), across),
    }


@pytest.mark.parametrize("name", pictures())
def test_servers_are_sent_the_pixels_that_a_model_in_this_process_sees(fake, name):
    stored, shown = pictures()[name]
    played = cast(fake)
    played.embedder.embed_images([stored])
    played.verifier.probability_of_yes([Question("?", stored)])
    played.reranker.relevance([Pair(stored, "x")])
    sent = [
        picture(body["text_1"]["content"] if "text_1" in body else body["messages"][-1]["content"])
        for _, body in fake.bodies
    ]
    assert len(sent) == 3
    for content in sent:
        assert (content == stored) == (name == "plain")
        read = Image.open(io.BytesIO(content))
        assert (read.format, read.mode, dict(read.getexif()), read.info) == ("PNG", "RGB", {}, {})
        seen = decode(stored, name)
        np.testing.assert_array_equal(np.asarray(read), np.asarray(seen))
        found = read if read.size[0] < 4 and read.size[1] < 4 else read.reduce(16)
        np.testing.assert_allclose(np.asarray(found), shown, atol=3)  # JPEG rounds colours


def test_what_is_no_image_is_not_sent(fake):
    with pytest.raises(DataError, match="not a readable"):
        cast(fake).embedder.embed_images([b"no image"])
    assert not fake.bodies
