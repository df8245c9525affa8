"""Spaces that embeddings live in: pure tensor maths, no I/O. See `hierbench.contracts.Geometry`."""

from hierbench.geometry.flat import Flat
from hierbench.geometry.lorentz import Lorentz
from hierbench.geometry.product import Product, factors
from hierbench.geometry.sphere import Sphere

__all__ = ["Flat", "Lorentz", "Product", "Sphere", "factors"]
