// Files that people drop or choose: read here, sent as text, or in base64 where they are no text.
import { Problem } from "./api.js";
import { fill, h } from "./dom.js";
import { problemNotice } from "./ui.js";

export const LARGEST = 11 * 1024 * 1024; // in base64 it still fits into a request
const MOST = 64;
const MARK = "\ufeff";

/** @typedef {{name: string, text?: string, mark?: string, base64?: string, size: number}} GivenFile mark: what stands before the text and is no part of it */

/**
 * A place to drop files on, with a button that chooses them; what is wrong with them is said below.
 * @param {{label: string, hint?: string, accept?: string, multiple?: boolean, read?: typeof readFiles, onFiles: (files: GivenFile[]) => any}} options
 */
export function dropZone({ label, hint = "", accept = "", multiple = true, read = readFiles, onFiles }) {
  const input = h("input", {
    type: "file",
    accept,
    multiple,
    "aria-label": label,
    tabindex: "-1",
    onchange: () => take(input.files),
  });
  const place = h("div", { class: "drop-wrong" });
  const choose = h(
    "button",
    { class: "button", type: "button", onclick: () => input.click() },
    "Choose files…",
  );
  const zone = h(
    "div",
    { class: "drop" },
    h("p", null, h("strong", null, label)),
    hint && h("p", { class: "hint" }, hint),
    h("p", { class: "row drop-row" }, choose, input),
    place,
  );
  async function take(list) {
    try {
      const files = await read(list);
      input.value = "";
      fill(place);
      if (files.length) await onFiles(files);
    } catch (error) {
      fill(place, problemNotice(error));
    }
  }
  acceptDrops(zone, take);
  return zone;
}

/** Let files be dropped on any element. */
export function acceptDrops(element, take) {
  let depth = 0;
  const over = (change) => {
    depth = Math.max(0, depth + change);
    element.classList.toggle("drop-over", depth > 0);
  };
  element.addEventListener("dragenter", (event) => (event.preventDefault(), over(1)));
  element.addEventListener("dragleave", () => over(-1));
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    depth = 0;
    over(0);
    take(event.dataTransfer?.files ?? []);
  });
}

/**
 * @param {FileList | File[]} list
 * @param {((file: File) => Promise<GivenFile>) | null} large reads files that are too much for a request
 * @returns {Promise<GivenFile[]>}
 */
export async function readFiles(list, large = null) {
  const files = [...(list ?? [])];
  if (files.length > MOST)
    throw new Problem({ detail: `${files.length} files are too many`, advice: `drop at most ${MOST}` });
  const largest = files.reduce((most, file) => (file.size > most.size ? file : most), files[0]);
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > LARGEST && large) {
    const read = [];
    for (const file of files) read.push(await large(file));
    return read;
  }
  if (size > LARGEST)
    throw new Problem({
      detail: `${largest.name} is too large: ${Math.ceil(size / 2 ** 20)} MiB in all`,
      advice: `drop at most ${LARGEST >> 20} MiB`,
    });
  return Promise.all(files.map(readFile));
}

async function readFile(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    if (!bytes.subarray(0, 4096).includes(0)) {
      const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
      const mark = text.startsWith(MARK) ? MARK : "";
      return { name: file.name, size: bytes.length, text: text.slice(mark.length), mark };
    }
  } catch {
    // no text in UTF-8: sent as it is
  }
  return { name: file.name, size: bytes.length, base64: base64(bytes) };
}

/** Bytes as text that a request can carry. */
export function base64(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 0x8000)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  return btoa(parts.join(""));
}

/** What a request carries of a file. */
export function given({ name, text, base64 }) {
  return text !== undefined ? { name, text } : { name, base64 };
}

/** Whether a file is a kubelet configuration. */
export const isConfig = (file) =>
  /^\s*["']?kind["']?:\s*["']?KubeletConfiguration\b|"kind":\s*"KubeletConfiguration"/m.test(file.text ?? "");

/** Let the browser save a text as a file; one that is called text gets .txt behind its name. */
export function download(name, text, media = "application/octet-stream") {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: media })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
