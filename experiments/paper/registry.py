"""The data sets: their sources, file names and cuts, and their sizes in the paper and in the authors' runs.

The cut is the paper's: first label, features numbered below 10,000, the first 100,000 rows, rows without a feature left
out, rows of unit length. It is done by truemax's own options (CUT). Prepared here are files of rows: the tenth of the
rows on which steps are tried, the other rows that judge them, the split of the authors' runs, and generated twins of
missing sets.
"""
import dataclasses
import json
import os
import random
import re
import subprocess

from .files import Refused, checked, digest_of, is_header, lines_of, text_lines, whole_write, write_rows

REPOSITORY = "http://manikvarma.org/downloads/XC/XMLRepository.html"
MAX_ROWS, MAX_FEATURES = 100_000, 10_000
BOTH = ("train", "test")
TENTH = 10  # every tenth row is for choosing steps
JUDGES = 20_000  # at most this many other rows judge the steps


@dataclasses.dataclass(frozen=True)
class DataSet:
    name: str
    title: str
    source: str
    downloaded: tuple = ()   # file names as downloaded: train and test, or all rows and the two split files
    train: str = "train.txt.gz"
    test: str = "test.txt.gz"
    paper: tuple = None      # K, D, N of Table 1
    uncut: tuple = None      # K, D, N in brackets there, None if not altered
    recorded_rows: int = 0   # N of the authors' runs, from the denominators of their error rates
    three_quarters: tuple = ()    # of whose rows their runs took 75%, drawn anew: "train", "test"; (): the train file
    cut_features: bool = True
    nonzeros: float = 0      # of the twin, these and the next two; docs/paper.md says where the numbers are from
    skew: float = 1.0
    separability: float = 0.0

    @property
    def of_paper(self):
        return self.paper is not None

    @property
    def has_twin(self):
        return self.nonzeros > 0


SETS = (
    DataSet("mnist", "MNIST", "http://yann.lecun.com/exdb/mnist/",
            ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
             "t10k-labels-idx1-ubyte.gz"), "train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz",
            (10, 780, 60000), recorded_rows=60000),
    DataSet("bibtex", "Bibtex", REPOSITORY, ("Bibtex_data.txt", "bibtex_trSplit.txt", "bibtex_tstSplit.txt"),
            paper=(147, 1836, 4880), uncut=(159, None, None), recorded_rows=5546, three_quarters=BOTH),
    DataSet("delicious", "Delicious", REPOSITORY,
            ("Delicious_data.txt", "delicious_trSplit.txt", "delicious_tstSplit.txt"),
            paper=(350, 500, 12920), uncut=(983, None, None), recorded_rows=12068, three_quarters=BOTH),
    DataSet("eurlex", "Eurlex", REPOSITORY, ("eurlex_train.txt", "eurlex_test.txt"), paper=(838, 5000, 15539),
            uncut=(3993, None, None), recorded_rows=11633, three_quarters=("train",),
            nonzeros=237, separability=0.02),
    DataSet("amazoncat", "AmazonCat-13K", REPOSITORY, ("amazonCat_train.txt", "amazonCat_test.txt"),
            paper=(2709, 10000, 100000), uncut=(2919, 203882, 1186239), recorded_rows=100000, nonzeros=40,
            separability=0.15),
    DataSet("wiki10", "Wiki10", REPOSITORY, ("wiki10_train.txt", "wiki10_test.txt"), paper=(4021, 10000, 14146),
            uncut=(30938, 101938, None), recorded_rows=14141, nonzeros=66,
            separability=0.05),
    DataSet("wikismall", "WikiSmall", "http://lshtc.iit.demokritos.gr/", ("train.txt", "test.txt"),
            paper=(18207, 10000, 90737), uncut=(28955, 2085164, 342664), recorded_rows=90737, nonzeros=5,
            skew=0.8, separability=0.05),
    DataSet("yso-finna-en", "YSO-Finna", "https://github.com/NatLibFi/Annif-corpora (subjects/yso-finna-en)"),
    DataSet("fb15k-237", "FB15k-237", "https://github.com/thunlp/OpenKE (benchmarks/FB15K237)", cut_features=False),
)
BY_NAME = {one.name: one for one in SETS}


@dataclasses.dataclass(frozen=True)
class Found:
    """A set as it will be run."""
    set: DataSet
    train: str
    test: str = None
    twin: bool = False

    @property
    def name(self):
        return self.set.name + ("-twin" if self.twin else "")

    @property
    def title(self):
        return self.set.title + (" (twin)" if self.twin else "")


def needed(one):
    """Names of the files that a set needs: as XMLRepository text or, for MNIST, as downloaded."""
    if "idx" in one.train:
        return one.downloaded[:2]
    return (one.train, one.test) if "test" in one.three_quarters else (one.train,)


def find(one, folders, made=None):
    """The set's files in the first folder that has them, or None and where to put them. Downloaded files that are not
    XMLRepository text of train rows are converted in `made`."""
    partly = []
    for folder in folders:
        at = os.path.join(folder, one.name)
        test = os.path.join(at, one.test)
        if all(os.path.exists(os.path.join(at, name)) for name in needed(one)):
            return Found(one, os.path.join(at, one.train), test if os.path.exists(test) else None), ""
        names = [os.path.join(at, name) for name in one.downloaded]
        if names and made and "idx" not in one.train and all(os.path.exists(name) for name in names):
            return as_text(one, names, made), ""
        partly += [name for name in dict.fromkeys((*one.downloaded, one.train, one.test))
                   if os.path.exists(os.path.join(at, name))]
    where = os.path.join(folders[0], one.name)
    text = f"{one.train} and {one.test} (XMLRepository text: docs/formats.md)"
    put = ", ".join(one.downloaded) + ("" if "idx" in one.train else f", or {text}," if one.downloaded else text)
    return None, (f"{one.title} is not there: get it from {one.source} and put {put.rstrip(',')} into {where}"
                  + (f" (of these only {', '.join(partly)} is there)" if partly else ""))


def as_text(one, names, made):
    """Train and test rows as XMLRepository text with a header, from separate files (possibly without a header and with
    blanks after commas, as in LSHTC) or from one file with the first column of two split files."""
    folder = os.path.join(made, f"{one.name}-{digest_of(names)}")

    def read(path):
        lines = [re.sub(r",\s+", ",", line) for line in text_lines(path)]
        if is_header(lines[0]):
            return checked(path, lines[0].split(), lines[1:])
        features = 1 + max(int(pair.split(":")[0]) for line in lines for pair in line.split()[1:])
        return [str(len(lines)), str(features), "0"], lines

    def chosen(rows, split):
        numbers = [int(line.split()[0]) for line in text_lines(split)]
        if min(numbers) < 1 or max(numbers) > len(rows) or len(set(numbers)) < len(numbers):
            raise ValueError(f"expected row numbers from 1 to {len(rows)}, each once")
        return [rows[number - 1] for number in numbers]
    paths = []
    for part, name in zip(BOTH, names[-2:]):
        def write(path, name=name):
            try:
                header, rows = read(name if len(names) == 2 else names[0])
                write_rows(path, header, rows if len(names) == 2 else chosen(rows, name))
            except (ValueError, IndexError) as error:
                raise Refused(f"{name}: {error}; get the files again") from None
        paths.append(whole_write(os.path.join(folder, f"downloaded-{part}.txt"), write))
    return Found(one, *paths)


def prepared(found, folder):
    """The folder for files made from this set's rows; other rows have another folder."""
    return os.path.join(folder, f"{found.name}-{digest_of((found.train, found.test))}")


def cut(found):
    """The options of truemax that cut the set as the paper does."""
    options = ["--labels", "first", "--normalize", "l2", "--max-rows", str(MAX_ROWS if found.set.cut_features else 0)]
    return options + (["--max-features", str(MAX_FEATURES)] if found.set.cut_features else [])


def check(found, program, folder):
    """Refuses, before any work and with the user's file and line, what the program cannot read. Once per content."""
    def write(path):
        judged = ["--test", found.test, "--no-eval-train"] if found.test else []
        done = subprocess.run([program, "train", found.train, *judged, *cut(found), "--method", "implicit", "--steps",
                               "1", "--eval", "sampled", "--eval-rows", "100", "--model", "none", "--log", "none",
                               "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(done.stderr.strip().removeprefix("truemax: error: "))
        with open(path, "w", encoding="utf-8"):
            pass
    whole_write(os.path.join(prepared(found, folder), "can-be-read"), write)


def tenth_and_judges(count):
    """Numbers of the rows on which steps are tried, every tenth of `count`, and of those that judge them: others, in
    file order. The fitted rows would favour steps that are too large for all rows."""
    others = [row for row in range(count) if row % TENTH]
    if len(others) > JUDGES:
        others = sorted(random.Random(1).sample(others, JUDGES))
    return range(0, count, TENTH), others


def tenth(found, folder):
    """A tenth of the rows of the cut, judged on others: arguments of truemax in place of the file."""
    folder = prepared(found, folder)
    judged = "--no-eval-train"
    if "idx" in found.train:
        def writer(which):
            def write(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.writelines(f"{row + 1}\n" for row in tenth_and_judges(found.set.paper[2])[which])
            return write
        return [found.train, "--split", whole_write(os.path.join(folder, "tenth-rows.txt"), writer(0)), "--test-split",
                whole_write(os.path.join(folder, "judge-rows.txt"), writer(1)), judged]

    def writer(which):
        def write(path):
            header, rows = lines_of(found.train)
            if found.set.cut_features:
                rows = rows[:MAX_ROWS]
            write_rows(path, header, [rows[row] for row in tenth_and_judges(len(rows))[which]])
        return write
    return [whole_write(os.path.join(folder, "tenth.txt"), writer(0)), "--test",
            whole_write(os.path.join(folder, "judges.txt"), writer(1)), judged]


def recorded(found, folder):
    """The files of a run as the authors made it. If they made a new split: 75% of the rows that have a label and a
    feature, from both files or one (whichever gives their N). Their rows are not known; these are drawn and ordered by
    a fixed seed."""
    if not found.set.three_quarters:
        return found
    train, test = (os.path.join(prepared(found, folder), f"recorded-{part}.txt") for part in BOTH)
    if not (os.path.exists(train) and os.path.exists(test)):
        parts = [lines_of(path) for part, path in zip(BOTH, (found.train, found.test))
                 if part in found.set.three_quarters]
        header, rows = parts[0][0], sum((part[1] for part in parts), [])
        rows = [row for row in rows if not row.startswith(" ") and ":" in row]
        random.Random(1).shuffle(rows)
        count = len(rows) * 3 // 4
        whole_write(train, lambda path: write_rows(path, header, rows[:count]))
        whole_write(test, lambda path: write_rows(path, header, rows[count:]))
    return dataclasses.replace(found, train=train, test=test)


def twin(one, program, folder):
    """A generated set of the same K and D, the N of the authors' runs, and about the same non-zeros and label skew."""
    classes, features, _ = one.paper
    options = ["--rows", one.recorded_rows, "--features", features, "--classes", classes, "--nonzeros", one.nonzeros,
               "--skew", one.skew, "--separability", one.separability, "--seed", 1]

    def write(path):
        subprocess.run([program, "generate", path, *map(str, options)], check=True, stdout=subprocess.DEVNULL)
    name = f"{one.name}-twin-{digest_of((program,), *options)}"
    return Found(one, whole_write(os.path.join(folder, name, "train.txt"), write), twin=True)


def difference(found, data):
    """A description of how the training rows differ from Table 1. `data`: from the run log's start event."""
    if not found.set.of_paper or found.twin:
        return ""
    parts = []
    for name, wanted, got in zip("KDN", found.set.paper, (data["classes"], data["features"], data["rows"])):
        if wanted != got:
            parts.append(f"{name} is {got:,}, not {wanted:,}")
    return "; ".join(parts) or "as in Table 1"


def shape(found, files, folder):
    """{"rows", "classes", "nonzeros" per row} after the cut; cached beside the prepared files."""
    if "idx" in files[0]:
        rows = found.set.paper[2] if len(files) == 1 else -(-found.set.paper[2] // TENTH)
        return {"rows": rows, "classes": 10, "nonzeros": 150.0}
    name = os.path.basename(files[0]).split(".")[0]

    def count(path):
        rows, nonzeros, classes = 0, 0, set()
        for number, line in enumerate(lines_of(files[0])[1][:MAX_ROWS if found.set.cut_features else None]):
            labels, _, rest = line.partition(" ")
            try:
                here = [pair for pair in rest.split() if not found.set.cut_features or
                        int(pair.split(":")[0]) < MAX_FEATURES]
            except ValueError:
                raise Refused(f"{files[0]}:{number + 2}: cannot be read: {line.strip()[:60]!r}; get the file again") \
                    from None
            if labels and here:
                rows, nonzeros = rows + 1, nonzeros + len(here)
                classes.add(labels.split(",")[0])
        if not rows:
            raise Refused(f"{files[0]}: no row has a label and a feature; get the file again")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "classes": len(classes), "nonzeros": nonzeros / rows}, file)
    with open(whole_write(os.path.join(prepared(found, folder), name + "-shape.json"), count),
              encoding="utf-8") as file:
        return json.load(file)
