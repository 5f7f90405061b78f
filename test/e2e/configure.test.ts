// `configure()` of both SDKs with a control plane that already runs in another environment and is then killed.

import { createHash } from "node:crypto";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Place, ROOT } from "../process/harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("it is killed");
  place.file(
    "tell.py",
    'import hashlib, os\nprint(hashlib.sha256(os.environ["TRACKER_API_KEY"].encode()).hexdigest(), os.environ["WANDB_PROJECT"], os.environ["TRACKER_API_KEY"])\n',
  );
});
afterEach(() => place.close());

const SDK = JSON.stringify(join(ROOT, "sdk/index.ts"));
const REGISTRY = '{"tracking": {"tracker": {"secret_ref": "env://MY_TRACKER", "project": "p-1"}}}';
const LANGUAGES = {
  python: [
    "python3",
    "-c",
    `import svc, json\nsvc.configure(registry=json.loads('${REGISTRY}'), use=[])\nj = svc.run(task={"entrypoint": "tell.py"}, wait=True)\nprint(j.id)`,
  ],
  typescript: [
    process.execPath,
    "--input-type=module",
    "-e",
    `import { configure, run } from ${SDK};\nconfigure({ registry: ${REGISTRY}, use: [] });\nconsole.log((await run({ task: { entrypoint: "tell.py" }, wait: true })).id);`,
  ],
};

test.each(Object.entries(LANGUAGES))(
  "%s: env:// is the script's own, reaches runs after a restart, too, and lies nowhere in clear",
  async (_language, [command = "", ...argv]) => {
    const secret = "tracker-key-of-the-script-0123456789abcdef";
    const first = await place.serve({ env: { MY_TRACKER: "of-the-control-plane" } });
    const script = spawnSync(command, argv, {
      cwd: place.project,
      encoding: "utf8",
      env: { ...process.env, SVC_HOME: place.home, PYTHONPATH: join(ROOT, "python"), MY_TRACKER: secret },
    });
    expect(script.stderr).toBe("");
    const hash = createHash("sha256").update(secret).digest("hex");
    const line = `${hash} p-1 ***redacted***\n`;
    expect(place.log(script.stdout.trim()).toString()).toBe(line);
    await first.kill();
    const second = await place.serve({});
    const id = await second.submit({ entrypoint: "tell.py" });
    await second.ended(id);
    expect(place.log(id).toString()).toBe(line);
    await second.kill();
    for (const entry of readdirSync(place.home, { withFileTypes: true, recursive: true }))
      if (entry.isFile())
        expect(readFileSync(join(entry.parentPath, entry.name)).includes(secret), entry.name).toBe(false);
  },
);
