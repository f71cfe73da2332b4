// What changes on the server, told as it happens: one connection for the whole page.
import { events } from "./api.js";

const AGAIN_MILLISECONDS = 2000;

/** @type {Map<string, Set<(version: number) => void>>} */
const listeners = new Map();
/** @type {Map<string, number>} */
const versions = new Map();
let state = "off";
let tell = (_) => {};

/** @param {(state: string) => void} onState told of "on" and "off" */
export function connect(onState) {
  tell = onState;
  listen();
}

/** Listen, and again when that ends; a server that was started anew asks for the token first. */
async function listen() {
  let pause = AGAIN_MILLISECONDS;
  for (;;) {
    try {
      for await (const { retry, data } of events("events", () => set("on"))) {
        pause = retry ?? pause;
        if (data) heard(data);
      }
    } catch (error) {
      if (error.status === 401) return set("off"); // nobody wants to sign in
    }
    set("off");
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** What was shown before the first word may be older than it: that is news, too. */
function heard({ what, version }) {
  const before = versions.get(what);
  versions.set(what, version);
  if (before !== version) for (const listener of listeners.get(what) ?? []) listener(version);
}

function set(now) {
  if (state !== now) tell((state = now));
}

/**
 * Be told when something changes; call what comes back to hear no more.
 * @param {string} what "map", "box" or "cluster"
 * @param {(version: number) => void} listener
 */
export function on(what, listener) {
  const all = listeners.get(what) ?? new Set();
  listeners.set(what, all.add(listener));
  return () => all.delete(listener);
}
