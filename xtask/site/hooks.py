"""MkDocs hooks: includes pages that live outside docs/, and turns links to other repository files into source links.

`<!-- include: ../ARCHITECTURE.md -->` on a line by itself is replaced by that file. A link whose target is outside
docs/ must be an existing file or folder of the repository; it becomes a link to the repository browser. A missing target
is a warning, which `--strict` turns into an error.
"""

import logging
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)

# Pages without a side bar: the start page, and pages that are alone in their section.
ALONE = {"index.md": ["navigation", "toc"], "tutorial.md": ["navigation"], "concepts.md": ["navigation"], "faq.md": ["navigation"]}

log = logging.getLogger("mkdocs.hooks")


def resolve(folder, target):
    return pathlib.Path(os.path.normpath(folder / target))


def rebase(text, source, page):
    """Rewrites the relative links of `text`, which was written for the folder `source`, for a page in docs/."""

    def link(match):
        target = match.group(2)
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        path = resolve(source, target)
        return match.group(1) + os.path.relpath(path, page) + (match.group(3) or "") + match.group(4)

    return outside_code(LINK, link, text)


def outside_code(pattern, replace, text):
    """Applies a replacement to everything but fenced code."""
    parts, last = [], 0
    for fence in FENCE.finditer(text):
        parts.append(pattern.sub(replace, text[last : fence.start()]))
        parts.append(fence.group(0))
        last = fence.end()
    parts.append(pattern.sub(replace, text[last:]))
    return "".join(parts)


def on_page_markdown(markdown, page, config, files):
    folder = (DOCS / page.file.src_path).parent
    page.meta.setdefault("hide", ALONE.get(page.file.src_uri, []))

    def include(match):
        path = resolve(folder, match.group(1))
        if not path.is_file():
            log.warning("%s includes %s, which does not exist", page.file.src_path, match.group(1))
            return ""
        return rebase(path.read_text(encoding="utf-8"), path.parent, folder)

    included = set()
    for match in INCLUDE.finditer(markdown):
        included.add(resolve(folder, match.group(1)))
    markdown = INCLUDE.sub(include, markdown)
    repository = config["repo_url"].rstrip("/")
    # Pages that include a file of the repository, so that links to the file lead to the page.
    homes = {ROOT / "ARCHITECTURE.md": "architecture.md", ROOT / "CONTRIBUTING.md": "contributing.md",
             ROOT / "CHANGELOG.md": "changelog.md", ROOT / "README.md": "index.md"}

    def link(match):
        target, anchor = match.group(2), match.group(3) or ""
        if re.match(r"[a-z]+:", target):
            return match.group(0)
        path = resolve(folder, target)
        if DOCS in path.parents or path == DOCS:
            return match.group(0)
        if not path.exists():
            log.warning("%s links to %s, which does not exist", page.file.src_path, target)
            return match.group(0)
        if path in homes and path not in included:
            # README.md has no page of its own: its headings are not on the start page.
            anchor = "" if path.name == "README.md" else anchor
            return match.group(1) + os.path.relpath(DOCS / homes[path], folder) + anchor + match.group(4)
        kind = "tree" if path.is_dir() else "blob"
        return f"{match.group(1)}{repository}/{kind}/main/{path.relative_to(ROOT)}{anchor}{match.group(4)}"

    return outside_code(LINK, link, markdown)
