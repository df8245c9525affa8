"""Packs against their definition, and the text tower on packs against one padded sequence at a time."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from hierbench.reference.encoders import TextTransformer
from hierbench.reference.packing import MIN_SAVING, chunks, pack

START, END, CONTEXT = 28, 29, 77  # a small vocabulary, so that beginnings meet often
WORDS = st.lists(st.integers(0, 5), max_size=CONTEXT - 2)
CAPTIONS = st.lists(WORDS.map(lambda words: [START, *words, END]), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tower():
    """A two-head tower in float64 whose attention is far from uniform."""
    torch.manual_seed(0)
    tower = TextTransformer(width=128, depth=3, vocabulary=30, context=CONTEXT).double()
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return tower


@torch.no_grad()
def padded_one_by_one(tower, sequences):
    """The released way: pad to the context, mask the future, read at the largest id."""
    rows = []
    for sequence in sequences:
        tokens = torch.tensor([list(sequence) + [0] * (CONTEXT - len(sequence))])
        x = tower.token_embed(tokens) + tower.posit_embed
        for block in tower.resblocks:
            attention = torch.nn.MultiheadAttention(128, 2, batch_first=True, dtype=x.dtype)
            attention.load_state_dict(block.attn.state_dict())
            y = block.ln_1(x)
            x = x + attention(y, y, y, need_weights=False, attn_mask=tower.attn_mask)[0]
            hidden = F.gelu(block.mlp.c_fc(block.ln_2(x)))
            x = x + block.mlp.c_proj(hidden)
        rows.append(tower.ln_final(x)[0, tokens[0].argmax()])
    return torch.stack(rows)


@settings(max_examples=25, deadline=None)
@given(CAPTIONS, st.sampled_from([None, True, False]), st.sampled_from([1, 8]))
def test_packed_features_are_those_of_padding_one_by_one(tower, captions, share, step):
    with torch.no_grad():
        packed = tower(pack(captions, share=share, step=step))
    torch.testing.assert_close(packed, padded_one_by_one(tower, captions), rtol=0, atol=1e-10)


def test_the_shortest_the_longest_and_the_same_text_twice(tower):
    empty, longest = [START, END], [START, *[3] * 75, END]
    captions = [longest, empty, [START, 3, 3, END], longest, empty, [START, *[3] * 74, END]]
    with torch.no_grad():
        features = tower(captions)
    torch.testing.assert_close(features, padded_one_by_one(tower, captions), rtol=0, atol=1e-10)
    assert torch.equal(features[0], features[3])
    assert torch.equal(features[1], features[4])


def test_the_feature_is_read_at_the_first_largest_id(tower):
    """A text that lost its end token is read at its start, one that holds an end token inside is cut there."""
    cut, inside = [START, *[3] * 76], [START, 4, END, 5, END]
    with torch.no_grad():
        features = tower([cut, inside, [START], [START, 4, END]])
    torch.testing.assert_close(features[:2], padded_one_by_one(tower, [cut, inside]), rtol=0, atol=1e-10)
    assert torch.equal(features[0], features[2])
    assert torch.equal(features[1], features[3])


def test_sharing_changes_float32_features_by_rounding_only():
    torch.manual_seed(1)
    tower = TextTransformer(width=128, depth=3, vocabulary=30)
    captions = [[START, 1, 2, 3, *map(int, torch.randint(0, 6, (n % 9,))), END] for n in range(60)]
    with torch.no_grad():
        shared, apart = tower(pack(captions, share=True)), tower(pack(captions, share=False))
    torch.testing.assert_close(shared, apart, rtol=0, atol=3e-6)


def test_gradients_are_those_of_unshared_sequences(tower):
    captions = [[START, 1, 2, END], [START, 1, 3, 4, END], [START, 1, 3, 4, END], [START, END]]
    weights = torch.linspace(-1, 1, 4 * 128, dtype=torch.float64).view(4, 128)
    gradients = []
    for share in (True, False):
        loss = (tower(pack(captions, share=share)) * weights).sum()
        gradients.append(torch.autograd.grad(loss, list(tower.parameters())))
    for shared, apart in zip(*gradients, strict=True):
        torch.testing.assert_close(shared, apart, rtol=1e-9, atol=1e-9)


@given(CAPTIONS)
def test_a_pack_holds_every_distinct_beginning_once(captions):
    batch = pack(captions, share=True)
    beginnings = {tuple(caption[: n + 1]) for caption in captions for n in range(len(caption))}
    assert len(batch.tokens) == len(beginnings)
    assert batch.longest == max(map(len, captions))


def test_a_pack_is_laid_out_as_worked_by_hand():
    """Sorted: (28, 1, 2, 29) adds 4 nodes, (28, 1, 29) adds its end, (28, 29) adds its end."""
    batch = pack([[28, 29], [28, 1, 29], [28, 1, 2, 29]], share=True)
    assert batch.tokens.tolist() == [28, 1, 2, 29, 29, 29]
    assert batch.positions.tolist() == [0, 1, 2, 3, 2, 1]
    first, rest = batch.groups
    assert (first.start, first.count, first.length, first.keys) == (0, 1, 4, None)
    assert (rest.start, rest.count, rest.length) == (4, 2, 1)
    assert rest.keys.tolist() == [[0, 1, 4], [0, 5, 0]]
    assert rest.mask[:, 0, 0].tolist() == [[True, True, True], [True, True, False]]
    assert rest.ends.tolist() == [4, 5]
    assert batch.order.tolist() == [2, 1, 0]


def test_sharing_is_left_out_where_it_saves_too_little():
    long = [[START, *[word] * 60, END] for word in range(5)]
    assert 4 / sum(map(len, long)) < MIN_SAVING  # only START is common
    assert len(pack(long).tokens) == sum(map(len, long))
    short = [[START, word, END] for word in range(5)]
    assert len(pack(short).tokens) == 1 + 2 * 5


def test_sequences_may_be_tensors():
    assert pack([torch.tensor([28, 1, 29], dtype=torch.int32)]).tokens.tolist() == [28, 1, 29]


@given(CAPTIONS, st.integers(1, 60))
def test_chunks_cover_everything_once_within_the_budget(captions, budget):
    cut = list(chunks(captions, budget))
    assert sorted(position for chunk in cut for position in chunk) == list(range(len(captions)))
    for chunk in cut:
        nodes = len(pack([captions[position] for position in chunk], share=True).tokens)
        assert nodes <= budget or len({tuple(captions[position]) for position in chunk}) == 1


def test_too_long_a_sequence_is_refused(tower):
    with pytest.raises(ValueError, match="78 tokens"):
        tower([[START, *[1] * 76, END]])
