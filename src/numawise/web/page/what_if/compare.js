// The other side: another policy, another configuration or another release, and which pods differ there.
import { post } from "../core/api.js";
import { fill, h } from "../core/dom.js";
import { badge, button, field, notice, problemNotice } from "../core/ui.js";
import { configEditor } from "./config_editor.js";

const POLICIES = ["none", "best-effort", "restricted", "single-numa-node"];

/**
 * @param {{overview: any, onCompare: (other: any, words: string) => void, onGo: (at: number) => void}} options
 */
export function comparePanel({ overview, onCompare, onGo }) {
  const place = h("div");
  const found = h("div", { class: "stack-small" });
  const wrong = h("div");
  const editor = configEditor({
    label: "The other configuration",
    onConfig: (text) => onCompare({ config: text, release: "" }, "the other configuration"),
  });
  const whole = h(
    "details",
    { class: "what-more", hidden: true },
    h("summary", null, "Edit the other configuration"),
    editor.element,
  );
  const element = h("div", { class: "stack-small" }, place, found, wrong, whole);
  let scenario = /** @type {any} */ (null);

  async function chosen(value) {
    const [kind, name] = value.split(":");
    fill(wrong);
    whole.hidden = kind !== "config" && kind !== "policy";
    whole.open = kind === "config";
    if (!kind) return onCompare(null, "nothing beside it");
    if (kind === "release") return onCompare({ config: "", release: name }, `Kubernetes ${name} beside it`);
    try {
      const { config = "", release = "", ...machine } = scenario.node;
      const changes = kind === "policy" ? [{ path: ["topologyManagerPolicy"], value: name }] : [];
      const { text, starts, refusal } = await post("config", {
        text: config,
        release,
        node: machine,
        changes,
      });
      if (!starts && kind === "policy")
        throw Object.assign(new Error(refusal), { advice: "Choose another one." });
      if (kind === "config") await editor.show(text, scenario.node);
      return onCompare(
        { config: text, release: "" },
        kind === "policy" ? `${name} beside it` : "another configuration beside it",
      );
    } catch (error) {
      return fill(wrong, problemNotice(error));
    }
  }

  /** @param {any} now the scenario @param {any} compared the answer's other side, or null */
  function show(now, compared, current) {
    scenario = now;
    const other = now.compare;
    const value = !other ? "" : other.release ? `release:${other.release}` : "config:";
    const group = (title, options) =>
      h(
        "optgroup",
        { label: title },
        options.map(([key, words]) => h("option", { value: key, selected: key === value }, words)),
      );
    const releases = overview.releases.filter((one) => one !== current);
    const chooser = h(
      "select",
      { onchange: () => chosen(chooser.value) },
      h("option", { value: "", selected: value === "" }, "nothing"),
      group(
        "The same with topology policy",
        POLICIES.map((one) => [`policy:${one}`, one]),
      ),
      group("Configuration", [["config:", other?.config ? "the other one, below" : "another one…"]]),
      group(
        "Kubernetes",
        releases.map((one) => [`release:${one}`, one]),
      ),
    );
    fill(place, field("Compare with", chooser));
    whole.hidden = !other?.config;
    if (other?.config) editor.show(other.config, now.node);
    fill(found, differences(compared));
  }

  function differences(compared) {
    if (!compared)
      return h(
        "p",
        { class: "hint" },
        "The same steps on a second kubelet; pods that it treats otherwise are marked.",
      );
    if (!compared.side) return notice("no", `The other kubelet does not start: ${compared.refusal}`);
    if (!compared.differences.length) return notice("yes", compared.summary);
    return [
      notice("warn", compared.summary),
      h(
        "ul",
        { class: "what-differences" },
        compared.differences.map((one) =>
          h(
            "li",
            null,
            h(
              "div",
              { class: "row" },
              badge("warn", "differs"),
              button(`Step ${one.step}`, () => onGo(one.step), { small: true, kind: "quiet" }),
              h("strong", null, one.name),
            ),
            one.words.map((words) => h("p", null, `There: ${words}`)),
          ),
        ),
      ),
    ];
  }

  return { element, show };
}

/** Step → what is marked on it. @returns {Map<number, string>} */
export function marksOf(compared) {
  return new Map((compared?.differences ?? []).map((one) => [one.step, "differs"]));
}
