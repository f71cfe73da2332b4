// The names of the catalogue, offered where the name of a machine can be typed.
import { get } from "./api.js";
import { fill, freshId, h } from "./dom.js";

/**
 * A list for an input, asked for when somebody comes to type; it only helps: names can be typed without it.
 * @param {HTMLInputElement} input
 * @returns {HTMLDataListElement}
 */
export function machineNames(input) {
  const list = h("datalist", { id: freshId("machines") });
  const options = ({ machines }) => machines.map((one) => h("option", { value: one.name }, one.summary));
  const load = () =>
    get("machines").then(
      (all) => fill(list, options(all)),
      () => {},
    );
  input.setAttribute("list", list.id);
  input.addEventListener("focus", load, { once: true });
  return list;
}
