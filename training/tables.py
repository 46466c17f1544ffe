"""Write invented tables, questions for their cells, and near misses, for `training.answers`.

python -m training.tables FOLDER SEED
"""

import argparse
import json
from pathlib import Path

from tests.builders import write_files
from tests.table_inputs import about_other_rows, files_and_questions


def main(folder: Path, seed: int) -> None:
    """Write `docs/` and `answers.jsonl`."""
    files, questions = files_and_questions(seed)
    write_files(folder / "docs", files)
    rows = [
        {"id": f"a{i}", "question": asked.question, "answer": asked.value, "type": "answerable"}
        for i, asked in enumerate(questions)
    ]
    rows += [
        {"id": f"n{i}", "question": question, "answer": "", "type": "near"}
        for i, question in enumerate(about_other_rows(questions, seed))
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "answers.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    main(**vars(parser.parse_args()))
