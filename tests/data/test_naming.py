"""Readers give ids and class ids; opening a dataset attaches the manifest's words for them."""

import pytest

from hierbench.data.manifests import load_manifest
from hierbench.data.readers import food101, labelled_folder, open_folder, voc2007
from hierbench.errors import UsageError


def test_a_reader_knows_class_ids_alone_and_opening_adds_names(layouts, tmp_path):
    manifest, folder = load_manifest("food101"), layouts.build("food101", tmp_path).folder
    bare = food101.read(manifest, folder)
    assert (bare.class_names, bare.templates, bare.taxonomy) == ((), (), None)
    assert (bare.num_classes, bare.class_ids[:2]) == (101, ("apple_pie", "baby_back_ribs"))
    opened = open_folder(manifest, folder, prompts="photo")
    assert opened.class_ids == bare.class_ids
    assert opened.labels.tolist() == bare.labels.tolist()
    assert (opened.class_names[0], opened.templates) == ("apple pie", ("a photo of a {}.",))
    cheese = opened.class_ids.index("cheese_plate")  # the released evaluators exchange two names
    mended = open_folder(manifest, folder, protocol="corrected")
    assert (opened.class_names[cheese], mended.class_names[cheese]) == ("cheesecake", "cheese plate")


def test_of_several_labels_and_without_classes_in_the_manifest(layouts, tmp_path):
    manifest, folder = load_manifest("voc2007"), layouts.build("voc2007", tmp_path / "v").folder
    assert voc2007.read(manifest, folder).class_names == ()
    assert open_folder(manifest, folder).class_names == manifest.class_names()
    manifest, folder = load_manifest("simco"), layouts.build("simco", tmp_path / "s").folder
    bare, opened = labelled_folder.read(manifest, folder), open_folder(manifest, folder)
    assert opened.class_names == opened.class_ids == bare.class_ids != ()


def test_unknown_protocols_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match="no protocol 'mended'"):
        open_folder(load_manifest("food101"), tmp_path / "absent", protocol="mended")
