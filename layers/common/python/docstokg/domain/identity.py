"""Identifiers."""

import hashlib
import json
import re
import uuid as uuids
from functools import lru_cache

from docstokg.contracts.records import RelationRecord
from docstokg.domain.text.words import CURIE, fold

# Maximum length of a `replaced_by` chain that is followed.
REDIRECT_DEPTH = 4

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN = "ent:"
_OWN_LENGTH = len(_OWN) + 16

# First part of the ids of the rows about namespaces.
KEYS = "root-key"


def chunk_uuid(namespace: str, chunk_id: str) -> str:
    """Return UUIDv5 of `docstokg:{namespace}/{chunk_id}` in the URL namespace."""
    return str(uuids.uuid5(uuids.NAMESPACE_URL, f"docstokg:{namespace}/{chunk_id}"))


def key_of(namespace: str) -> tuple[str, str]:
    """Return namespace and doc_id of the register's row about a namespace.

    It has the HMAC key of its folders, and run and time of its last load.
    """
    return "", f"{KEYS}/{namespace}"


def text_sha256(text: str) -> str:
    """Return the SHA-256 of the text's UTF-8 in hex; lone surrogates are encoded too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def entity_id(name: str) -> str:
    """Return an id without CURIE: `ent:` and 16 hex digits of the SHA-256 of the folded name."""
    return _OWN + text_sha256(fold(name))[:16]


def is_own_id(identity: str) -> bool:
    """Return whether an id has the prefix `ent:` of `entity_id`."""
    return identity.startswith(_OWN)


def is_curie(text: str) -> bool:
    """Return whether a text is a CURIE such as `HP:0001250`; `ent:` ids are not."""
    return CURIE.fullmatch(text) is not None and not is_own_id(text)


def is_id(text: str) -> bool:
    """Return whether a text is an entity id: a CURIE or an `ent:` id."""
    return is_curie(text) or (is_own_id(text) and len(text) == _OWN_LENGTH)


def prefix_of(identity: str) -> str:
    """Return the folded prefix of a CURIE, "" for other ids."""
    head, colon, _ = identity.partition(":")
    return head.casefold() if colon and not is_own_id(identity) else ""


def namespaced(namespace: str, name: str) -> str:
    """Return `namespace/name`, a key for stores with one key space."""
    return f"{namespace}/{name}"


@lru_cache(maxsize=4096)
def chunk_key(uuid: str) -> int:
    """Return the integer key of a chunk: the first 63 bits of its uuid, else a hash."""
    try:
        if _UUID.fullmatch(uuid):  # ten times faster than the UUID class
            return int(uuid[:8] + uuid[9:13] + uuid[14:18], 16) >> 1
        return int.from_bytes(uuids.UUID(uuid).bytes[:8]) >> 1
    except ValueError:
        return _hash("c", uuid)


def entity_key(namespace: str, entity: str) -> int:
    """Return the integer key of an entity, a hash of 63 bits."""
    return _hash("e", namespace, entity)


def relation_row(item: RelationRecord) -> dict[str, object]:
    """Return the columns of a relation, with `entity_key`s; `key` hashes ends, type, evidence."""
    space, kind = item.namespace, item.type
    return {
        "key": _hash("r", space, item.source, kind, item.target, item.evidence_uuid or ""),
        "namespace": space,
        "source": entity_key(space, item.source),
        "type": kind,
        "type_key": kind.casefold(),
        "target": entity_key(space, item.target),
        "weight": item.weight,
        "start": item.evidence_start,
        "stop": item.evidence_end,
        "properties": json.dumps(item.properties, sort_keys=True, ensure_ascii=False),
    }


def _hash(*parts: str) -> int:
    text = "\x00".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1
