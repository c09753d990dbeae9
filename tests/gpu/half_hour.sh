#!/usr/bin/env bash
# half_hour.sh 1|2|3|4: the first contact with a GPU, in four calls; docs/gpu-validation.md is the plan.
#
# For a machine with Python 3.12, PyTorch and JAX, and no network: what else is needed lies in .whl
# (`make gpu-wheels` fills it elsewhere). Each step runs under its own time limit and keeps its own log,
# and the next one runs whatever happened. All of it is packed into $OUT/callN.tar.gz after each step.
# The limits of a call come to less than ten minutes, those of all four to half an hour.
set -uo pipefail
call=${1:-}
case $call in 1 | 2 | 3 | 4) ;; *) echo "usage: half_hour.sh 1|2|3|4" >&2; exit 2 ;; esac
cd "$(dirname "$0")/../.."
OUT=${OUT:-/tmp/half_hour}
logs=$(mktemp -d)/call$call
mkdir -p "$OUT" "$logs"
python=${PYTHON:-python3}
programs=tests/gpu/programs
site=$PWD/build/half_hour
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD:$site TAUPY_STATE_DIR=$logs/state

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

expected() { step expected 30 "$python" tests/gpu/expected.py "$logs/taupy.db" "$@"; }

wheels=(.whl/*.whl)
[ ! -e "${wheels[0]}" ] && echo "no wheels in .whl (make gpu-wheels): what this Python has must do" ||
  step wheels 20 "$python" -m pip install -q --no-index --no-deps --no-compile --upgrade \
    --target "$site" "${wheels[@]}"
step build 60 env TAUPY_REQUIRE_NATIVE=1 "$python" setup.py -q build_ext --inplace

case $call in
1) # tracing, and fixtures that replay without a GPU
  step doctor 20 "$python" -m taupy doctor
  step nvidia-smi 10 nvidia-smi -q
  step record 60 "$python" tests/gpu/record.py "$logs/fixture"
  taupy copies 40 --trace $programs/gemms.py
  step tests 160 "$python" -m pytest -q -m gpu tests/gpu --ignore tests/gpu/test_sampling.py
  expected copies
  ;;
2) # counters, beside ncu; CUPTI's images replay without a GPU
  taupy smoke 40 --metrics bytes_dram --gpu-launches 1 $programs/gemms.py
  mkdir "$logs/images"
  TAUPY_GPU_SAVE=$logs/images \
    taupy tensor 90 --metrics roofline-tensor --gpu-launches 10 $programs/gemms.py
  expected tensor
  path=sm__ops_path_tensor_src
  op=sm__sass_thread_inst_executed_op
  for caches in none all; do
    step "ncu-$caches" 70 ncu --csv --page raw --clock-control none --cache-control $caches --metrics \
      "gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum,l1tex__t_bytes.sum,${path}_fp16.sum,${path}_bf16_dst_fp32.sum,${path}_tf32_dst_fp32.sum,${path}_fp8.sum,${path}_fp64.sum,${op}_fadd_pred_on.sum,${op}_fmul_pred_on.sum,${op}_ffma_pred_on.sum" \
      "$python" $programs/gemms.py
  done
  taupy regions 40 --metrics bytes_dram --counters-at regions $programs/gemms.py
  taupy tau 60 --metrics tau --gpu-launches 1 $programs/torch_steps.py
  ;;
3) # what a launch costs, beside torch.profiler
  step cost 220 "$python" benchmarks/gpu_launches.py
  ;;
4) # the rest
  step sampling 60 "$python" -m pytest -q -m gpu tests/gpu/test_sampling.py
  taupy jax 60 --trace $programs/jax_steps.py
  trials=(jax)
  for mode in exit _exit fork dataloader sigkill profiler; do
    taupy "ends-$mode" 25 --trace $programs/ends.py $mode
    trials+=("ends-$mode")
  done
  # A killed program's trial is stored by the next command.
  expected "${trials[@]}"
  step ceilings 75 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0
  ;;
esac
for program in gemms jax_steps; do
  "$python" $programs/$program.py --expected >"$logs/expected-$program.json" 2>/dev/null
done
pack
echo "packed: $OUT/call$call.tar.gz"
