// Calls of the API, and the one stream of a page. The session is sent in a header, never in an address.

const BASE = new URL("api/v1/", document.baseURI);
const KEY = "edl-session";

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const session = {
  get: () => localStorage.getItem(KEY) || "",
  set: (value) => localStorage.setItem(KEY, value),
  clear: () => localStorage.removeItem(KEY),
};

function headers(more) {
  const known = session.get();
  return { ...(known ? { "EDL-Token": known } : {}), ...more };
}

async function refusal(answer) {
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // A proxy answers as it likes.
  }
  return new Refused(answer.status, body.code || "unknown", body.error || `the server answered ${answer.status}`);
}

export async function get(path, signal) {
  const answer = await fetch(new URL(path, BASE), { headers: headers(), signal, cache: "no-store" });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

export async function send(method, path, body) {
  const answer = await fetch(new URL(path, BASE), {
    method,
    headers: headers({ "EDL-Request": "1", ...(body === undefined ? {} : { "Content-Type": "application/json" }) }),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw await refusal(answer);
  return answer.json();
}

export const jobCall = (key, more = "") => `jobs/${key.split("/").map(encodeURIComponent).join("/")}${more}`;

async function* pieces(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function* split(answer, mark) {
  let rest = "";
  for await (const piece of pieces(answer)) {
    const found = (rest + piece).split(mark);
    rest = found.pop();
    yield* found;
  }
}

// Lines of a log: objects as they come.
export async function lines(path, signal, take) {
  const answer = await fetch(new URL(path, BASE), { headers: headers(), signal, cache: "no-store" });
  if (!answer.ok) throw await refusal(answer);
  for await (const line of split(answer, "\n")) if (line) take(JSON.parse(line));
}

const PATIENCE = [0.3, 1, 2, 5, 10];

// Follows one view until it is stopped: `on` maps events to functions. Comes back by itself when the connection breaks.
export function follow(query, on) {
  const stop = new AbortController();
  const where = new URL("stream", BASE);
  where.search = new URLSearchParams(query).toString();
  const wait = (seconds) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      stop.signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  (async () => {
    for (let failures = 0; !stop.signal.aborted; ) {
      try {
        const answer = await fetch(where, { headers: headers(), signal: stop.signal, cache: "no-store" });
        if (!answer.ok) throw await refusal(answer);
        for await (const block of split(answer, "\n\n")) {
          const event = /^event: (.*)$/m.exec(block);
          const data = /^data: (.*)$/m.exec(block);
          failures = 0;
          if (!event || !data || stop.signal.aborted) continue;
          if (event[1] === "refused") {
            const said = JSON.parse(data[1]);
            throw new Refused(said.code === "unauthorized" ? 401 : said.code === "not-found" ? 404 : 403, said.code, said.error);
          }
          (on[event[1]] || (() => {}))(JSON.parse(data[1]));
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          on.refused(error);
          return;
        }
      }
      if (stop.signal.aborted) return;
      on.liveness({ live: false, why: "the connection to this page's server is lost", age: 0 });
      await wait(PATIENCE[Math.min(failures++, PATIENCE.length - 1)]);
    }
  })();
  return () => stop.abort();
}
