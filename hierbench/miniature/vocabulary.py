"""What the miniature world is made of: kinds of thing with their WordNet synsets, colours, sizes, places.

The one home of these words. Drawings are in `shapes` and `backdrops`, sentences in `captions`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of thing: `names[0]` is its key and class name, the others are synonyms used in captions."""

    names: tuple[str, ...]
    synset: str  # WordNet 3.0 noun offset as ImageNet writes it
    hypernyms: tuple[str, ...]  # what else it is, the group first

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def group(self) -> str:
        return self.hypernyms[0]


KINDS: tuple[Kind, ...] = (
    Kind(("dog",), "n02084071", ("animal", "mammal")),
    Kind(("cat",), "n02121620", ("animal", "mammal")),
    Kind(("elephant",), "n02503517", ("animal", "mammal")),
    Kind(("rabbit",), "n02324045", ("animal", "mammal")),
    Kind(("duck",), "n01846331", ("animal", "bird")),
    Kind(("owl",), "n01621127", ("animal", "bird")),
    Kind(("penguin",), "n02055803", ("animal", "bird")),
    Kind(("fish",), "n02512053", ("animal",)),
    Kind(("turtle",), "n01662784", ("animal", "reptile")),
    Kind(("butterfly",), "n02274259", ("animal", "insect")),
    Kind(("palm", "palm tree"), "n12582231", ("plant", "tree")),
    Kind(("pine", "pine tree"), "n11608250", ("plant", "tree")),
    Kind(("cactus",), "n11842204", ("plant",)),
    Kind(("tulip",), "n12454159", ("plant",)),
    Kind(("sunflower",), "n11978233", ("plant", "flower")),
    Kind(("car", "automobile"), "n02958343", ("vehicle", "motor vehicle")),
    Kind(("truck",), "n04490091", ("vehicle", "motor vehicle")),
    Kind(("bicycle", "bike"), "n02834778", ("vehicle",)),
    Kind(("airplane", "plane"), "n02691156", ("vehicle", "aircraft")),
    Kind(("sailboat",), "n04128499", ("vehicle", "vessel")),
    Kind(("rocket",), "n04099429", ("vehicle",)),
    Kind(("house",), "n03544360", ("structure", "building")),
    Kind(("church",), "n03028079", ("structure", "building")),
    Kind(("castle",), "n02980441", ("structure",)),
    Kind(("lighthouse",), "n02814860", ("structure", "tower")),
    Kind(("tent",), "n04411264", ("structure", "shelter")),
    Kind(("circle",), "n13873502", ("shape",)),
    Kind(("square",), "n13878634", ("shape", "polygon")),
    Kind(("triangle",), "n13879320", ("shape", "polygon")),
    Kind(("star",), "n13881644", ("shape",)),
)

HYPERNYMS: dict[str, str] = {
    "animal": "n00015388",
    "mammal": "n01861778",
    "bird": "n01503061",
    "reptile": "n01661091",
    "insect": "n02159955",
    "plant": "n00017222",
    "tree": "n13104059",
    "flower": "n11669921",
    "vehicle": "n04524313",
    "motor vehicle": "n03791235",
    "aircraft": "n02686568",
    "vessel": "n04530566",
    "structure": "n04341686",
    "building": "n02913152",
    "tower": "n04460130",
    "shelter": "n04191595",
    "shape": "n00027807",
    "polygon": "n13866144",
}
"""The general words of captions and their synsets; each is an ancestor of the kinds that name it."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (243, 138, 32),
    "yellow": (248, 214, 54),
    "green": (48, 160, 66),
    "blue": (44, 92, 216),
    "purple": (132, 62, 178),
    "pink": (249, 150, 190),
    "white": (240, 240, 240),
}
"""Colour words and the RGB of a body of that colour, before a small change from scene to scene."""

SIZES: dict[str, int] = {"large": 16, "small": 10}
"""Size words and the radius (half the width), pixels."""

BACKGROUNDS: dict[str, tuple[str, ...]] = {
    "sky": ("in the sky", "among the clouds"),
    "night": ("at night", "under the stars"),
    "meadow": ("in a meadow", "on the grass"),
    "sea": ("at sea", "on the water"),
    "desert": ("in the desert", "on the sand"),
    "snow": ("in the snow", "in winter"),
    "room": ("in a room", "indoors"),
    "sunset": ("at sunset", "in the evening"),
}
"""Backgrounds and how captions say them; the first wording is the class name of prompts."""

INVERSE: dict[str, str] = {"above": "below", "below": "above", "left": "right", "right": "left"}
"""Relations of a first thing to a second, and what the second then is to the first."""

BY_NAME: dict[str, Kind] = {kind.name: kind for kind in KINDS}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(kind.group for kind in KINDS))


HELD_OUT: dict[str, str] = {
    kind.name: list(COLOURS)[(3 * row + row // 8) % len(COLOURS)] for row, kind in enumerate(KINDS)
}
"""The colour that training never shows a kind in: one for each, every colour in turn. Test scenes have them all."""
