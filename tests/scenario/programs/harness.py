"""A coding agent's harness in one process: Read, Write and Edit, as many have
them, and an agent that is a list of steps.

    harness.py [--api] STEPS

STEPS is JSON: a list of [tool, argument...]. Prints the tools' results as
JSON; what a tool raises is a result, too, as in any harness. With --api it
says what it showed: that takes the two lines that are marked.
"""

import json
import sys
from pathlib import Path

LINES = 1000  # of a file that Read returns at one time


class Tools:
    def __init__(self, with_api: bool) -> None:
        self.session = None
        self.last = ""  # what Read returned, without its line numbers
        if with_api:
            from noclobber import Session

            self.session = Session()  # one

    def read(self, path: str, offset: int = 1) -> str:
        lines = Path(path).read_text().splitlines()
        page = lines[offset - 1 : offset - 1 + LINES]
        last = offset + len(page) - 1
        notice = "" if last == len(lines) else f"\n(showing lines {offset}-{last} of {len(lines)})"
        if self.session:
            self.session.shown(path, lines=(offset, last))  # two
        self.last = "\n".join(page) + "\n"
        return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(page, offset)) + notice

    def write(self, path: str, text: str) -> str:
        Path(path).write_text(text)
        return "written"

    def write_back(self, path: str) -> str:
        return self.write(path, self.last)

    def edit(self, path: str, old: str, new: str) -> str:
        text = Path(path).read_text()
        if text.count(old) != 1:
            raise ValueError(f"{text.count(old)} matches")
        return self.write(path, text.replace(old, new))

    def may_write(self, path: str) -> str:
        assert self.session
        return self.session.may_replace(path).verdict


def main() -> None:
    words = sys.argv[1:]
    tools = Tools("--api" in words)
    results = []
    for tool, *arguments in json.loads(words[-1]):
        try:
            results.append(getattr(tools, tool)(*arguments))
        except Exception as error:
            results.append(f"error: {error}")
    print(json.dumps(results))


main()
