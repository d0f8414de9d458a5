"""What mkdocs does not do by itself: the pages at the root of the repository are part of the site, and the search works
from disk, where a browser reads no JSON file."""
import os
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")


def on_files(files, config):
    for page in PAGES:
        files.append(File(page, ROOT, config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    """On the site all pages are in one folder."""
    if page.file.src_uri in PAGES:
        return re.sub(r"\]\(docs/", "](", markdown)
    return re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, PAGES))})", r"](\1", markdown)


def cell(match):
    """GitHub shows `a\\|b` in a table as a|b; Python-Markdown leaves the backslash in code. Lists of values may break
    there, numbers with their error may not, and sentences do not become columns of one word."""
    attributes, text = match.groups()
    text = text.replace("\\|", "|<wbr>").replace(" ± ", "&nbsp;±&nbsp;")
    words = ' class="words"' if len(re.sub(r"<.*?>", "", text)) > 24 else ""
    return f"<td{attributes}{words}>{text}</td>"


def on_page_content(html, page, config, files):
    return re.sub(r"<td(.*?)>(.*?)</td>", cell, html, flags=re.S)


def on_post_build(config):
    folder = os.path.join(config["site_dir"], "search")
    with open(os.path.join(folder, "search_index.json"), encoding="utf-8") as file:
        index = file.read()
    with open(os.path.join(folder, "index.js"), "w", encoding="utf-8") as file:
        file.write(f"var __search = {{ index: Promise.resolve({index}) }};\n")
