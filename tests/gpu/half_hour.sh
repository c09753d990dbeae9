#!/usr/bin/env bash
# half_hour.sh --short 1|2: taupy on a GPU that is there for 15 minutes, in two calls.
# half_hour.sh 1|2|3|4: the same and more in half an hour, in four calls.
# half_hour.sh --pair h100|h200: the same training on two kinds of GPU, to be compared, and what is
# asked of one of them only; a call each. docs/gpu-validation.md is the plan of all.
#
# half_hour.sh --dry ...: the same steps with the training that the simulated driver plays
# (tests/fake_gpu), so that no slip costs minutes of a GPU.
#
# For a machine with Python 3.12, PyTorch and JAX, and no network: what else is needed lies in .whl
# (`make gpu-wheels` fills it elsewhere). Each step runs under its own time limit and keeps its own log,
# and the next one runs whatever happened. All of it is packed into $OUT/callN.tar.gz after each step,
# run folders that were not stored into $OUT/callN-state.tar.gz.* at the end, in parts below 15 MiB.
# The limits of a call come to less than ten minutes, those of both short ones to eleven, those of all
# four to half an hour, those of a pair to a quarter; they should take 280 and 200 seconds.
set -uo pipefail
dry= short=
[ "${1:-}" = --dry ] && { dry=1; shift; }
case ${1:-} in --short) short=short; shift ;; --pair) short=pair-; shift ;; esac
call=$short${1:-}
case $call in short1 | short2 | pair-h100 | pair-h200 | 1 | 2 | 3 | 4) ;; *)
  echo "usage: half_hour.sh [--dry] --short 1|2, --pair h100|h200, or 1|2|3|4" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/../.."
OUT=${OUT:-/tmp/half_hour}
logs=$(mktemp -d)/call$call
experiment=default # of a pair, the kind of GPU: trials of both have the same names
[ "${call#pair-}" = "$call" ] || experiment=${call#pair-}
mkdir -p "$OUT" "$logs"
python=${PYTHON:-python3}
programs=tests/gpu/programs
site=$PWD/build/half_hour
export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1 PYTHONPATH=$PWD:$site TAUPY_STATE_DIR=$logs/state
ulimit -c unlimited
cores=$(mktemp -d)
{ echo "$cores/core.%p" >/proc/sys/kernel/core_pattern; } 2>/dev/null

pack() {
  tar -C "$(dirname "$logs")" --exclude=state --exclude=core -czf "$OUT/call$call.tar.gz" "call$call"
}

# Where a step crashed or hung (it is aborted then), the native stacks of all threads.
stacks() { # NAME
  local core
  for core in "$cores"/core.*; do
    [ -e "$core" ] || continue
    timeout -k 2 30 cuda-gdb --batch -ex 'thread apply all bt' "$(command -v "$python")" "$core" \
      >>"$logs/$1.stacks" 2>&1
    rm -f "$core"
  done
}

step() { # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 start=$SECONDS status
  shift 2
  # Limits guard the minutes of a GPU; a dry run has none, and its machine may be busy.
  [ -z "$dry" ] || seconds=$((seconds * 10))
  echo "+ $*" >"$logs/$name.log"
  timeout -s ABRT -k 5 "$seconds" "$@" >>"$logs/$name.log" 2>&1
  status=$?
  stacks "$name"
  printf '%-24s exit %3d  %4d s\n' "$name" "$status" $((SECONDS - start)) | tee -a "$logs/steps.txt"
  pack
}

taupy() { # NAME SECONDS OPTIONS... : one trial, in this call's database
  local name=$1 seconds=$2
  shift 2
  step "$name" "$seconds" "$python" -m taupy run --db "$logs/taupy.db" --experiment "$experiment" \
    --trial "$name" "$@"
}

expected() { step "expected-$1" 10 "$python" tests/gpu/expected.py "$logs/taupy.db" "$@"; }

# The training of a pair, or what plays it; under torch.profiler; products; the small sizes are for
# the CPU.
two=$programs/two_gpus.py gemms=$programs/gemms.py small=
[ -n "$dry" ] && { two=tests/fake_gpu/two_gpus.py gemms=$two small=--small; }

beside() { # step or taupy ... : beside the next ones, until `wait`
  ("$@") &
}

wheels=(.whl/*.whl)
[ ! -e "${wheels[0]}" ] && echo "no wheels in .whl (make gpu-wheels): what this Python has must do" ||
  step wheels 10 "$python" -m pip install -q --no-index --no-deps --no-compile --upgrade \
    --target "$site" "${wheels[@]}"
case $call in pair-*) seconds=40 ;; *) seconds=60 ;; esac
step build $seconds env TAUPY_REQUIRE_NATIVE=1 "$python" setup.py -q build_ext --inplace

path=sm__ops_path_tensor_src
op=sm__sass_thread_inst_executed_op
ncu_metrics=gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum,l1tex__t_bytes.sum
ncu_metrics+=,${path}_fp16.sum,${path}_bf16_dst_fp32.sum,${path}_tf32_dst_fp32.sum,${path}_fp8.sum
ncu_metrics+=,${path}_fp64.sum,${op}_fadd_pred_on.sum,${op}_fmul_pred_on.sum,${op}_ffma_pred_on.sum

ncu() { # CACHES SECONDS [METRICS]
  step "ncu-$1${3:+-dram}" "$2" ncu --csv --page raw --clock-control none --cache-control "$1" \
    --metrics "${3:-$ncu_metrics}" "$python" $programs/gemms.py
}

# NVIDIA's cupti-python, in an environment of its own: .whl-cupti holds it, CUPTI and pyelftools.
cupti_python() { # SECONDS
  local own=$PWD/build/cupti_python
  [ -d .whl-cupti ] && "$python" -m pip install -q --no-index --no-deps --no-compile --upgrade \
    --target "$own" .whl-cupti/*.whl
  PYTHONPATH=$own:$PYTHONPATH taupy cupti-python "$1" --cupti-backend python $programs/cupy_axpy.py
}

not_root() { # SECONDS
  local home
  home=$(mktemp -d) && chmod 777 "$home"
  step not-root "$1" env HOME="$home" TAUPY_STATE_DIR="$home/state" setpriv --reuid=65534 \
    --regid=65534 --clear-groups "$python" -m taupy run --db "$home/taupy.db" $programs/contexts.py
  cp "$home/taupy.db" "$logs/not_root.db" 2>/dev/null
}

case $call in
short1) # what proves most
  step doctor 5 "$python" -m taupy doctor
  step nvidia-smi 5 nvidia-smi -q
  step record 35 "$python" tests/gpu/record.py "$logs/fixture"
  step kineto 15 "$python" $programs/torch_steps.py --kineto "$logs/trace.json"
  step compare 10 "$python" -m tests.gpu.comparison "$logs/fixture/recorded.db" "$logs/trace.json"
  taupy smoke 15 --metrics bytes_dram --gpu-launches 1 $programs/gemms.py
  taupy contexts 10 --trace $programs/contexts.py
  taupy pycuda 10 --trace examples/pycuda_axpy.py
  expected contexts pycuda
  mkdir "$logs/images"
  TAUPY_GPU_SAVE=$logs/images \
    taupy tensor 20 --metrics roofline-tensor --gpu-launches 10 $programs/gemms.py
  expected tensor
  ncu none 22
  ncu none 20 dram__bytes.sum # in one pass, as `smoke`
  step ceilings 30 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0
  ;;
short2) # how programs end; JAX
  taupy copies 15 --trace $programs/gemms.py
  trials=(copies jax)
  taupy jax 20 --trace $programs/jax_steps.py
  for mode in profiler exit fork sigkill; do
    taupy "ends-$mode" 12 --trace $programs/ends.py $mode
    trials+=("ends-$mode")
  done
  step trials 10 "$python" -m taupy trials --db "$logs/taupy.db" # stores the killed program's
  expected "${trials[@]}"
  step pycuda-ceilings 20 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0 --driver pycuda
  cupti_python 25
  not_root 10
  ;;
pair-*) # the same training on both kinds of GPU; what is asked of one only
  recorded=(--gpu --trace=gpu,host --operators)
  beside step setup-torch 90 "$python" -m taupy setup torch
  step ceilings 35 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0
  if [ "$call" = pair-h100 ]; then
    taupy nccl 15 --gpu $programs/nccl_rank.py
    counted=(--gpu --metrics flop_fp32 --gpu-launches 3)
    beside taupy first 20 "${counted[@]}" "$gemms"
    taupy second 20 "${counted[@]}" "$gemms"
    wait
    for pair in layouts_changed casts_around_layers; do
      step "$pair" 25 "$python" -m tests.gpu.pairs.try_pairs "$logs/pairs" $pair
    done
  fi
  wait
  taupy two_gpus 50 --gpu --operators --repeat 5 "$two"
  taupy two_gpus-trace 15 "${recorded[@]}" "$two"
  taupy two_gpus-no-pause 15 "${recorded[@]}" "$two" --no-pause
  step kineto 20 "$python" $programs/two_gpus.py $small --kineto "$logs/trace.json"
  taupy two_gpus-roofline 60 --gpu --metrics roofline,roofline-tensor --gpu-launches 2 --operators \
    "$two"
  step record 15 "$python" tests/gpu/record.py "$logs/record" --operators "$two"
  trials=(two_gpus-trace)
  if [ "$call" = pair-h100 ]; then
    taupy jax 20 --trace $programs/jax_steps.py
    XLA_FLAGS=--xla_gpu_autotune_level=0 taupy jax-no-autotuning 20 --trace $programs/jax_steps.py
    step jax-plain 15 "$python" $programs/jax_steps.py
    taupy without-operators 15 --gpu "$two" # what they cost, beside the five runs
    trials+=(nccl first second jax jax-no-autotuning)
  fi
  expected "${trials[@]}"
  ;;
1) # tracing, and fixtures that replay without a GPU
  step doctor 20 "$python" -m taupy doctor
  step nvidia-smi 10 nvidia-smi -q
  step setup-torch 60 "$python" -m taupy setup torch
  step record 60 "$python" tests/gpu/record.py "$logs/fixture"
  taupy copies 40 --trace $programs/gemms.py
  step tests 160 "$python" -m pytest -v -m gpu tests/gpu --ignore tests/gpu/test_sampling.py
  expected copies
  ;;
2) # counters, beside ncu; CUPTI's images replay without a GPU
  taupy smoke 40 --metrics bytes_dram --gpu-launches 1 $programs/gemms.py
  mkdir "$logs/images"
  TAUPY_GPU_SAVE=$logs/images \
    taupy tensor 90 --metrics roofline-tensor --gpu-launches 10 $programs/gemms.py
  expected tensor
  ncu none 70
  ncu none 40 dram__bytes.sum
  ncu all 50
  taupy regions 40 --metrics bytes_dram --counters-at regions $programs/gemms.py
  taupy tau 60 --metrics tau --gpu-launches 1 $programs/torch_steps.py
  ;;
3) # what a launch costs, beside torch.profiler
  step cost 220 "$python" benchmarks/gpu_launches.py
  ;;
4) # the rest
  step sampling 30 "$python" -m pytest -v -m gpu tests/gpu/test_sampling.py
  taupy jax 40 --trace $programs/jax_steps.py
  trials=(jax)
  for mode in exit _exit fork dataloader sigkill profiler; do
    taupy "ends-$mode" 25 --trace $programs/ends.py $mode
    trials+=("ends-$mode")
  done
  step trials 10 "$python" -m taupy trials --db "$logs/taupy.db" # stores the killed program's
  expected "${trials[@]}"
  step ceilings 50 "$python" -m taupy ceilings --db "$logs/taupy.db" --gpu 0
  cupti_python 40
  not_root 20
  ;;
esac
for program in gemms jax_steps two_gpus; do
  "$python" $programs/$program.py --expected >"$logs/expected-$program.json" 2>/dev/null
done
pack
[ -d "$logs/state" ] && tar -C "$logs" -cz state | split -b 15M - "$OUT/call$call-state.tar.gz."
[ "$(stat -c %s "$OUT/call$call.tar.gz")" -gt $((15 << 20)) ] &&
  split -b 15M "$OUT/call$call.tar.gz" "$OUT/call$call.tar.gz." && rm "$OUT/call$call.tar.gz"
echo "packed: $OUT/call$call.tar.gz"
