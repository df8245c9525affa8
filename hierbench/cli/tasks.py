"""`hierbench tasks`: what can be measured."""

from __future__ import annotations

from dataclasses import asdict

from hierbench.cli._shared import print_json, print_listing, register
from hierbench.cli.options import Json, Manifest, TaskFile


def tasks(manifest: Manifest = None, task_file: TaskFile = None, as_json: Json = False) -> None:
    """Tasks and suites."""
    from hierbench import registry

    register(manifests=manifest, task_files=task_file)
    specs = [task.spec for task in registry.list_tasks()]
    suites = registry.suites()
    member = {
        spec.name: [name for name, suite in suites.items() if spec.name in suite["tasks"]] for spec in specs
    }
    if as_json:
        print_json(
            {"tasks": [asdict(spec) | {"suites": member[spec.name]} for spec in specs], "suites": suites}
        )
        return
    print("Tasks: hierbench run MODEL --task NAME\n")
    rows = [
        {
            "name": spec.name,
            "title": spec.title,
            "dataset": spec.dataset,
        }
        for spec in specs
    ]
    print_listing(rows, ["name", "title", "dataset"])
    print("\nSuites: hierbench run MODEL --suite NAME\n")
    rows = [
        {"name": name, "title": suite["title"], "tasks": ", ".join(suite["tasks"])}
        for name, suite in suites.items()
    ]
    print_listing(rows, ["name", "title", "tasks"])
