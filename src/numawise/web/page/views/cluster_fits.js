// What fits: how many more pods of each shape the nodes would let in now, and a form for shapes of one's own.
import { grouped, resourceTitle, shapeWords } from "../core/amounts.js";
import { newest, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import { badge, busy, button, emptyState, field, panel } from "../core/ui.js";

export function fitsView({ which, onShow }) {
  let own = [],
    wanted = own,
    device = "nvidia.com/gpu";
  const asking = newest();
  const wrong = h("div"),
    told = h("p", { class: "quiet-words" }),
    body = h("div");
  const cpus = h("input", { type: "text", inputmode: "decimal", value: "8", autocomplete: "off" });
  const memory = h("input", { type: "text", value: "64Gi", autocomplete: "off" });
  const devices = h("input", { type: "number", min: 0, value: "1" });
  const resource = h("select");
  const form = h(
    "form",
    { class: "stack", onsubmit: (event) => (event.preventDefault(), count()) },
    h(
      "div",
      { class: "fields" },
      field("CPUs", cpus, "Such as 8 or 500m"),
      field("Memory", memory, "Such as 64Gi"),
      field("Devices", devices),
      field("Of", resource),
    ),
    h(
      "div",
      { class: "row" },
      button("Count", null, { kind: "primary", type: "submit" }),
      button("Shapes of the cluster", () => {
        wanted = [];
        refresh();
      }),
    ),
    wrong,
  );
  const element = h(
    "div",
    { class: "split" },
    panel("How many more fit", [h("div", { class: "panel-body" }, told), body], { wide: true }),
    panel("A shape of your own", form),
  );

  function setResources(resources) {
    const known = resources.slice(2);
    if (known.length) device = known.includes(device) ? device : known[0];
    fill(
      resource,
      (known.length ? known : [device]).map((one) =>
        h("option", { value: one, selected: one === device }, resourceTitle(one)),
      ),
    );
  }

  function count() {
    const parts = [
      [cpus.value.trim(), "cpu"],
      [memory.value.trim(), "memory"],
      [Number(devices.value) ? devices.value.trim() : "", resource.value],
    ];
    const shape = parts
      .filter(([amount]) => amount)
      .map(([amount, name]) => `${name}=${amount}`)
      .join(",");
    wanted = [shape, ...own.filter((one) => one !== shape)].slice(0, 12);
    refresh();
  }

  async function refresh() {
    const signal = asking.next(),
      shapes = wanted;
    const data = await busy(body, wrong, () => post("cluster/capacity", { of: which, shapes }, signal));
    if (data) {
      own = shapes;
      draw(data);
    } else if (!signal.aborted) wanted = own; // what cannot be counted is not asked for again
  }

  function draw(data) {
    told.textContent = data.summary;
    if (!data.shapes.length) {
      fill(
        body,
        emptyState(
          "No shape is known here",
          "No pod that runs or waits has CPUs or devices of its own. Count one of your own.",
        ),
      );
      return;
    }
    const row = (shape) =>
      h(
        "tr",
        null,
        h(
          "th",
          { scope: "row" },
          shapeWords(shape.shape.name),
          shape.name !== shape.shape.name && h("div", { class: "quiet-words" }, shape.name),
        ),
        h(
          "td",
          { class: "number" },
          shape.total
            ? h("strong", null, `${grouped(shape.total)}${shape.more ? "+" : ""}`)
            : badge("no", "none"),
        ),
        h(
          "td",
          null,
          shape.total
            ? shape.where.split(/(?<=, )/).map((words) => h("span", { class: "fit-node" }, words))
            : [
                shape.sentence,
                h(
                  "ul",
                  { class: "pod-reasons" },
                  shape.reasons.map((one) => h("li", { title: one.nodes }, one.text)),
                ),
              ],
        ),
        h(
          "td",
          { class: "nowrap" },
          shape.total > 0 &&
            button(
              "Show nodes",
              () =>
                onShow({
                  name: shape.shape.name,
                  total: shape.total,
                  more: shape.more,
                  counts: data.nodes.map((name, at) => [name, shape.counts[at]]),
                }),
              { small: true },
            ),
        ),
      );
    const head = ["Shape", "Fit now", "Where", ""].map((one, at) =>
      h("th", { scope: "col", class: at === 1 ? "number" : null }, one || "Nodes"),
    );
    fill(
      body,
      h(
        "table",
        { class: "table fit-table" },
        h("thead", null, h("tr", null, head)),
        h("tbody", null, data.shapes.map(row)),
      ),
    );
    announce(`${data.shapes.length} ${data.shapes.length === 1 ? "shape" : "shapes"} counted`);
  }

  return { element, refresh, setResources, end: asking.end };
}
