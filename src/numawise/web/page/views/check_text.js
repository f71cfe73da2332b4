// Edits of a text as the server gives them: lines and columns count from 1, in characters, without the end.

/** @typedef {{file: string, startLine: number, startColumn: number, endLine: number, endColumn: number, text: string}} TextEdit */

const PAIRS = /[\ud800-\udfff]/;

/** The lines of a text; that it ends with a line end makes no line. */
export function linesOf(text) {
  const lines = text.split("\n");
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  return lines;
}

/** Where a column is in a line, in the units that JavaScript counts in. */
export function offset(line, column) {
  if (!PAIRS.test(line)) return column - 1;
  return Array.from(line)
    .slice(0, column - 1)
    .join("").length;
}

/**
 * A text after some edits.
 * @param {string} text
 * @param {TextEdit[]} edits
 */
export function applied(text, edits) {
  const lines = text.split("\n");
  const begins = [0];
  for (const line of lines) begins.push(begins[begins.length - 1] + line.length + 1);
  const index = (line, column) => begins[line - 1] + offset(lines[line - 1], column);
  const sorted = [...edits].sort((a, b) => a.startLine - b.startLine || a.startColumn - b.startColumn);
  let done = 0;
  let result = "";
  for (const edit of sorted) {
    result += text.slice(done, index(edit.startLine, edit.startColumn)) + edit.text;
    done = index(edit.endLine, edit.endColumn);
  }
  return result + text.slice(done);
}

/**
 * What a correction changes: lines that go and lines that come, at most so many.
 * @param {string} text
 * @param {TextEdit[]} edits
 * @returns {{removed: string[], added: string[]}[]}
 */
export function changes(text, edits, most = 12) {
  const before = split(text);
  return edits.map((edit) => {
    const first = before[edit.startLine - 1];
    const last = before[edit.endLine - 1];
    const middle =
      first.slice(0, offset(first, edit.startColumn)) + edit.text + last.slice(offset(last, edit.endColumn));
    const removed = before.slice(edit.startLine - 1, edit.endLine);
    const added = middle.split("\n");
    while (removed.length && added.length && removed[0] === added[0]) {
      removed.shift();
      added.shift();
    }
    while (removed.length && added.length && removed[removed.length - 1] === added[added.length - 1]) {
      removed.pop();
      added.pop();
    }
    return { removed: shortened(removed, most), added: shortened(added, most) };
  });
}

let known = { text: "", lines: [""] };
/** The lines of a text that is asked about again and again. */
function split(text) {
  if (known.text !== text) known = { text, lines: text.split("\n") };
  return known.lines;
}

const LONGEST = 400;

function shortened(lines, most) {
  const cut = lines.map((line) => (line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line));
  return cut.length > most ? [...cut.slice(0, most), `… ${cut.length - most} more lines`] : cut;
}
