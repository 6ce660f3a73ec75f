// Charts over time, as SVG: lines, steps and stacked areas, with marks for what was decided.

import { clock, date, h, replace, s, stamp } from "./dom.js";

const EDGE = { left: 52, right: 14, top: 12, bottom: 24 };
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800];

export function niceTicks(low, high, most) {
  if (!(high > low)) high = low + 1;
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

function timeTicks(low, high, most) {
  const step = STEPS.find((one) => (high - low) / one <= most) || 604800;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return { ticks, step };
}

const SHORT = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const tickText = (tick, step) => (step < 60 ? clock(tick) : step < 86400 ? SHORT.format(tick * 1000) : DAY.format(tick * 1000));

// A frame that draws itself anew when its size or its data changes. `spec()` gives the data of the moment.
export function chart({ label, height = 200, onMark }) {
  const legend = h("div", { class: "legend" });
  const svg = s("svg", { class: "chart", height, role: "img", "aria-label": label });
  const node = h("figure", { class: "figure" }, h("figcaption", {}, h("span", { class: "figure-title" }, label), legend), svg);
  let data = null;
  let width = 0;

  const size = new ResizeObserver(([entry]) => {
    const next = Math.round(entry.contentRect.width);
    if (next && next !== width) {
      width = next;
      draw();
    }
  });
  size.observe(svg);

  function draw() {
    if (!data || !width) return;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const times = data.series.flatMap((one) => one.points.map((point) => point[0]));
    const values = data.series.flatMap((one) => one.points.flatMap((point) => point.slice(1))).filter((value) => value !== null);
    replace(legend, data.series.filter((one) => !one.quiet).map((one) =>
      h("span", { class: "key" }, s("svg", { viewBox: "0 0 14 10", width: 14, height: 10, "aria-hidden": "true" },
        one.area ? s("rect", { width: 14, height: 10, rx: 2, class: `fill ${one.color}` }) : s("path", { d: "M0 5h14", class: `line ${one.color}`, "stroke-dasharray": one.dash || null })),
      one.name, one.last === undefined ? null : h("b", {}, ` ${one.last}`))));
    if (!times.length || !values.length) {
      replace(svg, s("text", { x: width / 2, y: height / 2, class: "chart-empty", "text-anchor": "middle" }, data.none || "Nothing measured yet"));
      return;
    }
    const from = data.from ?? Math.min(...times);
    const to = Math.max(data.to ?? -Infinity, ...times, from + 1);
    let low = data.low ?? Math.min(...values);
    let high = Math.max(data.high ?? -Infinity, ...values);
    if (high - low < 1e-12) {
      high += Math.abs(high) * 0.1 || 1;
      if (data.low === undefined) low -= Math.abs(low) * 0.1 || 0;
    }
    const x = (time) => EDGE.left + ((time - from) / (to - from)) * (width - EDGE.left - EDGE.right);
    const y = (value) => height - EDGE.bottom - ((value - low) / (high - low)) * (height - EDGE.top - EDGE.bottom);
    const format = data.format || String;
    const { ticks, step } = timeTicks(from, to, Math.max(2, Math.floor(width / 110)));
    const parts = niceTicks(low, high, Math.max(2, Math.floor(height / 48))).filter((tick) => !data.whole || Number.isInteger(tick)).map((tick) => [
      s("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick), class: "gridline" }),
      s("text", { x: EDGE.left - 8, y: y(tick) + 4, "text-anchor": "end", class: "tick" }, format(tick)),
    ]).flat();
    for (const tick of ticks) {
      if (x(tick) < EDGE.left + 14 || x(tick) > width - EDGE.right - 14) continue;
      parts.push(s("text", { x: x(tick), y: height - 6, "text-anchor": "middle", class: "tick" }, tickText(tick, step)));
    }
    for (const one of data.series) parts.push(...lineOf(one, x, y, low, to));
    for (const mark of data.marks || []) {
      if (mark.time < from || mark.time > to) continue;
      parts.push(s("line", { x1: x(mark.time), x2: x(mark.time), y1: EDGE.top, y2: height - EDGE.bottom, class: "markline" }));
      const dot = s("circle", { cx: x(mark.time), cy: y(mark.value), r: 5, class: `mark${mark.on ? " on" : ""}`, tabindex: 0, role: "button", "aria-label": mark.label });
      dot.append(s("title", {}, mark.label));
      const choose = () => onMark && onMark(mark.id);
      dot.addEventListener("click", choose);
      dot.addEventListener("focus", choose);
      parts.push(dot);
    }
    const cursor = s("g", { class: "cursor", visibility: "hidden" });
    parts.push(cursor);
    replace(svg, parts);
    svg.onpointermove = (event) => point(event, { x, y, from, to, format, cursor });
    svg.onpointerleave = () => cursor.setAttribute("visibility", "hidden");
  }

  function point(event, { x, from, to, format, cursor }) {
    const box = svg.getBoundingClientRect();
    const time = from + ((event.clientX - box.left - EDGE.left) / (width - EDGE.left - EDGE.right)) * (to - from);
    if (time < from || time > to) return cursor.setAttribute("visibility", "hidden");
    const words = [stamp(time), ...data.series.filter((one) => !one.quiet).map((one) => {
      const value = valueAt(one, time);
      return value === null ? null : `${one.name} ${format(value)}`;
    }).filter(Boolean)];
    const textWidth = Math.max(...words.map((word) => word.length)) * 6.6 + 16;
    const left = x(time) + 10 + textWidth > width ? x(time) - 10 - textWidth : x(time) + 10;
    replace(cursor,
      s("line", { x1: x(time), x2: x(time), y1: EDGE.top, y2: height - EDGE.bottom, class: "cursorline" }),
      s("rect", { x: left, y: EDGE.top, width: textWidth, height: words.length * 16 + 10, rx: 4, class: "tip" }),
      words.map((word, index) => s("text", { x: left + 8, y: EDGE.top + 17 + index * 16, class: index ? "tip-text" : "tip-text tip-time" }, word)));
    cursor.setAttribute("visibility", "visible");
  }

  return {
    node,
    update(next) {
      data = next;
      svg.setAttribute("aria-label", next.summary ? `${label}: ${next.summary}` : label);
      draw();
    },
    close: () => size.disconnect(),
  };
}

function valueAt(one, time) {
  let found = null;
  for (const row of one.points) {
    if (row[0] > time) break;
    if (row[row.length - 1] !== null) found = one.area && row.length === 3 ? row[2] - row[1] : row[row.length - 1];
  }
  return found;
}

// Points are [time, value], or [time, bottom, top] of a stacked area.
function lineOf(one, x, y, low, to) {
  if (one.points.length && one.points[0].length === 3) return stacked(one, x, y);
  const known = one.points.filter((point) => point[1] !== null);
  if (!known.length) return [];
  let path = "";
  known.forEach(([time, value], index) => {
    if (!index) path = `M${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    else path += one.step ? `H${x(time).toFixed(1)}V${y(value).toFixed(1)}` : `L${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  const end = one.step ? to : known[known.length - 1][0];
  if (one.step) path += `H${x(to).toFixed(1)}`;
  const parts = [];
  if (one.area) parts.push(s("path", { d: `${path}V${y(Math.max(0, low)).toFixed(1)}H${x(known[0][0]).toFixed(1)}Z`, class: `area ${one.color}` }));
  parts.push(s("path", { d: path, class: `line ${one.color}`, "stroke-dasharray": one.dash || null }));
  if (known.length === 1 && end === known[0][0]) parts.push(s("circle", { cx: x(end), cy: y(known[0][1]), r: 3, class: `fill ${one.color}` }));
  return parts;
}

function stacked(one, x, y) {
  const at = one.points.map(([time, bottom, top]) => [x(time).toFixed(1), y(bottom).toFixed(1), y(top).toFixed(1)]);
  const up = at.map(([left, , top], index) => (index ? `H${left}V${top}` : `M${left} ${top}`)).join("");
  // Stairs, since sizes are whole; on the way back each step is down before it is left.
  const back = at.slice().reverse().map(([left, bottom], index) => (index ? `V${bottom}H${left}` : `V${bottom}`)).join("");
  const path = s("path", { d: `${up}${back}Z`, class: `stack ${one.color}` });
  path.append(s("title", {}, one.name));
  return [path];
}

export const when = (time) => (time ? h("time", { datetime: new Date(time * 1000).toISOString(), title: date(time) }, stamp(time)) : "–");
