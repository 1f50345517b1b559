#!/usr/bin/env python3
"""Checks the documentation: links between pages and to files, and line widths.

    tests/text.py      prints each error as file:line: message; exit status 1 if there are any

Prose in Markdown and comments in Rust and shell scripts are wrapped at 120 columns; tables, code blocks, links and generated
files are exempt. Spelling is checked by typos (see ./test).
"""
import functools
import pathlib
import re
import subprocess
import sys

WIDTH = 120
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
COMMENT = {".rs": "//", ".sh": "#", ".toml": "#", "": "#"}


@functools.cache
def anchors(path):
    """Returns the anchors of a page: those of its headings, by the rules of GitHub, and explicit ones."""
    found, fenced = set(), False
    for line in path.read_text().splitlines():
        if FENCE.match(line):
            fenced = not fenced
        found.update(re.findall(r'<a id="([^"]+)">', line))
        heading = re.match(r"#{1,6} +(.*)", line)
        if heading and not fenced:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            number = 0
            while (name := f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(name)
    return found


def check_links(path, number, line, root):
    for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name) if name else path
        if not page.exists():
            yield f"{path.relative_to(root)}:{number}: link to {target}: no such file"
        elif anchor and page.suffix == ".md" and anchor not in anchors(page):
            yield f"{path.relative_to(root)}:{number}: link to {target}: no such heading"


def check_page(path, root):
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        yield from check_links(path, number, line, root)
        prose = not re.match(r"\s*\||\s{4,}|\s*!?\[", line)
        if prose and len(line) > WIDTH:
            yield f"{path.relative_to(root)}:{number}: {len(line)} columns; wrap prose at {WIDTH}"


def check_paths(path, root, names):
    """Checks that each path in the architecture page matches one file, or a directory."""
    folders = {str(parent) + "/" for name in names for parent in pathlib.PurePath(name).parents if str(parent) != "."}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for code in re.findall(r"`([^`]*)`", line):
            if not re.fullmatch(r"[\w./-]+(/|\.(rs|c|h|md|toml|txt|py))", code) or re.search(r"[A-Z]{4,}/", code):
                continue
            known = folders if code.endswith("/") else names
            found = [name for name in known if name == code or name.endswith("/" + code)]
            if not found or (len(found) > 1 and not code.endswith("/")):
                yield f"{path.relative_to(root)}:{number}: `{code}` names {len(found)} files; expected one: {' '.join(found)}"


def check_comments(path, root):
    mark = COMMENT.get(path.suffix)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        # Code in a comment is indented; tables have wide rows.
        if re.match(r"\s*(//[/!]?|#)( {3,}| \|)", line):
            continue
        if mark and line.lstrip().startswith(mark) and len(line.expandtabs(4)) > WIDTH:
            yield f"{path.relative_to(root)}:{number}: {len(line)} columns; wrap comments at {WIDTH}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    names = list(filter(None, names.split("\0")))
    faults = list(check_paths(root / "docs/ARCHITECTURE.md", root, names))
    for name in names:
        path = root / name
        if not path.is_file():
            continue
        if path.suffix == ".md":
            faults += check_page(path, root)
        elif path.suffix in (".rs", ".toml") or (path.suffix == "" and path.open("rb").read(2) == b"#!"):
            faults += check_comments(path, root)
    print("\n".join(faults) if faults else "links and widths: ok")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
