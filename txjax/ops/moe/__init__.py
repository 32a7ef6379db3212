"""Mixtures of experts: who goes where (`routing`), how experts are applied (`dispatch`), and the product that does it
where every choice counts (`ragged`).

Axis letters of both: B rows, T tokens of a row, D width, E experts, K choices of a token, F an expert's hidden width.
"""
