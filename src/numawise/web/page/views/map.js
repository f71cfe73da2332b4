import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "Map",
  mount(root) {
    fill(root, viewHead("Map", ""), emptyState("Nothing is shown here yet", ""));
  },
};
