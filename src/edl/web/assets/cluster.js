// The cluster: how it is used and by whom, its nodes, who waits and why, and how namespaces share it.

import { chart } from "./chart.js";
import { age, badge, bytes, count, h, jobPath, missing, plural, replace, stateWord, trim } from "./dom.js";

const RESOURCES = [
  { id: 2, title: "GPUs", format: count },
  { id: 0, title: "CPU cores", format: trim },
  { id: 1, title: "Memory", format: bytes },
];
// Free, wanted, and of no use to those who want it.
const WHY = [["fragmentation", "Free: fragmented", "c-why0"], ["quota", "Free: quota", "c-why1"], ["load_cap", "Free: load cap", "c-why2"], ["freezing", "Free: freezing", "c-why3"]];
const COLORS = ["c0", "c1", "c3", "c4", "c5", "c6", "c7", "c8"];

export function clusterView({ main, follow, title, me }) {
  title("Cluster");
  let chosen = null;
  let view = null;
  const tiles = h("div", { class: "tiles" });
  const pick = h("div", { class: "chips", role: "group", "aria-label": "Resource" });
  const use = chart({ label: "Use over time", height: 240 });
  const queue = h("section", { class: "panel" });
  const shares = h("section", { class: "panel" });
  const nodes = h("section", { class: "panel" });
  const notes = h("div", {});
  replace(main, h("div", { class: "toolbar" }, h("h1", {}, "Cluster")), tiles,
    h("section", { class: "panel" }, pick, use.node), h("div", { class: "two" }, queue, shares), nodes, notes);

  const offered = () => RESOURCES.filter((one) => view.capacity[one.id] > 0);
  const resource = () => offered().find((one) => one.id === chosen) || offered().find((one) => view.jobs[one.id] > 0) || offered()[0] || RESOURCES[1];

  function draw() {
    showTiles();
    replace(pick, offered().map((one) => h("button", { type: "button", class: "chip", "aria-pressed": String(one === resource()), onclick: () => { chosen = one.id; draw(); } }, one.title)));
    drawUse();
    showQueue();
    showShares();
    showNodes();
    replace(notes, missing(view.missing));
  }

  function showTiles() {
    const known = offered().map((one) => {
      const [have, jobs, others] = [view.capacity, view.jobs, view.others].map((amounts) => amounts[one.id]);
      return tile(me.recorded ? `${one.title}, mean` : one.title, `${one.format(jobs + others)} of ${one.format(have)}`, bar(jobs / have, others / have), `${percent(jobs / have)} by jobs, ${percent(others / have)} by others, ${percent(Math.max(0, 1 - (jobs + others) / have))} free`);
    });
    const states = Object.entries(view.counts).sort().map(([state, number]) => `${number} ${stateWord(state).toLowerCase()}`);
    const total = Object.values(view.counts).reduce((sum, one) => sum + one, 0);
    replace(tiles, known, tile("Jobs", String(total), null, states.join(", ") || "none"));
  }

  function drawUse() {
    const one = resource();
    const names = new Map();
    const label = (key) => key.split("/").slice(-2).join("/"); // history names a job without its kind
    for (const sample of view.samples) for (const holder of sample.holders) names.set(label(holder.key), (names.get(label(holder.key)) || 0) + holder.used[one.id]);
    const top = [...names].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, COLORS.length).map(([key]) => key);
    const layers = [...top.map((key, index) => ({ name: key, color: COLORS[index], of: (sample) => sample.holders.find((holder) => label(holder.key) === key)?.used[one.id] || 0 })),
      { name: "Other jobs", color: "c-rest", of: (sample) => sample.rest[one.id] + sample.holders.filter((holder) => !top.includes(label(holder.key))).reduce((sum, holder) => sum + holder.used[one.id], 0) },
      { name: "Other pods", color: "c-others", of: (sample) => sample.others[one.id] },
      ...WHY.map(([id, name, color]) => ({ name, color, of: (sample) => sample.unusable[id]?.[one.id] || 0 }))];
    const last = view.samples[view.samples.length - 1];
    const samples = me.recorded ? view.samples : last ? [...view.samples, { ...last, time: Math.max(last.time + 1, Date.now() / 1000) }] : []; // as it still is
    const bottoms = samples.map(() => 0);
    const series = layers.map((layer) => {
      const points = samples.map((sample, index) => {
        const bottom = bottoms[index];
        bottoms[index] += layer.of(sample);
        return [sample.time, bottom, bottoms[index]];
      });
      return { name: layer.name, color: layer.color, area: true, points, quiet: points.every(([, bottom, up]) => up === bottom) };
    });
    series.push({ name: "Capacity", color: "c-line", step: true, points: samples.map((sample) => [sample.time, sample.capacity[one.id]]), last: one.format(view.capacity[one.id]) });
    use.update({ series, low: 0, format: one.format, none: "The first sample comes within five seconds",
      summary: `${one.title}: ${one.format(view.jobs[one.id])} by jobs, ${one.format(view.others[one.id])} by others, of ${one.format(view.capacity[one.id])}` });
  }

  function showQueue() {
    const title = me.recorded ? "Waited longest" : `Waiting: ${view.queue.length}`;
    const about = (row) => (me.recorded ? row.namespace : `${row.namespace} · needs ${row.min ?? "?"} · for ${age(row.created)}`);
    replace(queue, h("h2", {}, view.queue.length ? title : me.recorded ? "Nobody waited" : "Nobody waits"),
      h("ol", { class: "queue" }, view.queue.map((row) => h("li", {},
        h("div", {}, h("a", { href: jobPath(row.key) }, row.name), h("span", { class: "sub" }, ` ${about(row)}`)),
        h("p", {}, row.reason)))));
  }

  function showShares() {
    const one = resource();
    const most = Math.max(...view.shares.map((share) => share.used[one.id]), 1e-9);
    replace(shares, h("h2", {}, me.recorded ? "Mean shares by namespace" : "Shares by namespace"),
      h("ul", { class: "shares" }, view.shares.map((share) => h("li", {},
        h("span", { class: "share-name" }, share.namespace), bar(share.used[one.id] / most, 0),
        h("span", { class: "share-amount" }, one.format(share.used[one.id])),
        h("span", { class: "sub" }, share.note || `${share.running} running${share.waiting ? `, ${share.waiting} waiting` : ""}`)))));
  }

  function showNodes() {
    nodes.hidden = Boolean(me.recorded);
    replace(nodes, h("h2", {}, plural(view.nodes.length + view.more_nodes, "node")),
      h("ul", { class: "nodes" }, view.nodes.map((node) => h("li", { class: node.state === "ready" ? null : "off" },
        h("div", {}, h("strong", {}, node.name), " ", h("span", { class: "sub" }, `${node.state === "ready" ? "" : `${node.state}, `}${plural(node.pods, "pod")}`)),
        offered().map((one) => h("div", { class: "node-line" }, h("span", {}, one.title), bar(node.jobs[one.id] / node.capacity[one.id], node.others[one.id] / node.capacity[one.id]),
          h("span", { class: "amount" }, `${one.format(node.jobs[one.id] + node.others[one.id])}/${one.format(node.capacity[one.id])}`)))))),
      view.more_nodes ? h("p", { class: "faint" }, `${view.more_nodes} more are not listed.`) : null);
  }

  const stop = follow({ view: "cluster" }, {
    cluster(found) {
      view = found;
      draw();
    },
  });
  return () => {
    stop();
    use.close();
  };
}

export const percent = (share) => `${Number.isFinite(share) ? Math.round(100 * share) : 0}%`;

export function bar(jobs, others) {
  const part = (share, kind) => {
    const node = h("span", { class: kind });
    node.style.width = `${Math.min(100, Math.max(0, 100 * (Number.isFinite(share) ? share : 0)))}%`;
    return node;
  };
  return h("span", { class: "meter", "aria-hidden": "true" }, part(jobs, "by-jobs"), part(others, "by-others"));
}

function tile(title, value, meter, words) {
  return h("section", { class: "tile" }, h("h2", {}, title), h("p", { class: "tile-value" }, value), meter, h("p", { class: "sub" }, words));
}
