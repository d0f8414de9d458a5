"""Opens a page in headless Chromium and returns its HTML, its console and a screenshot."""
import os
import re
import shutil
import subprocess
import tempfile

from support import ROOT, skip

PICTURES = os.path.join(ROOT, "build", "screenshots")


def chromium():
    found = shutil.which("chromium")
    if found is None:
        skip("no Chromium: install Debian's package chromium to test pages in a browser")
    return found


def run(page, *options, home):
    """stdout and stderr of one call, with a temporary home and no network."""
    command = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--no-first-run", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND",
               "--hide-scrollbars", f"--user-data-dir={home}", "--enable-logging=stderr", "--virtual-time-budget=10000",
               *options, "file://" + os.path.abspath(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": home})
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done


def open_page(page, script="", dark=False, picture=None):
    """(the page's HTML after its scripts ran, lines of its console). `script` runs after them; `picture`: where a
    screenshot goes, under build/screenshots."""
    with tempfile.TemporaryDirectory(prefix="truemax-browser-") as home:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        opened = os.path.join(home, "page.html")
        with open(opened, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", f"<script>{script}</script></body>") if script else text)
        look = ["--blink-settings=preferredColorScheme=0"] if dark else []
        done = run(opened, "--dump-dom", *look, home=home)
        if picture:
            os.makedirs(PICTURES, exist_ok=True)
            run(opened, f"--screenshot={os.path.join(PICTURES, picture)}", "--window-size=1280,2400", *look, home=home)
        console = [line for line in done.stderr.splitlines() if re.search(r"\bCONSOLE\b|Uncaught", line)]
        return done.stdout, console
