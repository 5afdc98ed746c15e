#!/usr/bin/env bash
# Collect what a GPU machine without a network needs in one ignored folder: bash benchmarks/gpu/pack.sh [--help]
#
#   wheels.tar.xz   packages for Python 3.12 on Linux x86-64 (benchmarks/gpu/wheels.txt), repacked to compress well
#   peers.tar.xz    MuJoCo Warp (benchmarks/gpu/peers.txt), for the stage peer
#   warp.tar.xz.*   NVIDIA Warp without its compiler for processors, in pieces of at most 40 MiB
#   loaders.tar.xz  libglvnd's loaders of EGL and OpenGL, for images that have only NVIDIA's driver
#   scenes.tar.xz   the shared scenes, without images that the renderers do not read
#
# Variables: KIT, the folder (.gpu-kit); DATA, the folder of the shared scenes (../shared, optional);
# PYTHON, any Python with pip (python3). The script fails if the folder is larger than 140 MiB. Where less can be sent at
# once, send the files in several parts: run.sh needs all of them in one folder.
set -euo pipefail
if [ "${1-}" = --help ] || [ "${1-}" = -h ]; then sed -n '2,13s/^# \{0,1\}//p' "$0"; exit; fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
kit=${KIT:-$root/.gpu-kit}
data=${DATA:-$root/../shared}
python=${PYTHON:-python3}
most=$((140 * 1024 * 1024))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$kit"
mkdir -p "$kit" "$work/debs" "$work/loaders"

platforms=(--platform manylinux1_x86_64 --platform manylinux2010_x86_64 --platform manylinux2014_x86_64)
for minor in 5 12 17 24 27 28 31 34 35 39; do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done

# Download the packages in LIST and pack their wheels into NAME.tar.xz: gather LIST NAME
gather() {
  echo "== $2"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp "${platforms[@]}" --platform any --dest "$work/$2" --constraint "$root/.ci/constraints.txt" --requirement "$here/$1"
  # Wheels are zip archives: stored without compression, they compress together to half the size.
  "$python" - "$work/$2" << 'END'
import sys, zipfile
from pathlib import Path
for path in sorted(Path(sys.argv[1]).glob("*.whl")):
    with zipfile.ZipFile(path) as wheel:
        content = [(entry, wheel.read(entry)) for entry in wheel.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        for entry, data in content:
            entry.compress_type = zipfile.ZIP_STORED
            wheel.writestr(entry, data)
    print(f"  {path.name}")
END
  tar -C "$work" -cf - "$2" | xz -9e -T0 > "$kit/$2.tar.xz"
}
gather wheels.txt wheels
gather peers.txt peers

echo "== NVIDIA Warp"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
  --implementation cp "${platforms[@]}" --dest "$work" --constraint "$root/.ci/constraints.txt" warp-lang
"$python" -m zipfile -e "$work"/warp_lang-*.whl "$work/warp"
rm -rf "$work"/warp/warp/{bin/warp-clang.so,tests,examples}
tar -C "$work/warp" -cf - . | xz -9e -T0 | split -b 40m -d - "$kit/warp.tar.xz."

echo "== loaders of EGL and OpenGL"
if command -v apt-get > /dev/null && command -v dpkg > /dev/null; then
  (
    cd "$work/debs"
    options=(-oAPT::Architecture=amd64 -oAPT::Architectures=amd64 -oAPT::Sandbox::User=root)
    apt-get "${options[@]}" -qq download libegl1 libglvnd0 libopengl0 libgl1 libglx0 libgles2
    for file in *.deb; do dpkg -x "$file" "$work/loaders"; done
  )
  tar -C "$work/loaders/usr/lib/x86_64-linux-gnu" -cf - . | xz -9e > "$kit/loaders.tar.xz"
else
  echo "  left out: they come from Debian packages, and apt-get is not installed"
fi

echo "== scenes"
if [ -d "$data/scenes" ]; then
  # The renderers do not read normal and roughness maps.
  tar -C "$data" --exclude='*_nor_*' --exclude='*_normal*' --exclude='*_rough_*' --exclude='*_arm_*' \
    --exclude='scenes/textures' -cf - scenes | xz -9e --lzma2=preset=9e,dict=64MiB -T1 > "$kit/scenes.tar.xz"
else
  echo "  left out: $data/scenes does not exist; set DATA to the folder"
fi

(cd "$kit" && sha256sum ./* > SHA256SUMS && ls -l)
total=$(cat "$kit"/* | wc -c)
echo "$((total / 1024)) KiB in $kit; the limit is $((most / 1024)) KiB"
[ "$total" -le "$most" ] || { echo "error: the folder is too large"; exit 1; }
