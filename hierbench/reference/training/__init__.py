"""The training loop of the reference models: data, optimiser, checkpoints, logs."""
