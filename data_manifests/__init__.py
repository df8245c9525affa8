"""Dataset manifests, one YAML file per dataset; taxonomies/ holds the class trees."""

if __name__ != "hierbench.data_manifests":
    raise ImportError("import this folder as hierbench.data_manifests; under its bare name everything would register twice")
