// The spec that `svc plan` makes of its arguments.

import { expect, it } from "vitest";
import { specOf } from "../../src/cli/commands/plan/spec.ts";
import type { Input } from "../../src/cli/command.ts";
import type { Io } from "../../src/cli/io.ts";

const dirOf = (folder?: string): unknown => {
  const values = new Map(folder === undefined ? [] : [["project-dir", [folder]]]);
  const input: Input = { args: ["train.py"], flags: new Set(), values, json: false, fields: null };
  return specOf(input, { env: { PWD: "/home/me/here" } } as unknown as Io)["project_dir"];
};

it.each([
  [undefined, "/home/me/here"],
  ["../there", "/home/me/there"],
  ["/srv/project", "/srv/project"],
])("--project-dir %s is the folder %s", (folder, dir) => expect(dirOf(folder)).toBe(dir));
