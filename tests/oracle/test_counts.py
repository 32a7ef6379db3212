"""Published sizes of encoders have as many parameters as transformers' own classes, which are made without values."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("transformers", reason="needs the extra oracle: make test-oracle")

import torch
import transformers

from txjax.config import Head
from txjax.interop import huggingface
from txjax.models import build, presets
from txjax.models.costs import count_parameters
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import PoolerHead
from txjax.nn.heads.replaced import Replaced

pytestmark = pytest.mark.oracle
CLASSES: list[tuple[str, str, Head]] = [
    *[(f"albert-{size}", "AlbertModel", PoolerHead()) for size in ("base", "large", "xlarge", "xxlarge")],
    ("albert-base", "AlbertForMaskedLM", Masked(activation="gelu_tanh")),
    ("albert-base", "AlbertForPreTraining", Masked(activation="gelu_tanh", next_sentence=True)),
    *[(f"electra-{size}", "ElectraModel", NoHead()) for size in ("small", "base", "large")],
    ("electra-small", "ElectraForMaskedLM", Masked()),
    ("electra-small", "ElectraForPreTraining", Replaced()),
    *[(f"modernbert-{size}", "ModernBertModel", NoHead()) for size in ("base", "large")],
    ("modernbert-base", "ModernBertForMaskedLM", Masked(bias=False)),
]


@pytest.mark.parametrize(("name", "theirs", "head"), CLASSES, ids=str)
def test_it_has_as_many_parameters_as_their_class(name: str, theirs: str, head: Head):
    model = replace(presets.named(name), head=head)
    config = huggingface.family_of(name.split("-")[0]).config(model)
    assert config["architectures"] == [theirs]
    with torch.device("meta"):
        made = getattr(transformers, theirs)(transformers.AutoConfig.for_model(**config))
    assert count_parameters(build(model).shapes()) == sum(p.numel() for p in made.parameters())
