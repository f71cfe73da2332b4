// What the view begins with: a scenario of another view, of a link, of the visit before, or the example.
import { fill } from "../core/dom.js";
import { notice } from "../core/ui.js";
import { BASIC, example, REFUSED } from "./example.js";
import { keptText, readLink, scenarioStore } from "./store.js";

/**
 * What to begin with: what another view hands over or an address has, what was left here, or the example. What was
 * left is not lost: whatever is opened is a change of it, which can be undone.
 */
export async function beginning(params, left, messages) {
  let opened = null;
  try {
    if (params.scenario) opened = handedOver(params.scenario, messages);
    else if (params.s && params.s !== left?.word) opened = await readLink(params.s);
    else if (!left) opened = keptText();
  } catch (error) {
    fill(
      messages,
      notice(
        "no",
        `${error.message}.`,
        left ? "What you had here is as it was." : "The example is shown instead.",
      ),
    );
  }
  if (left) return { store: left.store, opened };
  return {
    store: opened ? scenarioStore(opened.scenario, opened.at) : scenarioStore(example(), REFUSED),
    opened: null,
  };
}

/** A scenario of another view; what it leaves out is filled in, and what it has to say is said. */
function handedOver({ remark = "", ...given }, messages) {
  if (remark) fill(messages, notice("info", remark));
  const scenario = { name: "", compare: null, ...given, node: configured(given.node) };
  return { scenario, at: scenario.steps.length };
}

/** A machine alone gets a configuration that starts on every machine. */
export function configured(node) {
  return node.served || node.config || node.files?.length ? node : { ...node, config: BASIC };
}
