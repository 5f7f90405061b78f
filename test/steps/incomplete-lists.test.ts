// An order whose answer was lost, with a listing that is incomplete or that shows two machines with its name.

import { afterAll, afterEach, beforeEach, expect, it, vi } from "vitest";
import { inPart } from "../../src/providers/provider.ts";
import { provisionStep } from "../../src/steps/provision.ts";
import { terminateStep } from "../../src/steps/terminate.ts";
import { removeHomes } from "../engine/harness.ts";
import { down } from "../engine/small-cloud.ts";
import { Rent } from "./rent.ts";

let rent: Rent;
beforeEach(async () => {
  rent = await Rent.open();
});
afterEach(() => rent.h.end());
afterAll(removeHomes);

/** The machine of the first order exists, on a page that cannot be read. */
async function loseTheAnswer(): Promise<{ mend: () => void }> {
  rent.loseAnswers();
  await expect(rent.run(provisionStep)).rejects.toThrow();
  rent.cloud.answering = () => undefined;
  const list = vi.spyOn(rent.cloud, "listOwned");
  list.mockImplementation(() => Promise.reject(inPart(down(), [], "anywhere")));
  return { mend: () => list.mockRestore() };
}

it("An incomplete list closes no row and sends no second order, even much later", async () => {
  const { mend } = await loseTheAnswer();
  for (let hour = 0; hour < 5; hour += 1) {
    await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
    await expect(rent.run(terminateStep)).rejects.toMatchObject({ code: "provider_error" });
    await rent.h.clock.advance(3_600_000);
  }
  expect([rent.states(), rent.creates().length, rent.cloud.machines.length]).toEqual([["1 unknown"], 1, 1]);
  mend();
  expect(await rent.run(provisionStep)).toMatchObject({ done: {}, detail: { machine: rent.name(1) } });
  expect(rent.creates()).toHaveLength(1);
});

it("A machine in an incomplete list is used", async () => {
  await loseTheAnswer();
  vi.spyOn(rent.cloud, "listOwned").mockImplementation(() =>
    Promise.reject(inPart(down(), [...rent.cloud.machines], "anywhere")),
  );
  expect(await rent.run(provisionStep)).toMatchObject({ done: {}, detail: { machine: rent.name(1) } });
  expect([rent.states(), rent.creates().length]).toEqual([["1 held"], 1]);
});

it("An order that was refused stays open while no complete list confirms that nothing was made", async () => {
  const { SvcError } = await import("../../src/errors/index.ts");
  rent.cloud.answering = () => {
    throw new SvcError("offer_taken", { provider: "podhost", offer: "small", why: "it is gone" });
  };
  const list = vi.spyOn(rent.cloud, "listOwned");
  list.mockImplementation(() => Promise.reject(inPart(down(), [], "anywhere")));
  await expect(rent.run(provisionStep)).rejects.toMatchObject({ code: "provider_error" });
  expect([rent.states(), rent.creates().length]).toEqual([["1 unknown"], 1]);
});

it("Of two machines with one name the first in the provider's list is kept, and the other one is ended at once", async () => {
  const { mend } = await loseTheAnswer();
  mend();
  const twin = rent.cloud.add(rent.name(1));
  rent.cloud.machines.reverse();
  expect(await rent.run(provisionStep)).toMatchObject({ done: {}, detail: { machine: rent.name(1) } });
  expect(rent.cloud.machines.map(({ id }) => id)).toEqual([twin.id]);
  expect(rent.states()).toEqual(["1 held"]);
});
