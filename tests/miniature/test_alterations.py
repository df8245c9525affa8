"""The altered captions are false of their scene, exactly, and differ from the true one in what is said alone."""

import pytest

from hierbench.miniature import datasets
from hierbench.miniature.alterations import ALTERATIONS, altered
from hierbench.miniature.captions import full_meaning, is_true, told_fully
from hierbench.miniature.draws import Draws

SCENES = [scene for scene in datasets.retrieval_scenes() if len(scene.things) == 2][:200]
MINI = datasets.dataset("miniature-choices")


@pytest.mark.parametrize("kind", ALTERATIONS)
def test_what_is_altered_is_false_and_nothing_else_changes(kind):
    for scene in SCENES[:60]:
        meaning, changed = full_meaning(scene), altered(scene, kind)
        if changed is None:
            assert kind == "swap_colours"
            assert scene.things[0].colour == scene.things[1].colour
            continue
        assert is_true(meaning, scene)
        assert not is_true(changed, scene)
        said = [(m.noun, m.colour, m.size) for m in meaning.mentions]
        told = [(m.noun, m.colour, m.size) for m in changed.mentions]
        differ = [(r, f) for r in range(2) for f in range(3) if said[r][f] != told[r][f]]
        assert differ == {
            "swap_colours": [(0, 1), (1, 1)], "swap_relation": [], "replace_thing": [(0, 0)],
            "replace_colour": [(0, 1)], "replace_place": [],
        }[kind]  # fmt: skip
        assert (meaning.relation != changed.relation) == (kind == "swap_relation")
        assert (meaning.background != changed.background) == (kind == "replace_place")


def test_the_questions_of_the_dataset():
    assert len(MINI.images.ids) == 200
    assert set(MINI.kinds) == set(ALTERATIONS)
    assert MINI.kinds.count("swap_relation") == 200
    for shown, (true, false) in zip(MINI.shown, MINI.captions, strict=True):
        scene = datasets.scene_by_id(MINI.images.ids[shown[0]])
        assert true == told_fully(full_meaning(scene), Draws("choices", scene.split, scene.index))
        assert true != false
    by_hand = dict(zip(MINI.sample_ids, MINI.captions, strict=True))
    first = MINI.sample_ids[0].rpartition("/")[0]
    true, false = by_hand[f"{first}/swap_colours"]
    assert sorted(true.split()) == sorted(false.split())  # the same words, in another order


def test_a_part_of_the_questions_keeps_their_images():
    part = MINI.limited(10)
    assert len(part.sample_ids) == 10
    assert set(part.sample_ids) <= set(MINI.sample_ids)
    for question, shown in zip(part.sample_ids, part.shown, strict=True):
        assert part.images.ids[shown[0]] == question.rpartition("/")[0]
