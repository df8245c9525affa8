"""Every command that the README, docs/ and the help show is run, on small stand-ins; every option is run once.

A command becomes one that ends in a second by `STAND_INS` (what it names) and `ALSO` (limits). What needs the network,
a GPU, a server or hours is read by the command's own parser instead: `ONLY_PARSED` says why. What no rule covers is run
as it stands, and has to end well.
"""

import io
import json
import re
import shlex
import sys
import tarfile
import threading
from pathlib import Path
from types import ModuleType

import pytest
import small_study
import small_training
import yaml
from judge_server import Fake
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODEL = "random"
TRAINING = " ".join([*small_training.TINY, "train.batch_size=4", "train.warmup_steps=1", "train.steps=2"])
TINY_STUDY = " ".join(small_study.TINY)

STAND_INS = [
    (
        r"^torchrun --nproc-per-node \d+( --max-restarts \d+)? -m hierbench",
        "hierbench",
    ),  # several processes: tests/engine, tests/cleaning
    (r"^python -m hierbench", "hierbench"),
    (r"\bhf_clip:PATH|\bhycoclip_vit_b\.pth|\b[ab]\.pth|\bFILE\b", "weights.pth"),
    (r"--checkpoint runs/argent/model\.safetensors", "--checkpoint bundled.safetensors"),
    (r"(?<=--similar-by )blip:\S+", "random"),
    (r"^(hierbench analyze (?!ambiguity)\w+|hierbench clean report demo) MODEL\b", r"\1 miniature-meru"),
    (r"(?<=--verifier )MODEL", "miniature-argent"),
    (r"--count 5 ", "--count 2 "),
    (r"\bMODEL\b", MODEL),
    (r"/data/imagenet/val|(?<=imagenet=)DIR", "data/imagenet"),
    (r"(?<=hierarcaps=)DIR", "data/hierarcaps"),
    (r"(?<=mine=)DIR", "mine"),
    (r"(?<=--data-dir )DIR", "data"),
    (r"/data\b", "data"),
    (r"(?<=wds -o )DIR", "exported"),
    (r"(?<=-o )DIR", "new"),
    (r"(?<=--from )PATH", "mine"),
    (r"\bNAME\b", "mine"),
    (r"compare A B\b", "compare miniature-clip random"),
    (r"--baseline A > table\.tex", "--baseline random"),
    (r"card A --in runs/first > card\.md", "card random --in runs/first"),
    (r"compare A ARGENT-S", "compare miniature-clip ARGENT-S"),
    (r"--limit 200", "--limit 4"),
    (r"--dtype bfloat16|--compile", ""),
    (r"train\.steps=1000 model\.text=L6_W384", ""),
    (r"--keep 280", "--keep 24"),
    (r"run miniature-clip miniature-argent --suite miniature", "run random --task hierarcaps/miniature"),
    (r"leaderboard/results/\*", "leaderboard/results/random"),
    (r"--evaluate miniature", ""),  # a suite of one task: OPTIONS
]
ALSO = [
    (r"^run\b(?!.*(--limit|hierarcaps/miniature))", "--limit 4"),  # what is submitted is whole
    (r"^run\b(?!.*--workers)", "--workers 0"),
    (r"^run\b(?!.*(--out|-o|--dry-run))", "-o runs/here"),
    (r"^analyze\b", "--limit 12 --workers 0"),
    (r"^errata --measure", "--limit 4 --workers 0"),
    (r"^data (?!.*--manifest)(verify|show|export|prepare)\b", "--manifest mine.yaml"),
    (r"^data (?!.*--data)(verify|show|export)\b", "--data mine=mine"),
    (r"^data (verify|prepare)\b(?!.*--workers)", "--workers 1"),
    (r"^clean miniature", "--count 30 --negatives 10"),
    (r"^clean report", "--device cpu"),
    (r"^train (miniature/clip|mine)", TRAINING),
    (r"^reproduce (?!--list)", f"{TINY_STUDY} --seeds 0 --steps 2 --limit 8 --processes 1"),
    (r"^reproduce argent-table3", "--rows meru-ent"),
    (r"^reproduce argent-h", "--rows none"),
]
ONLY_PARSED = {
    r"^run\b.*\b(hycoclip-vit-b|open_clip:|uncha-vit-b)": "downloads a released checkpoint",
    r"^run hf_clip:": "wants a folder of transformers; tests/model_adapters/test_hf_clip.py makes one",
    r"^run --retrain": "trains for an hour",
    r"^errata --measure uncha-vit-b": "downloads a released checkpoint",
    r"^data prepare (NAME|imagenet|coco)$": "downloads a dataset",
    r"^data grit-(prepare|check)": "wants GRIT's tars; tests/reference/test_grit.py makes some",
    r"^train (hycoclip/|RUN/|miniature/argent)": "trains for minutes or days; tests/cli/test_train.py trains tiny ones",
    r"^train (status|consolidate) RUN": "wants a run: docs/training.md's has one",
    r"^clean hierarcaps": "wants Qwen3-VL or a server; tests/cleaning has stand-ins for both",
    r"^leaderboard compare .*ARGENT-S": "wants figures of ARGENT's layout; tests/cli/test_leaderboard.py has some",
}


def documented(text):
    """The commands of fenced blocks, without their comments, lines that go on joined."""
    found = []
    for block in re.findall(r"^```(?:bash)?\n(.*?)^```", text, re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if (
                re.match(r"(hierbench|torchrun|python -m hierbench)\b", line)
                and "cleaning.backends" not in line
            ):
                found.append(line)
    return found


def shown_in_help(commands):
    """The commands that the help of each command shows; what is told of one follows after two spaces."""
    lines = [line for command in commands.values() for line in (command.help or "").splitlines()]
    shown = [re.split(r"\s{2,}", line.strip())[0] for line in lines]
    return [line for line in shown if re.match(r"(hierbench|torchrun) \S", line) and not line.endswith("...")]


def prepared(line):
    """The words of a documented command, on stand-ins; and why it is only parsed, or ''."""
    line = re.sub(STAND_INS[0][0], STAND_INS[0][1], line)
    plain = line.removeprefix("hierbench").strip()
    reason = next((why for pattern, why in ONLY_PARSED.items() if re.search(pattern, plain)), "")
    for pattern, stand_in in STAND_INS:
        line = re.sub(pattern, stand_in, line)
    words = line.removeprefix("hierbench").strip()
    if not reason:
        for pattern, more in ALSO:
            words += f" {more}" if re.search(pattern, words) else ""
    return shlex.split(words), reason


def parse(commands, words):
    """Let the command's own parser read the words: an option or a value that it does not know raises."""
    length = max(n for n in (1, 2) if tuple(words[:n]) in commands)
    command = commands[tuple(words[:length])]
    context = command.make_context(" ".join(words[:length]), list(words[length:]))
    given = {
        name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    }
    return tuple(words[:length]), given


def raw_tar():
    """One of GRIT's samples as img2dataset packs it: a picture with one box."""
    picture = io.BytesIO()
    Image.new("RGB", (80, 40), (250, 0, 0)).save(picture, "JPEG")
    told = {
        "caption": "a red dog",
        "noun_chunks": [[2, 9, 0.0, 0.0, 0.5, 1.0, 0.9]],
        "ref_exps": [],
        "key": "1",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in (
            ("1.jpg", picture.getvalue()),
            ("1.txt", b"a red dog"),
            ("1.json", json.dumps(told).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One cache of embeddings for all pages: they show the same models on the same tasks."""
    return tmp_path_factory.mktemp("stored")


@pytest.fixture
def world(tmp_path, layouts, tiny_checkpoint, stored, monkeypatch):
    """A folder in which the documented commands find what they name, small."""
    monkeypatch.setenv("HIERBENCH_CACHE", str(stored))
    from hierbench.cleaning import adapter_roles

    tasks_page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"^```(yaml|python)\n(.*?)^```", tasks_page, re.S | re.M))
    (tmp_path / "mine.yaml").write_text(blocks["yaml"])
    (tmp_path / "tree.tsv").write_text("animal\tfeline\nanimal\tcanine\nfeline\tcat\ncanine\tdog\n")
    (tmp_path / "mytasks.py").write_text(blocks["python"])
    models_page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    (tmp_path / "mymodel.py").write_text(re.findall(r"^```python\n(.*?)^```", models_page, re.S | re.M)[0])
    study = (ROOT / "docs" / "slurm.md").read_text(encoding="utf-8")
    (tmp_path / "study.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```", study, re.S | re.M)[0])
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    for number in range(6):
        path = tmp_path / "mine" / ("cat", "dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (40 * number, 90, 200)).save(path)
    for wnid, shade in (("n03773504", 20), ("n01440764", 90)):
        (tmp_path / "data" / "imagenet" / wnid).mkdir(parents=True)
        Image.new("RGB", (20, 20), (shade, 80, 250)).save(tmp_path / "data" / "imagenet" / wnid / "1.png")
    layouts.build("coco", tmp_path / "data" / "coco")
    chains = tmp_path / "data" / "hierarcaps"
    (chains / "test_imgs").mkdir(parents=True)
    rows = ["id,captions,image_url"]
    for number in range(12):
        Image.new("RGB", (8, 8), (20 * number, 200, 10)).save(chains / "test_imgs" / f"{number}.jpg")
        rows.append(f"{number},a{number} => b{number} => c{number} => d{number},http://x/{number}.jpg")
    (chains / "hierarcaps_test.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "card.yaml").write_text("trained_on: nothing\n")
    (tmp_path / "captions.txt").write_text("a dog\nan animal\n")
    Image.new("RGB", (40, 30), (200, 90, 20)).save(tmp_path / "photo.jpg")
    (tmp_path / "weights.pth").symlink_to(tiny_checkpoint("hycoclip"))
    (tmp_path / "bundled.safetensors").symlink_to(ROOT / "hierbench/reference/bundled/argent.safetensors")
    (tmp_path / "raw.tar").write_bytes(raw_tar())
    few = adapter_roles.labelled_miniature(20)
    monkeypatch.setattr(adapter_roles, "labelled_miniature", lambda: few)
    return tmp_path


def run_or_parse(hierbench, commands, line):
    words, reason = prepared(line)
    if reason:
        parse(commands, words)
        return
    done = hierbench(*words)
    assert done.status == 0, (line, words, done.err)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_runs(hierbench, commands, world, page):
    lines = documented(page.read_text(encoding="utf-8"))
    if any("runs/first" in line and "leaderboard" in line for line in lines):
        for folder in ("first", "second"):
            models = ["miniature-clip", "random"]
            task = ["--task", "zero-shot/miniature-colours"]
            assert (
                hierbench("run", *models, *task, "--limit", 4, "--workers", 0, "-o", f"runs/{folder}").status
                == 0
            )
    if page.stem == "training":
        text = page.read_text(encoding="utf-8")
        (world / "mine.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```", text, re.S | re.M)[0])
        (world / "my_terms.py").write_text(re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)[0])
    if page.stem == "reproduce":
        (world / "mine.yaml").write_text(
            re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)[0]
        )
    if page.stem == "cleaning":  # what the cleaning of the photographs, which is only parsed, would leave
        assert hierbench("clean", "miniature", "--count", 30, "--negatives", 10, "-o", "clean").status == 0
    if page.stem == "data":  # something is stored for `cache export`
        hierbench(
            "run", "miniature-clip", "--task", "zero-shot/miniature-colours", "--limit", 4, "--workers", 0
        )
    for line in lines:
        run_or_parse(hierbench, commands, line.replace("all.parquet MODEL", "all.parquet miniature-clip"))


def test_every_command_of_the_help_runs(hierbench, commands, world):
    lines = shown_in_help(commands)
    assert len(lines) > 10
    for line in lines:
        run_or_parse(hierbench, commands, line)


def test_commands_within_a_sentence_have_the_options_that_they_name(commands):
    for page in PAGES:
        for line in re.findall(r"`(hierbench [^`]+)`", page.read_text(encoding="utf-8")):
            words = re.sub(r"^hierbench ", "", line).split()
            matching = [
                c for n, c in commands.items() if n == tuple(words[: len(n)]) or n[0] == words[0] == words[-1]
            ]
            assert matching, (page.name, line)
            known = {spelling for command in matching for param in command.params for spelling in param.opts}
            assert {word for word in words if word.startswith("-")} <= known, (page.name, line)


def test_a_rule_covers_something(commands):
    lines = [line for page in PAGES for line in documented(page.read_text(encoding="utf-8"))]
    lines += shown_in_help(commands)
    plain = [re.sub(STAND_INS[0][0], "", line).removeprefix("hierbench").strip() for line in lines]
    assert [pattern for pattern in ONLY_PARSED if not any(re.search(pattern, line) for line in plain)] == []


def test_a_command_that_does_not_exist_is_noticed(hierbench, commands, world):
    for line in ("hierbench run MODEL --nonesuch", "hierbench run hycoclip-vit-b --nonesuch"):
        with pytest.raises(Exception, match=r"nonesuch"):
            run_or_parse(hierbench, commands, line)


# ----------------------------------------------------------------------- every option, at least once

EMBED = (
    "--device cpu --dtype float32 --batch-size 8 --workers 0 --no-cache --offline "
    "--protocol corrected --adapter mymodel.py"
)
DATA = "--data coco=data/coco --data-dir data --manifest mine.yaml"
ANALYZE = f"{EMBED} {DATA} --dataset miniature-chains --limit 12 --format svg --json -o looked"
ROLES = (
    "--backend adapter --verifier random --embedder random --reranker random --adapter mymodel.py --device cpu "
    "--no-probe --dtype float32 --json"
)
SERVED = (
    "--backend server --verifier V --embedder E --reranker R --base-url SERVER --concurrency 2 --timeout 60 "
    "--retries 1 --no-probe --min-verify 0.01 --min-order 0.01 --max-ambiguity 1 --max-negative 1 --json"
)
RULES = (
    "--min-verify 0.1 --min-order 0.1 --max-ambiguity 0.9 --ambiguity-level 3 --max-negative 1 --top-captions 5 "
    "--top-images 2 --shard 0/1 --chunk 8"
)
OPTIONS = [
    "models --adapter mymodel.py --json",
    "tasks --manifest mine.yaml --task-file mytasks.py --json",
    f"datasets {DATA} --json",
    f"doctor {DATA} --json",
    "errata --json",
    f"errata --measure --family random --checkpoint sphere --name ours {EMBED.replace('--protocol corrected ', '')} "
    "--data imagenet=data/imagenet --data-dir data --limit 2",
    f"run --family random --checkpoint sphere --name ours {EMBED} {DATA} --prompts photo --task-file mytasks.py "
    "--task zero-shot/miniature-colours --limit 4 -o runs/all --json",
    "run random --suite miniature --limit 4 --force --dry-run -o runs/all",
    "run random --task zero-shot/miniature-colours --limit 2 -o runs/second",
    f"run random --task zero-shot/mine {DATA} --data mine=mine -o runs/all",
    "run miniature-clip --task zero-shot/miniature-colours --limit 3 --workers 0 --no-cache --compile -o runs/compiled",
    "run --retrain --task zero-shot/miniature-colours --limit 2 --workers 0 -o runs/retrained --json",
    "run random --task zero-shot/imagenet --data imagenet=data/imagenet --workers 0 -o runs/imagenet",
    "leaderboard compare random ARGENT-S --against-published --in runs/imagenet --layout argent --json",
    "leaderboard show runs/all --layout miniature --format json --json",
    "leaderboard show runs/all --layout argent --published",
    "leaderboard build runs/all runs/second -o site --layout argent --published --json",
    "leaderboard page runs/all -o public --layout argent --full --items-of random --json",
    "leaderboard page runs/second -o public --pictures --data-dir data --data imagenet=data/imagenet",
    "leaderboard compare ours random --in runs/all --layout miniature --every-metric --column zero-shot/* --json",
    "leaderboard show runs/all --layout miniature --each-seed --column zero-shot/*",
    "leaderboard build runs/all -o site --layout miniature --each-seed --column Classification --baseline random",
    "leaderboard card random --in runs/all --layout miniature",
    "leaderboard card random --in runs/all --json",
    "leaderboard rank runs/all --layout miniature --column zero-shot/* --each-seed --json",
    "run random --task hierarcaps/miniature --workers 0 -o runs/whole",
    "leaderboard submit runs/whole random -o bundle --card card.yaml --against filed --json",
    "leaderboard verify bundle --against filed --json",
    "leaderboard add bundle -o filed --replace --json",
    *(
        f"analyze {what} mymodel {ANALYZE}"
        for what in ("norms", "uncertainty", "horopca --centre origin", "entailment")
    ),
    f"analyze confusion mymodel {EMBED} {DATA} --dataset miniature-things --limit 12 --format svg -n 2 --json -o see",
    f"analyze geometry mymodel random {EMBED} {DATA} --on miniature-chains --limit 12 --format svg --json -o looked",
    f"analyze traversal mymodel {ANALYZE} --image photo.jpg --captions captions.txt --steps 5 --all-captions -n 2",
    f"analyze ambiguity mymodel {ANALYZE} --similar-by random --k 0 --k 2 --pool 2",
    "data prepare mine --from mine -o made --workers 0 --force --manifest mine.yaml --json",
    "data verify mine --pixels --data mine=mine --data-dir data --workers 0 --manifest mine.yaml --json",
    "data show mine -o sheet.png --count 2 --data mine=mine --data-dir data --manifest mine.yaml --json",
    "data export mine -o other --format imagefolder --protocol corrected --prompts photo --data mine=mine "
    "--data-dir data --manifest mine.yaml",
    "data grit-prepare raw.tar -o grit --workers 1 --max-boxes 2 --min-side 4",
    "data grit-check grit --workers 1 --json",
    f"clean miniature -o c --count 30 --share 0.2 --seed mine --negatives 4 {ROLES} {RULES}",
    f"clean miniature -o cs --count 20 --negatives 4 {SERVED}",
    f"clean hierarcaps -o hs --data hierarcaps=data/hierarcaps --negatives 2 {SERVED}",
    "clean miniature -o c2 --count 30 --negatives 4 --keep 20",
    "clean miniature -o c3 --count 30 --negatives 4 --dry-run --probe 1",
    f"clean hierarcaps -o h --data hierarcaps=data/hierarcaps --data-dir data --limit 12 --negatives 2 {ROLES} {RULES}",
    "clean hierarcaps -o h --data hierarcaps=data/hierarcaps --backend adapter --verifier random --keep 6 "
    "--negatives 2 --max-negative 1 --dry-run --probe 1",
    "clean report c2 random --data-dir data --data coco=data/coco --adapter mymodel.py --device cpu --offline "
    "--protocol released --json",
    "clean merge c c3 -o merged",
    f"train miniature/clip {TRAINING} -o trained --device cpu",
    f"train miniature/clip {TRAINING} -o trained --device cpu --resume --evaluate small --bundle bundled",
    "train --list",
    f"reproduce argent-table3 {TINY_STUDY} --rows meru-ent --seeds 0 --steps 2 --limit 8 -o rep --device cpu --json",
    "miniature show 4 -o grid.png --split pool --start 3",
    "cache stats --json",
    "cache prune --days 1 --max-size 1 --all --json",
]
"""Commands that are not shown in the pages, for the options that those leave out; run in this order, in one world."""

NOT_RUN = {
    (
        "clean miniature",
        "--batch-size",
    ): "is of Qwen3-VL: tests/cleaning/backends/test_qwen3_vl.py has a tiny one",
    (
        "clean hierarcaps",
        "--batch-size",
    ): "is of Qwen3-VL: tests/cleaning/backends/test_qwen3_vl.py has a tiny one",
}
"""Options that cannot be run here, (command, spelling) -> why."""


def after(words, option, number=1):
    """The words that follow an option, none where it is not given."""
    places = [place for place, word in enumerate(words) if word == option]
    return [words[place + number] for place in places]


def effects(words, done, world, before):
    """What of the options' effects is not there, for a command that ended well; `before`: the files there were."""
    outputs = [*after(words, "-o"), *after(words, "--out")]
    document = None
    if "--json" in words:
        document = json.loads(done.out)
    new = {path for path in world.rglob("*") if "cache" not in path.parts} - before
    if "--dry-run" in words and "--probe" not in words:
        assert not [path for path in new if not path.is_dir()], words
    elif "--dry-run" not in words:
        for output in outputs:
            assert (world / output).exists(), (words, output)
    if words[0] == "run" and document and "results" in document:
        for limit in after(words, "--limit"):
            assert {record["limit"] for record in document["results"]} == {int(limit)}
            assert {record["n"] for record in document["results"] if record["metrics"]} == {int(limit)}
        for name, flag in (("protocol", "--protocol"), ("prompts", "--prompts"), ("model", "--name")):
            for value in after(words, flag):
                assert {record[name] for record in document["results"]} == {value}
    if words[0] == "clean" and words[1] in ("miniature", "hierarcaps") and "--dry-run" not in words:
        pool = (world / outputs[0] / "pool.csv").read_text().splitlines()
        assert len(pool) == 1 + int(after(words, "--negatives")[0])
        for kept in after(words, "--keep"):
            assert len((world / outputs[0] / "split.csv").read_text().splitlines()) == 1 + int(kept)
    if "--bundle" in words:
        (card,) = (world / after(words, "--bundle")[0]).glob("*.yaml")
        assert yaml.safe_load(card.read_text())["figures"].keys() >= {"zero-shot/miniature-colours top1"}
    if "--format" in words and words[:2] == ["data", "export"]:
        assert list((world / outputs[0]).rglob("*.jpg")), words


@pytest.fixture
def served():
    """The address of a server that plays the three judges."""
    server = Fake()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.url
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Trainings of two steps, a compiler that notes what it was given, a suite of one task."""
    import torch

    from hierbench import registry
    from hierbench.reference import configuration

    resolve, compiled, suites = configuration.resolve, [], registry._suite_files()
    monkeypatch.setattr(
        configuration,
        "resolve",
        lambda config, overrides=(): resolve(config, [*TRAINING.split(), *overrides]),
    )
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiled.append(function) or function)
    small = tmp_path / "suites" / "small.yaml"
    small.parent.mkdir()
    small.write_text("title: Small\nlayout: miniature\ntasks: [zero-shot/miniature-colours]\n")
    monkeypatch.setattr(registry, "_suite_files", lambda: {**suites, "small": small})
    return compiled


def given_options(commands, words):
    """The command that the words name, and the first spelling of each option that they give."""
    length = max(n for n in (1, 2) if tuple(words[:n]) in commands)
    spellings = {
        spelling: param for param in commands[tuple(words[:length])].params for spelling in param.opts
    }
    return tuple(words[:length]), {spellings[word].name for word in words[length:] if word in spellings}


def test_what_the_pages_leave_out_runs_and_has_its_effect(hierbench, world, served, quick):
    for line in OPTIONS:
        words = shlex.split(line.replace("SERVER", served))
        before = set(world.rglob("*"))
        done = hierbench(*words)
        assert done.status == 0, (line, done.err)
        effects(words, done, world, before)
    assert len(quick) == 1  # of --compile


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--backend adapter --verifier random --timeout 5", "--timeout has no effect with --backend adapter"),
        (
            "--backend adapter --verifier random --batch-size 5",
            "--batch-size has no effect with --backend adapter",
        ),
        ("--base-url http://x/v1", "--base-url has no effect with --backend oracle: it is of server"),
        ("--backend server --device cpu", "with --backend server: it is of transformers and adapter"),
    ],
)
def test_options_without_effect_are_refused(hierbench, words, line):
    done = hierbench("clean", "miniature", "-o", "x", *words.split())
    assert done.status == 2
    assert line in done.err
    assert not Path("x").exists()


def test_every_option_of_every_command_is_run_once(commands):
    lines = [line for page in PAGES for line in documented(page.read_text(encoding="utf-8"))]
    lines += shown_in_help(commands)
    run = {}
    for line in lines:
        words, reason = prepared(line)
        if not reason:
            command, names = given_options(commands, words)
            run.setdefault(command, set()).update(names)
    for line in OPTIONS:
        command, names = given_options(commands, shlex.split(line))
        run.setdefault(command, set()).update(names)
    missing = {
        (" ".join(words), param.opts[-1])
        for words, command in commands.items()
        for param in command.params
        if param.param_type_name == "option" and param.name != "help" and param.name not in run.get(words, ())
    }
    assert sorted(missing - NOT_RUN.keys()) == []
    assert NOT_RUN.keys() <= missing


PYTHON = [
    (page, block)
    for page in PAGES
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
]
PYTHON_STAND_INS = {
    '"/data/imagenet/val"': '"data/imagenet"',
    '"hycoclip_vit_b.pth"': '"weights.pth"',
    '"openclip-vit-b-32-openai"': '"random"',
}


@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page.stem for page, _ in PYTHON])
def test_every_python_block_runs(world, monkeypatch, page, block):
    monkeypatch.chdir(world)
    for word, stand_in in PYTHON_STAND_INS.items():
        block = block.replace(word, stand_in)
    module = ModuleType("documented")
    monkeypatch.setitem(sys.modules, "documented", module)  # dataclasses look themselves up
    exec(compile(block, str(page), "exec"), module.__dict__)


def test_the_adapter_of_the_pages_conforms(world):
    from hierbench.models.conformance import check_adapter
    from hierbench.models.families import add_adapter_file

    add_adapter_file(world / "mymodel.py")
    import hierbench

    assert check_adapter(hierbench.load_model("mymodel")) == []
