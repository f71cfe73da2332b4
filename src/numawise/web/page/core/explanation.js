// One explanation: the answer, the decision step by step beside the map, and what would help, each to be
// tried.
import { isAbort, newest } from "./api.js";
import { announce, fill, freshId, h } from "./dom.js";
import { hintTable } from "./hint_table.js";
import { numbers } from "./picture.js";
import { stepPicture } from "./step_picture.js";
import { allow, badge, button, codeBlock, copyButton, notice, panel, problemNotice } from "./ui.js";

const KINDS = {
  admitted: "yes",
  rejected: "no",
  crashed: "no",
  "not started": "no",
  infeasible: "no",
  "not scheduled": "warn",
  deferred: "warn",
  "not known": "warn",
};

/** A verdict as a word with a mark. */
export function verdictBadge(verdict) {
  return badge(KINDS[verdict] ?? "plain", verdict);
}

/**
 * An explanation as an element.
 *
 * `answer` is what POST why answers (or an explanation alone, as `why -o json` has it). `onTry` gives what
 * POST why/try answers for the number of a suggestion; without it nothing can be tried, and `untried` says why.
 * `onOpen` goes on with the pod in What if.
 * @param {any} answer
 * @param {{onTry?: (suggestion: number, signal: AbortSignal) => Promise<any>, onOpen?: (() => void) | null, untried?: string, level?: number}} [options]
 * @returns {HTMLElement}
 */
export function explanationView(answer, { onTry, onOpen, untried = "", level = 2 } = {}) {
  const whole = answer.answer === undefined ? answer : { explanation: answer };
  const found = whole.explanation;
  if (!found) return h("div");
  return h(
    "div",
    { class: "stack explanation" },
    answerPanel(found, level, onOpen),
    found.walk?.steps.length ? stepsPanel(whole, level) : null,
    suggestionsPanel(whole, onTry, untried, level),
    (found.manifests ?? []).map((text) =>
      panel("A claim whose devices stay together", [codeBlock(text, "Claim"), copyButton(text)], { level }),
    ),
    (found.findings ?? []).map((one) => notice("warn", one.text, one.code)),
  );
}

function sentence(words) {
  return /[.!?…]$/.test(words) ? words : `${words}.`;
}

function answerPanel(found, level, onOpen) {
  const name =
    found.namespace && found.namespace !== "default" ? `${found.namespace}/${found.name}` : found.name;
  const said =
    found.reason && !["admitted", "not started"].includes(found.verdict)
      ? `The kubelet ${found.said ? "says" : "would say"}: ${found.reason}: ${found.message}`
      : "";
  const lines = [
    h("p", { class: "answer" }, sentence(found.answer)),
    (found.remarks ?? []).map((words) => h("p", { class: "remark" }, sentence(words))),
    said && h("p", { class: "said" }, said),
  ];
  return panel(name || "Answer", h("div", { class: "stack-small" }, lines), {
    level,
    actions: [
      verdictBadge(found.verdict),
      found.qos && badge("plain", found.qos),
      onOpen && button("Open in What if", onOpen, { small: true }),
    ],
  });
}

function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

// --- steps ---------------------------------------------------------------------------------------

function stepsPanel(whole, level) {
  const { walk } = whole.explanation;
  const { steps } = walk;
  const picture = whole.before ? stepPicture(`Map of ${whole.before.name || "the node"}`) : null;
  const several = new Set(steps.map((step) => step.container).filter(Boolean)).size > 1;
  const items = steps.map((step, at) => stepItem(step, at, walk, several, () => go(at, true)));
  const list = h(
    "ol",
    { class: "steps" },
    items.map((item) => item.element),
  );
  const count = h("span", { class: "step-count" });
  const back = button("Previous", () => walkTo(now - 1), { small: true });
  const next = button("Next", () => walkTo(now + 1), { small: true, kind: "primary" });
  const all = button("All at once", () => everything(!together), { small: true, "aria-pressed": "false" });
  let now = -1;
  let together = false;
  function go(at, focus = false) {
    if (at < 0 || at >= steps.length) return;
    now = at;
    items.forEach((item, number) => item.open(together || number === at, number === at, number < at));
    count.textContent = `Step ${at + 1} of ${steps.length}`;
    allow(back, at > 0);
    allow(next, at < steps.length - 1);
    if (focus) items[at].focus();
    if (!picture) return;
    const last = steps[at].kind === "outcome" && whole.after;
    picture.show(last ? whole.after : whole.before);
    picture.mark(steps[at], whole.drawn ?? {}, steps.slice(0, at));
  }
  /** Go there, and let the step be seen where it stands beside the map. */
  function walkTo(at) {
    go(at);
    announce(`${count.textContent}: ${items[now].title}. ${steps[now].text}`);
    if (list.offsetWidth < body.offsetWidth) items[now].element.scrollIntoView({ block: "nearest" });
  }
  function everything(on) {
    together = on;
    all.setAttribute("aria-pressed", String(on));
    go(now);
  }
  function keys(event) {
    const step = {
      ArrowDown: 1,
      ArrowRight: 1,
      ArrowUp: -1,
      ArrowLeft: -1,
      Home: -now,
      End: steps.length - 1 - now,
    }[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!event.target.closest(".step-head")) return;
    event.preventDefault();
    go(now + step, true);
  }
  list.addEventListener("keydown", keys);
  go(0);
  const body = h(
    "div",
    { class: picture ? "walk" : "walk walk-alone" },
    h("div", { class: "walk-steps" }, list),
    picture && h("div", { class: "walk-map" }, picture.element),
  );
  return panel("Step by step", body, {
    level,
    actions: [count, h("div", { class: "walk-buttons" }, back, next, all)],
    class: "walk-panel",
  });
}

const MARKS = { true: "✓", false: "✕", null: "" };

function stepItem(step, at, walk, several, choose) {
  const id = freshId("step");
  const round = step.round === null ? null : walk.rounds[step.round];
  const title =
    step.kind === "merge" ? `${step.title}: ${round.narrowing[step.narrowing].resource}` : step.title;
  const told =
    step.kind === "outcome" || (step.kind === "hints" && round?.hints.length) ? "" : sentence(step.text);
  const mark = h(
    "span",
    {
      class: `step-mark ${step.ok === true ? "step-yes" : step.ok === false ? "step-no" : ""}`.trim(),
      "aria-hidden": "true",
    },
    MARKS[String(step.ok)] || String(at + 1),
  );
  const whose =
    several && step.container && !step.title.includes(step.container)
      ? h("span", { class: "step-whose" }, step.container)
      : null;
  const head = h(
    "button",
    { type: "button", class: "step-head", "aria-expanded": "false", "aria-controls": id, onclick: choose },
    mark,
    h(
      "span",
      { class: "step-words" },
      h("span", { class: "step-title" }, title),
      told && h("span", { class: "step-text" }, told),
    ),
    whose,
    step.ok === false && h("span", { class: "only-read" }, "refused here"),
  );
  const body = h("div", { class: "step-body stack-small", id, hidden: true });
  const element = h("li", { class: `step step-${step.kind}` }, head, body);
  let made = false;
  return {
    element,
    title,
    focus: () => head.focus(),
    open(shown, current, passed) {
      if (shown && !made) {
        made = true;
        fill(body, stepBody(step, round));
      }
      body.hidden = !shown || !body.childNodes.length;
      head.setAttribute("aria-expanded", String(shown));
      element.classList.toggle("step-current", current);
      element.classList.toggle("step-passed", passed);
      if (current) head.setAttribute("aria-current", "step");
      else head.removeAttribute("aria-current");
    },
  };
}

function stepBody(step, round) {
  const parts = [];
  if (step.kind === "hints" && round?.hints.length) parts.push(hintTable(round));
  if (step.kind === "merge" && round) parts.push(hintTable(round, step.narrowing));
  if (step.rule) parts.push(h("p", { class: "step-rule" }, `Rule: ${sentence(step.rule)}`));
  if (step.kind === "cpus" && step.wanted) parts.push(progress(step));
  return parts;
}

/** How far a container is with its CPUs, after a pass. */
function progress(step) {
  const before = numbers(step.before).length;
  const now = numbers(step.cpus).length;
  const asked = before + step.wanted;
  const part = (size, kind) => {
    const bar = h("span", { class: `taken taken-${kind}` });
    bar.style.setProperty("width", `${(100 * size) / asked}%`);
    return bar;
  };
  return h(
    "div",
    { class: "row" },
    h("div", { class: "taken-bar grow", "aria-hidden": "true" }, part(before, "before"), part(now, "now")),
    h("span", { class: "hint-note" }, `${before + now} of ${asked} CPUs`),
  );
}

// --- what would help -----------------------------------------------------------------------------

const GOALS = {
  "not started": "the kubelet starts",
  deferred: "the pod has its new size",
  infeasible: "the pod has its new size",
};

function suggestionsPanel(whole, onTry, untried, level) {
  const found = whole.explanation;
  if (found.suggestions === undefined) return null;
  if (!found.suggestions.length)
    return panel("What would help", h("p", null, "No single change was found that would help."), { level });
  const place = h("div", { class: "stack tried" });
  const tries = onTry && whole.tries ? (number) => tryIt(number) : null;
  const buttons = [],
    asking = newest();
  async function tryIt(number) {
    const chosen = buttons[number];
    for (const each of buttons) each.setAttribute("aria-pressed", "false");
    allow(chosen, false);
    try {
      const tried = await onTry(number, asking.next());
      chosen.setAttribute("aria-pressed", "true");
      fill(place, triedView(tried, whole.before));
      announce(`Afterwards: ${tried.explanation?.answer ?? "the kubelet starts"}. The map of it is below.`);
      place.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (!isAbort(error)) fill(place, problemNotice(error));
    } finally {
      allow(chosen, true);
    }
  }
  const items = found.suggestions.map((one, number) => {
    const action =
      tries &&
      button("Try it", () => tries(number), {
        small: true,
        "aria-pressed": "false",
        "aria-label": `Try it: ${one.text}`,
      });
    if (action) buttons.push(action);
    const patch = one.pod ?? one.kubelet;
    return h(
      "li",
      { class: "suggestion" },
      h(
        "div",
        { class: "grow stack-small" },
        h("p", null, sentence(one.text)),
        one.price && h("p", { class: "price" }, sentence(capital(one.price))),
        patch && patchView(patch, one.pod ? "pod" : "KubeletConfiguration"),
      ),
      action ?? (untried && h("span", { class: "hint-note" }, "Cannot be tried")),
    );
  });
  const goal = GOALS[found.verdict] ?? "the pod is admitted";
  return panel(
    "What would help",
    [
      h(
        "p",
        { class: "hint-note" },
        `After each of these ${goal}, as simulated; the smallest change comes first.`,
        untried && ` ${untried}`,
      ),
      h("ol", { class: "suggestions" }, items),
      place,
    ],
    { level },
  );
}

function patchView(patch, of) {
  const lines = patch.map(
    (one) =>
      `${one.op} ${one.path}${one.value === undefined ? "" : ` = ${typeof one.value === "string" ? one.value : JSON.stringify(one.value)}`}`,
  );
  const summary = h("summary", null, `Edit of the ${of}`);
  return h(
    "details",
    { class: "patch" },
    summary,
    h(
      "div",
      { class: "stack-small" },
      codeBlock(lines.join("\n"), "JSON Patch"),
      h("div", { class: "row" }, copyButton(JSON.stringify(patch, null, 2), "Copy as JSON Patch")),
    ),
  );
}

/** What a suggestion leads to: the answer then, and the map. */
function triedView(tried, before) {
  const found = tried.explanation;
  const picture = stepPicture("The map afterwards");
  const title = h("h3", { class: "tried-title" }, "Afterwards: ", tried.suggestion.text);
  const first = found
    ? [verdictBadge(found.verdict), h("span", { class: "grow" }, sentence(found.answer))]
    : [badge("yes", "started"), h("span", { class: "grow" }, "The kubelet starts.")];
  picture.show(tried.after);
  const outcome = found?.walk?.steps.at(-1) ?? null;
  picture.mark(outcome, tried.drawn ?? {});
  const compare =
    before &&
    button(
      "Show the map before",
      () => {
        const shown = compare.getAttribute("aria-pressed") === "true";
        compare.setAttribute("aria-pressed", String(!shown));
        picture.show(shown ? tried.after : before);
        picture.mark(shown ? outcome : null, tried.drawn ?? {});
      },
      { small: true, "aria-pressed": "false" },
    );
  return [
    title,
    h("div", { class: "row tried-answer" }, first),
    compare && h("div", { class: "row" }, compare),
    picture.element,
  ];
}
