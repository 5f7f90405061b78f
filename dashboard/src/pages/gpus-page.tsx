// The GPUs page: known models, their memory and who offers them.

import { useState } from "react";
import type { Gpu } from "../../../src/schemas/job.ts";
import { api } from "../api.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useTitle } from "../parts/title.ts";
import { Link, navigate, usePlace } from "../router.tsx";
import { PROVIDER_NAMES, REMOTE_NAMES } from "../../../src/providers/descriptors.ts";

const MOST_GB = 141;

export function GpusPage() {
  useTitle("GPUs");
  const { query } = usePlace();
  const provider = PROVIDER_NAMES.find((each) => each === query.get("provider")) ?? null;
  const [least, setLeast] = useState(0);
  const { data, problem } = useAnswer(api.gpus);
  const shown = (data?.gpus ?? []).filter(
    (gpu) => (provider === null || gpu.providers.includes(provider)) && gpu.vram_gb >= least,
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>GPUs</h1>
        <div className="filter-end">
          <label className="range">
            At least {least} GB
            <input
              type="range"
              min={0}
              max={80}
              step={8}
              value={least}
              onChange={(event) => setLeast(Number(event.target.value))}
            />
          </label>
          <select
            className="select"
            aria-label="Provider"
            value={provider ?? ""}
            onChange={(event) =>
              navigate(event.target.value ? `/gpus?provider=${event.target.value}` : "/gpus", { keepScroll: true })
            }
          >
            <option value="">All providers</option>
            {REMOTE_NAMES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
      </div>
      <p className="quiet prose">
        Not a complete list: <code>gpus</code> of a run accepts any model, as <code>MODEL:COUNT</code>. Memory is what
        one GPU of the model typically has. The form of a new run shows what is available now, and at which price.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the catalogue…</p>}
      <ul className="gpu-grid plain">
        {shown.map((gpu) => (
          <GpuCard key={gpu.model} gpu={gpu} />
        ))}
      </ul>
      {data !== null && shown.length === 0 && <p className="quiet pad">No model in the catalogue matches.</p>}
    </div>
  );
}

function GpuCard({ gpu }: { gpu: Gpu }) {
  return (
    <li className="gpu-card">
      <h2>{gpu.model}</h2>
      <p className="gpu-memory">
        <meter min={0} max={MOST_GB} value={gpu.vram_gb} aria-label={`${gpu.vram_gb} GB of memory`} />
        <span className="num">{gpu.vram_gb} GB</span>
      </p>
      <p className="chips">
        <span className="quiet small-text">New run on</span>
        {gpu.providers.map((provider) => (
          <Link
            key={provider}
            className="chip"
            href={`/new?provider=${provider}&gpus=${encodeURIComponent(`${gpu.model}:1`)}`}
            aria-label={`New run on ${gpu.model} at ${provider}`}
          >
            {provider}
          </Link>
        ))}
      </p>
    </li>
  );
}
