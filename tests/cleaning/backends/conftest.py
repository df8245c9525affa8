"""A local server of judges; tiny Qwen3-VL models with random weights, in folders laid out like the published ones."""

import io
import json
import threading

import pytest
import torch
import transformers
from judge_server import Fake
from PIL import Image
from tokenizers import AddedToken, pre_tokenizers

from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset

CONTROL = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad")
WORDS = ("yes", "no", "Yes", "No", "ĠYes", "Ġno", "YES")

TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.content is string %}{{- message.content }}"
    "{%- else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{%- else %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""Turns as the published templates lay them out, without tools and videos."""


def tokenizer():
    """Bytes, and the spellings of yes and no as tokens of their own."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    merges = []
    for whole in WORDS:
        word = whole[0]
        for part in whole[1:]:
            if (word, part) not in merges:
                merges.append((word, part))
                vocabulary.setdefault(word + part, len(vocabulary))
            word += part
    made = transformers.Qwen2Tokenizer(vocab=vocabulary, merges=merges)
    made.add_tokens([AddedToken(f"<|{token}|>", special=True, normalized=False) for token in CONTROL])
    return made


def config(words, hidden=32):
    number = words.convert_tokens_to_ids
    return transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": len(words) + 3, "hidden_size": hidden, "intermediate_size": 48, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2], "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 3, "hidden_size": 24, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": hidden,
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 2],
        },
        image_token_id=number("<|image_pad|>"), video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"), vision_end_token_id=number("<|vision_end|>"),
    )  # fmt: skip


def save(folder, kind, seed):
    torch.manual_seed(seed)
    words = tokenizer()
    model = kind(config(words)).eval()
    for parameter in model.parameters():  # default initialisation makes all answers alike
        parameter.data.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1) + (
            1.0 if parameter.dim() == 1 and parameter.mean() > 0.5 else 0.0
        ))  # fmt: skip
    model.save_pretrained(folder)
    size = {"shortest_edge": 32 * 32, "longest_edge": 128 * 128}
    how = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2, "size": size}
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(**how),
        tokenizer=words,
        video_processor=transformers.Qwen3VLVideoProcessor(**how),
        chat_template=TEMPLATE,
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """{"verifier": folder, "embedder": folder, "reranker": folder}"""
    root = tmp_path_factory.mktemp("models")
    kinds = {
        "verifier": transformers.Qwen3VLForConditionalGeneration,
        "embedder": transformers.Qwen3VLModel,
        "reranker": transformers.Qwen3VLForConditionalGeneration,
    }
    return {role: save(root / f"tiny-{role}", kind, seed) for seed, (role, kind) in enumerate(kinds.items())}


@pytest.fixture(scope="session")
def scenes():
    """(20 images, encoded, of four sizes and shapes; the captions of each)"""
    dataset = open_dataset("miniature-chains", Locations()).limited(20)
    ids = dataset.images.ids
    images = [dataset.images.read(ids[owner]) for owner in dataset.owner]
    shapes = [(64, 64), (96, 64), (64, 128), (40, 33)]
    return [resized(image, shapes[number % 4]) for number, image in enumerate(images)], list(dataset.captions)


def resized(image, size):
    out = io.BytesIO()
    Image.open(io.BytesIO(image)).convert("RGB").resize(size).save(out, "PNG")
    return out.getvalue()


def edit(folder, **changes):
    """Change entries of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def fake():
    made = Fake()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()
