// One job: its size and why, how it trains, its pods, what happened, its logs, and what to do next.

import { get, jobCall, lines, send } from "./api.js";
import { chart, when } from "./chart.js";
import { age, badge, count, date, duration, empty, h, loss, missing, plural, replace, sizeText, stamp } from "./dom.js";

const KEPT = 5000; // lines of a log in the document
const TABS = [["overview", "Overview"], ["pods", "Pods"], ["logs", "Logs"], ["events", "Events"], ["manifest", "Manifest"]];

export function jobView({ main, follow, title, args, notice, me }) {
  const key = args.join("/");
  const [, namespace, name] = args;
  title(name);
  let job = null;
  let tab = "overview";
  let chosen = null;
  let closeTab = () => {};

  const heading = h("div", { class: "job-head" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the job" });
  const panel = h("div", { class: "tab-panel", role: "tabpanel", id: "panel", tabindex: 0 });
  replace(main,
    h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", namespace, " / ", name),
    heading, tabs, panel);
  replace(heading, h("h1", {}, name));
  showTabs();
  replace(panel, h("p", { class: "faint" }, "Loading…"));

  function showTabs() {
    replace(tabs, TABS.map(([id, words]) => h("button", {
      type: "button", role: "tab", id: `tab-${id}`, "aria-selected": String(tab === id), "aria-controls": "panel", tabindex: tab === id ? 0 : -1,
      onclick: () => choose(id),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const place = (TABS.findIndex(([one]) => one === tab) + step + TABS.length) % TABS.length;
        choose(TABS[place][0]);
        document.getElementById(`tab-${tab}`).focus();
      },
    }, words)));
    panel.setAttribute("aria-labelledby", `tab-${tab}`);
  }

  function choose(id) {
    tab = id;
    showTabs();
    closeTab();
    if (job) open();
  }

  let update = () => {};
  function open() {
    const opened = { overview, pods, logs, events, manifest }[tab]();
    update = opened.update || (() => {});
    closeTab = opened.close || (() => {});
    update();
  }

  // --- head ---

  function showHead() {
    const row = job.row;
    const bounds = row.min === null ? "" : row.min === row.max ? `fixed at ${row.max}` : `${row.min} to ${row.max} allowed`;
    const facts = [
      ["Size", [sizeText(row), bounds ? h("span", { class: "sub" }, bounds) : null]],
      ["Progress", [row.progress || (row.percent === null ? "–" : `${Math.round(row.percent)}%`), row.eta ? h("span", { class: "sub" }, `${row.eta} left`) : null]],
      ["Loss", [loss(lastOf("loss") ?? row.loss)]],
      ["Samples/s", [count(lastOf("throughput") ?? row.throughput)]],
      ["Pause per change", [job.rescale_seconds === null ? "–" : duration(job.rescale_seconds)]],
      ["Goodput", [job.goodput === null ? "–" : `${Math.round(job.goodput * 100)}%`]],
      ["Submitted", [h("span", { title: date(row.created) }, me.recorded ? stamp(row.created) : `${age(row.created)} ago`)]],
    ];
    replace(heading,
      h("div", { class: "job-title" },
        h("h1", {}, row.name), badge(row.state),
        h("span", { class: "sub" }, `${job.kind_name} in ${row.namespace}`),
        job.present ? null : h("span", { class: "badge state-deleting" }, me.recorded ? "Recorded" : "Deleted: from history")),
      h("p", { class: "reason" }, h("strong", {}, row.state === "failed" ? "Why it failed: " : "Why this size: "), row.reason || "nothing decided yet"),
      h("dl", { class: "facts" }, facts.map(([words, value]) => h("div", {}, h("dt", {}, words), h("dd", {}, value)))),
      me.actions && job.present ? actions(row) : null);
  }

  const lastOf = (series) => job.points[series].findLast((value) => value !== null);

  function actions(row) {
    const over = ["succeeded", "failed", "deleting"].includes(row.state);
    const act = (words, call) => async () => {
      try {
        notice((await call()).message);
      } catch (error) {
        notice(`${words}: ${error.message}`, "error");
      }
    };
    const size = h("input", { id: "size", type: "number", min: row.min ?? 1, max: row.max ?? undefined, value: row.target ?? row.min ?? 1 });
    return h("div", { class: "actions" },
      over || !job.scalable ? null : h("form", {
        onsubmit: (event) => {
          event.preventDefault();
          act("Not scaled", () => send("POST", jobCall(key, "/size"), { size: Number(size.value) }))();
        },
      }, h("label", { for: "size" }, "Size"), size, h("button", { type: "submit" }, "Ask for this size")),
      over ? null : h("button", { type: "button", onclick: act("Not done", () => send("POST", jobCall(key, "/pause"), { paused: row.state !== "paused" })) },
        row.state === "paused" ? "Resume" : "Pause at this size"),
      h("button", { type: "button", class: "danger", onclick: () => confirm(`Delete ${row.namespace}/${row.name} and what it owns?`) && act("Not deleted", () => send("DELETE", jobCall(key)))() }, "Delete…"));
  }

  // --- overview ---

  function overview() {
    const sizes = chart({ label: "Size over time", height: 220, onMark: (id) => { chosen = id; update(); } });
    const losses = chart({ label: "Loss", height: 170 });
    const pace = chart({ label: "Samples per second", height: 170 });
    const next = h("section", { class: "panel" });
    const cause = h("div", {});
    const decisions = h("section", { class: "panel" });
    const account = h("div", {});
    const notes = h("div", {});
    const conditions = h("section", { class: "panel" });
    replace(panel, cause, h("div", { class: "columns" },
      h("div", {}, h("section", { class: "panel" }, sizes.node), h("div", { class: "two" }, h("section", { class: "panel" }, losses.node), h("section", { class: "panel" }, pace.node)), decisions),
      h("div", {}, next, account, conditions)), notes);
    return {
      update() {
        drawSizes(sizes);
        drawCurve(losses, "loss", "Loss", "c1", loss, "The job reports no loss");
        drawCurve(pace, "throughput", "Samples/s", "c3", count, "The job reports no pace");
        showDecisions(decisions);
        showNext(next);
        showCause(cause);
        showConditions(conditions);
        showAccount(account);
        replace(notes, missing(job.missing));
      },
      close: () => [sizes, losses, pace].forEach((one) => one.close()),
    };
  }

  const end = () => job.row.ended || (job.present ? Date.now() / 1000 : undefined);
  const decided = () => job.decisions.filter((one) => one.time !== null);

  function drawSizes(sizes) {
    const { time, now, target } = job.points;
    sizes.update({
      series: [
        { name: "Running", color: "c0", step: true, area: true, points: time.map((at, index) => [at, now[index]]), last: job.row.now ?? 0 },
        { name: "Target", color: "c2", step: true, dash: "5 4", points: time.map((at, index) => [at, target[index]]), last: job.row.target ?? "–" },
      ],
      marks: decided().map((one, index) => ({ id: index, time: one.time, value: one.to, on: chosen === index, label: `${clockOf(one)}: ${one.before} to ${one.to}, ${one.reason}` })),
      low: 0, high: (job.row.max ?? 1) * 1.05, to: end(), whole: true, none: "No size yet",
      summary: `${job.row.now ?? 0} run, ${job.row.target ?? "none"} granted, ${plural(job.decisions.length, "decision")} below`,
    });
  }

  const clockOf = (one) => stamp(one.time);

  function drawCurve(where, field, words, color, format, none) {
    const points = job.points.time.map((at, index) => [at, job.points[field][index]]).filter((point) => point[1] !== null);
    where.update({ series: [{ name: words, color, points, last: points.length ? format(points[points.length - 1][1]) : "–" }], format, none,
      low: field === "throughput" ? 0 : undefined, from: job.points.time[0], to: end(),
      summary: points.length ? `from ${format(points[0][1])} to ${format(points[points.length - 1][1])}` : none });
  }

  function showDecisions(where) {
    const listed = job.decisions.map((one, index) => [one, index]).reverse();
    replace(where, h("h2", {}, "Decisions"),
      listed.length ? h("ol", { class: "decisions" }, listed.map(([one, index]) =>
        h("li", { class: chosen === index ? "on" : null },
          h("span", { class: "when" }, when(one.time)),
          h("span", { class: `step ${one.to > one.before ? "up" : one.to < one.before ? "down" : ""}` }, `${one.before} → ${one.to}`),
          h("span", { class: "words" }, one.reason || "no reason was given"))))
        : h("p", { class: "faint" }, "Its size has not changed yet."));
  }

  function showNext(where) {
    replace(where, h("h2", {}, "What to do next"),
      h("ul", { class: "advice" }, job.advice.map((one) => h("li", { class: one.level },
        h("span", { class: "level" }, { ok: "OK", note: "Note", wrong: "Wrong" }[one.level] || one.level),
        h("div", {}, h("strong", {}, one.about), " ", one.message, one.fix ? h("p", { class: "fix" }, one.fix) : null)))),
      h("div", { class: "commands" }, job.commands.map((one) => h("code", {}, one))));
  }

  function showCause(where) {
    replace(where, job.cause ? h("section", { class: "panel cause" },
      h("h2", {}, "Root cause"),
      h("p", {}, `Pod ${job.cause.pod}: `, h("strong", {}, [job.cause.reason, job.cause.exit_code === null ? "" : `exit code ${job.cause.exit_code}`].filter(Boolean).join(", "))),
      job.cause.message ? h("pre", { tabindex: 0, "aria-label": "Its last lines" }, job.cause.message) : null) : null);
  }

  function showConditions(where) {
    replace(where, h("h2", {}, "Conditions and roles"),
      table(["Role", "Wanted", "Pending", "Active", "Done", "Failed"], job.roles.map((one) => [one.role, one.desired, one.pending, one.active, one.succeeded, one.failed]), "Pods by role"),
      h("dl", { class: "conditions" }, job.conditions.map((one) => h("div", {},
        h("dt", {}, `${one.type} `, h("span", { class: "sub" }, `${one.status} for ${age(one.since)}`)),
        h("dd", {}, [one.reason, one.message].filter(Boolean).join(": "))))));
  }

  function showAccount(where) {
    const whole = job.account.reduce((sum, one) => sum + one.seconds, 0);
    replace(where, whole ? h("section", { class: "panel" }, h("h2", {}, "Where its time went"),
      table(["Use", "Instance time", "Share"], job.account.map((one) => [one.use, duration(one.seconds), `${((100 * one.seconds) / whole).toFixed(1)}%`]), "Account")) : null);
  }

  // --- pods ---

  function pods() {
    const where = h("section", { class: "panel" });
    replace(panel, where);
    return {
      update() {
        if (!job.pods) return replace(where, empty("You may not list pods in this namespace"));
        if (!job.pods.length) return replace(where, empty("No pods", job.present ? "It has none right now." : "They are gone."));
        replace(where, table(["Pod", "Role", "State", "Node", "Restarts", "Age"], job.pods.map((one) =>
          [one.name, one.role, h("span", { class: one.ready ? "ready" : null }, one.state), one.node || "–", one.restarts, age(one.started)]), "Pods"),
        job.more_pods ? h("p", { class: "faint" }, `${job.more_pods} more are not listed.`) : null);
      },
    };
  }

  // --- logs ---

  function logs() {
    const names = () => (job.pods || []).map((one) => one.name);
    const pick = h("select", { id: "pod", onchange: () => read() });
    const followed = h("input", { id: "follow", type: "checkbox", checked: true, onchange: () => read() });
    const find = h("input", { id: "find", type: "search", placeholder: "Only lines with", autocomplete: "off", oninput: () => show() });
    const out = h("pre", { class: "log", tabindex: 0, role: "log", "aria-live": "off", "aria-label": "Log" });
    const state = h("p", { class: "faint", role: "status" });
    replace(panel, h("section", { class: "panel" }, h("div", { class: "toolbar" },
      h("div", { class: "field" }, h("label", { for: "pod" }, "Pod"), pick),
      h("div", { class: "field" }, h("label", { for: "find" }, "Find"), find),
      h("div", { class: "field check" }, followed, h("label", { for: "follow" }, "Follow"))), out, state));
    let stop = new AbortController();
    let known = [];

    const matches = (text) => !find.value || text.toLowerCase().includes(find.value.toLowerCase());
    const line = ([time, text]) => h("span", { class: "log-line" }, h("span", { class: "log-time" }, `${time.slice(11, 19)} `), text, "\n");
    const atEnd = () => out.scrollHeight - out.scrollTop - out.clientHeight < 40;

    function show() {
      replace(out, known.filter(([, text]) => matches(text)).map(line));
      out.scrollTop = out.scrollHeight;
    }

    function take(batch) {
      const stick = atEnd();
      known.push(...batch.lines);
      out.append(...batch.lines.filter(([, text]) => matches(text)).map(line));
      if (known.length > KEPT) {
        known = known.slice(-KEPT);
        while (out.childElementCount > KEPT) out.firstElementChild.remove();
      }
      if (stick) out.scrollTop = out.scrollHeight;
      const cut = batch.cut ? ` ${plural(batch.cut, "byte")} of long lines are left out.` : "";
      state.textContent = `${plural(known.length, "line")}.${cut}${batch.end ? ` ${batch.end}.` : ""}`;
    }

    async function read() {
      stop.abort();
      stop = new AbortController();
      const mine = stop;
      known = [];
      replace(out);
      if (!pick.value) return;
      state.textContent = "Reading…";
      try {
        await lines(jobCall(key, `/pods/${encodeURIComponent(pick.value)}/log?tail=1000${followed.checked ? "&follow=1" : ""}`), mine.signal, (batch) => mine.signal.aborted || take(batch));
      } catch (error) {
        if (!mine.signal.aborted) state.textContent = `No log: ${error.message}`;
      }
    }

    return {
      update() {
        const listed = names();
        const signature = listed.join("\n");
        if (pick.dataset.signature === signature) return;
        const before = pick.value;
        pick.dataset.signature = signature;
        replace(pick, listed.map((one) => h("option", { value: one, selected: one === before }, one)));
        if (!listed.length) state.textContent = "It has no pods whose log could be read.";
        else if (pick.value !== before) read();
      },
      close: () => stop.abort(),
    };
  }

  // --- events and manifest: read when they are looked at ---

  function events() {
    const where = h("section", { class: "panel" });
    replace(panel, where);
    let asked = 0;
    const read = async () => {
      asked = Date.now();
      try {
        const found = await get(jobCall(key, "/events"));
        if (!found.events.length) return replace(where, empty("No events", "Kubernetes keeps them for an hour."), missing(found.missing));
        replace(where, table(["When", "Type", "Object", "Reason", "Message"], [...found.events].reverse().map((one) =>
          [when(one.time), one.type, one.object, one.reason, one.count > 1 ? `${one.message} (${one.count} times)` : one.message]), "Events"), missing(found.missing));
      } catch (error) {
        replace(where, empty("No events to be had", error.message));
      }
    };
    return { update: () => Date.now() - asked > 2000 && read() };
  }

  function manifest() {
    const out = h("pre", { class: "manifest", tabindex: 0, "aria-label": "Manifest" }, "Reading…");
    replace(panel, h("section", { class: "panel" }, out));
    get(jobCall(key, "/manifest")).then((found) => (out.textContent = found.yaml), (error) => (out.textContent = error.message));
    return {};
  }

  const stop = follow({ view: "job", job: key }, {
    job(found) {
      const first = job === null;
      job = found;
      showHeadUnlessTyping();
      if (first) open();
      else update();
    },
  });

  function showHeadUnlessTyping() {
    if (!heading.contains(document.activeElement) || document.activeElement === heading) showHead();
  }

  return () => {
    stop();
    closeTab();
  };
}

function table(head, rows, label) {
  return h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": `${label}, scrollable` },
    h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, head.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((one) => h("td", {}, one)))))));
}
