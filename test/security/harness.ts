// One `svc serve` for a test file, and scripts that misbehave.

import { connect } from "node:net";
import { Place, type Served } from "../process/harness.ts";

export { Place, type Served };

/** Sends raw bytes; returns all bytes until the connection ends. */
export function raw(port: number, bytes: string, msMax = 5_000): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes, "latin1"));
    socket.setTimeout(msMax, () => socket.destroy());
    socket.setEncoding("latin1");
    socket.on("data", (part: string) => (text += part));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
  });
}

export const portOf = (served: Served): number => Number(new URL(served.url).port);

/** Status codes of all answers in the received text. */
export const statuses = (text: string): number[] => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((m) => Number(m[1]));
