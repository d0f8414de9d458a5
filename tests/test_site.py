#!/usr/bin/python3
"""The documentation site builds without warnings, every link and anchor of it leads somewhere, every page is in the
navigation, nothing is loaded from elsewhere, and the search works from disk."""
import glob
import html.parser
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.parse

import browser
from support import ROOT, skip

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"), ("video", "src"),
          ("audio", "src"), ("object", "data"), ("embed", "src"), ("img", "srcset"), ("source", "srcset")}


class Page(html.parser.HTMLParser):
    """The anchors of a page, where it links to, what it loads, and its headings."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads, self.headings, self.classes = set(), [], [], 0, set()
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        self.headings += tag == "h1"
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif (tag, name) in LOADED:
                if (tag, dict(attrs).get("rel")) != ("link", "canonical"):
                    self.loads.append(value)
            elif name == "class":
                self.classes.update((value or "").split())
            elif name == "style" and "url(" in (value or ""):
                self.loads.append(re.search(r"url\(['\"]?([^'\")]*)", value)[1])


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            from mkdocs.utils import get_theme_names
        except ModuleNotFoundError:
            skip("no mkdocs: install Debian's packages mkdocs and mkdocs-material, or run ./dev docs")
        if "material" not in get_theme_names():
            skip("no theme material: install Debian's package mkdocs-material, or run ./dev docs")
        cls.folder = tempfile.mkdtemp(prefix="truemax-site-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.built = subprocess.run(["mkdocs", "build", "--quiet", "--strict", "--site-dir", cls.folder], cwd=ROOT,
                                   capture_output=True, text=True, check=False)
        cls.pages = {os.path.relpath(path, cls.folder): Page(path)
                     for path in glob.glob(os.path.join(cls.folder, "**", "*.html"), recursive=True)}

    def test_builds_without_a_warning(self):
        self.assertEqual((self.built.returncode, self.built.stdout + self.built.stderr), (0, ""))
        self.assertGreater(len(self.pages), 15)

    def test_every_page_is_in_the_navigation(self):
        import yaml
        with open(os.path.join(ROOT, "mkdocs.yml"), encoding="utf-8") as file:
            nav = yaml.safe_load(file)["nav"]

        def files(entry):
            if isinstance(entry, str):
                return [entry]
            return [name for part in (entry.values() if isinstance(entry, dict) else entry) for name in files(part)]
        docs = os.path.join(ROOT, "docs")
        there = [os.path.relpath(path, docs) for path in glob.glob(os.path.join(docs, "**", "*.md"), recursive=True)]
        self.assertEqual(sorted(files(nav)), sorted([*there, "ARCHITECTURE.md", "CONTRIBUTING.md"]))

    def target(self, page, link):
        """(path in the site, fragment) of a link inside the site; None for others."""
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        path = os.path.normpath(os.path.join(os.path.dirname(page), urllib.parse.unquote(parts.path))) if parts.path else page
        return path, urllib.parse.unquote(parts.fragment)

    def test_links_and_anchors_resolve(self):
        seen = 0
        for page, content in self.pages.items():
            if page == "404.html":  # its links are those of a server
                continue
            for link in content.links + content.loads:
                found = self.target(page, link)
                if found is None:
                    continue
                seen += 1
                path, fragment = found
                with self.subTest(page, link=link):
                    self.assertTrue(os.path.isfile(os.path.join(self.folder, path)), path)
                    if fragment:
                        self.assertIn(fragment, self.pages[path].anchors)
        self.assertGreater(seen, 500)

    def test_nothing_is_loaded_from_elsewhere(self):
        for page, content in self.pages.items():
            for loaded in content.loads:
                with self.subTest(page):
                    self.assertIsNotNone(self.target(page, loaded) or loaded.startswith("data:") or None, loaded)
            self.assertNotIn("mermaid", content.classes, "the theme would load mermaid from a host")
        for path in glob.glob(os.path.join(self.folder, "**", "*.css"), recursive=True):
            with open(path, encoding="utf-8") as file:
                for address in re.findall(r"url\(['\"]?([^'\")]*)|@import ['\"]([^'\"]*)", file.read()):
                    self.assertNotRegex("".join(address), r"^(https?:)?//", path)

    def test_every_page_has_one_title(self):
        for page, content in self.pages.items():
            if page != "404.html":
                self.assertEqual(content.headings, 1, page)

    def test_no_page_names_a_machine_or_its_folders(self):
        words = [re.escape(ROOT), r"/home/\w", r"/root/", r"/work/", r"/tmp/"]
        if len(socket.gethostname()) > 5:
            words.append(re.escape(socket.gethostname()))
        for page in self.pages:
            with open(os.path.join(self.folder, page), encoding="utf-8") as file:
                self.assertIsNone(re.search("|".join(words), file.read()), page)

    def opened(self, page):
        """The HTML of a page after its scripts ran, its console, and what it asked other hosts for."""
        with tempfile.TemporaryDirectory(prefix="truemax-browser-") as home:
            log = os.path.join(home, "net.json")
            done = browser.run(os.path.join(self.folder, page), "--dump-dom", f"--log-net-log={log}", home=home)
            with open(log, encoding="utf-8") as file:
                # The number is Chromium's for requests of a page; it makes some of its own.
                asked = re.findall(r'"traffic_annotation":101845102,"url":"(https?:[^"]*)"', file.read())
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line], asked

    def test_search_works_from_disk_and_asks_for_nothing(self):
        html, console, asked = self.opened("index.html?q=ridge")
        found = re.search(r'class="md-search-result__meta">\s*(\d+) matching', html)
        self.assertIsNotNone(found, console)
        self.assertGreater(int(found[1]), 4)
        self.assertEqual((console, asked), ([], []))

    def test_requests_to_other_hosts_are_noticed(self):
        with open(os.path.join(self.folder, "probe.html"), "w", encoding="utf-8") as file:
            file.write('<script src="https://example.org/x.js"></script>')
        self.addCleanup(os.remove, os.path.join(self.folder, "probe.html"))
        self.assertEqual(self.opened("probe.html")[2], ["https://example.org/x.js"])


if __name__ == "__main__":
    unittest.main()
