// The page asks the same API as everybody else; keys live in this module's memory only.
// Offsets of the API count code points, so texts are cut by `slice` below, never by UTF-16 units.
import { drawGraph } from "./graph.js";
import { curlOf } from "./curl.js";
import { signIn } from "./sign-in.js";
import { paper } from "./paper.js";
import { inAddress, linkTo, markdownOf, proof, remember, save } from "./keeping.js";
import { ended, everyDocument, loaded, picked, refusal } from "./library.js";
import { REASONS, WHY } from "./words.js";

const $ = (id) => document.getElementById(id);
const FIRST = 8;
const MOST_ROWS = 500;
const VERDICTS = {
  supported: "supported by", unsupported: "not supported by", unverified: "not verified, cites",
  uncited: "without a source", not_checked: "not checked",
};
const FIELDS = {
  "$.query": "Question", "$.namespace": "Namespace", "$.synthesis.model": "Answer by", "$.top_k": "Passages",
  "$.budget.timeout_s": "Seconds at most", "$.kg_expansion.hops": "Hops",
};
const STEPS = {
  validation: "check the request", hybrid_retrieval: "search", kg_expansion: "graph",
  dedup_mmr: "diversity", citation_extraction: "read and cite", llm_synthesis: "write",
  answer_check: "check the answer", between_steps: "between steps",
};
// `turns`: what was asked and answered on this page, which nobody else keeps; `stop`: ends the
// question under way.
const state = { response: null, request: null, chosen: null, library: null, order: { field: "doc_id", down: false }, issuer: null, token: "", turns: [], stop: null };
const HISTORY_BYTES = 30000, HISTORY_TURNS = 20;

const slice = (text, start, end) => Array.from(text).slice(start, end).join("");
const length = (text) => Array.from(text).length;

// Make an element: element("b", {class: "x"}, "text", other): text is always text, never markup.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A deployment may want both: a token says who asks, a key meters. On a laptop a key is enough.
function secrets() {
  const given = {};
  if ($("key").value.trim()) given["X-Api-Key"] = $("key").value.trim();
  const token = $("token").value.trim().replace(/^bearer\s+/i, "") || state.token;
  if (token) given.Authorization = `Bearer ${token}`;
  return given;
}

async function call(method, path, body, more = {}) {
  return read(await reach(method, path, body, more));
}

async function reach(method, path, body, { signal, headers = {} }) {
  const init = { method, headers: { ...secrets(), ...headers }, credentials: "omit", signal };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  try {
    return await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw { title: "The service cannot be reached", detail: "Is it still running? Try again in a moment.", errors: [] };
  }
}

async function read(response) {
  const text = await response.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { /* said below */ }
  if (!response.ok || value === null) {
    throw value && value.title ? value : { title: `Status ${response.status}`, detail: "The answer is not one this page understands.", errors: [] };
  }
  return value;
}

// Ask, and tell what comes before the whole response; what fails before that is a problem.
async function live(path, body, signal, told) {
  const response = await reach("POST", path, body, { signal });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return read(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw { title: "The answer broke off", detail: "Ask again.", errors: [] };
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(frame);
      if (name === "response") return JSON.parse(data);
      if (name === "problem") throw JSON.parse(data);
      told(name, JSON.parse(data));
    }
  }
}

function showProblem(problem) {
  const box = $("problem");
  box.replaceChildren(element("strong", {}, problem.title ?? "Something went wrong"), " ", problem.detail ?? "");
  const errors = problem.errors ?? [];
  // Who typed something wrong reads what to change, not what a request is.
  if (problem.status === 400 && errors.length) box.replaceChildren(element("strong", {}, "This cannot be asked yet:"));
  if (errors.length) box.append(element("ul", {}, ...errors.map((one) => element("li", {}, `${FIELDS[one.path] ?? one.path}: ${one.message}`))));
  if (problem.status === 401 || problem.status === 403) askForSecret(problem.status);
  if (problem.request_id && problem.status !== 400) box.append(element("p", { class: "hint" }, `request ${problem.request_id}`));
  box.hidden = false;
}

// What is missing is what the reader can give here: a sign-in where there is one, else a key.
function askForSecret(status) {
  if (!state.issuer) { $("settings").open = true; return; }
  if (status === 401 && state.token) forget("Your sign-in is no longer valid.");
  $("sign-in").focus();
}

function forget(words) {
  state.token = "";
  $("who").textContent = words;
  $("sign-in").textContent = "Sign in";
}

async function signInOrOut() {
  if (state.token) { forget("Signed out here."); return; }
  $("who").textContent = "Waiting for the sign-in window…";
  try {
    const { token, name } = await signIn(state.issuer);
    state.token = token;
    $("who").textContent = name ? `Signed in as ${name}` : "Signed in";
    $("sign-in").textContent = "Sign out";
    $("problem").hidden = true;
    await showNamespaces();
    if (!$("view-documents").hidden) await showDocuments();
  } catch (problem) {
    if (problem === null) return; // begun anew: the later one speaks
    forget("");
    showProblem(problem);
  }
}

async function showSignIn() {
  const response = await fetch("sign-in.json");
  const told = response.ok ? await response.json() : {};
  if (!told.client_id) return;
  state.issuer = told;
  $("signing").hidden = false;
}

// A question of one or two bytes is a name; the server asks for three.
const padded = (text) => text + (text ? "?".repeat(Math.max(0, 3 - new TextEncoder().encode(text).length)) : "");

function requestOfForm() {
  const request = {
    query: padded($("question").value.trim()),
    namespace: chosenNamespace(),
    top_k: Number($("top_k").value) || 10,
    verbosity: "full",
    budget: {},
    kg_expansion: { enabled: $("kg").checked },
  };
  const history = historyOf(state.turns);
  if (history.length) request.history = history;
  if ($("timeout_s").value) request.budget.timeout_s = Number($("timeout_s").value);
  if ($("hops").value) request.kg_expansion.hops = Number($("hops").value);
  const model = $("model").value.trim();
  if (model && model !== "none") {
    request.synthesis = { enabled: true, model };
    request.budget.max_tokens_gen = 400;
  }
  return request;
}

// The turns before, the last that the contract takes; what goes back is words, and no evidence.
function historyOf(turns) {
  const said = turns.flatMap(({ request, response }) => [{ role: "user", content: request.query }, { role: "assistant", content: slice(response.answer, 0, 4000) }])
    .filter((turn) => turn.content).slice(-HISTORY_TURNS);
  const bytes = () => new TextEncoder().encode(said.map((turn) => turn.content).join("")).length;
  while (bytes() > HISTORY_BYTES) said.shift();
  return said;
}

async function ask(event) {
  event?.preventDefault();
  if (state.stop) return;
  const request = requestOfForm();
  const before = { request: state.request, response: state.response };
  state.stop = new AbortController();
  $("problem").hidden = true;
  $("send").disabled = true;
  $("stop").hidden = false;
  $("status").textContent = "Asking…";
  const started = performance.now(), sentences = [];
  const told = (name, value) => {
    if (name === "citations") Object.assign(state, { request, response: soFar(request, value.citations, sentences) });
    else if (name === "verdicts") for (const one of value.changes) Object.assign(sentences[one.index], one);
    else sentences[value.index] = value;
    state.response = soFar(request, state.response.citations, sentences);
    if (name === "citations") { show(state.response); showThread(); } else showAnswer(state.response);
    $("status").textContent = `${state.response.citations.length} passages found, writing…`;
  };
  try {
    const response = await live("v1/answer/stream", request, state.stop.signal, told);
    Object.assign(state, { request, response });
    state.turns.push({ request, response });
    show(response);
    $("question").value = "";
    $("status").textContent = `${response.results_count} passages in ${Math.round(performance.now() - started)} ms.`;
  } catch (problem) {
    const stopped = state.stop.signal.aborted;
    if (!stopped) Object.assign(state, before);
    $("result").hidden = !stopped || !state.response;
    $("status").textContent = stopped ? "Stopped: what was written is not kept in the conversation." : "";
    if (!stopped) showProblem(problem);
  } finally {
    state.stop = null;
    $("send").disabled = false;
    $("stop").hidden = true;
    showThread();
  }
}

// What is known of an answer under way, in the form of a response.
function soFar(request, citations, sentences) {
  const judged = sentences.filter((one) => one.text && one.verdict).map((one) => {
    const gap = length(one.text) - length(one.text.trimStart());
    return { start: one.start + gap, end: one.start + length(one.text), citations: one.citations, verdict: one.verdict, reasons: one.reasons ?? [], span: null };
  });
  const answer = sentences.map((one) => one.text).join("");
  return { query: request.query, answer, citations, grounding: null, judged, under_way: true, warnings: [], results_count: citations.length };
}

// The turns before the one that is shown, each to be shown again.
function showThread() {
  $("thread").replaceChildren(...state.turns.filter((turn) => turn.response !== state.response).map((turn) => {
    const answer = element("p", {}, turn.response.answer || "No answer was written.");
    const again = element("button", { type: "button", class: "quiet", onclick: () => { Object.assign(state, turn); show(turn.response); showThread(); $("asked").focus(); } }, "Show with its passages");
    return element("li", {}, element("h3", {}, turn.request.query), answer, again);
  }));
  $("anew").hidden = state.turns.length === 0;
}

function startAnew() {
  state.stop?.abort();
  Object.assign(state, { turns: [], response: null, request: null });
  $("result").hidden = true;
  $("status").textContent = "A new conversation: nothing of the last one is sent along.";
  showThread();
  $("question").focus();
}

function show(response) {
  $("result").hidden = false;
  $("asked").textContent = response.query;
  $("understood").textContent = response.query_used && response.query_used !== response.query ? `understood as: ${response.query_used}` : "";
  showDegraded(response);
  showAnswer(response);
  showPassages(response, FIRST);
  $("passage").replaceChildren();
  $("graph").replaceChildren();
  $("draw").hidden = false;
  $("keep").hidden = Boolean(response.under_way);
  showSteps(response);
  $("curl").textContent = curlOf(new URL("v1/answer", location.href).href, state.request, Object.keys(secrets()));
  const first = response.citations.find((one) => one.cited) ?? response.citations[0];
  if (first) choose(first.rank, false);
}

function showDegraded(response) {
  const reasons = response.diagnostics?.degraded_reasons ?? [];
  $("degraded").hidden = reasons.length === 0;
  $("degraded").textContent = reasons.length
    ? `This is the best answer that was possible: ${reasons.map((one) => REASONS[one] ?? one).join("; ")}.` : "";
}

function markerButton(rank, support) {
  return element("button", {
    type: "button", class: "marker", "aria-label": `Read passage ${rank}`, onclick: () => choose(rank, true, support),
  }, `[${rank}]`);
}

// Append `text` with its markers as buttons; a marker means the passage of that rank, and in it
// the words that support the sentence, where the check named them.
function appendMarked(target, text, support = null) {
  // Code is shown as code: what stands between two fences has no markers.
  const fenced = /```[^\n]*\n([\s\S]*?)\n?```/.exec(text);
  if (fenced) {
    appendMarked(target, text.slice(0, fenced.index).trimEnd(), support);
    target.append(element("pre", { tabindex: "0" }, fenced[1]));
    appendMarked(target, text.slice(fenced.index + fenced[0].length).trimStart(), support);
    return;
  }
  let last = 0;
  for (const match of text.matchAll(/\[(\d{1,3})\]/g)) {
    target.append(text.slice(last, match.index));
    const known = state.response.citations.some((one) => one.rank === Number(match[1]));
    target.append(known ? markerButton(Number(match[1]), support) : match[0]);
    last = match.index + match[0].length;
  }
  target.append(text.slice(last));
}

function showAnswer(response) {
  const box = $("answer");
  box.replaceChildren();
  const sentences = response.judged ?? response.grounding?.sentences ?? [];
  if (!response.answer && !response.under_way) {
    box.append(element("span", { class: "hint" }, state.request.synthesis ? "No answer was written; the passages are below." : "Only searched; the passages are below."));
  }
  let at = 0;
  // Lines of code are judged one by one and shown together.
  const code = [...response.answer.matchAll(/```[^\n]*\n[\s\S]*?\n?```/g)].map((fence) => {
    const start = length(response.answer.slice(0, fence.index));
    return [start, start + length(fence[0])];
  });
  const plain = sentences.filter((one) => !code.some(([start, end]) => start < one.end && one.start < end));
  for (const sentence of plain) {
    appendMarked(box, slice(response.answer, at, sentence.start));
    const best = response.best_span, isBest = best && sentence.start < best.end && best.start < sentence.end;
    const span = element("span", { class: `sentence ${sentence.verdict}${isBest ? " best" : ""}` });
    const text = slice(response.answer, sentence.start, sentence.end), row = rowOf(text);
    if (row) span.append(tableOf(row));
    appendMarked(span, row ? row.markers : text, sentence.span);
    box.append(span);
    at = sentence.end;
  }
  appendMarked(box, slice(response.answer, at));
  if (!response.grounding && response.answer && response.citations.length && !response.under_way) box.append(nearest(response));
  const checked = sentences.filter((one) => !one.reasons.includes("no_claim"));
  if (checked.length && !response.under_way) box.append(verdictList(response, checked));
  $("confidence").replaceChildren();
  if (response.grounding) {
    $("confidence").append(
      element("strong", { class: `level ${response.confidence_level}` }, `Confidence ${response.confidence.toFixed(2)} (${response.confidence_level})`),
      `, ${proof(response.grounding)}.`);
  }
  $("sources").replaceChildren(...response.citations.filter((one) => one.cited).map((one) => element("li", {}, `[${one.rank}] ${place(one)}${dated(one)}${replacedIn(response, one)}`)));
  $("warnings").replaceChildren(...response.warnings.map((one) => element("li", {}, one)));
}

function verdictList(response, sentences) {
  return element("details", {}, element("summary", {}, "What was checked, sentence by sentence"),
    element("ol", { class: "verdicts" }, ...sentences.map((sentence) => {
      const text = slice(response.answer, sentence.start, sentence.end);
      const sources = sentence.citations.map((rank) => `[${rank}]`).join(" ");
      const item = element("li", {}, element("span", { class: sentence.verdict }, `${VERDICTS[sentence.verdict]} ${sources}`.trim()), `: ${text}`);
      if (sentence.reasons.length) item.append(element("span", { class: "why" }, sentence.reasons.map((one) => WHY[one] ?? one).join("; ")));
      if (sentence.span) {
        const source = response.citations.find((one) => one.uuid === sentence.span.uuid);
        if (source) item.append(" ", element("button", { type: "button", class: "marker", onclick: () => choose(source.rank, true, sentence.span) }, "show where"));
      }
      return item;
    })));
}

// A quoted table row, "Key: a; Column: b [1].", as its cells; null for other sentences.
function rowOf(text) {
  const match = /^((?:[^:;\n]{1,80}: [^;\n]+; )+[^:;\n]{1,80}: [^;\n]+?)((?: ?\[\d{1,3}\])+)\.?$/.exec(text.trim());
  return match && { markers: match[2], cells: match[1].split("; ").map((cell) => [cell.slice(0, cell.indexOf(": ")), cell.slice(cell.indexOf(": ") + 2)]) };
}

function tableOf({ cells }) {
  return element("table", { class: "row" }, element("tbody", {}, ...cells.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)))));
}

// Where nothing answers: the nearest passages and what they are about.
function nearest(response) {
  const lines = response.citations.slice(0, 3).map((one) => element("li", {}, markerButton(one.rank), ` ${place(one)}`, one.concepts_mentioned.length ? element("span", { class: "why" }, `about ${one.concepts_mentioned.slice(0, 4).join(", ")}`) : null));
  return element("div", {}, element("p", { class: "hint" }, "The nearest passages are:"), element("ul", {}, ...lines));
}

function dated({ metadata }) {
  const date = metadata?.date ?? metadata?.modified ?? metadata?.created;
  return date ? `, ${String(date).slice(0, 10)}` : "";
}

function replacedIn(response, citation) {
  const by = (response.conflicts ?? []).filter((one) => one.ranks[1] === citation.rank).map((one) => `[${one.ranks[0]}]`);
  return by.length ? `, replaced by ${by.join(", ")}` : "";
}

// A passage without the characters of its markup, for lists.
const unmarked = (text) => text.replace(/!?\[([^\]\n]*)\]\([^)\n]*\)/g, "$1").replace(/^[ \t]*(?:#{1,6}|>|[-*+])[ \t]+/gm, "")
  .replace(/^[ \t|:-]*-{3,}[ \t|:-]*$/gm, "").replace(/\*\*|__|`/g, "").replace(/[ \t]*\|[ \t]*/g, "  ").replace(/\s*\n\s*/g, " \u00b7 ").replace(/^(?:\s|\u00b7)+|(?:\s|\u00b7)+$/g, "");

function place(citation) {
  return [citation.document_name ?? citation.doc_id, citation.section, typeof citation.page === "number" ? `page ${citation.page}` : citation.page].filter(Boolean).join(", ");
}

const WAYS = { bm25: "its words", splade: "related words", dense: "its meaning", facts: "a stated fact" };
const listed = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words.join(""));

function whyFound(citation) {
  const ways = Object.keys(citation.channels).map((name) => WAYS[name] ?? name);
  const parts = ways.length ? [`found by ${listed(ways)}`] : [];
  if (citation.source === "kg_expansion") parts.unshift("added by the graph");
  const evidence = citation.kg_evidence;
  if (evidence) parts.push(evidence.match_type === "direct_mention" ? `names ${evidence.matched_entity}` : `names ${evidence.matched_entity}, related to ${evidence.related_to}`);
  else if (citation.kg_path.length) parts.push("near the question in the graph");
  const text = parts.join("; ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const ranksOf = (citation) => [...Object.entries(citation.channels).map(([name, { rank }]) => `${WAYS[name] ?? name}: rank ${rank}`), `relevance ${citation.score.toFixed(2)}`].join(", ");

const shortened = (text) => (length(text) > 220 ? `${slice(text, 0, 220)}…` : text);

function showPassages(response, count) {
  const list = $("passages");
  list.replaceChildren(...response.citations.slice(0, count).map((citation) => element("li", {},
    element("button", { type: "button", "data-rank": citation.rank, "aria-pressed": "false", onclick: () => choose(citation.rank, true) },
      element("span", { class: "name" }, `[${citation.rank}] ${place(citation)}`), citation.cited ? " ★ cited" : "", element("em", {}, replacedIn(response, citation)),
      element("span", { class: "why", title: ranksOf(citation) }, whyFound(citation)), shortened(unmarked(citation.snippet))))));
  const left = response.citations.length - count;
  $("more").hidden = left <= 0;
  $("more").textContent = `Show ${left} more`;
  if (!response.citations.length) list.append(element("li", { class: "hint" }, "Nothing in this namespace matches."));
}

// Show a citation in its chunk: what the answer quotes is lit, the given span also outlined.
function choose(rank, focus, support = null) {
  const citation = state.response.citations.find((one) => one.rank === rank);
  if (!citation) return;
  state.chosen = rank;
  $("reader-hint").hidden = true;
  for (const button of document.querySelectorAll("#passages button")) button.setAttribute("aria-pressed", String(Number(button.dataset.rank) === rank));
  const full = citation.full_text ?? citation.snippet;
  const found = full.indexOf(citation.snippet);
  const from = found < 0 ? 0 : length(full.slice(0, found));
  const base = citation.char_start - from;
  const spans = (state.response.grounding?.sentences ?? []).filter((one) => one.proven.includes(rank)).map((one) => one.span).concat(support ? [support] : []);
  const cuts = [];
  const kindOf = (span) => (span === support ? "support" : "");
  for (const span of spans.filter((one) => one?.uuid === citation.uuid).sort((a, b) => a.char_start - b.char_start)) {
    const start = Math.max(span.char_start - base, cuts.at(-1)?.end ?? 0), end = span.char_end - base;
    const same = cuts.findIndex((cut) => cut.start === span.char_start - base && cut.end === end);
    if (same >= 0) cuts[same].kind ||= kindOf(span);
    else if (start < end) cuts.push({ start, end, kind: kindOf(span) });
  }
  const text = element("div", { class: "text" });
  let at = 0;
  for (const cut of cuts) {
    text.append(slice(full, at, cut.start), element("mark", cut.kind ? { class: cut.kind } : {}, slice(full, cut.start, cut.end)));
    at = cut.end;
  }
  text.append(slice(full, at));
  const path = citation.kg_path.length > 1 ? element("p", { class: "why" }, `path: ${pathWords(citation)}`) : null;
  const link = /^https?:\/\//i.test(citation.uri ?? "") ? element("a", { href: citation.uri, rel: "noreferrer noopener", target: "_blank" }, "open the source") : null;
  $("passage").replaceChildren(...[
    element("p", {}, element("span", { class: "name" }, `[${rank}] ${place(citation)}`), " ", link, " ", state.response.metadata ? element("a", { href: linkTo(state.response.metadata.namespace, citation) }, "link to this passage") : null),
    text, citation.boxes?.length ? element("button", { type: "button", class: "quiet", onclick: () => showPage(citation) }, `Show it on page ${citation.page}`) : null,
    citation.ocr ? element("p", { class: "why" }, `read from a picture of the page, ${Math.round(100 * citation.ocr_confidence)} % sure`) : null,
    element("div", { id: "sheet" }), path,
    element("p", { class: "why" }, `characters ${citation.char_start} to ${citation.char_end} of the ${citation.offset_base}, sha256 ${citation.text_sha256.slice(0, 12)}…, ${whyFound(citation)}`)].filter(Boolean));
  if (focus) $("reader").focus({ preventScroll: matchMedia("(min-width: 50rem)").matches });
}

function pathWords(citation) {
  const evidence = citation.kg_evidence;
  if (!evidence?.path.length) return citation.kg_path.join(" → ");
  const names = { [citation.kg_path[0]]: evidence.related_to, [evidence.entity_id]: evidence.matched_entity };
  const stated = (edge) => edge.type !== "CO_MENTIONED" && state.response.citations.find((one) => one.uuid === edge.evidence?.uuid);
  return evidence.path.map((edge) => `${names[edge.src] ?? edge.src} -${edge.type}-> ${names[edge.dst] ?? edge.dst}${stated(edge) ? ` (stated in [${stated(edge).rank}])` : ""}`).join(", ");
}

function showSteps(response) {
  const timings = response.diagnostics?.timings_ms;
  $("steps").replaceChildren();
  if (!timings) return;
  const most = Math.max(1, ...Object.keys(STEPS).map((step) => timings[step] ?? 0));
  const rows = Object.entries(STEPS).map(([step, words]) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    bar.setAttribute("viewBox", "0 0 200 10");
    bar.setAttribute("aria-hidden", "true");
    const rectangle = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rectangle.setAttribute("class", "bar");
    rectangle.setAttribute("width", String((200 * (timings[step] ?? 0)) / most));
    rectangle.setAttribute("height", "10");
    bar.append(rectangle);
    return element("tr", {}, element("th", { scope: "row" }, words), element("td", {}, `${(timings[step] ?? 0).toFixed(1)} ms`), element("td", {}, bar));
  });
  $("steps").append(element("table", {}, element("tbody", {}, ...rows)), element("p", { class: "hint" }, `together ${timings.total.toFixed(1)} ms`));
}

async function draw() {
  $("draw").disabled = true;
  try {
    const wanted = { ...state.request, verbosity: "graph" };
    delete wanted.synthesis;
    wanted.budget = { ...wanted.budget };
    delete wanted.budget.max_tokens_gen;
    const response = await call("POST", "v1/answer", wanted);
    const chosen = state.response.citations.find((one) => one.rank === state.chosen);
    if (!response.graph?.nodes.length) $("graph").textContent = "The graph knows nothing around this answer.";
    else $("graph").replaceChildren(...drawGraph(response.graph, chosen?.kg_path ?? [], chosen && { id: chosen.uuid, title: `[${chosen.rank}] ${place(chosen)}` }));
  } catch (problem) {
    showProblem(problem);
  } finally {
    $("draw").disabled = false;
  }
}

const chosenNamespace = () => $("namespace").value.trim() || "default";
const amount = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// The namespace of the address, else the only one there is; a list with counts where there are more.
async function showNamespaces() {
  try {
    const { namespaces } = await call("GET", "v1/namespaces");
    const option = (one) => element("option", { value: one.namespace }, `${one.namespace} (${amount(one.documents, "document")}${one.unfinished ? ", a load is unfinished" : ""})`);
    $("namespaces").replaceChildren(...namespaces.map(option));
    $("choice").replaceChildren(...namespaces.map(option));
    const known = namespaces.map((one) => one.namespace);
    if (!inAddress().get("namespace") && known.length && !known.includes(chosenNamespace())) useNamespace(known[0], known.length === 1);
    if (!known.includes(chosenNamespace())) $("choice").prepend(element("option", { value: chosenNamespace() }, `${chosenNamespace()} (nothing loaded)`));
    $("choice").value = chosenNamespace();
    $("ask-in").hidden = false;
  } catch (problem) {
    // Without the routes of documents the page only asks; the field can still be typed into.
    if (problem.status === 404) $("tab-documents").hidden = true;
  }
}

// Two fields and a list, one namespace: what is loaded is what is asked.
function useNamespace(name, keep = true) {
  for (const id of ["namespace", "place"]) $(id).value = name;
  if ([...$("choice").options].some((one) => one.value === name)) $("choice").value = name;
  if (keep) remember(name);
}

// A passage that an address names, read with this reader's key; without one it is asked for.
async function readLink() {
  const named = inAddress();
  if (named.get("namespace")) useNamespace(named.get("namespace"), false);
  if (!named.get("passage")) return;
  open("ask");
  const [from, to] = (named.get("span") ?? "").split("-").map(Number);
  const span = to > from ? { char_start: from, char_end: to } : {};
  const asked = { namespace: chosenNamespace(), uuid: named.get("passage"), ...span };
  try {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "read_passage", arguments: asked } };
    const { result } = await call("POST", "mcp", message);
    const told = result.structuredContent;
    if (result.isError) throw { title: "This passage cannot be shown", detail: told?.detail ?? "It is not there, or not yours to read.", errors: [] };
    const [start, end] = told.lit ?? [0, 0];
    const text = element("div", { class: "text" }, told.before, element("span", { class: "whole" }, slice(told.text, 0, start), element("mark", {}, slice(told.text, start, end)), slice(told.text, end)), told.after);
    $("linked").replaceChildren(element("h2", {}, told.source || told.doc_id), text);
    $("linked").hidden = false;
    $("linked").focus();
  } catch (problem) {
    showProblem(problem);
  }
}

async function showPage(citation) {
  const path = `v1/documents/${encodeURIComponent(citation.doc_id)}/pages/${citation.page}?${new URLSearchParams({ namespace: state.response.metadata.namespace })}`;
  try {
    const response = await reach("GET", path, undefined, {});
    if (!response.ok) await read(response);
    const sheet = await paper(response, citation.boxes, `Page ${citation.page} of ${citation.document_name ?? citation.doc_id}, the passage lit`);
    $("sheet").replaceChildren(sheet);
    sheet.querySelector(".lit")?.scrollIntoView({ block: "center" });
  } catch (problem) {
    $("sheet").replaceChildren(element("p", { class: "hint" }, problem.detail ?? "The page cannot be shown."));
  }
}

// Whom this server can ask now; on a server that lists nobody the two of the page stay.
async function showModels() {
  try {
    const { data } = await call("GET", "v1/models");
    const names = data.map((one) => one.id).filter((name) => !name.includes("@"));
    $("models").replaceChildren(...[...names, "none"].map((value) => element("option", { value })));
  } catch { /* the list is a help, not a need */ }
}

const localTime = (text) => (text ? new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "");

async function showDocuments() {
  const namespace = chosenNamespace();
  $("documents-note").textContent = "Reading the list…";
  try {
    state.library = await everyDocument(call, namespace);
    $("upload").hidden = !state.library.mayLoad;
    listDocuments();
  } catch (problem) {
    $("documents-note").textContent = `${problem.title ?? "The list is not available"}. ${problem.detail ?? ""}`;
  }
}

function listDocuments() {
  const { documents, mayLoad, all } = state.library;
  const { field, down } = state.order;
  const found = picked(documents, $("find").value, field, down);
  const namespace = chosenNamespace();
  for (const head of document.querySelectorAll("#documents th[data-field]")) {
    head.setAttribute("aria-sort", head.dataset.field !== field ? "none" : down ? "descending" : "ascending");
  }
  document.querySelector("#documents tbody").replaceChildren(...found.slice(0, MOST_ROWS).map((one) => element("tr", {},
    element("td", {}, one.doc_id), element("td", {}, one.title ?? ""), element("td", {}, String(one.chunks)),
    element("td", {}, localTime(one.loaded_at)),
    element("td", {}, mayLoad ? element("button", { type: "button", class: "quiet", onclick: (event) => removeDocument(event.target, namespace, one.doc_id) }, "Remove") : ""))));
  const shown = found.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown: search to find others` : "";
  const counted = `${found.length === documents.length ? "" : `${found.length} of `}${documents.length}${all ? "" : " or more"} documents${shown}`;
  $("documents-note").textContent = documents.length ? counted : `Nothing is loaded in namespace ${namespace} that you may read.`;
}

async function removeDocument(button, namespace, id) {
  if (button.dataset.sure !== "yes") {
    button.dataset.sure = "yes";
    button.textContent = `Really remove ${id}?`;
    return;
  }
  try {
    const { job_id } = await call("DELETE", `v1/documents/${encodeURIComponent(id)}?${new URLSearchParams({ namespace })}`);
    const { why } = await ended(call, job_id);
    $("upload-status").textContent = why ? `${id} was not removed: ${why}` : `${id} was removed.`;
    await showDocuments();
    await showNamespaces();
  } catch (problem) {
    $("upload-status").textContent = `${problem.title}. ${problem.detail ?? ""}`;
  }
}

// One file a request: what is wrong with one is not the others' loss.
async function upload(event) {
  event.preventDefault();
  const files = [...$("files").files], namespace = chosenNamespace();
  let good = 0;
  $("refused").replaceChildren();
  Object.assign($("upload-progress"), { hidden: false, max: files.length, value: 0 });
  for (const [number, file] of files.entries()) {
    $("upload-status").textContent = `Loading ${file.name}, ${number + 1} of ${files.length}…`;
    const refused = refusal(file);
    const { why, notes } = refused ? { why: refused } : await loaded(call, namespace, file, $("replace").checked);
    if (why) $("refused").append(element("li", {}, element("strong", {}, file.name), `: ${why}`));
    else good += 1;
    $("refused").append(...(notes ?? []).map((note) => element("li", {}, note)));
    $("upload-progress").value = number + 1;
  }
  $("upload-status").textContent = `Done: ${good} loaded${good < files.length ? `, ${files.length - good} not, see below` : ""}.`;
  $("upload-progress").hidden = true;
  await showDocuments();
  await showNamespaces();
}

function open(name) {
  for (const one of ["ask", "documents"]) {
    $(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    $(`view-${one}`).hidden = one !== name;
  }
  if (name === "documents") showDocuments();
}

$("ask").addEventListener("submit", ask);
$("stop").addEventListener("click", () => state.stop?.abort());
$("anew").addEventListener("click", startAnew);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") state.stop?.abort(); });
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("ask").requestSubmit(); }
});
$("more").addEventListener("click", () => { showPassages(state.response, state.response.citations.length); choose(state.chosen, false); });
$("draw").addEventListener("click", draw);
$("copy").addEventListener("click", async () => { await navigator.clipboard.writeText($("curl").textContent); $("copy").textContent = "Copied"; });
$("tab-ask").addEventListener("click", () => open("ask"));
$("tab-documents").addEventListener("click", () => open("documents"));
$("upload").addEventListener("submit", upload);
for (const id of ["namespace", "place", "choice"]) {
  $(id).addEventListener("input", () => useNamespace($(id).value));
  $(id).addEventListener("change", () => { if (!$("view-documents").hidden) showDocuments(); });
}
$("find").addEventListener("input", listDocuments);
for (const head of document.querySelectorAll("#documents th[data-field] button")) {
  head.addEventListener("click", () => {
    const { field } = head.parentElement.dataset;
    state.order = { field, down: state.order.field === field && !state.order.down };
    listDocuments();
  });
}
$("keep-markdown").addEventListener("click", () => save("answer.md", "text/markdown", markdownOf(state.response, location.href.split("#")[0])));
$("keep-json").addEventListener("click", () => save("answer.json", "application/json", JSON.stringify(state.response, null, 1)));
addEventListener("hashchange", readLink);
$("sign-in").addEventListener("click", signInOrOut);
for (const secret of ["key", "token"]) $(secret).addEventListener("change", () => { showNamespaces(); showModels(); });
for (const tab of ["ask", "documents"]) {
  $(`tab-${tab}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    const other = tab === "ask" ? "documents" : "ask";
    open(other);
    $(`tab-${other}`).focus();
  });
}
readLink().then(showNamespaces);
showModels();
showSignIn();
