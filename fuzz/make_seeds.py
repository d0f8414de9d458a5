#!/usr/bin/python3
"""Writes the seed corpora: fuzz/corpus/TARGET/NAME. Seeds whose name begins with "good" must be accepted by their target;
the others are what a reader refuses, one for each message that random changes are unlikely to reach.

Models come from the program fuzz/driver.cpp (--write-seeds): build the preset `test` first. States of runs are not here:
their layout belongs to a build, and the targets make them when they start."""
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "corpus")
PROGRAM = os.path.join(os.path.dirname(HERE), "build", "release", "truemax_fuzz")


def npy(descr, shape, data, order=False, version=1, text=None):
    """An .npy file; `text`: the dictionary as it stands in the header."""
    text = text or repr({"descr": descr, "fortran_order": order, "shape": shape})
    text += "\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + data


def idx(kind, shape, data):
    return bytes([0, 0, kind, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data


def zstd(data, *options):
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


LIBSVM = b"# head\n+1 qid:3 1:1 5:0.5 # c\nx,-1.0 4:1e3\n2 2:0 3:1e-3\n1 7:1 2:2\n01 00000000000000000000000001:1\n"
TEXT_SEEDS = {
    "xmlrepository": {
        "good": b"3 10 5\n1,2 0:1 3:0.5\n 4:1e3\n0 9:-2.5\n",
        "good-blank-lines": b"2 4 3\r\n0 1:1\r\n2 2:1 1:3\r\n\n\n",
        "good-digits": b"2 3 2\n1 0:1.2345678901234567890123 1:.5 2:5.\n0 0:1e-400 2:-0.0 1:+7e+2\n",
        "header": b"3 10\n1 0:1\n", "too-many": b"1 4 3\n0 1:1\n1 1:1\n2 1:1\n", "too-few": b"9 4 3\n0 1:1\n",
        "feature": b"1 4 3\n0 4:1\n", "label": b"1 4 3\n7 1:1\n", "label-word": b"1 4 3\nx 1:1\n",
        "features": b"1 99999999999 3\n0 1:1\n", "large": b"1 4 3\n0 1:1e99\n", "only-header": b"3 10 5",
        "huge-header": b"18446744073709551615 4294967295 18446744073709551615\n0 1:1\n",
        "below": b"1 4 3\n0 -1:1\n", "digits": b"1 4 3\n0 123456789012345678901:1\n"},
    "lshtc": {
        "good": b"33, 20 0:1 5:0.5\n7 4:1e3\n", "good-many": b"1,2,3 0:1\n2 1:1\n3, 1 0:1 4294967294:2\n",
        "empty": b"33, , 0:1\n", "twice": b"1 3:1 3:2\n", "large": b"1 4294967295:1\n", "colon": b"1, 2:x\n",
        "no-value": b"1 3:\n", "nan": b"1 3:nan\n", "no-number": b"1 :3\n", "word": b"1 cat:3\n"},
    "libsvm": {
        "good": LIBSVM, "good-names": b"cat,dog 1:1\n\xc3\xa9t\xc3\xa9 2:1\n1e0 3:1\n-0 1:1\n1.50 2:1\n",
        "good-bom": b"\xef\xbb\xbf1 1:1\n2 2:1\n",
        "good-two-marks": b"\xef\xbb\xbf\xef\xbb\xbf11 1:1\n2 2:1\n", "zero": b"1 0:1\n", "carriage": b"1 1:1\r2:1\n",
        "header": b"3 10 5\n1 1:1\n", "not-utf8": b"\xff 1:1\n2 1:1\n", "binary": b"1 1:1\n\0\1\2 1:1\n",
        "comma": b"1,,2 1:1\n", "tab": b"1\t1:1\t2:1\n2\t1:1\n", "one-class": b"1 1:1\n1 2:1\n", "end-comma": b"1, 1:1\n",
        "good-long-row": b"1 " + b" ".join(b"%d:1" % i for i in range(1, 300)) + b"\n2 1:1\n"},
    "fasttext": {
        "good": b"__label__a the cat\n\nthe __label__b dog __label__a\n",
        "good-many": b"__label__1 a a b\n__label__2 b c\n__label__1 __label__2 c\n__label__3\n",
        "no-name": b"__label__ the\n", "not-utf8": b"__label__a \xff\xfe\n", "binary": b"__label__a \1\2\n__label__b x\n",
        "long": b"__label__a " + b"x" * 70000 + b"\n", "long-label": b"__label__" + b"x" * 70000 + b" a\n",
        "one-class": b"__label__a x\n__label__a y\n"},
    "ngrams": {
        "good": b"__label__a the cat sat\n__label__b the d\xc3\xb6g ran\n__label__a __label__b a\n",
        "good-2": b"__label__a the cat sat on the mat\n__label__b dogs\n",
        "good-3": b"__label__a \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x99\x82 x\n__label__b y\n"},
    "plain_text": {
        "good": b"the cat sat\nthe dog sat\n\na cat ran\n", "good-one": b"a b a b b a\n",
        "good-unk": b"a <unk> b <eos> a\nb <unk>\n", "binary": b"a b\0c\n", "not-utf8": b"a \xff b\n",
        "long": b"x" * 70000 + b" y\n", "one-word": b"\n\n\n"},
    "triples": {
        "good": b"a b\tlies in\tc\n\nc\tr\ta b\r\na\tr\ta\n",
        "good-more": b"a\tr\tb\nb\ts\ta\nc\tr\tb\na\tr\tc\n",
        "columns": b"a\tr\n", "columns-4": b"a\tr\tb\tc\n", "empty": b"a\t\tb\n",
        "long": b"a\tr\t" + b"x" * 70000 + b"\n", "binary": b"a\tr\t\1\n"},
    "class_weights": {
        "good": b"1 0.5\ntwo words 2\nz\xc3\xbcrich +1e3\n", "good-bom": b"\xef\xbb\xbf1 2\n\n2 1\n", "good-ones": b"1 1\n2 1\n",
        "unknown": b"9 1\n", "twice": b"1 1\n1 2\n", "zero": b"1 0\n", "one-word": b"1\n", "no-number": b"1 x\n",
        "large": b"1 1e16\n", "small": b"1 1e-16\n", "range": b"1 1e999\n", "negative": b"1 -1\n", "blank": b"\n \n",
        "sign": b"1 +-1\n", "nan": b"1 nan\n"},
    "row_weights": {
        "good": b"1\n0.5\n0\n2\n1e3\n", "good-array": npy("<f8", (5,), struct.pack("<5d", 1, 2, 0, .5, 3)),
        "good-short": npy("<i2", (5,), struct.pack("<5h", 1, 2, 0, 5, 3)), "few": b"1\n2\n", "many": b"1\n" * 6,
        "blank": b"1\n\n2\n", "word": b"x\n", "columns": b"1 2\n", "shape": npy("<f8", (5, 1), struct.pack("<5d", 1, 2, 0, 1, 3)),
        "text": npy("<U1", (1,), b"a\0\0\0"), "cut": npy("<f8", (5,), b"12345678"), "zeros": b"0\n" * 5,
        "more": npy("<i2", (2,), b"123456"), "negative": npy("<f8", (1,), struct.pack("<d", -1)),
        "nan": npy("<f8", (1,), struct.pack("<d", float("nan")))},
    "split": {
        "good": b"\x00" + b"1 2 3\n3 4 5\n", "good-2": b"\x01" + b"1 2\n\n2\t4\r\n", "good-3": b"\x02" + b"1 2 3\n5 5 5\n",
        "columns": b"\x02" + b"1 2\n", "twice": b"\x00" + b"1\n1\n", "zero": b"\x00" + b"0\n", "word": b"\x00" + b"x\n",
        "empty": b"\x00" + b"\n\n", "beyond": b"\x00" + b"6\n", "large": b"\x00" + b"99999999999999999999\n"},
    "option_words": {
        "good": b"step 0.5\nepochs 3\nmethod implicit\ndraw frequency\nridge 1e-3\nseed 7\n",
        "good-words": b"epochs unlimited\nthreads all\nmemory-limit 1.5G\nchar-ngrams 3-6\nintercept on\nlabels all\nridge auto\n",
        "good-files": b"test a.txt\nmodel none\nlog none\nformat text\nencoder cbow\ncontext 5\nhidden 8\n",
        "good-learnt": b"hidden 16\nlayers 1\ntied on\ndropout 0.5\nencoder context\nformat text\nrow-state on\n",
        "span": b"char-ngrams 6-3\n", "number": b"step 1e999\n", "count": b"epochs 1.5\n", "size": b"memory-limit 1e300T\n",
        "unknown": b"eta0 1\n", "empty": b"model \n", "choice": b"method best\n", "huge": b"hidden 18446744073709551615\n",
        "good-huge": b"seed 18446744073709551615\n", "good-every": b"checkpoint-every 10min\n",
        "good-epochs": b"checkpoint-every 2epochs\n", "good-bad-every": b"checkpoint-every 1.5epochs\n"},
    "option_json": {
        "good": json.dumps({"method": "prox", "step": 0.5, "epochs": 2, "intercept": True, "char-ngrams": "2-3"}).encode(),
        "good-words": json.dumps({"ridge": "auto", "threads": 0, "epochs": "unlimited", "label-file": "x"}).encode(),
        "array": b"[1]", "unknown": b'{"x": 1}', "type": b'{"step": "a"}', "negative": b'{"epochs": -1}',
        "float": b'{"epochs": 1e3}', "large": b'{"seed": 1e400}', "null": b'{"model": null}', "list": b'{"draw": ["a"]}'},
    "any_format": {
        "good-libsvm": b"\x00" + LIBSVM, "good-xml": b"\x00" + b"2 10 5\n1,2 0:1 3:0.5\n0 9:-2.5\n",
        "good-lshtc": b"\x00" + b"33, 20 0:1 5:0.5\n7 4:1e3\n", "good-fasttext": b"\x00" + b"__label__a the cat\n__label__b x\n",
        "good-idx": b"\x00" + idx(8, (2, 2), b"\1\2\3\4"), "good-npy": b"\x00" + npy("<i2", (2, 2), b"\1\0\0\0\0\0\2\0"),
        "good-triples": b"\x05" + b"a\tr\tb\nb\tr\tc\n", "prompt": b"\x06" + b"the cat\n", "good-words": b"\x04" + b"the cat\n",
        "good-expected": b"\x01" + b"1 0:1\n 2:1\n", "good-expected-lshtc": b"\x02" + b"1 0:1 3:1\n2 2:1\n",
        "good-expected-libsvm": b"\x03" + b"1 1:1 3:1\n2 2:1\n",
        "csv": b"\x00" + b"label,a,b\ncat,1,2\ndog,3,4\n", "csv-semicolon": b"\x00" + b"label;a;b\ncat;1;2\n",
        "tsv": b"\x00" + b"label\ta\tb\ncat\t1\t2\ndog\t3\t4\n", "csv-quotes": b"\x00" + b'"label","a b"\n"x, y",2\n',
        "csv-numbers": b"\x00" + b"1,2.5,3\n4,5.5,6\n", "words": b"\x00" + b"hello world\nthis is text\n",
        "json": b"\x00" + b'{"a": 1}\n', "pdf": b"\x00" + b"%PDF-1.4\n\x80\x81", "zip": b"\x00" + b"PK\3\4\0\0", "one": b"\x00" + b"1\n",
        "numbers": b"\x00" + b"1 2 3\n4 5 6\n7 8 9\n", "arff": b"\x00" + b"@relation x\n@attribute a numeric\n", "empty": b"\x00\n\n"},
}

DENSE_SEEDS = {
    "idx": {
        "good": idx(0x0D, (3, 2), struct.pack(">6f", 1, 0, 2, -3, .5, 0)), "good-u8": idx(8, (3, 2, 2), bytes(range(12))),
        "good-i8": idx(9, (3, 2), b"\xff\1\0\3\2\1"), "good-i16": idx(0x0B, (3, 1), b"\1\2\3\4\5\6"),
        "good-i32": idx(0x0C, (3, 1), bytes(range(12))), "good-f64": idx(0x0E, (3, 1), struct.pack(">3d", 1, 0, -2)),
        "nan": idx(0x0D, (1, 1), struct.pack(">f", float("nan"))), "large": idx(0x0E, (1, 1), struct.pack(">d", 1e99)),
        "cut": idx(8, (3, 2), b"\1"), "more": idx(8, (3, 2), bytes(9)), "zero": idx(8, (0, 2), b""), "text": b"not idx",
        "huge": idx(8, (0xFFFFFFFF,) * 4, b"\1"), "wide": idx(8, (1, 0xFFFFFFFF), b"\1"), "header": b"\0\0\x08\x02\0\0",
        "rows": idx(8, (4, 1), b"\1\1\1\1"), "tall": idx(8, (0xFFFFFFFF, 1), b"\1")},
    "npy": {
        "good": npy("<i2", (3, 2), struct.pack("<6h", 1, 0, 0, 2, 3, -1)), "good-f4": npy("<f4", (3, 2), struct.pack("<6f", 1, 0, 2, -3, .5, 0)),
        "good-big": npy(">f8", (3, 1), struct.pack(">3d", 1, 0, -2)), "good-fortran": npy("<f4", (3, 2), struct.pack("<6f", 1, 0, 2, -3, .5, 0), order=True),
        "good-bool": npy("|b1", (3, 2), b"\1\0\1\1\0\1"), "good-u8": npy("|u1", (3, 2), bytes(range(6)), version=2),
        "good-u16": npy("<u2", (3,), b"\1\0\2\0\3\0", version=3), "good-u4": npy("<u4", (3, 1), bytes(range(12))),
        "good-i8": npy("|i1", (3, 1), b"\1\2\xff"), "good-i4": npy("<i4", (3, 1), bytes(range(12))),
        "good-u8-large": npy("<u8", (3, 1), bytes(range(24))), "good-i8-large": npy("<i8", (3, 1), bytes(range(24))),
        "good-fortran-wide": npy("<i2", (3, 4), bytes(range(24)), order=True),
        "fortran-nan": npy("<f4", (1, 2), struct.pack("<2f", 1, float("nan")), order=True), "fortran-more": npy("|u1", (2, 2), bytes(5), order=True),
        "fields": npy("", (), b"", text="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
        "half": npy("<f2", (2, 2), bytes(8)), "complex": npy("<c8", (2, 2), bytes(32)), "text": npy("<U3", (2, 2), bytes(48)),
        "scalar": npy("<f4", (), bytes(4)), "three": npy("<f4", (2, 2, 2), bytes(32)), "zero": npy("<f4", (0, 2), b""),
        "huge": npy("<f8", (4294967296, 4294967296), b""), "wide": npy("|u1", (1, 4294967296), b""), "tall": npy("|u1", (4294967297, 1), b""),
        "version": b"\x93NUMPY\x07\0\x01\0 ", "length": b"\x93NUMPY\x02\0\xff\xff\xff\xff", "cut": b"\x93NUMPY\x01\0\x40\0{'descr'",
        "order": npy("", (), b"", text="{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}"),
        "shape": npy("", (), b"", text="{'descr': '<f4', 'fortran_order': True, 'shape': 2}"),
        "shape-end": npy("", (), b"", text="{'descr': '<f4', 'fortran_order': True, 'shape': (2, "),
        "shape-word": npy("", (), b"", text="{'descr': '<f4', 'fortran_order': True, 'shape': (x)}"),
        "descr": npy("", (), b"", text="{'descr': '', 'fortran_order': True, 'shape': (2,)}"),
        "descr-size": npy("", (), b"", text="{'descr': '<fx', 'fortran_order': True, 'shape': (2,)}"),
        "no-descr": npy("", (), b"", text="{'fortran_order': True}"), "quotes": npy("", (), b"\1\2", text='{"descr": "|u1", "fortran_order": False, "shape": (2,)}')},
    "labels": {
        "good": idx(8, (3,), b"\0\1\0"), "good-text": npy("|S3", (3,), b"abcx\0\0yz\0"),
        "good-unicode": npy("<U2", (3,), struct.pack("<6I", 0xE9, 0, 0x6771, 0x4EAC, 0x1F642, 0x41)),
        "good-unicode-big": npy(">U1", (3,), struct.pack(">3I", 65, 66, 65)), "good-f8": npy("<f8", (3, 1), struct.pack("<3d", -0.0, 1, 2e9)),
        "good-u8": npy("<u8", (3,), struct.pack("<3Q", 2 ** 64 - 1, 1, 1)), "good-i8": npy("<i8", (3,), struct.pack("<3q", -2 ** 63, 1, 1)),
        "good-i4": npy("<i4", (3,), struct.pack("<3i", -1, 1, 1)), "good-bool": npy("|b1", (3,), b"\1\0\1"),
        "good-packed": gzip.compress(idx(8, (3,), b"\0\1\0"), mtime=0), "half": npy("<f8", (3,), struct.pack("<3d", .5, 1, 2)),
        "nan": npy("<f8", (3,), struct.pack("<3d", float("nan"), 1, 2)), "empty": npy("|S1", (3,), b"a\0b"),
        "not-utf8": npy("|S1", (3,), b"a\xffb"), "control": npy("|S1", (3,), b"a\x1bb"),
        "impossible": npy("<U1", (3,), struct.pack("<3I", 0x110000, 65, 65)), "surrogate": npy("<U1", (3,), struct.pack("<3I", 0xD800, 65, 65)),
        "cut": idx(8, (3,), b"\0"), "more": idx(8, (3,), b"\0\1\0\1"), "few": idx(8, (2,), b"\0\1"), "shape": idx(8, (3, 2), b"\0" * 6),
        "text": b"0\n1\n0\n", "long": npy("|S900000", (3,), b"a")},
}


def place_seeds():
    """First byte: which place; second byte: which reader."""
    seeds = {f"place-{p}-{r}": bytes([p, r]) for p in range(5) for r in range(6)}
    names = [b"train-images-idx3-ubyte\ntrain-labels-idx1-ubyte\n", b"X_train.npy\ny_train.npy\n", b"x.npy\ny.npy.gz\n",
             b"max_x.gz\nmax_y\n", b"a.features\na.targets\n", b"data.npy.gz\nlabels.npy\n", b"f\nl\ntyped", b"a,b\nc\ntyped", b"max\nmay\n"]
    seeds.update({f"beside-{i}": b"\x05\x00" + name for i, name in enumerate(names)})
    for kind, place in (("input", 6), ("pipe", 7)):
        seeds.update({f"good-{kind}": bytes([place, 0]) + LIBSVM, f"good-{kind}-weights": bytes([place, 1]) + b"1\n2\n",
                      f"{kind}-model": bytes([place, 3]) + b"x", f"{kind}-log": bytes([place, 4]) + b"{}\n",
                      f"good-{kind}-half": bytes([place, 0]) + b"2 4 3\n0 1:1\n2 2:1", f"{kind}-empty": bytes([place, 0])})
    return seeds


def memory_seeds():
    """First byte: how it is read; second byte: log2 of the size of the text."""
    return {"good-rows": b"\x00\x0a# 1:1\n", "names": b"\x00\x17c# 1:1\n", "long-line": b"\x00\x18 1:1", "words": b"\x01\x17__label__a w#\n",
            "ngrams": b"\x41\x17__label__a w# x#\n", "triples": b"\x02\x17a#\tr\tb#\n", "text": b"\x03\x17w# ", "values": b"\x04\x17# 0:1 1:1 2:1 3:1 4:1 5:1 6:1\n",
            "weights": b"\x18\x181\n", "split": b"\x10\x121 1:1\n", "weight-line": b"\x18\x18 ", "labels": b"\x00\x17#,a#,b# 1:1\n"}


def packed_seeds():
    plain = gzip.compress(LIBSVM, mtime=0)
    framed = zstd(LIBSVM)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    return {"good-g": b"g" + LIBSVM, "good-z": b"z" + LIBSVM, "good-gzip": b"r" + plain, "good-zstd": b"r" + framed,
            "good-members": b"r" + plain + gzip.compress(b"3 1:1\n", mtime=0), "good-padded": b"r" + plain + b"\0" * 20,
            "good-frames": b"r" + skippable + framed + zstd(b"3 1:1\n"), "good-plain": b"r" + LIBSVM,
            "cut-gzip": b"r" + plain[:-9], "cut-zstd": b"r" + framed[:-3], "bad-gzip": b"r" + plain[:20] + b"\xff" + plain[21:],
            "bad-zstd": b"r" + framed[:20] + b"\xff" + framed[21:], "empty-gzip": b"r" + gzip.compress(b"", mtime=0),
            "bomb-gzip": b"r" + gzip.compress(b"1 1:1\n" * 20000, mtime=0), "bomb-line": b"r" + zstd(b"1 1:1" + b" " * 500000),
            "window": b"r" + zstd(LIBSVM * 4, "--ultra", "--long=31", "--single-thread"), "header": b"r\x1f\x8b", "magic": b"r\x28\xb5",
            "header-window": b"r\x28\xb5\x2f\xfd\x00\xff" + b"\0" * 9, "empty": b"r"}


def run_log(**end):
    start = {"event": "start", "config": {"train": "a", "method": "implicit", "step": 0.5, "epochs": 2, "seed": 3},
             "data": {"rows": 5, "features": 4, "classes": 3, "nonzeros": 8, "hash": "00"}}
    chosen = {"event": "chosen", "config": {"method": "prox", "step": 1.0, "epochs": 2, "encoder": "linear"}}
    evaluate = {"event": "evaluate", "epoch": 1, "steps": 5}
    end = {"event": "end", "steps": 10, **end}
    return start, chosen, evaluate, end


def lines(*events):
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def log_seeds():
    start, chosen, evaluate, end = run_log()
    segments = [{"first_step": 0, "step": 0.5}, {"first_step": 4, "step": 0.25}]
    newton = {**start, "config": {**start["config"], "newton": 5}}
    without = {**start, "config": {"hidden": 3, "method": "scent"}, "valid_data": {"hash": "1"}}
    return {"good": lines(start, evaluate, end), "good-chosen": lines(start, chosen, evaluate, end),
            "good-segments": lines(start, run_log(segments=segments)[3]), "good-newton": lines(newton, {**end, "steps": 0}),
            "good-interrupted": lines(newton, {**end, "interrupted": True}), "good-old": lines(without, end),
            "no-end": lines(start, evaluate), "no-start": lines(end), "two-starts": lines(start, start, end), "more": lines(start, end, end),
            "no-steps": lines(start, {"event": "end"}), "zero": lines(start, {**end, "steps": 0}),
            "stopped": lines(start, {**end, "steps": 0, "interrupted": True}), "not-json": b"{]\n", "no-event": b'{"a": 1}\n',
            "no-config": b'{"event": "start"}\n', "chosen": lines(start, {"event": "chosen"}, end),
            "segments": lines(start, run_log(segments=3)[3]), "segment": lines(start, run_log(segments=[3])[3]),
            "order": lines(start, run_log(segments=segments[::-1])[3]),
            "step": lines(start, run_log(segments=[{"first_step": 0, "step": 1e99}])[3]), "empty": b"",
            "lock-free": lines({**start, "config": {"lock-free": True}}, end), "unknown": lines({**start, "config": {"x": 1}}, end),
            "deep": b'{"event": "start", "config": ' + b"[" * 3000}


def write(target, seeds):
    folder = os.path.join(CORPUS, target)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def model_seeds():
    """Models of the program, and the headers that only a forger writes."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PROGRAM, "--write-seeds", folder], check=True)
        place = os.path.join(folder, "model")
        seeds = {}
        for name in sorted(os.listdir(place)):
            with open(os.path.join(place, name), "rb") as file:
                seeds[name] = file.read()
    seeds.update(forged_models(seeds))
    return seeds


def parts_of(model):
    size = struct.unpack("<Q", model[:8])[0]
    header = json.loads(model[8:8 + size])
    return header, json.loads(header["__metadata__"]["truemax"]), model[8 + size:]


def safetensors(header, inside, data, **form):
    header["__metadata__"]["truemax"] = json.dumps(inside, separators=(",", ":"))
    text = json.dumps(header, **(form or {"separators": (",", ":")})).encode()
    return struct.pack("<Q", len(text)) + text + data


def forged_models(models):
    """One for each message of the loader: good models with one thing changed."""
    def find(wanted):  # the first model without checksums that has it
        for model in models.values():
            header, inside, data = parts_of(model)
            if "checksums" not in inside and wanted(header, inside):
                return json.loads(json.dumps(header)), inside, data
        raise ValueError("no such model")

    plain = lambda h, i: set(h) == {"__metadata__", "weight"} and not i["features"]["words"]  # noqa: E731
    kinds = {"plain": plain, "intercept": lambda h, i: "intercept" in h, "learnt": lambda h, i: "embedding" in h,
             "context": lambda h, i: i["features"].get("layers") == 1, "triples": lambda h, i: "relations" in i["features"],
             "words": lambda h, i: i["features"]["words"] and "embedding" not in h,
             "buckets": lambda h, i: "buckets" in i["features"], "hashed": lambda h, i: i["preprocessing"].get("hash-features", "none") not in (0, "none")}
    changes = {
        "plain": {
            "version": lambda h, i: i.update(format_version=9), "no-method": lambda h, i: i.pop("method"),
            "names": lambda h, i: i["classes"].__setitem__(0, 3), "twice": lambda h, i: i["classes"].__setitem__(0, i["classes"][1]),
            "fewer": lambda h, i: i["classes"].pop(), "counts": lambda h, i: i["class_counts"].pop(), "zero": lambda h, i: i["class_counts"].__setitem__(0, 0),
            "type": lambda h, i: h["weight"].update(dtype="F99"), "double": lambda h, i: h["weight"].update(dtype="I32"),
            "place": lambda h, i: h["weight"].pop("dtype"), "huge": lambda h, i: h["weight"].update(shape=[2 ** 40, 2 ** 40]),
            "shape": lambda h, i: h["weight"].update(shape=[-1, 2]), "offsets": lambda h, i: h["weight"].update(data_offsets=[0, 10 ** 9]),
            "offset-type": lambda h, i: h["weight"].update(data_offsets=[0, -1]), "size": lambda h, i: h["weight"].update(data_offsets=[0, 4]),
            "preprocessing": lambda h, i: i["preprocessing"].update(nonsense=1), "hashed-words": lambda h, i: i["features"].update(hashed_words=True),
            "words": lambda h, i: i["features"].update(words=["a"]), "encoder": lambda h, i: i["features"].update(encoder="cbow", context=0, layers=0),
            "value": lambda h, i: h["__metadata__"].update(x=3), "flat": lambda h, i: h["weight"].update(shape=[h["weight"]["data_offsets"][1] // 4])},
        "intercept": {"intercept-type": lambda h, i: h["intercept"].update(dtype="I32"),
                      "hole": lambda h, i: h["intercept"].update(shape=[0], data_offsets=[h["intercept"]["data_offsets"][1]] * 2),
                      "other": lambda h, i: h.__setitem__("other", h.pop("intercept")), "overlap": lambda h, i: h["intercept"].update(data_offsets=[0, 12])},
        "learnt": {"embedding": lambda h, i: h["embedding"].update(dtype="I32")},
        "context": {"context-type": lambda h, i: h["context"].update(dtype="I32"), "context-rows": lambda h, i: i["features"].update(context=3),
                    "layers": lambda h, i: i["features"].update(layers=7), "no-encoder": lambda h, i: i["features"].pop("encoder")},
        "triples": {"relations": lambda h, i: i["features"]["relations"].append("x"), "triples-words": lambda h, i: i["preprocessing"].update(normalize="l2")},
        "words": {"words-fewer": lambda h, i: i["features"]["words"].pop()},
        "buckets": {"buckets-list": lambda h, i: i["features"].update(buckets=3), "buckets-type": lambda h, i: i["features"]["buckets"].__setitem__(0, "a"),
                    "buckets-order": lambda h, i: i["features"]["buckets"].__setitem__(1, 0), "buckets-rule": lambda h, i: i["preprocessing"].update({"word-ngrams": 1})},
        "hashed": {"hash-features": lambda h, i: i["preprocessing"].update({"hash-features": 3})}}
    seeds = {}
    for kind, spoils in changes.items():
        for name, spoil in spoils.items():
            header, inside, data = find(kinds[kind])
            spoil(header, inside)
            seeds["forged-" + name] = safetensors(header, inside, data)
    header, inside, data = find(plain)
    seeds["forged-nan"] = safetensors(header, inside, data[:-4] + struct.pack("<f", float("nan")))
    seeds["forged-more"] = safetensors(header, inside, data + b"1234")
    seeds["forged-metadata"] = safetensors(header, 3, data)
    whole = next(model for model in models.values() if "checksums" in parts_of(model)[1])
    header, inside, data = parts_of(whole)
    text = header["__metadata__"]["truemax"]
    seeds["forged-checksum"] = whole[:-1] + b"\x01"
    for name, form in {"good-indented": {"indent": 2}, "good-spaced": {"separators": (", ", ": ")}, "forged-blank": {"separators": (",", " :")}}.items():
        header["__metadata__"]["truemax"] = text
        spaced = json.dumps(header, ensure_ascii=False, **form).encode()
        seeds[name] = struct.pack("<Q", len(spaced)) + spaced + data
    seeds["length"], seeds["not-json"] = struct.pack("<Q", 99) + b"{}", struct.pack("<Q", 2) + b"[]"
    seeds["no-metadata"], seeds["short"] = struct.pack("<Q", 2) + b"{}", b"1234"
    seeds["twice"] = struct.pack("<Q", 13) + b'{"a":1,"a":1}'
    seeds["metadata-type"] = struct.pack("<Q", 18) + b'{"__metadata__":1}'
    return seeds


def checkpoint_seeds():
    """An odd first byte: the file as it is. An even one: the target adds a length and a checksum."""
    start = b"TMXCHKPT" + struct.pack("<Q", 3)
    return {"magic": b"\x01hello, world", "short": b"\x01" + start, "empty": b"\x01", "damaged": b"\x01" + start + bytes(40),
            "version": b"\x00TMXCHKPT" + struct.pack("<Q", 4), "truncated": b"\x00" + start, "length": b"\x00" + start + b"\xff" * 8,
            "no-json": b"\x00" + start + struct.pack("<Q", 2) + b"[]", "deep": b"\x00" + start + struct.pack("<Q", 70) + b"[" * 70}


def option_names():
    with open(os.path.join(os.path.dirname(HERE), "docs", "options.md"), encoding="utf-8") as file:
        return sorted(set(re.findall(r"(?m)^\| `--([a-z-]+)", file.read())))


def write_dictionaries():
    """Words that random changes would take long to find."""
    folder = os.path.join(HERE, "dictionaries")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = option_names()
    keys = ["event", "start", "chosen", "end", "evaluate", "config", "data", "valid_data", "steps", "segments", "first_step",
            "step", "interrupted", "hash"]
    model = ["__metadata__", "truemax", "truemax_checksum", "weight", "intercept", "embedding", "context", "dtype", "F32", "shape",
             "data_offsets", "format_version", "classes", "class_counts", "preprocessing", "features", "file_features", "declared",
             "words", "buckets", "hashed_words", "relations", "encoder", "complex", "cbow", "skipgram", "layers", "checksums",
             "method", "options"]
    words = {"option_words": [name + " " for name in names] + ["auto", "none", "unlimited", "on", "off", "all", "1e15", "3-6"],
             "option_json": [f'\\"{name}\\":' for name in names] + ["true", "false", "null", "1e308"],
             "run_log": [f'\\"{name}\\":' for name in keys + names] + ["true", "false", "\\x0a"],
             "model": [f'\\"{name}\\"' for name in model] + [f'\\\\\\"{name}\\\\\\":' for name in model] + ["18446744073709551615"],
             "npy": ["\\x93NUMPY", "'descr': ", "'fortran_order': ", "'shape': (", "True", "False", "<f4", ">f8", "|S9", "<U2", "|b1"],
             "fasttext": ["__label__", "\\xef\\xbb\\xbf"], "libsvm": ["qid:", "1e-5", "nan", "inf", "#", "\\x0d\\x0a"],
             "plain_text": ["<unk>", "<eos>"]}
    words["labels"], words["ngrams"], words["any_format"] = words["npy"], words["fasttext"], words["libsvm"] + words["fasttext"]
    for target, entries in words.items():
        with open(os.path.join(folder, target + ".dict"), "w", encoding="utf-8") as file:
            file.writelines(f'"{entry}"\n' for entry in entries)


def main():
    if not os.path.exists(PROGRAM):
        sys.exit(f"{PROGRAM} is missing: build it with 'cmake --preset test; cmake --build --preset test --target truemax_fuzz'")
    for target, seeds in {**TEXT_SEEDS, **DENSE_SEEDS, "packed": packed_seeds(), "run_log": log_seeds(), "place": place_seeds(), "memory": memory_seeds(),
                          "checkpoint": checkpoint_seeds(), "model": model_seeds()}.items():
        write(target, seeds)
    write_dictionaries()


if __name__ == "__main__":
    main()
