// The interactive reference of the document that /openapi.json serves.
// Its viewer reads OpenAPI 3.0: what 3.1 says in another way is said again for it, here only.
function older(node) {
  if (Array.isArray(node)) return node.map(older);
  if (node === null || typeof node !== "object") return node;
  const made = {};
  for (const [name, value] of Object.entries(node)) made[name] = older(value);
  if (Array.isArray(made.anyOf) && made.anyOf.some((one) => one.type === "null")) {
    const rest = made.anyOf.filter((one) => one.type !== "null");
    delete made.anyOf;
    if (rest.length === 1) Object.assign(made, rest[0]); else made.anyOf = rest;
    made.nullable = true;
  }
  if ("const" in made) { made.enum = [made.const]; delete made.const; }
  if (Array.isArray(made.prefixItems)) { made.items = { anyOf: made.prefixItems }; delete made.prefixItems; }
  return made;
}

// Headings, where the document names none: what somebody comes for first stands first.
const HEADINGS = [
  ["Questions", /^\/v1\/(answer|search)/],
  ["Checks and the graph", /^\/v1\/(check|traverse)/],
  ["Documents", /^\/v1\/(documents|jobs|namespaces)/],
  ["Agents and chat clients", /^\/(mcp|v1\/(chat|models))/],
  ["The service", /./],
];

function headed(document_) {
  for (const [path, item] of Object.entries(document_.paths)) {
    const [heading] = HEADINGS.find(([, pattern]) => pattern.test(path));
    for (const operation of Object.values(item)) operation.tags ??= [heading];
  }
  return { ...document_, tags: document_.tags ?? HEADINGS.map(([name]) => ({ name })) };
}

fetch("openapi.json").then((response) => response.json()).then((document_) => {
  globalThis.SwaggerUIBundle({
    // Where deployed, the stage is a part of every address: it is the folder this page is in.
    spec: { ...headed(older(document_)), openapi: "3.0.3", servers: [{ url: new URL(".", location.href).href.replace(/\/$/, "") }] },
    dom_id: "#reference",
    deepLinking: true,
    validatorUrl: null,
  });
});
