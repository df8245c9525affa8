"""Looking into embeddings: radii by level, image-to-root traversals, HoroPCA, uncertainty, ambiguity."""
