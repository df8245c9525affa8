"""From models and tasks to results: encoding, the embedding store, processes, the run."""
