"""The built-in world: a seeded, exact, offline generator of drawn scenes with captions, boxes and labels.

scene("test", 7)      what is in scene 7 of a split (train, test, pool)
render(scene)         its picture and boxes
captions(scene)       four levels of captions with their meanings; is_true(meaning, scene) judges them
dataset("miniature")  the datasets of its manifests; multilabel() the set for multi-label tasks
training_sample(i)    picture, captions and parts to train on
"""

from hierbench.miniature.captions import Caption, Meaning, Mention, captions, chain, entails, is_true, words
from hierbench.miniature.scenes import SPLITS, Scene, Thing, all_scenes, render, scene

_DATASETS = ("dataset", "multilabel", "training_sample", "TrainingSample", "TRAINING_SAMPLES")

__all__ = [
    "SPLITS",
    "Caption",
    "Meaning",
    "Mention",
    "Scene",
    "Thing",
    "all_scenes",
    "captions",
    "chain",
    "entails",
    "is_true",
    "render",
    "scene",
    "words",
    *_DATASETS,
]


def __getattr__(name: str):
    # Later than the rest: `datasets` imports the manifests, and these import the miniature's words.
    if name in _DATASETS:
        from hierbench.miniature import datasets

        return getattr(datasets, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
