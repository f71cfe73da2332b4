// The cluster: all nodes as small maps, what fits, pods without a place; one node in full.
import { bytesText, grouped, percent, resourceTitle, shapeWords, sumText } from "../core/amounts.js";
import { get, oneAtATime, post } from "../core/api.js";
import { announce, fill, h, later } from "../core/dom.js";
import { acceptDrops, dropZone, given } from "../core/files.js";
import { readDumps } from "../core/large_dump.js";
import { button, codeBlock, dialog, notice, problemNotice, tabs, viewHead } from "../core/ui.js";
import { detailView, remarks } from "./cluster_detail.js";
import { fitsView } from "./cluster_fits.js";
import { nodesView } from "./cluster_nodes.js";
import { podsView } from "./cluster_pods.js";

const DUMP = "kubectl get nodes,pods,noderesourcetopologies -A -o json > dump.json";
const EXAMPLE = "example";
const NODES = 0;
/** What was looked at last, for whoever comes back from one node. */
let kept = nothing("");

function nothing(which) {
  return {
    which,
    board: null,
    tab: NODES,
    scroll: 0,
    filters: {
      search: "",
      selector: "",
      policy: "",
      least: 0,
      holes: "",
      sort: "name",
      look: "maps",
      shape: "",
    },
  };
}

export default {
  title: "Cluster",
  mount(root, { overview, params, navigate, live }) {
    const which = params.of ?? (overview.cluster ? "" : EXAMPLE);
    if (kept.which !== which) kept = nothing(which);
    const place = { root, navigate, live, which, unasked: !params.of && !overview.cluster };
    return params.node ? showNode(params.node, place) : showAll(place);
  },
};

function open(navigate, which, node) {
  kept.scroll = scrollY;
  navigate("/cluster", { ...(which && { of: which }), ...(node && { node }) });
}

function showNode(name, { root, navigate, live, which }) {
  const view = detailView({ name, which, navigate, root, onBack: () => open(navigate, which, "") });
  fill(root, view.element);
  scrollTo(0, 0);
  view.refresh();
  const silence = live.on("cluster", later(50, view.refresh));
  return () => {
    silence();
    view.end();
  };
}

function showAll({ root, navigate, live, which, unasked }) {
  const onOpen = (name) => open(navigate, which, name);
  const wrong = h("div", { class: "stack-small" }),
    said = h("div", { class: "stack-small" }),
    head = h("div"),
    cards = h("dl", { class: "totals" });
  const nodes = nodesView({
    onOpen,
    filters: kept.filters,
    onSelector: (selector) => {
      kept.filters.selector = selector;
      kept.board = null;
      refresh();
    },
  });
  const fits = fitsView({
    which,
    onShow: (shape) => {
      pages.show(NODES);
      nodes.mark(shape);
      pages.element.querySelector("[role=tab]").focus();
      announce(`nodes with a place for ${shapeWords(shape.name)}`);
    },
  });
  const pods = podsView({ which, navigate, onOpen, onCounts: counts });
  const pages = pageTabs(
    [
      ["Nodes", nodes.element],
      ["What fits", fits.element],
      ["Pods without a place", pods.element],
    ],
    kept.tab,
    (at) => {
      kept.tab = at;
      if (at) asked(at);
    },
  );
  let ended = false;
  const refresh = oneAtATime(ask);
  fill(
    root,
    head,
    h("div", { class: "stack" }, unasked && exampleNotice(), said, wrong, cards, pages.element),
  );
  acceptDrops(root, take);
  drawHead(null);
  const begun = kept.board !== null;
  if (begun) draw(kept.board);
  refresh().then(() => !begun || ended || scrollTo(0, kept.scroll));
  if (begun) requestAnimationFrame(() => scrollTo(0, kept.scroll));
  const silence = live.on(
    "cluster",
    later(30, () => {
      if (!ended) refresh();
      if (!ended && kept.tab) asked(kept.tab);
    }),
  );

  function asked(at) {
    (at === 1 ? fits : pods).refresh();
  }

  /** Ask for the rows that are newer; what was chosen meanwhile is asked for next. */
  async function ask() {
    try {
      const {
        board: before,
        filters: { selector },
      } = kept;
      const news = await get("cluster", { of: which, selector, since: before?.version });
      if (ended || selector !== kept.filters.selector) return;
      fill(wrong);
      draw(merged(before, news));
    } catch (error) {
      if (pages.element.hidden) drawHead(null, "No node is known.");
      fill(wrong, problemNotice(error));
    }
  }

  function draw(board) {
    kept.board = board;
    drawHead(board);
    fill(cards, totals(board));
    counts(board.waiting, board.refused);
    fits.setResources(board.resources);
    nodes.show(board);
    pages.title(NODES, `Nodes (${grouped(board.names.length)})`);
  }

  function counts(waiting, refused) {
    pages.title(2, `Pods without a place (${grouped(waiting + refused)})`);
  }

  function drawHead(board, words = "The nodes are being looked at…") {
    pages.element.hidden = !board;
    fill(
      head,
      viewHead(
        "Cluster",
        board ? `${board.summary}.` : words,
        board && sourceWords(board.source),
        button("Other data…", otherData),
      ),
    );
    fill(said, board && remarks(board.remarks));
  }

  async function take(list) {
    try {
      await drop(await readDumps(list, (words) => fill(wrong, notice("info", words))));
    } catch (error) {
      fill(wrong, problemNotice(error));
    }
  }

  async function drop(files) {
    if (ended) return; // another view was opened while they were read
    fill(wrong, notice("info", `${files.map((file) => file.name).join(", ")} is being read…`));
    const source = await post("cluster/dump", { files: files.map(given) });
    navigate("/cluster", { of: source.id });
  }

  function otherData() {
    const shown = dialog(
      "Show other nodes",
      h(
        "div",
        { class: "stack" },
        dropZone({
          label: "Drop a dump of a cluster",
          hint: "Nodes, pods and NodeResourceTopologies as kubectl prints them, in JSON of any size (what decides nothing is not sent) or in YAML up to 11 MiB.",
          read: async (list) => {
            shown.close();
            await take(list);
            return [];
          },
          onFiles: () => {},
        }),
        h("p", null, "Or start the server with your nodes:"),
        codeBlock(`numawise serve --cluster\n\n${DUMP}\nnumawise serve --nodes dump.json`, "Commands"),
        h(
          "div",
          { class: "row" },
          button("Show the example", () => {
            shown.close();
            navigate("/cluster", { of: EXAMPLE });
          }),
          which &&
            button("Show what is served", () => {
              shown.close();
              navigate("/cluster");
            }),
        ),
      ),
    );
  }

  function exampleNotice() {
    return notice(
      "info",
      "This is an example: no cluster is served here.",
      "Drop a dump of yours anywhere on this page, or start the server with a cluster.",
      h("div", { class: "row" }, button("Show my nodes…", otherData, { small: true })),
    );
  }

  return () => {
    ended = true;
    silence();
    pods.end();
    fits.end();
  };
}

/** A board with what is newer; rows that did not change are the same values. */
function merged(before, news) {
  const rows = new Map();
  const fresh = new Map(news.rows.map((row) => [row.name, row]));
  for (const name of news.names) {
    const row = fresh.get(name) ?? before?.rows.get(name);
    if (row) rows.set(name, row);
  }
  return { ...news, rows };
}

function sourceWords(source) {
  const words = { cluster: "Cluster at", files: "From", example: "An example" }[source.kind] ?? "";
  const time =
    source.read &&
    h("time", { datetime: source.read }, `, as of ${source.read.replace("T", " ").replace("Z", " UTC")}`);
  return h(
    "p",
    { class: "quiet-words source-words" },
    words,
    source.kind !== "example" && [" ", h("strong", null, source.name)],
    source.kind === "files" && time,
  );
}

function totals(board) {
  const one = (title, large, small, kind = "") =>
    h(
      "div",
      { class: `total ${kind}`.trim() },
      h("dt", null, title),
      h("dd", null, h("strong", null, large), small && h("span", null, ` ${small}`)),
    );
  const amounts = board.totals
    .filter((total) => total.whole)
    .map((total) =>
      one(
        `${resourceTitle(total.resource)} free`,
        sumText(total.resource, total.free),
        `of ${sumText(total.resource, total.whole)}`,
      ),
    );
  const holes = board.holes
    .filter((each) => each.free)
    .map((each) =>
      one(
        `Free ${resourceTitle(each.unit)} of no use`,
        percent(each.fragmented ?? 0),
        `${each.unit === "memory" ? bytesText(each.holes) : sumText(each.unit, each.holes)} of ${sumText(each.unit, each.free)}`,
        (each.fragmented ?? 0) >= 0.5 ? "total-warn" : "",
      ),
    );
  return [
    ...amounts,
    ...holes,
    one(
      "Pods without a place",
      grouped(board.waiting + board.refused),
      `${grouped(board.waiting)} ${board.waiting === 1 ? "waits" : "wait"}, ${grouped(board.refused)} refused`,
    ),
  ];
}

/** Tabs whose titles change; each content is there from the beginning. */
function pageTabs(pages, first, onShow) {
  const element = tabs(
    "Cluster",
    pages.map(([title, content]) => ({ title, content: () => content })),
    first,
    onShow,
  );
  const buttons = [...element.querySelectorAll('[role="tab"]')];
  return {
    element,
    show: (at) => buttons[at].click(),
    title: (at, words) => {
      if (buttons[at].textContent !== words) buttons[at].textContent = words;
    },
  };
}
