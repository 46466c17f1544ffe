// Documents of a namespace: found, sorted, added one by one, removed.
import { MEDIA } from "./words.js";

const MOST_BYTES = 3 * 1024 * 1024; // 4 MiB in base64
const MOST_PAGES = 50;
const NOT_TEXT = /^(image|audio|video|font)\/|zip|octet-stream|executable|msword|ms-excel|ms-powerpoint/;

const base64 = (bytes) => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
};
const ending = (name) => name.split(".").pop().toLowerCase();
const mediaOf = (file) => (Object.hasOwn(MEDIA, ending(file.name)) ? MEDIA[ending(file.name)] : null);
const waitFor = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });

// Say why a file cannot go this way, or "".
export function refusal(file) {
  if (file.size > MOST_BYTES) return `over 3 MB: docstokg load ${/\s/.test(file.name) ? `'${file.name}'` : file.name} takes it`;
  return !mediaOf(file) && NOT_TEXT.test(file.type) ? `no reader for .${ending(file.name)}` : "";
}

export async function documentOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return { doc_id: file.name, content: base64(bytes), media_type: mediaOf(file) ?? "text/plain" };
}

// Load one file as a job of its own; gives why it is not, and notes. Where ten jobs wait, it waits too.
export async function loaded(call, namespace, file, replace) {
  for (;;) {
    try {
      const { job_id } = await call("POST", "v1/documents", { namespace, documents: [await documentOf(file)], replace });
      return await ended(call, job_id);
    } catch (problem) {
      if (problem.status === 429) { await waitFor(2000); continue; }
      if (problem.status === 409) return { why: "loaded already: tick “replace documents of the same name”" };
      return { why: `${problem.title ?? "it could not be read"}. ${problem.detail ?? ""}` };
    }
  }
}

// Wait for a job; `why` is "" when it did what was asked; `notes`: what was not read of it.
export async function ended(call, job) {
  for (;;) {
    const { state, rejected, reason, notes } = await call("GET", `v1/jobs/${encodeURIComponent(job)}`);
    if (state !== "queued" && state !== "running") return { why: [...rejected.map((one) => one.reason), reason].filter(Boolean).join("; "), notes };
    await waitFor(500);
  }
}

export async function everyDocument(call, namespace) {
  const documents = [];
  let cursor = null, page = null;
  for (let number = 0; number < MOST_PAGES && (number === 0 || cursor); number += 1) {
    page = await call("GET", `v1/documents?${new URLSearchParams({ namespace, ...(cursor ? { cursor } : {}) })}`);
    documents.push(...page.documents);
    cursor = page.cursor;
  }
  return { documents, mayLoad: page.may_load ?? false, all: !cursor };
}

// Those whose name or title has the words, ordered by a field; `down`: from the last on.
export function picked(documents, words, field, down) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = documents.filter((one) => wanted.every((word) => `${one.doc_id} ${one.title}`.toLowerCase().includes(word)));
  const order = (a, b) => (typeof a[field] === "number" ? a[field] - b[field] : String(a[field]).localeCompare(String(b[field])));
  return found.sort((a, b) => (down ? -order(a, b) : order(a, b)));
}
