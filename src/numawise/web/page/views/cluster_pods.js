// Pods that wait for a node or were refused, each with the first sentence of why.
import { age, shapeWords } from "../core/amounts.js";
import { get } from "../core/api.js";
import { fill, h, later } from "../core/dom.js";
import { badge, button, emptyState, field, notice, problemNotice, select } from "../core/ui.js";
import { nodeFiles } from "./cluster_detail.js";

const STATES = { waiting: ["warn", "waits"], gated: ["info", "held back"], refused: ["no", "refused"] };
const FIRST = 40;

export function podsView({ which, navigate, onOpen, onCounts }) {
  let data = null,
    state = "",
    words = "",
    limit = FIRST,
    going = null,
    timer = 0,
    ended = false;
  const search = h("input", {
    type: "search",
    placeholder: "Name or owner",
    autocomplete: "off",
    oninput: later(80, () => {
      words = search.value.trim().toLowerCase();
      draw();
    }),
  });
  const kind = select(
    [
      ["", "All"],
      ["waiting", "Waiting"],
      ["gated", "Held back"],
      ["refused", "Refused"],
    ],
    "",
    (value) => {
      state = value;
      draw();
    },
  );
  const wrong = h("div");
  const told = h("p", { class: "quiet-words", role: "status" });
  const list = h("ul", { class: "pod-list", "aria-label": "Pods without a place" });
  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "node-tools" }, field("Search", search), field("State", kind)),
    wrong,
    told,
    list,
  );

  /** Ask again; those without a sentence yet are asked about until all have one. */
  async function refresh() {
    clearTimeout(timer);
    going?.abort();
    going = new AbortController();
    try {
      data = await get("cluster/pods", { of: which }, going.signal);
    } catch (error) {
      fill(wrong, problemNotice(error));
      return;
    }
    if (ended) return;
    fill(wrong);
    onCounts(data.waiting, data.refused);
    draw();
    if (data.more) timer = setTimeout(refresh, 150);
  }

  function draw() {
    if (!data) return;
    const pods = data.pods.filter(
      (pod) =>
        (!state || pod.state === state) &&
        (!words || `${pod.namespace}/${pod.name} ${pod.owner}`.toLowerCase().includes(words)),
    );
    const left = data.leftOut ? `; ${data.leftOut} older ones are left out` : "";
    const counted = `${data.waiting} ${data.waiting === 1 ? "waits" : "wait"}, ${data.refused} ${data.refused === 1 ? "was" : "were"} refused${pods.length < data.pods.length ? `; ${pods.length} are shown` : ""}${left}`;
    if (told.textContent !== counted) told.textContent = counted;
    if (!data.pods.length)
      fill(
        list,
        h(
          "li",
          null,
          emptyState(
            "Every pod has its place",
            "No pod waits for a node, and none that a kubelet refused is still there.",
          ),
        ),
      );
    else if (!pods.length)
      fill(list, h("li", null, emptyState("No pod is like that", "Take back a filter to see more.")));
    const groups = alike(pods);
    if (groups.length)
      fill(
        list,
        groups.slice(0, limit).map(line),
        groups.length > limit &&
          h(
            "li",
            { class: "row" },
            button(`Show ${groups.length - limit} more`, () => {
              limit = Infinity;
              draw();
            }),
          ),
      );
  }

  /** @param {any[]} group pods that are told the same; the first stands for all */
  function line([pod, ...others]) {
    const [mark, word] = STATES[pod.state] ?? STATES.waiting;
    const head = h(
      "div",
      { class: "row pod-head" },
      badge(mark, word),
      h("h3", { class: "pod-name" }, `${pod.namespace}/${pod.name}`),
      pod.never && badge("no", "never, as the nodes are"),
    );
    const about = h(
      "p",
      { class: "quiet-words" },
      [shapeWords(pod.shape), pod.owner && `of ${pod.owner}`, pod.since && `${age(pod.since)} ago`]
        .filter(Boolean)
        .join(" · "),
      pod.node && [" · on ", nodeLink(pod.node)],
    );
    const sentence = pod.sentence
      ? h("p", { class: "pod-sentence" }, pod.sentence)
      : h("p", { class: "quiet-words" }, "The nodes are being asked…");
    const reasons =
      pod.reasons.length > 0 &&
      h(
        "ul",
        { class: "pod-reasons" },
        pod.reasons.map((one) => h("li", { title: one.nodes }, one.text)),
      );
    const able =
      pod.able.length > 0 &&
      h(
        "p",
        null,
        "Best now: ",
        pod.able.map((name, at) => [at ? ", " : "", nodeLink(name)]),
      );
    const said =
      pod.words &&
      h(
        "p",
        { class: "quiet-words" },
        pod.state === "refused" ? "Its kubelet said: " : "The scheduler said: ",
        h("q", null, pod.words),
      );
    const more =
      others.length > 0 &&
      h(
        "details",
        { class: "pod-others" },
        h("summary", null, `and ${others.length} like it`),
        h(
          "ul",
          { class: "pod-reasons" },
          others
            .slice(0, FIRST)
            .map((one) => h("li", null, `${one.name}`, one.node && [" on ", nodeLink(one.node)])),
          others.length > FIRST && h("li", null, `and ${others.length - FIRST} others`),
        ),
      );
    const place = h("div");
    const why = pod.ask && button(`Why on ${pod.ask}`, () => ask(pod, place), { small: true });
    return h(
      "li",
      { class: "panel panel-body stack-small" },
      head,
      about,
      more,
      sentence,
      reasons,
      able,
      said,
      place,
      why && h("div", { class: "row" }, why),
    );
  }

  /** Pods of one owner that wait, or were refused, for the same reason stand together. */
  function alike(pods) {
    const groups = new Map();
    for (const pod of pods) {
      const key = JSON.stringify([pod.state, pod.namespace, pod.owner || pod.name, pod.shape, pod.sentence]);
      if (groups.has(key)) groups.get(key).push(pod);
      else groups.set(key, [pod]);
    }
    return [...groups.values()];
  }

  function nodeLink(name) {
    return h("button", { type: "button", class: "link-button", onclick: () => onOpen(name) }, name);
  }

  /** Go to Why with the node in its state of now, and the pod. */
  async function ask(pod, place) {
    try {
      const { files, pod: text } = await nodeFiles(which, pod.ask, pod.uid);
      navigate("/why", {
        node: { files },
        files: [{ name: "pod.yaml", text }],
        pod: `${pod.namespace}/${pod.name}`,
      });
    } catch (error) {
      fill(place, problemNotice(error) ?? notice("no", "the node cannot be asked"));
    }
  }

  return {
    element,
    refresh,
    end() {
      ended = true;
      clearTimeout(timer);
      going?.abort();
    },
  };
}
