// Amounts of a node for people: CPUs, memory, devices.

const GROUPED = new Intl.NumberFormat("en");
const GIB = 2 ** 30;

/** The last part of a resource's name. */
export function shortName(resource) {
  return resource.slice(resource.lastIndexOf("/") + 1);
}

/** A resource as people call it. */
export function resourceTitle(resource) {
  return { cpu: "CPUs", memory: "Memory", gpu: "GPUs" }[shortName(resource)] ?? shortName(resource);
}

/** A shape of pods in these words: "4 gpu, 48 cpu, 400Gi" is "4 GPUs, 48 CPUs, 400 GiB". */
export function shapeWords(name) {
  const unit = (_, count, word) =>
    `${count.endsWith("m") ? parseInt(count, 10) / 1000 : count} ${word.toUpperCase()}${count === "1" ? "" : "s"}`;
  return name
    .split(", ")
    .map((part) => part.replace(/^(\S+) (cpu|gpu)$/, unit).replace(/^(\d+)([KMGT]i)$/, "$1 $2B"))
    .join(", ");
}

/** A number with its thousands apart. */
export function grouped(number) {
  return GROUPED.format(number);
}

/** Bytes as GiB or TiB. */
export function bytesText(bytes) {
  const size = bytes / GIB;
  return size >= 10_240
    ? `${grouped(Math.round(size / 102.4) / 10)} TiB`
    : `${grouped(size >= 10 ? Math.floor(size) : Math.round(size * 10) / 10)} GiB`;
}

/** What is free by sums: thousandths of CPUs, bytes, devices. */
export function sumText(resource, amount) {
  if (resource === "cpu") return grouped(Math.floor(amount / 100) / 10);
  return resource === "memory" ? bytesText(amount) : grouped(amount);
}

/** What is free by NUMA node, as `numawise nodes` writes it: "30|12", "4x14|2x12". */
export function perNuma(values) {
  if (values.length <= 4) return values.join("|");
  const groups = [];
  for (const value of values) {
    const last = groups.at(-1);
    if (last && last[0] === value) last[1] += 1;
    else groups.push([value, 1]);
  }
  return groups.map(([value, count]) => (count > 1 ? `${count}x${value}` : value)).join("|");
}

/** A share in percent. */
export function percent(share) {
  return `${Math.round(share * 100)} %`;
}

/** How long ago, in words. */
export function age(time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}
