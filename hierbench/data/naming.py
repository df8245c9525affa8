"""Gives what a reader found its words: class names under a protocol, prompt templates, the tree over the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from hierbench.data.datasets import AnyDataset, Classification, MultiLabel
from hierbench.data.manifests import Manifest
from hierbench.taxonomy import Tree


@dataclass(frozen=True)
class Words:
    """What a manifest says about its classes under a protocol and a prompt regime."""

    class_names: tuple[str, ...]  # in label order; empty where the manifest has no classes
    templates: tuple[str, ...]
    taxonomy: Tree | None
    outside: tuple[str, ...]
    node_names: Mapping[str, str]

    @classmethod
    def of(cls, manifest: Manifest, protocol: str = "released", prompts: str = "default") -> Self:
        """Raises UsageError for an unknown protocol or prompt regime, whatever the kind of dataset."""
        return cls(
            manifest.class_names(protocol),
            manifest.prompts(prompts),
            manifest.taxonomy,
            manifest.outside,
            manifest.node_names,
        )

    def given_to(self, dataset: AnyDataset) -> AnyDataset:
        """The dataset as tasks read it. Without classes in the manifest, prompts say the dataset's class ids."""
        if isinstance(dataset, Classification):
            return replace(
                dataset,
                class_names=self.class_names,
                templates=self.templates,
                taxonomy=self.taxonomy,
                outside=self.outside,
                node_names=self.node_names,
            )
        if isinstance(dataset, MultiLabel):
            names = self.class_names or dataset.class_ids
            return replace(dataset, class_names=names, templates=self.templates)
        return dataset
