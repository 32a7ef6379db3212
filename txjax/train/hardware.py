"""What the machine can do at best."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

# dense bfloat16 products, FLOP/s of one device, from the vendors' data sheets
PEAKS = {
    "A100": 312e12, "H100": 989e12, "H200": 989e12, "B200": 2250e12,
    "TPU v4": 275e12, "TPU v5 lite": 197e12, "TPU v5": 459e12, "TPU v6 lite": 918e12,
}  # fmt: skip
SIDE = 1024  # of the matrices of the product


@functools.cache
def peak_flops(measure: bool = True) -> float | None:
    """FLOP/s of one device: from the data sheet, or on a CPU the speed of a large float32 product, measured now."""
    device = jax.devices()[0]
    for name, peak in sorted(PEAKS.items(), key=lambda item: -len(item[0])):
        if name.lower() in device.device_kind.lower():
            return peak
    if device.platform != "cpu" or not measure:
        return None
    return product_flops() / jax.local_device_count()


def product_flops(times: int = 5) -> float:
    """FLOP/s of the fastest of a few products of two square float32 matrices, now, with the first device's cores."""
    product, x = _product()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        product(x, x).block_until_ready()
        seconds.append(time.perf_counter() - start)
    return 2 * SIDE**3 / min(seconds)


@functools.cache
def _product() -> tuple[Callable[..., jax.Array], jax.Array]:
    x = jnp.ones((SIDE, SIDE), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(x, x).block_until_ready()
    return product, x


def memory_in_use() -> int | None:
    """Largest number of bytes that the devices of this process have held, or, on a CPU, that the process has."""
    stats = [d.memory_stats() for d in jax.local_devices() if d.platform != "cpu"]
    if stats:
        return max((s or {}).get("peak_bytes_in_use", 0) for s in stats)
    try:
        import resource
    except ImportError:  # not a Unix
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
