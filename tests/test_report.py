#!/usr/bin/python3
"""`truemax report`: run logs become a page that works in a browser, and bad logs are refused."""
import json
import os
import re
import unittest

import browser
from support import ProgramTest, RefusalTest


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


class Report(ProgramTest):
    def logs(self):
        data = self.generate("data.txt", "--test", "test.txt", "--test-rows", 50)
        for method in ("implicit", "umax"):
            self.fine("train", data, "--test", "test.txt", "--method", method, "--epochs", 4, "--eval-every", 1, "--model",
                      "none", "--log", f"{method}.jsonl")
        return ["implicit.jsonl", "umax.jsonl"]

    def test_page_shows_what_the_logs_contain(self):
        self.fine("report", *self.logs(), "--out", "page.html")
        data = data_of(self.read("page.html").decode())
        section, = data["sections"]
        self.assertEqual([row[1] for row in section["tables"][0]["rows"]], ["implicit", "umax"])
        last = json.loads(self.read("umax.jsonl").decode().splitlines()[-2])
        self.assertEqual(section["tables"][0]["rows"][1][9], last["train"]["log_loss"])
        plots = {plot["id"]: plot for plot in section["plots"]}
        self.assertEqual(len(plots["test-log_loss-epochs-0"]["lines"][1]["points"]), 4)
        self.assertEqual(plots["test-log_loss-epochs-0"]["lines"][1]["points"][-1][1], last["test"]["log_loss"])

    def test_default_name_overwrites_nothing(self):
        logs = self.logs()
        self.write("report.html", "an older page")
        self.fine("report", logs[0])
        self.assertEqual(self.read("report.html"), b"an older page")
        self.assertIn(b"<!DOCTYPE html>", self.read("report-2.html"))

    def test_the_page_works_in_a_browser(self):
        self.fine("report", *self.logs(), "--out", "page.html")
        # Sorts by method in descending order, and switches umax off.
        script = """
        const head = [...document.querySelectorAll("th button")].find(b => b.textContent === "method");
        head.click(); head.click();
        document.querySelector('button[data-group="umax"]').click();"""
        before, quiet = browser.open_page(self.path("page.html"), picture="report.png")
        after, still_quiet = browser.open_page(self.path("page.html"), script, dark=True, picture="report-dark.png")
        self.assertEqual(quiet + still_quiet, [])
        self.assertIn('data-ready="yes"', before)
        first = [re.findall(r"<tr><td[^>]*>[^<]*</td><td[^>]*>(\w+)</td>", html) for html in (before, after)]
        self.assertEqual(first, [["implicit", "umax"], ["umax", "implicit"]])
        dots = [html.count("<circle") for html in (before, after)]
        self.assertEqual(dots[0], 2 * dots[1])
        for figure in ("train-log_loss-epochs-0", "test-error-epochs-0", "train-log_loss-seconds-0"):
            self.assertRegex(before, rf'<figure id="{figure}">.*?<svg.*?<path')
        for picture in ("report.png", "report-dark.png"):
            self.assertGreater(os.path.getsize(os.path.join(browser.PICTURES, picture)), 5000)


class BadLogs(RefusalTest):
    def test_refused(self):
        self.write("words.jsonl", "hello\n")
        self.refused(["report", "RUN.jsonl"], "RUN.jsonl")
        self.refused(["report", "words.jsonl", "--out", "page.html"], r"words.jsonl:1", "JSON")
        self.refused(["report", "none.jsonl"], "none.jsonl", "read")
        self.refused(["report", "words.jsonl", "--out", "no/such/folder.html"], "--out")
        self.refused(["report", "words.jsonl", "--out", "words.jsonl"], "one of the logs")


if __name__ == "__main__":
    unittest.main()
