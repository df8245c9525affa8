"""Evaluation tasks, one file per protocol family; suites/ names sets of them."""

if __name__ != "hierbench.tasks":
    raise ImportError("import this folder as hierbench.tasks; under its bare name everything would register twice")
