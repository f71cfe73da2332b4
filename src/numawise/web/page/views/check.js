// Check: files that were dropped, what is wrong with them beside their lines, and the corrected files.
import { isAbort, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import { download, given } from "../core/files.js";
import {
  badge,
  button,
  dialog,
  emptyState,
  field,
  notice,
  panel,
  problemNotice,
  tabs,
  viewHead,
} from "../core/ui.js";
import { controlPanel, named } from "./check_controls.js";
import { EXAMPLE } from "./check_example.js";
import { keptPlace, KINDS, listing, shownAmid, WORDS } from "./check_listing.js";
import { planPanel } from "./check_plan.js";
import { applied } from "./check_text.js";

const MOST_STEPS = 100;
const SEVERITIES = ["error", "warning", "info"];
const PLURALS = { error: "Errors", warning: "Warnings", info: "Notes" };

/** What was dropped stays while the page is open. */
let kept = null;

function firstState(context) {
  return {
    ...EXAMPLE,
    example: true,
    served: false,
    release: context.overview.release,
    chosen: 0,
    shown: new Set(SEVERITIES),
    past: [],
    future: [],
    answer: null,
    said: null,
  };
}

export default {
  title: "Check",
  mount(root, context) {
    kept ??= firstState(context);
    if (context.params.files)
      Object.assign(kept, firstState(context), {
        files: named(context.params.files),
        machine: context.params.machine ?? "",
        example: false,
      });
    const pages = [
      { title: "Check files", content: () => checkPanel(kept, context) },
      { title: "Suggest a configuration", content: () => planPanel(context, checkText(context)) },
    ];
    fill(
      root,
      viewHead(
        "Check",
        "What a kubelet would refuse in these files, in its own words, what it accepts and will hurt, and the change that mends it.",
      ),
      tabs("Check", pages),
    );
    return () => controller.abort();
  },
};

let controller = new AbortController();

function checkText(context) {
  return (name, text, machine) =>
    context.navigate("/check", { files: [{ name, text, size: text.length }], machine });
}

function checkPanel(state, context) {
  const summary = h("div", { class: "stack-small" });
  const body = h("div", { class: "stack" });
  const redraw = () => draw(state, summary, body, { check, redraw, change });

  async function check(fix = false) {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    if (!state.files.length) {
      state.answer = null;
      waiting(false);
      redraw();
      return;
    }
    const here = document.activeElement,
      above = summary.contains(here) && here.textContent;
    const inside = above || body.contains(here);
    waiting(true); // what is shown is of the files before: nobody may act on it
    const question = {
      files: state.files.map(given),
      machine: state.served ? "" : state.machine.trim(),
      served: state.served,
      release: state.release,
      fix,
    };
    try {
      const answer = await post("check", question, signal);
      if (fix) correct(answer);
      state.answer = answer;
      const same = body.querySelector(".file-head h2")?.textContent === state.files[state.chosen].name;
      const putBack = same ? keptPlace(body) : () => {};
      redraw();
      putBack();
      waiting(false);
      const again = above && [...summary.querySelectorAll("button")].find((one) => one.textContent === above);
      const moved = document.activeElement !== document.body; // somebody goes on elsewhere meanwhile
      if (inside && !moved) (again || body.querySelector(".listing"))?.focus({ preventScroll: true });
      announce(sentence(answer.report));
    } catch (error) {
      if (isAbort(error)) return;
      state.answer = null;
      fill(summary, steps(state, check));
      fill(body, problemNotice(error));
      waiting(false);
    }
  }

  function waiting(yes) {
    summary.inert = body.inert = yes;
    body.setAttribute("aria-busy", String(yes));
  }

  /** Take the corrected texts over. */
  function correct(answer) {
    const texts = answer.files.map((file) => file.text);
    if (!answer.applied.length) {
      state.said = notice("info", "No correction is certain", "What is left is a choice: see the findings.");
      return;
    }
    remember(state);
    state.files = state.files.map((file, at) =>
      texts[at] === undefined ? file : { ...file, text: texts[at], changed: true },
    );
    const list = h(
      "ul",
      { class: "applied" },
      answer.applied.map((one) =>
        h("li", null, `${one.file}${one.line ? ` line ${one.line}` : ""}: ${one.title} (${one.code})`),
      ),
    );
    state.said = notice(
      "yes",
      `${count(answer.applied.length, "correction")} made and proved by another check`,
      "",
      list,
    );
  }

  /** Change the files, so that it can be undone. */
  function change(files, said = null) {
    remember(state);
    state.files = files;
    state.chosen = Math.min(state.chosen, Math.max(0, files.length - 1));
    state.said = said;
    check();
  }

  const controls = controlPanel(state, context, { check, change });
  check();
  return h("div", { class: "stack" }, controls, summary, body);
}

// --- steps that can be undone ---------------------------------------------------------------------

function remember(state) {
  state.past = [...state.past, state.files].slice(-MOST_STEPS);
  state.future = [];
}

function step(state, from, to) {
  const files = state[from][state[from].length - 1];
  state[from] = state[from].slice(0, -1);
  state[to] = [...state[to], state.files];
  state.files = files;
  state.chosen = Math.min(state.chosen, Math.max(0, files.length - 1));
  state.said = null;
}

// --- what was found -------------------------------------------------------------------------------

function draw(state, summary, body, { check, redraw, change }) {
  if (!state.answer) {
    fill(summary, steps(state, check));
    fill(
      body,
      h(
        "div",
        { class: "panel" },
        emptyState("No files", "Drop some, paste a text, or look at the example."),
      ),
    );
    return;
  }
  const { report, files } = state.answer;
  const findings = report.findings.map((finding, number) => ({ ...finding, number }));
  const sure = findings.filter((finding) => finding.corrections?.[0]?.certain).length;
  const filters = SEVERITIES.map((severity) => {
    const shown = state.shown.has(severity);
    const words = `${PLURALS[severity]} ${findings.filter((finding) => finding.severity === severity).length}`;
    const toggle = () => (shown ? state.shown.delete(severity) : state.shown.add(severity), redraw());
    return button(words, toggle, {
      small: true,
      "aria-pressed": String(shown),
      class: `button button-small filter-${severity}`,
    });
  });
  const words = sure === 1 ? "Apply the certain correction" : `Apply all ${sure} certain corrections`;
  const fix = sure
    ? button(words, () => check(true), { kind: "primary" })
    : h("span", { class: "hint" }, findings.length ? "What is left is a choice" : "Nothing to correct");
  fill(
    summary,
    h(
      "div",
      { class: "row check-bar" },
      h("div", { class: "row", role: "group", "aria-label": "Show" }, filters),
      h("span", { class: "grow" }),
      steps(state, check),
      fix,
    ),
    state.answer.remarks.map((remark) => notice("info", remark)),
    state.said,
  );
  const wanted = findings.filter((finding) => state.shown.has(finding.severity));
  const apply = (way) =>
    change(
      state.files.map((file, at) => {
        const own = way.edits.filter((edit) => edit.file === files[at]?.name);
        return own.length && file.text !== undefined
          ? { ...file, text: applied(file.text, own), changed: true }
          : file;
      }),
      notice("yes", `Applied: ${way.title}`),
    );
  const names = h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": "Files" },
    state.files.map((file, at) => fileTab(state, file, at, files[at], findings, redraw)),
  );
  names.addEventListener("keydown", (event) => turn(event, state, redraw));
  const other = state.answer.elsewhere
    .map((number) => findings[number])
    .filter((finding) => state.shown.has(finding.severity));
  const read = body.querySelector(".check-side")?.scrollTop ?? 0;
  fill(
    body,
    h(
      "div",
      { class: "check-body" },
      h(
        "section",
        { class: "panel", "aria-label": "The files" },
        names,
        fileHead(state, files, change),
        shownFile(state, files, wanted, apply),
      ),
      overviewOf(state, files, wanted, other, redraw),
    ),
  );
  if (read) body.querySelector(".check-side").scrollTop = read;
  const tab = names.children[state.chosen]; // in sight, without moving the page
  if (state.files.length > 1 && tab.offsetLeft + tab.offsetWidth > names.offsetLeft + names.clientWidth)
    names.scrollLeft = tab.offsetLeft - names.offsetLeft;
}

function steps(state, check) {
  const go = (from, to) => () => (step(state, from, to), check());
  return h(
    "div",
    { class: "row" },
    button("Undo", go("past", "future"), { small: true, disabled: !state.past.length }),
    button("Redo", go("future", "past"), { small: true, disabled: !state.future.length }),
  );
}

function fileTab(state, file, at, checked, findings, redraw) {
  const own = (checked?.findings ?? []).map((number) => findings[number]);
  const worst = SEVERITIES.find((severity) => own.some((finding) => finding.severity === severity));
  const chosen = at === state.chosen;
  const choose = () => ((state.chosen = at), redraw());
  return h(
    "button",
    {
      type: "button",
      role: "tab",
      "aria-selected": String(chosen),
      tabindex: chosen ? "0" : "-1",
      onclick: choose,
    },
    file.name,
    " ",
    worst ? badge(KINDS[worst], count(own.length, "finding")) : badge("yes", "nothing found"),
  );
}

function turn(event, state, redraw) {
  const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!way) return;
  event.preventDefault();
  state.chosen = (state.chosen + way + state.files.length) % state.files.length;
  redraw();
  document.querySelector('[role="tablist"][aria-label="Files"] [aria-selected="true"]')?.focus();
}

function fileHead(state, files, change) {
  const file = state.files[state.chosen];
  const without = () => change(state.files.filter((one) => one !== file));
  const rewrite = (text) =>
    change(state.files.map((one) => (one === file ? { ...one, text, changed: true } : one)));
  return h(
    "div",
    { class: "panel-head file-head" },
    h("h2", null, file.name),
    h("span", { class: "file-kind" }, files[state.chosen]?.kind ?? ""),
    file.changed && badge("info", "changed"),
    h("span", { class: "grow" }),
    file.text !== undefined && button("Edit", () => editing(file, rewrite), { small: true }),
    button("Remove", without, { small: true, "aria-label": `Remove ${file.name}` }),
    file.text !== undefined &&
      button(
        file.changed ? "Download the corrected file" : "Download",
        () => download(file.name, `${file.mark ?? ""}${file.text}`),
        { small: true, kind: file.changed ? "primary" : "" },
      ),
  );
}

function editing(file, rewrite) {
  const text = h("textarea", { class: "code", rows: "22", spellcheck: "false", value: file.text });
  const before = text.value; // a text field has line feeds alone
  const end = /\r\n?|\n|$/.exec(file.text)[0];
  const done = button(
    "Check it",
    () => (text.value === before || rewrite(text.value.replaceAll("\n", end)), shown.close()),
    { kind: "primary" },
  );
  const shown = dialog(`Edit ${file.name}`, field("Text", text), [done]);
  text.focus();
  text.setSelectionRange(0, 0);
}

function shownFile(state, files, findings, apply) {
  const numbers = new Set(files[state.chosen]?.findings ?? []);
  const own = findings.filter((finding) => numbers.has(finding.number));
  const file = state.files[state.chosen];
  const textOf = (name) => state.files[files.findIndex((one) => one.name === name)]?.text;
  return listing({ ...file, name: files[state.chosen]?.name ?? file.name }, own, apply, textOf);
}

/** All findings in short; each leads to its line. */
function overviewOf(state, files, findings, other, redraw) {
  const go = (finding) => {
    const at = files.findIndex((file) => file.findings.includes(finding.number));
    if (at >= 0 && at !== state.chosen) {
      state.chosen = at;
      redraw();
    }
    const card = document.querySelector(`[data-finding="${finding.number}"]`);
    if (!card) return;
    shownAmid(card);
    card.focus({ preventScroll: true });
  };
  const entry = (finding) => {
    const label = badge(KINDS[finding.severity], WORDS[finding.severity]);
    const where = h(
      "span",
      { class: "finding-where" },
      finding.line ? `${finding.file}:${finding.line}` : finding.file,
    );
    const inside = [
      h("span", { class: "row" }, label, h("strong", null, finding.code), where),
      h("span", { class: "entry-words" }, finding.title || finding.message),
    ];
    return h("li", null, h("button", { type: "button", class: "entry", onclick: () => go(finding) }, inside));
  };
  const numbers = new Set(other.map((finding) => finding.number));
  const inFiles = findings.filter((finding) => !numbers.has(finding.number));
  const inside = findings.length
    ? h("ol", { class: "entries" }, inFiles.map(entry))
    : emptyState("Nothing found", "These files are as a kubelet likes them, as far as was looked.");
  const about = other.length
    ? panel(
        "About no file",
        h(
          "ul",
          { class: "entries entries-plain" },
          other.map((finding) =>
            h(
              "li",
              null,
              badge(KINDS[finding.severity], WORDS[finding.severity]),
              " ",
              h("strong", null, finding.code),
              ` ${finding.file}: ${finding.message}`,
              finding.fix && h("p", { class: "hint" }, finding.fix),
            ),
          ),
        ),
        { level: 3, flush: true },
      )
    : null;
  return h(
    "aside",
    { class: "stack check-side", "aria-label": "All findings" },
    panel("All findings", inside, { flush: true }),
    about,
  );
}

function sentence(report) {
  const parts = [
    ["errors", "error"],
    ["warnings", "warning"],
    ["notes", "note"],
  ]
    .filter(([key]) => report[key])
    .map(([key, word]) => count(report[key], word));
  return parts.length ? `${parts.join(", ")} found` : "nothing found";
}

function count(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}
