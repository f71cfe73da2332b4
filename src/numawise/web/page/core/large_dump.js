// Large dumps of kubectl: read piece by piece, left of it what decides, and packed, so that a request can
// carry it.
import { Problem } from "./api.js";
import { LARGEST, base64, readFiles } from "./files.js";

/**
 * Parts of objects that decide nothing: lists and mappings of these names. Labels of the same names are
 * texts, and stay.
 */
const LEFT_OUT = new Set(
  "args command env envFrom fieldsV1 images imagePullSecrets lastState lifecycle livenessProbe readinessProbe startupProbe volumeDevices volumeMounts volumes volumesAttached volumesInUse".split(
    " ",
  ),
);
const APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const [QUOTE, ESCAPE, OPEN, CLOSE, LIST, END] = [...'"\\{}[]'].map((one) => one.charCodeAt(0));

const MIB = 2 ** 20;
const COMMAND = "give it to numawise serve --nodes";

/**
 * Dropped dumps; of those that are too much for a request, what decides.
 * @param {(words: string) => void} say told how far it is
 */
export async function readDumps(list, say) {
  const files = await readFiles(list, (file) => reducedFile(file, say));
  const size = files.reduce((sum, file) => sum + file.size, 0);
  if (size > LARGEST)
    throw new Problem({
      detail: `what decides has ${Math.ceil(size / MIB)} MiB, packed, and at most ${LARGEST / MIB} MiB can be sent`,
      advice: COMMAND,
    });
  return files;
}

async function reducedFile(file, say) {
  const size = `${Math.ceil(file.size / MIB)} MiB`;
  try {
    const bytes = await packedDump(file, (share) =>
      say(`${file.name} is being read: ${Math.round(share * 100)} % of ${size}`),
    );
    return { name: file.name, size: bytes.length, base64: base64(bytes) };
  } catch {
    throw new Problem({
      detail: `${file.name} has ${size}, and is no list in JSON as kubectl prints it`,
      advice: `drop at most ${LARGEST / MIB} MiB of anything else`,
    });
  }
}

/**
 * @param {File} file a list of objects in JSON
 * @param {(share: number) => void} onShare told how much was read
 * @returns {Promise<Uint8Array>} what is left, packed by gzip
 */
export async function packedDump(file, onShare) {
  const pack = new CompressionStream("gzip"),
    sink = pack.writable.getWriter();
  const packed = new Response(pack.readable).arrayBuffer();
  const items = itemReader();
  const encoder = new TextEncoder();
  const source = file.stream().getReader();
  let read = 0,
    count = 0;
  await sink.write(encoder.encode('{"items":['));
  for (let part = await source.read(); !part.done; part = await source.read()) {
    for (const text of items.take(part.value))
      await sink.write(encoder.encode(`${count++ ? "," : ""}${reduced(text)}`));
    read += part.value.length;
    onShare(read / file.size);
  }
  await sink.write(encoder.encode(`],"kind":${JSON.stringify(items.kind())}}`));
  await sink.close();
  return new Uint8Array(await packed);
}

function reduced(text) {
  return JSON.stringify(JSON.parse(text), (key, value) =>
    key === APPLIED || (LEFT_OUT.has(key) && typeof value === "object") ? undefined : value,
  );
}

/** Finds the objects of the list in an object, and what stands around them. */
function itemReader() {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const text = (bytes, from, to) => decoder.decode(bytes.subarray(from, to), { stream: true });
  let depth = 0,
    quoted = false,
    escaped = false,
    listed = false,
    item = false,
    around = "",
    begun = "",
    seen = 0;

  function* take(bytes) {
    let from = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (quoted) {
        if (escaped) escaped = false;
        else if (byte === ESCAPE) escaped = true;
        else if (byte === QUOTE) quoted = false;
      } else if (byte === QUOTE) quoted = true;
      else if (byte === OPEN || byte === LIST) {
        if (depth === 1) listed = byte === LIST;
        if (depth === 2 && listed) {
          if (!seen) around += text(bytes, from, at);
          [item, from, begun] = [true, at, ""];
        }
        depth += 1;
      } else if (byte === CLOSE || byte === END) {
        depth -= 1;
        if (item && depth === 2) {
          seen += 1;
          yield begun + text(bytes, from, at + 1);
          [item, from] = [false, at + 1];
        }
      }
    }
    if (item) begun += text(bytes, from);
    else if (!seen || depth < 2) around += text(bytes, from);
  }

  return { take, kind: () => String(JSON.parse(around).kind ?? "") };
}
