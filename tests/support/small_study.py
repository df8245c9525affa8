"""A study of two rows, and a training small enough for a test."""

from small_training import TOWERS

SMALL = {
    "title": "A study",
    "source": "a paper",
    "setting": "the paper's own",
    "steps": 12,
    "measures": {
        "ret": {"paper": "R@1", "title": "R@1", "task": "retrieval/miniature", "metrics": ["t2i_r1"]}
    },
    "rows": {"one": {"extends": "miniature/clip"}, "other": {"extends": "miniature/meru"}},
    "lines": [{"group": "All", "lines": [{"label": "One", "row": "one", "paper": [1.0]}]}],
    "claims": [{"says": "one wins", "better": "one", "than": "other", "by": ["ret"]}],
}

TINY = (*TOWERS, "train.batch_size=4", "data.workers=0")
