#!/usr/bin/python3
"""Next-word prediction as softmax: from the wikitext2 tokens to train.txt and test.txt, in a format truemax reads.

    experiments/next_word.py [DATA] --out FOLDER        DATA: the folder of the data sets (default: TRUEMAX_DATA)
    truemax train FOLDER/train.txt --test FOLDER/test.txt --intercept

A row is a word of the text, its label. The features are the words before it, one-hot by position: position p (0: the word
just before) has features p (C + 1) ... p (C + 1) + C - 1 for the C commonest words, and p (C + 1) + C for all others.
The text is one stream: every line ends in the word <eos>, which is a word like any other, and contexts cross line ends.
Positions before the first word of a text count as "all others".

Words are numbered by decreasing count in the training text, ties by first occurrence; label ids are these numbers.
Words found only in the test text get numbers above them. The same text gives the same bytes. The files are
XMLRepository text: a line "rows features labels", then "label f:1 f:1 f:1" per row, with increasing feature numbers.
"""
import argparse
import collections
import gzip
import os
import sys

END_OF_LINE = b"<eos>"


def fail(message):
    print(f"next_word.py: error: {message}", file=sys.stderr)
    sys.exit(2)


def find_text(folder, part):
    """The text of a part, plain or gzipped."""
    plain = os.path.join(folder, "wikitext2", f"wiki.{part}.tokens")
    for path in (plain + ".gz", plain):
        if os.path.exists(path):
            return path
    return fail(f"no {plain}.gz; name the folder that holds wikitext2/, or set TRUEMAX_DATA")


def open_text(path):
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def words_of(path):
    """Yields the words of a text, as bytes, because a Unicode space may be part of a word."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            words = line.split()
            if END_OF_LINE in words:
                fail(f"{path}:{number}: has the word <eos>, which is added at line ends; take the text without it")
            yield from words
            yield END_OF_LINE


def number_words(path):
    """{word: number} by decreasing count, and how many words the text has."""
    counts = collections.Counter(words_of(path))  # keeps the order of first occurrence, and sorting is stable
    by_count = sorted(counts, key=lambda word: -counts[word])
    return {word: i for i, word in enumerate(by_count)}, sum(counts.values())


def write_rows(source, target, number, rows, common, context):
    """Writes the first `rows` rows of a text and returns how many different labels they have. `number`: the number of
    every word; words below `common` have their own features."""
    per_position = common + 1
    before = [common] * context  # the feature of each position, nearest first
    labels = set()
    temporary = target + ".part"
    with open(temporary, "w", encoding="ascii", newline="\n") as out:
        out.write(f"{rows} {context * per_position} {len(number)}\n")
        for count, word in enumerate(words_of(source)):
            if count == rows:
                break
            label = number[word]
            labels.add(label)
            out.write(f"{label} " + " ".join(f"{p * per_position + f}:1" for p, f in enumerate(before)) + "\n")
            before = [min(label, common), *before[:-1]]
    os.replace(temporary, target)  # a file under its final name is complete
    return len(labels)


def make(data, out, common=10000, context=3, rows=0, test_rows=0):
    """Writes both files; returns what was written, by part. 0 rows: all."""
    number, train_count = number_words(find_text(data, "train"))
    common = min(common, len(number))
    classes = len(number)
    test = find_text(data, "test")
    test_count = 0
    for word in words_of(test):
        test_count += 1
        number.setdefault(word, len(number))
    os.makedirs(out, exist_ok=True)
    written = {}
    for part, source, there, wanted in (("train", find_text(data, "train"), train_count, rows),
                                        ("test", test, test_count, test_rows)):
        count = min(wanted, there) if wanted else there
        path = os.path.join(out, f"{part}.txt")
        labels = write_rows(source, path, number, count, common, context)
        written[part] = {"path": path, "rows": count, "features": context * (common + 1), "labels": labels}
    written["test"]["unseen_words"] = len(number) - classes
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("data", nargs="?", metavar="DATA",
                        default=os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(here), "shared", "data")),
                        help="the folder that holds wikitext2/ (default: TRUEMAX_DATA, else ../shared/data)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where train.txt and test.txt go")
    parser.add_argument("--words", type=int, default=10000, help="commonest words with their own feature (default 10000)")
    parser.add_argument("--context", type=int, default=3, help="preceding words used as features (default 3)")
    parser.add_argument("--rows", type=int, default=0, help="write only this many training rows; 0: all")
    parser.add_argument("--test-rows", type=int, default=0, help="the same for test rows")
    options = parser.parse_args()
    for name, least in (("words", 0), ("context", 1), ("rows", 0), ("test_rows", 0)):
        if getattr(options, name) < least:
            fail(f"--{name.replace('_', '-')} is {getattr(options, name)}; give a whole number from {least} up")
    written = make(options.data, options.out, options.words, options.context, options.rows, options.test_rows)
    for part, about in written.items():
        print(f"{part:<5}  N {about['rows']:>9,}  D {about['features']:,}  K {about['labels']:>6,}  {about['path']}")
    if written["test"]["unseen_words"]:
        print(f"{written['test']['unseen_words']} words of the test text are not in the training text")


if __name__ == "__main__":
    main()
