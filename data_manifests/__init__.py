"""Dataset manifests, one YAML file per dataset; taxonomies/ holds the class trees."""

if __name__ != "hierbench.data_manifests":
    raise ImportError(
        "import this folder as hierbench.data_manifests; its bare name would register everything twice"
    )
