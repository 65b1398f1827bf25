# Owns the project's .venv: finds a Python, makes the environment, installs what pyproject.toml says, and remembers it.
# It must not know what is done with it; scripts/serve and scripts/test read this file with `.` from the project's root.

fail() {
    printf '%s\n' "$0: $1" >&2
    exit 1
}

# The first Python that is new enough; one that can make environments wins over one that cannot.
find_python() {
    found_old='' found_bare=''
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        if ! "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            found_old="$found_old $candidate is $version,"
        elif "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            python=$candidate
            return 0
        else
            found_bare=${found_bare:-python$version}
        fi
    done
    return 1
}

# venv_install [EXTRA]: after it, .venv holds mcphub (from this folder, editable) and what EXTRA adds.
venv_install() {
    extra=${1:-}
    # An environment is good for one place and one pyproject.toml; `dev` holds everything that plain use needs.
    wanted="$(pwd -P) $(cksum <pyproject.toml)"
    stamp=.venv/mcphub-stamp
    if [ -x .venv/bin/mcphub ] && [ -f "$stamp" ]; then
        case "$(cat "$stamp")" in
            "$wanted dev" | "$wanted $extra") return 0 ;;
        esac
    fi
    if ! .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        if ! find_python; then
            [ -z "$found_bare" ] || fail "cannot make .venv: $found_bare has no venv module; install it (Debian: apt-get install $found_bare-venv), then run this again"
            [ -z "$found_old" ] || fail "cannot make .venv: Python 3.11 or newer is needed, but$found_old install a newer one or set PYTHON to its path"
            fail "cannot make .venv: no python3 found; install Python 3.11 or newer (Debian: apt-get install python3 python3-venv) or set PYTHON to its path"
        fi
        printf '%s\n' "making .venv with $python" >&2
        "$python" -m venv --clear .venv || fail "cannot make .venv with $python: see the message above"
    elif [ -f "$stamp" ] && [ "$(cut -d' ' -f1 "$stamp")" != "$(pwd -P)" ]; then
        # Moved here with its folder: its scripts still name the old place.
        .venv/bin/python -m venv --upgrade .venv || fail "cannot renew .venv: remove it, then run this again"
    fi
    rm -f "$stamp"
    printf '%s\n' "installing mcphub${extra:+ and the $extra tools} into .venv" >&2
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --editable ".${extra:+[$extra]}" ||
        fail "cannot install mcphub into .venv: see the message above; once it is solved, run this again"
    printf '%s\n' "$wanted $extra" >"$stamp"
}
