"""get_config() files and command-line flags, as a user writes them."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from txjax.config import Config, ConfigError, Data, Labelled, Source, Text, difference, from_dict, to_dict
from txjax.config.flags import load, override, to_config_dict
from txjax.ops.positions import Alibi, Rope

SMALL = """
from txjax.config import Config, Model, Optim, Rope, Train

def get_config(size="32"):
    return Config(
        model=Model(width=int(size), num_layers=2, vocab_size=65, position=Rope(theta=5e5)),
        optim=Optim(learning_rate=3e-4),
        train=Train(steps=100),
    )
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "elsewhere" / "my_config.py"
    path.parent.mkdir()
    path.write_text(SMALL)
    return str(path)


def test_a_users_file_in_another_folder(file: str):
    config = load(file)
    assert (config.model.width, config.optim.learning_rate) == (32, 3e-4)
    assert config.model.position == Rope(theta=5e5)


def test_argument_after_a_colon(file: str):
    assert load(f"{file}:64").model.width == 64


@pytest.mark.bug("google/ml_collections#33")
@pytest.mark.parametrize(
    ("flag", "path", "value"),
    [
        ("model.width=64", "model.width", 64),
        ("train.steps=1e4", "train.steps", 10_000),
        ("model.num_layers=6.0", "model.num_layers", 6),
        ("optim.learning_rate=1", "optim.learning_rate", 1.0),
        ("optim.clip=none", "optim.clip", None),
        ("optim.clip=None", "optim.clip", None),
        ("train.patience=3", "train.patience", 3),
        ("model.attention.scale=none", "model.attention.scale", "none"),
        ("model.attention.scale=0.5", "model.attention.scale", 0.5),
        ("model.attention.scale=rsqrt", "model.attention.scale", "rsqrt"),
        ("model.attention.num_kv_heads=2", "model.attention.num_kv_heads", 2),
        ("model.unroll=all", "model.unroll", "all"),
        ("model.residual=0.5", "model.residual", 0.5),
        ("model.residual=off", "model.residual", "off"),
        ("model.embedding_norm=true", "model.embedding_norm", True),
        ("log.prompt=none", "log.prompt", "none"),
        ("log.prompt=12", "log.prompt", "12"),
        ("log.profile=(10,5)", "log.profile", (10, 5)),
    ],
)
def test_any_leaf_can_be_set(file: str, flag: str, path: str, value: object):
    config: object = load(file, [f"--config.{flag}"])
    for part in path.split("."):
        config = getattr(config, part)
    assert config == value and type(config) is type(value)


@pytest.mark.bug("huggingface/trl#6791", "google/automl#759", "brentyi/tyro#370")
def test_tuples_keep_the_types_of_their_entries(file: str):
    config = load(
        file, ["--config.optim.optimizer.adamw.betas=(0.9,0.99)", "--config.model.dropout_sites=('residual',)"]
    )
    assert config.optim.optimizer.betas == (0.9, 0.99)  # type: ignore[attr-defined]
    assert config.model.dropout_sites == ("residual",)
    with pytest.raises(ConfigError, match=r"betas must have 2 entries"):
        load(file, ["--config.optim.optimizer.adamw.betas=(0.9,0.99,1)"])
    with pytest.raises(ConfigError, match=r"betas\[1\] must be float"):
        load(file, ["--config.optim.optimizer.adamw.betas=(0.9,'x')"])


def test_a_layer_pattern_from_the_command_line(file: str):
    pattern = "[{'mixer': {'kind': 'attention', 'attention': {'window': 16}}}, {}]"
    config = load(file, [f"--config.model.pattern={pattern}"])
    local, whole = config.model.pattern
    assert config.model.mixer_of(local).window == 16  # type: ignore[attr-defined]
    assert config.model.mixer_of(whole).window is None  # type: ignore[attr-defined]


def test_kinds_by_a_bare_word(file: str):
    config = load(file, ["--config.model.position=alibi", "--config.model.norm=rms", "--config.model.mixer=none"])
    assert config.model.position == Alibi()
    assert (config.model.norm.kind, config.model.mixer.kind) == ("rms", "none")


def test_a_path_is_a_text_source(file: str):
    assert load(file, ["--config.data.source=/some/where.txt"]).data.source.name == "/some/where.txt"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("of_the_file", "asked", "then"),
    [
        (Text("mine.txt"), "python", Text("python")),
        (Text("mine.txt", field="body"), "text", Text("mine.txt", field="body")),
        (Labelled("trec", ends="none"), "sst2", Labelled("sst2", ends="none")),
    ],
)
def test_a_name_is_taken_though_it_is_the_default_one(of_the_file: Source, asked: str, then: Source):
    """And the name of a kind alone changes nothing of the file's own."""
    config = replace(Config(), data=Data(source=of_the_file))
    assert override(config, [f"--config.data.source={asked}"]).data.source == then


def test_flags_are_free_of_order(file: str):
    flags = ["--config.model.position.kind=rope", "--config.model.position.rope.theta=1e4"]
    flags += ["--config.model.position.rope.scaling.kind=yarn", "--config.model.position.rope.scaling.yarn.factor=8"]
    forward, backward = load(file, flags), load(file, flags[::-1])
    assert forward == backward
    assert forward.model.position.scaling.factor == 8.0  # type: ignore[attr-defined]


def test_a_replaced_kind_takes_its_fields_with_it(file: str):
    """The file's rope theta is not asked for any more once another kind is chosen."""
    assert load(file, ["--config.model.position.kind=learned"]).model.position.kind == "learned"


def test_value_as_a_word_of_its_own(file: str):
    assert load(file, ["--config.model.width", "64", "--config.train.steps", "7"]).train.steps == 7


@pytest.mark.bug("AI-Hypercomputer/maxtext#3428", "google/ml_collections#18")
def test_what_is_derived_follows_an_override(file: str):
    model = load(file, ["--config.model.width=96", "--config.model.attention.num_heads=3"]).model
    assert model.head_dim == 32
    assert model.feedforward.width(model.width) == 384  # type: ignore[attr-defined]


@pytest.mark.bug(
    "unslothai/unsloth#10452", "MakazhanAlpamys/Soup#627", "ROCm/aorta#247", "pfnet/pytorch-pfn-extras#302"
)
@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("model.num_layrs=3", "model.num_layrs is not a field, did you mean 'num_layers'?"),
        ("optimzer.lr=1", "optimzer is not a field, did you mean 'optim'?"),
        ("learning_rate=1", "learning_rate is not a field"),
        ("model.position.rop.theta=1", "model.position.rop is not a field, did you mean 'rope'?"),
        ("model.position=ropee", "model.position must be one of"),
        ("model.position.kind=ropee", "did you mean 'rope'?"),
        ("model.width=wide", "model.width must be int, got 'wide'"),
        ("model.width=64.5", "model.width must be int, got 64.5"),
        ("model.embedding_norm=maybe", "model.embedding_norm must be bool, got 'maybe'"),
        ("model.norm_placement=per", "did you mean 'pre'?"),
        ("model.dtype=float16", "model.dtype must be one of float32, bfloat16, got 'float16'"),
        ("model.attention.scale=sqrt", "model.attention.scale must be"),
        ("model.position.alibi.x=1", "model.position.alibi.x is not a field"),
        ("model.position.sinusoidal.base=10.0", "model.position.sinusoidal is set, but the kind chosen is 'rope'"),
        ("model.attention.num_heads=5", "model.attention.num_heads must divide width=32, got 5: try 4"),
        ("model.attention.num_kv_heads=3", "model.attention.num_kv_heads must divide num_heads=4, got 3"),
        ("train.accumulation=3", "train.accumulation must divide batch_size=16, got 3"),
        ("model.attention=3", "model.attention is a group of fields"),
        ("model.width", "model.width needs a value"),
        ("model.width.x=1", "model.width has no fields"),
    ],
)
def test_a_wrong_flag_is_one_sentence(file: str, flag: str, message: str):
    with pytest.raises(ConfigError) as error:
        load(file, [f"--config.{flag}"])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_context_past_the_position_table(file: str):
    with pytest.raises(ConfigError, match=r"data.context=256 runs past the model's position table of 128"):
        load(file, ["--config.model.position=learned", "--config.data.context=256"])
    assert load(file, ["--config.data.context=256"]).context == 256  # rope has no table


def test_a_missing_file_names_the_nearest(file: str):
    with pytest.raises(ConfigError, match=r"did you mean 'my_config.py'\?"):
        load(file.replace("my_config", "my_confg"))


@pytest.mark.parametrize("kind", ["ConfigDict", "dict"])
def test_get_config_may_return_a_dict(tmp_path: Path, kind: str):
    path = tmp_path / "view.py"
    make = "ml_collections.ConfigDict(d)" if kind == "ConfigDict" else "d"
    path.write_text(
        f"import ml_collections\ndef get_config():\n    d = {{'model': {{'width': 64}}}}\n    return {make}\n"
    )
    assert load(str(path), ["--config.train.steps=5"]) == override(
        Config(), ["--config.model.width=64", "--config.train.steps=5"]
    )
    path.write_text(path.read_text().replace("'width'", "'wdith'"))
    with pytest.raises(ConfigError, match=r"model.wdith is not a field, did you mean 'width'\?"):
        load(str(path))


def test_the_configdict_view_comes_back_unchanged(file: str):
    config = load(file)
    assert from_dict(Config, to_config_dict(config)) == config


def test_json_comes_back_unchanged_and_holds_only_chosen_kinds(file: str):
    config = load(file, ["--config.model.pattern=[{'mixer': 'attention'}, {'feedforward': 'none'}]"])
    text = json.dumps(to_dict(config))
    assert from_dict(Config, json.loads(text)) == config
    assert "sinusoidal" not in text


def test_difference_and_digest(file: str):
    a, b = load(file), load(file, ["--config.model.position.rope.theta=1e4"])
    assert difference(a, b) == {"model.position.rope.theta": (5e5, 1e4)}
    assert a.digest() == load(file).digest() != b.digest()


def test_a_kind_of_the_users_own(tmp_path: Path):
    """A class in the config file is a member of the family: by value, by name, and with its own flags."""
    path = tmp_path / "own.py"
    path.write_text(
        textwrap.dedent(
            """
            from dataclasses import dataclass
            from txjax.config import Config, Model
            from txjax.ops.positions import Position

            @dataclass(frozen=True)
            class Shifted(Position, kind="shifted_for_this_test"):
                by: int = 3

            def get_config():
                return Config(model=Model(position=Shifted(by=4)))
            """
        )
    )
    name = "shifted_for_this_test"
    assert load(str(path)).model.position.by == 4  # type: ignore[attr-defined]
    assert load(str(path), [f"--config.model.position.{name}.by=7"]).model.position.by == 7  # type: ignore[attr-defined]
    assert load(str(path), [f"--config.model.position={name}"]).model.position.by in (3, 4)  # type: ignore[attr-defined]
    Position = type(load(str(path)).model.position).__mro__[1]
    del Position._members[name]  # type: ignore[attr-defined]
