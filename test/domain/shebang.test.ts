import { describe, expect, it } from "vitest";
import { parseShebang, startOf } from "../../src/domain/shebang.ts";

const start = (path: string, text: string, executable = false) => startOf(path, Buffer.from(text), executable);

describe("a first line", () => {
  it.each([
    ["#!/bin/bash\n", "/bin/bash", null, "/bin/bash", []],
    ["#! /bin/sh -e -x \nx", "/bin/sh", "-e -x", "/bin/sh", ["-e", "-x"]],
    ["#!/usr/bin/env node\n", "/usr/bin/env", "node", "node", []],
    ["#!/usr/bin/env -S uv run --script\n", "/usr/bin/env", "-S uv run --script", "uv", ["run", "--script"]],
    ["#!/usr/bin/env -vS A=1 -i perl -w\n", "/usr/bin/env", "-vS A=1 -i perl -w", "perl", ["-w"]],
    [
      `#!/usr/bin/env --split-string=bash -c 'a b' "c\\"d"\n`,
      "/usr/bin/env",
      `--split-string=bash -c 'a b' "c\\"d"`,
      "bash",
      ["-c", "a b", 'c"d'],
    ],
    ["#!/bin/bash", "/bin/bash", null, "/bin/bash", []],
    ["#!/usr/bin/env\n", "/usr/bin/env", null, null, []],
    ["#!\n", "", null, null, []],
  ])(
    "%j names its interpreter, one argument, and the program behind env",
    (text, interpreter, argument, program, options) => {
      expect(parseShebang(Buffer.from(text))).toMatchObject({ interpreter, argument, program, options });
    },
  );

  it("is missing if the file begins differently", () => {
    for (const text of ["", "#", "# !/bin/sh", " #!/bin/sh", "print(1)"])
      expect(parseShebang(Buffer.from(text))).toBeNull();
  });
});

describe("a file is started", () => {
  it.each([
    ["run.sh", "#!/usr/bin/env bash\n", "exec"],
    ["run.py", "#!/usr/bin/env -S uv run\n", "exec"],
    ["train", "#!/usr/bin/perl\n", "exec"],
    ["run.py", "#!/usr/bin/node\n", "exec"],
    ["tool", "\x7fELF\0\0\0", "exec"],
    ["tool", "echo hello\n", "sh"],
    ["tool", "", "sh"],
    ["run.sh", "echo hello\n", "sh"],
    ["train.py", "print(1)\n", "python"],
    ["train.py", "#!/usr/bin/env python3\n", "python"],
    ["train", "#!/usr/bin/python3\n", "python"],
  ])("as by hand when it is executable: %s that begins with %j is %s", (path, text, kind) => {
    expect(start(path, text, true)).toMatchObject({ kind });
  });

  it("through the interpreter of its first line if it is not executable", () => {
    expect(start("a.py", "#!/usr/bin/env -S uv run --script\n")).toMatchObject({
      kind: "interpreter",
      words: ["/usr/bin/env", "-S uv run --script"],
    });
    expect(start("a.sh", "#!/bin/bash\n")).toMatchObject({ kind: "interpreter", words: ["/bin/bash"] });
    expect(start("a.txt", "#!/usr/bin/perl -w -T\n")).toMatchObject({
      kind: "interpreter",
      words: ["/usr/bin/perl", "-w -T"],
    });
  });

  it("with the run's Python if it is a Python script, with the options of its first line", () => {
    expect(start("a.py", "#!/usr/bin/env python3\r\nprint(1)\r\n")).toEqual({ kind: "python" });
    expect(start("a.py", "#!/usr/bin/env python3 -u -O\n")).toEqual({ kind: "python", words: ["-O"] });
    expect(start("a.py", "\uFEFF#!/usr/bin/env python\n", true)).toEqual({ kind: "python" });
    expect(start("a.py", "#!/opt/x/bin/python\n", true)).toMatchObject({ kind: "python", named: "/opt/x/bin/python" });
    expect(start("a.py", "#!/usr/bin/env -vS python3 -X dev\r\n")).toEqual({ kind: "python", words: ["-X", "dev"] });
    expect(start("a", "#!/usr/bin/env python3.12\n")).toMatchObject({ kind: "python", named: "python3.12" });
  });

  it.each([
    ["a.sh", "#!/bin/bash\r\necho\r\n", true, /Windows \(CRLF\).*`bash\\r`/],
    ["a.sh", "#!/bin/bash\r\necho\r\n", false, /Windows \(CRLF\)/],
    ["a.sh", "echo\r\n", false, /Windows \(CRLF\)/],
    ["a.sh", "\uFEFF#!/bin/bash\n", true, /byte order mark/],
    ["a.sh", "#!/usr/bin/env bash -eu\n", true, /write `#!\/usr\/bin\/env -S bash -eu`/],
    ["a.py", "#!/usr/bin/env -S PYTHONPATH=src python3\n", true, /sets PYTHONPATH.*in `env` of the run/],
    ["a.py", "#!/usr/bin/env -S -u HOME -C /tmp python3\n", false, /passes -u HOME -C \/tmp to env/],
    ["a.pl", `#!/${"x".repeat(300)}\n`, true, /more than 255 bytes/],
    ["tool", "#!\n", true, /no interpreter is named/],
    ["data.txt", "hello", false, /not executable/],
    ["train.ipynb", "{}", false, /jupyter nbconvert/],
  ])("is refused with the reason: %s that begins with %j, executable: %s", (path, text, executable, why) => {
    expect(start(path, text, executable)).toEqual({ refused: expect.stringMatching(why) });
  });
});
