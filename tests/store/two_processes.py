"""One run of two processes over loopback: `two_processes.py FOLDER PORT INDEX`. Prints JSON of what it sees."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from txjax.config import Config, Train
from txjax.schema import ConfigError
from txjax.store import Run


def main(folder: Path, port: str, index: int) -> None:
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=index)
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("x"))

    def array(step: int) -> jax.Array:
        return jax.make_array_from_callback((8,), sharding, lambda at: (np.arange(8) + step)[at])

    with Run.open(folder, Config(), fingerprint=1) as run:
        print(json.dumps([str(run.folder), run.resumed]))
        with run.checkpoints(keep_last=1) as checkpoints, run.metrics(resume_step=None) as metrics:
            for step in range(1, 7):
                metrics.scalars(step, {"train/loss": step / 2})
                if step % 2 == 0:
                    metrics.flush()
                    progress = {"step": step}
                    checkpoints.save(
                        step, params={"w": array(step)}, opt_state=(), progress=progress, data={}, metric=step
                    )
            checkpoints.wait()
            restored = checkpoints.restore(2, params={"w": array(0)}, progress={"step": 0})
            values = [jax.device_get(shard.data).tolist() for shard in restored.params["w"].addressable_shards]
            right = values == [jax.device_get(shard.data).tolist() for shard in array(2).addressable_shards]
            print(json.dumps([checkpoints.steps(), restored.progress, right]))
    for again in (Config(train=Train(steps=3)), Config()):
        try:
            Run.open(folder, again, fingerprint=1 if again != Config() else 2)
        except ConfigError as error:
            print(json.dumps(str(error)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
