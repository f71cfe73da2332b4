// Elements out of values. Text is only ever text: nothing here reads markup, but for drawings of our own
// server.

/** @typedef {Node | string | number | null | undefined | false} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Attributes that begin with `on` are listeners; `true` sets an attribute without a value, `false`,
 * `null` and `undefined` leave it out; `value`, `checked` and `selected` are properties.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/**
 * An element of a drawing.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate"]);

function build(element, attributes, children) {
  add(element, children);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  return element;
}

/** Add children, however deep their lists are. */
export function add(element, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/**
 * Put these in the place of what is inside; whoever was at one of the old by keyboard is at its successor.
 */
export function fill(element, ...children) {
  const here = document.activeElement;
  const left =
    here instanceof HTMLElement && here !== element && element.contains(here) ? calledBy(here) : "";
  element.replaceChildren();
  add(element, children);
  if (left)
    [...element.querySelectorAll(here.tagName)]
      .find((one) => calledBy(one) === left)
      ?.focus({ preventScroll: true });
  return element;
}

const calledBy = (element) =>
  element.getAttribute("aria-label") ?? (element.labels?.[0] ?? element).textContent;

/**
 * A drawing that our own server made: parsed as XML, so that nothing in it runs; whatever is neither a shape nor a
 * text, and every attribute that could act, is taken out all the same.
 * @param {string} text
 * @returns {SVGSVGElement}
 */
export function importSvg(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  const root = parsed.documentElement;
  if (root.nodeName !== "svg") throw new Error("the drawing cannot be read");
  for (const element of [root, ...root.querySelectorAll("*")]) {
    if (!SHAPES.has(element.nodeName)) element.remove();
    for (const { name } of [...element.attributes]) {
      if (name.startsWith("on") || name === "href" || name === "xlink:href" || name === "style")
        element.removeAttribute(name);
    }
  }
  return /** @type {any} */ (document.importNode(root, true));
}

const SHAPES = new Set([
  "svg",
  "g",
  "title",
  "desc",
  "rect",
  "circle",
  "ellipse",
  "line",
  "path",
  "polyline",
  "polygon",
  "text",
  "tspan",
  "defs",
  "pattern",
  "clipPath",
  "use",
]);

/** A text whose lines may break behind commas, slashes and equals signs. */
export const breakable = (text) =>
  String(text)
    .split(/(?<=[,/=])/)
    .flatMap((part, at) => (at ? [h("wbr"), part] : [part]));

/** Say something to screen readers. */
export function announce(words) {
  const place = document.getElementById("announce");
  if (place) place.textContent = words;
}

/** A function that runs once things have been quiet for a while. */
export function later(milliseconds, action) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

let number = 0;
/** An id that no other element has. */
export function freshId(prefix = "n") {
  number += 1;
  return `${prefix}-${number}`;
}
