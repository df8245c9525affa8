"""Model adapters, one file per model family; catalog.yaml names the released checkpoints."""

if __name__ != "hierbench.model_adapters":
    raise ImportError(
        "import this folder as hierbench.model_adapters; under its bare name everything would register twice"
    )
