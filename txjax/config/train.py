"""How long, in which batches, from which seed; what is kept and written on the way; over which devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from txjax.schema import Section, nearest, require

BestBy = Literal["loss", "accuracy"]


@dataclass(frozen=True)
class Train(Section):
    """steps count optimizer steps, whatever the accumulation.

    batch_size: sequences of one optimizer step, over all devices and all its micro-batches.
    accumulation: micro-batches that one step is computed in; values do not depend on it.
    data_stream: another number is another order of the data (a task's other examples) for the same initial weights.
    init_from: the folder of a run, or of converted weights, whose parameters this run starts with where path and shape
        agree, each layer with those of its number, so that either model may be the deeper; none: all start as
        model.init draws them.
    label_smoothing: share of the target's mass that is spread evenly over the whole vocabulary.
    loss_chunk: tokens whose logits are held at once, or none: all of them.
    non_finite: what a non-finite loss or gradient does: stop the run, or skip the step and count it.
    max_skips: skipped steps in a row after which the run stops all the same.
    evaluate_every, checkpoint_every: in steps; none: only at the end.
    best_by: what of validation the best checkpoint is chosen by, and patience goes by: the least val/loss, or the
        greatest val/accuracy, which may lie elsewhere where a classifier grows too sure.
    keep_last: checkpoints kept besides the best one.
    patience: evaluations without a better one after which the run stops, or none.
    """

    steps: int = 1000
    batch_size: int = 16
    accumulation: int = 1
    seed: int = 0
    data_stream: int = 0
    init_from: str | None = None
    label_smoothing: float = 0.0
    loss_chunk: int | None = None
    non_finite: Literal["stop", "skip"] = "stop"
    max_skips: int = 10
    evaluate_every: int | None = 250
    evaluate_batch_size: int | None = None
    checkpoint_every: int | None = 250
    best_by: BestBy = "loss"
    keep_last: int = 2
    patience: int | None = None

    def check(self) -> None:
        for name in ("steps", "batch_size", "accumulation", "max_skips", "keep_last"):
            require(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("loss_chunk", "evaluate_every", "evaluate_batch_size", "checkpoint_every", "patience"):
            value = getattr(self, name)
            require(value is None or value > 0, f"{name} must be at least 1 or none, got {value}")
        require(0 <= self.data_stream < 1 << 31, f"data_stream must be in [0, 2^31), got {self.data_stream}")
        require(0.0 <= self.label_smoothing < 1.0, f"label_smoothing must be in [0, 1), got {self.label_smoothing}")
        require(
            self.batch_size % self.accumulation == 0,
            f"accumulation must divide batch_size={self.batch_size}, got {self.accumulation}",
        )


MESH_AXES = ("data", "fsdp", "tensor")


@dataclass(frozen=True)
class Mesh(Section):
    """Devices by what they split: data the batch, fsdp the batch and the weights, tensor the weights and the work.

    One of the sizes may be -1: as many devices as are left. Rules map logical axis names to mesh axes.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1
    parameter_rules: tuple[tuple[str, str | None], ...] = (
        ("embed", "fsdp"),
        ("vocab", "tensor"),
        ("heads", "tensor"),
        ("kv_heads", "tensor"),
        ("mlp", "tensor"),
        ("experts", None),
        ("head_dim", None),
        ("state", None),
        ("gates", None),
        ("kernel", None),
        ("context", None),
        ("types", None),
        ("channels", None),
        ("rows", None),
        ("columns", None),
        ("classes", None),
        ("buckets", None),
        ("rank", None),
        ("layers", None),
    )
    activation_rules: tuple[tuple[str, str | None], ...] = (
        ("batch", "data+fsdp"),
        ("length", None),
        ("embed", None),
        ("heads", "tensor"),
        ("kv_heads", "tensor"),
        ("mlp", "tensor"),
        ("experts", None),
        ("vocab", "tensor"),
        ("head_dim", None),
        ("state", None),
        ("gates", None),
        ("rank", None),
    )

    def check(self) -> None:
        sizes = (self.data, self.fsdp, self.tensor)
        require(
            all(n > 0 or n == -1 for n in sizes) and sizes.count(-1) <= 1,
            f"data, fsdp and tensor must be at least 1, and one of them at most -1, got {sizes}",
        )
        for field in ("parameter_rules", "activation_rules"):
            for name, over in getattr(self, field):
                for axis in over.split("+") if over is not None else ():
                    require(
                        axis in MESH_AXES,
                        f"{field}: {name} must go to none, or to some of {', '.join(MESH_AXES)} joined by +, "
                        f"got {over!r}{nearest(axis, MESH_AXES)}",
                    )
        require(
            "batch" in dict(self.activation_rules),
            "activation_rules must say where batch goes: add ('batch', 'data+fsdp')",
        )


@dataclass(frozen=True)
class Log(Section):
    """What is written while training, in steps.

    every: scalars. samples: texts; none: at the start and with each evaluation, where they always are.
    prompt, sample_tokens, temperature: of the sample texts; 0 tokens: none are made.
    profile: first step of a profiler trace and the number of its steps, or none.
    peak_flops: of one device, for MFU; none: looked up, or measured on a CPU.
    probes: what is measured of each layer on one batch of validation, at the start, at the end and now and then: names
        of txjax.probe.training, such as gradient_norm or softmax_entropy.
    """

    every: int = 10
    samples: int | None = None
    prompt: str = ""
    sample_tokens: int = 200
    temperature: float = 0.8
    tensorboard: bool = True
    profile: tuple[int, int] | None = None
    peak_flops: float | None = None
    probes: tuple[str, ...] = ()

    def check(self) -> None:
        require(self.every > 0, f"every must be at least 1, got {self.every}")
        require(self.samples is None or self.samples > 0, f"samples must be at least 1 or none, got {self.samples}")
        require(self.sample_tokens >= 0, f"sample_tokens must not be negative, got {self.sample_tokens}")
        require(self.temperature >= 0, f"temperature must not be negative, got {self.temperature}")
        require(
            self.profile is None or min(self.profile) > 0,
            f"profile must be a first step and a number of steps, both at least 1, or none, got {self.profile}",
        )
