"""`txjax convert` and `txjax generate` on models that transformers made, and its classes on what comes back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra oracle: make test-oracle")

import oracle_theirs as theirs
import tokenizers
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


LINES = ["the other day", "a theatre", "to the words: one, two"]
LENGTH = 9  # of what is written, the end included, which comes by force at the latest
MARKS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
# how each puts marks around a source, and begins: BART with the end and then <s>, the others with padding, which Marian
# never writes though it is likely
BEGINNINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bart": ("<s> $A </s>", {"decoder_start_token_id": 1, "forced_bos_token_id": 0}),
    "marian": ("$A </s>", {"decoder_start_token_id": 2, "bad_words_ids": [[2]], "renormalize_logits": True}),
    "switch": ("$A </s>", {"decoder_start_token_id": 2}),
}


def made(name: str, folder: Path) -> Any:
    """A model with its tokenizer in a folder, as transformers has them."""
    frame, begins = BEGINNINGS[name]
    case = CASES[name]._replace(fields=CASES[name].fields | MARKS | {"vocab_size": 283})
    theirs.make(case, folder)
    if "bad_words_ids" in begins:
        model = theirs.load(case, folder)
        model.final_logits_bias[0, 2] = 20.0
        model.save_pretrained(folder)
    said = MARKS | begins | {"forced_eos_token_id": 1, "is_encoder_decoder": True}
    (folder / "generation_config.json").write_text(json.dumps(said))
    shutil.copytree(TOKENIZER, folder, dirs_exist_ok=True)
    engine = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    engine.no_truncation()
    ends = [("<s>", 0), ("</s>", 1)]
    engine.post_processor = tokenizers.processors.TemplateProcessing(single=frame, special_tokens=ends)
    engine.save(str(folder / "tokenizer.json"))
    return case


def written(case: Any, folder: Path) -> list[str]:
    """Greedily: among beams an end that comes by force costs nothing there, and here what any id costs."""
    tokenizer, model = transformers.AutoTokenizer.from_pretrained(folder), theirs.load(case, folder)
    source = tokenizer(LINES, return_tensors="pt", padding=True, return_token_type_ids=False)
    new = LENGTH + (model.generation_config.forced_bos_token_id is not None)
    ids = model.generate(**source, max_new_tokens=new, num_beams=1, do_sample=False)
    return tokenizer.batch_decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_the_same_translation_is_written_there_and_back(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder, run, back, lines = (tmp_path / part for part in ("theirs", "run", "back", "lines"))
    case = made(name, folder)
    want = written(case, folder)
    lines.write_text("\n".join(LINES) + "\n")

    assert main(["convert", f"--from={folder}", f"--to={run}"]) == 0
    capsys.readouterr()
    how = ["--beam=1", "--stop=full", "--ratio=0", f"--extra={LENGTH}"]
    assert main(["translate", f"--workdir={run}", f"--from={lines}", *how]) == 0
    assert capsys.readouterr().out.split("\n") == [text.replace("\n", " ") for text in want] + [""]

    assert main(["convert", f"--from={run}", f"--to={back}", "--format=huggingface"]) == 0
    assert written(case, back) == want
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (back / file).read_text() == (folder / file).read_text()
