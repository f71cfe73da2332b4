// What if: a machine, a kubelet, and pods that come and go. The server plays; what is changed here can be undone.
import { isAbort, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import { acceptDrops, readFiles } from "../core/files.js";
import { explanationView } from "../core/explanation.js";
import { holderMark, pictureView } from "../core/picture.js";
import { rewrite } from "../core/router.js";
import { badge, button, dialog, notice, panel, problemNotice, viewHead } from "../core/ui.js";
import { comparePanel, marksOf } from "../what_if/compare.js";
import { configEditor } from "../what_if/config_editor.js";
import { BASIC, example, REFUSED } from "../what_if/example.js";
import { fitsPanel } from "../what_if/fits.js";
import { machineChoice } from "../what_if/machine_choice.js";
import { nextStep } from "../what_if/next_step.js";
import { outcome } from "../what_if/outcome.js";
import { openDialog, shareDialog } from "../what_if/share.js";
import { linkWord, readFile, readLink, scenarioStore, withoutStep, withStep } from "../what_if/store.js";
import { timeline } from "../what_if/timeline.js";

const NARROWEST = 320;
/** From this width on two maps stand side by side. */
const TWO = 984;
const POLICIES = [["topologyManagerPolicy", "none"], ["topologyManagerScope", "container"], ["cpuManagerPolicy", "none"], ["memoryManagerPolicy", "None"]];

/** The scenario that somebody left here, for as long as the page is open. */
let left = /** @type {any} */ (null);

export default {
  title: "What if",
  async mount(root, context) {
    const messages = h("div", { class: "stack-small" });
    const first = await beginning(context, messages);
    const view = build(root, context, messages, first.store ?? scenarioStore(first.scenario, first.at));
    await view.start();
    return view.end;
  },
};

/** What to begin with: what another view hands over, an address, what was left here, or the example. */
async function beginning({ params }, messages) {
  try {
    if (params.scenario) return { scenario: { name: "", compare: null, ...params.scenario } };
    if (params.s && params.s !== left?.word) return { scenario: await readLink(params.s) };
  } catch (error) {
    fill(messages, notice("no", error.message, "The example is shown instead."));
    return { scenario: example() };
  }
  return left ? { store: left.store } : { scenario: example(), at: REFUSED };
}

function build(root, { overview }, messages, store) {
  const picture = pictureView({ label: "The machine at this step" });
  const otherPicture = pictureView({ label: "The machine at this step, on the other side" });
  const line = timeline({ onGo: go, onUndo: () => travel("undo"), onRedo: () => travel("redo"), onRemove: removeStep });
  const next = nextStep({ onStep: (step, words) => change(withStep(store.now, store.at, step), store.at + 1, words) });
  const fits = fitsPanel();
  const editor = configEditor({ onConfig: (config, words) => change(withNode({ config }), store.at, words) });
  const compare = comparePanel({ overview, onCompare: (other, words) => change({ ...store.now, compare: other }, store.at, words), onGo: go });
  const maps = h("div", { class: "what-maps" });
  const detail = h("div", { class: "stack" });
  const about = h("p", { class: "what-policies" });
  const wrong = h("div", { class: "stack-small" });
  const node = h("div", { class: "stack-small" });
  let split = /** @type {any} */ (null);
  let machine = /** @type {any} */ (null);
  let answer = /** @type {any} */ (null);
  let controller = new AbortController();
  const edit = button("Edit the configuration", () => toggleEditor(), { small: true, "aria-expanded": "false" });
  const editing = panel("Kubelet configuration", editor.element, { actions: [button("Suggest one for this machine", () => suggest(store.now.node, (config) => change(withNode({ config }), store.at, "suggested configuration")), { small: true }), button("Close", () => toggleEditor(false), { small: true, kind: "quiet" })], class: "what-editing" });
  editing.hidden = true;
  const mapPanel = panel("Machine", [detail, maps], { class: "what-map" });
  const title = mapPanel.querySelector("h2");

  fill(root,
    viewHead("What if", "Pods come and go on a machine that nobody has to own. Every answer is simulated as the kubelet would give it.", button("Open…", open), button("Share…", () => shareDialog(store.now), { kind: "primary" })),
    messages,
    h("div", { class: "stack" },
      panel("Time line", [line.element, wrong], { class: "what-time" }),
      editing,
      (split = h("div", { class: "split what-split" },
        h("div", { class: "stack" }, mapPanel, panel("Side by side", compare.element, { class: "what-beside" })),
        h("div", { class: "stack" }, panel("Next step", next.element, { class: "what-next" }), panel("Node", h("div", { class: "stack-small" }, node, about, h("div", { class: "row" }, edit)), { class: "what-node" }), panel("How many more fit", fits.element, { class: "what-fit" }))))));
  acceptDrops(root, dropped);
  addEventListener("keydown", keys);
  const observer = new ResizeObserver(() => widthChanged());
  observer.observe(maps);

  // --- asking ---------------------------------------------------------------------------------------

  const width = () => {
    const whole = Math.max(NARROWEST, Math.floor(maps.clientWidth || 900));
    return Math.min(4000, answer?.compared?.side && whole > TWO ? Math.floor((whole - 24) / 2) : whole);
  };

  async function ask(scenario, at) {
    controller.abort();
    controller = new AbortController();
    const body = { node: scenario.node, steps: scenario.steps, at, width: width() };
    const other = scenario.compare;
    if (other?.config || other?.release) body.compare = other;
    return post("scenario", body, controller.signal);
  }

  /** Try a change; only one that can be played is kept. */
  async function change(scenario, at, words) {
    try {
      answer = await ask(scenario, Math.max(0, Math.min(at, scenario.steps.length)));
      store.change(scenario, at, words);
      fill(wrong);
      show();
      announce(`${words}: ${answer.side.steps[store.at - 1]?.verdict ?? "done"}`);
    } catch (error) {
      if (!isAbort(error)) refuse(error, scenario, at, words);
    }
  }

  function refuse(error, scenario, at, words) {
    const suits = (error.message.startsWith("the kubelet would not start") || error.field === "$.node.config") && scenario.node.config !== BASIC;
    const use = (config, what) => change({ ...scenario, node: { ...scenario.node, config } }, at, `${words}, ${what}`);
    const ways = suits ? h("div", { class: "row" }, button("Suggest a configuration", () => suggest(scenario.node, (config) => use(config, "suggested configuration")), { small: true }), button("Use a simple configuration", () => use(BASIC, "simple configuration"), { small: true })) : null;
    fill(wrong, problemNotice(error), ways);
    machine?.show(store.now.node, answer?.side);
    compare.show(store.now, answer?.compared, answer?.side.release);
  }

  /** Ask for a configuration that suits a machine, with a reason for every line. */
  async function suggest({ config: _, ...given }, take) {
    try {
      take((await post("plan", { node: given })).text);
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  async function go(at, focus = false) {
    const wanted = Math.max(0, Math.min(at, store.now.steps.length));
    try {
      answer = await ask(store.now, wanted);
      store.at = answer.at;
      fill(wrong);
      show();
      if (focus) line.focus();
    } catch (error) {
      if (!isAbort(error)) fill(wrong, problemNotice(error));
    }
  }

  async function travel(way) {
    const entry = store.peek(way);
    if (!entry) return;
    try {
      answer = await ask(entry.scenario, entry.at);
      const words = store.go(way);
      fill(wrong);
      show();
      announce(`${way === "undo" ? "undone" : "done again"}: ${words}`);
    } catch (error) {
      if (!isAbort(error)) fill(wrong, problemNotice(error));
    }
  }

  const withNode = (part) => {
    const merged = { ...store.now.node, ...part };
    for (const name of Object.keys(merged)) if (merged[name] === undefined) delete merged[name];
    return { ...store.now, node: merged };
  };

  function removeStep(number) {
    const gone = answer.side.steps[number - 1]?.title ?? `step ${number}`;
    return change(withoutStep(store.now, number), number - 1, `delete ${gone}`);
  }

  function chooseNode(part, words) {
    const changed = withNode(part);
    if (!changed.node.served && !changed.node.config && !changed.node.files?.length) changed.node.config = BASIC;
    return change(changed, store.at, words);
  }

  // --- showing --------------------------------------------------------------------------------------

  function show() {
    const { side, compared } = answer;
    const marks = marksOf(compared);
    store.at = answer.at;
    line.show({ steps: side.steps, chosen: store.at, marks, summary: side.summary || "no pods yet", undoWords: store.undoWords, redoWords: store.redoWords, total: store.now.steps.length });
    title.textContent = store.at ? `After step ${store.at}` : "Before the first step";
    showMaps(side, compared?.side);
    const words = (compared?.differences ?? []).filter((one) => one.step === store.at).flatMap((one) => one.words);
    fill(detail, words.map((each) => notice("warn", `This step differs: on the other side it is ${each}.`)), compared?.side ? null : outcome(side.steps[store.at - 1], answer.columns, why), side.remarks.map((remark) => h("p", { class: "hint" }, remark)));
    next.update(side, store.now);
    fits.show(store.now.node, store.now.steps, store.at);
    machine.show(store.now.node, side);
    compare.show(store.now, compared, side.release);
    fill(about, policies(side));
    if (!editing.hidden) editor.show(store.now.node.config ?? "", store.now.node);
    remember();
  }

  /** The decision on a pod of this step, step by step, over the page. */
  async function why(pod) {
    try {
      const { node: given, steps } = store.now;
      const found = await post("scenario/why", { node: given, steps, at: store.at, pod, width: Math.min(760, Math.max(NARROWEST, innerWidth - 96)) });
      dialog("Why", explanationView(found, { level: 3 })).element.classList.add("what-why");
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  function showMaps(side, other) {
    picture.show(side.map);
    if (!other?.map) {
      fill(maps, picture.element, holders(side.map));
      maps.classList.remove("what-maps-two");
      split.classList.remove("what-split-wide");
      return;
    }
    split.classList.add("what-split-wide");
    otherPicture.show(other.map);
    maps.classList.add("what-maps-two");
    const half = (words, one, element) => h("figure", { class: "what-side" }, h("figcaption", { class: "row" }, h("strong", null, words), badge("plain", `Kubernetes ${one.release}`)), outcome(one.steps[store.at - 1], answer.columns), element, holders(one.map));
    fill(maps, half("This kubelet", side, picture.element), half("The other one", other, otherPicture.element));
  }

  /** Who the marks of a map stand for. */
  function holders(map) {
    if (!map.holders.length) return null;
    return h("ul", { class: "what-holders", "aria-label": "Who holds what" }, map.holders.map((one) => h("li", null, holderMark(one), " ", h("span", null, one.name))));
  }

  /** The policies in a few words, read off the text of the configuration. */
  function policies(side) {
    const config = store.now.node.config ?? "";
    const value = ([name, otherwise]) => new RegExp(`^\\s*"?${name}"?:\\s*"?([A-Za-z-]+)`, "m").exec(config)?.[1] ?? (config ? otherwise : "");
    const words = POLICIES.map(value);
    return [badge("plain", `Kubernetes ${side.release}`), " ", config ? [badge("info", `${words[0]}, by ${words[1]}`), " ", badge("plain", `CPUs ${words[2]}`), " ", badge("plain", `memory ${words[3]}`)] : badge("plain", "its own configuration")];
  }

  async function remember() {
    const scenario = store.now;
    const word = await linkWord(scenario);
    if (scenario !== store.now) return;
    left = { store, word };
    if (location.hash.startsWith("#/what-if")) rewrite({ s: word });
  }

  function toggleEditor(open = editing.hidden) {
    editing.hidden = !open;
    edit.setAttribute("aria-expanded", String(open));
    if (open) editor.show(store.now.node.config ?? "", store.now.node).then(() => editing.scrollIntoView({ block: "start" }));
  }

  let drawn = 0;
  function widthChanged() {
    const now = width();
    if (!answer || Math.abs(now - drawn) < 60) return;
    drawn = now;
    if (answer.side.map && Math.abs(answer.side.map.width - now) > 60) go(store.at);
  }

  // --- opening --------------------------------------------------------------------------------------

  function open() {
    openDialog((scenario) => change(scenario, scenario.steps.length, `open ${scenario.name || "a scenario"}`), (empty = false) => {
      const fresh = example();
      const scenario = empty ? { ...fresh, name: "", steps: [] } : fresh;
      return change(scenario, scenario.steps.length, empty ? "an empty scenario" : "the example");
    });
  }

  async function dropped(list) {
    try {
      const [file] = await readFiles(list);
      if (!file) return;
      if (/"kind":\s*"Scenario"/.test(file.text ?? "")) {
        const scenario = readFile(file.text);
        change(scenario, scenario.steps.length, `open ${scenario.name || file.name}`);
      } else if (/kind:\s*"?KubeletConfiguration|"kind":\s*"KubeletConfiguration/.test(file.text ?? "")) change(withNode({ config: file.text }), store.at, `configuration ${file.name}`);
      else if (file.text !== undefined) change(withStep(store.now, store.at, { add: { text: file.text } }), store.at + 1, file.name);
      else throw new Error(`${file.name} is neither a scenario, a configuration nor pods`);
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  function keys(event) {
    const writing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
    if (writing || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key === "z" || key === "y") {
      event.preventDefault();
      travel(key === "y" || event.shiftKey ? "redo" : "undo");
    }
  }

  return {
    async start() {
      machine = await machineChoice({ overview, onNode: chooseNode });
      fill(node, machine.element);
      try {
        answer = await ask(store.now, store.at);
        show();
      } catch (error) {
        if (isAbort(error)) return;
        fill(wrong, problemNotice(error), h("div", { class: "row" }, button("Show the example", () => change(example(), example().steps.length, "the example"))));
        machine.show(store.now.node, null);
        compare.show(store.now, null, "");
      }
    },
    end() {
      controller.abort();
      observer.disconnect();
      removeEventListener("keydown", keys);
    },
  };
}
