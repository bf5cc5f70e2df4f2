# Shared by ./brome and ./test: packages and the build. Sourced, not run.

setup_say() { printf 'brome: %s\n' "$*" >&2; }

# setup_packages FILE KIND…: installs the Debian packages of those kinds that are missing.
setup_packages() {
        setup_file=$1
        shift
        setup_missing=
        for setup_kind in "$@"; do
                for setup_name in $(sed -n "s/^$setup_kind //p" "$setup_file"); do
                        setup_have "$setup_name" || setup_missing="$setup_missing $setup_name"
                done
        done
        [ -n "$setup_missing" ] || return 0
        if ! command -v apt-get >/dev/null 2>&1; then
                setup_say "this system has no apt-get; install the equivalents of:$setup_missing"
                exit 69
        fi
        setup_root=
        if [ "$(id -u)" != 0 ]; then
                if ! command -v sudo >/dev/null 2>&1; then
                        setup_say "packages are missing and there is no sudo. As root: apt-get install$setup_missing"
                        exit 69
                fi
                setup_root=sudo
        fi
        setup_say "installing packages:$setup_missing"
        setup_log=$(mktemp)
        if ! setup_apt >"$setup_log" 2>&1; then
                setup_say "the package lists are old or missing: apt-get update"
                if ! { $setup_root apt-get -q update && setup_apt; } >>"$setup_log" 2>&1; then
                        tail -n 20 "$setup_log" >&2
                        setup_say "the packages could not be installed; the log is $setup_log"
                        exit 69
                fi
        fi
        rm -f "$setup_log"
}

setup_apt() {
        # shellcheck disable=SC2086 # a list of package names
        $setup_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $setup_missing
}

# A package counts as there when dpkg says so, or when its program lies where a workspace sees it (nodejs and npm often come from elsewhere).
setup_have() {
        case $1 in
        nodejs) setup_seen node && return 0 ;;
        npm | git | curl | cargo) setup_seen "$1" && return 0 ;;
        libclang-rt-14-dev) dpkg-query -W -f='${Status}\n' 'libclang-rt-*-dev' 2>/dev/null | grep -q 'ok installed' && return 0 ;;
        esac
        [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = 'install ok installed' ]
}

# setup_seen PROGRAM: is it on the PATH, and below a folder of the system? One in somebody's home is not there in a workspace.
setup_seen() {
        case $(readlink -f -- "$(command -v "$1" 2>/dev/null)" 2>/dev/null) in
        /usr/* | /opt/*) return 0 ;;
        esac
        return 1
}

# setup_build TOP OUT [meson options…]: configures once, builds, installs into OUT/root.
setup_build() {
        setup_top=$1
        setup_out=$2
        shift 2
        mkdir -p "$setup_out"
        setup_log=$setup_out/build.log
        setup_say "building (about half a minute the first time)"
        # One builder at a time; a second one waits and finds the work done.
        (
                flock 9
                touch "$setup_out/stamp.new"
                if [ ! -f "$setup_out/obj/build.ninja" ]; then
                        rm -rf "$setup_out/obj"
                        meson setup "$setup_out/obj" "$setup_top" --prefix "$setup_out/root" --libdir lib -Dtests=false "$@"
                fi &&
                        ninja -C "$setup_out/obj" &&
                        meson install -C "$setup_out/obj" --quiet &&
                        mv "$setup_out/stamp.new" "$setup_out/stamp"
        ) 9>"$setup_out/lock" >"$setup_log" 2>&1 || {
                tail -n 30 "$setup_log" >&2
                setup_say "the build failed; the whole log is $setup_log"
                exit 70
        }
}
