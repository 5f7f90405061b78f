// Parses the spelling of a GPU's name: `NVIDIA GeForce RTX 4090`, `rtx-4090`, `RTX4090` and `4090` are one card; `H100
// SXM` and `NVIDIA H100 80GB HBM3` are one variant of another.

import { ownValue } from "./own-value.ts";

/** The parts of a GPU's name. */
export interface GpuName {
  /** The card, without vendor, form and memory: `4090`, `h100`, `6000 pro`. */
  card: string;
  /** The variants that the name selects: `sxm`, `pcie`, `server`. Empty where the name covers all of them. */
  variants: ReadonlySet<string>;
  /** Gigabytes, if the name contains them. */
  memoryGb: number | null;
}

/** Words for the vendor, or that every card of the kind has in its name. */
const NOISE = new Set(
  "nvidia amd geforce tesla quadro instinct rtx gtx q generation gen edition blackwell gpu graphics ac oam google".split(
    " ",
  ),
);
const VARIANTS: Readonly<Record<string, string>> = {
  sxm: "sxm",
  hbm3: "sxm",
  pcie: "pcie",
  pci: "pcie",
  nvl: "nvl",
  server: "server",
  se: "server",
  workstation: "workstation",
  ws: "workstation",
  wk: "workstation",
  maxq: "maxq",
  sff: "sff",
  fhhl: "fhhl",
};

/** Cards that are SXM modules unless their name says otherwise: `H200` is one, `H200 NVL` is not. */
const SXM_UNLESS_NAMED: ReadonlySet<string> = new Set(["h200", "b200", "b300", "gh200"]);
/** `H-100`, `A 6000`, `MI 300X`, `L40-S`: a letter that is separated from its number. A letter before gigabytes is not (`Titan V 12GB`). */
const APART =
  /(?<![a-z0-9])(?:(gb|gh|mi|[abhlptv])[\s_-]+(\d{1,4}[a-z]?(?![a-z0-9])(?![\s_-]*gi?b?(?![a-z])))|(l40)[\s_-]+(s)(?![a-z0-9]))/g;

export function readGpuName(name: string): GpuName {
  const words = name
    .slice(0, 200)
    .toLowerCase()
    .replace(/\bmax[\s_-]?q\b/g, "maxq")
    .replace(APART, "$1$2$3$4")
    .match(/[a-z]*\d+(?!\d)[a-z]?(?![a-z])|[a-z]*\d+|[a-z]+/g);
  const card: string[] = [];
  const variants = new Set<string>();
  let memoryGb: number | null = null;
  const all = (words ?? []).flatMap(partsOf);
  for (const [at, word] of all.entries()) {
    const next = all[at + 1];
    const variant = ownValue(VARIANTS, word);
    if (word === "gb" || word === "g") continue;
    if (/^\d{2,3}$/.test(word) && (next === "gb" || next === "g")) memoryGb = Number(word);
    else if (/^sxm\d?$/.test(word)) variants.add("sxm");
    // `RTX PRO 6000 S` is the server's; the letter behind another card's number is part of that card.
    else if (word === "s" && all.includes("pro")) variants.add("server");
    else if (variant !== undefined) variants.add(variant);
    else if (!NOISE.has(word)) card.push(word);
  }
  // A Max-Q card is a workstation's as well, which its name may leave out.
  if (variants.has("maxq")) variants.delete("workstation");
  return { card: card.toSorted().join(" "), variants, memoryGb };
}

/** `rtx4090` is `4090`, `4080s` is `4080 super`, `pro6000` is `pro 6000`, `80g` is `80 g`. */
function partsOf(word: string): string[] {
  const bare = word.replace(/^(?:rtx|gtx)(?=[a-z]*\d)/, "");
  const pro = /^(pro)(\d+)([a-z]?)$/.exec(bare);
  if (pro) return pro.slice(1).filter((part) => part !== "");
  if (bare === "tisuper") return ["ti", "super"];
  const supers = /^(\d{4})s$/.exec(bare);
  if (supers) return [supers[1] ?? bare, "super"];
  const gigabytes = /^(\d{2,3})g$/.exec(bare);
  return gigabytes ? [gigabytes[1] ?? bare, "g"] : [bare];
}

/** Every spelling of one card and variant gives the same key. */
export function gpuKey(name: string): string {
  const { card, variants, memoryGb } = readGpuName(name);
  return [card, ...[...variants].toSorted(), ...(memoryGb === null ? [] : [`${memoryGb}gb`])].join(" ");
}

/**
 * Whether a card sold under the name `sold` is covered by `wanted`. A name without a variant covers all variants; one
 * with a variant covers only that one. `leastGb` is the memory a card must have if the name itself gives none.
 */
export function gpuCovers(wanted: GpuName, sold: GpuName, leastGb: number | null, soldGb: number | null): boolean {
  if (wanted.card === "" || wanted.card !== sold.card) return false;
  const isSxm = sold.variants.size === 0 && SXM_UNLESS_NAMED.has(sold.card);
  for (const variant of wanted.variants) if (!sold.variants.has(variant) && !(isSxm && variant === "sxm")) return false;
  const has = soldGb ?? sold.memoryGb;
  if (wanted.memoryGb !== null) return has === null || near(has, wanted.memoryGb);
  return leastGb === null || has === null || has >= leastGb * TOLERANCE;
}

/** Cards report less memory than is printed on them. */
const TOLERANCE = 0.9;
const near = (a: number, b: number): boolean => a >= b * TOLERANCE && b >= a * TOLERANCE;
