#!/usr/bin/env bash
# Everything that needs a GPU in one call: tests, benchmarks, recordings. Usage: tests/gpu/run_all.sh OUTPUT_FOLDER
# Tests that read clocks run alone; the others share the GPU, several processes at a time.
set -u
out=${1:?give a folder for logs and recordings}
mkdir -p "$out"
status=0
run() { # NAME PYTEST_ARGUMENTS…
  local name=$1
  shift
  PYTHONUNBUFFERED=1 python3 -m pytest -m gpu -rP --durations=5 -p no:cacheprovider "$@" >"$out/$name.log" 2>&1
}
run clocks tests/gpu/test_gpu_{tutorial,fusion,reports}.py || status=1
python3 -m tests.benchmarks.gpu_hold >"$out/gpu_hold.log" 2>&1 || status=1
python3 -m tests.benchmarks.paged_decode >"$out/paged_decode.log" 2>&1 || status=1
python3 -m recordings.make_recordings "$out/recordings" >"$out/recordings.log" 2>&1 || status=1
jobs=()
run combinations tests/gpu/test_gpu_combinations.py & jobs+=($!)
run rules tests/gpu/test_gpu_rules.py -k "3 or 4" & jobs+=($!)
run rules_more tests/gpu/test_gpu_rules.py -k "5 or 6" & jobs+=($!)
run compiled tests/gpu/test_gpu_compiled.py & jobs+=($!)
run paged tests/gpu/test_gpu_paged.py & jobs+=($!)
run flash_attn4 tests/gpu/test_gpu_flash_attn4.py & jobs+=($!)
run processes tests/gpu/test_gpu_{refusals,worker,zero}.py & jobs+=($!)
for job in "${jobs[@]}"; do wait "$job" || status=1; done
grep -hE "^(FAILED|ERROR|ZeroGPU|combinations|[0-9]+ workloads|=+ .*(passed|failed|skipped))" "$out"/*.log
cat "$out"/{gpu_hold,paged_decode}.log
tail -n 12 "$out/recordings.log"
exit $status
