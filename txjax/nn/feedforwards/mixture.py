"""A mixture of experts in place of the dense feed-forward network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen import spmd
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float

from txjax.config.model import Model
from txjax.config.parts import FeedForward, Role
from txjax.nn.context import Context, add_figure, add_loss, constrain, set_parameter, sow
from txjax.nn.feedforwards.dense import Dense, DenseModule
from txjax.nn.parameters import declare
from txjax.ops.activations import Activation
from txjax.ops.moe import dispatch, routing
from txjax.ops.moe.dispatch import Experts, Map
from txjax.ops.moe.routing import Routing
from txjax.schema import require


@dataclass(frozen=True)
class Mixture(FeedForward, kind="mixture"):
    """sum_k g_k expert_k(x) over the top_k of num_experts that a router chooses for each token, plus shared experts
    that all tokens use. Shazeer et al. 2017; ops/moe has the formulas and their sources.

    hidden, activation, bias: of each expert, as those of a dense feed-forward.
    num_shared: experts for every token; they are one dense network, num_shared times as wide.
    router_bias: added to the router's logits, and learned as its weights are.
    gate: g of the chosen experts: softmax over all experts' logits, softmax_chosen over the chosen ones', or sigmoid.
    renormalise: g divided by its sum. With one expert a token g is 1 then and the router learns nothing: refused.
    routed_scale: a factor on g.
    num_groups, top_groups, group_best: a token chooses among the experts of the top_groups groups whose group_best
        largest scores have the largest sum.
    dispatch: dropless: every choice counts. capacity: in training an expert takes capacity_factor times its even share
        of each sequence, earlier tokens first, and what is beyond adds nothing. Evaluation and decoding are dropless.
    balance, balance_over: weight of the loss that is 1 a token and layer where loads are even, of the batch's loads or
        of each sequence's. Over sequences it does not depend on how rows are batched.
    z_loss: weight of the mean of logsumexp(logits)^2.
    bias_speed: a bias on the scores, for the choice alone, moves by so much a step against the load's error; none:
        there is no bias, and 0: it stays.

    Padding goes to no expert and counts nowhere. Figures: largest_load over the mean load, dropped (the share of
    choices beyond the capacity), router_entropy in nats.
    """

    num_experts: int = 8
    top_k: int = 2
    hidden: int | None = None
    activation: Activation = "gelu_tanh"
    bias: bool = True
    router_bias: bool = False
    num_shared: int = 0
    gate: Literal["softmax", "softmax_chosen", "sigmoid"] = "softmax"
    renormalise: bool = True
    routed_scale: float = 1.0
    num_groups: int = 1
    top_groups: int = 1
    group_best: int = 2
    dispatch: Literal["dropless", "capacity"] = "dropless"
    capacity_factor: float = 1.25
    balance: float = 0.01
    balance_over: Literal["batch", "sequence"] = "batch"
    z_loss: float = 0.0
    bias_speed: float | None = None

    def check(self) -> None:
        self.expert.check()
        E, K, G = self.num_experts, self.top_k, self.num_groups
        require(E > 0, f"num_experts must be at least 1, got {E}")
        require(0 < K <= E, f"top_k must be from 1 to num_experts={E}, got {K}")
        constant = self.renormalise or self.gate == "softmax_chosen"
        require(
            K > 1 or E == 1 or not constant,
            "top_k=1 makes every weight 1 and teaches the router nothing with renormalise=true or "
            "gate=softmax_chosen: set renormalise=false and gate=softmax or sigmoid",
        )
        require(G > 0 and E % G == 0, f"num_groups must divide num_experts={E}, got {G}")
        require(0 < self.top_groups <= G, f"top_groups must be from 1 to num_groups={G}, got {self.top_groups}")
        require(
            G == 1 or 0 < self.group_best <= E // G,
            f"group_best must be from 1 to the {E // G} experts of a group, got {self.group_best}",
        )
        require(
            self.top_groups * E // G >= K,
            f"top_k={K} is more than the {self.top_groups * E // G} experts of top_groups={self.top_groups}: "
            "keep more groups",
        )
        require(self.num_shared >= 0, f"num_shared must not be negative, got {self.num_shared}")
        require(self.capacity_factor > 0, f"capacity_factor must be positive, got {self.capacity_factor}")
        for name in ("balance", "z_loss", "bias_speed"):
            value = getattr(self, name)
            require(value is None or value >= 0, f"{name} must not be negative, got {value}")

    @property
    def expert(self) -> Dense:
        """One expert as a feed-forward of its own."""
        return Dense(hidden=self.hidden, activation=self.activation, bias=self.bias)

    @property
    def groups(self) -> routing.Groups | None:
        kept = (self.num_groups, self.top_groups)
        return None if kept[0] == kept[1] else routing.Groups(*kept, self.group_best)

    def module(self, model: Model, name: str) -> MixtureModule:
        return MixtureModule(self, model, name=name)

    def idle(self, model: Model) -> int:
        D, F = model.width, self.expert.width(model.width)
        maps = 2 if self.expert.gated else 1
        an_expert = (maps + 1) * D * F + (maps * F + D if self.bias else 0)
        return (self.num_experts - self.top_k) * an_expert


class MixtureModule(nn.Module):
    mixture: Mixture
    model: Model

    @nn.compact
    def __call__(self, x_BTD: Float[Array, "B T D"], context: Context) -> Float[Array, "B T D"]:
        kind = self.mixture
        real_BT = jnp.ones(x_BTD.shape[:2], bool) if context.segments is None else context.segments > 0
        chosen = self.route(x_BTD, real_BT, context)
        apply = partial(dispatch.dropless, activation=kind.activation)
        dropped = jnp.zeros(())
        if kind.dispatch == "capacity" and context.train:
            apply = partial(dispatch.with_capacity, activation=kind.activation, factor=kind.capacity_factor)
            kept_BTK = dispatch.places(chosen.experts_BTK, real_BT, kind.num_experts, kind.capacity_factor).kept_BTK
            dropped = 1 - kept_BTK.sum() / jnp.maximum(kind.top_k * real_BT.sum(), 1)
        add_figure(self, "dropped", dropped)
        y_BTD = on_own_rows(apply, x_BTD, chosen, real_BT, self.experts())
        if kind.num_shared:
            hidden = kind.num_shared * kind.expert.width(self.model.width)
            shared = Dense(hidden=hidden, activation=kind.activation, bias=kind.bias)
            y_BTD = y_BTD + DenseModule(shared, self.model, name="shared")(x_BTD, context)
        return y_BTD

    def route(self, x_BTD: Array, real_BT: Bool[Array, "B T"], context: Context) -> Routing:
        """The router's choice, with the losses, the figures and the bias that come of it."""
        kind, E = self.mixture, self.mixture.num_experts
        logits_BTE = Router(self.model, E, kind.router_bias, name="router")(x_BTD, real_BT)
        bias_E = None
        if kind.bias_speed is not None:
            bias_E = jax.lax.stop_gradient(declare(self, "bias", (E,), ("experts",)))
        chosen = routing.route(
            logits_BTE,
            top_k=kind.top_k,
            gate=kind.gate,
            renormalise=kind.renormalise,
            scale=kind.routed_scale,
            groups=kind.groups,
            bias_E=bias_E,
        )
        sow(self, context, "router_logits", logits_BTE)
        sow(self, context, "chosen_experts", chosen.experts_BTK)
        if kind.balance:
            loss = routing.balance_loss(chosen, real_BT, kind.balance_over)
            add_loss(self, "balance_loss", kind.balance * loss)
        if kind.z_loss:
            add_loss(self, "z_loss", kind.z_loss * routing.z_loss(logits_BTE, real_BT))
        load_E = routing.loads(chosen.experts_BTK, real_BT, E).sum(0)
        if bias_E is not None and context.train:
            set_parameter(self, "bias", routing.balanced_bias(bias_E, load_E, kind.bias_speed or 0.0))
        add_figure(self, "largest_load", routing.largest_load(load_E))
        add_figure(self, "router_entropy", routing.entropy(chosen.shares_BTE, real_BT))
        return chosen

    def experts(self) -> Experts:
        D, F = self.model.width, self.mixture.expert.width(self.model.width)
        inward = self.map("in", (D, F), ("embed", "mlp"), "weight")
        gate = self.map("gate", (D, F), ("embed", "mlp"), "weight") if self.mixture.expert.gated else None
        return Experts(inward, gate, self.map("out", (F, D), ("mlp", "embed"), "residual"))

    def map(self, name: str, shape: tuple[int, int], axes: tuple[str, str], role: Role) -> Map:
        return ExpertMap(self.model, self.mixture.num_experts, shape, axes, role, self.mixture.bias, name=name)()


def on_own_rows(
    apply: Callable[..., Array], x_BTD: Array, chosen: Routing, real_BT: Array, experts: Experts
) -> Float[Array, "B T D"]:
    """apply(...), in which each device sorts the rows that it holds, and has its part of every expert's hidden width.

    Left to the partitioner, tokens sorted over the whole batch would be gathered on every device.
    """
    mesh = jax.sharding.get_abstract_mesh()
    (rows,), (split,) = (spmd.logical_to_mesh_axes((name,)) for name in ("batch", "mlp"))  # type: ignore[misc]
    F = experts.inward.w.shape[-1]
    if mesh.empty or x_BTD.shape[0] % _devices(mesh, rows) or F % _devices(mesh, split):
        return apply(x_BTD, chosen, real_BT, experts)

    def part(x_BTD: Array, chosen: Routing, real_BT: Array, experts: Experts) -> Array:
        if split is None:
            return apply(x_BTD, chosen, real_BT, experts)
        outward = experts.outward
        if outward.b is not None:  # it is added once, not by each of the devices that are summed over
            outward = outward._replace(b=jnp.where(jax.lax.axis_index(split) == 0, outward.b, 0.0))
        return jax.lax.psum(apply(x_BTD, chosen, real_BT, experts._replace(outward=outward)), split)

    def places(map: Map, *axes: Any) -> Map:
        return Map(PartitionSpec(None, *axes), None if map.b is None else PartitionSpec(None, axes[1]))  # type: ignore[arg-type]

    gate = None if experts.gate is None else places(experts.gate, None, split)
    of_experts = Experts(places(experts.inward, None, split), gate, places(experts.outward, split, None))
    of_rows = PartitionSpec(rows)
    return jax.shard_map(part, in_specs=(of_rows, of_rows, of_rows, of_experts), out_specs=of_rows)(
        x_BTD, chosen, real_BT, experts
    )


def _devices(mesh: Any, axes: Any) -> int:
    """How many devices an array's axis is split over."""
    names = (axes,) if isinstance(axes, str) else axes or ()
    return math.prod(mesh.shape[name] for name in names)


class Router(nn.Module):
    """x w + b, in float32 whatever the model's type: what is chosen must not depend on rounding more than it has to."""

    model: Model
    num_experts: int
    bias: bool

    @nn.compact
    def __call__(self, x_BTD: Array, real_BT: Bool[Array, "B T"]) -> Float[Array, "B T E"]:
        D, E = self.model.width, self.num_experts
        std = self.model.init.spread("weight", D, self.model.num_layers)
        w_DE = constrain(declare(self, "w", (D, E), ("embed", "experts"), std=std), "embed", "experts")  # gathered
        with jax.default_matmul_precision("highest"):
            logits_BTE = jnp.where(real_BT[..., None], x_BTD, 0.0).astype(jnp.float32) @ w_DE
        if self.bias:
            logits_BTE += declare(self, "b", (E,), ("experts",))
        return constrain(logits_BTE, "batch", "length", "experts")


class ExpertMap(nn.Module):
    """The parameters of one linear map of every expert; see nn/linear.py for role."""

    model: Model
    num_experts: int
    shape: tuple[int, int]
    axes: tuple[str, str]
    role: Role
    bias: bool

    @nn.compact
    def __call__(self) -> Map:
        E, (fan_in, fan_out) = self.num_experts, self.shape
        std = self.model.init.spread(self.role, fan_in, self.model.num_layers)
        w_EIO = declare(self, "w", (E, fan_in, fan_out), ("experts", *self.axes), std=std)
        return Map(w_EIO, declare(self, "b", (E, fan_out), ("experts", self.axes[1])) if self.bias else None)
