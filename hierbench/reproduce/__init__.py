"""Papers' ablations in small: their rows trained on the built-in world, and what becomes of their claims there.

A study (`studies/*.yaml`) is data: rows to train, the figures that the paper prints, and what it claims of them.
"""
