// Attacks through other people's programs: packages during installation, rsync during its run.

import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { MAIN } from "../program.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = <T>(path: string): T => JSON.parse(readFileSync(join(ROOT, path), "utf8")) as T;

interface Manifest {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}
interface Lock {
  packages: Record<string, { version?: string; integrity?: string; resolved?: string; link?: boolean }>;
}

it("every package has one version and one content", () => {
  const { dependencies, devDependencies } = read<Manifest>("package.json");
  const asked = Object.entries({ ...dependencies, ...devDependencies });
  expect(asked.filter(([, version]) => !/^(\d+\.\d+\.\d+|file:scripts\/\w+)$/.test(version))).toEqual([]);
  const locked = Object.entries(read<Lock>("package-lock.json").packages);
  expect(locked.length).toBeGreaterThan(100);
  const foreign = locked.filter(([path]) => path.includes("node_modules/"));
  const open = foreign.filter(([, { link, integrity }]) => link !== true && integrity?.startsWith("sha512-") !== true);
  expect(open.map(([path]) => path)).toEqual([]);
});

it("setup runs no script of a package", () => {
  expect(readFileSync(join(ROOT, "scripts/setup.mjs"), "utf8")).toMatch(/\["ci", "--ignore-scripts",/);
});

it.each([
  ["3.4.3", "warn"],
  ["3.5.0", "ok"],
  ["3.10.0", "ok"],
])("an rsync that trusts the other side too much causes a warning: %s is %s", (version, status) => {
  const top = mkdtempSync(join(tmpdir(), "svc-rsync-"));
  try {
    writeFileSync(join(top, "rsync"), `#!/bin/sh\necho 'rsync  version ${version}  protocol version 32'\n`);
    chmodSync(join(top, "rsync"), 0o755);
    const env = { ...process.env, PATH: `${top}:${process.env["PATH"] ?? ""}`, SVC_HOME: join(top, "home") };
    const told = spawnSync(process.execPath, [MAIN, "doctor", "--json"], {
      env,
      encoding: "utf8",
      timeout: DEADLINE_MS,
    });
    const { checks } = JSON.parse(told.stdout) as { checks: { name: string; status: string; found: string }[] };
    expect(checks.find((check) => check.name === "rsync")).toMatchObject({ status, found: version });
  } finally {
    rmSync(top, { recursive: true, force: true });
  }
});
