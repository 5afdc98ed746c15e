#!/usr/bin/env bash
# Measure this package on a machine with a GPU and no network: bash benchmarks/gpu/run.sh [--small] [stage ...]
# Run any command there: bash benchmarks/gpu/run.sh exec COMMAND ...
#
# This installs the packages from benchmarks/gpu/pack.sh into a new virtual environment on top of the machine's own
# packages, compiles the kernels, runs the stages in order, and prints a table. Everything ends within BUDGET seconds.
#
#   correct  drivers and versions; pytest -m gpu with a stress test of 100,000 batches; the tests of all renderers
#   speed    Warp, OpenGL and Embree alone, up to 16,384 views, depth at 64 x 64 and RGB at 128 x 128, and their memory;
#            whole steps of 4,096 agents, in one batch and in two halves that overlap; training of a small policy and
#            the paper's
#   peer     depth of a house beside MuJoCo Warp
#
#   --small  few agents and short times, to test the kit itself; works without a GPU
#
# Variables, with defaults in parentheses:
#   OUT      folder for the results (out/gpu): results.jsonl, written line by line; table.txt; log.txt
#   KIT      folder that pack.sh has made (.gpu-kit)
#   WORK     folder for the virtual environment, caches and unpacked files (a new temporary folder); what an earlier
#            call has installed in it is used again
#   PYTHON   Python with torch (python3)
#   BUDGET   time limit in seconds, including the installation (570)
#   DATA     folder of the shared scenes, used if the kit does not contain them (../shared)
set -euo pipefail
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set -/s/^# \{0,1\}//p' "$0"; exit ;; esac
started=$SECONDS
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
kit=${KIT:-$root/.gpu-kit}
work=${WORK:-$(mktemp -d)}
python=${PYTHON:-python3}
export OUT=${OUT:-$root/out/gpu} PYTHONUNBUFFERED=1
mkdir -p "$OUT" "$work"
if [ ! -f "$kit/wheels.tar.xz" ] && [ ! -f "$work/wheels.tar.xz.done" ]; then
  echo "error: no $kit/wheels.tar.xz: run bash benchmarks/gpu/pack.sh where there is a network"
  exit 2
fi

unpack() {  # unpack ARCHIVE FOLDER; with Python's tarfile, as xz may not be installed
  mkdir -p "$2"
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="data")' "$1" "$2"
}

new() { [ -f "$kit/$1" ] && [ ! -f "$work/$1.done" ] && touch "$work/$1.done"; }
[ -d "$work/venv" ] || "$python" -m venv --without-pip --system-site-packages "$work/venv"
site=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# If $python belongs to a virtual environment, --system-site-packages does not include its packages: add them.
"$python" -c 'import site; [print(f"import site; site.addsitedir({path!r})") for path in site.getsitepackages()]' \
  > "$site/machine.pth"
for list in wheels peers; do
  if new $list.tar.xz; then
    echo "== installing $list into $work"
    unpack "$kit/$list.tar.xz" "$work"
    "$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --no-cache-dir \
      --target "$site" "$work/$list"/*.whl
  fi
done
if new warp.tar.xz.00 && ! "$work/venv/bin/python" -c 'import warp' 2> /dev/null; then
  echo "== installing Warp into $work"
  cat "$kit"/warp.tar.xz.[0-9][0-9] > "$work/warp.tar.xz"
  unpack "$work/warp.tar.xz" "$site"
fi
if new scenes.tar.xz; then unpack "$kit/scenes.tar.xz" "$work/shared"; fi
if new loaders.tar.xz; then unpack "$kit/loaders.tar.xz" "$work/loaders"; fi
if [ -d "$work/shared" ]; then
  export GYM_BATCHNAV_TEST_DATA=$work/shared
else
  export GYM_BATCHNAV_TEST_DATA=${DATA:-$root/../shared}
fi
if [ -d "$work/loaders" ] && ! "$python" -c 'import ctypes; ctypes.CDLL("libEGL.so.1")' 2> /dev/null; then
  echo "   libEGL was not found: using the loaders in the kit"
  export LD_LIBRARY_PATH=$work/loaders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export GLCONTEXT_LINUX_LIBEGL=libEGL.so.1 GLCONTEXT_LINUX_LIBGL=libGL.so.1
fi
# Container images with a mounted driver keep its EGL registration outside libglvnd's default folders.
nvidia=/usr/local/nvidia
if [ -z "${__EGL_VENDOR_LIBRARY_FILENAMES-}" ] && [ -f $nvidia/share/glvnd/egl_vendor.d/10_nvidia.json ] \
  && ! ls /etc/glvnd/egl_vendor.d/*nvidia*.json /usr/share/glvnd/egl_vendor.d/*nvidia*.json > /dev/null 2>&1; then
  export __EGL_VENDOR_LIBRARY_FILENAMES=$nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
fi
if [ -d $nvidia/lib64 ] && ! "$python" -c 'import ctypes; ctypes.CDLL("libEGL_nvidia.so.0")' 2> /dev/null; then
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$nvidia/lib64
fi
export PYTHONPATH=$root NUMBA_CACHE_DIR=$work/numba GYM_BATCHNAV_CACHE=$work/cache PATH=$work/venv/bin:$PATH
if [ "${1-}" = exec ]; then shift; exec "$@"; fi

echo "== compiling the kernels"
warm='from gym_batchnav.library.warmup import draw_small_scene; draw_small_scene'
"$work/venv/bin/python" -m gym_batchnav warmup &
warmup=$!  # compiles only the renderer that "auto" chooses, and the stages use all
"$work/venv/bin/python" -c "$warm('embree')" &
embree=$!
"$work/venv/bin/python" -c "$warm('opengl')" || echo "   OpenGL is not available"
wait $embree || echo "   Embree is not available"
wait $warmup
"$work/venv/bin/python" "$here/kit.py" --spent "$((SECONDS - started))" --budget "${BUDGET:-570}" "$@" 2>&1 |
  tee "$OUT/log.txt"
