import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "Why",
  mount(root) {
    fill(root, viewHead("Why", ""), emptyState("Nothing is shown here yet", ""));
  },
};
