#!/usr/bin/env python3
"""Make the example corpus: two Jane Austen novels as plain text.

    apt-get download r-cran-janeaustenr          # Debian 12: version 1.0.0-1
    python3 make_corpus.py r-cran-janeaustenr_1.0.0-1_all.deb

Input:  the Debian package, which holds each novel as an R character vector of typeset lines.
Output: `pride_and_prejudice.txt` and `persuasion.txt` beside this script. One line is one paragraph, a blank
        line parts paragraphs, two blank lines part documents (chapters); UTF-8, "\\n" line ends.
Needs `dpkg-deb` and the Python standard library; two runs give byte-identical files.
"""

import io
import re
import struct
import subprocess
import sys
import tarfile
import zlib
from pathlib import Path

DATA = "./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
NOVELS = {"PRIDE AND PREJUDICE": "pride_and_prejudice.txt", "Persuasion": "persuasion.txt"}
HEADING = re.compile(r"chapter \d+", re.IGNORECASE)
STRSXP = 16  # R's type number of a character vector


def package_file(deb, name):
    """The bytes of one file of a Debian package."""
    archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.extractfile(name).read()


def records(database):
    """The objects of an R lazy-load database: each is a 4-byte length and a zlib stream."""
    while database:
        inflate = zlib.decompressobj()
        yield inflate.decompress(database[4:])
        database = inflate.unused_data


def character_vector(data):
    """Decode R's XDR serialization, version 3, of one character vector."""
    at = 14  # "X\n", format version, writer version, oldest reader version
    (encoding,) = struct.unpack_from(">I", data, at)
    at += 4 + encoding
    kind, length = struct.unpack_from(">II", data, at)
    assert data[:2] == b"X\n" and kind & 0xFF == STRSXP, "not a serialized character vector"
    at += 8
    lines = []
    for _ in range(length):
        _, size = struct.unpack_from(">II", data, at)
        lines.append(data[at + 8 : at + 8 + size].decode("utf-8"))
        at += 8 + size
    return lines


def chapters(lines):
    """Each chapter as a list of paragraphs, its heading first; the title page and "Finis" are left out."""
    found, paragraph = [], []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
            continue
        text = re.sub(r"\s+", " ", " ".join(paragraph).replace("_", "")).strip()  # _word_ marked italics
        paragraph = []
        if HEADING.fullmatch(text):
            found.append([text])
        elif text and found and text != "Finis":
            found[-1].append(text)
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} r-cran-janeaustenr_VERSION_all.deb")
    for record in records(package_file(sys.argv[1], DATA)):
        lines = character_vector(record)
        if (name := NOVELS.get(lines[0])) is None:
            continue
        documents = chapters(lines)
        text = "\n\n\n".join("\n\n".join(paragraphs) for paragraphs in documents) + "\n"
        Path(__file__).with_name(name).write_text(text, encoding="utf-8", newline="\n")
        print(f"{name}: {len(documents)} documents, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
