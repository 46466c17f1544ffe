"""The six corpora of `own_questions_*.jsonl`, from packages of Debian and Go and our own files.

    python -m benchmarks.own_corpora FOLDER

Writes FOLDER/NAME for company (`own_company`, invented), licences, valgrind, node, manpages and
tools; sources that this machine lacks are listed and skipped. `dev` was used while the reader was
developed, `kept` only after its weights were final.
"""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

DOC = Path("/usr/share/doc")
LICENCES = ("Apache-2.0", "GPL-3", "GPL-2", "MPL-2.0", "Artistic", "CC0-1.0", "LGPL-3", "GFDL-1.3")
VALGRIND = (
    *("mc-manual", "manual-core", "ms-manual", "cg-manual", "hg-manual", "dh-manual", "faq"),
    *("quick-start", "manual-intro"),
)
NODE = (
    *("path", "os", "events", "timers", "dns", "cluster", "worker_threads", "readline"),
    *("child_process", "net", "zlib"),
)
PAGES = (
    *("signal.7", "pipe.7", "tcp.7", "ip.7", "unix.7", "inotify.7", "epoll.7", "capabilities.7"),
    *("glob.7", "hier.7", "sched.7", "time.7", "fstab.5", "passwd.5", "shadow.5", "resolv.conf.5"),
    *("gitignore.5", "core.5", "hosts.5", "limits.conf.5", "nsswitch.conf.5"),
)
TOOLS = {
    "ninja.html": DOC / "ninja-build/manual.html",
    "bzip2.html": DOC / "bzip2/manual.html",
    "zlib_faq.txt": DOC / "zlib1g-dev/FAQ.gz",
    "users_and_groups.html": DOC / "base-passwd/users-and-groups.html",
    "go_memory_model.html": Path("/usr/local/go/doc/go_mem.html"),
    "godebug.md": Path("/usr/local/go/doc/godebug.md"),
}


def files() -> dict[str, Path]:
    """Map target paths below FOLDER to source files, without manual pages."""
    licences = Path("/usr/share/common-licenses")
    company_folder = Path(__file__).parent / "own_company"
    return {
        **{f"company/{path.name}": path for path in sorted(company_folder.iterdir())},
        **{f"licences/{name.replace('.', '_')}.txt": licences / name for name in LICENCES},
        **{f"valgrind/{name}.html": DOC / "valgrind/html" / f"{name}.html" for name in VALGRIND},
        **{f"node/{name}.md": DOC / "nodejs/api" / f"{name}.md" for name in NODE},
        **{f"tools/{name}": path for name, path in TOOLS.items()},
    }


def main(folder: Path) -> None:
    """Copy the existing files and render the manual pages."""
    for name, path in files().items():
        if not path.exists():
            print(f"missing: {path}")
            continue
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        _write(folder / name, raw.decode("utf-8", "replace"))
    environment = {**os.environ, "MANWIDTH": "80", "LANG": "C.UTF-8"}
    for page in PAGES:
        name, _, section = page.rpartition(".")
        command = ["man", "-P", "cat", section, name]
        rendered = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment
        )
        if rendered.returncode:
            print(f"missing: {page}")
            continue
        # Overstruck letters are bold.
        plain = re.sub(".\x08", "", rendered.stdout)
        _write(folder / "manpages" / f"{name.replace('.', '_')}.{section}.txt", plain)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
