"""What a run leaves behind, and how it is found again: the run folder, its metrics and its checkpoints.

    run.Run                          FOLDER with config.json, run.json and a lock; makes the two below
    metrics.Metrics                  FOLDER/metrics.jsonl and FOLDER/tb/
    checkpoints.CheckpointWriter     FOLDER/checkpoints/STEP/; Checkpoints only reads them
    averaging.average                the mean of the parameters of the last checkpoints
    files                            whole files or none

Nothing here knows a model: it takes pytrees, dicts and numbers. `Run.checkpoints` and `Run.metrics` import what they
need when called, for orbax alone takes as long to import as jax.
"""

from txjax.store.files import StoreError
from txjax.store.run import Run

__all__ = ["Run", "StoreError"]
