"""The walk from a writer up to its command, over many spellings.

Each row of the tables is a chain of command lines, the writer first, parted
by ` < `. The session wrote new, fix.py, fix.sh, fix.awk, tool.py and
tools/__main__.py in /tree, as the agent's own text; all else was there before.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from noclobber.processes import gather, started
from noclobber.voice import Facts, Program, judge

OWN = {
    b"/tree/new", b"/tree/fix.py", b"/tree/fix.sh", b"/tree/fix.awk", b"/tree/tool.py",
    b"/tree/tools/__main__.py", b"/tree/sub/fix.sh",
}  # fmt: skip
FACTS = Facts(
    script_is_session_text=OWN.__contains__,
    source_is_own_text=OWN.__contains__,
    is_stream=lambda path: path == b"/tree/fifo",
)


def program(line: str, pid: int = 1) -> Program:
    """`exe=PATH` and `stdin=PATH` may stand before the words."""
    words = shlex.split(line)
    exe, stdin = None, None
    while words[0].startswith(("exe=", "stdin=")):
        name, _, value = words.pop(0).partition("=")
        exe, stdin = (value, stdin) if name == "exe" else (exe, value)
    base = words[0].lstrip("-").split(" ")[0]
    exe = exe if exe is not None else base if "/" in base else f"/usr/bin/{base}"
    return Program(pid, exe, tuple(words), cwd="/tree", stdin=stdin)


def chain(text: str) -> list[Program]:
    return [program(line, 100 - n) for n, line in enumerate(text.split(" < "))]


VOICED = """
bash -c 'echo x > f'
sh -c 'cat > f' < bash -c x
bash -lc 'echo x > f'
bash -c -l 'echo x > f'
bash -ec 'echo x > f'
bash -euo pipefail -c 'echo x > f'
bash -o pipefail -c x
bash -oe pipefail -c x
bash -O extglob -c x
bash +o history -c x
bash --norc --noprofile -c x
bash --rcfile rc -i -c x
bash --login -c x
bash
bash -s arg
bash -
bash - fix.sh
-bash
exe=/usr/bin/bash -bash
bash -i
bash fix.sh
bash -x ./fix.sh arg
bash -- fix.sh
exe=/usr/bin/dash /bin/sh ./fix.sh
bash /dev/fd/63
bash /dev/stdin
'stdin=/tmp/sh-thd.1 (deleted)' bash
stdin=/tree/fix.sh sh
zsh -o extendedglob -ilc x
zsh -fc x
mksh -c x
exe=/bin/busybox sh -c x
busybox sh -c x
busybox ash fix.sh
fish -c x
fish --command=x
tcsh -c x
pwsh -NoProfile -Command x
pwsh -c x
cp new f < bash -c x
cp -f new f
cp -t dir new
cp new --target-directory=dir
cp -S .bak new f
cp --suffix .bak --backup new f
/bin/cp new f
exe=/bin/busybox cp new f
busybox cp new f
exe=/bin/busybox.static busybox.static cp new f
exe=/usr/bin/coreutils cp new f
exe=/usr/bin/coreutils coreutils --coreutils-prog=cp new f
gcp new f
cp /dev/null f
cp /dev/stdin f
cp /dev/fd/63 f
cp fifo f
cp /proc/version f
mv -f new f
mv -- new f
install -m 644 new f
install -Dm755 new f
install -d a b c
ln -sf new f
ln -f new
tee f
tee -a f g
stdin=/tree/new tee f
'stdin=/tmp/x (deleted)' tee f
stdin=/dev/null tee f
dd of=f
dd if=new of=f status=none
dd if=/dev/zero of=f count=1
truncate -s 0 f
truncate -r build/app.js f
sponge f
cat
cat new
head -n 5 new
head -5 -
tail -c +3 new
echo x
printf '%s' x
tar xf -
tar xzf - -C dir
tar -x
tar x
tar --extract --file=-
tar xf host:b.tar
tar -C dir -xf new
unzip new
cpio -idm
cpio -i -F new
curl -o f https://example.org/f
curl -sSLO https://example.org/f
wget -O f https://example.org/f
rsync host:f f
rsync -a rsync://host/f f
rsync --server --sender .
rsync -e ssh new f
python -c x
python -c x < uv run python -c x < bash -c x
python -c x < uv --quiet run --with rich python -c x
python -c x < exe=/usr/bin/python3.11 python3 /usr/bin/poetry run python -c x
python3 fix.py < conda run -n env python3 fix.py
python3 -c x
python3.11 -Bc x
python3 -W ignore -X dev -c x
python3 -Wignore -c x
pypy3.10-c -c x
python3 -
python3
python3 - arg
python3 fix.py
python3 -u ./fix.py arg
exe=/usr/bin/python3.11 /tree/fix.py
exe=/usr/bin/python3.11 python3 /tree/fix.py
python3 -m tool
python3 -m tools
stdin=/tree/fix.py python3
node -e x
node --eval=x
node --eval x
node -p x
node -pe x
node -r fs -e x
node --input-type=module -e x
node --input-type module --eval x
exe=/usr/bin/nodejs nodejs -e x
node -
bun -e x
deno eval x
perl -e x
perl -E x
perl -pe x f
perl -i -pe x f
perl -i.bak -pe x f
perl -0777 -pi -e x f
perl -0777pe x f
perl -lane x f
perl -Mstrict -ne x f
perl -I lib -e x
perl -CSD -e x
perl5.36.0 -e x
perl
ruby -e x
ruby -rjson -e x
ruby -r json -ne x f
ruby -i.bak -pe x f
php -r x
php -d a=b -r x
lua5.4 -e x
lua -l mod -e x
Rscript -e x
julia -e x
elixir --eval x
tclsh
guile -c x
awk '{ print > "f" }' in
awk -F , -v a=b '{ print }' in
gawk -i inplace '{ print }' f
exe=/usr/bin/mawk awk '{ print }' in
awk -f fix.awk in
sed -i s/a/b/ f
sed -i.bak -e s/a/b/ f
sed -n -E s/a/b/ f
sed --in-place --expression=s/a/b/ f
gsed -i s/a/b/ f
jq . f
jq --indent 2 . f
yq -i .a=1 f
tee f < timeout 5 tee f < bash -c x
tee f < timeout -k 1 5 tee f < bash -c x
cp new f < xargs cp new < bash -c x
sh -c 'echo x > f' < xargs -0 -I{} sh -c 'echo x > {}' < bash -c x
tee f < find . -name f -exec tee {} ; < bash -c x
tee f < env -i A=1 tee f
env -S 'tee f'
script -qec 'echo x > f' typescript
sh -c 'echo x > f' < script -qec 'echo x > f' /dev/null < bash -c x
tee f < exe=/usr/bin/sudo.ws sudo -u root tee f < bash -c x
bash -c x < su -c x < bash -c x
tee f < doas tee f
tee f < unshare -r tee f
tee f < chroot / tee f
tee f < strace -f tee f
tee f < flock lock tee f
tee f < time -p tee f
tee f < exe=/usr/bin/perl perl /usr/bin/parallel tee < bash -c x
tee f < exe=/usr/bin/dash sh /usr/bin/command tee f
tee f < exe=/bin/busybox timeout 5 tee f
sh -c x < noclobber-exec -- sh -c x < bash -c x
tee f < exe=/usr/bin/python3.11 python /usr/bin/noclobber exec -- tee f
/lib64/ld-linux-x86-64.so.2 /usr/bin/cp new f
exe=/lib64/ld-linux-x86-64.so.2 ld.so --library-path /lib /bin/cp new f
'exe=/usr/bin/bash (deleted)' bash -c x
exe= bash -c x
exe= /bin/cp new f
'stdin=/tree/app.js' bash -c 'cat > f'
"""

DIRECT = """
python3 gen.py < uv run gen.py
cp build/app.js dist/ < bash -c x
cp -r src dist
cp new app.js dist
cp /dev/shm/app.js f
cp /tree/app.js f
mv app.js f
install -m644 app.js f
ln -sf app.js f
dd if=app.js of=f
stdin=/tree/app.js tee f
stdin=/tree/app.js dd of=f
stdin=/tree/app.js cp /dev/stdin f
exe=/bin/busybox cp app.js f
tar xf b.tar
tar -xf b.tar
tar --overwrite -xf b.tar
tar -C dir -zxf b.tar
tar xfC b.tar dir
tar --get --file b.tar
tar cf b.tar src
tar --create --file=b.tar -C src .
bsdtar -xf b.tar
unzip -o b.zip -d dir
cpio -i -F b.cpio
cpio -o
rsync -a src/ dst/
curl -o f file:///tree/app.js
python3 gen.py < bash -c x
python3 ./gen.py new
exe=/usr/bin/python3.11 python3 /tree/gen.py
exe=/usr/bin/python3.11 /tree/venv/bin/python /tree/venv/bin/black f
python3 -m json.tool in out
python3 -m compileall .
python3 -m gen
stdin=/tree/gen.py python3
node gen.js
node --max-old-space-size=4096 gen.js
node -r ts-node/register gen.ts
exe=/usr/bin/node node /tree/node_modules/.bin/prettier --write f
exe=/usr/bin/node node /tree/node_modules/.bin/tsc
bun gen.ts
deno run -A gen.ts
perl gen.pl
perl -w -I lib gen.pl
ruby gen.rb
php gen.php
php -f gen.php
lua gen.lua
Rscript gen.R
R --no-echo --file=gen.R
awk -f gen.awk in
gawk --file=gen.awk in
sed -i -f gen.sed f
sed --file gen.sed f
jq -f gen.jq f
vim -es f
exe=/usr/bin/vim.basic vim f
ed -s f
nano f
gcc -o f f.c
sqlite3 f.db
sort -o f f
gofmt -w f
go2rtc
cp2k in
make-doc
patch f p
find . -fprint f
java -jar gen.jar
dotnet gen.dll
swift gen.swift
./gen < bash -c x
cp new f < python3 gen.py < bash -c x
sh -c 'echo x > f' < python3 gen.py < bash -c x
bash -c 'echo x > f' < ./gen
cp new f < gen < xargs gen < bash -c x
python3 -c 'from multiprocessing.spawn import spawn_main' --multiprocessing-fork < python3 gen.py
gen < timeout 5 gen
exe=/bin/busybox patch f p
"""

DRIVEN = """
make
make -B < bash -c x
/usr/bin/gmake all
bmake
ninja
cmake -B build
cmake3 -B build
cc1 f.c < gcc f.c < sh -c 'gcc f.c' < make < bash -c make
sh -c 'echo x > f' < make
cp new f < sh -c 'cp new f' < make < bash -c make
tar xf - -C out < sh -c x < make
python3 gen.py < make docs < bash -c x
tee f < make < timeout 60 make
make < timeout 60 make < bash -c x
sh ./configure
bash gen.sh
./configure < exe=/usr/bin/dash /bin/sh ./configure
exe=/usr/bin/dash /bin/sh ./configure --prefix=/new < bash -c x
bash -x gen.sh
bash - gen.sh
bash -euo pipefail gen.sh
busybox sh gen.sh
stdin=/tree/build.sh bash
zsh gen.zsh
fish gen.fish
cp new f < bash gen.sh < bash -c x
python3 cut.py < exe=/usr/bin/dash /bin/sh ./rotate.sh < bash -c x
exe=/usr/bin/dash /bin/sh ./gradlew build
exe=/usr/bin/dash sh ./watch
git checkout f
git -C . apply p
/usr/lib/git-core/git-remote-https origin url
exe=/usr/lib/git-core/git git merge
sh -c x < git commit
exe=/usr/bin/dash /bin/sh .git/hooks/pre-commit < git commit -m x < bash -c x
hg update
svn update
npm install
exe=/usr/bin/node npm
exe=/usr/bin/node 'npm install dep'
exe=/usr/bin/node node /usr/bin/npm ci
exe=/usr/bin/node node /usr/lib/node_modules/npm/bin/npm-cli.js run build
exe=/usr/bin/node node /usr/lib/node_modules/npm/bin/npx-cli.js tsc
exe=/usr/bin/node node /usr/bin/yarn build
exe=/usr/bin/node node .yarn/releases/yarn-4.0.2.cjs build
exe=/usr/bin/node node /x/pnpm.cjs i
exe=/usr/bin/node node /tree/node_modules/.bin/jest
node gen.js < sh -c 'node gen.js' < exe=/usr/bin/node 'npm run gen' < bash -c x
node --test
cargo build
rustc f.rs < cargo build
exe=/root/.cargo/bin/rustup cargo build
cargo-clippy
go generate
go build ./...
exe=/usr/bin/python3.11 /tree/venv/bin/python /tree/venv/bin/pip install x
exe=/usr/bin/python3.11 python3 /usr/bin/pip3.11 install x
python3 -m pip install x
python3 -m pip.__main__ install x
python3.11 -I -m pytest -q
python3 -m unittest
python3 -m build
python3 -mpip install x
python3 -Bm pytest
pytest -q
exe=/usr/bin/python3.11 python3 /usr/bin/pytest -q
exe=/usr/bin/python3.11 python3 setup.py build
cp new f < exe=/usr/bin/python3.11 python3 /usr/bin/pytest -q < bash -c x
tox
uv pip install x
uv sync
poetry install
python3 gen.py < pdm run gen.py
pytest -q < uv run pytest -q
exe=/usr/bin/python3.11 python3 /usr/bin/meson setup build
exe=/usr/bin/perl perl /usr/bin/automake
exe=/usr/bin/perl /usr/bin/perl -w /usr/bin/autoreconf -i
exe=/usr/bin/ruby3.1 ruby /usr/bin/rake
exe=/usr/bin/ruby ruby /usr/bin/bundle exec x
exe=/usr/bin/php8.2 php /usr/bin/composer install
java -classpath m.jar -Dx=y org.codehaus.plexus.classworlds.launcher.Launcher package
java -jar gradle/wrapper/gradle-wrapper.jar build
java -cp x org.gradle.launcher.GradleMain
bazel build
just build
docker build .
bun install
bun run build
deno task build
dotnet build
swift build
exe= make
exe=/lib64/ld-linux-x86-64.so.2 ld.so /usr/bin/make
noclobber-exec -- make < make
"""


def rows(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


@pytest.mark.parametrize("text", rows(VOICED))
def test_voiced(text: str) -> None:
    walk = judge(chain(text), FACTS)
    assert walk.kind == "voiced", walk.steps


@pytest.mark.parametrize("text", rows(DIRECT))
def test_direct(text: str) -> None:
    walk = judge(chain(text), FACTS)
    assert walk.kind == "direct", walk.steps


@pytest.mark.parametrize("text", rows(DRIVEN))
def test_driven(text: str) -> None:
    walk = judge(chain(text), FACTS)
    assert walk.kind == "driven", walk.steps


def test_a_forked_child_is_what_its_parent_is() -> None:
    shell, generator, make = program("bash -c x"), program("python3 gen.py"), program("make")
    assert judge([replace(shell, forked=True), shell], FACTS).kind == "voiced"
    assert judge([replace(generator, forked=True), generator, shell], FACTS).kind == "direct"
    assert judge([replace(make, forked=True), make, shell], FACTS).kind == "driven"


def test_a_forked_child_runs_the_script_that_its_parent_was_started_with() -> None:
    parent = replace(program("bash fix.sh"), cwd="/tree")
    child = replace(parent, forked=True, cwd="/elsewhere")
    assert judge([child, parent], FACTS).kind == "voiced"


def test_the_script_is_looked_for_where_the_program_was_started() -> None:
    assert judge([replace(program("bash fix.sh"), cwd="/tree/sub")], FACTS).kind == "voiced"
    assert judge([replace(program("bash fix.sh"), cwd="/other")], FACTS).kind == "driven"


def test_nothing_known_is_direct() -> None:
    assert judge([], FACTS).kind == "direct"
    assert judge([Program(7, "", ())], FACTS).kind == "direct"
    vanished = [program("tee f"), Program(7, "", ()), program("bash -c x")]
    assert judge(vanished, FACTS).kind == "direct"


def with_agent(place: int) -> Facts:
    return replace(FACTS, is_agent=lambda pid: pid == 100 - place)


@pytest.mark.parametrize(
    ("text", "place", "kind"),
    [
        ("claude", 0, "voiced"),
        ("node agent.js", 0, "voiced"),
        ("bash -c x < node agent.js", 1, "voiced"),
        ("gen < node agent.js", 1, "direct"),
        ("make < bash -c x < node agent.js", 2, "driven"),
        ("bash -c x < node agent.js < make", 1, "voiced"),
        ("node /x/claude < exe=/usr/bin/node 'npm exec claude'", 1, "voiced"),
        ("bash -c x < node /x/claude < sh -c claude < exe=/usr/bin/node 'npm exec claude'", 3,
         "voiced"),
        ("gen < bash -c x < python3 agent.py < uv run agent.py", 3, "direct"),
        ("gen < bash", 1, "direct"),
        ("cc1 f.c < make", 1, "direct"),
    ],
)  # fmt: skip
def test_what_stands_above_the_agent_is_not_on_the_way(text: str, place: int, kind: str) -> None:
    assert judge(chain(text), with_agent(place)).kind == kind


def test_a_forked_child_of_the_agent_is_the_agent() -> None:
    agent = program("node agent.js", 100)
    child = replace(agent, pid=101, forked=True)
    assert judge([child, agent], with_agent(0)).kind == "voiced"


def test_the_steps_say_who_decided_and_why() -> None:
    walk = judge(chain("cp new f < python3 gen.py < bash -c x"), FACTS)
    assert [(step.program.pid, step.name, step.kind) for step in walk.steps] == [
        (100, "cp", "voiced"),
        (99, "python", "direct"),
        (98, "bash", "voiced"),
    ]
    assert "gen.py" in walk.steps[1].why
    assert "-c" in walk.steps[2].why


def test_names_that_are_no_text_survive() -> None:
    walk = judge([Program.known_by(1, b"/bin/cp", [b"cp", b"a\xff\n", b"b"])], FACTS)
    assert walk.kind == "direct"
    facts = replace(FACTS, source_is_own_text=lambda path: path == b"/a\xff\n")
    assert judge([walk.steps[0].program], facts).kind == "voiced"


# Real processes.


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until, "the process did not come up"
        time.sleep(0.01)


@contextmanager
def running(tree: Path, *argv: str, **more: object) -> Iterator[tuple[int, int]]:
    """The pid of the command and that of the writer below it, which waits on
    a FIFO and has put its pid into `pid`."""
    os.mkfifo(tree / "wait")
    command = subprocess.Popen(argv, cwd=tree, start_new_session=True, **more)  # type: ignore[call-overload]
    pid = tree / "pid"
    try:
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
        yield command.pid, int(pid.read_text())
    finally:
        os.killpg(command.pid, signal.SIGKILL)
        command.wait()


def test_gathers_a_shell_and_its_forked_child(tmp_path: Path) -> None:
    line = "(echo $BASHPID > pid; read x < wait); :"
    with running(tmp_path, "bash", "-c", line) as (command, writer):
        found = gather(writer, command)
    assert found.complete
    assert [p.pid for p in found.programs] == [writer, command]
    assert [p.forked for p in found.programs] == [True, False]
    assert found.programs[1].argv == ("bash", "-c", line)
    assert judge(found.programs, FACTS).kind == "voiced"


def test_gathers_wrappers_on_the_way(tmp_path: Path) -> None:
    line = "timeout 60 xargs -I{} sh -c 'echo $$ > pid; read x < wait; :' <<< x; :"
    with running(tmp_path, "bash", "-c", line) as (command, writer):
        walk = judge(gather(writer, command).programs, FACTS)
    assert walk.kind == "voiced"
    assert walk.steps[0].name in ("sh", "dash")
    assert [step.name for step in walk.steps][1:] == ["xargs", "timeout", "bash"]


def test_a_script_is_known_by_its_path(tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("#!/bin/sh\ncd /\necho $$ > $OLDPWD/pid; read x < $OLDPWD/wait\n")
    script.chmod(0o755)
    with running(tmp_path, "bash", "-c", "./job; :") as (command, writer):
        found = gather(writer, command).programs
        known = os.fsencode(script)
        mine = replace(FACTS, script_is_session_text=lambda path: path == known)
        assert judge(found, mine).kind == "voiced"
        assert judge(found, FACTS).kind == "driven"


def test_a_program_that_is_given_a_file_on_its_standard_input(tmp_path: Path) -> None:
    (tmp_path / "gen.py").write_text(
        "import os\nopen('pid', 'w').write(f'{os.getpid()}\\n')\nopen('wait').read()\n"
    )
    line = f"{sys.executable} - < gen.py; :"
    with running(tmp_path, "bash", "-c", line) as (command, writer):
        found = gather(writer, command).programs
    assert found[0].stdin == str(tmp_path / "gen.py")
    assert judge(found, FACTS).kind == "direct"


def test_what_the_harness_gave_to_the_command_is_the_agents(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("echo $$ > pid; read x < wait\n")
    launcher = "import subprocess as s; s.run(['bash', '-s'])"
    with (
        (tmp_path / "job").open() as stdin,
        running(tmp_path, sys.executable, "-c", launcher, stdin=stdin) as (_, writer),
    ):
        found = gather(writer, writer)
    assert found.complete and found.programs[0].stdin is None
    assert judge(found.programs, FACTS).kind == "voiced"


def test_an_orphan_keeps_what_was_recorded(tmp_path: Path) -> None:
    line = "(sh -c 'echo $$ > pid; read x < wait; :' &); sleep 60; :"
    with running(tmp_path, "bash", "-c", line) as (command, writer):
        wait_for(lambda: len(gather(writer, command).programs) == 1)
        found = gather(writer, command)
        assert not found.complete
        assert judge(found.programs, FACTS).kind == "voiced"
        record = {writer: [found.programs[0], program("make"), program("bash -c x")]}
        again = gather(writer, command, recorded=lambda pid: record.get(pid, ()))
        assert again.complete
        assert judge(again.programs, FACTS).kind == "driven"


def test_what_is_older_than_a_command_that_has_ended_is_not_on_the_way(tmp_path: Path) -> None:
    with running(tmp_path, "bash", "-c", "echo $$ > pid; read x < wait") as (command, _):
        since = started(command)
        found = gather(command, 2**22 - 1, since=since)
    assert since is not None
    assert [p.pid for p in found.programs] == [command]
    assert not found.complete


def test_a_process_that_has_vanished_is_nothing() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert gather(ended.pid, ended.pid).programs == ()
    assert started(ended.pid) is None
