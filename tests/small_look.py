"""Made-up readings with something of everything, for the tests of `txjax look`: no model runs for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from txjax.probe.layers import Part
from txjax.view.reading import Heads, Lens, Map, Reading

HOSTILE = "</script><script>document.title='owned'</script><!-- & \u2028"
TIRED = ["<cls>", "the", "animal", "did", "n't", "cross", "because", "it", "was", "too", "tired", "<sep>"]
ZH_TIRED, ZH_WIDE = (["<cls>", *"那只猫没过马路因为它太", last, "<sep>"] for last in "累宽")
WIDE = [*TIRED[:10], "wi", "de", "<sep>"]


def weights(heads: int, rows: int, columns: int, seed: int, causal: bool = False) -> np.ndarray:
    """Rows that sum to 1, of (N, T, S)."""
    raw = np.random.default_rng(seed).gamma(0.3, size=(heads, rows, columns)) + 1e-3
    raw = np.tril(raw) if causal else raw
    return raw / raw.sum(-1, keepdims=True)


def maps(layers: Sequence[int], heads: int, rows: int, columns: int, seed: int, causal: bool = False) -> list[Map]:
    return [Map(layer, weights(heads, rows, columns, seed + layer, causal)) for layer in layers]


def encoder(run: str, tokens: Sequence[str] = TIRED, *, layers: int = 6, heads: int = 12, seed: int = 0) -> Reading:
    """An encoder alone, which has no lens."""
    T, values = len(tokens), np.linspace(-0.1, 1, layers * heads).reshape(layers, heads)
    return Reading(
        run=run,
        text=" ".join(tokens[1:-1]),
        tokens=list(tokens),
        source=[],
        given=T,
        maps={"self": maps(range(layers), heads, T, T, seed)},
        heads=[Heads("knocked out", "self", tuple(range(layers)), values, "How much it matters.")],
        lens=None,
        missing=["No logit lens: made up."],
        own="encoder",
    )


def translator(run: str, *, written: int = 5, seed: int = 0) -> Reading:
    """A decoder over an encoder that has written some tokens; its second layer does not read the encoder."""
    tokens = ["<start>", *(f"w{i}" for i in range(written - 1)), HOSTILE]
    source = ["ein", "Hund", HOSTILE, "läuft", "狗", "<end>"]
    T, S = len(tokens), len(source)
    parts: dict[Part, list[Map]] = {
        "self": maps(range(2), 2, T, T, seed, causal=True),
        "cross": maps([0], 2, T, S, seed + 5),
        "encoder": maps(range(3), 2, S, S, seed + 9),
    }
    heads = [
        Heads(name, part, (0, 1), np.array([[0.1, -0.2], [0.3, 0.0]]), f"{name} {HOSTILE}")
        for part in ("self", "encoder")
        for name in ("importance", "knocked out")
    ]
    lens = Lens(tokens, [[f"{HOSTILE}{layer}"] * T for layer in range(3)], np.full((3, T), 0.25))
    return Reading(run, f"ein Hund {HOSTILE}", tokens, source, 1, parts, heads, lens, [], "decoder")


def aligned(run: str) -> Reading:
    """Of a recurrent translator, whose layers have one map to the source and none of their own."""
    return replace(translator(run), maps={"cross": maps([0], 1, 6, 6, seed=1)}, heads=[])
