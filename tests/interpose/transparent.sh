# What test_transparency.py runs, bare and guarded: a section for each, with the
# programs that it needs. FDS stands for a program that prints what is open.

### cat
cat words sub/deep/more.txt

### head-tail
head -n 5 words
tail -n 3 words
head -c 100 words | tail -c 9

### head-gives-back
{ head -n 2 >/dev/null; head -n 1; } < words

### wc-sums
wc words
md5sum words
sha256sum sub/deep/*
cksum words
du -ab sub

### cut-paste: column
cut -d' ' -f2 words | paste - - | column -t | head
nl words | tail -n 2

### sort-uniq
sort -k2,2n words | uniq -c | head -n 20
sort -u -o sorted words
comm sorted words

### tac-rev
tac words | rev | fold -w 9 | head -n 30
shuf --random-source=words words | head

### split-join
split -l 300 words part-
join -1 1 -2 1 <(sort words) <(sort words) | tail

### cp-mv-ln
cp -a sub copy
mv words moved
ln -s moved link
ln moved hard
cat link hard | wc

### install-dd
install -m 640 words installed
dd if=words of=dd.out bs=7 count=9 2>&1 | head -n 2

### tee-append
echo more | tee -a words
echo x >> words
tail -n 3 words

### truncate-new
truncate -s 4096 fresh
stat -c '%s %a' fresh
: > fresh2
ls -l fresh2 | cut -c1-10

### rm-tree
rm -rf sub
rm words
ls
rm missing

### chmod-touch
chmod 600 words
touch -d @0 words
stat -c '%a %Y' words
mkdir -p a/b/c
rmdir a/b/c

### sed
sed -n '3,6p;$p' words
sed -i 's/word/W/' words
sed -e 's/1/one/g' words | md5sum

### sed-many
sed -i.bak '1d' words sub/deep/more.txt
ls -A
head -n 1 words

### awk
awk '{ s += $2; n[$3]++ } END { print s; for (k in n) m++; print m }' words

### awk-writes
awk '{ print $1 > ("out." NR % 3) }' words
wc -l out.*

### grep
grep -rn word7 . | sort | head
grep -c 1 words
grep -q nothing words
echo $?

### grep-fails
grep x missing
grep -E '(' words
echo $?

### find
find . -type f -newer sub -o -name '*.txt' | sort
find . -size +1k -exec wc -c {} + | sort

### find-deletes
find sub -name '*.txt' -delete
find . | sort

### xargs
seq 50 | xargs -n 7 echo
ls | xargs -P 2 -I{} sh -c 'test -d {} || wc -c < {}' | sort

### tar
tar cf a.tar sub words
tar tf a.tar
mkdir x
tar xf a.tar -C x
diff -r sub x/sub && echo ok

### gzip
gzip -nk words
gunzip -c words.gz | cmp - words
gzip -n9 words
ls
zcat words.gz | tail -n1

### xz: xz
xz -k words
xz -dc words.xz | md5sum
xz -l words.xz | wc -l

### zip: zip
zip -qX a.zip words
unzip -p a.zip | md5sum
unzip -o a.zip -d y | tail -n 1

### diff-patch: patch
sed 's/word3/WORD/' words > new
diff -u --label a --label b words new > p
wc -l p
patch words < p
cmp words new && echo same

### diff3-cmp
cp words w2
echo z >> w2
cmp words w2
diff -q words w2
sdiff -s words w2

### ed: ed
printf '2d\n1,3p\nw\nq\n' | ed -s words
head -n 2 words

### bc-expr: bc
echo '2^70; 10/3' | bc -q
expr 3 \* 9
seq -s, 9
factor 91
date -u -d @0 +%F
printf '%05d\n' 7

### env-timeout
env -i X=1 sh -c 'echo $X'
timeout 5 true
timeout .1 sleep 5
echo $?
nice echo n
nohup true

### status
sh -c 'exit 42'
echo $?
sh -c 'kill -9 $$'
echo $?
false
echo $?
exit 7

### script
./script.sh arg
echo $?
cat picked

### dash: dash
dash -c 'x=1; for i in a b c; do echo $i$x; done; { read l; echo "$l"; } < words; exit 4'

### python
python3 -c 'import json,sys,os; t=open("words").read(); print(len(t), sorted(set(t))[:5]); open("py.json","w").write(json.dumps({"n": t.count("word")})); sys.exit(3)'

### python-rewrites
python3 -c 'p="words"; t=open(p).read(); open(p,"w").write(t.upper())'
head -n 2 words

### python-processes
python3 -c 'import subprocess as s; print(s.run(["cat","words"],capture_output=True).stdout[-9:]);print(s.check_output("wc -l < words",shell=True)); import multiprocessing as m; m.set_start_method("fork");p=m.Pool(2); print(p.map(abs,[-1,-2])); p.close(); p.join()'

### node: node
node -e 'const f=require("fs"),c=require("child_process"); f.writeFileSync("n.txt", f.readFileSync("words","utf8").toUpperCase()); console.log(c.execSync("wc -l < n.txt")+""); f.cpSync("sub","nsub",{recursive:true}); f.rmSync("sub",{recursive:true}); process.exitCode=5'

### perl: perl
perl -ne 'print if /word7$/' words | tail -n 2
perl -i -pe 's/word/w/' words
perl -e 'open F,"<words"; seek F,-9,2; print <F>; unlink "words" or die; print `ls`'

### git: git
git init -q -b main .
git add -A
git commit -qm one
echo x >> words
git commit -qam two
git log --oneline --format='%s %an'
git checkout -q HEAD~1
tail -n 1 words
git status -s
git checkout -q main
git stash list
git mv words w
git diff --cached --stat
git gc -q
git fsck

### git-merge: git
git init -q -b main .
git add -A
git commit -qm one
git checkout -qb b
sed -i 1d words
git commit -qam b
git checkout -q main
echo e >> words
git commit -qam m
git merge -q b -m mm
git rebase -q HEAD~1
git log --format=%s
git reset -q --hard HEAD~1
git clean -nd
wc -l words

### make-gcc: make
make CC=gcc
./hello
./hello a b
echo $?
touch greeting.h
make CC=gcc
make -n
size hello | wc -l

### gcc-fails: gcc
echo 'int main(' > bad.c
gcc bad.c -o bad
echo $?
ls bad 2>&1

### ar-strip: gcc
gcc -c hello.c
ar rcs lib.a hello.o
nm lib.a | grep -c main
objdump -h hello.o | wc -l

### sqlite3: sqlite3
sqlite3 d.db 'create table t(a,b); insert into t values(1,2),(3,4); update t set b=9 where a=3; select * from t; pragma journal_mode=wal; delete from t; vacuum; pragma integrity_check'

### vim: vim
vim -Nu NONE -es -c '%s/word/VIM/g' -c 'wq' words </dev/null
head -n 2 words
ls -A

### rsync: rsync
rsync -a sub/ copied/
rsync -a --delete sub/ copied/
diff -r sub copied && echo same

### jq: jq
echo '{"a":[1,2]}' > j
jq -c .a j
jq '.b=1' j > j2 && mv j2 j
cat j
jq . missing
echo $?

### m4-tclsh: tclsh
echo 'define(x,y)x' | tclsh
echo 'puts [exec cat words | wc -l]' | tclsh

### rust: rustc
echo 'fn main(){println!("{}", 6*7)}' > m.rs
rustc -o m m.rs && ./m

### descriptors
FDS
FDS 7< words 9>> new
(exec FDS 5<&0)
python3 -c 'import os; print(sorted(os.listdir("/proc/self/fd"), key=int)[:-1])'
ls /proc/self/fd | wc -l

### descriptors-python
python3 -c 'import subprocess as s, os; f=open("words"); f.read(9); open("new","w").write("x"); print(os.dup(f.fileno()), f.fileno()); print(s.run(["FDS"],close_fds=False,capture_output=True).stdout); print(s.run(["FDS"],capture_output=True).stdout)'

### descriptors-after-a-question
python3 -c 'import os; p="words"; t=open(p).read(); f=open(p,"w"); f.write(t); f.close(); print(os.open(p,0)); os.execlp("FDS","FDS")'

### limits
(ulimit -n 6; sed -i s/word/q/ words; tail -n 1 words)
(ulimit -f 1; cat words words > big)
echo $?

### closed
cat words <&- | head -n 1
(exec 0<&- 1>&- 2>&-; cp words other)
cmp words other && echo same
