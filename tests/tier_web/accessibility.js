// Colours are computed by the browser; transparent backgrounds are looked for further up.
const visible = (node) => {
  const box = node.getBoundingClientRect();
  const style = getComputedStyle(node);
  return box.width > 0 && box.height > 0 && style.visibility !== "hidden" && style.display !== "none";
};
const name = (node) => (node.getAttribute("aria-label")
  || (node.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.innerText || "").join(" ").trim()
  || (node.labels && [...node.labels].map((one) => one.innerText).join(" ")) || node.innerText || node.title || "").trim();
const say = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""} ${(node.innerText || "").slice(0, 40)}`;
const found = [];
for (const node of document.querySelectorAll("a, button, input, select, [role=button], [role=tab], svg[role=img], [role=region], [role=table], table"))
  if (visible(node) && !name(node)) found.push(`no name: ${say(node)}`);
for (const node of document.querySelectorAll("[aria-controls], [aria-labelledby]"))
  for (const id of (node.getAttribute("aria-controls") || node.getAttribute("aria-labelledby")).split(" "))
    if (!document.getElementById(id)) found.push(`names an element that is not there (${id}): ${say(node)}`);
const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) found.push(`id twice: ${id}`);
for (const role of ["row"])
  for (const node of document.querySelectorAll(`[role=${role}]`))
    if (!node.closest("[role=table]") || !node.querySelector("[role=cell], [role=columnheader]")) found.push(`${role} out of place: ${say(node)}`);
for (const node of document.querySelectorAll("[role=tab]"))
  if (!node.closest("[role=tablist]") || !node.hasAttribute("aria-selected")) found.push(`tab out of place: ${say(node)}`);
if (document.querySelectorAll("h1").length !== 1) found.push(`${document.querySelectorAll("h1").length} first headings`);
let level = 0;
for (const node of document.querySelectorAll("h1, h2, h3")) {
  const now = Number(node.tagName[1]);
  if (now > level + 1 && level) found.push(`heading skips a level: ${say(node)}`);
  level = now;
}
if (!document.documentElement.lang || !document.title) found.push("no language or no title");
if (!document.querySelector("main") || !document.querySelector("header nav[aria-label]")) found.push("landmarks are missing");
for (const node of document.querySelectorAll("img, svg"))
  if (!node.closest("[aria-hidden=true]") && node.getAttribute("role") !== "img" && !node.hasAttribute("alt")) found.push(`picture without words: ${say(node)}`);
if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the screen: ${document.documentElement.scrollWidth} of ${innerWidth}`);
const parse = (text) => { const parts = text.match(/[\d.]+/g).map(Number); return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 }; };
const light = (rgb) => { const [r, g, b] = rgb.map((one) => { const part = one / 255; return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (node) => { for (let at = node; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour.alpha > 0.9) return colour.rgb; } return [255, 255, 255]; };
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !node || seen.has(node) || !visible(node) || node.closest("noscript, option, .skip, svg defs")) continue;
  seen.add(node);
  const style = getComputedStyle(node);
  const inSvg = node instanceof SVGElement;
  const ink = parse(inSvg ? style.fill : style.color).rgb;
  const [a, b] = [light(ink), light(behind(inSvg ? node.ownerSVGElement : node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${say(node)}`);
}
return [found, seen.size];
