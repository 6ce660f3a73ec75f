// What if: the plan that the scheduler would make now, by policy. Nothing is carried out.

import { get } from "./api.js";
import { bytes, count, empty, h, jobPath, plural, replace, trim } from "./dom.js";

const EVERY = 5000;
const POLICIES = {
  cfs: "fair shares by priority and running time",
  fulfillment: "whoever has least of what they asked for is served first",
  goodput: "the most training per resource, by measured speed",
};

export function whatIfView({ main, follow, title }) {
  title("What if");
  let policy = null;
  let gone = false;
  let timer = 0;
  const picks = h("div", { class: "chips", role: "group", "aria-label": "Policy" });
  const words = h("p", { class: "sub" });
  const use = h("p", {});
  const body = h("section", { class: "panel" });
  const later = h("section", { class: "panel" });
  const again = h("button", { type: "button", onclick: () => read() }, "Plan again");
  const status = h("p", { class: "faint", role: "status" });
  replace(main, h("div", { class: "toolbar" }, h("h1", {}, "What if"), again, status),
    h("p", {}, "What the scheduler would decide for the cluster as it is now. A dry run: nothing is carried out."),
    picks, words, use, body, later);

  async function read() {
    status.textContent = "Planning…";
    try {
      const plan = await get(policy ? `plan?policy=${encodeURIComponent(policy)}` : "plan");
      if (gone) return;
      policy = plan.policy;
      show(plan);
      showLater(plan);
      status.textContent = "";
    } catch (error) {
      if (!gone) replace(body, empty("No plan", error.message));
      status.textContent = "";
    }
  }

  function show(plan) {
    replace(picks, plan.policies.map((one) => h("button", { type: "button", class: "chip", "aria-pressed": String(one === policy), onclick: () => { policy = one; read(); } }, one)));
    words.textContent = POLICIES[policy] || "";
    const amounts = [["GPUs", 2, count], ["cores", 0, trim], ["memory", 1, bytes]].filter(([, id]) => plan.capacity[id] > 0);
    use.textContent = amounts.map(([name, id, format]) => `${name}: ${format(plan.used_before[id])} now, ${format(plan.used_after[id])} after, of ${format(plan.capacity[id])}`).join(" · ");
    const rows = plan.jobs.map((one) => h("tr", {},
      h("td", {}, h("a", { href: jobPath(one.key) }, one.name), h("span", { class: "sub" }, ` ${one.namespace}`)),
      h("td", { class: `step ${one.target > one.current ? "up" : one.target < one.current ? "down" : ""}` }, `${one.current} → ${one.target}`),
      h("td", {}, one.min === one.max ? one.max : `${one.min}–${one.max}`),
      h("td", {}, one.reason),
      h("td", {}, Object.entries(one.nodes).map(([node, pods]) => `${node} +${pods}`).join(", "))));
    replace(body, h("h2", {}, rows.length ? `${plural(rows.length, "job")} would change or wait` : "Nothing would change"),
      rows.length ? h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Plan, scrollable" }, h("table", { "aria-label": "Plan" },
        h("thead", {}, h("tr", {}, ["Job", "Size", "Allowed", "Why", "New pods on"].map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows))) : null,
      h("p", { class: "faint" }, `Unchanged: ${plural(plan.unchanged, "job")}.`),
      plan.problems.length ? h("p", { class: "error" }, `Left out: ${plan.problems.join("; ")}`) : null);
  }

  function showLater(plan) {
    replace(later, h("h2", {}, "And then"),
      h("p", { class: "sub" }, "If jobs end when the work is done that they report, and nobody else arrives. A job that does not say how much it has left is there for ever."),
      plan.coming.length ? h("ol", { class: "decisions" }, plan.coming.map((one) => h("li", {}, h("span", { class: "when" }, one.wait), h("span", { class: "step" }, one.what), h("span", { class: "words" }, one.job))))
        : h("p", { class: "faint" }, "Nothing that could be foretold."));
  }

  const stop = follow({ view: "cluster" }, {
    cluster() {
      if (policy && !timer) timer = setTimeout(() => ((timer = 0), read()), EVERY); // a plan costs more than a look
    },
  });
  read();
  return () => {
    gone = true;
    clearTimeout(timer);
    stop();
  };
}
