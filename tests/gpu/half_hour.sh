#!/usr/bin/env bash
# half_hour.sh 1|2|3|4: the first contact with a GPU, in four calls; docs/gpu-validation.md is the plan.
#
# For a machine with Python 3.12, PyTorch and JAX, and no network: what else is needed lies in .whl
# (`make gpu-wheels` fills it elsewhere). Each step runs under its own time limit and keeps its own log,
# and the next one runs whatever happened. All of it is packed into $OUT/callN.tar.gz after each step.
set -uo pipefail
call=${1:-}
case $call in 1 | 2 | 3 | 4) ;; *) echo "usage: half_hour.sh 1|2|3|4" >&2; exit 2 ;; esac
cd "$(dirname "$0")/../.."
OUT=${OUT:-/tmp/half_hour}
logs=$(mktemp -d)/call$call
mkdir -p "$OUT" "$logs"
python=${PYTHON:-python3}
programs=tests/gpu/programs
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD:/tmp/site TAUPY_STATE_DIR=$logs/state

pack() { tar -C "$(dirname "$logs")" --exclude=state -czf "$OUT/call$call.tar.gz" "call$call"; }

step() { # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 start=$SECONDS status
  shift 2
  echo "+ $*" >"$logs/$name.log"
  timeout -k 5 "$seconds" "$@" >>"$logs/$name.log" 2>&1
  status=$?
  printf '%-24s exit %3d  %4d s\n' "$name" "$status" $((SECONDS - start)) | tee -a "$logs/steps.txt"
  pack
}

taupy() { # NAME SECONDS OPTIONS... : one trial, in this call's database
  local name=$1 seconds=$2
  shift 2
  step "$name" "$seconds" "$python" -m taupy run --db "$logs/taupy.db" --trial "$name" "$@"
}

wheels=(.whl/*.whl)
[ ! -e "${wheels[0]}" ] && echo "no wheels in .whl (make gpu-wheels): what this Python has must do" ||
  step wheels 30 "$python" -m pip install -q --no-index --no-deps --no-compile --upgrade \
    --target /tmp/site "${wheels[@]}"
step build 120 env TAUPY_REQUIRE_NATIVE=1 "$python" setup.py -q build_ext --inplace

case $call in
1) # tracing, and fixtures that replay without a GPU
  step doctor 40 "$python" -m taupy doctor
  step nvidia-smi 20 nvidia-smi -q
  step record 90 "$python" tests/gpu/record.py "$logs/fixture"
  step tests 240 "$python" -m pytest -q -m gpu tests/gpu --ignore tests/gpu/test_sampling.py
  ;;
2) # counters, beside ncu
  taupy smoke 60 --metrics bytes_dram --gpu-launches 1 $programs/gemms.py
  taupy tensor 90 --metrics roofline-tensor --gpu-launches 1 $programs/gemms.py
  for caches in none all; do
    step "ncu-$caches" 90 ncu --csv --page raw --clock-control none --cache-control $caches \
      --metrics dram__bytes.sum,gpu__time_duration.sum,sm__ops_path_tensor_src_fp16.sum \
      "$python" $programs/gemms.py
  done
  taupy regions 60 --metrics bytes_dram --counters-at regions $programs/gemms.py
  taupy tau 90 --metrics tau --gpu-launches 1 $programs/torch_steps.py
  ;;
3) # what a launch costs, beside torch.profiler
  step cost 400 "$python" benchmarks/gpu_launches.py
  ;;
4) # the rest
  step sampling 90 "$python" -m pytest -q -m gpu tests/gpu/test_sampling.py
  taupy jax 60 --trace $programs/jax_steps.py
  for mode in exit _exit fork dataloader sigkill profiler; do
    taupy "ends-$mode" 30 --trace $programs/ends.py $mode
  done
  step ceilings 120 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0
  ;;
esac
"$python" $programs/gemms.py --expected >"$logs/expected.json" 2>/dev/null
pack
echo "packed: $OUT/call$call.tar.gz"
