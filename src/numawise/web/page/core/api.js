// Calls of the API. An answer that the server says has not changed is the one that was read before.

const ROOT = "api/v1/";
const SESSION = "numawise-session";
const MOST_KEPT = 60;
/** What stands for the token. It is of this origin, port and all: a cookie would go to other servers of the host, too. */
let session = storedSession();
/** @type {Map<string, {tag: string, data: any}>} */
const kept = new Map();

/** Why a call was not answered, as the server says it (application/problem+json). */
export class Problem extends Error {
  /**
   * @param {{status?: number, detail?: string, title?: string, advice?: string, field?: string, file?: string, line?: number}} data
   */
  constructor(data) {
    super(data.detail ?? data.title ?? "the server did not answer");
    this.status = data.status ?? 0;
    this.advice = data.advice ?? "";
    this.field = data.field ?? "";
    this.file = data.file ?? "";
    this.line = data.line ?? 0;
  }

  /** Where it is wrong, in words; "" where that is not known. */
  get place() {
    const [, step, inside] = /^\$\.steps\[(\d+)\](.*)$/.exec(this.field) ?? [];
    const own = this.field.startsWith("$") ? "" : this.field; // nobody on a page sees the body of a request
    if (this.file) return `${this.file}${this.line ? `:${this.line}` : ""}${own && `: ${own}`}`;
    if (step === undefined) return own;
    const [, key, last] = /(?:\[([^[\]]*\D[^[\]]*)\]|\.(?!text$|pod$)([^.[\]]+))$/.exec(inside) ?? [];
    return [`step ${Number(step) + 1}`, key ?? last].filter(Boolean).join(", ");
  }
}

/** What to do when a token is asked for; the shell sets it. */
export const signIn = { ask: async () => false };

/**
 * Ask for something.
 * @param {string} path below /api/v1/
 * @param {Record<string, any>} [query]
 * @param {AbortSignal} [signal]
 */
export async function get(path, query, signal) {
  const address = withQuery(path, query);
  const known = kept.get(address);
  const headers = known ? { "If-None-Match": known.tag } : {};
  const response = await send(address, { headers, signal });
  if (response.status === 304 && known) return known.data;
  const data = await response.json();
  const tag = response.headers.get("ETag");
  if (tag) {
    kept.delete(address);
    kept.set(address, { tag, data });
    if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
  }
  return data;
}

/**
 * Ask with a body.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} [signal]
 */
export async function post(path, body, signal) {
  const response = await sendBody(path, body, signal);
  return response.status === 204 ? null : response.json();
}

/** Likewise where the answer is a file: its text. */
export async function postForText(path, body, signal) {
  return (await sendBody(path, body, signal)).text();
}

function sendBody(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return send(path, { method: "POST", headers, body: JSON.stringify(body ?? {}), signal });
}

/** Signals for questions of which only the newest waits for its answer; none does after the end. */
export function newest() {
  let going = new AbortController(),
    ended = false;
  return {
    next() {
      going.abort();
      if (!ended) going = new AbortController();
      return going.signal;
    },
    end() {
      ended = true;
      going.abort();
    },
  };
}

/** Work that is done once at a time; asked for meanwhile, it is done once more behind that. */
export function oneAtATime(work) {
  let going = null,
    again = false;
  return function start() {
    again = going !== null;
    going ??= (async () => {
      do {
        again = false;
        await work();
      } while (again);
    })().finally(() => (going = null));
    return going;
  };
}

/** Whether an error only says that nobody waits for the answer any more. */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Sign in with a token; false where it is wrong. */
export async function openSession(token) {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(`${ROOT}session`, { method: "POST", headers, credentials: "same-origin" });
  if (!response.ok) return false;
  session = (await response.json()).session;
  try {
    sessionStorage.setItem(SESSION, session);
  } catch {
    // a browser that keeps nothing: signed in until the page is left
  }
  return true;
}

function storedSession() {
  try {
    return sessionStorage.getItem(SESSION) ?? "";
  } catch {
    return "";
  }
}

/**
 * Server-sent events, until the server ends them: what each says, and its pause before the next question.
 * EventSource could not say who asks.
 * @param {string} path
 * @param {() => void} onOpen told when the server answers
 */
export async function* events(path, onOpen) {
  const response = await send(path, { headers: { Accept: "text/event-stream" } });
  onOpen();
  const source = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await source.read(); !part.done; part = await source.read()) {
    const blocks = (text + part.value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [, retry] = /^retry: (\d+)$/m.exec(block) ?? [],
        [, data] = /^data: (.*)$/m.exec(block) ?? [];
      yield { retry: retry && Number(retry), data: data && JSON.parse(data) };
    }
  }
}

function withQuery(path, query) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat())
      if (one !== null && one !== undefined && one !== "") words.append(name, one);
  }
  return words.size ? `${path}?${words}` : path;
}

/** Nothing came back: the server has ended, or the way to it is cut. */
export function unreached() {
  throw new Problem({
    detail: "The server cannot be reached.",
    advice: "See whether numawise serve still runs.",
  });
}

async function send(address, options, again = true) {
  let response;
  try {
    const own = session ? { Authorization: `Bearer ${session}` } : {};
    response = await fetch(ROOT + address, {
      ...options,
      credentials: "same-origin",
      headers: { ...options.headers, ...own },
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    unreached();
  }
  if (response.ok || response.status === 304) return response;
  if (response.status === 401 && again && (await signIn.ask())) return send(address, options, false);
  let data;
  try {
    data = await response.json();
  } catch {
    data = { status: response.status, title: response.statusText };
  }
  throw new Problem(data);
}
