import { spawnSync } from "node:child_process";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const HERE = dirname(fileURLToPath(import.meta.url));

const NAMES =
  "test_script test_script_checkpoints test_integrations test_tracker test_launch test_install test_run test_follow test_client test_control_plane test_chart";

for (const name of NAMES.split(" ")) {
  test(`the Python package passes its own tests: ${name}`, { timeout: 300_000 }, () => {
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
    const ran = spawnSync("python3", ["-m", "unittest", name], { cwd: resolve(HERE), env, encoding: "utf8", timeout: 290_000 });
    expect(ran.status, ran.error?.message ?? ran.stderr).toBe(0);
    expect(ran.stderr).toMatch(/Ran [1-9]\d* tests?\b/);
  });
}
