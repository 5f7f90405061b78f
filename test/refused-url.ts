// An address of this computer at which every connection is refused until the test has finished: the local end of a connection of ours. No other
// program can listen there meanwhile, unlike at a number that merely should be unused.

import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";
import { onTestFinished } from "vitest";

export async function refusedUrl(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  // A listening TCP server has an address with a port.
  const held = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(held, "connect");
  const [other] = await accepted;
  onTestFinished(async () => {
    held.destroy();
    other.destroy();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${held.localPort}`;
}
