"""What a run is asked for, checked before any work starts: models and their names, tasks, datasets, device, options."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hierbench
from hierbench import registry, results, taxonomy
from hierbench.contracts import Dataset, ModelAdapter, Task
from hierbench.data.datasets import CaptionChoices
from hierbench.data.locate import Locations
from hierbench.data.manifests import PROTOCOLS, REGIMES, load_manifest, names_hash
from hierbench.data.readers import open_dataset
from hierbench.engine import contents, processes
from hierbench.engine.device import default_batch_size, resolve_device
from hierbench.errors import (
    DataError,
    HierbenchError,
    UnknownNameError,
    UsageError,
)
from hierbench.files import check_writable, safe_name
from hierbench.models.reference import ModelReference
from hierbench.progress import Progress, Quiet, choose
from hierbench.results import Record
from hierbench.taxonomy import edge_hash

if TYPE_CHECKING:
    from hierbench.engine.session import Session

DEFAULT_SUITE = "argent"
DTYPES = ("float32", "bfloat16", "float16")

Model = str | Path | tuple[str | Path | None, ...] | ModelReference | ModelAdapter
Files = str | Path | Sequence[str | Path] | None
Identity = tuple[str | None, str | None]  # a model's family and checkpoint hash, as far as they are known


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a run is made; every field is a keyword of `run` and `plan`."""

    batch_size: int | None = None  # images; None = by device
    dtype: str = "float32"  # arithmetic of the encoders: float32, bfloat16, float16
    limit: int | None = None  # at most so many items of each dataset
    workers: int | None = None  # processes that prepare images; None = by cores, 0 = none
    cache: bool = True  # keep embeddings between runs
    offline: bool = False  # no downloads
    protocol: str = "released"
    prompts: str = "default"
    force: bool = False  # repeat tasks whose results lie in `out` already, replace models of the same name
    compile: bool = False  # torch.compile the image encoder
    progress: Progress | bool | None = None  # bars; None = where stderr is a terminal
    adapter: Files = (
        None  # files of one's own, known to the whole process from then on: model families, in Python
    )
    manifest: Files = None  # datasets, in YAML
    task_file: Files = None  # tasks, in Python

    def __post_init__(self):
        for name, least in (("batch_size", 1), ("limit", 1), ("workers", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise UsageError(f"{name} is {value!r}: it must be an int")
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}: it must be at least {least}")
        for name in ("cache", "offline", "force", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is {getattr(self, name)!r}: it must be True or False")
        if not (self.progress is None or isinstance(self.progress, bool) or hasattr(self.progress, "bar")):
            raise UsageError(f"progress is {self.progress!r}: it must be True, False, None or have a `bar`")
        for name, known in (("dtype", DTYPES), ("protocol", PROTOCOLS), ("prompts", REGIMES)):
            if getattr(self, name) not in known:
                raise UsageError(f"no {name} {getattr(self, name)!r}: choose {', '.join(known)}")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Options:
        """From keywords; UsageError for one that does not exist."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise UsageError(f"no option {name!r} of run: choose {', '.join(known)}")
        return cls(**options)

    def register(self) -> None:
        """Make the caller's own files known to this process. Raises UsageError, DataError."""
        adapters, manifests, task_files = (
            [given] if isinstance(given, (str, Path)) else given or ()
            for given in (self.adapter, self.manifest, self.task_file)
        )
        registry.register(adapters, manifests, task_files)


@dataclass(frozen=True)
class Setup:
    """What is asked for, checked."""

    models: list[RunModel]
    tasks: list[Task]
    suite: str | None
    layout: str | None
    datasets: Datasets
    out: Path | None
    device: str
    options: Options
    progress: Progress
    previous: dict[tuple[str, str], Record]  # (model, task) -> what lies in `out` already

    @classmethod
    def of(
        cls,
        models: Model | Sequence[Model],
        tasks: Sequence[str | Task] | None = None,
        suite: str | None = None,
        data: Mapping[str, str | Path] | None = None,
        data_dir: str | Path | None = None,
        out: str | Path | None = None,
        device: str = "auto",
        *,
        write: bool,
        **options: Any,
    ) -> Setup:
        """Arguments as `runner.run` takes them. `write`: make `out` and see that it can be written.

        Raises UsageError, UnknownNameError, CheckpointError, DataError, OutputError.
        """
        helper = processes.rank() > 0
        chosen = Options.of(options)
        chosen.register()
        progress = Quiet() if helper else choose(chosen.progress)
        if tasks is not None and suite is not None:
            raise UsageError("tasks and a suite are both given: choose one")
        layout = None
        if tasks is None:
            suite = suite or DEFAULT_SUITE
            content = registry.suite(suite)
            tasks, layout = content["tasks"], content["layout"]
        asked = [registry.under(task, chosen.protocol) for task in dict.fromkeys(tasks)]
        if not asked:
            raise UsageError("no tasks: name at least one (`hierbench tasks` lists them)")
        datasets = Datasets(_locations(data, data_dir), chosen, progress)
        device = resolve_device(device)
        out = Path(out).expanduser() if out is not None and not helper else None
        previous = _previous(out)
        found = _models(models, previous.values(), offline=chosen.offline, force=chosen.force)
        if out is not None and write:
            check_writable(out)
            out.mkdir(parents=True, exist_ok=True)
        return cls(found, asked, suite, layout, datasets, out, device, chosen, progress, previous)

    @property
    def batch_size(self) -> int:
        return self.options.batch_size or default_batch_size(self.device)

    def session(self, model: RunModel) -> Session:
        """The model, loaded, as the run's protocol has it. Raises what its family's `load` raises."""
        from hierbench.engine.session import Session  # and with it torch

        options = self.options
        return Session.of(
            model.load(self.device, options),
            options.protocol,
            compile=options.compile,
            cache=options.cache,
            device=self.device_of(model),
            batch_size=self.batch_size,
            workers=options.workers,
            progress=self.progress,
        )

    def device_of(self, model: RunModel) -> str:
        """Where a model computes; an adapter object is where its owner put it."""
        return self.device if model.adapter is None else str(getattr(model.adapter, "device", "cpu"))

    def conditions(self, model: RunModel) -> dict[str, Any]:
        """What must not have changed for an earlier record to stand, besides checkpoint, task and data."""
        return {
            "dtype": self.options.dtype,
            "protocol": self.options.protocol,  # adapters may encode by it
            "device": self.device_of(model).partition(":")[0],
            "compile": self.options.compile,
            "hierbench": hierbench.__version__,
        }


# ------------------------------------------------------------------------------------------------- models


@dataclass
class RunModel:
    """A model of the run, perhaps not loaded yet."""

    name: str
    family: str | None  # None: the checkpoint's keys will tell
    chosen: bool  # the caller chose the name
    reference: ModelReference | None = None
    adapter: ModelAdapter | None = None  # given as an object
    offline: bool = False

    @classmethod
    def of(cls, model: Model, offline: bool) -> RunModel:
        """What is meant by an entry of `models`. Raises what `ModelReference.of` raises."""
        if not isinstance(model, (str, Path, tuple, ModelReference)) and hasattr(model, "encode_images"):
            return cls(model.card.name, model.card.family, True, adapter=model)
        found = ModelReference.of(model)  # type: ignore[arg-type]  # refuses whatever else it is given
        return cls(found.name, found.family, found.chosen, found, offline=offline)

    def load(self, device: str, options: Options) -> ModelAdapter:
        """The adapter, under this run's name for it. Raises what its family's `load` raises."""
        if self.adapter is not None:
            return self.adapter
        assert self.reference is not None  # one of the two is given
        return self.reference.load(device, options.dtype, options.offline, name=self.name)

    def sha256(self) -> str | None:
        """Checkpoint hash, as far as it can be told without loading the model."""
        if self.adapter is not None:
            return self.adapter.card.sha256
        return self.reference.sha256(self.offline) if self.reference else None


def _models(
    models: Model | Sequence[Model], previous: Iterable[Record], *, offline: bool, force: bool
) -> list[RunModel]:
    """The models, each with a name of its own in this run and in its folder."""
    given: Any = models
    if isinstance(given, (str, Path, tuple, ModelReference)) or hasattr(given, "card"):
        given = [given]
    found = [RunModel.of(model, offline) for model in given]
    if not found:
        raise UsageError("no models: name at least one (`hierbench models` lists them)")
    taken: dict[str, Identity] = {}
    for record in previous:
        if record.model not in taken or "checkpoint_sha256" in record.provenance:
            taken[record.model] = (record.family, record.provenance.get("checkpoint_sha256"))
    for model in found:
        _name(model, taken, force)
    folders = [safe_name(model.name).casefold() for model in found]
    for model, folder in zip(found, folders, strict=True):
        if folders.count(folder) > 1:
            raise UsageError(
                f"two models are called {model.name!r}: name each model once, or give a checkpoint another --name"
            )
    return found


def _name(model: RunModel, taken: dict[str, Identity], force: bool) -> None:
    """See to it that a name stands for one model: a default name gets family or hash added where necessary."""
    identity: Identity = (model.family, None)
    if model.name in taken:
        identity = family, sha256 = model.family, model.sha256()
        label = (sha256 or "")[:8]
        longer = [family] if family != taken[model.name][0] else []
        longer = [f"{model.name} ({addition})" for addition in (*longer, label, f"{family}, {label}")]
        for name in [model.name, *(longer if not model.chosen else ())]:
            if force or name not in taken or _same(taken[name], identity):
                model.name = name
                break
        else:
            raise UsageError(
                f"the output folder holds results of another model called {model.name!r}: choose another --name "
                "or --out, or --force to replace them"
            )
    taken[model.name] = identity


def _same(one: Identity, other: Identity) -> bool:
    """Whether these can be one model: what is not known of one fits anything."""
    return all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


# ----------------------------------------------------------------------------------------------- datasets


class Opened:
    """A dataset that tasks and models of the run share."""

    def __init__(self, dataset: Dataset, limit: int | None, progress: Progress):
        self.dataset, self.limit, self._progress = dataset, limit, progress
        self.contents: dict[str, bytes] = {}  # image id -> content id, as far as images were read

    @property
    def variant(self) -> str:
        """What sets the images apart from those of the protocol; "" = nothing."""
        return getattr(self.dataset, "variant", "")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over labels, captions and so on, and over the content of all images. Raises DataError."""
        images = self.dataset.images
        if not self.contents:
            self.contents.update(contents.remembered(images))
        known = len(self.contents)
        ids = contents.content_ids(self.dataset, images.ids, self.contents, self._progress)
        if len(self.contents) > known:
            contents.remember(images, self.contents)
        return hashlib.sha256(self.dataset.facts() + b"".join(ids)).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """That there are fewer images, or samples, than in the released split, where nobody asked for fewer."""
        try:
            counts = load_manifest(self.dataset.name).counts
        except UnknownNameError:  # a dataset that a caller made
            return ()
        whole, have, what = counts.images, len(self.dataset.images.ids), "images"
        if whole is None and isinstance(self.dataset, CaptionChoices):
            whole, have, what = counts.samples, len(self.dataset.sample_ids), "questions"
        few = self.limit is None and whole is not None and have < whole
        return (f"{have:,} of the split's {whole:,} {what}",) if few else ()

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says about its data: fingerprint, number of images, hashes of names and prompts."""
        found = {"dataset_fingerprint": self.fingerprint, "images": len(self.dataset.images.ids)}
        if hasattr(self.dataset, "class_names"):
            found["names_hash"] = names_hash(self.dataset.class_names)
        if hasattr(self.dataset, "templates"):
            found["prompts_hash"] = names_hash(self.dataset.templates)
        if tree := getattr(self.dataset, "taxonomy", None):  # a user's own may change under its name
            loaded = taxonomy.load(tree)
            found["taxonomy_hash"] = edge_hash(loaded.edges)
            if loaded.source:
                found["taxonomy_source"] = f"{loaded.source}; {loaded.licence}"
            own = {**loaded.names, **getattr(self.dataset, "node_names", {})}
            found["node_names_hash"] = names_hash(own.get(node, node) for node in loaded.nodes)
        return found


class Datasets:
    """The run's datasets, opened when first asked for; an error is remembered as well."""

    def __init__(self, locations: Locations, options: Options, progress: Progress):
        self._locations, self._options, self._progress = locations, options, progress
        self._opened: dict[str, Opened | HierbenchError] = {}

    def open(self, name: str) -> Opened:
        """Raises MissingDataError, DataError."""
        if name not in self._opened:
            try:
                self._opened[name] = self._open(name)
            except HierbenchError as error:
                self._opened[name] = error
        if isinstance(opened := self._opened[name], HierbenchError):
            raise opened.with_traceback(None)
        return opened

    def _open(self, name: str) -> Opened:
        options = self._options
        dataset = open_dataset(name, self._locations, protocol=options.protocol, prompts=options.prompts)
        if options.limit is None or not hasattr(dataset, "limited"):
            return Opened(dataset, None, self._progress)
        return Opened(dataset.limited(options.limit), options.limit, self._progress)


def _locations(data: Mapping[str, str | Path] | None, data_dir: str | Path | None) -> Locations:
    paths = {name: Path(path).expanduser() for name, path in (data or {}).items()}
    folder = Path(data_dir).expanduser() if data_dir is not None else None
    locations = Locations(paths, folder)  # refuses names that nobody registered
    for name, path in paths.items():
        if not path.exists():
            raise DataError(f"data of {name}: there is no {path}")
    if folder is not None and not folder.is_dir():
        raise DataError(f"data_dir: there is no folder {folder}")
    return locations


# --------------------------------------------------------------------------------- tasks, device, folder


def _previous(out: Path | None) -> dict[tuple[str, str], Record]:
    """Records of earlier runs into the same folder. Raises OutputError where one is damaged."""
    if out is None or not (out / "results").is_dir():
        return {}
    return {(record.model, record.task): record for record in results.read_results(out)}
