// A scenario and its history: what was changed can be undone, whatever it was. An address or a file carries
// all of it.
import { Problem } from "../core/api.js";

/**
 * @typedef {{served?: boolean, machine?: string, config?: string, release?: string, files?: any[]}} ScenarioNode
 * @typedef {{config?: string, release?: string}} OtherSide
 * @typedef {{name: string, node: ScenarioNode, steps: any[], compare: OtherSide | null}} Scenario
 * @typedef {{scenario: Scenario, at: number}} Opened with the step that is looked at
 */

const said = (detail) => new Problem({ detail });
const VERSION = "numawise.dev/v1";
const KIND = "Scenario";
const TOP = ["apiVersion", "kind", "name", "node", "compare", "steps", "at"];
const NODE = ["served", "machine", "config", "release", "files"];
const OTHER = ["config", "release"];
const MOST_UNDONE = 200;
export const LONGEST_LINK = 16_000;
const LONGEST_FILE = 4_000_000;
const MOST_STEPS = 500;

/**
 * @param {Scenario} first
 * @param {number} [looked] the step that is looked at first; the last one where it is left out
 * @returns a store: `now` is the scenario, `at` the step that is looked at
 */
export function scenarioStore(first, looked = first.steps.length) {
  let past = /** @type {{scenario: Scenario, at: number, words: string}[]} */ ([]);
  let future = /** @type {typeof past} */ ([]);
  let now = first;
  let at = looked;
  const store = {
    get now() {
      return now;
    },
    get at() {
      return at;
    },
    set at(step) {
      at = Math.max(0, Math.min(step, now.steps.length));
    },
    get undoWords() {
      return past.at(-1)?.words ?? "";
    },
    get redoWords() {
      return future.at(-1)?.words ?? "";
    },
    /** Go on with another scenario; `words` say what was done. */
    change(next, step, words) {
      past = [...past.slice(1 - MOST_UNDONE), { scenario: now, at, words }];
      future = [];
      now = next;
      store.at = step;
    },
    /** What undo or redo leads to, without going there. */
    peek(way) {
      const from = way === "undo" ? past : future;
      return from.at(-1) ?? null;
    },
    /** Undo or redo. */
    go(way) {
      const [from, to] = way === "undo" ? [past, future] : [future, past];
      const entry = from.pop();
      if (!entry) return "";
      to.push({ scenario: now, at, words: entry.words });
      now = entry.scenario;
      store.at = entry.at;
      return entry.words;
    },
  };
  return store;
}

/** The scenario with another step behind the one that is looked at. */
export function withStep(scenario, at, step) {
  return { ...scenario, steps: [...scenario.steps.slice(0, at), step, ...scenario.steps.slice(at)] };
}

/** The scenario without one of its steps; they count from 1. */
export function withoutStep(scenario, number) {
  return { ...scenario, steps: scenario.steps.filter((_, index) => index !== number - 1) };
}

/** The configuration with which the kubelet runs behind a step. */
export function configAt({ node, steps }, at) {
  return steps.slice(0, at).findLast((step) => step.restart?.text)?.restart.text ?? node.config ?? "";
}

// --- as a file and as an address ------------------------------------------------------------------

/** The scenario and the step that is looked at, as they are written. */
function written({ name, node, steps, compare }, at) {
  return { apiVersion: VERSION, kind: KIND, name, node, ...(compare ? { compare } : {}), steps, at };
}

/** The scenario as a file: `numawise simulate --steps` reads its steps, too. */
export function fileText(scenario, at) {
  return `${JSON.stringify(written(scenario, at), null, 2)}\n`;
}

/** The scenario of a file; an error says in words why it is none. @returns {Opened} */
export function readFile(text) {
  if (text.length > LONGEST_FILE) throw said("the scenario is too large");
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw said("this is not a scenario: it is not JSON; drop a file that was saved here");
  }
  return checked(value);
}

/** @returns {Opened} */
function checked(value) {
  const isObject = (one) => one !== null && typeof one === "object" && !Array.isArray(one);
  if (!isObject(value) || !Array.isArray(value.steps) || !isObject(value.node)) {
    throw said("this is not a scenario: it has no node and steps");
  }
  if ((value.kind ?? KIND) !== KIND) throw said(`this is not a scenario, but of kind ${short(value.kind)}`);
  if ((value.apiVersion ?? VERSION) !== VERSION)
    throw said(
      `the scenario is of version ${short(value.apiVersion)}, and this page reads ${VERSION}: open it with the numawise that made it, or a newer one`,
    );
  const strange = [
    ...unknown(value, TOP),
    ...unknown(value.node, NODE, "node."),
    ...(isObject(value.compare) ? unknown(value.compare, OTHER, "compare.") : []),
  ];
  if (strange.length)
    throw said(
      `the scenario has what is not known here: ${strange.map(short).join(", ")}; it may be of a newer numawise`,
    );
  if (value.steps.length > MOST_STEPS)
    throw said(`the scenario has ${value.steps.length} steps; at most ${MOST_STEPS} are played`);
  const { served, machine, config, release, files } = value.node;
  const node = {};
  if (served === true) node.served = true;
  for (const [name, text] of Object.entries({ machine, config, release }))
    if (typeof text === "string") node[name] = text;
  if (Array.isArray(files)) node.files = files;
  const other = isObject(value.compare) ? value.compare : null;
  const compare = other && { config: String(other.config ?? ""), release: String(other.release ?? "") };
  const scenario = {
    name: typeof value.name === "string" ? value.name.slice(0, 100) : "",
    node,
    steps: value.steps,
    compare,
  };
  return { scenario, at: Number.isInteger(value.at) ? value.at : value.steps.length };
}

const unknown = (value, names, before = "") =>
  Object.keys(value)
    .filter((name) => !names.includes(name))
    .map((name) => before + name);
const short = (value) => String(value).slice(0, 60);

/** The scenario as a word for an address: deflated, in base64 of addresses. "" where it would be too long. */
export async function linkWord(scenario, at) {
  const text = JSON.stringify(written(scenario, at));
  const bytes = await through(new Blob([text]).stream(), new CompressionStream("deflate-raw"));
  let binary = "";
  for (let start = 0; start < bytes.length; start += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  const word = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return word.length > LONGEST_LINK ? "" : word;
}

/** The scenario of such a word. @returns {Promise<Opened>} */
export async function readLink(word) {
  if (word.length > LONGEST_LINK) throw said("the link is too long");
  let text;
  try {
    const binary = atob(word.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    text = new TextDecoder("utf-8", { fatal: true }).decode(
      await through(new Blob([bytes]).stream(), new DecompressionStream("deflate-raw")),
    );
  } catch (problem) {
    throw problem instanceof Problem
      ? problem
      : said("the link is damaged: it was cut off or changed on its way");
  }
  return readFile(text);
}

// --- what no address can carry, until the window is closed ------------------------------------------

const PLACE = "numawise-scenario";

/**
 * Keep a scenario for when the page is loaded again; "" forgets it. A browser that keeps nothing keeps
 * nothing.
 */
export function keepText(text) {
  try {
    if (text) sessionStorage.setItem(PLACE, text);
    else sessionStorage.removeItem(PLACE);
  } catch {
    // too large even for that
  }
}

/** What was kept so. @returns {Opened | null} */
export function keptText() {
  try {
    return readFile(sessionStorage.getItem(PLACE) ?? "");
  } catch {
    return null;
  }
}

/** All bytes of a stream behind a transformation, at most as many as a file may have. */
async function through(stream, transform) {
  const reader = stream.pipeThrough(transform).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (size > LONGEST_FILE) {
      await reader.cancel();
      throw said("the scenario is too large");
    }
  }
  const whole = new Uint8Array(size);
  let start = 0;
  for (const part of parts) {
    whole.set(part, start);
    start += part.length;
  }
  return whole;
}
