// Decides what the gate's measurements mean for a run: hard findings end the machine, soft ones are reported.
// docs/internals/gate.md has the table with the source of each number. Pure: it asks neither the machine nor a clock.

import { bytes } from "../../domain/bytes.ts";
import { parseCuda } from "../../domain/cuda.ts";
import { bf16TflopsOf } from "../../domain/gpu-floors.ts";
import { compareGpus } from "../../domain/gpu-fit.ts";
import { PROBE_NAMES, type GateAnswers, type ProbeName } from "../../schemas/gate.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { orderOf } from "./machine-fit.ts";

export interface Finding {
  hard: boolean;
  words: string;
}

const FREE_SHARE_HARD = 0.75;
const USED_SHARE_SOFT = 0.1;
const USED_MIB_SOFT = 2_048;
/** Row remapper failed, fallen off the bus, uncontained ECC error. */
const XID_HARD: ReadonlySet<number> = new Set([64, 79, 95]);
/** Faults of the program that used the GPU. */
const XID_OF_SCRIPTS: ReadonlySet<number> = new Set([13, 31, 43, 45]);
const SHM_SOFT_BYTES = 256 * 1024 ** 2;
const DISK_HARD_BYTES = 100e6;
const DISK_SOFT_SHARE = 0.8;
const WRITE_SOFT = 50e6;
const DOWNLOAD_SOFT = 1e6;
const CLOCK_SOFT_MS = 30_000;
const MATMUL_HARD_SHARE = 0.2;
const MATMUL_SOFT_SHARE = 0.4;
const REDUCE_SOFT = 1e9;

const hard = (words: string): Finding => ({ hard: true, words });
const soft = (words: string): Finding => ({ hard: false, words });
const perSecond = (n: number): string => `${bytes(n)}/s`;

const NAMES: Record<ProbeName, string> = {
  gpus: "nvidia-smi",
  gpu_health: "nvidia-smi (health of the GPUs)",
  cuda: "the initialization of CUDA",
  xid: "the kernel's log",
  shm: "/dev/shm",
  disk: "the disk test",
  download: "the package index",
  torch_found: "the search for torch",
  torch: "the GPU test with torch",
};

/** If one of these probes fails, that says nothing about the machine: the image may lack what the probe needs. */
const QUIET_FAILURES: ReadonlySet<ProbeName> = new Set(["gpu_health", "cuda", "xid", "shm", "torch_found"]);

const okOf = <N extends ProbeName>(answers: GateAnswers, name: N) => {
  const answer = answers[name];
  return answer !== undefined && "ok" in answer ? (answer.ok as Extract<GateAnswers[N], { ok: unknown }>["ok"]) : null;
};

/** @param clockAheadMs by how many milliseconds the machine's clock is ahead of ours; null if unknown */
export function judgeGate(spec: RunSpec, answers: GateAnswers, clockAheadMs: number | null): Finding[] {
  return [
    ...gpuFindings(spec, answers),
    ...healthFindings(answers),
    ...cudaFindings(spec, answers),
    ...machineFindings(spec, answers, clockAheadMs),
    ...torchFindings(spec, answers),
    ...PROBE_NAMES.flatMap((name) => failureOf(name, answers)),
  ];
}

function failureOf(name: ProbeName, answers: GateAnswers): Finding[] {
  const answer = answers[name];
  if (answer === undefined || "ok" in answer) return [];
  if ("late" in answer) return [soft(`${NAMES[name]} gave no answer in time`)];
  if (QUIET_FAILURES.has(name)) return [];
  if (name === "disk") return [hard(`its disk cannot be written to: ${answer.error}`)];
  return [soft(`${NAMES[name]} failed: ${answer.error}`)];
}

function gpuFindings(spec: RunSpec, answers: GateAnswers): Finding[] {
  const order = orderOf(spec);
  const found = okOf(answers, "gpus");
  if (order === null || found === null || !found.tool) return [];
  const { gpus, fault } = found;
  if (fault !== null) return [hard(`its GPUs do not work: nvidia-smi exits ${fault.exit} and says: ${fault.words}`)];
  const { unfit } = compareGpus(order, { gpus, driver: gpus[0]?.driver ?? null });
  if (unfit !== null) return [hard(unfit)];
  const known = gpus.flatMap(({ name, memory_mib, free_mib }) =>
    memory_mib === null || free_mib === null || memory_mib === 0 ? [] : [{ name, memory_mib, free_mib }],
  );
  const share = (gpu: (typeof known)[number]): number => gpu.free_mib / gpu.memory_mib;
  const words = (gpu: (typeof known)[number]): string =>
    `only ${gib(gpu.free_mib)} of the ${gib(gpu.memory_mib)} of a GPU's memory are free (${gpu.name})`;
  // As many GPUs as were ordered must be free, so the emptiest ones count.
  const best = known.toSorted((a, b) => share(b) - share(a)).slice(0, order.count);
  const worst = best.at(-1);
  if (worst === undefined || known.length < gpus.length) return [];
  if (share(worst) < FREE_SHARE_HARD) return [hard(words(worst))];
  const used = worst.memory_mib - worst.free_mib;
  return used > USED_MIB_SOFT && used > worst.memory_mib * USED_SHARE_SOFT ? [soft(words(worst))] : [];
}

const gib = (mib: number): string => `${(mib / 1024).toFixed(1)} GiB`;

function healthFindings(answers: GateAnswers): Finding[] {
  const findings: Finding[] = [];
  for (const { uuid, uncorrected, pending, failure } of okOf(answers, "gpu_health")?.gpus ?? []) {
    if (failure) findings.push(hard(`the GPU ${uuid} could not remap a faulty row of its memory`));
    if (pending) findings.push(soft(`the GPU ${uuid} has a faulty row of memory whose remapping waits for a reset`));
    if (uncorrected !== null && uncorrected > 0)
      findings.push(
        soft(`the GPU ${uuid} has had ${uncorrected} uncorrected memory errors since its driver was loaded`),
      );
  }
  const ours = new Set((okOf(answers, "gpus")?.gpus ?? []).map(({ bus }) => busOf(bus)));
  const seen = new Set<string>();
  for (const { bus, xid, seconds_ago } of okOf(answers, "xid")?.xids ?? []) {
    const at = busOf(bus);
    // Skip a GPU of the host's other tenants, and a message that was already reported.
    if (at === null || !ours.has(at) || XID_OF_SCRIPTS.has(xid) || seen.has(`${at} ${xid}`)) continue;
    seen.add(`${at} ${xid}`);
    const when =
      seconds_ago < 7_200 ? `${Math.round(seconds_ago / 60)} min ago` : `${Math.round(seconds_ago / 3_600)} h ago`;
    const words = `the kernel reported Xid ${xid} for the GPU at ${bus} ${when}`;
    findings.push(XID_HARD.has(xid) ? hard(words) : soft(words));
  }
  return findings;
}

/** nvidia-smi's `00000000:01:00.0` and the kernel's `0000:01:00` are the same GPU. */
function busOf(text: string): string | null {
  const [, domain, bus, device] = /^([0-9a-f]+):([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.\d)?$/i.exec(text.trim()) ?? [];
  if (domain === undefined || bus === undefined || device === undefined) return null;
  return [domain, bus, device].map((part) => Number.parseInt(part, 16)).join(":");
}

function cudaFindings(spec: RunSpec, answers: GateAnswers): Finding[] {
  const order = orderOf(spec);
  const found = okOf(answers, "cuda");
  if (order === null || found === null || !found.library || found.code === null) return [];
  if (found.code !== 0) {
    const name = found.name === null ? "" : ` (${found.name})`;
    return [hard(`CUDA cannot be initialized: cuInit returns ${found.code}${name}`)];
  }
  if (found.gpus !== null && found.gpus < order.count)
    return [hard(`${order.count} × ${order.model} ordered, and CUDA shows ${found.gpus}`)];
  const torch = okOf(answers, "torch_found");
  const wheel = parseCuda(torch?.cuda ?? "");
  const driver = found.driver === null ? null : Math.floor(found.driver / 1_000);
  if (wheel === null || driver === null || driver >= wheel.major) return [];
  const minor = Math.floor(((found.driver ?? 0) % 1_000) / 10);
  const words = `its driver serves CUDA ${driver}.${minor}, and the image's torch ${torch?.version ?? ""} needs CUDA ${torch?.cuda}`;
  return [soft(words.replace("  ", " "))];
}

function machineFindings(spec: RunSpec, answers: GateAnswers, clockAheadMs: number | null): Finding[] {
  const findings: Finding[] = [];
  const shm = okOf(answers, "shm");
  if (shm !== null && shm.bytes < SHM_SOFT_BYTES)
    findings.push(
      soft(`/dev/shm has ${bytes(shm.bytes)}: a DataLoader with workers may end with a bus error; use num_workers=0`),
    );
  const disk = okOf(answers, "disk");
  if (disk !== null) {
    const wish = spec.disk_gb === undefined ? null : spec.disk_gb * 1e9;
    if (disk.free_bytes < DISK_HARD_BYTES)
      findings.push(hard(`its disk has ${bytes(disk.free_bytes)} free of ${bytes(disk.bytes)}`));
    else if (wish !== null && disk.free_bytes < wish * DISK_SOFT_SHARE)
      findings.push(soft(`its disk has ${bytes(disk.free_bytes)} free, and disk_gb asks for ${spec.disk_gb} GB`));
    const write = disk.write_bytes_per_second;
    if (write !== null && write < WRITE_SOFT) findings.push(soft(`its disk writes ${perSecond(write)}`));
  }
  const download = okOf(answers, "download");
  const down = download?.bytes_per_second ?? null;
  if (down !== null && down < DOWNLOAD_SOFT)
    findings.push(soft(`it downloads ${perSecond(down)} from ${download?.host ?? "the package index"}`));
  if (clockAheadMs !== null && Math.abs(clockAheadMs) > CLOCK_SOFT_MS) {
    const side = clockAheadMs > 0 ? "ahead of" : "behind";
    findings.push(soft(`its clock is ${Math.round(Math.abs(clockAheadMs) / 1_000)} s ${side} this computer's`));
  }
  return findings;
}

function torchFindings(spec: RunSpec, answers: GateAnswers): Finding[] {
  const found = okOf(answers, "torch");
  const order = orderOf(spec);
  if (found === null || order === null) return [];
  const findings: Finding[] = [];
  for (const [i, { name, tflops, right }] of found.gpus.entries()) {
    const peak = bf16TflopsOf(name);
    if (right === false) findings.push(hard(`GPU ${i} (${name}) multiplies wrongly`));
    if (tflops === null || peak === null) continue;
    const words = `GPU ${i} (${name}) multiplies bf16 at ${tflops} TFLOPS, and its datasheet has ${peak}`;
    if (tflops < peak * MATMUL_HARD_SHARE) findings.push(hard(words));
    else if (tflops < peak * MATMUL_SOFT_SHARE) findings.push(soft(words));
  }
  const reduce = found.all_reduce;
  if (reduce?.right === false) findings.push(hard("a sum over its GPUs (all-reduce) is wrong"));
  else if (reduce?.error) findings.push(soft(`a sum over its GPUs (all-reduce) failed: ${reduce.error}`));
  const speed = reduce?.bytes_per_second ?? null;
  if (speed !== null && speed < REDUCE_SOFT)
    findings.push(soft(`a sum over its GPUs (all-reduce) moves ${perSecond(speed)}`));
  return findings;
}

const mb = (n: number): number => Math.round(n / 1e6);

/** The measured numbers, for the timeline and the page of the run. */
export function gateDetail(answers: GateAnswers, clockAheadMs: number | null): Record<string, unknown> {
  const gpus = okOf(answers, "gpus");
  const cuda = okOf(answers, "cuda");
  const torch = okOf(answers, "torch");
  const disk = okOf(answers, "disk");
  const numbers: Record<string, unknown> = {
    gpus: gpus?.gpus.length ? gpus.gpus.map(({ name }) => name) : null,
    gpu_free_mib: gpus?.gpus.length ? gpus.gpus.map(({ free_mib }) => free_mib) : null,
    gpu_driver: gpus?.gpus[0]?.driver ?? null,
    cuda: cuda?.driver ? `${Math.floor(cuda.driver / 1_000)}.${Math.floor((cuda.driver % 1_000) / 10)}` : null,
    torch: okOf(answers, "torch_found")?.version ?? null,
    matmul_tflops: torch?.gpus.length ? torch.gpus.map(({ tflops }) => tflops) : null,
    all_reduce_mb_s: torch?.all_reduce?.bytes_per_second ? mb(torch.all_reduce.bytes_per_second) : null,
    shm_mb: okOf(answers, "shm") === null ? null : mb(okOf(answers, "shm")?.bytes ?? 0),
    disk_free_mb: disk === null ? null : mb(disk.free_bytes),
    disk_write_mb_s: disk?.write_bytes_per_second ? mb(disk.write_bytes_per_second) : null,
    download_mb_s: okOf(answers, "download")?.bytes_per_second
      ? Number(((okOf(answers, "download")?.bytes_per_second ?? 0) / 1e6).toFixed(1))
      : null,
    clock_ahead_ms: clockAheadMs === null ? null : Math.round(clockAheadMs),
  };
  return Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== null));
}
