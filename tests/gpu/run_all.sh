#!/usr/bin/env bash
# Everything that needs a GPU in one call: tests, benchmarks, recordings. Usage: tests/gpu/run_all.sh OUTPUT_FOLDER
set -u
out=${1:?give a folder for logs and recordings}
mkdir -p "$out"
status=0
python3 -m pytest tests/gpu -m gpu -rP --durations=10 -p no:cacheprovider >"$out/tests.log" 2>&1 || status=1
grep -E "^(FAILED|ERROR|ZeroGPU|=+ .*(passed|failed))" "$out/tests.log"; tail -n 25 "$out/tests.log"
python3 -m tests.benchmarks.gpu_hold >"$out/gpu_hold.log" 2>&1 || status=1
cat "$out/gpu_hold.log"
python3 -m recordings.make_recordings "$out/recordings" >"$out/recordings.log" 2>&1 || status=1
tail -n 12 "$out/recordings.log"
exit $status
