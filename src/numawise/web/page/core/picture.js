// A machine on the page: the server's drawing, with zoom, focus by keys, a card for what is pointed at, and
// marks.
import { announce, fill, freshId, h, importSvg, later } from "./dom.js";
import { button } from "./ui.js";

/**
 * @typedef {{id: string, kind: string, label: string, cpus: string, numa: number[], holders: string[], free: boolean, lines: string[]}} Part
 * @typedef {{id: string, name: string, mark: string, colour: number, kind: string, cpus: string, numa: number[], memory: {numa: number, bytes: number, text: string}[], devices: string[], lines: string[]}} MapHolder
 * @typedef {{name: string, summary: string, description: string, width: number, height: number, svg: string, cpus: string, shared: string | null, reserved: string, free: string, holders: MapHolder[], parts: Part[], tables: any[], remarks: string[]}} MapData
 */

const LEAST = 0.25,
  MOST = 6,
  STEP = 1.25;
/** So many holders are named below a map; its parts name all of them. */
const MOST_NAMED = 24;
/** Kinds of parts that have no parts inside. */
export const LEAVES = new Set(["core", "gpu", "nic", "nvme", "storage", "accelerator"]);
const KEYS =
  "Arrow keys go from part to part, Enter chooses one and goes into it, Escape goes out. Plus and minus zoom, 0 goes back to 100%.";

/** The numbers of a list such as "0-3,8". @param {string | number[] | undefined} list @returns {number[]} */
export function numbers(list) {
  if (Array.isArray(list)) return list;
  return (list ?? "")
    .split(",")
    .filter(Boolean)
    .flatMap((run) => {
      const [first, last = first] = run.split("-").map(Number);
      return Array.from({ length: Math.min(last - first + 1, 65536) }, (_, at) => first + at);
    });
}

/**
 * A machine that can be looked at.
 * @param {{label?: string, tools?: any[]}} [options] tools: what stands beside the buttons
 */
export function pictureView({ label = "The machine", tools = [] } = {}) {
  const card = h("div", { class: "map-card", hidden: true, "aria-hidden": "true" });
  const room = h("div", { class: "map-room" });
  const level = h("output", { class: "map-level", "aria-label": "Zoom" }, "100%");
  const help = h("p", { class: "only-read" }, KEYS);
  const told = h("p", { class: "only-read", id: freshId("map-told") });
  const zoomButtons = h(
    "div",
    { class: "map-zoom", role: "group", "aria-label": "Zoom" },
    button("−", () => step(1 / STEP), { small: true, "aria-label": "Zoom out", title: "Zoom out (−)" }),
    level,
    button("+", () => step(STEP), {
      small: true,
      "aria-label": "Zoom in",
      title: "Zoom in (+), or Ctrl and the wheel",
    }),
    button("Reset", () => zoom(1), { small: true, title: "100%, as drawn for this window (0)" }),
    button("All", () => whole(), { small: true, title: "The whole machine in the window" }),
  );
  const element = h(
    "div",
    { class: "map", role: "group", "aria-label": label },
    h("div", { class: "map-tools" }, tools, zoomButtons),
    help,
    told,
    room,
    card,
  );
  /** @type {MapData | null} */
  let data = null;
  /** @type {any} */
  let drawing = null;
  /** @type {Map<string, any>} */
  let places = new Map();
  /** @type {Map<string, Part>} */
  let parts = new Map();
  let scale = 1,
    chosen = "",
    focused = "",
    dragged = false;
  /** @type {((part: Part) => boolean) | null} */
  let wanted = null;
  const listeners = new Set();

  /** @param {MapData} next */
  function show(next) {
    if (data?.svg === next.svg) {
      data = next;
      return;
    }
    const hadFocus = room.contains(document.activeElement);
    data = next;
    drawing = importSvg(next.svg);
    drawing.setAttribute("aria-label", `${label}: ${next.name}, ${next.summary}`);
    drawing.setAttribute("aria-describedby", told.id);
    told.textContent = next.description;
    places = new Map([...drawing.querySelectorAll("[data-id]")].map((place) => [place.dataset.id, place]));
    parts = new Map(next.parts.map((part) => [part.id, part]));
    fill(room, drawing);
    resize();
    if (!places.has(focused)) focused = next.parts[0]?.id ?? "";
    places.get(focused)?.setAttribute("tabindex", "0");
    if (hadFocus) places.get(focused)?.focus({ preventScroll: true });
    if (!places.has(chosen)) chosen = "";
    choose(chosen, false);
    if (wanted) dim(wanted);
    hide();
  }

  function resize() {
    if (!data || !drawing) return;
    drawing.setAttribute("width", String(Math.round(data.width * scale)));
    drawing.setAttribute("height", String(Math.round(data.height * scale)));
    level.textContent = `${Math.round(scale * 100)}%`;
    room.classList.toggle("map-zoomed", scale > 1.01);
  }

  /** Zoom, keeping a point of the window where it is. */
  function zoom(to, x = room.clientWidth / 2, y = room.clientHeight / 2) {
    const before = scale;
    scale = Math.min(MOST, Math.max(LEAST, to));
    if (scale === before) return;
    const left = (room.scrollLeft + x) * (scale / before) - x,
      top = (room.scrollTop + y) * (scale / before) - y;
    resize();
    room.scrollTo(left, top);
    sayZoom();
  }

  const sayZoom = later(400, () => announce(`zoom ${level.textContent}`));

  /** Zoom by a step; full width is never missed by a hair. */
  function step(factor, x, y) {
    zoom(Math.abs(scale * factor - 1) < 0.04 ? 1 : scale * factor, x, y);
  }

  function whole() {
    if (data) zoom(Math.min(room.clientWidth / data.width, (innerHeight * 0.8) / data.height));
  }

  function choose(id, tell = true) {
    for (const place of room.querySelectorAll("[aria-selected]")) {
      place.removeAttribute("aria-selected");
      place.classList.remove("chosen");
    }
    chosen = places.has(id) ? id : "";
    const place = places.get(chosen);
    place?.setAttribute("aria-selected", "true");
    place?.classList.add("chosen");
    if (tell) for (const listener of listeners) listener(chosen ? parts.get(chosen) : null);
  }

  function focus(id) {
    if (!places.has(id)) return;
    places.get(focused)?.setAttribute("tabindex", "-1");
    focused = id;
    const place = places.get(id);
    place.setAttribute("tabindex", "0");
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "nearest", inline: "nearest" });
    tell(id);
  }

  /** The card beside a part: what it is and who has it. */
  function tell(id, x = NaN, y = NaN) {
    const part = parts.get(id);
    if (!part || !data) return hide();
    const holders = part.holders
      .map((holder) => data.holders.find((one) => one.id === holder))
      .filter(Boolean);
    fill(
      card,
      h("strong", null, part.label),
      holders.slice(0, 4).map((one) => h("p", { class: "map-card-holder" }, holderMark(one), one.name)),
      part.kind !== "core" && !holders.length
        ? h("p", { class: "quiet" }, part.free ? "free" : "not known")
        : null,
      LEAVES.has(part.kind) && part.numa.length
        ? h("p", { class: "quiet" }, `NUMA ${part.numa.join(", ")}`)
        : null,
      part.lines.slice(0, 7).map((line) => h("p", null, line)),
      part.lines.length > 7 ? h("p", { class: "quiet" }, `and ${part.lines.length - 7} more`) : null,
    );
    card.hidden = false;
    const frame = element.getBoundingClientRect(),
      place = places.get(id).getBoundingClientRect();
    const left = (Number.isNaN(x) ? place.right : x) - frame.left + 12,
      top = (Number.isNaN(y) ? place.bottom : y) - frame.top + 12;
    const wide = card.offsetWidth,
      high = card.offsetHeight;
    const over = frame.top + top + high > innerHeight ? top - high - 24 : top;
    card.style.setProperty("left", `${Math.max(0, Math.min(left, frame.width - wide))}px`);
    card.style.setProperty("top", `${Math.max(-frame.top, over)}px`);
  }

  function hide() {
    card.hidden = true;
  }

  /**
   * Let everything stand back that is not asked for; null: nothing.
   * @param {((part: Part) => boolean) | null} test
   */
  function dim(test) {
    wanted = test;
    for (const [id, place] of places) {
      const part = parts.get(id);
      const leaf = part && LEAVES.has(part.kind);
      const fits = !test || !part || test(part);
      place.classList.toggle("dim", Boolean(leaf && !fits));
      place.classList.toggle("match", Boolean(test && leaf && fits));
    }
  }

  room.addEventListener("click", (event) => {
    if (dragged) return;
    const id = event.target.closest?.("[data-id]")?.dataset.id;
    if (!id) return choose("");
    focus(id);
    choose(id === chosen ? "" : id);
  });
  room.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch" || event.buttons) return;
    const id = event.target.closest?.("[data-id]")?.dataset.id;
    if (id) tell(id, event.clientX, event.clientY);
    else hide();
  });
  room.addEventListener("pointerleave", hide);
  room.addEventListener("focusout", hide);
  room.addEventListener("focusin", (event) => {
    const id = event.target.closest?.("[data-id]")?.dataset.id;
    if (id && id !== focused) {
      places.get(focused)?.setAttribute("tabindex", "-1");
      focused = id;
    }
  });
  help.id = freshId("map-keys");
  room.setAttribute("aria-describedby", help.id);
  room.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  room.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const frame = room.getBoundingClientRect();
      zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - frame.left, event.clientY - frame.top);
    },
    { passive: false },
  );
  drag();

  const actions = {
    ArrowLeft: () => go(-1, 0),
    ArrowRight: () => go(1, 0),
    ArrowUp: () => go(0, -1),
    ArrowDown: () => go(0, 1),
    Enter: () => (choose(focused), inside()),
    " ": () => choose(focused),
    Escape: () => outside() || hide(),
    Home: () => focus(data?.parts[0]?.id ?? ""),
    End: () => focus(data?.parts.at(-1)?.id ?? ""),
    "+": () => zoomFocused(STEP),
    "=": () => zoomFocused(STEP),
    "-": () => zoomFocused(1 / STEP),
    0: () => zoom(1),
  };

  function inside() {
    const child = places.get(focused)?.querySelector("[data-id]");
    if (child) focus(child.dataset.id);
  }

  function outside() {
    const parent = places.get(focused)?.parentElement?.closest("[data-id]");
    if (parent) focus(parent.dataset.id);
    return Boolean(parent);
  }

  /** Zoom around the part that has the focus. */
  function zoomFocused(factor) {
    const place = places.get(focused)?.getBoundingClientRect(),
      frame = room.getBoundingClientRect();
    if (!place) return step(factor);
    step(factor, (place.left + place.right) / 2 - frame.left, (place.top + place.bottom) / 2 - frame.top);
    places.get(focused)?.scrollIntoView({ block: "nearest", inline: "nearest" });
    hide();
  }

  /**
   * Go to the nearest part of the same sort in a direction: what lies ahead counts, what lies beside counts
   * more against it.
   */
  function go(right, down) {
    const from = places.get(focused)?.getBoundingClientRect(),
      kind = parts.get(focused)?.kind ?? "";
    if (!from) return;
    const like = (part) => (LEAVES.has(kind) ? LEAVES.has(part.kind) : part.kind === kind);
    let best = "",
      least = Infinity;
    for (const [id, place] of places) {
      const part = parts.get(id);
      if (id === focused || !part || !like(part)) continue;
      const to = place.getBoundingClientRect();
      const across = (to.left + to.right - from.left - from.right) / 2,
        along = (to.top + to.bottom - from.top - from.bottom) / 2;
      const ahead = right * across + down * along,
        beside = Math.abs(right ? along : across);
      if (ahead > 1 && ahead + 3 * beside < least) [best, least] = [id, ahead + 3 * beside];
    }
    if (best) focus(best);
  }

  /** Two fingers zoom; a mouse that is held down moves a drawing that is larger than its room. */
  function drag() {
    let apart = 0,
      moved = null;
    const fingers = (event) => {
      const [one, other] = event.touches,
        frame = room.getBoundingClientRect();
      const away = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      return [
        away,
        (one.clientX + other.clientX) / 2 - frame.left,
        (one.clientY + other.clientY) / 2 - frame.top,
      ];
    };
    room.addEventListener(
      "touchstart",
      (event) => (apart = event.touches.length === 2 ? fingers(event)[0] : 0),
      { passive: true },
    );
    room.addEventListener(
      "touchmove",
      (event) => {
        if (event.touches.length !== 2 || !apart) return;
        event.preventDefault();
        const [now, x, y] = fingers(event);
        zoom(scale * (now / apart), x, y);
        apart = now;
      },
      { passive: false },
    );
    room.addEventListener("pointerdown", (event) => {
      dragged = false;
      if (event.pointerType === "mouse" && event.button === 0)
        moved = { x: event.clientX, y: event.clientY, left: room.scrollLeft, top: room.scrollTop };
    });
    room.addEventListener("pointermove", (event) => {
      if (!moved) return;
      const left = moved.x - event.clientX,
        top = moved.y - event.clientY;
      dragged ||= Math.hypot(left, top) > 4;
      room.scrollTo(moved.left + left, moved.top + top);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"])
      room.addEventListener(end, () => (moved = null));
  }

  return {
    element,
    show,
    dim,
    focus,
    select: (id) => choose(id, false),
    /** @param {(part: Part | null) => void} listener */
    onSelect: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    /** Pixels that a drawing may be wide here. */
    width: () =>
      Math.max(
        320,
        Math.min(4096, Math.floor(room.clientWidth || element.parentElement?.clientWidth || innerWidth)),
      ),
  };
}

/** The letter that stands for a holder, on its colour. @param {MapHolder} one */
export function holderMark(one) {
  return h(
    "span",
    { class: `holder-mark ${one.kind === "system" ? "holder-system" : `holder-${one.colour}`}` },
    one.mark,
  );
}

/** Who the marks of a map stand for. @param {{holders: any[]}} map */
export function holdersOf({ holders }) {
  const named = holders.filter((one) => one.mark);
  if (!named.length) return null;
  const more = named.length - MOST_NAMED;
  return h(
    "ul",
    { class: "holders", "aria-label": "Who holds what" },
    named.slice(0, MOST_NAMED).map((one) => h("li", null, holderMark(one), h("span", null, one.name))),
    more > 0 && h("li", null, `and ${more} more`),
  );
}
