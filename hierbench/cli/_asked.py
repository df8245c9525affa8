"""What every analysis is asked for: whose embeddings of which dataset, how they are made, in which form it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierbench.cli._shared import locations, register
from hierbench.cli.options import Dtype, Protocol, form_option, out_option
from hierbench.errors import UsageError

if TYPE_CHECKING:
    from hierbench.analysis.groups import Embedded
    from hierbench.engine.session import Session


class Form(StrEnum):
    """How pictures are written: the forms of `hierbench.analysis.style`."""

    png = "png"
    pdf = "pdf"
    svg = "svg"


Form_ = Annotated[Form, form_option("png, pdf, svg")]
Several = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL", help="Names, FAMILY:CHECKPOINT, or checkpoint files; several are drawn side by side."
    ),
]
Out = Annotated[Path | None, out_option("runs/TIME-analyze")]
Dataset = Annotated[str, typer.Option(metavar="NAME", help="Whose captions and images.")]

DATASET = "miniature-chains"


@dataclass(frozen=True)
class Asked:
    """The options that every analysis has: whose embeddings, and how they are made."""

    dataset: str
    data: list[str] | None
    data_dir: Path | None
    manifest: list[Path] | None
    adapter: list[Path] | None
    limit: int | None
    device: str
    protocol: Protocol
    dtype: Dtype
    batch_size: int | None
    workers: int | None
    no_cache: bool
    offline: bool

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> Asked:
        """From a command's arguments; its `out` is tried, as the work may take long. Raises OutputError."""
        from hierbench.files import check_writable

        check_writable((arguments["out"] or Path("runs")).expanduser())
        return cls(**{field.name: arguments[field.name] for field in fields(cls)})

    def open(self) -> Any:
        """The dataset, or its first part; the user's own files are known from here on."""
        from hierbench.data.readers import open_dataset

        register(self.adapter, self.manifest)
        where = locations(self.data, self.data_dir)
        opened = open_dataset(self.dataset, where, protocol=self.protocol.value)
        return opened if self.limit is None else opened.limited(self.limit)

    def to_read_otherwise(self, name: str) -> tuple[Any, Any]:
        """A dataset, opened, and its task `counterfactual/…`. Raises UsageError where it has none."""
        from hierbench import registry
        from hierbench.data.manifests import load_manifest

        opened = replace(self, dataset=name).open()
        if "counterfactual" not in load_manifest(name).tasks:
            raise UsageError(
                f"--on {name}: it has neither levels nor a task that can be read with other radii; its manifest would "
                "name counterfactual in `tasks`"
            )
        return opened, registry.under(f"counterfactual/{name}", self.protocol.value)

    def scored(self, models: Sequence[str], kinds: Sequence[str], what: str) -> dict[str, tuple[Any, Any]]:
        """Model -> (task, its scores): of the first of some protocols that the dataset has. Raises UsageError."""
        from hierbench import registry
        from hierbench.analysis.entailment import applicable
        from hierbench.data.manifests import all_manifests, load_manifest

        opened = self.open()
        manifest = load_manifest(self.dataset)
        kind = next((kind for kind in kinds if kind in manifest.tasks), None)
        if kind is None:
            others = [name for name, one in all_manifests().items() if set(kinds) & set(one.tasks)]
            raise UsageError(f"--dataset {self.dataset} has no {what}: choose {', '.join(sorted(others))}")
        tasks = [registry.under(task, self.protocol.value) for task in registry.protocols()[kind](manifest)]
        found = {}
        for model in dict.fromkeys(models):
            session = self.session(model)
            task = applicable(tasks, session.geometry, model)
            embeddings = session.embed(opened, task.requests(opened), task.spec.fit)
            found[model] = task, task.score(session.geometry, embeddings, opened)
        return found

    def tree(self) -> Any:
        """The tree of the dataset's classes. Raises DataError where there is none."""
        from hierbench.data.manifests import load_manifest

        return load_manifest(self.dataset).tree()

    def several(self, models: Sequence[str], opened: Any) -> dict[str, Embedded]:
        """A dataset's embeddings under each of several models, each named once."""
        return {model: self.embedded(model, opened) for model in dict.fromkeys(models)}

    def embedded(self, model: str, opened: Any) -> Embedded:
        """A dataset's embeddings under a model, as the protocol has it."""
        from hierbench.analysis.groups import gather
        from hierbench.data.manifests import load_manifest

        return gather(self.session(model), opened, load_manifest(self.dataset).fit)

    def session(self, model: str) -> Session:
        """A model as the protocol has it, ready to embed."""
        from hierbench.engine.session import Session
        from hierbench.progress import choose

        return Session.open(
            model,
            protocol=self.protocol.value,
            device=self.device,
            dtype=self.dtype.to_measure,
            offline=self.offline,
            cache=not self.no_cache,
            batch_size=self.batch_size,
            workers=self.workers,
            progress=choose(),
        )
