"""Dataset manifests: what each dataset is, its class names and prompts, and how to get it.

One YAML a dataset in `data_manifests/`, named after itself, validated with nothing extra allowed; a user's
own file is added with `register_manifest` (`--manifest FILE`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from hierbench import taxonomy
from hierbench.contracts import Fit
from hierbench.errors import DataError, HierbenchError, UsageError, first_fault
from hierbench.miniature.captions import BACKGROUND_TEMPLATES, COLOUR_TEMPLATES, THING_TEMPLATES
from hierbench.miniature.vocabulary import BACKGROUNDS, COLOURS, KINDS
from hierbench.names import lookup
from hierbench.taxonomy import Taxonomy
from hierbench.yaml_files import read_yaml

PROTOCOLS = ("released", "corrected")
"""`released` is what the released evaluators do, errors included; `corrected` mends them."""

REGIMES = ("default", "photo")
"""Prompts: the dataset's own templates, or `PHOTO` alone."""

PHOTO = "a photo of a {}."

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Template = Annotated[str, StringConstraints(max_length=1_000)]
Url = Annotated[str, StringConstraints(pattern=r"^(https?|ftp)://[^\s/]+/\S*$")]
Repo = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
Count = Annotated[int, Field(ge=0)]
Kind = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]

Reader = Literal[
    "imagefolder", "coco-captions", "hierarcaps", "miniature", "cifar", "stl10", "food101", "cub2011", "cars",
    "aircraft", "pets", "flowers102", "dtd", "caltech101", "eurosat", "resisc45", "sun397", "country211",
    "imagenet", "karpathy", "voc2007", "coco-objects", "labelled-folder", "sugarcrepe", "aro", "winoground",
]  # fmt: skip
"""Names of the datasets' official layouts, keys of `hierbench.data.readers.READERS`."""

Protocol = Literal[
    "zero-shot",
    "hierarchy",
    "levels",
    "retrieval",
    "multilabel",
    "pep-v2",
    "pep-uncleaned",
    "hierarcaps",
    "himo",
    "which-caption",
    "counterfactual",
]
"""What can be measured on a dataset: keys of the `PROTOCOLS` of the task files."""

CHAINS: tuple[Protocol, ...] = ("pep-v2", "pep-uncleaned", "hierarcaps", "himo", "counterfactual")

MEASURABLE: Mapping[str, tuple[Protocol, ...]] = {
    "coco-captions": ("retrieval", "counterfactual"),
    "karpathy": ("retrieval", "counterfactual"),
    "hierarcaps": CHAINS,
    "voc2007": ("multilabel",),
    "coco-objects": ("multilabel",),
    "labelled-folder": ("multilabel",),
    "sugarcrepe": ("which-caption",),
    "aro": ("which-caption",),
    "winoground": ("which-caption",),
    "miniature": ("zero-shot", "hierarchy", "levels", "retrieval", "multilabel", "which-caption", *CHAINS),
}
"""By reader, the protocols that its kind of dataset serves; other readers give images of one class each."""

WITHOUT_CLASSES = (
    "coco-captions", "karpathy", "hierarcaps", "miniature", "labelled-folder", "sugarcrepe", "aro", "winoground",
)  # fmt: skip
"""Readers whose manifest may name no classes: captions, or classes from code or from the label table."""


TABLED = ("coco-captions", "karpathy", "hierarcaps", "aro", "winoground")
"""Readers whose manifest names the file of captions."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Layout(_Strict):
    """Where things lie in the dataset's folder; of several places the first that exists is read."""

    images: tuple[Text, ...] = (".",)  # folders of images
    table: tuple[Text, ...] = ()  # files of captions or labels
    pool: Text | None = None  # the file of negative captions
    images_of: Text | None = None  # the dataset whose images serve where no such folder exists


class Counts(_Strict):
    """How many there are in the whole split."""

    images: Count | None = None
    captions: Count | None = None
    samples: Count | None = None
    per_class: Count | dict[str, Count] | None = None  # the same for every class, or by class id


class Download(_Strict):
    """One file to fetch. Only what is known for certain is filled in."""

    url: Url
    size: Annotated[int, Field(gt=0)] | None = None  # bytes
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")] | None = None
    md5: Annotated[str, StringConstraints(pattern="^[0-9a-f]{32}$")] | None = None


class Source(_Strict):
    """One way to the data: files to download and unpack, a repository of a hub, or a person's own work."""

    kind: Literal["url", "hub", "manual"]
    reader: Annotated[str, StringConstraints(pattern="^[a-z0-9-]+$")]  # key of READERS for what one then has
    files: tuple[
        Download, ...
    ] = ()  # all into one folder; of kind manual what to bring, url where it once was
    repo: Repo | None = None  # of kind hub: a dataset
    revision: Text | None = None  # by default the hub's newest at the first fetch, which is then pinned
    patterns: tuple[Text, ...] = ()  # files of the repository, by default all
    how: str = ""  # what to get and where to put it; what must be known of this source
    variant: str = ""  # if it cannot give the released split: what goes into the protocol's name instead

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        needed = {"url": "files", "hub": "repo", "manual": "how"}[self.kind]
        if not getattr(self, needed):
            raise ValueError(f"a source of kind {self.kind} needs {needed}")
        if self.kind == "hub" and self.files:
            raise ValueError("files: a source of kind hub has none, but patterns")
        if self.kind != "hub" and (self.repo or self.revision or self.patterns):
            raise ValueError(f"repo, revision, patterns: a source of kind {self.kind} has none")
        return self


class Manifest(_Strict):
    """One dataset. Raises pydantic's ValidationError; `load_manifest_file` turns it into one line."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    title: Text
    reader: Reader
    tasks: tuple[Protocol, ...] = Field(min_length=1)
    task_name: Annotated[str, StringConstraints(pattern=r"^([a-z0-9][a-z0-9._-]*)?$")] | None = None
    # ^ what names of tasks call it, as in zero-shot/NAME: by default `name`; "" = the protocol's name alone
    task_title: str | None = None  # what titles of tasks call it: by default `title`
    tags: tuple[Text, ...] = ()  # what suites choose by; `real`: photographs
    fit: Fit  # how the protocol brings images to a square
    split: str = ""
    licence: str = ""
    citation: str = ""
    homepage: str = ""
    obtain: str = ""  # what to do to get the data, one sentence
    sources: tuple[Source, ...] = ()  # ways to get it, the best first
    counts: Counts = Counts()  # of the released split
    layout: Layout = Layout()
    classes: dict[str, Text] = {}  # class id -> name in prompts, in label order
    miniature: Literal["kinds", "objects", "colours", "backgrounds"] | None = (
        None  # or: classes, templates from its code
    )
    corrected_names: dict[str, Text] = {}  # names that the corrected protocol puts in their place
    aliases: dict[str, str] = {}  # what else sources call a class -> class id
    kinds: tuple[Kind, ...] = ()  # of questions which caption fits: those with a figure of their own
    names_hash: str | None = None  # see `names_hash`
    templates: tuple[Template, ...] = Field(default=(), max_length=1_000)  # prompts, {} is the class name
    taxonomy: Text | dict[str, Any] | None = None
    # ^ tree over the classes: a stored one's name, a file beside the manifest (`hierbench.taxonomy.forms`), or nested
    outside: tuple[str, ...] = ()  # classes that the tree leaves out: figures on it stand on the others
    node_names: dict[str, Text] = {}  # what prompts call inner nodes of the tree, in place of its own names

    def names_of(self, protocol: str, what: str) -> tuple[str, str, str]:
        """What a protocol's task on this dataset begins with: name `zero-shot/NAME`, dataset, title `TITLE what`."""
        suffix = self.name if self.task_name is None else self.task_name
        title = self.title if self.task_title is None else self.task_title
        return (f"{protocol}/{suffix}" if suffix else protocol), self.name, f"{title} {what}".strip()

    @property
    def class_ids(self) -> tuple[str, ...]:
        """The dataset's own ids in label order; empty without classes."""
        return tuple(self.classes)

    def tree(self) -> Taxonomy:
        """The tree over the classes that it holds, in label order. Raises DataError where there is none."""
        if self.taxonomy is None:
            raise DataError(f"dataset {self.name} names no taxonomy: add `taxonomy:` to its manifest")
        out = set(self.outside)
        return taxonomy.load(self.taxonomy, tuple(key for key in self.classes if key not in out) or None)

    @property
    def by_hand(self) -> bool:
        """Whether no program can fetch it: a person has to bring it."""
        return all(source.kind == "manual" for source in self.sources)

    def class_names(self, protocol: str = "released") -> tuple[str, ...]:
        """Names in label order, as the released evaluators have them or with what `corrected` mends."""
        _one_of("protocol", protocol, PROTOCOLS)
        mended = self.corrected_names if protocol == "corrected" else {}
        return tuple(mended.get(class_id, name) for class_id, name in self.classes.items())

    def prompts(self, regime: str = "default") -> tuple[str, ...]:
        """Prompt templates, each with one {} for the class name."""
        _one_of("prompt regime", regime, REGIMES)
        return (PHOTO,) if regime == "photo" else self.templates

    def class_for(self, alias: str) -> str | None:
        """The class id that a source's own word for a class means, or None where no or no single class has it.

        Either the id itself or, with case, `_`, `-`, `/` and spaces taken as equal, an id, a corrected or a
        released name or one of `aliases`, in this order.
        """
        return alias if alias in self.classes else self._aliases.get(_plain(alias))

    @cached_property
    def _aliases(self) -> dict[str, str]:
        namings = (self.class_ids, self.class_names("corrected"), self.class_names())
        plain = [[_plain(word) for word in naming] for naming in namings]
        shared = {word for naming in plain for word, times in Counter(naming).items() if times > 1}
        aliases: dict[str, str] = {}
        for naming in plain:
            for class_id, word in zip(self.class_ids, naming, strict=True):
                if word not in shared:  # a word that two classes share tells neither
                    aliases.setdefault(word, class_id)
        return {_plain(word): class_id for word, class_id in self.aliases.items()} | aliases

    @model_validator(mode="before")
    @classmethod
    def _from_the_miniature(cls, fields: dict[str, Any]) -> dict[str, Any]:
        templates: tuple[str, ...]
        match fields.get("miniature"):
            case "kinds" | "objects":
                classes = {kind.synset: kind.name for kind in KINDS}
                templates = THING_TEMPLATES
            case "colours":
                classes = {colour: colour for colour in COLOURS}
                templates = COLOUR_TEMPLATES
            case "backgrounds":
                classes = {name: wordings[0] for name, wordings in BACKGROUNDS.items()}
                templates = BACKGROUND_TEMPLATES
            case _:
                return fields
        return {"classes": classes, "templates": templates, **fields}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for template in self.templates:
            if template.count("{}") != 1 or set("{}") & set(template.replace("{}", "")):
                raise ValueError(f"templates: {template!r} must hold {{}} once and no other brace")
        if stray := [key for key in self.corrected_names if key not in self.classes]:
            raise ValueError(f"corrected_names: {stray[0]} is not among the classes")
        if stray := [key for key in self.aliases.values() if key not in self.classes]:
            raise ValueError(f"aliases: {stray[0]} is not among the classes")
        if self.names_hash and names_hash(self.class_names()) != self.names_hash:
            raise ValueError(
                f"names_hash: the names hash to {names_hash(self.class_names())}, not {self.names_hash}: "
                "a name or the order was changed, so this is not the released protocol"
            )
        if self.reader not in WITHOUT_CLASSES and not (self.classes and self.templates):
            raise ValueError(f"classes, templates: the reader {self.reader} needs both")
        if self.reader == "labelled-folder" and not self.templates:
            raise ValueError("templates: the reader labelled-folder needs at least one")
        if self.reader in ("sugarcrepe", "winoground") and not self.kinds:
            raise ValueError(f"kinds: the reader {self.reader} needs the kinds of its questions")
        if self.reader in TABLED and not self.layout.table:
            raise ValueError(f"layout.table: the reader {self.reader} needs the name of the captions file")
        self._counts_add_up()
        fitting = MEASURABLE.get(self.reader, ("zero-shot", "hierarchy", "levels", "counterfactual"))
        if stray := [protocol for protocol in self.tasks if protocol not in fitting]:
            raise ValueError(
                f"tasks: {stray[0]} does not apply to the reader {self.reader}, but {', '.join(fitting)}"
            )
        self._tree_fits()
        return self

    def _tree_fits(self) -> None:
        if self.taxonomy is None:
            if asking := [protocol for protocol in ("hierarchy", "levels") if protocol in self.tasks]:
                raise ValueError(f"taxonomy: {asking[0]} needs a tree over the classes")
            return
        if stray := [key for key in self.outside if key not in self.classes]:
            raise ValueError(f"outside: {stray[0]} is not among the classes")
        try:
            tree = self.tree()
        except HierbenchError as error:
            raise ValueError(f"taxonomy: {error}") from error
        if held := [key for key in self.outside if key in tree.parent]:
            raise ValueError(f"outside: {held[0]} is a node of the tree")
        if stray := [node for node in self.node_names if node not in tree.parent or node in self.classes]:
            raise ValueError(f"node_names: {stray[0]} is no inner node of the tree")
        if "levels" in self.tasks:
            levels = taxonomy.Levels(tree)
            if not levels.depths:
                raise ValueError(
                    "taxonomy: levels needs a tree with inner nodes between its root and the classes"
                )
            if nameless := [node for node in levels.unnamed if node not in self.node_names]:
                raise ValueError(
                    f"taxonomy: {len(nameless)} inner nodes have no name that a prompt could say "
                    f"({', '.join(nameless[:3])}{', …' if len(nameless) > 3 else ''}): give them in the tree's third "
                    "column or under `node_names`"
                )

    def _counts_add_up(self) -> None:
        images, each = self.counts.images, self.counts.per_class
        if each is None:
            return
        if isinstance(each, int):
            each = dict.fromkeys(self.classes, each)
        if stray := sorted(each.keys() ^ self.classes.keys()):
            raise ValueError(f"counts.per_class: {stray[0]} is not both there and among the classes")
        if "zero-shot" in self.tasks and images is not None and sum(each.values()) != images:
            raise ValueError(f"counts.per_class: they add up to {sum(each.values())}, images says {images}")


def _plain(word: str) -> str:
    """A class's id or name without what sources write differently: case, `_`, `-`, `/`, spaces, Unicode form."""
    return " ".join(re.sub(r"[_/\s-]+", " ", unicodedata.normalize("NFC", word)).split()).lower()


def names_hash(names: Iterable[str]) -> str:
    """First 16 hex digits of SHA-256 over the names in label order joined by newlines."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def load_manifest(name: str) -> Manifest:
    """The manifest of a dataset, packaged or registered. Raises UnknownNameError with the nearest names."""
    return _read(lookup("dataset", name, _files()))


def dataset_names() -> set[str]:
    """The names of all datasets; no manifest is read."""
    return set(_files())


def registered_names() -> set[str]:
    """The names of a user's own datasets."""
    return set(_registered)


def all_manifests() -> dict[str, Manifest]:
    """Every dataset's manifest by name."""
    return {name: _read(path) for name, path in sorted(_files().items())}


def load_manifest_file(path: str | Path) -> Manifest:
    """A manifest from a YAML file; its `name` is by default the file's, a `taxonomy` file is beside it.

    Raises DataError: no such file, no YAML, or which field is wrong.
    """
    path = Path(path)
    fields = read_yaml(path, "manifest")
    if isinstance(tree := fields.get("taxonomy"), str) and tree.endswith(taxonomy.SUFFIXES):
        fields["taxonomy"] = str((path.parent / tree).resolve())
    try:
        return Manifest.model_validate({"name": path.stem, **fields})
    except ValidationError as error:
        raise DataError(f"manifest {path}: {_first(error)}") from error


def register_manifest(path: str | Path) -> Manifest:
    """Add a user's manifest for this process, or take up how it reads now. Raises DataError, also for a taken name."""
    manifest = load_manifest_file(path)
    path = Path(path).resolve()
    if _files().get(manifest.name, path) != path:
        raise DataError(f"manifest {path}: a dataset {manifest.name!r} exists already, give another name")
    if _registered.get(manifest.name) == path and _read(path) != manifest:
        _read.cache_clear()  # edited since, as in a notebook
    _registered[manifest.name] = path
    return manifest


_registered: dict[str, Path] = {}


def _files() -> Mapping[str, Path]:
    return _packaged() | _registered


@cache
def _packaged() -> dict[str, Path]:
    folder = Path(str(resources.files("hierbench.data_manifests")))
    return {path.stem: path for path in folder.glob("*.yaml")}


@cache
def _read(path: Path) -> Manifest:
    return load_manifest_file(path)


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, as `field.part: what`."""
    problem, *others = error.errors()
    where, what = first_fault(error)
    if problem["type"] == "extra_forbidden":
        what = "there is no such field"
    return (f"{where}: " if where else "") + what + (f" (and {len(others)} more)" if others else "")


def _one_of(kind: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"no {kind} {value!r}: it is {' or '.join(known)}")
