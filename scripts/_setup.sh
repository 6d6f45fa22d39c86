# Prepares a virtual environment with the native library and the package in it. Sourced by the other scripts,
# which then run "$venv/bin/...". Idempotent, resumable, and nearly free when nothing changed.
#
#   setup            what running needs
#   setup test       and what linting and testing need
#
# Environment: PACE_VENV (where the virtual environment is; default .venv here), PACE_PYTHON (the Python to
# make it with), CMAKE_ARGS (options for the native build; where it is not set, those of the last build hold, and
# an empty one takes them back), CC, CXX, CFLAGS, CXXFLAGS, PACE_CACHE_DIR.

set -eu

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${PACE_VENV:-$root/.venv}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
python=$venv/bin/python
stamp=$venv/pace-setup
kept_options=$venv/pace-cmake-args
is_kept=
logs=$root/build/log
job=

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$(basename "$0"): $*"
    exit 2
}

short_hash() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-12
}

# A plain command must not undo a build for a graphics card.
if [ -z "${CMAKE_ARGS+set}" ] && [ -s "$kept_options" ]; then
    CMAKE_ARGS=$(cat "$kept_options")
    is_kept=1
    export CMAKE_ARGS
fi

# What the processor can do: a build for one must not be used on another.
processor() {
    grep -m 1 '^flags' /proc/cpuinfo 2>/dev/null || sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m
}

# What the native library is compiled with, its sources apart.
build_options() {
    printf '%s\n' "$venv" "${CMAKE_ARGS:-}" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}"
    processor
}

# Changes whenever the result of setting up would.
fingerprint() (
    cd "$root"
    {
        printf '%s\n' "$root"
        build_options
        cat "$venv/pyvenv.cfg" 2>/dev/null || true
        find pyproject.toml CMakeLists.txt scripts/_setup.sh native -type f ! -name '*.pyc' ! -name '*.md' |
            LC_ALL=C sort | tr '\n' '\0' | xargs -0 cksum
    } | short_hash
)

# is_ready EXTRAS FINGERPRINT
is_ready() {
    [ -x "$venv/bin/pace" ] && [ -x "$python" ] && grep -qx "$1 $2" "$stamp" 2>/dev/null
}

# logged NAME COMMAND...: runs it with its output in a log, and shows progress on a terminal. If it fails, shows
# the end of the log and gives up. In a process group of its own, so that stopping us stops all of it.
logged() {
    local log=$logs/$1.log began=$SECONDS status=0
    shift
    mkdir -p "$logs"
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    job=$!
    set +m
    if [ -t 2 ]; then
        while kill -0 "$job" 2>/dev/null; do
            show_progress "$log" "$began"
            sleep 0.3
        done
        printf '\r\033[K' >&2
    fi
    wait "$job" || status=$?
    job=
    if [ "$status" -ne 0 ]; then
        tail -n 25 "$log" | sed 's/^/    | /' >&2
        die "this step failed; the whole output is in $log"
    fi
}

# One line, drawn over: the compiler's "[12/81]" if there is one, and the time since the step began.
show_progress() {
    local step
    step=$(tail -c 4000 "$1" | grep -oE '\[[0-9]+/[0-9]+\]' | tail -n 1) || step=
    printf '\r\033[K      %s %d s' "$step" $((SECONDS - $2)) >&2
}

stop_job() {
    if [ -n "$job" ]; then
        kill -TERM -- "-$job" 2>/dev/null || true
        printf '\n' >&2
    fi
    say "$(basename "$0"): stopped; the next run goes on from here"
    exit "$1"
}

find_python() {
    local candidate
    for candidate in ${PACE_PYTHON:+"$PACE_PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            host_python=$candidate
            return
        fi
    done
    die "no Python 3.10 or newer found: install one, or name one with PACE_PYTHON=/path/to/python3"
}

check_compiler() {
    local candidate
    for candidate in ${CXX:+"$CXX"} c++ g++ clang++; do
        if command -v "${candidate%% *}" >/dev/null; then
            return
        fi
    done
    die "no C++ compiler found: install g++ (Debian, Ubuntu), gcc-c++ (Fedora) or, on macOS, run xcode-select --install"
}

# Only one set-up at a time; the lock goes when this process does, however it ends.
take_lock() {
    mkdir -p "$root/build"
    exec 9>"$root/build/setup.lock"
    if ! "$host_python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "another set-up is running here; waiting for it"
        "$host_python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
}

pip_install() { logged "$1" "$python" -m pip install --disable-pip-version-check --progress-bar=off "${@:2}"; }

has_pip() { "$python" -m pip --version >/dev/null 2>&1; }

# In a folder that was made here, or is empty; of a virtual environment of somebody else, pip alone is missing.
make_venv() {
    if has_pip; then
        return
    fi
    if [ -f "$venv/pyvenv.cfg" ] && "$python" -m ensurepip >/dev/null 2>&1 && has_pip; then
        say "[1/5] put pip into the virtual environment $venv"
        return
    fi
    if [ ! -e "$venv/pace-tools" ] && [ -n "$(ls -A "$venv" 2>/dev/null)" ]; then
        die "$venv is not empty, and no virtual environment with pip: empty it, or name another folder with PACE_VENV"
    fi
    say "[1/5] making the virtual environment $venv"
    mkdir -p "$venv"
    : >"$venv/pace-tools" # from now on it was made here, however far this comes
    (cd "$venv" && rm -rf bin include lib lib64 share pyvenv.cfg)
    logged venv "$host_python" -m venv "$venv"
}

install_tools() {
    local tools=("pip>=23.1" "scikit-build-core>=0.11" "pathspec>=0.10.1" "cmake>=3.21" "ninja>=1.10")
    if [ "${tools[*]}" != "$(cat "$venv/pace-tools" 2>/dev/null)" ]; then
        say "[2/5] installing the build tools"
        pip_install tools --upgrade "${tools[@]}"
        printf '%s\n' "${tools[*]}" >"$venv/pace-tools"
    fi
}

fetch_upstream() {
    say "[3/5] fetching and patching llama.cpp (the first time: 77 MB)"
    logged upstream "$python" "$root/native/prepare.py"
}

# Without a library of their own: ours takes its place, and compiling llama.cpp once is enough.
install_bindings() {
    local wanted installed sdist
    wanted=$(sed -n 's/^llama-cpp-python==\([^ ]*\).*/\1/p' "$root/native/upstream.txt")
    installed=$("$python" -c 'from importlib.metadata import version; print(version("llama-cpp-python"))' 2>/dev/null) || installed=
    if [ "$wanted" != "$installed" ]; then
        say "[4/5] installing the Python bindings of llama.cpp"
        sdist=$("$python" "$root/native/prepare.py" --sdist)
        pip_install bindings --no-build-isolation --config-settings=cmake.define.LLAMA_BUILD=OFF \
            --config-settings=cmake.define.LLAVA_BUILD=OFF "$sdist"
    fi
}

# install_package EXTRAS
install_package() {
    local build target=$root
    build=$root/build/native-$(build_options | short_hash)
    local options=("--config-settings=build-dir=$build")
    if [ "$1" = test ]; then
        target="$root[test]"
        options+=(--config-settings=cmake.define.PACE_WERROR=ON)
    fi
    if [ -f "$build/build.json" ]; then
        say "[5/5] building what changed, and installing"
    else
        say "[5/5] building the native library (the first time: about 4 minutes), and installing"
    fi
    if [ -n "${CMAKE_ARGS:-}" ]; then
        say "      with CMAKE_ARGS=\"$CMAKE_ARGS\"${is_kept:+, as before; CMAKE_ARGS= builds without}"
    fi
    # Configured anew, which compiles nothing again: a cache would keep yesterday's defaults as if they had been given.
    rm -f "$build/CMakeCache.txt"
    pip_install package --verbose --no-build-isolation "${options[@]}" --editable "$target"
}

setup() {
    local extras=${1:-run} now began=$SECONDS
    now=$(fingerprint)
    if is_ready "$extras" "$now"; then
        return
    fi
    find_python
    check_compiler
    trap 'stop_job 130' INT
    trap 'stop_job 143' TERM
    take_lock
    now=$(fingerprint)
    if ! is_ready "$extras" "$now"; then
        rm -f "$stamp"
        make_venv
        install_tools
        fetch_upstream
        install_bindings
        install_package "$extras"
        now=$(fingerprint) # the environment is part of it, and was made just now
        printf '%s' "${CMAKE_ARGS:-}" >"$kept_options"
        printf '%s\n' "run $now" "$extras $now" >"$stamp"
        say "ready after $((SECONDS - began)) s"
    fi
    exec 9>&-
    trap - INT TERM
}
