import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "Check",
  mount(root) {
    fill(root, viewHead("Check", ""), emptyState("Nothing is shown here yet", ""));
  },
};
