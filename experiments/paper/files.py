"""Files of rows, and files made from them: read completely or refused, written atomically."""
import functools
import gzip
import hashlib
import os
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the project
BENCH = os.path.join(ROOT, "bench")  # its reference method and its tables are used here too


class Refused(Exception):
    """The user's options or files cannot be used; the text says why and what to do."""


@functools.lru_cache(maxsize=None)
def file_hash(path):
    """Hash of the bytes of a file; for MNIST, of the images and the separate file of labels."""
    digest = hashlib.sha256()
    labels = path.replace("images-idx3", "labels-idx1")
    for part in (path, labels) if labels != path else (path,):
        with open(part, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def digest_of(paths, *told):
    """Eight digits that depend on the bytes of the files and on the arguments."""
    text = "\n".join([*(file_hash(path) for path in paths if path), *map(str, told)])
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def whole_write(path, write):
    """Calls write(temporary path), then renames the file; an existing file is kept."""
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = f"{path}.part{os.getpid()}"
    write(part)
    os.replace(part, path)
    return path


def text_lines(path):
    """All lines of a plain or gzipped text."""
    try:
        with (gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz")
              else open(path, encoding="utf-8")) as file:
            lines = file.readlines()
    except (EOFError, UnicodeDecodeError, gzip.BadGzipFile, zlib.error) as error:
        raise Refused(f"{path}: {error}; get the file again") from None
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise Refused(f"{path}: the file is empty; get it again")
    return lines


def is_header(line):
    return len(line.split()) == 3 and all(word.isdigit() for word in line.split())


def checked(path, header, rows):
    """Header and rows; refuses a file with another number of rows than its header states."""
    if int(header[0]) != len(rows):
        raise Refused(f"{path}: its first line says {header[0]} rows, and {len(rows)} follow; get the file again")
    return header, rows


def lines_of(path):
    """Header and rows of XMLRepository text."""
    first, *rows = text_lines(path)
    if not is_header(first):
        raise Refused(f"{path}:1: expected 'rows features labels' (XMLRepository text), found {first.strip()[:60]!r}")
    return checked(path, first.split(), rows)


def write_rows(path, header, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{len(rows)} {header[1]} {header[2]}\n")
        file.writelines(rows)
