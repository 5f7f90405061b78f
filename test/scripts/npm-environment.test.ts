// npm finds the machine's own configuration beside the Node that runs it.

import { afterEach, beforeEach, expect, it } from "vitest";
import { npmEnvironment } from "../../scripts/lib/npm-environment.mjs";

const before = { ...process.env };
beforeEach(() => {
  process.env["PATH"] = "/home/me/svc/node_modules/.bin:/opt/node_modules/.bin:/usr/bin";
  process.env["NODE_ENV"] = "production";
  process.env["npm_config_omit"] = "dev";
  process.env["npm_config_cafile"] = "/etc/ca.pem";
});
afterEach(() => {
  process.env = { ...before };
});

it("Packages are installed with the Node of the machine, whose npm configuration names registry and certificates", () => {
  expect(npmEnvironment("/home/me/svc").PATH).toBe("/opt/node_modules/.bin:/usr/bin");
});

it("Settings that other projects need leave out no package of this one", () => {
  const { NODE_ENV, npm_config_omit, npm_config_cafile } = npmEnvironment("/home/me/svc");
  expect([NODE_ENV, npm_config_omit, npm_config_cafile]).toEqual([undefined, undefined, "/etc/ca.pem"]);
});
