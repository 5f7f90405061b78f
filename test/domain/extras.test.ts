import { expect, test } from "vitest";
import { requireExtra } from "../../src/domain/extras.ts";
import { SvcError } from "../../src/errors/index.ts";

test("an extra that the Python lacks is refused by name, with the command that installs it", () => {
  const refused = (env: NodeJS.ProcessEnv): unknown => {
    try {
      return requireExtra("hub", env);
    } catch (e) {
      return e instanceof SvcError ? [e.code, e.status, e.hint] : e;
    }
  };
  expect(refused({ SVC_EXTRAS: "podhost,tracker" })).toEqual([
    "extra_missing",
    501,
    "Run `pip install 'svc[hub]'` in the Python environment that svc is installed in, then restart svc.",
  ]);
  expect(refused({ SVC_EXTRAS: "" })).toBeInstanceOf(Array);
  expect(refused({ SVC_EXTRAS: "podhost,hub" })).toBeUndefined();
  // This process was started from a checkout or the npm package.
  expect(refused({})).toBeUndefined();
});
