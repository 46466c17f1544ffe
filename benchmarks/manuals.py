"""Two hundred manual pages of this machine, five of them long, and what the graph adds to them.

`python -m benchmarks.manuals build DIR` writes the pages as `man` shows them (what is not
installed is left out and said); load them with `docstokg load DIR --index URL --namespace NS`.
`python -m benchmarks.manuals ask --index URL --namespace NS` puts `manuals_questions.jsonl` with
the graph and without it. A question is found whole when each manual it needs is among the first
ten citations with the passage that holds the fact. The questions were written from the pages
before anything was measured; ten of them need two manuals.
`python -m benchmarks.manuals names --index URL --namespace NS` counts which of the sixty names of
`manuals_names.jsonl`, marked by hand on twenty random pages before their entities were looked at,
are entities that the page mentions.
"""

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from docstokg.domain.text.words import fold
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.cli.stores import settings_of
from docstokg_local.engine.workflow import LocalWorkflow

QUESTIONS = Path(__file__).with_name("manuals_questions.jsonl")
NAMES = Path(__file__).with_name("manuals_names.jsonl")
FIRST = 10
TOP_K = 20
LONG = "gpg mount systemctl tmux wget"
SHORT = (
    "GET addpart apt-cdrom apt-config apt-get apt-mark b2sum badblocks base64 blkdiscard"
    " blkid blockdev bzgrep bzip2 bzmore captoinfo cat chage chfn chgrp chmod chown chsh cksum"
    " clear cmp comm cp csplit cut date dd df diff3 dirmngr dirmngr-client dpkg-divert"
    " dpkg-split du dumpe2fs e2fsck e2image e2label ed expand faillog findmnt flock fmt fold"
    " free fsck fsfreeze fstab fstrim funzip git-archive git-bisect git-cherry git-clean"
    " git-gc git-mv git-reflog git-show-ref git-stash gpasswd gpg-agent gpg-connect-agent"
    " gpg-preset-passphrase gpg-wks-client gpg-wks-server gpgconf gpgsplit gpgtar gpgv"
    " groupdel groupmod groups grpck gzexe gzip hostname hostnamectl infocmp install ionice"
    " isosize join journalctl kbxutil kill lastlog localectl loginctl losetup ls lsblk"
    " lwp-download lz4 lzmainfo machine-id mesg mkdir mkfs mkswap mktemp mv networkctl newgrp"
    " nice nohup od os-release partx passwd pinentry-curses pkill pmap pr prlimit pwck pwconv"
    " realpath resize2fs rev scriptreplay sdiff seq setsid setterm sftp sg sha256sum shadow"
    " shuf slabtop sort sources.list split ssh-add ssh-argv0 ssh-copy-id ssh-keyscan"
    " ssh-pkcs11-helper stat stty swapon switch_root systemd-ask-password systemd-cgls"
    " systemd-cgtop systemd-id128 systemd-inhibit systemd-machine-id-setup systemd-mount"
    " systemd-run tabs tar timedatectl timeout tload toe tput tr truncate tset umount uniq"
    " unzipsfx userdel usermod vmstat w wall watch watchgnupg wc whereis which who wipefs"
    " write xargs xzdiff xzgrep xzless xzmore zdiff zgrep zipnote zipsplit zless zmore znew"
    " zstdgrep"
)


def build(folder: Path) -> None:
    """Write every page; print how many there are and which are not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    absent = []
    for name in (*LONG.split(), *SHORT.split()):
        shown = subprocess.run(
            ["man", "-P", "cat", name], capture_output=True, check=False,
            env={"MANWIDTH": "90", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        )  # fmt: skip
        text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", shown.stdout.decode("utf-8", "replace"))
        if shown.returncode == 0 and text.strip():
            (folder / f"{name}.txt").write_text(text, "utf-8")
        else:
            absent.append(name)
    print(f"{len(list(folder.iterdir()))} pages; not installed: {' '.join(absent) or 'none'}")


def flat(text: str) -> str:
    """Join what the page's columns parted."""
    return " ".join(re.sub(r"\u2010\n\s*", "", text).split())


def found(flow: LocalWorkflow, namespace: str, question: dict[str, Any], on: bool) -> list[int]:
    """Give the place of each needed fact among the citations, 0 where it is not in the first ten.

    The passages themselves are read, not the snippets that a citation shows of them.
    """
    body = ask(
        flow,
        {
            "query": question["question"],
            "namespace": namespace,
            "verbosity": "full",
            "top_k": TOP_K,
            "kg_expansion": {"enabled": on},
            "budget": {"timeout_s": 60},
        },
    ).body
    places = []
    for needed in question["evidence"]:
        texts = [
            flat(c["full_text"]) if c["doc_id"].endswith(needed["document"]) else ""
            for c in body["citations"][:FIRST]
        ]
        places.append(next((i + 1 for i, t in enumerate(texts) if needed["fact"] in t), 0))
    return places


def ask_all(index: str, namespace: str) -> None:
    """Print where each fact stands with the graph and without, and how many are found whole."""
    wiring = Wiring(settings_of(index, index), Telemetry(level="ERROR"))
    flow = LocalWorkflow(wiring)
    whole: dict[tuple[bool, bool], list[str]] = {}
    counts = {True: 0, False: 0}
    for line in QUESTIONS.read_text("utf-8").splitlines():
        question = json.loads(line)
        several = len(question["evidence"]) > 1
        counts[several] += 1
        shown = []
        for on in (False, True):
            places = found(flow, namespace, question, on)
            shown.append(",".join(str(place or "-") for place in places))
            if all(places):
                whole.setdefault((several, on), []).append(question["id"])
        print(f"{question['id']}  off {shown[0]:<6} on {shown[1]:<6} {question['question']}")
    for several, kind in ((True, "two manuals"), (False, "one manual")):
        off, on_ = (whole.get((several, graph), []) for graph in (False, True))
        lost = [name for name in off if name not in on_]
        print(
            f"{kind}: {counts[several]} questions, whole without the graph {len(off)}, with it"
            f" {len(on_)}; lost: {' '.join(lost) or 'none'}"
        )
    wiring.close()


def names(index: str, namespace: str) -> None:
    """Print the marked names that no entity of their page has, and how many have one."""
    wiring = Wiring(settings_of(index, index), Telemetry(level="ERROR"))
    graph = wiring.graph_writer()
    known: dict[str, set[str]] = {}
    for key, entity, _ in graph.aliases(namespace):
        known.setdefault(key, set()).add(entity)
    pages: dict[str, set[str]] = {}
    document = {node.uuid: node.doc_id for node in graph.stored_nodes(namespace)}
    for mention in graph.stored_mentions(namespace):
        pages.setdefault(document[mention.uuid], set()).add(mention.entity)
    marked = have = 0
    for line in NAMES.read_text("utf-8").splitlines():
        row = json.loads(line)
        ours = next(
            (found for name, found in pages.items() if name.endswith(row["document"])), set()
        )
        missing = [name for name in row["names"] if not known.get(fold(name), set()) & ours]
        marked, have = marked + len(row["names"]), have + len(row["names"]) - len(missing)
        print(f"{row['document']:<18} missing: {', '.join(missing) or 'none'}")
    print(f"{have} of {marked} names are entities that their page mentions")
    wiring.close()


def main() -> None:
    """Build, ask, or count names."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("folder", type=Path)
    for name in ("ask", "names"):
        loaded = commands.add_parser(name)
        loaded.add_argument("--index", required=True)
        loaded.add_argument("--namespace", default="default")
    chosen = parser.parse_args()
    if chosen.command == "build":
        build(chosen.folder)
    elif chosen.command == "ask":
        ask_all(chosen.index, chosen.namespace)
    else:
        names(chosen.index, chosen.namespace)


if __name__ == "__main__":
    main()
