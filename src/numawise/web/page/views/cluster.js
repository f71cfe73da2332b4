import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "Cluster",
  mount(root) {
    fill(root, viewHead("Cluster", ""), emptyState("Nothing is shown here yet", ""));
  },
};
