"""A MkDocs hook: adds the README as the first page, and the repository files that pages link to.

Links of the pages are relative paths that work in a clone. Those that lead out of `docs` would lead out of the site, so
their targets are copied into it: text files unchanged, below `files`.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
# Pages of the repository that become pages of the site.
PAGES = {"README.md": "index.md"}


def _target(page: str, link: str) -> str | None:
    """Returns the path of a link in the repository, if its target is a file outside `docs`."""
    if re.match(r"[a-z]+:", link) or link.startswith("/"):
        return None
    path = normpath(f"{dirname(page)}/{link}" if dirname(page) else link)
    return None if path.startswith("docs/") or not (ROOT / path).exists() else path


def _rewritten(text: str, page: str, place: str, files: set[str]) -> str:
    """Returns a page with links that lead to the same files within the site.

    ``page`` is its path in the repository, ``place`` its path in the site; ``files`` collects the files to copy.
    """

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if page in PAGES and link.startswith("docs/"):
            return f"{before}{link.removeprefix('docs/')}{after}"
        path = _target(page, link)
        if path is None:
            return match.group(0)
        if path in PAGES:
            return f"{before}{relpath(PAGES[path], dirname(place) or '.')}{after}"
        files.add(path)
        # Browsers display a text only if its extension is known to them.
        return f"{before}{relpath('files/' + path + '.txt', dirname(place) or '.')})"

    return LINK.sub(replace, text)


def _content(path: str) -> str:
    """Returns the content that represents a file or folder of the repository on the site: its text, or the names in it."""
    source = ROOT / path
    if source.is_dir():
        return "".join(f"{found.name}\n" for found in sorted(source.iterdir()))
    return source.read_text("utf-8")


def _anchor(text: str, separator: str) -> str:
    """Returns the anchor that GitHub generates for a heading; the links of the pages use it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def on_config(config):
    config.mdx_configs.setdefault("toc", {})["slugify"] = _anchor
    return config


def on_files(files, config):
    """Adds the first page and the files that pages link to."""
    named: set[str] = set()
    for page, place in PAGES.items():
        text = _rewritten((ROOT / page).read_text("utf-8"), page, place, named)
        text = re.sub(r'(src="|\]\()docs/', r"\1", text)
        files.append(File.generated(config, place, content=text))
    for file in list(files.documentation_pages()):
        if file.src_uri in PAGES.values():
            continue
        source = Path(file.abs_src_path)
        _rewritten(source.read_text("utf-8"), f"docs/{file.src_uri}", file.src_uri, named)
    for path in sorted(named):
        place = f"files/{path}.txt"
        files.append(File.generated(config, place, content=_content(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Redirects links out of `docs` to the copies."""
    uri = page.file.src_uri
    if uri in PAGES.values():
        return markdown
    return _rewritten(markdown, f"docs/{uri}", uri, set())
