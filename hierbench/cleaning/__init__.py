"""Cleaning of HierarCaps: verify, embed, rerank, select; every decision on record (ARGENT §4)."""
