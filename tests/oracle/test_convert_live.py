"""`txjax convert` and `txjax generate` on models that transformers made, and its classes on what comes back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra oracle: make test-oracle")

import oracle_theirs as theirs
import torch
import transformers
from oracle_cases import CASES

from txjax.cli import main

pytestmark = pytest.mark.oracle
TOKENIZER = Path(__file__).parents[1] / "golden" / "tokenizer"
PROMPT = "the other day"


@pytest.mark.parametrize("name", ["llama3", "mixtral", "gpt_oss"])
def test_the_same_text_is_written_and_what_comes_back_is_the_same_model(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    case, folder, run, back = CASES[name], tmp_path / "theirs", tmp_path / "run", tmp_path / "back"
    theirs.make(case._replace(fields=case.fields | {"vocab_size": 283}), folder)
    shutil.copytree(TOKENIZER, folder, dirs_exist_ok=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = theirs.load(case, folder)
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    written = model.generate(ids, max_new_tokens=16, do_sample=False, eos_token_id=1)

    assert main(["convert", f"--from={folder}", f"--to={run}"]) == 0
    capsys.readouterr()
    assert main(["generate", f"--workdir={run}", f"--prompt={PROMPT}", "--tokens=16", "--temperature=0"]) == 0
    assert capsys.readouterr().out == tokenizer.decode(written[0], skip_special_tokens=True) + "\n"

    assert main(["convert", f"--from={run}", f"--to={back}", "--format=huggingface"]) == 0
    again = theirs.load(case, back)
    with torch.no_grad():
        assert torch.equal(again(written).logits, model(written).logits)
    assert transformers.AutoTokenizer.from_pretrained(back).encode(PROMPT) == ids[0].tolist()
