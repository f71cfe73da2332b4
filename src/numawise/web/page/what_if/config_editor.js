// A kubelet configuration as a form and as text, both always in step: the server reads and writes the text.
import { get, isAbort, post } from "../core/api.js";
import { fill, freshId, h, later } from "../core/dom.js";
import { badge, button, notice, problemNotice, select } from "../core/ui.js";
import { applied as applyEdits } from "../views/check_text.js";
import { settingInput, valueAt } from "./setting_fields.js";

const SEVERITIES = { error: "no", warning: "warn", info: "info" };
const QUIET = 350;

/**
 * @param {{onConfig: (text: string, words: string) => void, label?: string}} options
 *   `onConfig` gets a text with which a kubelet starts, whenever it has changed
 */
export function configEditor({ onConfig, label = "Configuration" }) {
  const form = h("div", { class: "what-settings" });
  const area = h("textarea", {
    class: "code what-config",
    rows: "26",
    spellcheck: "false",
    "aria-label": `${label} as YAML`,
    oninput: () => (area.removeAttribute("data-given"), typed()),
  });
  const problems = h("div", { class: "stack-small", role: "status" });
  const search = h("input", {
    type: "search",
    placeholder: "Find a setting",
    "aria-label": "Find a setting",
    oninput: () => filter(),
  });
  const only = h("input", { type: "checkbox", onchange: () => filter() });
  const element = h(
    "div",
    { class: "halves what-editor" },
    h(
      "div",
      { class: "stack-small" },
      h(
        "div",
        { class: "row" },
        h("span", { class: "grow" }, search),
        h("label", { class: "check-field" }, only, "only what is set"),
      ),
      form,
    ),
    h("div", { class: "stack-small what-text" }, area, problems),
  );
  let settings = /** @type {any[]} */ ([]);
  let release = /** @type {string | null} */ (null);
  let node = /** @type {any} */ (null);
  let answer = /** @type {any} */ ({ text: "", values: {}, problems: [], starts: true });
  let turn = 0;
  let applied = "";
  let shown = "";
  let controller = new AbortController();
  // changes by the form that are in no text yet
  let waiting = /** @type {any[]} */ ([]);
  // texts that were given to `onConfig` and not taken over yet: what is to be shown meanwhile is older
  let handed = 0;

  const typed = later(QUIET, () => ask([], "the configuration's text"));

  /** Show a configuration for a node; what is being written stays until another one is to be shown. */
  async function show(text, forNode) {
    const { config: _, release: version = "", ...machine } = forNode;
    const key = JSON.stringify([text, version, machine]);
    if (key === shown || (handed && text !== applied)) return;
    shown = key;
    waiting = [];
    const written =
      text === applied && version === release && JSON.stringify(machine) === JSON.stringify(node);
    node = machine;
    if (version !== release) {
      try {
        const options = await get("config/options", { release: version });
        if (key !== shown) return; // another one is to be shown by now
        [release, settings] = [version, options.settings];
      } catch (error) {
        shown = "";
        fill(problems, problemNotice(error));
        return;
      }
    }
    if (written) return;
    applied = text;
    put(text);
    await ask([], "");
  }

  /** A text that nobody typed: what Ctrl+Z takes back is a step of the scenario. */
  function put(text) {
    area.value = text;
    area.setAttribute("data-given", "");
  }

  async function ask(changes, words) {
    const mine = (turn += 1);
    waiting.push(...changes);
    controller.abort();
    controller = new AbortController();
    const sent = area.value;
    try {
      const next = await post("config", { text: sent, release, node, changes: waiting }, controller.signal);
      if (mine !== turn || area.value !== sent) return; // what was typed since is asked about next
      answer = next;
      waiting = [];
      if (area.value !== answer.text) put(answer.text);
      area.removeAttribute("aria-invalid");
      draw();
      tell();
      if (words && answer.starts && answer.text !== applied) {
        applied = answer.text;
        handed += 1;
        Promise.resolve(onConfig(answer.text, words)).finally(() => (handed -= 1));
      }
    } catch (error) {
      if (isAbort(error) || mine !== turn) return;
      area.setAttribute("aria-invalid", "true");
      fill(problems, problemNotice(error), error.line ? lineButton(error.line) : null);
      // the form shows what the text has, as it was last read
      if (waiting.length) draw();
      waiting = [];
    }
  }

  function tell() {
    const found = answer.problems;
    fill(
      problems,
      answer.starts
        ? null
        : notice(
            "no",
            answer.refusal.charAt(0).toUpperCase() + answer.refusal.slice(1),
            "The scenario goes on with the configuration before, until this one starts.",
          ),
      answer.rewritten
        ? notice(
            "warn",
            "This change could not be made in the text as it was, so it was written anew: its comments are gone.",
            "Undo brings them back.",
          )
        : null,
      found.length
        ? h(
            "ul",
            { class: "what-problems" },
            found.map((one) =>
              h(
                "li",
                null,
                badge(SEVERITIES[one.severity] ?? "plain", one.severity),
                " ",
                h("strong", null, one.code),
                ` ${one.message}`,
                one.fix && h("span", { class: "hint" }, ` ${one.fix}`),
                one.line ? lineButton(one.line) : null,
                one.corrections?.length
                  ? h("div", { class: "row what-ways" }, one.corrections.slice(0, 2).map(fixButton))
                  : null,
              ),
            ),
          )
        : answer.starts
          ? h("p", { class: "hint" }, "A kubelet starts with it.")
          : null,
    );
  }

  /** A change of the text that mends what a finding is about. */
  function fixButton(correction) {
    return button(
      correction.title,
      () => {
        put(applyEdits(answer.text, correction.edits));
        ask([], correction.title);
      },
      { small: true },
    );
  }

  function lineButton(line) {
    return button(
      `Line ${line}`,
      () => {
        const lines = area.value.split("\n");
        const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
        area.focus();
        area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
      },
      { small: true, kind: "quiet" },
    );
  }

  // --- the form -----------------------------------------------------------------------------------

  function draw() {
    const here = /** @type {any} */ (document.activeElement);
    const inputs = (setting) => [...(setting?.querySelectorAll("select, input, button") ?? [])];
    const place = form.contains(here) ? here.closest("[data-setting]") : null;
    const at = inputs(place).indexOf(here);
    const groups = new Map();
    for (const one of settings) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
    fill(
      form,
      [...groups].map(([name, members]) => group(name, members)),
    );
    filter();
    if (!place) return;
    const successors = inputs(form.querySelector(`[data-setting="${CSS.escape(place.dataset.setting)}"]`));
    const next = successors[at] ?? successors[0];
    next?.focus({ preventScroll: true });
    if (next?.type === here.type && here.value !== here.defaultValue && next.defaultValue !== undefined)
      writeOn(next, here.value);
  }

  /** Go on with what somebody is writing in a field: the browser does not tell of it when they leave. */
  function writeOn(input, text) {
    input.value = text;
    input.addEventListener("blur", () => input.value === text && input.dispatchEvent(new Event("change")), {
      once: true,
    });
  }

  function group(name, members) {
    const body = members
      .filter((one) => !one.minor && one.kind !== "options" && one.kind !== "gates")
      .map(setting);
    const minor = members.filter((one) => one.minor);
    const set = minor.filter((one) => valueAt(answer.values, one.path) !== undefined).map(setting);
    const others = minor.filter((one) => valueAt(answer.values, one.path) === undefined);
    const rest = others.length
      ? h(
          "div",
          { class: "what-other" },
          select(
            [["", "Another feature gate…"], ...others.map((one) => [one.path[1], one.path[1]])],
            "",
            (gate) => {
              const chosen = others.find((one) => one.path[1] === gate);
              if (chosen)
                ask([{ path: chosen.path, value: chosen.default !== "true" }], `feature gate ${gate}`);
            },
            { "aria-label": "Set another feature gate" },
          ),
        )
      : null;
    return h("fieldset", { class: "what-group" }, h("legend", null, name), body, set, rest);
  }

  function setting(one) {
    const name = one.path.join(".");
    const value = valueAt(answer.values, one.path);
    const wrong = answer.problems.filter(
      (problem) => problem.severity === "error" && belongs(problem.field, one.path),
    );
    const input = settingInput(one, value, (next) => ask([{ path: one.path, value: next }], one.path.at(-1)));
    const target = input.matches("input, select") ? input : null;
    const id = freshId("setting");
    const title = one.path.length > 1 && one.path[0] !== "memorySwap" ? one.path.slice(1).join(".") : name;
    const chosen = one.values?.find((each) => each.value === value)?.words;
    const rules = h(
      "span",
      { class: "hint", id: `${id}-hint` },
      [one.words, chosen && `${value}: ${chosen}`, ...(one.rules ?? [])].filter(Boolean).join(" "),
    );
    if (target) {
      target.id = id;
      target.setAttribute("aria-describedby", `${id}-hint`);
      if (wrong.length) target.setAttribute("aria-invalid", "true");
    } else input.setAttribute("aria-label", title);
    const mark =
      one.level && one.level !== "stable" ? badge(one.level === "alpha" ? "warn" : "info", one.level) : null;
    return h(
      "div",
      {
        class: "field what-setting",
        "data-setting": name,
        "data-set": value !== undefined ? "yes" : null,
        "data-words": `${name} ${one.words ?? ""}`.toLowerCase(),
      },
      h(
        "div",
        { class: "row" },
        target ? h("label", { for: id }, title) : h("span", { class: "label" }, title),
        mark,
        one.locked && badge("plain", "locked"),
      ),
      input,
      wrong.map((problem) => h("span", { class: "wrong" }, problem.message)),
      rules,
    );
  }

  const belongs = (place, path) =>
    Boolean(place) && (place === path.join(".") || (path.length === 1 && place.split(/[.[]/)[0] === path[0]));

  function filter() {
    const words = search.value.trim().toLowerCase();
    for (const one of form.querySelectorAll(".what-setting"))
      one.hidden =
        (words !== "" && !one.dataset.words.includes(words)) || (only.checked && one.dataset.set !== "yes");
    for (const one of form.querySelectorAll(".what-group"))
      one.hidden = ![...one.querySelectorAll(".what-setting")].some((each) => !each.hidden);
  }

  return { element, show };
}
