"""Files that look like models: evaluate, predict and inspect refuse each of them, and touch nothing."""
import gzip
import json
import os
import struct
import unittest

from support import ROOT, RefusalTest, last_evaluation

DATA = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n"


def safetensors(header, payload=b"", length=None):
    """The bytes of a model file with this header, a dict or the bytes themselves."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + payload


class BadModelFile(RefusalTest):
    def setUp(self):
        super().setUp()
        self.data = self.write("good.txt", DATA)
        self.fine("train", self.data, "--epochs", 2, "--intercept", "--model", "good.safetensors", "--log", "none")
        whole = self.read("good.safetensors")
        (length,) = struct.unpack("<Q", whole[:8])
        self.header, self.payload = json.loads(whole[8:8 + length]), whole[8 + length:]
        self.whole = whole

    def about(self, **changes):
        """The header with some keys of the truemax metadata changed; None removes one. It has no checksums, like older
        files are: what is refused is what the change says."""
        header = json.loads(json.dumps(self.header))
        header["__metadata__"].pop("truemax_checksum", None)
        about = json.loads(header["__metadata__"]["truemax"])
        about.pop("checksums", None)
        for key, value in changes.items():
            if value is None:
                del about[key]
            else:
                about[key] = value
        header["__metadata__"]["truemax"] = json.dumps(about)
        return header

    def changed(self, tensor="weight", **changes):
        header = json.loads(json.dumps(self.header))
        header[tensor].update(changes)
        return header

    def model_refused(self, content, *words):
        self.write("bad.safetensors", content)
        for command in (["evaluate", "bad.safetensors", self.data], ["predict", "bad.safetensors", self.data],
                        ["inspect", "bad.safetensors"]):
            self.refused(command, r"bad\.safetensors", *words)

    def test_rebuilt_file_is_accepted(self):
        """Otherwise the refusals below could have another reason."""
        self.write("again.safetensors", safetensors(self.header, self.payload))
        self.assertEqual(self.metrics("again.safetensors", self.data), self.metrics("good.safetensors", self.data))
        K, D = self.header["weight"]["shape"]
        self.assertEqual((K, D), (3, 5))

    def test_truncated(self):
        for size in (0, 1, 7, 8, 9, len(self.whole) // 2, len(self.whole) - len(self.payload),
                     len(self.whole) - len(self.payload) + 1, len(self.whole) - 4, len(self.whole) - 1):
            with self.subTest(size=size):
                self.model_refused(self.whole[:size], "truncated|bytes|header")

    def test_other_files(self):
        """Data or an index where a model belongs."""
        self.model_refused(self.read(self.data), "not a model", "truemax train")
        self.model_refused(b"TMXINDEX" + bytes(40), "an index of a model", "--index")

    def test_longer_than_its_header_says(self):
        self.model_refused(self.whole + b"more")

    def test_hostile_header_length(self):
        for length in (0, 1, len(self.whole), 10**9, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1):
            with self.subTest(length=length):
                self.model_refused(struct.pack("<Q", length) + self.whole[8:], "header")

    def test_header_that_is_not_json(self):
        for header in (b"hello", b"{", b"[]", b"null", b"3", b'{"weight":', b"\xff\xfe{}", b"{}{}",
                       b"[" * 100000, b'{"a":' * 100000):
            with self.subTest(header[:20]):
                self.model_refused(safetensors(header, self.payload), "header|JSON|metadata|weight|truemax")

    def test_overlapping_tensors_and_gaps(self):
        begin, end = self.header["weight"]["data_offsets"]
        size = end - begin
        other_begin, other_end = self.header["intercept"]["data_offsets"]
        small = other_end - other_begin
        overlap = self.changed(data_offsets=[0, size])
        overlap["intercept"]["data_offsets"] = [size - 4, size - 4 + small]
        self.model_refused(safetensors(overlap, self.payload[:size - 4 + small]), "overlap|offset|gap|hole|weight")
        hole = self.changed(data_offsets=[0, size])
        hole["intercept"]["data_offsets"] = [size + 8, size + 8 + small]
        self.model_refused(safetensors(hole, self.payload + bytes(8)), "hole|gap|offset|overlap|intercept")
        front = self.changed(data_offsets=[16, 16 + size])
        front["intercept"]["data_offsets"] = [16 + size, 16 + size + small]
        self.model_refused(safetensors(front, bytes(16) + self.payload), "hole|gap|offset|overlap|begin")

    def test_offsets(self):
        size = len(self.payload)
        for offsets in ([0, size + 1000], [2**40, 2**40 + 60], [60, 0], [-60, 0], [0, 56], [0, 2**64 - 1],
                        [2**63, 2**63 + 60], [0], [0, 30, 60], "0-60", [0.5, 60.5], None):
            with self.subTest(offsets=offsets):
                self.model_refused(safetensors(self.changed(data_offsets=offsets), self.payload), "offset|weight|bytes")

    def test_kind_and_shape(self):
        for dtype in ("F64", "F16", "BF16", "I32", "X", "", 7, None):
            with self.subTest(dtype=dtype):
                self.model_refused(safetensors(self.changed(dtype=dtype), self.payload), "dtype|F32|weight")
        for shape in ([15], [3, 5, 1], [5, 3], [3, 4], [4, 5], [-3, -5], [0, 5], [3, 0], [2**33, 2**33], "3x5", None,
                      [2**62, 5], [3.0, 5.0]):
            with self.subTest(shape=shape):
                self.model_refused(safetensors(self.changed(shape=shape), self.payload), "shape|weight|classes|bytes")
        with self.subTest("intercept"):
            self.model_refused(safetensors(self.changed("intercept", shape=[1, 3]), self.payload), "intercept")

    def test_tensors_by_name(self):
        header = json.loads(json.dumps(self.header))
        header["wait"] = header.pop("weight")
        self.model_refused(safetensors(header, self.payload), "weight")
        header = json.loads(json.dumps(self.header))
        header["weight"] = 3
        self.model_refused(safetensors(header, self.payload), "weight")

    def test_another_version(self):
        version = json.loads(self.header["__metadata__"]["truemax"])["format_version"]
        for other in (version + 1, 0, 999):
            with self.subTest(other):
                self.model_refused(safetensors(self.about(format_version=other), self.payload), "version",
                                   rf"\b{other}\b", rf"\b{version}\b")
        for other in (-1, "one", 1.5, [version], None):
            with self.subTest(other):
                self.model_refused(safetensors(self.about(format_version=other), self.payload), "version")

    def test_metadata(self):
        header = json.loads(json.dumps(self.header))
        del header["__metadata__"]
        self.model_refused(safetensors(header, self.payload), "metadata|truemax")
        header["__metadata__"] = {"format": "pt"}
        self.model_refused(safetensors(header, self.payload), "metadata|truemax")
        for text in ("", "hello", "[]", "null", "{}"):
            with self.subTest(text):
                header["__metadata__"] = {"truemax": text}
                self.model_refused(safetensors(header, self.payload), "metadata|truemax|version")
        header["__metadata__"] = {"truemax": {"format_version": 1}}
        self.model_refused(safetensors(header, self.payload), "metadata|truemax")
        for key in ("classes", "preprocessing"):
            with self.subTest(missing=key):
                self.model_refused(safetensors(self.about(**{key: None}), self.payload), key)

    def test_metadata_of_other_types(self):
        for key, value in (("truemax_version", 3), ("data", 3), ("data", {"format": 3}), ("options", []), ("method", 3),
                           ("features", {"file_features": 5, "declared": True, "words": [1, 2, 3, 4, 5]})):
            with self.subTest(key=key, value=value):
                self.model_refused(safetensors(self.about(**{key: value}), self.payload),
                                   "format" if value == {"format": 3} else "words" if key == "features" else key)

    def test_control_characters_in_names_are_escaped(self):
        """Escape sequences in names of tensors, keys and classes: `refused` looks for control characters."""
        header = json.loads(json.dumps(self.header))
        header["\x1b[2J"] = {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}
        self.model_refused(safetensors(header, self.payload), "x1b")
        self.model_refused(safetensors(self.about(classes=["0", "\x1b[2J", "\x1b[2J"]), self.payload), "x1b")
        self.model_refused(safetensors(self.about(preprocessing={"\x1b[2J": 1}), self.payload), "x1b")
        self.write("bad.safetensors", safetensors(self.about(classes=["0", "\x1b[2J", "b"], method="\x1b[2J"),
                                                  self.payload))
        for command in (["inspect", "bad.safetensors"], ["predict", "bad.safetensors", self.data, "--top", 3]):
            self.assertNotIn("\x1b", self.fine(*command).stdout)

    def test_class_names(self):
        for case, names in (("too few", ["0", "1"]), ("too many", ["0", "1", "2", "3"]), ("twice", ["0", "1", "1"]),
                            ("numbers", [0, 1, 2]), ("no list", "0,1,2")):
            with self.subTest(case):
                self.model_refused(safetensors(self.about(classes=names), self.payload), "class")

    def test_preprocessing(self):
        for key, value in (("normalize", "l7"), ("labels", "some"), ("max-features", -1), ("max-features", "all"),
                           ("hash-features", 0), ("hash-features", -1), ("hash-features", "all"),
                           ("word-ngrams", 0), ("char-ngrams", "6-3"), ("ngram-buckets", 0)):
            with self.subTest(key=key, value=value):
                steps = {"labels": "first", "max-features": 0, "hash-features": "none", "normalize": "l2", key: value}
                self.model_refused(safetensors(self.about(preprocessing=steps), self.payload), key)

    def test_flipped_bit_in_a_weight(self):
        for at in (0, 30, len(self.payload) - 4):
            for bit in range(8):
                payload = bytearray(self.payload)
                payload[at] ^= 1 << bit
                self.write("bad.safetensors", safetensors(self.header, bytes(payload)))
                for command in ("evaluate", "predict"):
                    self.refused([command, "bad.safetensors", self.data], r"bad\.safetensors", "checksum|finite")

    def test_model_without_checksums_still_loads(self):
        """Written by an older version; the log beside it has the log-loss."""
        old = os.path.join(ROOT, "tests", "data", "before_checksums")
        self.assertNotIn(b"checksum", open(old + ".safetensors", "rb").read())
        logged = last_evaluation(old + ".jsonl")["train"]
        self.assertEqual(self.metrics(old + ".safetensors", self.data)["log_loss"], logged["log_loss"])

    def test_weights_that_are_not_finite(self):
        for value in (float("nan"), float("inf"), float("-inf")):
            with self.subTest(value):
                payload = self.payload[:8] + struct.pack("<f", value) + self.payload[12:]
                self.write("bad.safetensors", safetensors(self.header, payload))
                for command in ("evaluate", "predict"):
                    self.refused([command, "bad.safetensors", self.data], r"bad\.safetensors", "finite|nan|NaN")

    def test_some_other_file(self):
        self.model_refused(DATA.encode())
        self.model_refused(gzip.compress(self.whole))
        self.model_refused(bytes(1000))


if __name__ == "__main__":
    unittest.main(verbosity=2)
