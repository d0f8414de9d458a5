"""Reading stays within --memory-limit, prediction answers as rows arrive, and unreadable files get advice that works.

A refused read may take 1.25 x its limit + 64 MB: charges are checked before memory is taken, and the program and the
allocator need little more. The peak memory of a child includes this process before exec, so this process must stay small:
large files are written piece by piece."""
import gzip
import io
import json
import os
import re
import subprocess
import unittest

import numpy as np

from support import PROGRAM, ProgramTest, RefusalTest, truemax

SANITIZED = os.environ.get("TRUEMAX_SANITIZE", "")
MEGA = 1 << 20
TRAIN = ("--method", "implicit", "--epochs", 1, "--model", "none", "--log", "none")


def gzipped(piece, times, first=b"", level=1):
    """`first` and then repeated `piece`, compressed without holding it all in memory."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=level) as file:
        file.write(first)
        for _ in range(times):
            file.write(piece)
    return out.getvalue()


def npy_header(shape, kind="|u1"):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue()


class MemoryLimit(ProgramTest):
    def refused(self, limit, *arguments, words=(), stdin=None):
        """The command stops with advice, and never took much more than its limit."""
        source = open(stdin, "rb") if stdin else subprocess.DEVNULL
        child = subprocess.Popen([PROGRAM, *map(str, arguments), "--memory-limit", f"{limit}M"], cwd=self.folder,
                                 stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = child.stderr.read().decode()
        child.stderr.close()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if stdin:
            source.close()
        self.assertEqual(child.returncode, 2, said)
        for word in (f"--memory-limit is {limit} MB", "not enough memory to read on", "; ", *words):
            self.assertIn(word, said)
        if not SANITIZED:
            self.assertLess(usage.ru_maxrss * 1024, (1.25 * limit + 64) * MEGA, said)
        return said

    def packed(self, name, *parts, **more):
        return self.write(name, gzipped(*parts, **more))

    ROWS = b"".join(b"%d %d:1 %d:2\n" % (i % 7, 1 + i % 5, 6 + i % 9) for i in range(100000))

    def test_packed_text_that_expands(self):
        self.packed("bomb.gz", self.ROWS, 60)
        with subprocess.Popen(["zstd", "-q", "-o", self.path("bomb.zst")], stdin=subprocess.PIPE) as pack:
            for _ in range(60):
                pack.stdin.write(self.ROWS)
        for name in ("bomb.gz", "bomb.zst"):
            with self.subTest(name):
                said = self.refused(60, "train", name, *TRAIN, words=("--max-rows", "--max-features"))
                line, rows = re.search(rf"{name}:(\d+): .* after (\d+) rows", said).groups()
                self.assertEqual(int(line), int(rows) + 1, "the line is that of the first row that was not read")
        self.refused(60, "train", "-", *TRAIN, words=("standard input:",), stdin=self.path("bomb.gz"))
        self.refused(60, "train", "bomb.gz", "--threads", 64, *TRAIN, words=("bomb.gz:",))
        self.fine("train", "bomb.gz", "--max-rows", 100000, "--memory-limit", "60M", *TRAIN)

    def test_long_line_right_after_the_header(self):
        self.packed("long.gz", b" " * MEGA, 100, first=b"4 5 3\n0 0:1")
        self.refused(60, "train", "long.gz", "--method", "prox", "--model", "none", words=("long.gz:2: ", "of this line"))

    def test_every_text_format(self):
        rows = 60
        files = {"xmlrepository": (b"6000000 20 10\n", b"".join(b"%d %d:1\n" % (i % 9, i % 19) for i in range(100000))),
                 "lshtc": (b"", b"".join(b"%d, 8 %d:1\n" % (i % 7, i % 19) for i in range(100000))),
                 "fasttext": (b"", b"__label__a one two three\n__label__b two\n" * 50000)}
        for form, (first, piece) in files.items():
            with self.subTest(form):
                self.packed(f"{form}.gz", piece, rows, first)
                self.refused(60, "train", f"{form}.gz", *TRAIN, words=(f"{form}.gz:", "--max-rows"))

    def test_names_count(self):
        """Few rows, but every word is new, or every row is a new class."""
        with open(self.path("words.txt"), "wb") as file:
            for i in range(400000):
                file.write(b"__label__%d a-rather-long-word-%d another-word-%d\n" % (i % 3, i, i))
        self.refused(60, "train", "words.txt", *TRAIN, words=("words.txt:", "--max-rows"))
        with open(self.path("classes.txt"), "wb") as file:
            for i in range(400000):
                file.write(b"a-rather-long-name-of-a-class-%d 1:1\n" % i)
        self.refused(60, "train", "classes.txt", "--format", "libsvm", *TRAIN, words=("classes.txt:",))

    def test_line_longer_than_the_limit_is_refused_while_read(self):
        self.packed("line.gz", b" 1:1" * 250000, 300, b"1 1:1\n2")
        for limit in (30, 60):
            said = self.refused(limit, "train", "line.gz", "--format", "libsvm", *TRAIN)
            self.assertRegex(said, r"line\.gz:2: .* after \d+ MB of this line")

    def test_arrays(self):
        row = np.arange(1, 1001, dtype=np.uint8).tobytes()
        self.packed("X.npy", row, 20000, npy_header((20000, 1000)))
        self.packed("y.npy", b"\0\1", 10000, npy_header((20000,)))
        self.refused(60, "train", "X.npy", *TRAIN, words=("X.npy:", "of 20000 rows", "--max-rows", "--max-features"))
        self.fine("train", "X.npy", "--max-features", 20, "--memory-limit", "60M", *TRAIN)
        self.packed("t10k-images-idx3-ubyte.gz", row, 20000, b"\0\0\x08\x03" + b"".join(
            n.to_bytes(4, "big") for n in (20000, 10, 100)))
        self.packed("t10k-labels-idx1-ubyte.gz", b"\0\1", 10000, b"\0\0\x08\x01" + (20000).to_bytes(4, "big"))
        self.refused(60, "train", "t10k-images-idx3-ubyte.gz", *TRAIN, words=("of 20000 rows",))
        out = io.BytesIO()
        np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": True, "shape": (20000, 1000)})
        self.packed("fortran.npy", row, 20000, out.getvalue())
        self.refused(60, "train", "fortran.npy", "--label-file", "y.npy", *TRAIN, words=("ascontiguousarray",))

    def test_files_beside_the_data(self):
        self.write("a.txt", "1 1:1\n2 2:1\n1 1:2\n")
        self.write("X.npy", npy_header((3, 2)) + b"\1\2\3\4\5\6")
        self.packed("labels.npy", b"\0\1" * 50000, 400, npy_header((40000000,)))
        self.refused(60, "train", "X.npy", "--label-file", "labels.npy", *TRAIN, words=("labels.npy: ", "labels"))
        self.packed("weights.gz", b"1\n" * 100000, 150)
        self.refused(60, "train", "a.txt", "--row-weights", "weights.gz", *TRAIN, words=("weights.gz:",))
        self.packed("weights.npy", b"\0" * 800000, 150, npy_header((15000000,), "<f8"))
        self.refused(60, "train", "a.txt", "--row-weights", "weights.npy", *TRAIN, words=("weights.npy: ",))
        self.packed("line.gz", b"1" * 100000, 1000)
        self.refused(60, "train", "a.txt", "--split", "line.gz", *TRAIN, words=("line.gz:1:",))
        self.refused(60, "train", "a.txt", "--class-weights", "line.gz", *TRAIN, words=("line.gz:1:",))

    def test_every_command(self):
        self.packed("bomb.gz", self.ROWS, 60)
        self.write("a.txt", b"".join(self.ROWS.splitlines(True)[:500]))
        self.fine("train", "a.txt", "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none",
                  "--format", "libsvm")
        self.refused(60, "evaluate", "m.safetensors", "bomb.gz", words=("bomb.gz:", "--max-rows"))
        self.refused(60, "compare", "bomb.gz", words=("bomb.gz:",))
        self.refused(60, "tune", "bomb.gz", "--try", "step=1,2", words=("bomb.gz:",))
        self.refused(60, "train", "a.txt", "--test", "bomb.gz", *TRAIN, words=("bomb.gz:",))
        self.packed("line.gz", b" 1:1" * 250000, 100, b"1 1:1\n2")
        self.refused(30, "predict", "m.safetensors", "line.gz", words=("line.gz:2:",))

    def test_files_share_one_limit(self):
        """Training, test and validation rows are in memory at once."""
        self.write("part.txt", self.ROWS * 6)
        self.fine("train", "part.txt", "--format", "libsvm", "--memory-limit", "70M", *TRAIN)
        self.refused(70, "train", "part.txt", "--test", "part.txt", "--valid", "part.txt", "--format", "libsvm", *TRAIN,
                     words=("part.txt:",))


class Answers(ProgramTest):
    """`truemax predict MODEL -` answers each row as it arrives."""

    def setUp(self):
        super().setUp()
        self.write("words.txt", "__label__pos good good film\n__label__neg bad film\n__label__pos fine film at 12:30\n")
        self.fine("train", "words.txt", "--method", "implicit", "--epochs", 5, "--model", "w.safetensors", "--log", "none")

    def talk(self, model, parts):
        """Writes each part and reads its answer before writing the next; returns the answers."""
        answers = []
        with subprocess.Popen([PROGRAM, "predict", self.path(model), "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as child:
            for text, lines in parts:
                child.stdin.write(text)
                child.stdin.flush()
                answers += [child.stdout.readline() for _ in range(lines)]
            child.stdin.close()
            answers += child.stdout.readlines()
        self.assertEqual(child.returncode, 0)
        return answers

    def test_each_line_is_answered_before_the_pipe_closes(self):
        lines = [b"good film\n", b"a\n", b"\n", b"bad\n", b"meet 12:30\n"]
        whole = truemax("predict", self.path("w.safetensors"), "-", stdin=b"".join(lines)).stdout.splitlines(True)
        self.assertEqual(len(whole), 5)
        answers = self.talk("w.safetensors", [(line, 1) for line in lines])
        self.assertEqual([a.decode() for a in answers], whole)
        cut = [(b"good film\nbad f", 1), (b"ilm\nfine\n", 2), (b"last", 0)]
        self.assertEqual(len(self.talk("w.safetensors", cut)), 4)

    def test_answers_do_not_depend_on_how_rows_arrive(self):
        """Even if a file is large enough for float32."""
        data = self.generate("a.txt", rows=5000, features=300, classes=200, nonzeros=40, form="libsvm")
        self.fine("train", "a.txt", "--format", "libsvm", "--method", "prox", "--epochs", 1, "--model", "n.safetensors", "--log", "none")
        whole = self.fine("predict", "n.safetensors", "a.txt", "--top", 3).stdout
        with open(data, "rb") as file:
            text = file.read()
        self.assertEqual(self.fine("predict", "n.safetensors", "-", "--top", 3, stdin=text).stdout, whole)
        with subprocess.Popen([PROGRAM, "predict", self.path("n.safetensors"), "-", "--top", "3"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            rows = text.splitlines(True)
            for row in rows[:50]:
                child.stdin.write(row)
                child.stdin.flush()
                self.assertEqual(child.stdout.readline().decode(), whole[:whole.index("\n") + 1])
                whole = whole[whole.index("\n") + 1:]
            child.stdin.close()
            self.assertEqual(child.stdout.read(), b"")

    def test_max_rows_ends_before_the_end_of_the_input(self):
        with subprocess.Popen([PROGRAM, "predict", self.path("w.safetensors"), "-", "--max-rows", "2"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            child.stdin.write(b"good\nbad\nfilm\n")
            child.stdin.flush()
            self.assertEqual(len(child.stdout.readlines()), 2)
            child.stdin.close()
        self.assertEqual(child.returncode, 0)

    def test_text_that_contains_a_time_is_read_as_words(self):
        for text in ("meet 12:30\n", "12:30\n", "7 12:30\n"):
            with self.subTest(text):
                said = self.fine("predict", "w.safetensors", "-", stdin=text.encode())
                self.assertRegex(said.stdout, r"^(pos|neg)\t0\.\d+\n$")
        self.write("one.txt", "__label__pos meet at 12:30\n")
        self.assertEqual(self.metrics("w.safetensors", "one.txt")["rows"], 1)


class Tables(RefusalTest):
    def converted(self, name, content):
        """The command in the error message makes a file that training accepts."""
        message = self.train_refused(content, "which is not read", "libsvm.*npy", name=name)
        command = re.search(r" by: (.*) \(then add (--format \w+)\)$", message)
        subprocess.run(["bash", "-c", command[1]], cwd=self.folder, check=True)
        made = re.search(r"> (\S+)$", command[1])[1]
        self.fine("train", made, *command[2].split(), *TRAIN)
        return self.read(made).decode()

    def test_csv_with_a_header(self):
        self.assertEqual(self.converted("t.csv", "a,b,Label\n0.5,2,1\n1,0,2\n,3,1\n"), "1 1:0.5 2:2\n2 1:1\n1 2:3\n")

    def test_csv_of_numbers(self):
        self.assertEqual(self.converted("n.csv", "1,0.5,2\n2,1,0\n"), "1 1:0.5 2:2\n2 1:1\n")

    def test_csv_of_text(self):
        self.assertEqual(self.converted("w.csv", 'text,label\n"good, fine film",very good\nbad film,neg\n'),
                         "__label__very_good good, fine film\n__label__neg bad film\n")

    def test_tabs_semicolons_and_gzip(self):
        self.assertEqual(self.converted("t.tsv", "y\ta\tb\n1\t2\t3\n2\t0\t1\n"), "1 1:2 2:3\n2 2:1\n")
        self.assertEqual(self.converted("s.csv", "y;a;b\n1;2;3\n2;0;1\n"), "1 1:2 2:3\n2 2:1\n")
        self.assertEqual(self.converted("z.csv.gz", gzip.compress(b"1,0.5,2\n2,1,0\n")), "1 1:0.5 2:2\n2 1:1\n")


class RowsAndExamples(ProgramTest):
    def test_evaluation_counts_rows_and_examples_apart(self):
        self.write("a.txt", "1,2,3 1:1\n2 2:1\n1,3 1:2\n")
        for labels, examples in (("first", 3), ("all", 6)):
            with self.subTest(labels):
                self.fine("train", "a.txt", "--format", "libsvm", "--labels", labels, "--method", "implicit", "--epochs", 1,
                          "--model", f"{labels}.safetensors", "--log", f"{labels}.jsonl")
                found = self.metrics(f"{labels}.safetensors", "a.txt", "--format", "libsvm")
                self.assertEqual((found["rows"], found["examples"]), (3, examples))
                said = self.fine("evaluate", f"{labels}.safetensors", "a.txt", "--format", "libsvm").stdout
                self.assertRegex(said, r"(?m)^rows counted +3$")
                self.assertEqual(re.findall(r"(?m)^examples counted +(\d+)$", said), ["6"] if labels == "all" else [])
                with open(self.path(f"{labels}.jsonl"), encoding="utf-8") as log:
                    data = json.loads(log.readline())["data"]
                self.assertEqual((data["rows"], data["examples"]), (3, examples))


if __name__ == "__main__":
    unittest.main(verbosity=2)
