// A page of a PDF with the words of a citation lit on it.
const SVG = "http://www.w3.org/2000/svg";
const PIXELS_PER_METRE = 41; // where a PNG that says its resolution first says it

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

const dataUrl = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

// Give an SVG of the PNG in `response`, with `boxes` in points from its upper left corner.
export async function paper(response, boxes, label) {
  const blob = await response.blob();
  const bytes = new DataView(await blob.arrayBuffer());
  const points = 72 / (bytes.getUint32(PIXELS_PER_METRE) * 0.0254);
  const [width, height] = [bytes.getUint32(16) * points, bytes.getUint32(20) * points];
  const sheet = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "paper", role: "img", "aria-label": label });
  sheet.append(drawn("image", { href: await dataUrl(blob), width, height }));
  for (const box of boxes) sheet.append(drawn("rect", { x: box.x0, y: box.y0, width: box.x1 - box.x0, height: box.y1 - box.y0, class: "lit" }));
  return sheet;
}
