"""How it is stored where documents and rows came from. The loader does not read it.

tokenized   provenance/documents-*.npy   piece, line and byte of each document
            provenance/pieces.json       source and first line of each piece
packed      provenance/rows-*.npy        pieces of documents, row by row
"""

from __future__ import annotations

import numpy as np

PIECES = "provenance/pieces.json"
DOCUMENT_ORIGIN = np.dtype([("piece", "<u4"), ("line", "<u4"), ("offset", "<i8")])
ROW_PIECE = np.dtype([("row", "<u4"), ("length", "<u4"), ("document", "<u8"), ("start", "<u8")])
