// The spec that `svc plan` makes of its arguments, and a refusal in its answer.

import { expect, it } from "vitest";
import { tell } from "../../src/cli/commands/plan/table.ts";
import { specOf } from "../../src/cli/commands/plan/spec.ts";
import type { Input } from "../../src/cli/command.ts";
import type { Io } from "../../src/cli/io.ts";
import type { Plan } from "../../src/schemas/plan.ts";

const planned = (flags: Record<string, string>): Record<string, unknown> => {
  const values = new Map(Object.entries(flags).map(([flag, text]) => [flag, [text]]));
  const input: Input = { args: ["train.py"], flags: new Set(), values, json: false, fields: null };
  return specOf(input, { env: { PWD: "/home/me/here" } } as unknown as Io);
};
const dirOf = (folder?: string): unknown =>
  planned(folder === undefined ? {} : { "project-dir": folder })["project_dir"];

it.each([
  [undefined, "/home/me/here"],
  ["../there", "/home/me/there"],
  ["/srv/project", "/srv/project"],
])("--project-dir %s is the folder %s", (folder, dir) => expect(dirOf(folder)).toBe(dir));

it("A GPU without a provider is refused in words of the command line, since this computer was not named", () => {
  expect(() => planned({ gpus: "A100:2" })).toThrow(
    expect.objectContaining({
      exit: 2,
      message: "--gpus A100:2 needs a provider.",
      hint: "Add --provider with one of podhost, market, cloudvm, notebook, or write --gpus cpu for this computer.",
    }),
  );
  expect(planned({ gpus: "cpu:2" })).toMatchObject({ gpus: "cpu:2" });
  expect(planned({ gpus: "A100", provider: "podhost" })).toMatchObject({ gpus: "A100", provider: "podhost" });
  expect(planned({ gpus: "A100", candidate: "market/H100" })).toMatchObject({ gpus: "A100" });
});

it("A refusal is told in a pipe as well", async () => {
  const refusal = { code: "x", message: "There is no file trian.py", hint: "Did you mean train.py?", field: null };
  const told = { candidates: [], order: [], warnings: [], refusals: [refusal] } as unknown as Plan;
  const said: string[] = [];
  await tell(told, { tty: false, out: async () => {}, err: (text: string) => void said.push(text) } as unknown as Io);
  expect(said).toEqual(["Refused: There is no file trian.py. Did you mean train.py?"]);
});
