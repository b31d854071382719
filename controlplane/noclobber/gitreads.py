"""Which git commands only look, and which write nothing but git's own store.

Data first: in the read-only tier what only looks may run, and `fetch`, whose
objects and remote refs are nobody's work. What is not known as a look is taken
for a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noclobber.gitargs import sort

LOOKS = frozenset(
    b"""status diff log show blame annotate shortlog describe grep rev-parse rev-list ls-files
    ls-tree ls-remote cat-file for-each-ref for-each-repo show-ref show-branch show-index name-rev
    merge-base merge-tree cherry diff-tree diff-index diff-files diff-pairs range-diff whatchanged
    count-objects fsck verify-commit verify-tag verify-pack var help version check-ignore check-attr
    check-mailmap check-ref-format column stripspace get-tar-commit-id patch-id interpret-trailers
    request-pull last-modified repo difftool fast-export credential credential-cache
    credential-store upload-pack upload-archive""".split()
)

# What a fetch, a status or a log starts below itself.
BELOW = frozenset(
    b"""unpack-objects index-pack pack-objects maintenance gc repack pack-refs prune prune-packed
    multi-pack-index commit-graph fetch-pack fsmonitor--daemon remote-https remote-http
    remote-ext remote-fd remote-ftp submodule--helper submodule bundle-uri credential-osxkeychain
    remote-ftps http-fetch update-server-info reflog""".split()
)

# Names that no alias can hide and that are no look in every form.
CHANGES = frozenset(
    b"""add am apply archive bisect branch bundle checkout checkout-index cherry-pick clean clone
    commit commit-graph commit-tree config fast-import fetch filter-branch format-patch gc
    hash-object init init-db maintenance merge merge-file merge-index mktag mktree
    multi-pack-index mv notes pack-objects pack-refs prune pull push quiltimport read-tree rebase
    receive-pack reflog remote
    repack replace replay rerere reset restore revert rm send-email send-pack sparse-checkout stage
    stash submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
    update-server-info worktree write-tree history backfill refs""".split()
)

KNOWN = LOOKS | BELOW | CHANGES

# May be started anywhere: what they write lies where they are told to.
ELSEWHERE = frozenset((b"clone", b"init", b"init-db"))


def _names_one(*names: bytes) -> Callable[[Sequence[bytes]], bool]:
    """Its first plain word is one of these (an empty name: it has none)."""

    def judge(words: Sequence[bytes]) -> bool:
        plain = sort(words).plain
        return (plain[0] if plain else b"") in names

    return judge


def _lists_branches(words: Sequence[bytes]) -> bool:
    valued = (b"--contains", b"--no-contains", b"--merged", b"--no-merged", b"--points-at",
              b"--sort", b"--format", b"--column", b"--abbrev", b"--color")  # fmt: skip
    found = sort(words, valued)
    changing = (b"-d", b"-D", b"-m", b"-M", b"-c", b"-C", b"-f", b"-u", b"-t", b"--delete",
                b"--move", b"--copy", b"--force", b"--set-upstream-to", b"--unset-upstream",
                b"--edit-description", b"--track", b"--create-reflog")  # fmt: skip
    if any(found.has(name) for name in changing):
        return False
    lists = (b"-l", b"--list", b"-a", b"--all", b"-r", b"--remotes", b"-v", b"--show-current",
             *valued[:5])  # fmt: skip
    return not found.plain or any(found.has(name) for name in lists)


def _lists_tags(words: Sequence[bytes]) -> bool:
    valued = (b"--contains", b"--no-contains", b"--merged", b"--no-merged", b"--points-at",
              b"--sort", b"--format")  # fmt: skip
    found = sort(words, valued)
    if any(found.has(name) for name in (b"-d", b"-a", b"-s", b"-u", b"-m", b"-F", b"-f")):
        return False
    lists = (b"-l", b"--list", b"-n", b"-v", *valued[:5])
    return not found.plain or any(found.has(name) for name in lists)


def _reads_config(words: Sequence[bytes]) -> bool:
    found = sort(words, (b"-f", b"--file", b"--blob", b"--type", b"--default", b"-t"))
    looks = (b"--get", b"--get-all", b"--get-regexp", b"--get-urlmatch", b"-l", b"--list",
             b"--get-color", b"--get-colorbool")  # fmt: skip
    if any(found.has(name) for name in looks):
        return True
    if found.plain[:1] in ([b"get"], [b"list"]):
        return True
    changing = (b"--add", b"--unset", b"--unset-all", b"--replace-all", b"-e", b"--edit",
                b"--rename-section", b"--remove-section")  # fmt: skip
    return len(found.plain) == 1 and not any(found.has(name) for name in changing)


def _fetches(words: Sequence[bytes]) -> bool:
    """Into the refs of remotes alone."""
    valued = (b"-j", b"--depth", b"--deepen", b"-o", b"--upload-pack", b"--refmap",
              b"--shallow-since", b"--shallow-exclude", b"--negotiation-tip")  # fmt: skip
    found = sort(words, valued)
    targets = [word.partition(b":")[2] for word in found.plain[1:] if b":" in word]
    return all(target.startswith(b"refs/remotes/") for target in targets if target)


_FORMS: dict[bytes, Callable[[Sequence[bytes]], bool]] = {
    b"branch": _lists_branches,
    b"tag": _lists_tags,
    b"config": _reads_config,
    b"fetch": _fetches,
    b"remote": _names_one(b"", b"show", b"get-url", b"update"),
    b"stash": lambda words: list(words[:1]) in ([b"list"], [b"show"]),
    b"reflog": _names_one(b"", b"show", b"exists", b"list"),
    b"notes": _names_one(b"", b"list", b"show"),
    b"worktree": _names_one(b"list"),
    b"submodule": _names_one(b"", b"status", b"summary", b"foreach"),
    b"submodule--helper": _names_one(b"status", b"summary", b"foreach", b"list", b"name"),
    b"bundle": _names_one(b"verify", b"list-heads"),
    b"symbolic-ref": lambda words: len(sort(words).plain) == 1 and not sort(words).has(b"-d"),
    b"hash-object": lambda words: not sort(words).has(b"-w"),
    b"bisect": _names_one(b"log", b"view", b"visualize", b"terms"),
    b"sparse-checkout": _names_one(b"list"),
    b"rerere": _names_one(b"status", b"diff", b"remaining"),
}


def is_look(name: bytes, words: Sequence[bytes]) -> bool:
    """Whether a command changes nothing, or what a fetch may. No name: git
    says how it is used."""
    form = _FORMS.get(name)
    return form(words) if form else not name or name in LOOKS
