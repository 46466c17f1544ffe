// A small force layout in plain SVG: deterministic (no random start), so the same graph looks the same.
const SVG = "http://www.w3.org/2000/svg";
const ROUNDS = 220, LETTER = 7;
// Letters keep their size where there is little room: fewer nodes are drawn instead.
const WIDE = { width: 900, height: 520, most: 36 }, NARROW = { width: 380, height: 460, most: 14 };

function make(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

function layout(nodes, edges, { width, height }) {
  nodes.forEach((node, index) => {
    const angle = index * 2.399963; // the golden angle spreads any number of points evenly
    const radius = 18 * Math.sqrt(index + 1);
    node.x = width / 2 + radius * Math.cos(angle) * 1.6;
    node.y = height / 2 + radius * Math.sin(angle);
  });
  const ideal = Math.sqrt((width * height) / Math.max(8, nodes.length)) * 0.6;
  for (let round = 0; round < ROUNDS; round += 1) {
    const heat = 14 * (1 - round / ROUNDS);
    for (const node of nodes) { node.dx = (width / 2 - node.x) * 0.06; node.dy = (height / 2 - node.y) * 0.12; }
    for (let i = 0; i < nodes.length; i += 1) {
      for (let j = i + 1; j < nodes.length; j += 1) {
        const [a, b] = [nodes[i], nodes[j]];
        const x = a.x - b.x, y = a.y - b.y, squared = Math.max(25, x * x + y * y);
        const push = (ideal * ideal) / squared;
        a.dx += x * push * 0.1; a.dy += y * push * 0.1; b.dx -= x * push * 0.1; b.dy -= y * push * 0.1;
      }
    }
    for (const { from, to } of edges) {
      const x = to.x - from.x, y = to.y - from.y, distance = Math.max(1, Math.hypot(x, y));
      const pull = (distance - ideal) / distance * 0.12;
      from.dx += x * pull; from.dy += y * pull; to.dx -= x * pull; to.dy -= y * pull;
    }
    for (const node of nodes) {
      const step = Math.hypot(node.dx, node.dy) || 1;
      node.x = Math.min(width - 60, Math.max(60, node.x + (node.dx / step) * Math.min(step, heat)));
      node.y = Math.min(height - 24, Math.max(24, node.y + (node.dy / step) * Math.min(step, heat)));
    }
  }
}

// Write a node's name above or below it, inside the drawing and over no other name; what finds no
// room is told by the dot's title. Nodes come best first, so the best keep their names.
function appendLabel(svg, node, taken, room) {
  const text = node.title.length > 26 ? `${node.title.slice(0, 25)}…` : node.title;
  const width = text.length * LETTER;
  const x = Math.min(room.width - width / 2 - 4, Math.max(width / 2 + 4, node.x));
  for (const y of [node.y - 10, node.y + 20]) {
    const free = taken.every((other) => Math.abs(other.y - y) > 13 || Math.abs(other.x - x) > (other.width + width) / 2 + 4);
    if (!free) continue;
    taken.push({ x, y, width });
    svg.append(make("text", { x, y, "text-anchor": "middle" }, text));
    return;
  }
}

// The nodes worth drawing: the path with what it hangs on, then the best; a dot that nothing of
// these is tied to says nothing and is left out.
function chosenOf(view, onPath, most) {
  const ranked = [...view.nodes].sort((a, b) => Number(onPath.has(b.id)) - Number(onPath.has(a.id)) || b.score - a.score || (a.id < b.id ? -1 : 1));
  const tied = (id) => new Set(view.edges.flatMap((edge) => (edge.src === id ? [edge.dst] : edge.dst === id ? [edge.src] : [])));
  const first = ranked.filter((node) => onPath.has(node.id));
  for (const node of [...first]) {
    const near = tied(node.id);
    if (!first.some((one) => near.has(one.id))) first.push(...ranked.filter((one) => near.has(one.id) && !first.includes(one)).slice(0, 2));
  }
  const shown = [...first, ...ranked.filter((node) => !first.includes(node))].slice(0, most);
  const ids = new Set(shown.map((node) => node.id));
  const ends = new Set(view.edges.filter((edge) => ids.has(edge.src) && ids.has(edge.dst)).flatMap((edge) => [edge.src, edge.dst]));
  return shown.filter((node) => onPath.has(node.id) || ends.has(node.id));
}

// The chosen passage ends its own path: it names the path's last node, also where the view, which
// is cut to its budget, left one of the two or the line between them out.
function withPassage(view, path, passage) {
  const end = path.at(-1);
  if (!end || !view.nodes.some((node) => node.id === end)) return view;
  const there = view.nodes.some((node) => node.id === passage.id);
  const tied = view.edges.some((edge) => (edge.src === passage.id && edge.dst === end) || (edge.dst === passage.id && edge.src === end));
  return {
    nodes: there ? view.nodes : [...view.nodes, { ...passage, label: "Chunk", score: 1 }],
    edges: tied ? view.edges : [...view.edges, { src: passage.id, dst: end, type: "MENTIONS" }],
  };
}

// Give [svg, description]: the best nodes with their typed edges, the chosen citation's path lit.
// `passage`: {id, title} of the chosen citation.
export function drawGraph(given, path, passage) {
  const room = matchMedia("(max-width: 50rem)").matches ? NARROW : WIDE;
  const view = passage ? withPassage(given, path, passage) : given;
  const onPath = new Set(passage && path.length ? [...path, passage.id] : path);
  const nodes = chosenOf(view, onPath, room.most).map((node) => ({ ...node }));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const edges = view.edges.filter((edge) => byId.has(edge.src) && byId.has(edge.dst))
    .map((edge) => ({ ...edge, from: byId.get(edge.src), to: byId.get(edge.dst) }));
  layout(nodes, edges, room);
  const words = `${nodes.length} of ${view.nodes.length} nodes and ${edges.length} edges around the passages of this answer.`;
  const svg = make("svg", { viewBox: `0 0 ${room.width} ${room.height}`, role: "img", "aria-label": words });
  const typed = room === WIDE && edges.length <= 40;
  for (const edge of edges) {
    const lit = onPath.has(edge.src) && onPath.has(edge.dst);
    const line = make("line", { x1: edge.from.x, y1: edge.from.y, x2: edge.to.x, y2: edge.to.y, class: lit ? "edge path" : "edge" });
    line.append(make("title", {}, `${edge.from.title} ${edge.type} ${edge.to.title}`));
    svg.append(line);
    if ((typed || lit) && edge.type !== "MENTIONS") svg.append(make("text", { x: (edge.from.x + edge.to.x) / 2, y: (edge.from.y + edge.to.y) / 2, class: "type", "text-anchor": "middle" }, edge.to.x < edge.from.x ? `← ${edge.type}` : `${edge.type} →`));
  }
  const taken = [];
  for (const node of nodes) {
    const entity = node.label === "Entity";
    const kinds = ["node", entity ? "entity" : "", onPath.has(node.id) ? "path" : ""].filter(Boolean).join(" ");
    const dot = entity ? make("circle", { cx: node.x, cy: node.y, r: 7, class: kinds }) : make("rect", { x: node.x - 6, y: node.y - 6, width: 12, height: 12, class: kinds });
    dot.append(make("title", {}, `${node.title} (${node.label})`));
    svg.append(dot);
    if (entity || onPath.has(node.id) || nodes.length <= 25) appendLabel(svg, node, taken, room);
  }
  const note = document.createElement("p");
  note.className = "hint";
  note.textContent = `${words} Circles are entities, squares passages and documents; the path of the chosen passage is lit.`;
  return [svg, note];
}
