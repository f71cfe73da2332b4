// Why: a pod of the node, or whatever was dropped, explained step by step.
import { isAbort, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import { explanationView, verdictBadge } from "../core/explanation.js";
import { acceptDrops, given, isConfig, readFiles } from "../core/files.js";
import { badge, button, facts, field, notice, panel, problemNotice, select, viewHead } from "../core/ui.js";
import { EXAMPLES } from "../core/why_examples.js";

const UNKNOWN =
  "None can be tried here, as it is not known what the node holds: drop its files and the pod for that.";

/** @typedef {{example: string, node: any, files: any[], text: string, pod: string, number: number | null}} Question */

/** @returns {Question} */
const nothing = () => ({ example: "", node: {}, files: [], text: "", pod: "", number: null });
/** What was asked last, so that a look at another view loses nothing. */
let kept = null;

function ofExample(name) {
  const found = EXAMPLES.find((each) => each.name === name) ?? EXAMPLES[0];
  return {
    ...nothing(),
    example: found.name,
    node: found.node,
    text: found.text,
    number: found.number ?? null,
  };
}

function bodyOf(question, width) {
  const body = { node: question.node ?? {}, files: question.files.map(given), text: question.text, width };
  if (question.pod) body.pod = question.pod;
  else if (question.number !== null) body.number = question.number;
  return body;
}

/** What is asked about, in words. */
function wordsOf(question, overview) {
  const parts = [];
  if (question.example)
    parts.push(`example “${EXAMPLES.find((each) => each.name === question.example)?.title}”`);
  else if (question.node.machine) parts.push(`machine ${question.node.machine}`);
  else if (!question.files.length || question.node.served)
    parts.push(overview.nodeName ? `node ${overview.nodeName}` : "the node that is served");
  if (question.files.length)
    parts.push(question.files.length === 1 ? question.files[0].name : `${question.files.length} files`);
  if (question.text && !question.example) parts.push("a pod as text");
  return parts.join(", ");
}

export default {
  title: "Why",
  mount(root, context) {
    const { overview, params, live, navigate } = context;
    let question = startOf(params, overview);
    let answered = null;
    let going = null;
    // the file that could not be read: the next ones take its place
    let refused = "";
    const problems = h("div", { class: "why-place stack-small" });
    const told = h("div", { class: "stack" });
    const changed = h("div", { class: "why-place" });
    const ask = askPanel();
    const examples = select(
      [["", "Examples…"], ...EXAMPLES.map((each) => [each.name, each.title])],
      question.example,
      (name) => name && start(ofExample(name)),
      { "aria-label": "Examples" },
    );
    const chooser = h("input", {
      type: "file",
      multiple: true,
      class: "only-read",
      tabindex: "-1",
      "aria-label": "Files",
      onchange: () => take(chooser.files),
    });
    const head = viewHead(
      "Why",
      "Why a pod is refused, or where it goes: drop a pod, a bundle, a kubelet's log or parts of a node anywhere here.",
      h("div", { class: "why-examples" }, examples),
      h(
        "div",
        null,
        button("Choose files…", () => chooser.click()),
        chooser,
      ),
    );
    fill(root, head, h("div", { class: "stack" }, ask.element, changed, problems, told));
    acceptDrops(root, take);

    async function take(list) {
      try {
        const files = await readFiles(list);
        chooser.value = "";
        const { config, ...rest } = question.example ? {} : question.node;
        const node = config && !files.some(isConfig) ? { ...rest, config } : rest;
        const before = question.example ? nothing() : question;
        if (files.length)
          start({
            ...nothing(),
            node,
            text: before.text,
            files: merged(
              before.files.filter((file) => file.name !== refused),
              files,
            ),
          });
      } catch (error) {
        fill(problems, problemNotice(error));
      }
    }

    function start(next) {
      question = next;
      ask.set(question);
      examples.value = question.example;
      return run();
    }

    async function run({ first = false } = {}) {
      going?.abort();
      const mine = (going = new AbortController());
      kept = question;
      told.classList.add("busy");
      told.setAttribute("aria-busy", "true");
      fill(changed);
      try {
        const answer = await post("why", bodyOf(question, widthFor(root)), mine.signal);
        if (mine !== going) return;
        if (first && !answer.explanation && !answer.pods.length)
          return void startExample(answer.remarks.at(-1));
        answered = answer;
        refused = "";
        fill(
          problems,
          answer.remarks.map((words) => notice("info", words)),
        );
        fill(told, answerView());
        if (answer.explanation) announce(`${answer.explanation.name}: ${answer.explanation.answer}`);
      } catch (error) {
        if (isAbort(error) || mine !== going) return;
        refused = error.file;
        fill(problems, problemNotice(error));
        fill(told);
        ask.open();
      } finally {
        if (mine === going) {
          told.classList.remove("busy");
          told.removeAttribute("aria-busy");
        }
      }
    }

    /** Nothing can be asked about what is served: an example stands in for it. */
    async function startExample(reason) {
      await start(ofExample(""));
      if (question.example)
        fill(
          problems,
          notice(
            "info",
            `This is an example, as ${reason}.`,
            "Drop a pod with the kubelet's configuration, a bundle or a log to ask about your own.",
          ),
        );
    }

    function answerView() {
      if (answered.log) return logView(answered.log);
      if (answered.others.length)
        return answered.others.map((one) => explanationView(one, { untried: UNKNOWN }));
      const asked = bodyOf({ ...question, pod: "", number: answered.chosen }, widthFor(root));
      const onTry = (suggestion, signal) => post("why/try", { ...asked, suggestion }, signal);
      const onOpen = answered.chosen === null ? null : () => whatIf(asked);
      return [answered.pods.length > 1 ? podsPanel() : null, explanationView(answered, { onTry, onOpen })];
    }

    /** The node of the question, with the pods before this one, and it as the next. */
    async function whatIf(asked) {
      try {
        navigate("/what-if", { scenario: await post("why/scenario", asked) });
      } catch (error) {
        fill(problems, problemNotice(error));
      }
    }

    function podsPanel() {
      const rows = answered.pods.map((each, at) => {
        const name = each.namespace === "default" ? each.name : `${each.namespace}/${each.name}`;
        const choose = button(name, () => ((question = { ...question, pod: "", number: at }), run()), {
          kind: "quiet",
          small: true,
          "aria-current": at === answered.chosen ? "true" : null,
        });
        return h(
          "tr",
          { class: at === answered.chosen ? "selected" : null },
          h("td", { class: "why-pod" }, choose),
          h(
            "td",
            { class: "why-verdict" },
            verdictBadge(each.verdict),
            each.origin === "running" && badge("plain", "running"),
          ),
          h("td", { class: "why-words" }, h("p", null, each.answer)),
        );
      });
      const admitted = answered.pods.filter((each) => each.verdict === "admitted").length;
      const body = h(
        "table",
        { class: "table why-pods" },
        h(
          "thead",
          { class: "only-read" },
          h(
            "tr",
            null,
            ["Pod", "Verdict", "Answer"].map((words) => h("th", { scope: "col" }, words)),
          ),
        ),
        h("tbody", null, rows),
      );
      return panel(
        "Pods",
        h("div", { class: "why-list", tabindex: "0", role: "group", "aria-label": "List of pods" }, body),
        {
          flush: true,
          actions: [h("span", { class: "hint-note" }, `${admitted} of ${answered.pods.length} admitted`)],
        },
      );
    }

    function askPanel() {
      const text = h("textarea", {
        class: "code",
        rows: "9",
        spellcheck: "false",
        placeholder: "apiVersion: v1\nkind: Pod\n…",
      });
      const machine = h("input", {
        type: "text",
        spellcheck: "false",
        placeholder: overview.nodeName || "8gpu-server",
      });
      const config = h("textarea", {
        class: "code",
        rows: "9",
        spellcheck: "false",
        placeholder: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n…",
      });
      const files = h("div", { class: "row" });
      const summary = h("summary", null);
      const read = () => {
        const node = { ...question.node, machine: machine.value.trim(), config: config.value };
        if (!node.machine) delete node.machine;
        if (!node.config.trim()) delete node.config;
        start({ ...nothing(), files: question.files, node, text: text.value });
      };
      const form = h(
        "form",
        { class: "stack", onsubmit: (event) => (event.preventDefault(), read()) },
        h(
          "div",
          { class: "halves" },
          field(
            "Pods to ask about",
            text,
            "Any object that makes pods, or what kubectl describe pod prints; pods come in this order.",
          ),
          h(
            "div",
            { class: "stack-small" },
            field(
              "Machine",
              machine,
              `A name of the catalogue, or words such as 2s 4n 64c 2t 8gpu${overview.node ? "; empty: the node that is served" : ""}.`,
            ),
            field("Kubelet configuration", config),
          ),
        ),
        files,
        h(
          "div",
          { class: "row" },
          h("button", { class: "button button-primary", type: "submit" }, "Explain"),
          button("Empty the form", () => set((question = nothing()))),
        ),
      );
      const element = h(
        "details",
        { class: "panel why-ask" },
        summary,
        h("div", { class: "panel-body" }, form),
      );
      function set(next) {
        text.value = next.text;
        machine.value = next.node.machine ?? "";
        config.value = next.node.config ?? "";
        fill(
          summary,
          h("span", { class: "why-ask-title" }, "Asked about"),
          h("span", { class: "why-ask-words" }, wordsOf(next, overview)),
        );
        const drop = (name) =>
          start({ ...question, files: question.files.filter((file) => file.name !== name), number: null });
        fill(
          files,
          next.files.map((file) =>
            h(
              "span",
              { class: "why-file" },
              badge("plain", file.name),
              button("Remove", () => drop(file.name), {
                small: true,
                kind: "quiet",
                "aria-label": `Remove ${file.name}`,
              }),
            ),
          ),
        );
      }
      set(question);
      return { element, set, open: () => (element.open = true) };
    }

    run({ first: !question.example });
    const end = live.on("map", () => {
      if (!question.example && !question.node.machine)
        fill(
          changed,
          notice(
            "info",
            "The node has changed since.",
            "",
            button("Ask again", () => run(), { small: true }),
          ),
        );
    });
    return () => {
      going?.abort();
      end();
    };
  },
};

function startOf(params, overview) {
  if (params.node || params.pod)
    return {
      ...nothing(),
      node: params.node ?? { served: true },
      pod: params.pod ?? "",
      text: params.text ?? "",
      files: params.files ?? [],
    };
  if (params.example) return ofExample(params.example);
  return kept ?? (overview.node ? nothing() : ofExample(""));
}

/** Pixels for a map: beside the steps where there is room, else below them. */
function widthFor(root) {
  const room = root.clientWidth - 80;
  return Math.round(Math.min(1500, Math.max(280, room > 900 ? room * 0.56 : room)));
}

/** Files by name; the newer one takes the place of the older. */
function merged(before, after) {
  const names = new Set(after.map((file) => file.name));
  return [...before.filter((file) => !names.has(file.name)), ...after];
}

function logView(log) {
  const read = log.read;
  const head = panel(
    "Kubelet's log",
    facts([
      ["Files", read.files.join(", ")],
      ["Lines", `${read.lines}, ${read.kubeletLines} of them a kubelet's`],
      ["From", read.first],
      ["To", read.last],
      ["Admitted", log.admitted],
      ["Rejected", log.rejected],
    ]),
  );
  const starts = log.starts.map((one) =>
    explanationView({ name: "kubelet", verdict: "not started", findings: [], ...one }, { untried: UNKNOWN }),
  );
  const pods = log.pods.map((one) => explanationView(one, { untried: UNKNOWN }));
  const none =
    !starts.length &&
    !pods.length &&
    notice("info", "The log has no admission that would need an explanation.");
  return [head, ...starts, ...pods, none];
}
