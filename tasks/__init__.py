"""Evaluation tasks, one file per protocol family; suites/ names sets of them."""

if __name__ != "hierbench.tasks":
    raise ImportError("import this folder as hierbench.tasks; its bare name would register everything twice")
