// The shell: which view is shown, the theme, whether changes are heard, and the token where one is asked for.
import { get, openSession, signIn, unreached } from "./api.js";
import { announce, fill, h } from "./dom.js";
import * as live from "./live.js";
import { navigate, place } from "./router.js";
import { button, dialog, field, problemNotice, viewHead } from "./ui.js";

const VIEWS = [
  ["map", "Map", "../views/map.js"],
  ["why", "Why", "../views/why.js"],
  ["what-if", "What if", "../views/what_if.js"],
  ["check", "Check", "../views/check.js"],
  ["cluster", "Cluster", "../views/cluster.js"],
  ["box", "Box", "../views/box.js"],
];
let root = /** @type {HTMLElement} */ (document.getElementById("view"));
let overview = null;
let unmount = () => {};
let turn = 0;
let failed = false;
/** @type {Promise<boolean> | null} */
let asking = null;

signIn.ask = askForToken;
theme();
start();

async function start() {
  try {
    overview = await get("overview");
  } catch (error) {
    fail(error, "numawise");
    return;
  }
  const shown = VIEWS.filter(([name]) => name !== "box" || overview.host);
  fill(
    document.getElementById("views"),
    shown.map(([name, title]) => h("a", { href: `#/${name}`, "data-view": name }, title)),
  );
  fill(
    document.getElementById("foot"),
    h("span", null, `numawise ${overview.version}`),
    overview.nodeWords && h("span", null, overview.nodeWords),
    h("a", { href: "api/v1/openapi.json" }, "API"),
  );
  if (!location.hash && overview.first !== place().name)
    history.replaceState(null, "", `#/${overview.first}`);
  live.connect(tellLive);
  addEventListener("hashchange", show);
  document.querySelector(".skip").addEventListener("click", skip);
  // a file that misses its place opens no page
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => event.preventDefault());
  await show();
}

function tellLive(state) {
  const place = /** @type {HTMLElement} */ (document.getElementById("live"));
  place.dataset.state = state;
  place.textContent = state === "on" ? "Live" : "Not connected";
  if (state === "on" && failed) location.reload();
}

/** Go to the content without an address of its own: addresses name views. */
function skip(event) {
  event.preventDefault();
  root.focus();
}

async function show() {
  const mine = (turn += 1);
  const { name, params } = place();
  const view = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document
    .querySelector('#views a[aria-current="page"]')
    ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  unmount();
  unmount = () => {};
  if (!asking) for (const open of document.querySelectorAll("dialog")) open.close();
  failed = false;
  try {
    const module = await import(view[2]).catch((error) =>
      error instanceof SyntaxError ? Promise.reject(error) : unreached(),
    );
    if (mine !== turn) return;
    root = newPlace(root);
    document.title = `${module.default.title} · numawise`;
    root.dataset.view = view[0];
    announce(`${module.default.title} is shown`);
    const context = {
      overview,
      params,
      live,
      navigate: (path, given) => mine === turn && navigate(path, given),
    }; // who has left is led nowhere
    const end = await module.default.mount(root, context);
    if (mine !== turn) end?.();
    else unmount = end ?? (() => {});
    // what led here is gone
    if (mine > 1 && document.activeElement === document.body) root.focus({ preventScroll: true });
  } catch (error) {
    if (mine === turn) fail(error, view[1]);
  }
}

/** An empty place for a view; what listened on the one before goes with it. */
function newPlace(before) {
  const after = h("main", { id: "view", class: "view", tabindex: "-1" });
  before.replaceWith(after);
  return after;
}

/** Say why there is no view; it is tried again by a button, and when the server is heard again. */
function fail(error, title) {
  failed = true;
  fill(
    root,
    viewHead(title),
    problemNotice(error),
    h(
      "div",
      { class: "row failed" },
      button("Try again", () => location.reload()),
    ),
  );
}

function theme() {
  const choices = ["", "light", "dark"];
  const words = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  const chooser = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));
  const apply = (choice) => {
    if (choice) document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
    chooser.textContent = words[choice];
  };
  let choice = choices.includes(stored("theme")) ? stored("theme") : "";
  apply(choice);
  chooser.addEventListener("click", () => {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    store("theme", choice);
    apply(choice);
  });
}

function stored(key) {
  try {
    return localStorage.getItem(`numawise-${key}`) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

function store(key, value) {
  try {
    localStorage.setItem(`numawise-${key}`, value);
  } catch {
    // likewise
  }
}

/** Ask for the token, once for all calls that need it. */
function askForToken() {
  asking ??= new Promise((resolve) => {
    const input = h("input", { type: "password", autocomplete: "current-password", required: true });
    const wrong = h("p", { class: "wrong", role: "alert" });
    const form = h(
      "form",
      {
        class: "stack",
        onsubmit: async (event) => {
          event.preventDefault();
          if (await openSession(input.value.trim())) {
            resolve(true);
            shown.close();
          } else wrong.textContent = "That is not the token.";
        },
      },
      field("Token", input, "It is in the file that numawise serve --token-file names."),
      wrong,
      h(
        "div",
        { class: "row row-end" },
        h("button", { class: "button button-primary", type: "submit" }, "Sign in"),
      ),
    );
    const shown = dialog("This server asks for a token", form);
    shown.element.addEventListener("close", () => resolve(false));
  }).finally(() => (asking = null));
  return asking;
}
