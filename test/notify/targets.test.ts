// The targets of a home: those that configure() set, and those of the API.

import { expect, it } from "vitest";
import { putRegistry } from "../../src/secrets/put-registry.ts";
import { exclusively } from "../../src/store/file-lock.ts";
import { NotifyWorld } from "./world.ts";

it("A target that configure() set counts as a whole, before one of the home with the same name", async () => {
  const world = await NotifyWorld.open();
  const ntfy = { kind: "ntfy", url: "https://ntfy.example" } as const;
  await world.add("team", { ...ntfy, topic: "of-the-home", events: ["failed"] });
  await world.add("mine", { ...ntfy, topic: "mine" });
  const team = { ...ntfy, topic: "of-configure" };
  const options = { exclusively, machinesOf: () => 0, secretOf: () => null };
  const body = { registry: { notifications: { targets: { team } } }, use: [], values: {} };
  putRegistry(body, { home: world.h.home, env: {} }, options);
  expect(world.targets.list().map(({ name, from }) => [name, from])).toEqual([
    ["mine", "home"],
    ["team", "registry"],
  ]);
  expect(world.targets.get("team")).toEqual({ name: "team", target: team, from: "registry" });
  await expect(world.add("team", { ...ntfy, topic: "again" })).rejects.toMatchObject({ code: "notify_read_only" });
});
