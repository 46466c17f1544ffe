// What a reader takes along: an answer with its citations as a file, a passage as an address.
// Text of a document without active parts, for readers that show Markdown: tags are escaped outside
// code, and links with a scheme other than http(s) and mailto lose their target.
export function inactive(text) {
  const link = /!?\[([^\]\n]*)\]\(\s*<?([^\s()<>]*(?:\([^\s()]*\)[^\s()<>]*)*)[^()\n]*\)/g;
  const escaped = (part) => part
    .replace(link, (whole, words, target) => (/^(?:https?:|mailto:|[^:&]*$)/i.test(target) ? whole : words))
    .replace(/<(?=[A-Za-z/!?])/g, "&lt;");
  return text.split(/(```[^]*?(?:```|$)|`[^`\n]+`)/).map((part, at) => (at % 2 ? part : escaped(part))).join("");
}

export function markdownOf(response, address) {
  const place = (one) => [one.document_name ?? one.doc_id, one.section, one.page ? `page ${one.page}` : null].filter(Boolean).join(", ");
  const told = response.grounding ? [`Confidence ${response.confidence.toFixed(2)} (${response.confidence_level}), ${proof(response.grounding)}.`, ""] : [];
  const sources = response.citations.map((one) => {
    const quoted = inactive(one.snippet).split("\n").map((line) => `> ${line}`).join("\n");
    return `**[${one.rank}] ${inactive(place(one))}** ${address}${linkTo(response.metadata.namespace, one)}\n\n${quoted}\n`;
  });
  return [`# ${inactive(response.query)}`, "", inactive(response.answer) || "No answer was written.", "", ...told, "## Sources", "", ...sources].join("\n");
}

// Where the sentences of an answer stand, or how many of them are proven; as `domain.answer.grounding.proof`.
export function proof({ sentences, basis }) {
  const factual = sentences.filter((one) => !one.reasons.includes("no_claim"));
  const supported = factual.filter((one) => one.verdict === "supported");
  const ranks = [...new Set(supported.flatMap((one) => one.proven))].sort((a, b) => a - b);
  const words = (basis === "quotation" ? "quoted" : "verified") + (ranks.length ? ` from ${ranks.map((rank) => `[${rank}]`).join(", ")}` : "");
  if (supported.length && supported.length === factual.length) return words;
  return `${supported.length} of ${factual.length} ${factual.length === 1 ? "sentence" : "sentences"} ${words}`;
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function linkTo(namespace, citation) {
  const named = { namespace, doc: citation.doc_id, passage: citation.uuid };
  if (citation.offset_base) named.span = `${citation.char_start}-${citation.char_end}`;
  return `#${new URLSearchParams(named)}`;
}

// The address remembers which namespace is asked; never a question, a key or a token.
export const inAddress = () => new URLSearchParams(location.hash.slice(1));
export function remember(namespace) {
  const named = inAddress();
  if (named.get("namespace") !== namespace) history.replaceState(null, "", `#${new URLSearchParams({ namespace })}`);
}
