// The map: the machine that is served, live, or any other; who holds what of it, and how its parts are
// linked.
import { get, isAbort, newest, oneAtATime, post } from "../core/api.js";
import { announce, fill, h, later } from "../core/dom.js";
import { acceptDrops, given, readFiles } from "../core/files.js";
import { heatMap } from "../core/heat.js";
import { numbers, pictureView } from "../core/picture.js";
import { rewrite } from "../core/router.js";
import { badge, button, emptyState, notice, panel, problemNotice, select, viewHead } from "../core/ui.js";
import { machineChooser } from "./map_machine.js";
import { cpuSummary, holderDetail, holderList, partDetail } from "./map_side.js";

const KINDS = {
  core: "cores",
  gpu: "GPUs",
  nic: "NICs",
  nvme: "disks",
  storage: "disks",
  accelerator: "accelerators",
};
const LEGEND =
  "A letter is a holder of the list; r is reserved for the system, * belongs to several.";
const EXAMPLE = "dgx-h100";
const NOTHING = "Point at a core, a GPU or a NUMA node; choose one to keep it here.";
const STATES = [
  ["", "everything"],
  ["free", "what is free"],
  ["held", "what is held"],
  ["system", "what is reserved"],
];

export default {
  title: "Map",
  async mount(root, { overview, params, navigate, live }) {
    const head = h("div"),
      problem = h("div", { class: "map-problem" }),
      notes = h("div", { class: "stack-small" }),
      tables = h("div", { class: "heat-panels" });
    const summary = h("div", { class: "map-summary" }),
      holders = h("div", { class: "map-holders" }),
      detail = h("div");
    const count = h("span", { class: "hint", role: "status" });
    const search = h("input", {
      type: "search",
      placeholder: "17, GPU3, a pod, a job…",
      "aria-label": "Search on the map",
      oninput: later(120, () => find()),
      onkeydown: (event) => event.key === "Enter" && first(),
    });
    const wanted = { text: "", state: "", kind: "", holder: "" };
    const stateChoice = select(STATES, "", (value) => ((wanted.state = value), filter()), {
      "aria-label": "Show",
    });
    const kindChoice = h("div", { class: "map-kind" });
    const reset = button("Clear", () => clear(), {
      small: true,
      hidden: true,
      "aria-label": "Show everything again",
    });
    const picture = pictureView({
      label: "Map of the machine",
      tools: [h("div", { class: "map-search" }, search), stateChoice, kindChoice, reset, count],
    });
    const legend = h("p", { class: "hint map-legend", hidden: true });
    const others = machineChooser(params.machine ?? "", (node, words) => choose(node, words));
    const map = h("section", { class: "panel map-panel", "aria-label": "Machine" }, picture.element, legend);
    const side = h(
      "div",
      { class: "stack map-side" },
      panel("Chosen", detail),
      panel("Who holds what", [summary, holders]),
    );
    const asked = params.node ?? (params.machine ? { machine: params.machine } : null);
    let example = !asked && !overview.node; // nobody starts before an empty page
    /** @type {any} */
    let node = example ? { machine: EXAMPLE } : asked,
      data = null;
    const asking = newest();
    let drawn = 0,
      shownPart = "",
      shownHolder = "",
      noMachine = false;

    fill(
      root,
      head,
      problem,
      h("div", { class: "split map-split" }, h("div", { class: "stack map-left" }, map, tables, notes), side),
    );
    acceptDrops(map, async (list) => {
      try {
        const files = await readFiles(list);
        if (files.length) choose({ files: files.map(given) }, files.map((file) => file.name).join(", "));
      } catch (error) {
        fill(problem, problemNotice(error));
      }
    });
    picture.onSelect((part) => showPart(part));
    showPart(null);
    const quiet = live.on(
      "map",
      oneAtATime(async () => (example && overview.node ? choose(null, "") : node || load())),
    );
    const resized = later(200, () => Math.abs(picture.width() - drawn) > 40 && load());
    const watcher = new ResizeObserver(() => drawn && resized());
    watcher.observe(map);
    await load();

    /**
     * @returns {Promise<boolean | undefined>} whether it is drawn; undefined where something else is asked for meanwhile
     */
    async function load() {
      const signal = asking.next();
      const width = picture.width();
      try {
        const next = node ? await post("map", { node, width }, signal) : await get("map", { width }, signal);
        const news = data && !node ? changes(data, next) : "";
        data = next;
        drawn = width;
        fill(
          problem,
          example && !overview.node
            ? notice(
                "info",
                "This is an example: no node is served here.",
                "Name a machine, or drop files, to see your own.",
              )
            : null,
        );
        render();
        if (news) announce(news);
        return true;
      } catch (error) {
        if (isAbort(error)) return undefined;
        noMachine = error.field === "$.node.machine";
        const told = problemNotice(error);
        if (!data && !node) {
          [node, example] = [{ machine: EXAMPLE }, true];
          await load();
          if (!data) [node, example] = [null, false];
        }
        fill(problem, told);
        if (!data) fill(head, viewHead("Map", "Nothing is drawn yet: name a machine or drop files.", others));
        return false;
      }
    }

    /**
     * Show another node. Files without a machine, such as state files, are laid over the one that is shown;
     * what cannot be shown changes nothing.
     */
    async function choose(next, words) {
      const before = node,
        wasExample = example;
      [node, example] = [next, false];
      let drawn = await load();
      if (drawn === false && noMachine && next?.files && !wasExample && (before || overview.node)) {
        const kept = (before?.files ?? []).filter(
          (file) => !next.files.some((newer) => newer.name === file.name),
        );
        node = { ...(before ?? { served: true }), files: [...kept, ...next.files] };
        drawn = await load();
      }
      if (drawn === false) [node, example] = [before, wasExample];
      if (!drawn) return;
      clear();
      picture.select("");
      showPart(null);
      rewrite({ machine: node?.machine ?? "" });
      announce(words ? `${words} is shown` : "what is served is shown");
    }

    function render() {
      const words = example
        ? "an example"
        : node?.served
          ? "with dropped files"
          : node && overview.node
            ? "not the machine that is served"
            : "";
      const what = words ? badge("info", words) : null;
      const back =
        node && overview.node && !example
          ? button(
              "Back to what is served",
              () => (others.querySelector("summary").focus(), choose(null, "")),
            )
          : null;
      const tried = button("Try it in What if", whatIf);
      const here = others.contains(document.activeElement) ? document.activeElement : null;
      fill(
        head,
        viewHead(
          data.name === "this machine" ? "This machine" : data.name,
          [data.summary, what && " ", what],
          back,
          tried,
          others,
        ),
        data.notices.length
          ? h(
              "div",
              { class: "stack-small map-problem" },
              data.notices.map((line) => notice("warn", line)),
            )
          : null,
      );
      here?.focus({ preventScroll: true });
      picture.show(data);
      legend.hidden = !data.holders.length;
      const pool = data.unknown.includes("cpus")
        ? "Who has the cores is not known."
        : "Cores without a letter are in the shared pool, pale ones are held with some of their threads.";
      legend.textContent = `${LEGEND} ${pool}`;
      const kinds = [...new Set(data.parts.map((part) => part.kind).filter((kind) => KINDS[kind]))];
      fill(
        kindChoice,
        kinds.length > 1
          ? select(
              [["", "all kinds"], ...kinds.map((kind) => [kind, KINDS[kind]])],
              wanted.kind,
              (value) => ((wanted.kind = value), filter()),
              { "aria-label": "Kind" },
            )
          : null,
      );
      showHolders();
      fill(
        tables,
        data.tables.map((table) => tablePanel(table)),
      );
      fill(
        notes,
        data.remarks.length
          ? panel(
              "Remarks",
              h(
                "ul",
                { class: "remarks" },
                data.remarks.map((line) => h("li", null, line)),
              ),
            )
          : null,
      );
      filter();
      showAgain();
    }

    /** Go on with what is shown: its machine, configuration and pods. */
    function whatIf() {
      const jobs = data.holders.some((one) => one.kind === "job");
      const remark = jobs
        ? "Pods alone come and go here: what the jobs of this host hold is taken for free."
        : "";
      navigate("/what-if", {
        scenario: { name: data.name, node: node ?? { served: true }, steps: [], remark },
      });
    }

    /** What was chosen, as it is now. */
    function showAgain() {
      const part = data.parts.find((one) => one.id === shownPart),
        holder = data.holders.find((one) => one.id === shownHolder);
      if (part) showPart(part);
      else if (holder) showHolder(holder);
      else showPart(null);
    }

    function showHolders() {
      fill(summary, cpuSummary(data));
      if (data.holders.length) {
        fill(holders, holderList(data, wanted.holder, pick));
        return;
      }
      const small = !node && !data.parts.some((part) => part.kind === "gpu");
      const words =
        node || !overview.host
          ? "State files or a bundle, dropped here, say who does."
          : "Jobs and pods appear here as they come.";
      const other = small && button("Show one with GPUs", () => choose({ machine: EXAMPLE }, EXAMPLE));
      fill(holders, emptyState("Nobody holds anything", words, ...(other ? [other] : [])));
    }

    function pick(id) {
      wanted.holder = wanted.holder === id ? "" : id;
      showHolders();
      filter();
      const one = data.holders.find((holder) => holder.id === wanted.holder);
      picture.select("");
      if (one) showHolder(one);
      else showPart(null);
    }

    function find() {
      wanted.text = search.value.trim().toLowerCase();
      filter();
    }

    function fits(part) {
      if (wanted.kind && part.kind !== wanted.kind) return false;
      if (wanted.holder && !part.holders.includes(wanted.holder)) return false;
      if (wanted.state === "free" && !part.free) return false;
      if (wanted.state === "system" && !part.holders.includes("system")) return false;
      if (wanted.state === "held" && !part.holders.some((one) => one !== "system")) return false;
      return !wanted.text || matches(part);
    }

    function matches(part) {
      const cpu = /^(?:cpus?\s*)?(\d+)$/.exec(wanted.text);
      if (cpu) return part.kind === "core" && numbers(part.cpus).includes(Number(cpu[1]));
      const list = /^(?:cpus?\s*)?([\d,-]+)$/.exec(wanted.text);
      if (list)
        return part.kind === "core" && numbers(list[1]).some((one) => numbers(part.cpus).includes(one));
      const names = part.holders.map((id) => data.holders.find((one) => one.id === id)?.name ?? id);
      return [part.label, ...names, ...(part.kind === "core" ? [] : part.lines)]
        .join("\n")
        .toLowerCase()
        .includes(wanted.text);
    }

    function filter() {
      const any = wanted.text || wanted.state || wanted.kind || wanted.holder;
      const leaves = data ? data.parts.filter((part) => KINDS[part.kind] && fits(part)).length : 0;
      picture.dim(any ? fits : null);
      reset.hidden = !any;
      count.textContent = any ? (leaves ? `${leaves} shown` : "nothing fits") : "";
    }

    function first() {
      find();
      const part = data?.parts.find((one) => KINDS[one.kind] && fits(one));
      if (part) picture.focus(part.id);
    }

    function clear() {
      Object.assign(wanted, { text: "", state: "", kind: "", holder: "" });
      search.value = stateChoice.value = "";
      if (kindChoice.firstChild) kindChoice.firstChild.value = "";
      if (data) showHolders();
      filter();
    }

    function showPart(part) {
      [shownPart, shownHolder] = [part?.id ?? "", ""];
      fill(detail, part ? partDetail(part, data, pick) : h("p", { class: "hint" }, NOTHING));
    }

    function showHolder(one) {
      [shownPart, shownHolder] = ["", one.id];
      const why = () => navigate("/why", { node: node ?? { served: true }, pod: one.name });
      fill(detail, holderDetail(one, why));
    }

    return () => {
      quiet();
      asking.end();
      watcher.disconnect();
    };
  },
};

function tablePanel(table) {
  const large = table.columns.length > 24;
  if (!large) return panel(table.title, heatMap(table));
  const inside = h("div");
  const shown = h(
    "details",
    { class: "grow", ontoggle: () => shown.open && !inside.firstChild && fill(inside, heatMap(table)) },
    h("summary", null, `${table.rows.length} by ${table.columns.length}`),
    inside,
  );
  return panel(table.title, shown);
}

/** What has changed between two maps, in a sentence for those who cannot see it. */
function changes(before, after) {
  const names = (data) => new Map(data.holders.map((one) => [one.id, one.name]));
  const old = names(before),
    now = names(after);
  const came = [...now].filter(([id]) => !old.has(id)).map(([, name]) => name);
  const gone = [...old].filter(([id]) => !now.has(id)).map(([, name]) => name);
  const words = [
    came.length ? `${came.slice(0, 3).join(", ")} came` : "",
    gone.length ? `${gone.slice(0, 3).join(", ")} went` : "",
  ];
  return words.filter(Boolean).join("; ");
}
