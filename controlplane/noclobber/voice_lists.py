"""What noclobber knows about programs by their names: data, nothing else.

voice.py asks these lists whose bytes a process writes. A program that stands
in none of them is a program like any other: it writes what its own logic
makes (direct). Add a name to the group whose comment fits it; the tests in
tests/unit/test_voice.py show what each group means.
"""

import re
from dataclasses import dataclass
from typing import Literal


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True)
class Syntax:
    """How a program is told what to run.

    Options are spelled with their dashes. Single letters may be bundled
    (`-lc`), their argument may stand in the same word or in the next.
    """

    program: frozenset[str] = frozenset()  # its argument is the program text
    script: frozenset[str] = frozenset()  # its argument names the program's file
    module: frozenset[str] = frozenset()  # its argument names a module
    takes: frozenset[str] = frozenset()  # other options that take an argument
    rest: str = ""  # letters whose argument is the rest of their word, if any
    flag: str = ""  # this letter makes the first operand the program (sh -c)
    stdin: str = ""  # this letter: from standard input, operands or not (sh -s)
    plus: bool = False  # options may begin with + as well, and end with a lone -
    bundles: bool = True  # single letters may be bundled
    text: bool = False  # the first operand is the program's text (awk, sed, jq)


# Shells: what they run is the agent's own text (-c, standard input, a script
# of the session's) or a script that was there before, which is a driver.
_POSIX = Syntax(
    takes=_names("-o -O --rcfile --init-file --emulate"), flag="c", stdin="s", plus=True
)
_CSH = Syntax(flag="c", stdin="s")
_FISH = Syntax(
    program=_names("-c --command"),
    takes=_names("-C --init-command -d --debug -o --debug-output -f --features -p --profile"),
)
_PWSH = Syntax(
    program=_names("-Command -command -c -EncodedCommand -e -ec"),
    script=_names("-File -file -f"),
    takes=_names("-ExecutionPolicy -ep -ex -WorkingDirectory -wd -InputFormat -OutputFormat"),
    bundles=False,
)
_ONE_SHOT = Syntax(program=_names("-c --commands --command"), takes=_names("--config --env-config"))
SHELLS: dict[str, Syntax] = {
    **dict.fromkeys(
        _names("sh bash dash ash hush zsh ksh ksh93 mksh lksh pdksh oksh yash posh rbash osh ysh"),
        _POSIX,
    ),
    **dict.fromkeys(_names("csh tcsh"), _CSH),
    "fish": _FISH,
    "pwsh": _PWSH,
    **dict.fromkeys(_names("nu elvish xonsh"), _ONE_SHOT),
}

# Interpreters: inline (-c, -e, standard input) it is the agent's text, with a
# file it is that file's logic.
_PYTHON = Syntax(
    program=_names("-c"), module=_names("-m"), takes=_names("-W -X --check-hash-based-pycs")
)
_NODE = Syntax(
    program=_names("-e --eval -p --print"),
    takes=_names(
        "-r --require --import --loader --experimental-loader -C --conditions --env-file"
        " --input-type --title --icu-data-dir --openssl-config"
    ),
)
_PERL = Syntax(program=_names("-e -E"), takes=_names("-I"), rest="iMmFxdDVC")
_RUBY = Syntax(
    program=_names("-e"),
    takes=_names("-r -I -C -E --encoding --external-encoding --internal-encoding --require"),
    rest="iFxWKT",
)
_PHP = Syntax(
    program=_names("-r --run -B --process-begin -R --process-code -E --process-end"),
    script=_names("-f --file -F --process-file"),
    takes=_names("-d --define -c --php-ini -z --zend-extension -t --docroot -S --server"),
)
_LUA = Syntax(program=_names("-e"), takes=_names("-l"))
_R = Syntax(
    program=_names("-e"), script=_names("-f --file"), takes=_names("-g --gui -d --debugger")
)
_EVAL = Syntax(
    program=_names("-e -E --eval --print -eval"),
    takes=_names("-L --load -r -l -t --threads --project -I -S --pa -pa --require"),
    bundles=False,
)
_GUILE = Syntax(program=_names("-c"), script=_names("-s"), takes=_names("-L -C -x -l -e"))
_EXPECT = Syntax(program=_names("-c"), script=_names("-f"))
INTERPRETERS: dict[str, Syntax] = {
    **dict.fromkeys(_names("python pypy ipython micropython"), _PYTHON),
    **dict.fromkeys(_names("node nodejs bun deno tsx ts-node electron"), _NODE),
    "perl": _PERL,
    **dict.fromkeys(_names("ruby jruby truffleruby"), _RUBY),
    "php": _PHP,
    **dict.fromkeys(_names("lua luajit luau"), _LUA),
    **dict.fromkeys(_names("R Rscript"), _R),
    **dict.fromkeys(_names("julia elixir racket groovy scala octave gnuplot osascript"), _EVAL),
    "guile": _GUILE,
    **dict.fromkeys(_names("expect tclsh"), _EXPECT),
}

# Text tools whose program is their first operand, unless a file holds it.
_AWK = Syntax(
    program=_names("-e --source"),
    script=_names("-f --file -E --exec"),
    takes=_names("-F --field-separator -v --assign -i --include -l --load"),
    text=True,
)
_SED = Syntax(
    program=_names("-e --expression"),
    script=_names("-f --file"),
    takes=_names("-l --line-length"),
    rest="i",
    text=True,
)
_JQ = Syntax(script=_names("-f --from-file"), takes=_names("-L --library-path --indent"), text=True)
TEXT_TOOLS: dict[str, Syntax] = {
    **dict.fromkeys(_names("awk gawk mawk nawk original-awk bwk goawk"), _AWK),
    **dict.fromkeys(_names("sed gsed ssed"), _SED),
    **dict.fromkeys(_names("jq gojq jaq yq"), _JQ),
    **dict.fromkeys(_names("sd rpl"), Syntax(text=True)),
}

# Wrappers: they start what they were told to start, under another user,
# limit, directory or clock, and have nothing to say themselves. Ours are here.
WRAPPERS = _names(
    """
    env timeout nice nohup setsid stdbuf time xargs flock script sudo doas su
    chroot unshare ionice taskset command
    chrt choom prlimit setarch linux32 linux64 setpriv runuser runcon sg newgrp
    pkexec gosu su-exec nsenter bwrap firejail proot fakeroot fakechroot
    faketime unbuffer tini dumb-init catatonit
    watch watchexec entr parallel strace ltrace
    dbus-run-session xvfb-run systemd-run ssh-agent direnv
    noclobber noclobber-exec noclobber-bash
    """
)

# On the way to the command they are wrappers (`find -exec`); what they write
# themselves (`find -fprint`) is their own.
SEEKERS = _names("find gfind bfs fd fdfind")

Sources = Literal[
    "none",  # operands name targets or are the text itself
    "stdin",  # operands name targets, the bytes come from standard input
    "operands",  # each operand is a source; none of them: standard input
    "all but last",  # the last operand is the target (or -t names it)
    "dd",  # if=FILE
    "tar",  # the archive, when it extracts
    "cpio",  # the archive, when it extracts
    "first",  # the first operand is the archive
    "network",  # operands are addresses, file:// among them
    "rsync",  # all but last, of which some are on other hosts
]


@dataclass(frozen=True)
class Carrier:
    """Where a carrier's bytes come from, and its options with an argument."""

    sources: Sources
    takes: frozenset[str] = frozenset()


# Carriers: they put bytes somewhere else and make none of their own.
_CP = Carrier("all but last", _names("-S --suffix -t --target-directory --sparse --no-preserve"))
_INSTALL = Carrier(
    "all but last",
    _names("-S --suffix -t --target-directory -g --group -m --mode -o --owner --strip-program"),
)
_HEAD = Carrier("operands", _names("-n --lines -c --bytes -s --sleep-interval --pid"))
_TAR = Carrier(
    "tar",
    _names(
        "-b -C -F -g -H -I -K -L -N -T -V -X --directory --exclude --exclude-from --files-from"
        " --transform --xform --strip-components --use-compress-program --owner --group --mode"
    ),
)
_RSYNC = Carrier(
    "rsync",
    _names(
        "-e --rsh -f --filter -T --temp-dir -B --block-size -M --remote-option --exclude"
        " --exclude-from --include --include-from --files-from --rsync-path --compare-dest"
        " --copy-dest --link-dest --backup-dir --suffix --chmod --chown --bwlimit --timeout"
        " --port --log-file --out-format --partial-dir --max-size --min-size --max-delete"
        " --password-file --info --debug"
    ),
)
CARRIERS: dict[str, Carrier] = {
    **dict.fromkeys(_names("echo printf truncate"), Carrier("none")),
    **dict.fromkeys(_names("tee sponge"), Carrier("stdin")),
    "cat": Carrier("operands"),
    **dict.fromkeys(_names("head tail"), _HEAD),
    **dict.fromkeys(_names("cp mv ln"), _CP),
    "install": _INSTALL,
    "dd": Carrier("dd"),
    **dict.fromkeys(_names("tar bsdtar"), _TAR),
    "cpio": Carrier("cpio", _names("-F --file -I -H --format -E --pattern-file -R --owner -C -D")),
    "unzip": Carrier("first", _names("-d -P")),
    **dict.fromkeys(_names("curl wget"), Carrier("network")),
    "rsync": _RSYNC,
}
# Homebrew's and others' GNU tools wear a g.
CARRIERS.update(
    {
        f"g{name}": CARRIERS[name]
        for name in _names("echo printf truncate tee cat head tail cp mv ln install dd tar cpio")
    }
)

# Drivers: their business is to run others. Build tools, package managers,
# test runners, version control, task runners.
DRIVERS = _names(
    """
    make gmake bmake nmake pmake remake ninja samu n2 cmake cmake3 ctest cpack
    meson muon bazel bazelisk buck buck2 pants please plz scons waf xmake
    premake premake5 tup redo kati ckati autoreconf autoconf autoheader
    automake aclocal autom4te libtoolize libtool xcodebuild ant mvn mvnw mvnd
    gradle gradlew sbt mill lein boot clojure clj rebar3 mix cabal stack
    flutter msbuild dune

    npm npx yarn yarnpkg pnpm pnpx bunx corepack lerna nx turbo rush gulp grunt
    jake wireit lint-staged husky lefthook nodemon npm-run-all run-s run-p
    concurrently jest vitest mocha ava karma cypress playwright

    cargo rustup cross cargo-nextest go gotestsum mage

    pip pipx pipenv uv uvx poetry pdm hatch flit rye pixi conda mamba
    micromamba virtualenv easy_install tox nox pytest py.test trial nosetests
    nose2 behave ward stestr coverage invoke inv doit pre-commit setup.py

    bundle bundler gem rake rspec composer phpunit cpan cpanm cpm prove
    luarocks opam ghcup vcpkg conan nuget

    git hg svn bzr brz cvs fossil jj sl darcs pijul repo gh glab hub stg

    just task go-task mask bake moon mise asdf nix nix-build nix-shell
    nix-store guix brew apt apt-get aptitude dpkg dpkg-buildpackage
    dpkg-source debuild dh rpm rpmbuild dnf yum zypper pacman makepkg apk snap
    flatpak port emerge
    docker docker-compose podman podman-compose buildah nerdctl kubectl skaffold
    foreman honcho overmind supervisord act bats shellspec
    """
)
# A driver's own helpers: /usr/lib/git-core/git-remote-https and its like.
DRIVER_PREFIXES = ("git-", "cargo-")

# `python -m NAME`: the module, or the package that it lies in.
DRIVER_MODULES = _names(
    """
    pip ensurepip build pytest py unittest tox nox nose nose2 twisted.trial
    behave coverage pipx pipenv poetry pdm hatch hatchling flit uv virtualenv
    venv conda pre_commit invoke doit SCons mesonbuild setuptools installer
    cibuildwheel asv robot ninja cmake stestr
    """
)

# One word on a virtual machine's command line tells what it drives.
MACHINES = _names("java beam.smp mono")
MACHINE_DRIVERS = (
    "org.codehaus.plexus.classworlds.launcher",  # Maven
    "org.gradle.",
    "gradle-wrapper.jar",
    "gradle-launcher",
    "sbt-launch",
    "xsbt.boot.",
    "org.apache.tools.ant.launch",
    "leiningen.core.main",
    "com.facebook.buck.",
    "mill.main.",
)

# Programs that are one thing or another by their first operand.
Subcommand = Literal["driver", "inline", "script", "wrapper"]
_BUN = _names("run x install i add remove update create init test link pm upgrade publish")
_DENO = _names("task test bench install add remove cache publish upgrade outdated")
_SWIFT = _names("build test package run")
_DOTNET = _names(
    "build run test restore publish pack msbuild clean tool add remove new nuget workload watch"
)
_DART = _names("pub test run compile create fix")
SUBCOMMANDS: dict[str, dict[str, Subcommand]] = {
    "bun": dict.fromkeys(_BUN, "driver"),
    "deno": {**dict.fromkeys(_DENO, "driver"), "eval": "inline", "repl": "inline", "run": "script"},
    "swift": dict.fromkeys(_SWIFT, "driver"),
    "dotnet": dict.fromkeys(_DOTNET, "driver"),
    "dart": dict.fromkeys(_DART, "driver"),
    "node": {"--test": "driver"},
    # In an environment of theirs they start the very words that follow. Those
    # that look for a task of that name first (pdm, hatch, pixi) stay drivers.
    **{name: {"run": "wrapper"} for name in _names("uv poetry conda mamba micromamba")},
}

# `npx claude`: what these start as the agent is the agent.
LAUNCHERS = _names("npx npm yarn pnpm pnpx bun bunx uv uvx pipx poetry pdm hatch pipenv pixi rye")

# What the script that starts an agent uses beside it, and is no agent.
WAYSIDE = _names(
    """
    basename dirname readlink realpath uname id whoami hostname date sleep test [
    expr grep egrep fgrep sort uniq wc tr cut seq ls stat file which type mkdir rm
    rmdir chmod chown touch mktemp ps pgrep kill tty stty tput locale getconf ldd
    cygpath git curl wget
    """
)

# One executable, many programs: the name it was called by tells which.
MULTICALL = _names("busybox toybox coreutils uutils uutils-coreutils")

# These come with a version in their names: python3.11, pip3, perl5.36.0.
VERSIONED = _names(
    """
    python pypy micropython node nodejs perl ruby php lua luajit guile tclsh
    expect pip pytest easy_install automake aclocal cmake make go yarn pnpm
    awk ksh git cpan gem bundle rake
    """
)
# How JavaScript's package managers name their entry points.
ENTRY_POINT = re.compile(r"(npm|npx|yarn|pnpm|pnpx|corepack)(-cli|-\d[\d.]*)?\.[cm]?js$")

# Of the wrappers, those that are scripts themselves: perl /usr/bin/parallel.
# Any other script of a wrapper's name (./watch) is a script of the tree.
SCRIPTED_WRAPPERS = _names("command fakeroot noclobber parallel unbuffer xvfb-run")

# A dynamic loader started by hand runs its first operand.
LOADER_TAKES = _names(
    "--library-path --argv0 --preload --audit --inhibit-rpath --glibc-hwcaps-prepend"
    " --glibc-hwcaps-mask"
)

# Every name that means something here.
KNOWN = frozenset().union(
    SHELLS, INTERPRETERS, TEXT_TOOLS, WRAPPERS, SEEKERS, CARRIERS, DRIVERS, MACHINES, SUBCOMMANDS
)
