// One node in full: what is free by NUMA node, its map, its pods.
import { age, bytesText, resourceTitle, shapeWords, sumText } from "../core/amounts.js";
import { get, isAbort, oneAtATime } from "../core/api.js";
import { fill, h } from "../core/dom.js";
import { holderMark, holdersOf, pictureView } from "../core/picture.js";
import { badge, button, facts, notice, panel, problemNotice, table, viewHead } from "../core/ui.js";
import { KNOWN, fitsText, holesText } from "./cluster_nodes.js";

export function detailView({ name, which, navigate, onBack, root }) {
  const picture = pictureView({ label: `Machine of node ${name}` });
  const wrong = h("div"),
    place = h("div", { class: "stack" });
  const element = h("div", { class: "stack" }, wrong, place);
  let built = false;
  const ending = new AbortController();

  const refresh = oneAtATime(async () => {
    const width = Math.round(Math.max(300, Math.min(1700, root.clientWidth - 80)));
    try {
      const data = await get(
        `cluster/nodes/${encodeURIComponent(name)}`,
        { of: which, width },
        ending.signal,
      );
      fill(wrong);
      draw(data);
    } catch (error) {
      if (isAbort(error)) return;
      fill(wrong, problemNotice(error));
      if (!built) fill(place, h("div", { class: "row" }, button("‹ All nodes", onBack)));
    }
  });

  function draw(data) {
    const { room } = data;
    const [kind, word, words] = KNOWN[room.known] ?? KNOWN.unknown;
    const tryIt = data.map && button("Try pods here", whatIf, { kind: "primary" });
    const head = viewHead(room.name, [badge(kind, word), ` ${words}.`], button("‹ All nodes", onBack), tryIt);
    const row = { ...room, holes: room.holes };
    const about = facts([
      ["Policy", room.policy && `${room.policy}${room.scope ? `, by ${room.scope}` : ""}`],
      ["Kubelet", data.kubelet],
      ["Fits now", fitsText(row)],
      ["Largest when idle", shapeWords(room.largest)],
      ["Of no use to it", room.holes === null ? "" : `${holesText(row)} of what is free`],
      ["Pods", room.pods],
      ["Taints", data.taints.join(", ")],
      [
        "Labels",
        Object.keys(data.labels).length
          ? h(
              "ul",
              { class: "label-list" },
              Object.entries(data.labels).map(([key, value]) =>
                h("li", null, h("code", null, `${key}=${value}`)),
              ),
            )
          : "",
      ],
    ]);
    const notes = remarks([...data.remarks, ...room.notes]);
    const map = data.map
      ? panel("Who holds what", [picture.element, holdersOf(data.map)])
      : notice(
          "info",
          "The node does not publish its state, so there is no map of it.",
          "Run numawise agent on it, and its map is exact.",
        );
    fill(
      place,
      head,
      notes,
      h(
        "div",
        { class: "halves" },
        panel("Free by NUMA node", freeTable(room), { wide: true }),
        panel("The node", about),
      ),
      map,
      panel(`Pods (${data.pods.length})`, podTable(data.pods, data.map, why), { wide: true }),
    );
    if (data.map) picture.show(data.map);
    built = true;
  }

  /** Go to another view with the node in its state of now. */
  async function handOn(path, params) {
    try {
      const { files } = await nodeFiles(which, name);
      navigate(path, params({ files }));
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }
  const whatIf = () => handOn("/what-if", (node) => ({ scenario: { name, node, steps: [] } }));
  const why = (pod) => handOn("/why", (node) => ({ node, pod: `${pod.namespace}/${pod.name}` }));

  return { element, refresh, end: () => ending.abort() };
}

/** A node in its state of now, as other views take it, and the manifest of a pod with that uid. */
export function nodeFiles(of, name, pod = "") {
  return get(`cluster/nodes/${encodeURIComponent(name)}/files`, { of, pod });
}

/** Sentences about what is not known or wrong. */
export function remarks(sentences) {
  return sentences.map((one) => notice("warn", `${one[0].toUpperCase()}${one.slice(1)}.`));
}

function freeTable(room) {
  const names = [
    ...new Set([
      "cpu",
      "memory",
      ...room.numa.flatMap((one) => Object.keys(one.allocatable)),
      ...Object.keys(room.free).filter((one) => one.includes("/")),
    ]),
  ];
  const amount = (resource, value) =>
    value === undefined
      ? "any"
      : resource === "memory" || resource.startsWith("hugepages")
        ? bytesText(value)
        : String(value);
  const rows = room.numa.map((one) => [
    `NUMA ${one.numa}`,
    ...names.map((resource) =>
      one.allocatable[resource] === undefined
        ? "any"
        : `${amount(resource, one.free[resource])} of ${amount(resource, one.allocatable[resource])}`,
    ),
  ]);
  rows.push([
    "All, by sums",
    ...names.map((resource) =>
      room.free[resource] === undefined
        ? "-"
        : `${sumText(resource, room.free[resource])} of ${sumText(resource, room.allocatable[resource] ?? room.free[resource])}`,
    ),
  ]);
  const head = ["", ...names.map((resource) => resourceTitle(resource))].map((one) =>
    h("th", { scope: "col" }, one || "Where"),
  );
  return h(
    "table",
    { class: "table" },
    h("thead", null, h("tr", null, head)),
    h(
      "tbody",
      null,
      rows.map(([first, ...rest]) =>
        h(
          "tr",
          null,
          h("th", { scope: "row", class: "nowrap" }, first),
          rest.map((one) => h("td", { class: "nowrap" }, one)),
        ),
      ),
    ),
  );
}

function podTable(pods, map, onWhy) {
  const marks = new Map((map?.holders ?? []).map((one) => [one.id, one]));
  if (!pods.length) return h("p", { class: "panel-body quiet-words" }, "No pod is there.");
  const whyButton = (pod) =>
    button("Why?", () => onWhy(pod), { small: true, "aria-label": `Why is ${pod.name} there?` });
  return table({
    columns: [
      {
        title: "Pod",
        cell: (pod) => [
          marks.has(pod.uid) && [holderMark(marks.get(pod.uid)), " "],
          pod.namespace ? `${pod.namespace}/${pod.name}` : pod.name,
        ],
      },
      { title: "Asks for", cell: (pod) => shapeWords(pod.shape) || "-" },
      { title: "Owner", cell: (pod) => pod.owner || "-" },
      {
        title: "Since",
        cell: (pod) =>
          pod.since ? h("time", { datetime: pod.since, title: pod.since }, `${age(pod.since)} ago`) : "-",
      },
      {
        title: "State",
        cell: (pod) =>
          pod.leaving ? badge("warn", "ends") : pod.runs ? badge("yes", "runs") : badge("info", "bound"),
      },
      ...(map ? [{ title: "Why there", cell: (pod) => pod.runs && pod.namespace && whyButton(pod) }] : []),
    ],
    rows: pods,
  });
}
