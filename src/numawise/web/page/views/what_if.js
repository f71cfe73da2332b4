import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "What if",
  mount(root) {
    fill(root, viewHead("What if", ""), emptyState("Nothing is shown here yet", ""));
  },
};
