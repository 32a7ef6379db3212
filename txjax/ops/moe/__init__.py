"""Mixtures of experts: who goes where (`routing`), and how experts are applied (`dispatch`).

Axis letters of both: B rows, T tokens of a row, D width, E experts, K choices of a token, F an expert's hidden width.
"""
