// Shows the present use and memory of each GPU of an active run's machines, or of the processor where a machine has no GPU.

import { useEffect, useMemo } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { age } from "../format.ts";
import { useNow } from "../parts/now.ts";
import { Sparkline } from "../parts/sparkline.tsx";
import { Link, runPath } from "../router.tsx";
import { useData } from "../store.ts";
import type { Columns } from "./metrics/columns.ts";
import type { KnownMetrics } from "./metrics/use-metrics.ts";

const SHOWN = /^system\/(?:gpu\d+_(?:util_percent|memory_mib)|cpu_cores|memory_bytes)$/;
const GPU = /^system\/gpu(\d+)_/;
/** The machine is sampled every ten seconds; values that are older say nothing about now. */
const OLD_MS = 60_000;
const ROWS_MAX = 8;
const RECENT = 60;

interface Use {
  key: string;
  node: number;
  gpu: number | null;
  /** In percent for a GPU, in cores for a processor. */
  use: readonly number[];
  memory: number | null;
  atMs: number;
}

/** The newest values of a node's series, oldest first. */
function newest(columns: Columns | null, node: number): { values: number[]; atMs: number } {
  const values: number[] = [];
  let atMs = 0;
  for (let i = (columns?.value.length ?? 0) - 1; i >= 0 && values.length < RECENT; i--) {
    if (columns?.rank[i] !== node) continue;
    values.push(columns.value[i] ?? Number.NaN);
    atMs ||= (columns.time[i] ?? 0) * 1_000;
  }
  return { values: values.reverse(), atMs };
}

function usesOf({ set, names }: KnownMetrics): Use[] {
  const reader = set.readers[0];
  if (!reader) return [];
  const gpus = [...new Set(names.flatMap((name) => GPU.exec(name)?.[1] ?? []))].map(Number).sort((a, b) => a - b);
  const nodesOf = (name: string) => [...new Set(reader.columns(name)?.rank ?? [])].sort((a, b) => a - b);
  if (gpus.length === 0)
    return nodesOf("system/cpu_cores").map((node) => {
      const { values, atMs } = newest(reader.columns("system/cpu_cores"), node);
      const memory = newest(reader.columns("system/memory_bytes"), node).values.at(-1) ?? null;
      return { key: `${node}`, node, gpu: null, use: values, memory, atMs };
    });
  return gpus
    .flatMap((gpu) =>
      nodesOf(`system/gpu${gpu}_util_percent`).map((node) => {
        const { values, atMs } = newest(reader.columns(`system/gpu${gpu}_util_percent`), node);
        const mib = newest(reader.columns(`system/gpu${gpu}_memory_mib`), node).values.at(-1);
        return {
          key: `${node}/${gpu}`,
          node,
          gpu,
          use: values,
          memory: mib === undefined ? null : mib * 1_048_576,
          atMs,
        };
      }),
    )
    .sort((a, b) => a.node - b.node || (a.gpu ?? 0) - (b.gpu ?? 0));
}

/** The memory of each GPU by node, as the machine reported it when svc connected. */
function useGpuMemory(id: string): ReadonlyMap<string, number> {
  const steps = useData((data) => data.timelines[id]?.steps);
  return useMemo(() => {
    const found = new Map<string, number>();
    for (const { step, node, detail } of steps ?? []) {
      const gpus = step === "await_ssh" ? detail?.["gpus"] : null;
      if (Array.isArray(gpus))
        for (const [i, gpu] of (gpus as { memory_mib?: unknown }[]).entries())
          if (typeof gpu.memory_mib === "number") found.set(`${node}/${i}`, gpu.memory_mib * 1_048_576);
    }
    return found;
  }, [steps]);
}

export function MachineUse({ job, metrics }: { job: JobRecord; metrics: KnownMetrics }) {
  const { set, names } = metrics;
  const wanted = names.filter((name) => SHOWN.test(name)).join("\n");
  useEffect(() => {
    const stops = wanted === "" ? [] : wanted.split("\n").flatMap((name) => set.readers.map((each) => each.want(name)));
    return () => stops.forEach((stop) => stop());
  }, [set, wanted]);
  const totals = useGpuMemory(job.id);
  const now = useNow();
  const uses = usesOf(metrics);
  if (uses.length === 0) return null;
  const nodes = new Set(uses.map(({ node }) => node)).size;
  const latest = Math.max(...uses.map(({ atMs }) => atMs));
  return (
    <section className="panel machine-use" aria-labelledby="use-title">
      <div className="panel-head">
        <h2 id="use-title">{uses[0]?.gpu === null ? "Processor" : "GPUs"} now</h2>
        <span className="quiet small-text">
          {now - latest > OLD_MS ? `measured ${age(now - latest)} ago` : ""}{" "}
          <Link href={`${runPath(job.id, "metrics")}&find=system`} keepScroll>
            Over time
          </Link>
        </span>
      </div>
      <ul className="plain">
        {uses.slice(0, ROWS_MAX).map((each) => (
          <UseRow key={each.key} use={each} total={totals.get(each.key) ?? null} nodes={nodes} />
        ))}
      </ul>
      {uses.length > ROWS_MAX && (
        <p className="quiet small-text">
          {uses.length - ROWS_MAX} more; least used of all{" "}
          {wordsOfUse(uses[0]?.gpu ?? null, Math.min(...uses.map(lastUse)))}
        </p>
      )}
    </section>
  );
}

const gib = (n: number): string => String(Number((n / 1_073_741_824).toPrecision(3)));
const wordsOfUse = (gpu: number | null, use: number): string =>
  gpu === null ? `${use.toFixed(1)} cores` : `${Math.round(use)} %`;
const lastUse = ({ use }: Use): number => use.at(-1) ?? 0;

function UseRow({ use, total, nodes }: { use: Use; total: number | null; nodes: number }) {
  const { gpu, node, memory } = use;
  const name = [
    ...(nodes > 1 ? [`Node ${node}`] : []),
    ...(gpu === null ? (nodes > 1 ? [] : ["CPU"]) : [`GPU ${gpu}`]),
  ].join(", ");
  return (
    <li className="use-row">
      <span>{name}</span>
      <Sparkline values={use.use} min={0} max={gpu === null ? null : 100} />
      <span className="num right">{wordsOfUse(gpu, lastUse(use))}</span>
      <span className="use-memory num right">
        {memory === null
          ? ""
          : gpu === null
            ? bytes(memory)
            : `${gib(memory)}${total === null ? "" : ` of ${gib(total)}`} GiB`}
      </span>
    </li>
  );
}
