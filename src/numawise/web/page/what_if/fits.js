// How many more pods of some shapes fit at the step that is looked at.
import { isAbort, newest, post } from "../core/api.js";
import { fill, h, later } from "../core/dom.js";
import { button, field, problemNotice } from "../core/ui.js";

/** Milliseconds without a change before it is counted again. */
const QUIET = 200;
const FIRST = [
  "cpu=8,memory=32Gi,nvidia.com/gpu=1",
  "cpu=16,memory=128Gi,nvidia.com/gpu=4",
  "cpu=4,memory=8Gi",
];

export function fitsPanel() {
  let shapes = [...FIRST],
    wanted = shapes;
  let asked = /** @type {any} */ (null);
  const asking = newest();
  const list = h("ul", { class: "what-fits" });
  const input = h("input", { type: "text", placeholder: FIRST[0], spellcheck: "false", autocomplete: "off" });
  const wrong = h("div");
  const add = h(
    "form",
    {
      class: "stack-small",
      onsubmit: (event) => {
        event.preventDefault();
        const text = input.value.trim();
        if (text && !shapes.includes(text)) count([...shapes, text]);
      },
    },
    field("Another shape", input, "resources and amounts, separated by commas"),
    h("div", { class: "row" }, h("button", { class: "button button-small", type: "submit" }, "Count it")),
  );
  const element = h(
    "div",
    { class: "stack-small" },
    list,
    wrong,
    h("details", { class: "what-more" }, h("summary", null, "Other shapes"), add),
  );

  /** Count these; when it is begun anew before there is an answer, it is with these. */
  async function count(next) {
    wanted = next;
    const signal = asking.next();
    try {
      const { shapes: rows } = next.length
        ? await post("fits", { ...asked, shapes: next }, signal)
        : { shapes: [] };
      shapes = next;
      if (shapes.includes(input.value.trim())) input.value = "";
      fill(wrong);
      fill(list, rows.map(row));
    } catch (error) {
      if (isAbort(error)) return;
      wanted = shapes;
      fill(wrong, problemNotice(error));
    }
  }

  function row(one) {
    const [first, ...rest] = one.lines;
    const where = first.split(" more fit: ")[1] ?? "";
    return h(
      "li",
      null,
      h(
        "div",
        { class: "what-shape" },
        h(
          "strong",
          { class: "what-count" },
          one.count === 0 ? "none" : `${one.count}${one.more ? " or more" : ""}`,
        ),
        h("code", null, one.shape.replaceAll(",", ", ")),
        button("×", () => count(shapes.filter((shape) => shape !== one.shape)), {
          small: true,
          kind: "quiet",
          "aria-label": `Do not count ${one.shape}`,
          title: "Do not count this shape",
        }),
      ),
      h("p", { class: "hint" }, [where, ...rest].filter(Boolean).join("; ")),
    );
  }

  const soon = later(QUIET, () => wanted.length && count(wanted));

  /** @param {any} node @param {any[]} steps @param {number} at */
  function show(node, steps, at) {
    asked = { node, steps, at };
    soon();
  }

  return { element, show, end: asking.end };
}
