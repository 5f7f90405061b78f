import type { Gpu } from "../../../src/schemas/job.ts";

const COUNTS = [1, 2, 4, 8];

interface GpuPickerProps {
  gpus: readonly Gpu[];
  provider: string;
  value: string;
  onChange: (value: string) => void;
}

/** Buttons for the catalogue's models; any other may be typed into the field above. */
export function GpuPicker({ gpus, provider, value, onChange }: GpuPickerProps) {
  const [model = "", count = "1"] = value.split(":");
  const offered = gpus.filter((gpu) => (gpu.providers as readonly string[]).includes(provider));
  if (offered.length === 0) return null;
  const known = offered.some((gpu) => gpu.model === model);
  return (
    <div className="field-wide gpu-picker">
      <ul className="chips plain" aria-label="Models">
        {offered.map((gpu) => (
          <li key={gpu.model}>
            <button
              type="button"
              className="chip"
              aria-pressed={gpu.model === model}
              onClick={() => onChange(`${gpu.model}:${known ? count : "1"}`)}
            >
              {gpu.model} <span className="quiet num">{gpu.vram_gb} GB</span>
            </button>
          </li>
        ))}
      </ul>
      {known && (
        <fieldset className="segments">
          <legend>On one machine</legend>
          {COUNTS.map((each) => (
            <label key={each}>
              <input
                type="radio"
                name="gpu-count"
                checked={String(each) === count}
                onChange={() => onChange(`${model}:${each}`)}
              />
              <span>{each}</span>
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}
