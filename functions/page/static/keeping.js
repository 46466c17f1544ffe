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
  const told = response.grounding ? [`Confidence ${response.confidence.toFixed(2)} (${response.confidence_level}), ${groundedIn(response.grounding)}.`, ""] : [];
  const sources = response.citations.map((one) => {
    const quoted = inactive(one.snippet).split("\n").map((line) => `> ${line}`).join("\n");
    return `**[${one.rank}] ${inactive(place(one))}** ${address}${linkTo(response.metadata.namespace, one)}\n\n${quoted}\n`;
  });
  return [`# ${inactive(response.query)}`, "", inactive(response.answer) || "No answer was written.", "", ...told, "## Sources", "", ...sources].join("\n");
}

// Whether an answer is grounded, or how many of its sentences are verified.
export function groundedIn(grounding) {
  if (grounding.grounded !== null) return grounding.grounded ? "grounded" : "not grounded";
  const factual = grounding.sentences.filter((one) => !one.reasons.includes("no_claim"));
  return `${factual.filter((one) => one.verdict === "supported").length} of ${factual.length} sentences verified`;
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
