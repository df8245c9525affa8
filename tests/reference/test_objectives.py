"""The terms of objectives: hand-worked values, gradients against finite differences, edges, what ARGENT claims."""

import math
from dataclasses import replace

import pytest
import torch

from hierbench.errors import UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.objectives import Embedded, Sharing, build_terms, total_loss
from hierbench.reference.objectives.contrastive import Contrastive, UncertaintyContrastive
from hierbench.reference.objectives.entailment import AdaptiveEntailment, ConeEntailment, PiecewiseEntailment
from hierbench.reference.objectives.norm import NormRegulariser
from hierbench.reference.objectives.uncertainty import calibration, uncertainty
from hierbench.reference.tokenizer import tokenize

ITEMS = ("image", "text", "part_image", "part_text")
SCALES = ("logit_scale", "global_logit_scale", "local_logit_scale", "global_local_logit_scale")
FAMILIES = {
    "clip": [{"term": "contrastive"}],
    "hycoclip": [
        {
            "term": "contrastive",
            "pairs": [["image", "text"], ["text", "image"], ["part_image", "text"], ["part_text", "image"]],
        },
        {"term": "cone_entailment", "weight": 0.2},
    ],
    "uncha": [{"term": "uncertainty_contrastive"}, {"term": "piecewise_entailment", "weight": 0.2}],
    "argent": [
        {"term": "contrastive"},
        {"term": "adaptive_entailment", "weight": 0.1},
        {"term": "norm_regulariser", "weight": 0.1},
    ],
}
hyperbolic = pytest.mark.parametrize("family", ["hycoclip", "uncha", "argent"])


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


def embedded(samples=3, slots=2, dim=4, seed=0, valid=None, geometry=None, size=0.6):
    """A random batch of points in float64, its first parts valid by default."""
    draw = torch.Generator().manual_seed(seed)
    geometry = geometry or Lorentz(0.7)

    def points(rows):
        return geometry.lift(size * torch.randn(rows, dim, generator=draw, dtype=torch.float64))

    if valid is None:
        valid = torch.ones(samples, slots, dtype=torch.bool)
        valid[1:, 1:] = False
    return Embedded(
        geometry,
        image=points(samples),
        text=points(samples),
        part_image=points(samples * slots),
        part_text=points(samples * slots),
        scales={name: torch.tensor(3.0 + place, dtype=torch.float64) for place, name in enumerate(SCALES)},
        valid=valid.flatten(),
        owner=torch.arange(samples).repeat_interleave(slots),
    )


def one_pair(general, specific, κ=1.0, relation="cross_image"):
    """A batch of one sample in which one relation has the given ends."""
    items = {"text_image": ("text", "image"), "cross_image": ("part_image", "image")}[relation]
    points = dict.fromkeys(ITEMS, row(0.3, 0.4)) | dict(zip(items, (general, specific), strict=True))
    true, zero = torch.tensor([True]), torch.tensor([0])
    return Embedded(Lorentz(κ), scales={}, valid=true, owner=zero, **points)


# --------------------------------------------------------------------------------------------------- contrastive


def test_contrastive_by_hand():
    """Two orthogonal pairs at scale s: log(1 + e^−s); matched the wrong way round: s more."""
    unit = torch.eye(2, dtype=torch.float64)
    s = torch.tensor(2.0, dtype=torch.float64)
    right = Embedded(Sphere(), unit, unit, {"logit_scale": s})
    assert Contrastive()(right)[0].item() == pytest.approx(math.log1p(math.exp(-2)))
    wrong = replace(right, text=unit.flip(0))
    assert Contrastive()(wrong)[0].item() == pytest.approx(2 + math.log1p(math.exp(-2)))


def test_hyperbolic_contrastive_uses_distance():
    """On a line, points at 0 and 1 against texts at 0 and 2: distances 0, 2 and 1, 1."""
    image, text = (
        torch.tensor([[math.sinh(r), 0.0] for r in radii], dtype=torch.float64) for radii in ((0, 1), (0, 2))
    )
    batch = Embedded(Lorentz(1.0), image, text, {"logit_scale": torch.tensor(1.0)})
    there = (math.log1p(math.exp(-2)) + math.log(2)) / 2
    back = (math.log1p(math.exp(-1)) + math.log1p(math.exp(1 - 2))) / 2
    assert Contrastive((("image", "text"),))(batch)[0].item() == pytest.approx(there)
    assert Contrastive()(batch)[0].item() == pytest.approx((there + back) / 2)


def test_parts_find_their_owners_among_the_wholes():
    """Against an explicit loop: HyCoCLIP's targets stand once, UNCHA's once per valid part."""
    batch = embedded()
    d = batch.geometry.distance(batch.part_image, batch.text)
    rows = [r for r in range(6) if batch.valid[r]]
    owner = batch.owner.tolist()

    def loss(columns, scale):
        return sum(
            torch.logsumexp(torch.stack([-scale(r) * d[r, c] for c in columns]), 0)
            + scale(r) * d[r, owner[r]]
            for r in rows
        ) / len(rows)

    once = Contrastive((("part_image", "text"),))(batch)[0]
    torch.testing.assert_close(once, loss(range(3), lambda r: 3.0))
    u = uncertainty(batch.part_image)
    repeated = loss([owner[r] for r in rows], lambda r: 6.0 * math.exp(-u[r] / 2))
    assert [owner[r] for r in rows] == [0, 0, 1, 2]

    d = batch.geometry.distance(batch.part_text, batch.image)
    u = uncertainty(batch.part_text)
    repeated = repeated + loss([owner[r] for r in rows], lambda r: 6.0 * math.exp(-u[r] / 2))
    whole = Contrastive(scale="global_logit_scale")(batch)[0]
    only = {name: getattr(batch, name)[batch.valid] for name in ITEMS[2:]}
    local = Contrastive((("part_image", "part_text"), ("part_text", "part_image")), "local_logit_scale")
    local = local(replace(batch, valid=torch.ones(4, dtype=torch.bool), **only))[0]
    torch.testing.assert_close(UncertaintyContrastive()(batch)[0], whole + local + repeated / 2)


# ---------------------------------------------------------------------------------------------------- entailment

ASIDE = (row(math.sinh(1), 0.0), row(0.0, math.sinh(1)))  # both at distance 1, a right angle at the origin
PHI = math.pi - math.atan(1 / math.cosh(1))  # exterior angle of one towards the other, about 2.567
OMEGA = math.asin(0.2 / math.sinh(1))


def test_cone_entailment_by_hand():
    batch = one_pair(*ASIDE, relation="text_image")
    meru = ConeEntailment(("text_image",), across=1.0, factor=1.0)
    assert meru(batch)[0].item() == pytest.approx(PHI - OMEGA)
    loss, relations = ConeEntailment(("text_image",))(batch)
    assert loss.item() == pytest.approx((PHI - 0.7 * OMEGA) / 2)
    assert relations["text_image"].item() == pytest.approx(PHI - 0.7 * OMEGA)
    within = ConeEntailment(("cross_image",))(one_pair(*ASIDE))
    assert within[0].item() == pytest.approx((PHI - 1.2 * OMEGA) / 2)
    inside = one_pair(row(1.0, 0.0), row(3.0, 0.0), relation="text_image")
    assert ConeEntailment(("text_image",))(inside)[0].item() == 0


def test_adaptive_entailment_by_hand():
    """Huber with β = 1: φ²/2 up to 1, φ − ½ above."""
    across = AdaptiveEntailment(("text_image",))
    assert across(one_pair(*ASIDE, relation="text_image"))[0].item() == pytest.approx((PHI - 0.5) / 2)
    near = (row(math.sinh(1), 0.0), row(math.sinh(3), 0.3))
    φ = Lorentz(1.0).exterior_angle(*near).item()
    assert 0 < φ < 1
    assert across(one_pair(*near, relation="text_image"))[0].item() == pytest.approx(φ**2 / 4)
    wide = AdaptiveEntailment(("text_image",), beta=0.01)
    assert wide(one_pair(*near, relation="text_image"))[0].item() == pytest.approx(0.01 * (φ - 0.005) / 2)


def test_adaptive_weight_falls_with_similarity_within_a_modality():
    """h = 1 − cos: 1 for orthogonal, ½ at 60°, 0 for parallel, never above 1; across modalities 1."""
    x = row(1.0, 0.0)
    for angle, h in ((90, 1.0), (60, 0.5), (0, 0.0), (150, 1.0)):
        y = 2 * row(math.cos(math.radians(angle)), math.sin(math.radians(angle)))
        z = h * Lorentz(1.0).exterior_angle(x, y).item()
        expected = z**2 / 2 if z < 1 else z - 0.5
        assert AdaptiveEntailment(("cross_image",), factor=1.0)(one_pair(x, y))[0].item() == pytest.approx(
            expected, abs=1e-12
        )
    y, φ = row(2.0, 0.5), Lorentz(1.0).exterior_angle(x, row(2.0, 0.5)).item()
    cosine = 2.0 / math.sqrt(2.0**2 + 0.5**2)
    distance = math.tanh(Lorentz(1.0).distance(x, y).item())
    for weighting, h in (("none", 1.0), ("distance", distance), ("square", 1 - cosine**2)):
        term = AdaptiveEntailment(("cross_image",), weighting=weighting, factor=1.0)
        assert term(one_pair(x, y))[0].item() == pytest.approx((h * φ) ** 2 / 2)


@pytest.mark.parametrize(("angle", "h"), [(90, 1.0), (60, 0.75), (45, 0.5), (0, 0.0), (150, 1.0)])
def test_the_square_reading_by_hand(angle, h):
    """1 − cos²; pairs that point away from each other keep their whole weight, as in the cosine reading."""
    x = row(1.0, 0.0)
    y = 2 * row(math.cos(math.radians(angle)), math.sin(math.radians(angle)))
    z = h * Lorentz(1.0).exterior_angle(x, y).item()
    loss = AdaptiveEntailment(("cross_image",), weighting="square", factor=1.0)(one_pair(x, y))
    assert loss[0].item() == pytest.approx(z**2 / 2 if z < 1 else z - 0.5, abs=1e-12)


def test_where_the_adaptive_weight_applies():
    """A pair at 60° has h = ½: across modalities it counts where `weighted` is any, within one it always does."""
    x, y = row(1.0, 0.0), 2 * row(0.5, math.sqrt(3) / 2)
    φ = Lorentz(1.0).exterior_angle(x, y).item()
    whole, half = (z**2 / 2 if z < 1 else z - 0.5 for z in (φ, φ / 2))
    expected = {
        ("text_image", "within"): whole,
        ("text_image", "any"): half,
        ("cross_image", "within"): half,
        ("cross_image", "any"): half,
    }
    for (relation, weighted), loss in expected.items():
        term = AdaptiveEntailment((relation,), weighted=weighted, factor=1.0)
        assert term(one_pair(x, y, relation=relation))[0].item() == pytest.approx(loss), (relation, weighted)


def test_no_gradient_flows_through_the_adaptive_weight():
    x, y = row(1.0, 0.2).requires_grad_(), row(2.0, 1.5).requires_grad_()
    term = AdaptiveEntailment(("cross_image",), factor=1.0)
    found = torch.autograd.grad(term(one_pair(x, y))[0], [x, y])
    h = 1 - torch.nn.functional.cosine_similarity(x, y).item()
    assert 0 < h < 1
    φ = Lorentz(1.0).exterior_angle(x, y)[0, 0]
    expected = torch.autograd.grad((h * φ) ** 2 / 2 if h * φ < 1 else h * φ - 0.5, [x, y])
    torch.testing.assert_close(found, expected)


def test_what_argent_claims():
    """Inside the norm boundary ω is π/2: for exterior angles below ηπ/2 cones are silent, AdaEnt is not (ARGENT §4)."""
    κ, boundary = 0.1, 2 * 0.1 / math.sqrt(0.1)
    general, specific = row(0.5, 0.0), row(0.75, 0.35)
    assert general.norm() < boundary
    φ = Lorentz(κ).exterior_angle(general, specific).item()
    assert 0.5 < φ < 0.7 * math.pi / 2  # no small angle, yet under the bound of both η
    for relation in ("text_image", "cross_image"):
        losses = {}
        for term in (ConeEntailment((relation,)), AdaptiveEntailment((relation,))):
            ends = [end.clone().requires_grad_() for end in (general, specific)]
            loss = term(one_pair(*ends, κ=κ, relation=relation))[0]
            losses[type(term)] = loss, torch.autograd.grad(loss, ends)
        loss, gradients = losses[ConeEntailment]
        assert loss == 0
        assert all((gradient == 0).all() for gradient in gradients)
        loss, gradients = losses[AdaptiveEntailment]
        assert loss > 1e-3
        assert all(gradient.norm() > 1e-3 for gradient in gradients)


def test_regulariser_by_hand():
    """‖x̃‖² − log‖x̃‖: 1 at norm 1, least (½ + ½ log 2) at √½; the mean is over embeddings, valid ones alone."""
    assert NormRegulariser(("text",))(one_pair(row(0.6, 0.8), row(9.0, 9.0), relation="text_image"))[0] == 1
    half = row(math.sqrt(0.5), 0.0).requires_grad_()
    least = NormRegulariser(("text",))(one_pair(half, half.detach(), relation="text_image"))[0]
    assert least.item() == pytest.approx(0.5 + math.log(2) / 2)
    assert torch.autograd.grad(least, half)[0].abs().max() < 1e-12
    batch = embedded()
    points = torch.cat([batch.image, batch.text, batch.part_image[batch.valid], batch.part_text[batch.valid]])
    norms = points.norm(dim=1)
    torch.testing.assert_close(NormRegulariser()(batch)[0], (norms.square() - norms.log()).mean())


# -------------------------------------------------------------------------------------------------------- UNCHA


def test_uncertainty_is_high_near_the_origin():
    assert uncertainty(row(0.0, 0.0)).item() == pytest.approx(math.log(2))
    assert uncertainty(row(3.0, 4.0)).item() == pytest.approx(math.log1p(math.exp(-5)))


def test_calibration_by_hand():
    """Two parts of norm 5 and residuals 1 and 3, a third one invalid: their entropy is log 2."""
    points = torch.tensor([[3.0, 4.0], [5.0, 0.0], [0.1, 0.1]], dtype=torch.float64)
    residual = torch.tensor([1.0, 3.0, 50.0], dtype=torch.float64, requires_grad=True)
    loss = calibration(points, residual, torch.tensor([True, True, False]))
    u = math.log1p(math.exp(-5))
    assert loss.item() == pytest.approx(10 * (2 / (math.exp(u) + 1e-6) / 2 + u / 2 + math.log(2)))
    assert not loss.requires_grad


def test_entropy_over_the_batch_or_over_each_process():
    whole = replace(
        embedded(samples=4, slots=1, valid=torch.ones(4, 1, dtype=torch.bool)), sharing=Sharing(world=2)
    )
    u = {name: uncertainty(getattr(whole, name)) for name in ITEMS[2:]}

    def entropy(values):
        return torch.distributions.Categorical(logits=values).entropy()

    difference = sum(
        entropy(values) - (entropy(values[:2]) + entropy(values[2:])) / 2 for values in u.values()
    )
    batch, process = (PiecewiseEntailment(entropy=over)(whole)[0] for over in ("batch", "process"))
    torch.testing.assert_close(batch - process, 10 * difference)
    without = PiecewiseEntailment(entropy="none")(whole)[0]
    torch.testing.assert_close(batch - without, 10 * sum(entropy(values) for values in u.values()))


def test_uncha_without_its_calibration_or_its_guided_temperatures():
    """What is taken away is what the paper adds: the residuals alone; logits of parts that no uncertainty scales."""
    batch = embedded(samples=4, slots=1, valid=torch.ones(4, 1, dtype=torch.bool))
    loss, halves = PiecewiseEntailment(calibrated=False)(batch)
    shares = {"text_image": 1.0, "box_text_image": 1.0, "cross_image": 0.5, "cross_text": 0.5}
    torch.testing.assert_close(loss, sum(share * halves[name] for name, share in shares.items()))
    guided, plain = (UncertaintyContrastive(guided=guided)(batch)[0] for guided in (True, False))
    pairs = {
        "global_logit_scale": (("image", "text"), ("text", "image")),
        "local_logit_scale": (("part_image", "part_text"), ("part_text", "part_image")),
        "global_local_logit_scale": (("part_image", "text"), ("part_text", "image")),
    }  # one part an item: repeating items for it changes nothing
    expected = sum(Contrastive(pair, scale)(batch)[0] for scale, pair in pairs.items())
    torch.testing.assert_close(plain, expected)
    assert guided != plain


# -------------------------------------------------------------------------------------------- what holds for all


@pytest.mark.parametrize(
    "term",
    [
        Contrastive((("image", "text"), ("part_text", "image"), ("part_image", "part_text"))),
        ConeEntailment(),
        AdaptiveEntailment(weighting="none"),
        NormRegulariser(),
    ],
    ids=lambda term: type(term).__name__,
)
def test_gradients_match_finite_differences(term):
    batch = embedded(samples=2)
    inputs = [getattr(batch, name).detach().requires_grad_() for name in ITEMS]
    κ, scale = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, 3.0))

    def loss(κ, scale, *points):
        changed = replace(
            batch, geometry=Lorentz(κ), scales={"logit_scale": scale}, **dict(zip(ITEMS, points, strict=True))
        )
        return term(changed)[0]

    assert torch.autograd.gradcheck(loss, (κ, scale, *inputs))


@hyperbolic
def test_total_is_the_weighted_sum_of_what_is_logged(family):
    total, logged = total_loss(build_terms(FAMILIES[family]), embedded())
    weights = {"contrastive": 1.0, "entailment": 0.1 if family == "argent" else 0.2, "norm": 0.1}
    expected = sum(
        weight * logged[f"{name}_loss"] for name, weight in weights.items() if f"{name}_loss" in logged
    )
    torch.testing.assert_close(total, expected)
    relations = {"text_image", "box_text_image", "cross_image", "cross_text"}
    assert {f"{name}_entailment_loss" for name in relations} <= logged.keys()
    assert not any(value.requires_grad for value in logged.values())


@hyperbolic
def test_padding_does_not_count(family):
    """Rows that are not valid change no figure and get no gradient."""
    batch = embedded()
    hidden = ~batch.valid
    parts = {}
    for seed, name in enumerate(ITEMS[2:]):
        other = getattr(embedded(seed=seed + 5), name)
        parts[name] = torch.where(hidden[:, None], other, getattr(batch, name)).requires_grad_()
    terms = build_terms(FAMILIES[family])
    total = total_loss(terms, replace(batch, **parts))[0]
    torch.testing.assert_close(total, total_loss(terms, batch)[0])
    for gradient in torch.autograd.grad(total, list(parts.values())):
        assert (gradient[hidden] == 0).all()
        assert (gradient[batch.valid] != 0).any(1).all()


@hyperbolic
@pytest.mark.parametrize("case", ["coincident", "origin", "far", "no part is valid"])
def test_loss_and_gradients_are_finite_at_the_edges(family, case):
    batch = embedded(valid=torch.zeros(3, 2, dtype=torch.bool) if case == "no part is valid" else None)
    points = {name: getattr(batch, name).clone() for name in ITEMS}
    if case == "coincident":
        points = {name: value[:1].expand_as(value).clone() for name, value in points.items()}
        points["part_image"] = points["part_text"] = points["text"] = (
            points["image"][:1].expand(6, -1).clone()
        )
        points["text"] = points["image"].clone()
    elif case == "origin":
        points = {name: torch.zeros_like(value) for name, value in points.items()}
    elif case == "far":
        points = {name: value / value.norm(dim=1, keepdim=True) * 1e4 for name, value in points.items()}
    points = {name: value.requires_grad_() for name, value in points.items()}
    total, logged = total_loss(build_terms(FAMILIES[family]), replace(batch, **points))
    assert total.isfinite()
    assert all(value.isfinite() for value in logged.values())
    for gradient in torch.autograd.grad(total, list(points.values()), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


def test_a_caption_that_equals_its_parts_phrase_trains_nothing():
    """Encoded in batches of different sizes, equal captions differ by rounding: no direction, hence no gradient."""
    torch.manual_seed(0)
    encoder = DualEncoder.create(
        "hyperbolic", vision="vit_tiny_patch16_224", text="L2_W64", embed_dim=32, vision_sizes={"depth": 1}
    )
    captions = ["a red rabbit", "a large green bus at night", "a dog", "two orange fish above a house"]
    phrases = ["a red rabbit", "a bus", "a dog", "a fish"]
    with torch.no_grad():
        whole = encoder.text_tangents(tokenize(captions))
        parts = torch.cat([encoder.text_tangents(tokenize([phrase])) for phrase in phrases])
    assert not torch.equal(whole[0], parts[0])  # the rounding that this test is about
    whole, parts = (features.double().requires_grad_() for features in (whole, parts))
    geometry = Lorentz(1.0)
    lifted = {"text": geometry.lift(whole), "part_text": geometry.lift(parts)}
    unused = dict.fromkeys(("image", "part_image"), lifted["text"].detach())
    batch = Embedded(
        geometry, scales={}, valid=torch.ones(4, dtype=torch.bool), owner=torch.arange(4), **lifted, **unused
    )
    term = AdaptiveEntailment(relations=("cross_text",), weighting="none")
    for gradient in torch.autograd.grad(term(batch)[0], [whole, parts]):
        assert (gradient[[0, 2]] == 0).all()
        assert (gradient[[1, 3]] != 0).any(1).all()


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"term": "cone_entailmnet"}, "no term 'cone_entailmnet'"),
        ({}, "no term None"),
        ({"term": "contrastive", "weight": -1}, "weight must be"),
        ({"term": "contrastive", "weight": "much"}, "weight must be"),
        ({"term": "contrastive", "wieght": 1}, "unknown option wieght, known: pairs, scale"),
        ({"term": "contrastive", "pairs": []}, "at least one pair"),
        ({"term": "contrastive", "pairs": [["image", "caption"]]}, "pairs.0.1"),
        ({"term": "contrastive", "pairs": [["image", "part_text"]]}, "no single part"),
        ({"term": "contrastive", "scale": "temperature"}, "scale"),
        ({"term": "cone_entailment", "relations": ["image_text"]}, "relations.0"),
        ({"term": "cone_entailment", "relations": []}, "relations"),
        ({"term": "cone_entailment", "across": -0.1}, "across"),
        ({"term": "adaptive_entailment", "weighting": "cosin"}, "weighting"),
        ({"term": "adaptive_entailment", "weighted": "across"}, "weighted"),
        ({"term": "adaptive_entailment", "beta": 0}, "beta"),
        ({"term": "piecewise_entailment", "entropy": "all"}, "entropy"),
        ({"term": "piecewise_entailment", "calibrated": "mostly"}, "calibrated"),
        ({"term": "uncertainty_contrastive", "guided": 2}, "guided"),
        ({"term": "norm_regulariser", "members": ["images"]}, "members.0"),
    ],
)
def test_wrong_terms_are_refused(entry, what):
    with pytest.raises(UsageError, match="objective") as raised:
        build_terms([entry])
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)
