#!/usr/bin/env python3
"""Find the conversations in every .txt file beside this script: paragraphs that follow one another, each of them nothing but
what somebody says. Whoever begins is the user, whoever answers the assistant; the last word is an answer.

    python3 make_dialogues.py

Output: `dialogues.jsonl`, a conversation a line. Two runs give byte-identical files.
"""

import json
import re
from itertools import groupby
from pathlib import Path

SPEECH = re.compile(r'"([^"]+)"')
ROLES = ("user", "assistant")


def dialogues(chapter):
    speeches = map(SPEECH.fullmatch, chapter.split("\n\n"))
    for said, run in groupby(speeches, bool):
        run = list(run)
        if said and len(run) >= 2:
            yield [speech[1] for speech in run[: len(run) // 2 * 2]]


def main():
    here = Path(__file__).parent
    with open(here / "dialogues.jsonl", "w", encoding="utf-8") as out:
        for novel in sorted(here.glob("*.txt")):
            for chapter in novel.read_text(encoding="utf-8").strip().split("\n\n\n"):
                for dialogue in dialogues(chapter):
                    turns = [{"role": ROLES[i % 2], "content": said} for i, said in enumerate(dialogue)]
                    print(json.dumps({"messages": turns}, ensure_ascii=False), file=out)


if __name__ == "__main__":
    main()
