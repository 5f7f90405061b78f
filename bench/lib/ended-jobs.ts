import { engineOf, instantSteps } from "../../scripts/lib/instant-engine.ts";
import { newJob, newJobId, openHome } from "./home.ts";

/** Adds jobs that the engine drove through their eight steps, so that the store also has their journals, attempts and feed. */
export async function addEndedJobs(home: string, count: number): Promise<void> {
  const store = await openHome(home);
  // These rows are made before the measurement, so a crash would lose nothing.
  store.db.pragma("synchronous = OFF");
  const over = new Map<string, () => void>();
  const engine = engineOf(store, instantSteps(), (id) => {
    over.get(id)?.();
    over.delete(id);
  });
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const id = newJobId();
      const ended = new Promise<void>((resolve) => over.set(id, resolve));
      await engine.create(newJob(id));
      await ended;
    }
  };
  await Promise.all(Array.from({ length: 200 }, worker));
  await engine.stop();
  store.db.pragma("synchronous = FULL");
  store.db.close();
}
