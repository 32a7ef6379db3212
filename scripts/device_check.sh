#!/usr/bin/env bash
# What a single GPU is asked, in at most 8 minutes: tests that need one, the speed of GPT-2 small's train step with its MFU,
# populations against single runs, and the device tier of rnn_vs_transformer.
#
#   scripts/device_check.sh [OUT]        in an environment with `pip install -e .[cuda,dev]`; results go to OUT
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/device_check}
mkdir -p "$out"
failed=0

step() { # NAME SECONDS COMMAND...: run it for so long at most, keep what it says, and go on
    local name=$1 seconds=$2
    shift 2
    echo "== $name"
    if ! timeout "$seconds" "$@" >"$out/$name.log" 2>&1; then
        echo "   failed or out of time: see $out/$name.log"
        failed=1
    fi
    tail -n 5 "$out/$name.log"
}

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv >"$out/gpu.csv" 2>/dev/null || true
python -c 'import jax; d = jax.devices()[0]; print(d.device_kind, jax.__version__); assert d.platform != "cpu", "no GPU"' \
    | tee "$out/device.log" || exit 1

step tests 120 env JAX_PLATFORMS=cuda,cpu python -m pytest -q -m device
step gpt2_small 120 python -m txjax train --config=configs/gpt2_small.py --workdir="$out/gpt2_small" \
    --config.train.steps=60 --config.train.batch_size=16 --config.model.dtype=bfloat16 --config.log.sample_tokens=0 \
    --config.train.evaluate_every=none --config.train.checkpoint_every=none --config.data.source=python --config.log.every=20
grep -o '"train/mfu": [0-9.]*' "$out/gpt2_small/metrics.jsonl" 2>/dev/null | tail -n 1
step population 60 python benchmarks/population.py
step rnn_vs_transformer 170 python -m txjax ablate experiments/rnn_vs_transformer --tier=device --seeds=7 \
    --workdir="$out/rnn_vs_transformer"
exit $failed
