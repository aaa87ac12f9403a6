#!/usr/bin/env bash
# Runs the tests on another Debian: its compiler, Highway, oneDNN and the rest, in a root file system of its own.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: tools/test-debian.sh SUITE [options] [-- OPTIONS OF tools/test.sh]
Makes a root file system of Debian SUITE (bookworm, trixie or sid) by debootstrap, copies the committed files in, and
runs tools/test.sh there, which installs the documented packages. Needs root, debootstrap and some 3 GB.
  --compiler gcc|clang  what builds; default: gcc, which stands for the suite's g++
  --demo                run tools/demo.sh first: with it, both commands of the README from a bare Debian
  --worktree            copy the working tree's files as they are, committed or not, instead of HEAD
  --root DIR            make the root file system in DIR, or take the one that an earlier run made there; it stays
  --keep                keep the default one, in ${TMPDIR:-/tmp}/attend-debian/SUITE, for the next run
  --ccache DIR          build with ccache, its cache in DIR
  --old-mirror          take a mirror whose lists have expired, a snapshot; their signatures are checked all the same
  --help                this text
Environment: MIRROR, default http://deb.debian.org/debian. Downloaded packages stay in ${TMPDIR:-/tmp}/attend-debian/
SUITE.debs for the next run. Exit status: that of tools/test.sh; 2 where something is missing or wrong here.
TEXT
}

# Ends with status 2: nothing was tested.
refuse() {
  echo "tools/test-debian.sh: $*" >&2
  exit 2
}

suite=
compiler=gcc
demo=
worktree=
rootfs=
keep=
ccache=
check_dates=true
while (($#)); do
  case $1 in
    --help) usage; exit 0 ;;
    --demo) demo=1 ;;
    --worktree) worktree=1 ;;
    --keep) keep=1 ;;
    --old-mirror) check_dates=false ;;
    --compiler | --root | --ccache)
      (($# >= 2)) || refuse "$1 needs a value; see --help"
      case $1 in
        --compiler) compiler=$2 ;;
        --root) rootfs=$2 keep=1 ;;
        --ccache) ccache=$2 ;;
      esac
      shift
      ;;
    --) shift; break ;;
    -*) refuse "option \"$1\" is unknown; see --help" ;;
    *) [[ -z $suite ]] || refuse "two suites, \"$suite\" and \"$1\", expected one"; suite=$1 ;;
  esac
  shift
done
case $suite in
  bookworm | trixie | sid) ;;
  *) refuse "SUITE is \"$suite\", expected bookworm, trixie or sid" ;;
esac
case $compiler in
  gcc) extra=() settings=() cxx=g++ ;;  # what CMake takes by itself
  clang) extra=(clang libomp-dev) settings=(CC=clang CXX=clang++) cxx=clang++ ;;
  *) refuse "--compiler is \"$compiler\", expected gcc or clang" ;;
esac
((EUID == 0)) || refuse "needs root, for debootstrap, chroot and mounts; run it through sudo"
for command in debootstrap unshare git; do
  command -v "$command" >/dev/null || refuse "$command is missing: apt-get install debootstrap util-linux git"
done

mirror=${MIRROR:-http://deb.debian.org/debian}
base=${TMPDIR:-/tmp}/attend-debian
rootfs=$(realpath -m "${rootfs:-$base/$suite}")
debs=$(realpath -m "$base/$suite.debs")
done_mark=$rootfs/.attend-suite  # written last: its presence says that debootstrap finished, its text which suite
mkdir -p "$debs/partial"
[[ -z $ccache ]] || { mkdir -p "$ccache" && ccache=$(realpath "$ccache"); }

# Everything is mounted in a namespace that ends with its last process, so that no mount outlives this script however it
# ends, and none of the host's is ever under what is removed.
in_rootfs() {
  local script='
    set -euo pipefail
    rootfs=$1 debs=$2 ccache=$3
    shift 3
    mount -t proc proc "$rootfs/proc"
    mount --rbind /dev "$rootfs/dev"
    mount --bind "$debs" "$rootfs/var/cache/apt/archives"
    [[ -z $ccache ]] || { mkdir -p "$rootfs/var/cache/ccache" && mount --bind "$ccache" "$rootfs/var/cache/ccache"; }
    exec chroot "$rootfs" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
      DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} "$@"'
  unshare --mount --pid --fork --kill-child -- bash -c "$script" bash "$rootfs" "$debs" "$ccache" "$@"
}

clean_up() {
  [[ -n $keep ]] || rm -rf --one-file-system "$rootfs"
}

if [[ -e $done_mark ]]; then
  [[ $(<"$done_mark") == "$suite" ]] || refuse "$rootfs holds $(<"$done_mark"), expected $suite; use another --root"
else
  [[ ! -d $rootfs ]] || [[ -z $(ls -A "$rootfs") ]] || refuse "$rootfs exists and is none of ours; remove it or use --root"
  mkdir -p "$rootfs"
  trap clean_up EXIT
  echo "== debootstrap $suite from $mirror into $rootfs"
  # It mounts /proc; in a namespace here too.
  unshare --mount debootstrap --variant=minbase --cache-dir="$debs" "$suite" "$rootfs" "$mirror" >"$rootfs.log" ||
    { tail -n 20 "$rootfs.log" >&2; keep=; refuse "debootstrap failed; its log is $rootfs.log"; }
  echo "$suite" >"$done_mark"
fi
trap clean_up EXIT
# The name server and the host's name are the machine's, not the suite's.
cp -L /etc/resolv.conf /etc/hosts "$rootfs/etc/"
echo "Acquire::Check-Valid-Until \"$check_dates\";" >"$rootfs/etc/apt/apt.conf.d/90attend"

# Always a fresh copy, without a build: the times of files from git archive say nothing about what must be built again.
rm -rf "$rootfs/attend"
mkdir "$rootfs/attend"
if [[ -n $worktree ]]; then
  echo "== copying the working tree"
  (cd "$root" && git ls-files -z --cached --others --exclude-standard | tar -c --null -T -) | tar -x -C "$rootfs/attend"
else
  git -C "$root" log -1 --format='== copying %h %s'
  git -C "$root" archive HEAD | tar -x -C "$rootfs/attend"
fi

if [[ -n $ccache ]]; then
  extra+=(ccache)
  settings+=(CCACHE_DIR=/var/cache/ccache CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
if ((${#extra[@]})); then
  echo "== installing ${extra[*]}"
  in_rootfs apt-get update -qq
  in_rootfs apt-get install -y -qq --no-install-recommends "${extra[@]}" >/dev/null
fi
[[ -z $demo ]] || in_rootfs "${settings[@]}" /attend/tools/demo.sh
in_rootfs "${settings[@]}" /attend/tools/test.sh "$@"
echo "== tested on Debian $suite with"
in_rootfs "$cxx" --version | head -n 1
# shellcheck disable=SC2016  # dpkg-query's own variables
in_rootfs dpkg-query -W -f '${Package} ${Version}\n' libhwy-dev libdnnl-dev doctest-dev libcli11-dev libbenchmark-dev cmake
