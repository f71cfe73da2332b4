// A field for each kind of setting of a kubelet. A field that is emptied takes the setting out.
import { fill, freshId, h } from "../core/dom.js";
import { button, select } from "../core/ui.js";

/** The value at a path, as the configuration has it. */
export function valueAt(values, path) {
  return path.reduce(
    (value, step) => (value !== null && typeof value === "object" ? value[step] : undefined),
    values,
  );
}

const shown = (value) => (value === undefined || value === null ? "" : String(value));

/**
 * @param {any} setting
 * @param {any} value as it is set; undefined: it is not
 * @param {(value: any) => void} onChange null takes it out
 * @returns the element that is labelled, or a group
 */
export function settingInput(setting, value, onChange) {
  const make = MAKERS[setting.kind] ?? MAKERS.text;
  return make(setting, value, onChange);
}

const MAKERS = {
  choice(setting, value, onChange) {
    const known = setting.values.map((one) => one.value);
    const options = [["", `not set (${setting.default || "none"})`], ...known.map((one) => [one, one])];
    if (value !== undefined && !known.includes(value))
      options.push([shown(value), `${shown(value)} (unknown)`]);
    return select(options, shown(value), (next) => onChange(next === "" ? null : next));
  },
  truth(setting, value, onChange) {
    const options = [
      ["", `not set (${setting.default || "false"})`],
      ["true", "true"],
      ["false", "false"],
    ];
    return select(
      options,
      shown(value),
      (next) => onChange(next === "" ? null : setting.quoted ? next : next === "true"),
      { disabled: setting.locked && value === undefined },
    );
  },
  number(setting, value, onChange) {
    return textInput(
      { type: "number", inputmode: "numeric", placeholder: setting.default },
      shown(value),
      (next) => onChange(next === "" ? null : setting.quoted ? next : Number(next)),
    );
  },
  text(setting, value, onChange) {
    return textInput({ placeholder: setting.default }, shown(value), (next) =>
      onChange(next === "" ? null : next),
    );
  },
  texts(setting, value, onChange) {
    const list = Array.isArray(value) ? value.join(", ") : shown(value);
    const input = textInput({ placeholder: setting.default }, list, (next) =>
      onChange(
        next === ""
          ? null
          : next
              .split(",")
              .map((one) => one.trim())
              .filter(Boolean),
      ),
    );
    return input;
  },
  amounts(setting, value, onChange) {
    const names = setting.names ?? [];
    let rows = Object.entries(value !== null && typeof value === "object" ? value : {});
    const send = (next) => onChange((rows = next).length ? Object.fromEntries(next) : null);
    return rowsGroup(
      setting,
      rows,
      ([name, amount], at) => [
        listInput(names, name, "Name", (next) =>
          send(
            next === ""
              ? rows.filter((_, row) => row !== at)
              : rows.map((row, number) => (number === at ? [next, row[1]] : row)),
          ),
        ),
        textInput({ "aria-label": `Amount of ${name}` }, shown(amount), (next) =>
          send(
            next === ""
              ? rows.filter((_, row) => row !== at)
              : rows.map((row, number) => (number === at ? [row[0], next] : row)),
          ),
        ),
      ],
      (at) => send(rows.filter((_, row) => row !== at)),
      () => {
        const free = names.find((name) => !rows.some(([used]) => used === name)) ?? "name";
        return send([...rows, [free, free.includes(".") ? "10%" : free === "cpu" ? "2" : "1Gi"]]);
      },
    );
  },
  memory(setting, value, onChange) {
    const entries = Array.isArray(value)
      ? value.filter((one) => one !== null && typeof one === "object")
      : [];
    let rows = entries.flatMap((entry) =>
      Object.entries(entry.limits ?? {}).map(([type, size]) => [entry.numaNode ?? 0, type, size]),
    );
    const send = (next) => {
      const nodes = new Map();
      rows = next;
      for (const [numa, type, size] of next) nodes.set(numa, { ...(nodes.get(numa) ?? {}), [type]: size });
      onChange(nodes.size ? [...nodes].map(([numaNode, limits]) => ({ numaNode, limits })) : null);
    };
    const changed = (at, column, next) =>
      send(
        rows.map((row, number) =>
          number === at ? row.map((cell, place) => (place === column ? next : cell)) : row,
        ),
      );
    return rowsGroup(
      setting,
      rows,
      ([numa, type, size], at) => [
        textInput(
          { type: "number", min: "0", "aria-label": "NUMA node", class: "what-narrow" },
          shown(numa),
          (next) => changed(at, 0, Number(next) || 0),
        ),
        listInput(["memory", "hugepages-2Mi", "hugepages-1Gi"], type, "Type", (next) =>
          changed(at, 1, next || "memory"),
        ),
        textInput({ "aria-label": `Size on NUMA ${numa}` }, shown(size), (next) =>
          changed(at, 2, next || "1Gi"),
        ),
      ],
      (at) => send(rows.filter((_, row) => row !== at)),
      () =>
        send([
          ...rows,
          [rows.length ? Math.max(...rows.map(([numa]) => Number(numa) || 0)) + 1 : 0, "memory", "1Gi"],
        ]),
    );
  },
};

function textInput(attributes, value, onDone) {
  const input = h("input", {
    type: "text",
    value,
    autocomplete: "off",
    spellcheck: "false",
    ...attributes,
    onchange: () => onDone(input.value.trim()),
  });
  input.defaultValue = value;
  return input;
}

function listInput(names, value, label, onDone) {
  const id = freshId("names");
  const input = textInput({ list: id, "aria-label": label }, value, onDone);
  return h(
    "span",
    { class: "what-listed" },
    input,
    h(
      "datalist",
      { id },
      names.map((name) => h("option", { value: name })),
    ),
  );
}

/** A group of rows, each of which can be removed, and a button for one more. */
function rowsGroup(setting, rows, cells, onRemove, onAdd) {
  const group = h("div", { class: "what-amounts", role: "group" });
  const name = setting.path.at(-1);
  fill(
    group,
    rows.map((row, at) =>
      h(
        "div",
        { class: "what-amount" },
        cells(row, at),
        button("×", () => onRemove(at), {
          small: true,
          kind: "quiet",
          "aria-label": `Remove row ${at + 1} of ${name}`,
          title: "Remove",
        }),
      ),
    ),
    button(rows.length ? "One more" : "Set", onAdd, { small: true, "aria-label": `Add a row to ${name}` }),
  );
  return group;
}
