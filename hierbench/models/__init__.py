"""Models: what they are called, where their weights come from, and whether an adapter keeps the contract."""
