// The time line: every step with its verdict; one is looked at, and arrow keys go from one to the next.
import { fill, h } from "../core/dom.js";
import { allow, button } from "../core/ui.js";

export const KINDS = {
  admitted: "yes",
  done: "plain",
  rejected: "no",
  crashed: "no",
  lost: "no",
  "does not start": "no",
  preempted: "warn",
  "not known": "warn",
  removed: "plain",
  started: "yes",
  resized: "yes",
  deferred: "warn",
  infeasible: "no",
  refused: "no",
};
const MARKS = { yes: "✓", no: "✕", warn: "!", plain: "·" };

/**
 * @param {{onGo: (at: number, focus?: boolean) => void, onUndo: () => void, onRedo: () => void, onRemove: (number: number) => void}} options
 */
export function timeline({ onGo, onUndo, onRedo, onRemove }) {
  const list = h("ol", { class: "what-line", "aria-label": "Steps", onkeydown: keys });
  const undo = button("Undo", onUndo, { small: true });
  const redo = button("Redo", onRedo, { small: true });
  const before = button("Back", () => onGo(at - 1), { small: true, "aria-label": "One step back" });
  const next = button("Forward", () => onGo(at + 1), { small: true, "aria-label": "One step forward" });
  const drop = button("Delete step", () => onRemove(at), { small: true, kind: "quiet" });
  const summary = h("p", { class: "what-summary", role: "status" });
  const bar = h(
    "div",
    { class: "row what-bar" },
    h("div", { class: "row", role: "group", "aria-label": "History" }, undo, redo),
    h("div", { class: "row", role: "group", "aria-label": "Steps" }, before, next, drop),
    summary,
  );
  const element = h("div", { class: "stack-small" }, bar, list);
  let at = 0;
  let count = 0;
  for (const each of [undo, redo, before, next, drop]) allow(each, false);

  function keys(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const end = { Home: 0, End: count }[event.key];
    if (step === undefined && end === undefined) return;
    event.preventDefault();
    onGo(end ?? at + step, true);
  }

  /**
   * @param {{steps: any[], chosen: number, marks: Map<number, string>, summary: string, undoWords: string, redoWords: string, total: number}} state
   */
  function show({ steps, chosen, marks, summary: words, undoWords, redoWords, total }) {
    at = chosen;
    count = steps.length;
    const place = (number, verdict, title, time, more) => {
      const kind = KINDS[verdict] ?? "plain";
      const here = number === at;
      return h(
        "li",
        null,
        h(
          "button",
          {
            type: "button",
            class: `what-step what-step-${kind}`,
            "aria-current": here ? "step" : null,
            tabindex: here ? "0" : "-1",
            onclick: () => onGo(number),
          },
          h(
            "span",
            { class: "what-step-number" },
            number ? `${number}` : "",
            number && time ? ` · ${time}` : "",
          ),
          h("span", { class: "what-step-title", title }, title),
          h("span", { class: "what-step-verdict" }, number ? `${MARKS[kind]} ${verdict}` : "as given"),
          more && h("span", { class: "what-step-more" }, more),
        ),
      );
    };
    fill(
      list,
      place(0, "", "Start", "", ""),
      steps.map((step) =>
        place(step.number, step.verdict, step.title, step.at, marks.get(step.number) ?? ""),
      ),
    );
    allow(undo, undoWords);
    allow(redo, redoWords);
    undo.title = undoWords ? `Undo: ${undoWords} (Ctrl+Z)` : "";
    redo.title = redoWords ? `Redo: ${redoWords} (Ctrl+Shift+Z)` : "";
    allow(before, at > 0);
    allow(next, at < count);
    allow(drop, at > 0);
    summary.textContent = total > count ? `${words}; ${total - count} steps never came` : words;
    list.querySelector('[aria-current="step"]')?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Whoever went by keys is at the step that is shown now, unless they are elsewhere already. */
  function focus() {
    const here = document.activeElement;
    if (here === document.body || element.contains(here))
      list.querySelector('[aria-current="step"]')?.focus();
  }

  return { element, show, focus };
}
