import { THIS_COMPUTER } from "../providers/descriptors.ts";
import { existsSync } from "node:fs";
import { join } from "node:path";

const EXAMPLE = { dir: ["examples", "digits"], entrypoint: "train.py" };

/** The training run that comes with the program, ready to be submitted; null where it was not installed. */
export function exampleIn(programRoot: string): { label: string; spec: Record<string, unknown> } | null {
  const dir = join(programRoot, ...EXAMPLE.dir);
  if (!existsSync(join(dir, EXAMPLE.entrypoint))) return null;
  return {
    label: "digits",
    spec: { entrypoint: EXAMPLE.entrypoint, project_dir: dir, provider: THIS_COMPUTER, gpus: "cpu" },
  };
}
