"""Datasets that grow, night after night: what comes in becomes a part, all parts a generation.

generations   a new generation of a dataset, published: its own file first, manifest.json last
"""
