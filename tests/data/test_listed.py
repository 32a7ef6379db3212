"""A vocabulary that is given: ids are places, text makes no mark, and a list that cannot be is refused."""

from __future__ import annotations

from typing import Any

import pytest

from txjax.data.tokenizers.listed import Listed
from txjax.schema import ConfigError, from_dict, to_dict

SYMBOLS = ("<pad>", "<unk>", "<s>", "</s>", "AH0", "B", "K")
MARKS = {"begin": "<s>", "end": "</s>", "pad": "<pad>", "unknown": "<unk>"}
WORDS = Listed(SYMBOLS, **MARKS)


def test_an_id_is_a_place_in_the_list_whatever_the_text():
    codec = WORDS.build(["Q Q Q"])
    assert codec.encode(" B  AH0 K\n").tolist() == [5, 4, 6]
    assert codec.decode([2, 5, 4, 6]) == "<s>B AH0 K"
    assert (codec.start, codec.end, codec.specials) == ((2,), 3, {"pad": 0})
    assert codec.is_text.tolist() == [False, True, False, False, True, True, True]
    assert codec.byte_lengths()[codec.encode("B AH0 K")].sum() == len("B AH0 K ")
    assert to_dict(from_dict(Listed, to_dict(WORDS)["listed"])) == to_dict(WORDS)  # as a run's config.json keeps it


def test_what_is_not_in_the_list_and_the_names_of_marks_are_unknown():
    codec = WORDS.build([])
    assert codec.encode("B <s> </s> <pad> Q <unk>").tolist() == [5, 1, 1, 1, 1, 1]
    strict = Listed(("aa", "ab", "</s>"), end="</s>").build([])
    with pytest.raises(ConfigError, match=r"'abb' is not among the 2 symbols of the vocabulary, .* did you mean 'ab'"):
        strict.encode("aa abb")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"symbols": (*SYMBOLS, "B", "K")}, "symbols must differ from one another, got more than once: B, K"),
        ({"end": "</S>"}, "end='</S>' must be one of symbols, did you mean '</s>'"),
        ({"between": "nothing"}, "between=nothing needs symbols of one character, got AH0: use space"),
        ({"between": "dash"}, "between must be one of space, nothing, got 'dash'"),
    ],
)
def test_a_list_that_cannot_be_is_refused(change: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        Listed(**{"symbols": SYMBOLS, **MARKS} | change)


def test_no_list_is_refused():
    with pytest.raises(ConfigError, match=r"data.tokenizer.listed.symbols is empty"):
        Listed().build(["text"])
