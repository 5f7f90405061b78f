// Boots machines and waits to be killed; then the test searches for processes and links that remain.

import { makeFleet } from "./machines/fleet.ts";

const [dir = "", kind = "namespaces", key = ""] = process.argv.slice(2);
const fleet = await makeFleet({ dir, kind: kind === "plain" ? "plain" : "namespaces" });
const request = {
  authorizedKeys: [key],
  user: "root",
  env: {},
  bootMs: 0,
  gpus: 0,
  gpuName: "",
  diskMb: 32,
  apiPort: null,
};
const machines = await Promise.all(
  ["left-1", "left-2"].map((name) => fleet.boot({ ...request, name, startScript: "exec sleep 1000" })),
);
console.log(JSON.stringify(machines.map(({ address, port }) => ({ address, port }))));
setInterval(() => undefined, 1000);
