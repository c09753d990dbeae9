#!/usr/bin/env bash
# Build PyCUDA's source distribution against NVIDIA's headers, for tests beside the played driver.
#
#   scripts/build_pycuda.sh PYTHON
#
# The headers come from NVIDIA's wheels, and libcuda is empty: neither a toolkit nor a GPU is needed.
# PyCUDA and what it needs go to build/pycuda/site-3.X, without CURAND and unoptimised (a minute).
set -euo pipefail

python="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
build="$PWD/build/pycuda"
site="$build/site-$version"
[ -e "$site" ] && exit 0

pip=("$python" -m pip install --disable-pip-version-check -q --upgrade)
mkdir -p "$build/home" "$build/lib"
"${pip[@]}" --no-deps --target "$build/headers" nvidia-cuda-runtime nvidia-cuda-crt \
  nvidia-cuda-profiler-api
echo | cc -shared -Wl,-soname,libcuda.so.1 -x c - -o "$build/lib/libcuda.so"
cat >"$build/home/.aksetup-defaults.py" <<END
CUDA_INC_DIR = ["$build/headers/nvidia/cu13/include"]
CUDADRV_LIB_DIR = CUDART_LIB_DIR = ["$build/lib"]
CUDART_LIBNAME = ["cuda"]
CUDA_ENABLE_CURAND = False
CXXFLAGS = ["-O0", "-w"]
LDFLAGS = ["-Wl,--no-as-needed", "-L$build/lib", "-lcuda"]  # or the linker drops what is empty
END
HOME="$build/home" "${pip[@]}" --no-cache-dir --no-binary pycuda --target "$site.part" pycuda
mv "$site.part" "$site"
