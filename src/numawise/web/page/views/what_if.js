// What if: a machine, a kubelet, and pods that come and go. The server plays; what is changed here can be
// undone.
import { isAbort, post, Problem } from "../core/api.js";
import { add, announce, fill, h } from "../core/dom.js";
import { acceptDrops, isConfig, readFiles } from "../core/files.js";
import { explanationView } from "../core/explanation.js";
import { holdersOf, pictureView } from "../core/picture.js";
import { rewrite } from "../core/router.js";
import { button, dialog, notice, panel, problemNotice, viewHead } from "../core/ui.js";
import { beginning, configured } from "../what_if/beginning.js";
import { comparePanel, marksOf } from "../what_if/compare.js";
import { configEditor } from "../what_if/config_editor.js";
import { BASIC, example } from "../what_if/example.js";
import { fitsPanel } from "../what_if/fits.js";
import { machineChoice } from "../what_if/machine_choice.js";
import { nextStep } from "../what_if/next_step.js";
import { outcome, policiesOf } from "../what_if/outcome.js";
import { openDialog, shareDialog } from "../what_if/share.js";
import { fileText, keepText, linkWord, readFile, withoutStep, withStep } from "../what_if/store.js";
import { timeline } from "../what_if/timeline.js";

const NARROWEST = 320;
/** From this width on two maps stand side by side. */
const TWO = 984;

/** The scenario that somebody left here, for as long as the page is open. */
let left = /** @type {any} */ (null);

export default {
  title: "What if",
  async mount(root, context) {
    const messages = h("div", { class: "stack-small" });
    const address = location.hash;
    const first = await beginning(context.params, left, messages);
    const view = build(root, context, messages, first.store, address);
    await view.start(first.opened);
    return view.end;
  },
};

function build(root, { overview }, messages, store, address) {
  const picture = pictureView({ label: "The machine at this step" });
  const otherPicture = pictureView({ label: "The machine at this step, on the other side" });
  const line = timeline({
    onGo: go,
    onUndo: () => travel("undo"),
    onRedo: () => travel("redo"),
    onRemove: removeStep,
  });
  const next = nextStep({
    onStep: (step, words) => change(words, (now, at) => [withStep(now, at, step), at + 1], ["Manifests"]),
  });
  const fits = fitsPanel();
  const editor = configEditor({ onConfig: (config, words) => change(words, withNode({ config })) });
  const compare = comparePanel({
    overview,
    onCompare: (other, words) => change(words, (now, at) => [{ ...now, compare: other }, at]),
    onGo: go,
  });
  const maps = h("div", { class: "what-maps" });
  const detail = h("div", { class: "stack" });
  const about = h("p", { class: "what-policies" });
  const wrong = h("div", { class: "stack-small" });
  const node = h("div", { class: "stack-small" });
  let split = /** @type {any} */ (null);
  let machine = /** @type {any} */ (null);
  let answer = /** @type {any} */ (null);
  let ended = false;
  let controller = new AbortController();
  const edit = button("Edit the configuration", () => toggleEditor(), {
    small: true,
    "aria-expanded": "false",
  });
  const editing = panel("Kubelet configuration", editor.element, {
    actions: [
      button(
        "Suggest one for this machine",
        () => suggest(store.now.node, (config) => change("suggested configuration", withNode({ config }))),
        { small: true },
      ),
      button("Close", () => toggleEditor(false), { small: true, kind: "quiet" }),
    ],
    class: "what-editing",
  });
  editing.hidden = true;
  const mapPanel = panel("Machine", [detail, maps], { class: "what-map" });
  const title = mapPanel.querySelector("h2");

  fill(
    root,
    viewHead(
      "What if",
      "Pods come and go on a machine that nobody has to own. Every answer is simulated as the kubelet would give it.",
      button("Open…", open),
      button("Share…", () => shareDialog(store.now, store.at), { kind: "primary" }),
    ),
    messages,
    h(
      "div",
      { class: "stack" },
      panel("Time line", [line.element, wrong], { class: "what-time" }),
      editing,
      (split = h(
        "div",
        { class: "split what-split" },
        h(
          "div",
          { class: "stack" },
          mapPanel,
          panel("Side by side", compare.element, { class: "what-beside" }),
        ),
        h(
          "div",
          { class: "stack" },
          panel("Next step", next.element, { class: "what-next" }),
          panel("Node", h("div", { class: "stack-small" }, node, about, h("div", { class: "row" }, edit)), {
            class: "what-node",
          }),
          panel("How many more fit", fits.element, { class: "what-fit" }),
        ),
      )),
    ),
  );
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

  /** One after the other: nothing that was asked for is lost to what is asked for next. */
  let going = Promise.resolve();
  function inTurn(work) {
    going = going.then(() => (ended ? undefined : work()));
    return going;
  }

  /** Try a change; only one that can be played is kept.
   * @param {string} words
   * @param {(now: any, at: number) => [any, number]} next the scenario then, and the step that is looked at
   * @param {string[]} [names] what the texts of its new steps are called
   */
  const change = (words, next, names = []) =>
    inTurn(async () => {
      const first = store.at;
      const [scenario, at] = next(store.now, first);
      try {
        answer = await ask(scenario, Math.max(0, Math.min(at, scenario.steps.length)));
        store.change(scenario, at, words);
        fill(wrong);
        show();
        announce(`${words}: ${answer.side.steps[store.at - 1]?.verdict ?? "done"}`);
      } catch (error) {
        if (isAbort(error)) return;
        const [, step] = /^\$\.steps\[(\d+)\]\.add\.text/.exec(error.field) ?? [];
        if (names[step - first]) error.file = names[step - first];
        refuse(error, scenario, at, words);
      }
    });

  function refuse(error, scenario, at, words) {
    const suits = error.message.startsWith("the kubelet would not start") || error.field === "$.node.config";
    const use = (config, what) =>
      change(`${words}, ${what}`, () => [{ ...scenario, node: { ...scenario.node, config } }, at]);
    const simple =
      scenario.node.config === BASIC
        ? null
        : button("Use a simple configuration", () => use(BASIC, "simple configuration"), { small: true });
    const ways = suits
      ? h(
          "div",
          { class: "row" },
          button(
            "Suggest a configuration",
            () => suggest(scenario.node, (config) => use(config, "suggested configuration")),
            { small: true },
          ),
          simple,
        )
      : null;
    fill(wrong, problemNotice(error), ways);
    wrong.scrollIntoView({ block: "nearest" });
    machine?.show(store.now.node, answer?.side);
    compare.show(store.now, answer?.compared, answer?.side.release ?? "");
  }

  /** Ask for a configuration that suits a machine, with a reason for every line. */
  async function suggest({ config: _, ...given }, take) {
    try {
      take((await post("plan", { node: given })).text);
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  let latest = 0;
  function go(at, focus = false) {
    const mine = (latest += 1);
    return inTurn(() => mine === latest && look(at, focus));
  }

  async function look(at, focus = false) {
    const wanted = Math.max(0, Math.min(at, store.now.steps.length));
    try {
      answer = await ask(store.now, wanted);
      if (store.at !== answer.at) fill(wrong); // another width says nothing about what was wrong
      store.at = answer.at;
      show();
      announce(title.textContent);
      if (focus) line.focus();
    } catch (error) {
      if (!isAbort(error)) fill(wrong, problemNotice(error));
    }
  }

  const travel = (way) =>
    inTurn(async () => {
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
    });

  const withNode = (part) => (now, at) => {
    const merged = { ...now.node, ...part };
    for (const name of Object.keys(merged)) if (merged[name] === undefined) delete merged[name];
    return [{ ...now, node: configured(merged) }, at];
  };

  function removeStep(number) {
    const gone = answer.side.steps[number - 1]?.title ?? `step ${number}`;
    return change(`delete ${gone}`, (now) => [withoutStep(now, number), number - 1]);
  }

  // --- showing --------------------------------------------------------------------------------------

  function show() {
    const { side, compared } = answer;
    const marks = marksOf(compared);
    store.at = answer.at;
    line.show({
      steps: side.steps,
      chosen: store.at,
      marks,
      summary: side.summary || "no pods yet",
      undoWords: store.undoWords,
      redoWords: store.redoWords,
      total: store.now.steps.length,
    });
    title.textContent = store.at ? `After step ${store.at}` : "Before the first step";
    showMaps(side, compared?.side);
    const words = (compared?.differences ?? [])
      .filter((one) => one.step === store.at)
      .flatMap((one) => one.words);
    fill(
      detail,
      words.map((each) => notice("warn", `This step differs: on the other side it is ${each}.`)),
      compared?.side ? null : outcome(side.steps[store.at - 1], answer.columns, why),
      side.remarks.map((remark) => h("p", { class: "hint" }, remark)),
    );
    next.update(side, store.now, store.at);
    fits.show(store.now.node, store.now.steps, store.at);
    machine.show(store.now.node, side);
    compare.show(store.now, compared, side.release);
    fill(about, policiesOf(side));
    if (!editing.hidden) editor.show(store.now.node.config ?? "", store.now.node);
    remember();
  }

  /** The decision on a pod of this step, step by step, over the page. */
  async function why(pod) {
    try {
      const { node: given, steps } = store.now;
      // inside the dialog; the steps stand beside the map from 860 on
      const room = Math.min(1240, innerWidth - 32) - 36;
      const question = {
        node: given,
        steps,
        at: store.at,
        pod,
        width: Math.max(NARROWEST, Math.floor(room > 860 ? (room * 7) / 12 - 36 : room - 28)),
      };
      const found = await post("scenario/why", question);
      if (ended) return;
      const onTry = (suggestion, signal) => post("scenario/why/try", { ...question, suggestion }, signal);
      dialog("Why", explanationView(found, { onTry, level: 3 })).element.classList.add("what-why");
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  function showMaps(side, other) {
    picture.show(side.map);
    if (!other?.map) {
      fill(maps, picture.element, holdersOf(side.map));
      maps.classList.remove("what-maps-two");
      split.classList.remove("what-split-wide");
      return;
    }
    split.classList.add("what-split-wide");
    otherPicture.show(other.map);
    maps.classList.add("what-maps-two");
    const half = (words, one, element, onWhy) =>
      h(
        "figure",
        { class: "what-side" },
        h("figcaption", { class: "what-policies" }, h("strong", null, words), policiesOf(one)),
        outcome(one.steps[store.at - 1], answer.columns, onWhy),
        element,
        holdersOf(one.map),
      );
    fill(
      maps,
      half("This kubelet", side, picture.element, why),
      half("The other one", other, otherPicture.element),
    );
  }

  async function remember() {
    const { now, at } = store;
    const word = await linkWord(now, at);
    if (now !== store.now || at !== store.at) return;
    left = { store, word };
    keepText(word ? "" : fileText(now, at));
    if (ended || location.hash !== address) return; // somebody goes elsewhere
    rewrite({ s: word });
    address = location.hash;
  }

  function toggleEditor(open = editing.hidden) {
    editing.hidden = !open;
    edit.setAttribute("aria-expanded", String(open));
    if (!open) edit.focus();
    if (open)
      editor
        .show(store.now.node.config ?? "", store.now.node)
        .then(() => editing.scrollIntoView({ block: "start" }));
  }

  let drawn = 0;
  const isOff = () => answer.side.map && Math.abs(answer.side.map.width - width()) > 60;
  function widthChanged() {
    const now = width();
    if (!answer || Math.abs(now - drawn) < 60) return;
    drawn = now;
    inTurn(() => isOff() && look(store.at)); // whoever goes to another step meanwhile gets there
  }

  // --- opening --------------------------------------------------------------------------------------

  function open() {
    openDialog(opening, (empty = false) => {
      const fresh = example();
      const scenario = empty ? { ...fresh, name: "", steps: [] } : fresh;
      return change(empty ? "an empty scenario" : "the example", () => [scenario, scenario.steps.length]);
    });
  }

  function opening({ scenario, at }) {
    return change(`open ${scenario.name || "a scenario"}`, () => [scenario, at]);
  }

  async function dropped(list) {
    try {
      const files = await readFiles(list);
      if (files.length) take(files);
    } catch (error) {
      fill(wrong, problemNotice(error));
      wrong.scrollIntoView({ block: "nearest" });
    }
  }

  /** A scenario is opened, a configuration taken over; pods come as the next steps. */
  function take(files) {
    const names = (some) => some.map((file) => file.name).join(", ");
    const whole = files.find((file) => /"kind":\s*"Scenario"/.test(file.text ?? ""));
    if (whole && files.length > 1)
      throw new Problem({ detail: `${whole.name} is a whole scenario`, advice: "drop it alone" });
    if (whole) return opening(readFile(whole.text));
    const strange = files.find(
      (file) => file.text === undefined || (file.text.trim() && !/\bkind\b/.test(file.text)),
    );
    if (strange)
      throw new Problem({
        detail: `${strange.name} is neither a scenario, a kubelet configuration nor pods`,
        advice: "machines, bundles and state files are given under Node, “From files…”",
      });
    const configs = files.filter(isConfig);
    if (configs.length > 1)
      throw new Problem({
        detail: `${names(configs)} are ${configs.length} kubelet configurations, and a node has one`,
        advice: "drop one of them; the other can be put beside it under “Compare with”",
      });
    const pods = files.filter((file) => !configs.includes(file));
    const config = configs[0]?.text;
    return change(
      names(files),
      (now, at) => {
        const added = pods.reduce(
          (before, file, number) => withStep(before, at + number, { add: { text: file.text } }),
          now,
        );
        return [config === undefined ? added : withNode({ config })(added, at)[0], at + pods.length];
      },
      pods.map((file) => file.name),
    );
  }

  function keys(event) {
    const writing =
      event.target instanceof HTMLElement &&
      event.target.matches('input:not([type="checkbox"]), textarea:not([data-given])');
    if (writing || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key === "z" || key === "y") {
      event.preventDefault();
      travel(key === "y" || event.shiftKey ? "redo" : "undo");
    }
  }

  return {
    /**
     * @param {import("../what_if/store.js").Opened | null} opened to go on with, where something was left here
     */
    async start(opened) {
      machine = await machineChoice({ overview, onNode: (part, words) => change(words, withNode(part)) });
      fill(node, machine.element);
      if (opened && JSON.stringify(opened.scenario) !== JSON.stringify(store.now)) await opening(opened);
      if (answer || ended) return;
      try {
        answer = await ask(store.now, store.at);
        show();
      } catch (error) {
        if (isAbort(error)) return;
        refuse(error, store.now, store.at, "open it");
        fill(detail, h("p", { class: "hint" }, "There is nothing to show as long as it cannot be played."));
        add(wrong, [
          h(
            "div",
            { class: "row" },
            button("Show the example", () =>
              change("the example", () => [example(), example().steps.length]),
            ),
          ),
        ]);
      }
    },
    end() {
      ended = true;
      controller.abort();
      observer.disconnect();
      fits.end();
      removeEventListener("keydown", keys);
    },
  };
}
