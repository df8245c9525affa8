"""Datasets: manifests, readers of published layouts, images, downloads of checkpoints."""
