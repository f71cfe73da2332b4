import { fill } from "../core/dom.js";
import { emptyState, viewHead } from "../core/ui.js";

export default {
  title: "Box",
  mount(root) {
    fill(root, viewHead("Box", ""), emptyState("Nothing is shown here yet", ""));
  },
};
