// A scenario for others: as a link, as a file, as a trace that numawise replay reads; and from a file again.
import { postForText } from "../core/api.js";
import { fill, h } from "../core/dom.js";
import { download, dropZone } from "../core/files.js";
import { button, copyButton, dialog, field, notice, problemNotice } from "../core/ui.js";
import { fileText, linkWord, LONGEST_LINK, readFile } from "./store.js";

/** A name for a file out of one for people. */
const fileName = (scenario) =>
  scenario.name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60) || "scenario";

/** @param {any} scenario @param {number} at the step that is looked at */
export async function shareDialog(scenario, at) {
  const word = await linkWord(scenario, at);
  const address = `${location.href.split("#")[0]}#/what-if?s=${word}`;
  const input = h("input", {
    type: "text",
    readonly: true,
    value: address,
    onfocus: (event) => event.target.select(),
  });
  const wrong = h("div", { class: "stack-small" });
  const link = word
    ? h(
        "div",
        { class: "stack-small" },
        field(
          "Link",
          input,
          scenario.node.served
            ? "It shows the node that is served wherever it is opened."
            : "All of the scenario is in it, in the part of an address that browsers do not send to servers.",
        ),
        h("div", { class: "row" }, copyButton(address, "Copy link")),
      )
    : notice(
        "warn",
        `The scenario is too large for a link (more than ${LONGEST_LINK.toLocaleString("en")} characters).`,
        "Share the file.",
      );
  const trace = async () => {
    try {
      const name = fileName(scenario);
      download(
        `${name}.jsonl`,
        await postForText("scenario/trace", { node: scenario.node, steps: scenario.steps, name }),
        "application/jsonl",
      );
      fill(wrong);
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  };
  const files = h(
    "div",
    { class: "stack-small" },
    h("h3", null, "File"),
    h(
      "p",
      { class: "hint" },
      "The scenario: drop it on this page again, or play its steps with numawise simulate --steps.",
    ),
    h(
      "div",
      { class: "row" },
      button("Save the scenario", () =>
        download(`${fileName(scenario)}.json`, fileText(scenario, at), "application/json"),
      ),
    ),
    h("h3", { class: "what-apart" }, "Trace"),
    h("p", { class: "hint" }, "In the form of recorded kubelets, for numawise replay."),
    h("div", { class: "row" }, button("Save the trace", trace)),
    wrong,
  );
  dialog("Share the scenario", h("div", { class: "stack" }, link, files));
}

/** Ask for a scenario in a file. @param {(opened: import("./store.js").Opened) => void} onScenario */
export function openDialog(onScenario, onExample) {
  const zone = dropZone({
    label: "Drop a scenario",
    hint: "a file that was saved here",
    accept: ".json,application/json",
    multiple: false,
    onFiles: ([file]) => {
      onScenario(readFile(file.text ?? ""));
      shown.close();
    },
  });
  const shown = dialog(
    "Open a scenario",
    h(
      "div",
      { class: "stack" },
      zone,
      h(
        "div",
        { class: "row" },
        button("The example", () => (onExample(), shown.close())),
        button("An empty one", () => (onExample(true), shown.close())),
      ),
    ),
  );
}
