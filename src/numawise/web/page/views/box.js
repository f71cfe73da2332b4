// The box: who holds what on this host, who waits, what is free, and what has ended; told as it changes.
import { get, isAbort, oneAtATime, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import {
  allow,
  badge,
  button,
  dialog,
  emptyState,
  field,
  notice,
  panel,
  problemNotice,
  select,
  table,
  viewHead,
} from "../core/ui.js";

const USE_MILLISECONDS = 2000;
const READ_MILLISECONDS = 10000;
const TERM_SECONDS = 10;

export default {
  title: "Box",
  mount(root, { live }) {
    const view = new BoxView(root);
    const silent = live.on("box", () => view.read());
    const reading = setInterval(() => document.hidden || view.read(), READ_MILLISECONDS);
    const using = setInterval(() => {
      view.showAges();
      if (!document.hidden) view.readUses();
    }, USE_MILLISECONDS);
    view.read();
    return () => {
      silent();
      clearInterval(reading);
      clearInterval(using);
      view.end();
    };
  },
};

class BoxView {
  constructor(root) {
    this.ending = new AbortController();
    this.read = oneAtATime(() => this.readAll());
    this.uses = new Map();
    /** @type {Map<string, {busy: HTMLElement, used: HTMLElement}>} */
    this.cells = new Map();
    /** What stands in each place, so that only what is another is drawn anew: focus and scrolling stay. */
    this.shown = new Map();
    /** Milliseconds by which the server's clock is ahead of this one. */
    this.ahead = 0;
    this.user = "";
    this.users = new Set();
    this.names = {};
    this.head = h("div");
    this.wrong = h("div");
    this.places = {
      remarks: h("div", { class: "stack-small" }),
      holds: h("div"),
      line: h("div"),
      free: h("div"),
      ended: h("div"),
    };
    const { remarks, holds, line, free, ended } = this.places;
    fill(
      root,
      this.head,
      h("div", { class: "stack box-stack" }, this.wrong, remarks, holds, line, free, ended),
    );
    fill(this.head, viewHead("Box", "Who holds what on this host."));
    fill(holds, h("p", { class: "starting" }, "Reading the ledger…"));
  }

  end() {
    this.ending.abort();
  }

  async readAll() {
    try {
      const query = { most: 50, user: this.user };
      const [box, history] = await Promise.all([
        get("box", {}, this.ending.signal),
        get("box/history", query, this.ending.signal),
      ]);
      fill(this.wrong);
      this.show(box, history);
      if (!this.uses.size) await this.readUses();
    } catch (error) {
      if (isAbort(error)) return;
      fill(this.wrong, problemNotice(error));
      this.places.holds.querySelector(".starting")?.remove();
    }
  }

  async readUses() {
    if (!this.cells.size) return;
    try {
      const { uses } = await get("box/use", {}, this.ending.signal);
      this.uses = new Map(uses.map((use) => [`${use.user} ${use.id}`, use]));
      this.showUses();
    } catch {
      // the next look may go better; what is held is shown all the same
    }
  }

  show(box, history) {
    this.ahead = Date.parse(box.now) - Date.now();
    this.names = box.deviceNames;
    const ends = Date.parse(box.now);
    const holds = box.holds.map(({ timeLeft, ...hold }) => ({
      ...hold,
      until: timeLeft === null ? null : Math.round((ends + timeLeft * 1000) / 5000) * 5000,
    }));
    const own = new Set(box.allowChanges ? box.own : []);
    const jobs = counted(box.holds.length, "job");
    const line = box.waiting.length ? `, ${counted(box.waiting.length, "waits", "wait")}` : "";
    const words = `${box.hostname}: ${jobs}${line}. ${box.allowChanges ? `Jobs of ${box.user === "root" ? "all users" : box.user} can be ended here.` : "Nothing can be ended here: the server was started without "}`;
    const { remarks, holds: first, line: queue, free, ended } = this.places;
    this.fillNew(this.head, words, () =>
      viewHead("Box", [
        words,
        box.allowChanges ? null : h("code", { class: "box-option" }, "--allow-changes"),
      ]),
    );
    this.fillNew(remarks, box.remarks, () => box.remarks.map((remark) => notice("warn", sentence(remark))));
    this.fillNew(first, [holds, [...own], box.deviceNames], () => this.holds(holds, own));
    this.fillNew(queue, [box.waiting, [...own]], () => (box.waiting.length ? this.line(box, own) : null));
    this.fillNew(free, box.free, () => freePanel(box));
    this.fillNew(ended, [history, this.user], () => this.ended(history));
    this.showUses();
    this.showAges();
  }

  fillNew(place, value, make) {
    const text = JSON.stringify(value);
    if (this.shown.get(place) === text) return;
    this.shown.set(place, text);
    fill(place, make());
  }

  /** Times that go on: since when, and until when. */
  showAges() {
    const now = Date.now() + this.ahead;
    for (const element of document.querySelectorAll("[data-view=box] [data-since]"))
      element.textContent = age(now - Date.parse(element.dataset.since)) + (element.dataset.words ?? "");
    for (const element of document.querySelectorAll("[data-view=box] [data-until]")) {
      const left = Number(element.dataset.until) - now;
      element.textContent = left > 0 ? `, ${age(left)} left` : ", time over";
    }
  }

  holds(holds, own) {
    this.cells.clear();
    if (!holds.length) {
      const start = h("code", null, "numawise run --cpus 1 -- COMMAND");
      return panel(
        "Jobs",
        emptyState("Nothing is held", h("span", null, "Everything is free. Start a job with ", start, ".")),
      );
    }
    const rows = holds.flatMap((hold) => [hold, ...hold.steps.map((step) => ({ ...step, user: hold.user }))]);
    const columns = [
      { title: "Job", cell: (hold) => [hold.parent ? quiet("+ step ") : null, named(hold.name, hold.id)] },
      { title: "User", cell: (hold) => hold.user },
      {
        title: "CPUs",
        cell: (hold) =>
          hold.exclusive
            ? hold.cpus
            : quiet(hold.cpuLimit ? `${hold.cpuLimit} of shared ${hold.cpus}` : `shared ${hold.cpus}`),
      },
      { title: "Busy", number: true, cell: (hold) => (hold.parent ? null : this.cell(hold).busy) },
      { title: "NUMA", cell: (hold) => hold.mems || quiet("any") },
      {
        title: "Memory",
        number: true,
        cell: (hold) => bytes(hold.memory.reduce((sum, part) => sum + part.bytes, 0)) || quiet("no amount"),
      },
      { title: "Used", number: true, cell: (hold) => (hold.parent ? null : this.cell(hold).used) },
      { title: "Devices", cell: (hold) => this.devices(hold) },
      {
        title: "For",
        number: true,
        cell: (hold) => [since(hold.since), hold.until ? h("span", { "data-until": hold.until }) : null],
      },
      {
        title: "Command",
        cell: (hold) =>
          h("code", { class: "box-command", title: hold.command.join(" ") }, hold.command.join(" ")),
      },
    ];
    if (own.size)
      columns.push({
        title: "End",
        cell: (hold) =>
          own.has(hold.id)
            ? button("Release…", () => this.release(hold), {
                small: true,
                "aria-label": `Release ${hold.name}`,
              })
            : hold.parent
              ? null
              : quiet("not yours"),
      });
    return panel("Jobs", table({ columns, rows }), { wide: true, class: own.size ? "box-actions" : "" });
  }

  devices(row) {
    const names = Object.values(row.devices)
      .flat()
      .map((id) => this.names[id] ?? id);
    return names.join(" ") || quiet("none");
  }

  cell(hold) {
    const key = `${hold.user} ${hold.id}`;
    if (!this.cells.has(key)) this.cells.set(key, { busy: h("span"), used: h("span") });
    return this.cells.get(key);
  }

  showUses() {
    for (const [key, { busy, used }] of this.cells) {
      const use = this.uses.get(key);
      busy.textContent = use?.cpus === null || use === undefined ? "…" : use.cpus.toFixed(1);
      used.textContent = use?.memory === null || use === undefined ? "…" : bytes(use.memory) || "0";
    }
  }

  line(box, own) {
    const names = new Map(box.holds.map((hold) => [hold.id, hold.name]));
    const columns = [
      { title: "Place", number: true, cell: (waiter) => box.waiting.indexOf(waiter) + 1 },
      { title: "Asks for", cell: (waiter) => named(waiter.request, waiter.id) },
      { title: "User", cell: (waiter) => waiter.user },
      { title: "Since", number: true, cell: (waiter) => since(waiter.since) },
      { title: "State", cell: (waiter) => badge(waiter.state === "waiting" ? "info" : "warn", waiter.state) },
      {
        title: "Waits for",
        cell: (waiter) => [
          waiter.missing ?? "about to start",
          waiter.holders.length
            ? quiet(`; held by ${waiter.holders.map((id) => names.get(id) ?? id).join(", ")}`)
            : null,
        ],
      },
    ];
    if (own.size)
      columns.push({
        title: "End",
        cell: (waiter) =>
          own.has(waiter.id)
            ? button("Cancel…", () => this.cancel(waiter), {
                small: true,
                "aria-label": `Cancel ${waiter.id}`,
              })
            : quiet("not yours"),
      });
    return panel("In line", table({ columns, rows: box.waiting }), {
      wide: true,
      class: own.size ? "box-actions" : "",
    });
  }

  ended(history) {
    const columns = [
      { title: "Job", cell: (row) => named(row.name, row.id) },
      { title: "User", cell: (row) => row.user },
      {
        title: "How",
        cell: (row) => badge(row.how !== "ended" ? "warn" : row.status ? "no" : "yes", row.text),
      },
      { title: "Ended", number: true, cell: (row) => since(row.ended, " ago") },
      { title: "Took", number: true, cell: (row) => age(row.took * 1000) },
      { title: "CPUs", cell: (row) => row.cpus || quiet("shared") },
      {
        title: "Memory",
        number: true,
        cell: (row) => bytes(row.memory.reduce((sum, part) => sum + part.bytes, 0)) || quiet("no amount"),
      },
      { title: "Devices", cell: (row) => this.devices(row) },
      {
        title: "Command",
        cell: (row) =>
          h("code", { class: "box-command", title: row.command.join(" ") }, row.command.join(" ")),
      },
    ];
    for (const row of history.ended) this.users.add(row.user);
    const users = [...this.users].sort();
    const chooser =
      users.length > 1 || this.user
        ? [
            select(
              [["", "All users"], ...users.map((user) => [user, user])],
              this.user,
              (user) => {
                this.user = user;
                this.read();
              },
              { "aria-label": "Whose jobs", class: "box-user" },
            ),
          ]
        : [];
    if (!history.ended.length)
      return panel("Ended", emptyState("Nothing has ended yet", "Jobs are listed here when they end."), {
        actions: chooser,
      });
    const more = history.more
      ? h(
          "p",
          { class: "panel-body box-quiet" },
          `${history.more} older ones: numawise history --most ${history.more + history.ended.length}`,
        )
      : null;
    return panel("Ended", [table({ columns, rows: history.ended }), more], { wide: true, actions: chooser });
  }

  release(hold) {
    const ways = [
      ["term", `Ask it to end, and kill it after ${TERM_SECONDS} seconds`],
      ["kill", "Kill it now"],
      ["force", "Let it run, and free what it holds"],
    ];
    const how = select(ways, "term", () => {});
    const bodies = { term: { term: TERM_SECONDS }, kill: { kill: true }, force: { force: true } };
    const words = h(
      "p",
      null,
      `${hold.name} (${hold.id}) of ${hold.user} has ${hold.exclusive ? `CPUs ${hold.cpus}` : "a place in the shared pool"}.`,
    );
    const command = hold.command.length ? h("pre", null, hold.command.join(" ")) : null;
    this.confirm("Release this job?", [words, command, field("How", how)], "Release", () =>
      post(`box/holds/${encodeURIComponent(hold.id)}/release`, bodies[how.value]),
    );
  }

  cancel(waiter) {
    const words = h(
      "p",
      null,
      `${waiter.id} of ${waiter.user} waits for ${waiter.request}. It loses its place and ends.`,
    );
    this.confirm("Put this job out of the line?", [words], "Cancel the job", () =>
      post(`box/queue/${encodeURIComponent(waiter.id)}/cancel`, {}),
    );
  }

  confirm(title, body, words, act) {
    const wrong = h("div");
    const go = button(
      words,
      async () => {
        allow(go, false);
        try {
          const { text } = await act();
          shown.close();
          announce(text);
          await this.read();
          if (document.activeElement === document.body) document.getElementById("view").focus();
        } catch (error) {
          fill(wrong, problemNotice(error));
          allow(go, true);
        }
      },
      { kind: "danger" },
    );
    const shown = dialog(title, h("div", { class: "stack box-stack" }, body, wrong), [go]);
  }
}

function freePanel(box) {
  const columns = [
    { title: "NUMA", cell: (free) => `NUMA ${free.numa}` },
    { title: "CPUs", cell: (free) => free.cpus || quiet("none") },
    { title: "Memory", number: true, cell: (free) => bytes(free.memory) || "0" },
    { title: "GPUs", cell: (free) => free.gpus.join(" ") || quiet("none") },
  ];
  return panel("Free", table({ columns, rows: box.free }), { wide: true });
}

function named(name, id) {
  return [h("span", { class: "box-name" }, name), " ", h("span", { class: "box-quiet" }, id)];
}

function since(time, words = "") {
  return h("span", { "data-since": time, "data-words": words, title: time });
}

function quiet(words) {
  return h("span", { class: "box-quiet" }, words);
}

function counted(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

function sentence(words) {
  return words.slice(0, 1).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
}

const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** "5m2s", as the command writes it: at most two units. */
function age(milliseconds) {
  let left = Math.max(0, Math.floor(milliseconds / 1000));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count || (unit === "s" && !parts.length)) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join("");
}

const SIZES = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
  ["bytes", 1],
];

/** "64 GiB", as the command writes it: tebibytes where they are whole or many; "" for nothing. */
function bytes(size) {
  const [unit, one] =
    SIZES.find(([unit, one]) => size >= one && (unit !== "TiB" || size % one === 0 || size >= 10 * one)) ??
    [];
  return unit ? `${Number((size / one).toFixed(1))} ${unit}` : "";
}
