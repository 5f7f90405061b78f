import { expect, test } from "vitest";
import { asksForJson, declare, oneOf, parseArgv, value, whole } from "../../src/cli/argv.ts";
import { nearest } from "../../src/domain/nearest.ts";
import { allCommands } from "../../src/cli/commands/index.ts";
import type { Input } from "../../src/cli/command.ts";
import { SvcError } from "../../src/errors/index.ts";

const COMMANDS = await allCommands();

const cli = declare(COMMANDS, "1.2.3");
const parse = (line: string) => parseArgv(line === "" ? [] : line.split(" "), cli, COMMANDS);

function run(line: string): { name: string; input: Input } {
  const parsed = parse(line);
  if (parsed.kind !== "run") throw new Error(`${line} is ${parsed.kind}`);
  return { name: parsed.command.name, input: parsed.input };
}
function refusal(line: string, then: (input: Input) => void = () => {}): SvcError {
  try {
    then(run(line).input);
  } catch (e) {
    expect(e).toBeInstanceOf(SvcError);
    expect((e as SvcError).exit).toBe(2);
    return e as SvcError;
  }
  throw new Error(`\`${line}\` was accepted`);
}

test.each([
  ["jbos", "svc jobs"],
  ["recon", "svc --help"],
  ["serv", "svc serve"],
  ["jobs --stauts running", "--status"],
  ["kill --al", "--all"],
  ["reconcile --dry", "--dry-run"],
  ["jobs -f", "svc jobs --help"],
  ["jobs --wait", "svc jobs --help"],
  ["kill abc --wait", "--no-wait"],
  ["logs abc -fx", "svc logs --help"],
  ["logs -F abc", "Did you mean -f?"],
  ["run train.py --gpus cpu", "`svc run` shows how a run is started"],
  ["run train.py --gpus cpu", "A run has the field gpus: `gpus=…` in Python"],
  ["run train.py --gpu cpu", "A run has the field gpus: "],
  ["run train.py --budget 5", "A run has the field budget_usd: "],
  ["run train.py --max-runtime 5", "A run has the field max_runtime_minutes: "],
])("The command line refuses `%s` and points to %s", (line, near) => {
  expect(refusal(line).hint).toContain(near);
});

test.each([
  ["serve extra"],
  ["logs"],
  ["logs a b"],
  ["timeline"],
  ["logs a --tail"],
  ["logs a --tail --follow"],
  ["logs a --tail="],
  ["logs a --tail 1 --tail 2"],
  ["jobs --json=yes"],
  ["kill --no-wait=1 a"],
  ["jobs --version"],
  ["constructor"],
  ["__proto__"],
  ["jobs --__proto__=1"],
  ["jobs --status.x=1"],
])("The command line refuses `%s`", (line) => {
  refusal(line);
});

test.each(["010", "x", "-5", "1e3", "1.0", "+1", "0x10", "Infinity", "", " 5", "99999999999999999999"])(
  "a count is exactly digits: %j is refused",
  (text) => {
    try {
      const parsed = parseArgv(["logs", "a", `--tail=${text}`], cli, COMMANDS);
      if (parsed.kind === "run") whole(parsed.input, "tail", { min: 0, max: 1_000_000_000 });
    } catch (e) {
      expect((e as SvcError).code).toBe("usage");
      return;
    }
    throw new Error("accepted");
  },
);

test("a count may follow as its own word, even an invalid one", () => {
  expect(whole(run("logs a --tail 0").input, "tail", { min: 0, max: 9 })).toBe(0);
  refusal("logs a --tail -5", (input) => whole(input, "tail", { min: 0, max: 9 }));
});

test("a job id of digits after a flag stays text", () => {
  expect(run("logs -f 0012").input.args).toEqual(["0012"]);
  expect(run("kill --no-wait 1e5 007").input.args).toEqual(["1e5", "007"]);
});

test("flags may come before the command", () => {
  expect(run("--json jobs").input.json).toBe(true);
  const { name, input } = run("--limit 5 jobs --all");
  expect([name, value(input, "limit"), input.flags.has("all")]).toEqual(["jobs", "5", true]);
  expect(run("-f --tail=3 logs abc").input.args).toEqual(["abc"]);
});

test("words after -- are never flags", () => {
  expect(run("kill -- --all -x").input).toMatchObject({ args: ["--all", "-x"], json: false });
  expect(run("kill -- --all").input.flags.has("all")).toBe(false);
  expect(asksForJson(["kill", "--", "--json"])).toBe(false);
});

test("names with dashes arrive unchanged", () => {
  const { input } = run("serve --until-eof --with-parent 12 --port 0");
  expect([...input.flags]).toEqual(["until-eof"]);
  expect([value(input, "with-parent"), value(input, "port")]).toEqual(["12", "0"]);
});

test("help and version are recognised at any position", () => {
  expect(parse("")).toEqual({ kind: "help", command: null });
  expect(parse("-h")).toEqual({ kind: "help", command: null });
  expect(parse("--version")).toEqual({ kind: "version" });
  for (const line of ["logs --help", "help logs", "--help logs", "logs a b c -h"]) {
    const parsed = parse(line);
    expect(parsed.kind === "help" && parsed.command?.name).toBe("logs");
  }
});

test("an unknown name in a list gets the nearest one as a suggestion", () => {
  expect(refusal("jobs --status runing", (i) => oneOf(i, "status", ["running", "failed"])).hint).toContain(
    "Did you mean running?",
  );
});

test("nearest finds typing errors, not other words", () => {
  expect(nearest("lgos", ["logs", "jobs"])).toBe("logs");
  expect(nearest("banana", ["logs", "jobs"])).toBeNull();
  expect(nearest("x".repeat(100_000), ["logs"])).toBeNull();
});

test.each([
  ["ps", "svc jobs"],
  ["status", "svc jobs"],
  ["queue", "svc jobs"],
  ["ls", "svc jobs"],
  ["stop 4k2m", "svc kill 4k2m"],
  ["cancel", "svc kill"],
  ["down", "svc kill"],
  ["delete 4k2m", "svc rm 4k2m"],
  ["tail 4k2m", "svc logs 4k2m"],
  ["attach 4k2m", "svc logs 4k2m"],
  ["exec 4k2m nvidia-smi", "svc ssh 4k2m nvidia-smi"],
  ["port-forward 4k2m", "svc ssh"],
  ["login", "svc credentials"],
  ["launch train.py", "svc run"],
  ["describe 4k2m", "svc timeline 4k2m"],
  ["upgrade", "svc docs packages"],
  ["uninstall", "svc docs packages"],
])("The habit `%s` is answered with `%s`", (typed, ours) => {
  const { message, hint } = refusal(typed);
  expect(hint).toContain(`Run \`${ours}`);
  expect(message).toContain(`svc has no command \`${typed.split(" ")[0]}\``);
});

test("A count may be joined to its short flag, as in `-n50`", () => {
  expect(value(run("logs a -n50").input, "tail")).toBe("50");
});
