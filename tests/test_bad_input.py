"""Bad data gets a message with file, line, what was found and what to do, and exit code 2; no file changes.

Also data that does not fit a model, and a disk that is full. Bad options and bad model files: test_bad_options.py and
test_bad_model.py.
"""
import gzip
import io
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import numpy as np

from support import OUTPUT, RefusalTest, skip

GOOD = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n"
GOOD_LIBSVM = "a 1:1 4:0.5\nb 2:1\nc 3:1 5:2\nb 1:0.5\n"


class BadDataFile(RefusalTest):
    def test_no_such_file(self):
        good = self.write("good.txt", GOOD)
        self.refused(["train", "absent.txt", *OUTPUT], "absent.txt", "no such file")
        self.refused(["train", good, "--test", "absent.txt", *OUTPUT], "absent.txt", "no such file")
        self.refused(["train", good, "--split", "absent.txt", *OUTPUT], "absent.txt", "no such file")
        self.refused(["evaluate", "absent.safetensors", good], "absent.safetensors", "no such file")
        self.refused(["predict", "absent.safetensors", good], "absent.safetensors", "no such file")
        self.refused(["inspect", "absent.safetensors"], "absent.safetensors", "no such file")

    def test_folder_instead_of_a_file(self):
        os.mkdir(self.path("folder"))
        self.refused(["train", "folder", *OUTPUT], "folder", "directory")
        self.refused(["inspect", "folder"], "folder")

    def test_empty(self):
        for name, content in {"empty.txt": b"", "empty.gz": gzip.compress(b"")}.items():
            with self.subTest(name):
                self.train_refused(content, "empty", name=name)
        for name, content in {"blank.txt": "\n\n\n", "comments.txt": "# nothing\n# here\n"}.items():
            with self.subTest(name):
                self.train_refused(content, "empty|no rows|unknown format", name=name)

    def test_empty_standard_input(self):
        self.refused(["train", "-", *OUTPUT], "standard input", "empty", stdin=b"")

    def test_header_that_disagrees_with_the_rows(self):
        cases = {
            "more rows": ("3 5 3\n0 0:1\n1 1:1\n2 2:1\n1 0:0.5\n", r":\d+: ", r"\b3\b"),
            "fewer rows": ("9 5 3\n0 0:1\n1 1:1\n2 2:1\n1 0:0.5\n", r":\d+: ", r"\b9\b", r"\b4\b"),
            "feature number equal to D": ("4 5 3\n0 0:1\n1 5:1\n2 2:1\n1 0:0.5\n", ":3: ", r"\b5\b"),
            "label number equal to L": ("4 5 3\n0 0:1\n3 1:1\n2 2:1\n1 0:0.5\n", ":3: ", r"\b3\b"),
        }
        for case, (content, *words) in cases.items():
            with self.subTest(case):
                self.train_refused(content, *words)

    def test_malformed_header(self):
        for header in ("4 5", "4 5 3 7", "four 5 3", "-4 5 3", "4.5 5 3", "99999999999999999999 5 3"):
            with self.subTest(header):
                self.train_refused(GOOD.replace("4 5 3", header, 1), ":1: ", options=("--format", "xmlrepository"))

    def test_feature_number(self):
        """Below zero, above D, repeated, not a number; the line is named."""
        for form, good, line, base in (("xmlrepository", GOOD, 3, 0), ("libsvm", GOOD_LIBSVM, 2, 1)):
            label = "1" if base == 0 else "b"
            cases = {
                "below 0": ("-1:1", "-1"),
                "far too large": ("99999999999999999999:1", "99999999999999999999"),
                "repeated": ("2:1 2:1", r"\b2\b"),
                "a word": ("x:1", "x"),
                "missing": (":1", r"':1'|missing"),
                "a fraction": ("1.5:1", r"1\.5"),
                "no colon": ("17", "17"),
            }
            if base == 1:
                cases["0 where numbers begin at 1"] = ("0:1", r"\b0\b", r"\b1\b")
            for case, (token, *words) in cases.items():
                with self.subTest(format=form, case=case):
                    lines = good.splitlines()
                    lines[line - 1] = f"{label} {token}"
                    self.train_refused("\n".join(lines) + "\n", f":{line}: ", *words, options=("--format", form))

    def test_repeated_feature_out_of_order(self):
        self.train_refused("3 5 3\n0 0:1\n1 3:1 1:2 3:1\n2 2:1\n", ":3: ", r"\b3\b")

    def test_value(self):
        """Not finite, not a number, missing; the line is named."""
        for form, good, line, label in (("xmlrepository", GOOD, 4, "2"), ("libsvm", GOOD_LIBSVM, 3, "c"),
                                        ("lshtc", "0, 2 0:1\n1, 0 1:1\n2 2:1\n", 3, "2")):
            for value in ("nan", "NaN", "inf", "-inf", "Infinity", "1e999", "1e39", "x", "1x", "1e", "--1", "0x10", ".",
                          "1,5", ""):
                with self.subTest(format=form, value=value):
                    lines = good.splitlines()
                    lines[line - 1] = f"{label} 1:1 2:{value} 3:1"
                    self.train_refused("\n".join(lines) + "\n", f":{line}: ", re.escape(value or "2:"),
                                       options=("--format", form))

    def test_malformed_label(self):
        for label in ("x", "1.5", "-1", "1,,2", "1,x", ",1", "1,", "99999999999999999999"):
            with self.subTest(format="xmlrepository", label=label):
                self.train_refused(f"4 5 3\n0 0:1\n{label} 1:1\n2 2:1\n1 0:0.5\n", ":3: ", "label")
        with self.subTest(format="fasttext"):
            self.train_refused("__label__a one two\n__label__ two three\n__label__b one\n", ":2: ", "label",
                               options=("--format", "fasttext"))

    def test_zero_bytes_inside_text(self):
        content = b"4 5 3\n0 0:1\n1 1:1\x00\n2 2:1\n1 0:0.5\n"
        self.train_refused(content, "binary")
        self.train_refused(content, ":3: ", options=("--format", "xmlrepository"))

    def test_binary(self):
        noise = bytes((i * 197 + i // 7) % 256 for i in range(5000))
        self.train_refused(noise, name="noise.bin")
        self.train_refused(b"\x7fELF\x02\x01\x01" + bytes(4000), name="program")
        self.train_refused(noise, ":1: ", name="noise.txt", options=("--format", "xmlrepository"))

    def test_damaged_gzip(self):
        lines = "".join(f"{i % 3} {i % 5}:{i}.5\n" for i in range(20000))
        whole = gzip.compress(("20000 5 3\n" + lines).encode())
        self.train_refused(whole[:len(whole) // 2], "gzip", "truncated", name="half.gz")
        self.train_refused(whole[:-3], "gzip", "truncated", name="tail.gz")
        self.train_refused(whole[:2], "gzip", name="head.gz")
        middle = len(whole) // 2
        self.train_refused(whole[:middle] + bytes(64) + whole[middle + 64:], "gzip", name="corrupt.gz")
        self.train_refused(whole[:-8] + b"\0\0\0\0" + whole[-4:], "gzip", name="checksum.gz")

    def test_damaged_zstd(self):
        if shutil.which("zstd") is None:
            skip("no zstd program here to make the files with (package zstd)")
        lines = "".join(f"{i % 3} {i % 5}:{i}.5\n" for i in range(20000))
        whole = subprocess.run(["zstd", "-c"], input=("20000 5 3\n" + lines).encode(), capture_output=True,
                               check=True).stdout
        self.train_refused(whole[:len(whole) // 2], "zstd", "truncated", name="half.zst")
        self.train_refused(whole[:4], "zstd", name="head.zst")
        self.train_refused(whole[:20] + bytes(64) + whole[84:], "zstd", name="corrupt.zst")

    def test_no_usable_rows(self):
        self.train_refused("2 5 3\n 0:1\n 1:1\n", "label|usable")
        self.train_refused("2 5 3\n0 \n1 \n", "feature|usable")
        self.train_refused("2 5 3\n0 3:1\n1 4:1\n", "feature|usable", options=("--max-features", 2))

    def test_test_rows_with_only_unseen_labels(self):
        """There is nothing to average: the log-loss must not be 0."""
        good = self.write("good.txt", "2 5 9\n0 0:1\n1 1:1\n")
        self.write("test.txt", "2 5 9\n7 0:1\n8 1:1\n")
        self.refused(["train", good, "--test", "test.txt", *OUTPUT], r"test\.txt", "label|usable")
        self.fine("train", good, "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        self.refused(["evaluate", "good.safetensors", "test.txt"], r"test\.txt", "label|usable")

    def test_nothing_to_evaluate(self):
        good = self.write("good.txt", GOOD)
        self.fine("train", good, "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        for content in ("2 5 3\n 0:1\n 1:1\n", "2 5 3\n0 \n1 \n", "0 5 3\n"):
            with self.subTest(content):
                self.write("test.txt", content)
                self.refused(["evaluate", "good.safetensors", "test.txt"], r"test\.txt", "no row")

    def test_sizes_larger_than_any_memory(self):
        """A header or a feature number may imply an impossible matrix; nothing is allocated for it."""
        for case, content, form, words in (
                ("header: D", "3 4294967000 3\n0 0:1\n1 1:1\n2 2:1\n", "xmlrepository", "this run needs"),
                ("header: N", "99999999999 5 3\n0 0:1\n1 1:1\n2 2:1\n", "xmlrepository", r"bad\.txt.*\b99999999999\b"),
                ("header: all", "18446744073709551615 18446744073709551615 18446744073709551615\n0 0:1\n",
                 "xmlrepository", r"bad\.txt:1: "),
                ("feature number", "a 1:1\nb 4294967000:1\nc 2:1\n", "libsvm", "this run needs")):
            with self.subTest(case):
                self.write("bad.txt", content)
                self.refused(["train", "bad.txt", "--format", form, "--memory-limit", "1G", *OUTPUT], words)

    def test_names_that_are_not_utf8(self):
        """The model file holds names as JSON, which must be UTF-8."""
        self.train_refused(b"a 1:1\nb\xe9 2:1\nc 3:1\n", ":2: ", "UTF-8", options=("--format", "libsvm"))
        self.train_refused(b"__label__a one\n__label__b\xe9 two\n", ":2: ", "UTF-8")
        self.train_refused(b"__label__a one\n__label__b caf\xe9 two\n", "UTF-8")

    def test_one_class_only(self):
        self.train_refused("3 5 3\n1 0:1\n1 1:1\n1 2:1\n", "class '1'")
        # the second class is beyond --max-rows
        self.train_refused("3 5 3\n1 0:1\n1 1:1\n2 2:1\n", "class '1'", options=("--max-rows", 2))

    def test_control_characters_in_class_names_are_escaped(self):
        message = self.train_refused(b"a\x1b[2J 1:1\na\x1b[2J 2:1\n", "class", options=("--format", "libsvm"))
        self.assertIn(r"\x1b[2J", message)

    def test_standard_input_is_named(self):
        self.refused(["train", "-", *OUTPUT], "standard input", ":3: ",
                     stdin=b"3 5 3\n0 0:1\n1 9:1\n2 2:1\n")

    def test_bad_test_file(self):
        good = self.write("good.txt", GOOD)
        for case, content, words in (("value", "2 5 3\n0 0:1\n1 1:nan\n", [":3: ", "nan"]),
                                     ("other D", "2 6 3\n0 0:1\n1 1:1\n", [r"\b6\b", r"\b5\b"]),
                                     ("no usable row", "2 5 3\n 0:1\n 1:1\n", ["label|usable"]),
                                     ("empty", "", ["empty"])):
            with self.subTest(case):
                self.write("test.txt", content)
                self.refused(["train", good, "--test", "test.txt", *OUTPUT], "test.txt", *words)

    def test_split_file(self):
        good = self.write("good.txt", GOOD)
        for case, content, words in (("row 0", "1\n0\n", [":2: ", r"\b0\b"]),
                                     ("row beyond the end", "1\n5\n", [r"\b5\b"]),
                                     ("not a number", "1\nx\n", [":2: ", "x"]),
                                     ("too few columns", "1 2\n2\n", [":2: "]),
                                     ("empty", "", ["empty"])):
            with self.subTest(case):
                self.write("split.txt", content)
                column = 2 if case == "too few columns" else 1
                self.refused(["train", good, "--split", "split.txt", "--split-column", column, *OUTPUT], "split.txt",
                             *words)


def idx(array, kind=8):
    return struct.pack(">HBB", 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


class BadBinaryData(RefusalTest):
    """MNIST idx pairs and NumPy arrays."""
    IMAGES = np.arange(4 * 2 * 2, dtype=np.uint8).reshape(4, 2, 2)
    LABELS = np.array([0, 1, 2, 1], dtype=np.uint8)

    def npy(self, name, array, cut=None):
        file = io.BytesIO()
        np.save(file, array)
        return self.write(name, file.getvalue()[:cut])

    def test_valid_files_are_read(self):
        """Otherwise the refusals below could have another reason."""
        self.write("train-images-idx3-ubyte", idx(self.IMAGES))
        self.write("train-labels-idx1-ubyte", idx(self.LABELS))
        self.fine("train", "train-images-idx3-ubyte", "--epochs", 1, "--model", "none", "--log", "none")
        self.npy("X.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
        self.npy("y.npy", np.array([0, 1, 2, 1]))
        self.fine("train", "X.npy", "--epochs", 1, "--model", "none", "--log", "none")

    def test_idx(self):
        good = idx(self.IMAGES)
        cases = {
            "truncated images": (good[:-3], idx(self.LABELS), "images", ["truncated|ends|bytes"]),
            "header only in part": (good[:7], idx(self.LABELS), "images", ["header.*truncated"]),
            "too many bytes": (good + b"\0\0", idx(self.LABELS), "images", ["has more data after its 4 rows"]),
            "other number of labels": (good, idx(self.LABELS[:3]), "labels", [r"\b3\b", r"\b4\b"]),
            "labels truncated": (good, idx(self.LABELS)[:-1], "labels", ["truncated|ends|bytes"]),
            "labels of two dimensions": (good, idx(self.LABELS.reshape(2, 2)), "labels", [r"labels of shape \(2, 2\)"]),
            "kind of number unknown": (idx(self.IMAGES, kind=0x42), idx(self.LABELS), "images", ["neither idx nor npy"]),
            "hostile shape": (struct.pack(">HBBIII", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1) + bytes(16),
                              idx(self.LABELS), "images", ["too large"]),
            "no images": (idx(self.IMAGES[:0]), idx(self.LABELS[:0]), "images", ["is empty"]),
            "no labels file": (good, None, "images", ["no label file"]),
        }
        for case, (images, labels, name, words) in cases.items():
            with self.subTest(case):
                self.write("train-images-idx3-ubyte", images)
                if labels is None:
                    os.remove(self.path("train-labels-idx1-ubyte"))
                else:
                    self.write("train-labels-idx1-ubyte", labels)
                self.refused(["train", "train-images-idx3-ubyte", *OUTPUT], name, *words)

    def test_npy(self):
        X = np.arange(12, dtype=np.float32).reshape(4, 3)
        y = np.array([0, 1, 2, 1])
        bad = X.copy()
        bad[2, 1] = np.nan
        infinite = X.astype(float)
        infinite[0, 0] = np.inf
        cases = {
            "features not finite": (bad, y, None, "X.npy", ["nan|NaN|finite"]),
            "features infinite": (infinite, y, None, "X.npy", ["inf|finite"]),
            "too large for float32": (X.astype(float) * 1e300, y, None, "X.npy", ["too large for a 32-bit float"]),
            "other number of labels": (X, y[:3], None, "y.npy", [r"\b3\b", r"\b4\b"]),
            "truncated": (X, y, -5, "X.npy", ["truncated|ends|bytes"]),
            "three dimensions": (np.arange(24.0).reshape(4, 2, 3), y, None, "X.npy", [r"\(4, 2, 3\) has 3 dimensions"]),
            "labels of two dimensions": (X, y.reshape(2, 2), None, "y.npy", [r"labels of shape \(2, 2\)"]),
            "labels that are no whole numbers": (X, y + 0.5, None, "y.npy", [r"row 1: label 0\.5 is not a whole number"]),
            "labels with control characters": (X, np.array(["a", "b\x1b[2J", "a", "c\nd"]), None, "y.npy",
                                               ["row 2: label .* control character"]),
            "complex features": (X.astype(complex), y, None, "X.npy", ["complex"]),
        }
        for case, (features, labels, cut, name, words) in cases.items():
            with self.subTest(case):
                self.npy("X.npy", features, cut)
                self.npy("y.npy", labels)
                self.refused(["train", "X.npy", *OUTPUT], re.escape(name), *words)
        with self.subTest("a pickle is never opened"):
            file = io.BytesIO()
            np.save(file, np.array([{}, {}, {}, {}], dtype=object), allow_pickle=True)
            self.write("X.npy", file.getvalue())
            self.npy("y.npy", y)
            self.refused(["train", "X.npy", *OUTPUT], "X.npy", "item type")
        with self.subTest("no labels file"):
            self.npy("X.npy", X)
            os.remove(self.path("y.npy"))
            self.refused(["train", "X.npy", *OUTPUT], "label")


class OtherFeatures(RefusalTest):
    """Data whose D differs from the model's."""

    def test_evaluate_and_predict(self):
        self.fine("train", self.write("good.txt", GOOD), "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        for D, body in ((6, "0 5:1\n1 1:1\n"), (4, "0 3:1\n1 1:1\n")):
            self.write("other.txt", f"2 {D} 3\n{body}")
            for command in ("evaluate", "predict"):
                with self.subTest(command=command, D=D):
                    self.refused([command, "good.safetensors", "other.txt"], r"other\.txt", rf"\b{D}\b", r"\b5\b")

    def test_dense(self):
        np.save(self.path("X.npy"), np.ones((4, 3)) * np.arange(4)[:, None])
        np.save(self.path("y.npy"), np.array([0, 1, 2, 1]))
        self.fine("train", "X.npy", "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        np.save(self.path("X.npy"), np.ones((4, 2)))
        for command in ("evaluate", "predict"):
            with self.subTest(command):
                self.refused([command, "good.safetensors", "X.npy"], r"X\.npy", r"\b2\b", r"\b3\b")

    def test_libsvm_with_a_feature_the_model_does_not_have(self):
        self.write("good.txt", GOOD_LIBSVM)
        self.fine("train", "good.txt", "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        self.write("other.txt", "a 1:1\nb 9:1\n")
        for command in ("evaluate", "predict"):
            with self.subTest(command):
                self.refused([command, "good.safetensors", "other.txt"], r"other\.txt", r"\b9\b", r"\b5\b")

    def test_another_format(self):
        """A model trained on words cannot read numbered features."""
        self.write("words.txt", "__label__a one two\n__label__b two three\n__label__a one\n")
        self.fine("train", "words.txt", "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        self.write("other.txt", GOOD)
        for command in ("evaluate", "predict"):
            with self.subTest(command):
                self.refused([command, "good.safetensors", "other.txt"], r"other\.txt", "words")


class FullDisk(RefusalTest):
    """The old model survives, and no temporary file is left."""

    def setUp(self):
        super().setUp()
        self.generate("train.txt", rows=300, features=500, classes=100)
        self.fine("train", "train.txt", "--encoder", "linear", "--epochs", 1, "--seed", 1, "--model", "M.safetensors", "--log",
                  "none")
        self.size = len(self.read("M.safetensors"))

    def saving_refused(self, model="M.safetensors", before=None):
        self.refused(["train", "train.txt", "--encoder", "linear", "--epochs", 1, "--seed", 2, "--model", model, "--log", "none"],
                     re.escape(model), before=before)

    def limit(self, size, ignore):
        def before():
            if ignore:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return before

    def test_file_size_limit(self):
        """RLIMIT_FSIZE stops a write in the middle, with SIGXFSZ ignored."""
        for size in (0, 100, self.size // 2, self.size - 1):
            with self.subTest(limit=size):
                self.saving_refused(before=self.limit(size, ignore=True))

    def test_sigxfsz_does_not_crash(self):
        """As above, with the default action for SIGXFSZ."""
        self.saving_refused(before=self.limit(self.size // 2, ignore=False))

    def test_log_on_a_full_disk(self):
        if not os.path.exists("/dev/full"):
            skip("no /dev/full here")
        self.refused(["train", "train.txt", "--epochs", 1, "--seed", 2, "--model", "M.safetensors", "--log",
                      "/dev/full"], "/dev/full")

    def test_small_disk(self):
        """A file system with room for the old model but not for a second one."""
        disk = self.path("disk")
        os.mkdir(disk)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self.size * 3 // 2 // 1024}k", "tmpfs", disk]
        if os.getuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            skip("a tmpfs cannot be mounted here (needs root and the right to mount)")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        shutil.copyfile(self.path("M.safetensors"), os.path.join(disk, "M.safetensors"))
        self.saving_refused("disk/M.safetensors")


if __name__ == "__main__":
    unittest.main(verbosity=2)
