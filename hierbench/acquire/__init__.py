"""Datasets onto this machine and out of it: downloading, unpacking, preparing, verifying, exporting."""
