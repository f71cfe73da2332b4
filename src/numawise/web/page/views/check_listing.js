// A file as an editor shows it, with findings below the lines they are about. Runs of lines without findings
// are two
// blocks of text each, so that thousands of lines are a handful of elements.
import { add, h } from "../core/dom.js";
import { badge, button, codeBlock, copyButton } from "../core/ui.js";
import { changes, linesOf, offset } from "./check_text.js";

const RUN = 200;
const ROW = 20; // pixels of a line, as the style has it
const MANY = 40;
const LONGEST_LINE = 20_000;
export const KINDS = { error: "no", warning: "warn", info: "info" };
export const WORDS = { error: "error", warning: "warning", info: "note" };

/**
 * @param {{name: string, text?: string}} file
 * @param {any[]} findings those of the file that are shown, each with its number
 * @param {(correction: any) => void} onApply
 * @param {(name: string) => string | undefined} textOf of any file: a correction may be of another one
 */
export function listing(file, findings, onApply, textOf) {
  const text = file.text ?? "";
  const lines = file.text === undefined ? [] : linesOf(text);
  const digits = String(lines.length).length;
  const at = new Map();
  for (const finding of findings) {
    const line = finding.line && finding.line <= lines.length ? finding.line : 0;
    at.set(line, [...(at.get(line) ?? []), finding]);
  }
  const later = findings.length > MANY ? whenNear() : null;
  const cards = (line) => (at.get(line) ?? []).map((finding) => card(finding, textOf, onApply, later));
  const parts = cards(0);
  let from = 1;
  for (const line of [...at.keys()].filter(Boolean).sort((a, b) => a - b)) {
    parts.push(...runs(lines, from, line - 1, digits));
    parts.push(flagged(lines[line - 1], line, at.get(line), digits));
    parts.push(...cards(line));
    from = line + 1;
  }
  parts.push(...runs(lines, from, lines.length, digits));
  const label = `${file.name}, ${lines.length} lines, ${findings.length} findings`;
  return h("div", { class: "listing", role: "region", "aria-label": label, tabindex: "0" }, parts);
}

const top = (element) => element.getBoundingClientRect().top;
let settling = 0; // the last of them

/**
 * Scrolls by what something is off until the page stands still: what comes into sight gets its true height,
 * perhaps some frames later.
 */
function settle(off) {
  const own = ++settling;
  const next = (still, most) => {
    if (own !== settling) return;
    const from = scrollY;
    scrollBy({ top: off(), behavior: "instant" });
    const left = Math.abs(scrollY - from) < 1 ? still - 1 : 6;
    if (left && most) requestAnimationFrame(() => next(left, most - 1));
  };
  next(6, 40); // frames
}

/** Shows a card in the middle of the window. */
export function shownAmid(element) {
  settle(() => top(element) - Math.max(130, (innerHeight - element.offsetHeight) / 2));
}

/**
 * Where the first line with findings that is in sight stands: what it returns puts that line, or the next,
 * back there.
 */
export function keptPlace(body) {
  const rows = () => [...body.querySelectorAll("[data-line]")];
  const first = scrollY && rows().find((row) => top(row) > 0);
  if (!first) return () => {};
  const [line, before] = [Number(first.dataset.line), top(first)];
  return () =>
    settle(() => {
      const same = rows().find((row) => Number(row.dataset.line) >= line);
      return same ? top(same) - before : 0;
    });
}

/** Makes what belongs to a card once that is about to be seen: of hundreds, few ever are. */
function whenNear() {
  const makers = new WeakMap();
  const watcher = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        makers.get(target)();
      }
    },
    { rootMargin: "100% 0px" },
  );
  return (element, make) => (makers.set(element, make), watcher.observe(element));
}

function* runs(lines, first, last, digits) {
  for (let from = first; from <= last; from += RUN) {
    const to = Math.min(last, from + RUN - 1);
    const numbers = [];
    for (let line = from; line <= to; line += 1) numbers.push(String(line).padStart(digits));
    const far = lines.length > 2 * RUN; // what is not seen need not be laid out
    const block = row(
      numbers.join("\n"),
      lines
        .slice(from - 1, to)
        .map(cut)
        .join("\n"),
      far ? "code-run code-far" : "code-run",
    );
    if (far) block.style.setProperty("contain-intrinsic-size", `auto ${(to - from + 1) * ROW}px`);
    yield block;
  }
}

function row(numbers, text, kind) {
  return h(
    "div",
    { class: kind },
    h("pre", { class: "code-numbers", "aria-hidden": "true" }, numbers),
    h("pre", { class: "code-text" }, text),
  );
}

function cut(line) {
  const plain = line.endsWith("\r") ? line.slice(0, -1) : line;
  return plain.length > LONGEST_LINE ? `${plain.slice(0, LONGEST_LINE)}…` : plain;
}

/** A line with findings; what the first certain correction replaces in it is marked. */
function flagged(line, number, findings, digits) {
  const gravest = ["error", "warning", "info"].find((one) =>
    findings.some((finding) => finding.severity === one),
  );
  const edit = findings
    .flatMap((finding) => (finding.corrections ?? []).slice(0, 1))
    .flatMap((way) => way.edits)
    .find((one) => one.startLine === number && one.endLine === number && one.endColumn > one.startColumn);
  const shown = cut(line);
  const text = h("pre", { class: "code-text" });
  if (edit && shown.length <= LONGEST_LINE) {
    const [start, end] = [offset(line, edit.startColumn), offset(line, edit.endColumn)];
    text.append(shown.slice(0, start), h("mark", null, shown.slice(start, end)), shown.slice(end));
  } else text.append(shown);
  const numbers = h("pre", { class: "code-numbers", "aria-hidden": "true" }, String(number).padStart(digits));
  return h("div", { class: `code-run code-flagged code-${gravest}`, "data-line": number }, numbers, text);
}

/** A finding in full, with the ways to mend it. */
function card(finding, textOf, onApply, later) {
  const where = finding.line ? `line ${finding.line}` : finding.file || "";
  const label = `${WORDS[finding.severity]} ${finding.code}${where && `, ${where}`}`;
  const ways = finding.corrections ?? [];
  const said = h(
    "div",
    { class: "stack-small" },
    h(
      "div",
      { class: "finding-head" },
      badge(KINDS[finding.severity], WORDS[finding.severity]),
      h("strong", null, finding.code),
      h("span", null, finding.title),
      where && h("span", { class: "finding-where" }, where),
    ),
    h("p", { class: "finding-message" }, finding.message),
    finding.kubelet &&
      h("p", { class: "finding-kubelet" }, "The kubelet would say: ", h("q", null, finding.kubelet)),
    h(
      "dl",
      { class: "facts" },
      finding.why && [h("dt", null, "Why"), h("dd", null, finding.why)],
      finding.fix && [h("dt", null, "Fix"), h("dd", null, finding.fix)],
    ),
    finding.manifest &&
      h(
        "div",
        { class: "stack-small" },
        codeBlock(finding.manifest, "An object to paste"),
        h("div", { class: "row" }, copyButton(finding.manifest)),
      ),
  );
  const mends = ways.length ? h("div", { class: "corrections" }) : null;
  const element = h(
    "article",
    {
      class: `finding finding-${finding.severity} ${later ? "finding-far" : ""}`.trim(),
      "data-finding": finding.number,
      "aria-label": label,
      tabindex: "-1",
    },
    said,
    mends,
  );
  const make = () =>
    add(
      mends,
      ways.map((way, at) =>
        correction(finding, way, textOf, onApply, ways.length > 1 && !ways[0].certain ? at + 1 : 0),
      ),
    );
  if (mends && later) later(element, make);
  else if (mends) make();
  return element;
}

function correction(finding, way, textOf, onApply, choice) {
  const kind = way.certain ? "primary" : "";
  const files = [...new Set(way.edits.map((edit) => edit.file))];
  const apply = button("Apply", () => onApply(way), {
    kind,
    small: true,
    "aria-label": `Apply to ${files.join(" and ")}: ${way.title}`,
  });
  const where = files.some((name) => name !== finding.file) ? ` in ${files.join(" and ")}` : "";
  const words = h(
    "span",
    null,
    `${way.certain ? "" : choice ? `Choice ${choice}: ` : "If you agree: "}${way.title}${where}`,
  );
  const shown = files
    .filter((name) => textOf(name) !== undefined)
    .map((name) =>
      preview(
        textOf(name),
        way.edits.filter((edit) => edit.file === name),
      ),
    );
  return h("div", { class: "correction" }, h("div", { class: "row" }, apply, words), shown);
}

function preview(text, edits) {
  const rows = changes(text, edits).flatMap(({ removed, added }) => [
    ...removed.map((words) => difference("−", words, "gone")),
    ...added.map((words) => difference("+", words, "new")),
  ]);
  return rows.length
    ? h("div", { class: "difference", role: "group", "aria-label": "What changes", tabindex: "0" }, rows)
    : null;
}

function difference(mark, words, kind) {
  return h("pre", { class: `difference-${kind}` }, `${mark} ${words.replace(/\r$/, "")}`);
}
