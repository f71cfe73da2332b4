// The form that asks for another machine on the map: by name, in words, or by files.
import { get } from "../core/api.js";
import { fill, h } from "../core/dom.js";
import { dropZone, given } from "../core/files.js";
import { field } from "../core/ui.js";

/** Which machine: by name, words or files. */
export function machineChooser(first, choose) {
  const list = h("datalist", { id: "machines" });
  const input = h("input", {
    type: "text",
    list: "machines",
    value: first,
    placeholder: "dgx-h100, or 2s 4n 64c 8gpu",
  });
  const form = h(
    "form",
    {
      class: "stack",
      onsubmit: (event) => {
        event.preventDefault();
        if (!input.value.trim()) return;
        choose({ machine: input.value.trim() }, input.value.trim());
        close();
      },
    },
    field("Name or words", input, "A name of the catalogue, or a description of a machine"),
    list,
    h(
      "div",
      { class: "row row-end" },
      h("button", { class: "button button-primary", type: "submit" }, "Show"),
    ),
    dropZone({
      label: "Or drop files",
      hint: "A machine, lscpu, nvidia-smi topo -m, state files, a bundle",
      onFiles: (files) => {
        choose({ files: files.map(given) }, files.map((file) => file.name).join(", "));
        close();
      },
    }),
  );
  const close = () => ((shown.open = false), shown.querySelector("summary").focus());
  const shown = h(
    "details",
    {
      class: "map-other",
      ontoggle: async () => {
        if (!shown.open || list.firstChild) return;
        try {
          fill(
            list,
            (await get("machines")).machines.map((one) => h("option", { value: one.name }, one.summary)),
          );
        } catch {
          // the list only helps; names can be typed without it
        }
      },
    },
    h("summary", { class: "button" }, "Another machine…"),
    h("div", { class: "map-other-box panel" }, h("div", { class: "panel-body" }, form)),
  );
  return shown;
}
