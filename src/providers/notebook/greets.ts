// Whether an SSH server answers at the address of a runtime, without logging in.

import { connect } from "node:net";
import type { SshEndpoint } from "../../domain/endpoint.ts";
import { SvcError } from "../../errors/index.ts";

const TIMEOUT_MS = 20_000;

/** Whether sshd greets at an address. Sends nothing, so no login is counted. */
export function greets({ host, port }: Pick<SshEndpoint, "host" | "port">): Promise<void> {
  const unreachable = (why: string): SvcError =>
    new SvcError("provider_unreachable", { provider: "notebook", why: `${host} port ${port}: ${why}` });
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    const fail = (error: SvcError): void => {
      socket.destroy();
      reject(error);
    };
    let said = "";
    socket.setTimeout(TIMEOUT_MS, () => fail(unreachable("no greeting in time")));
    socket.once("error", (e: NodeJS.ErrnoException) => fail(unreachable(e.code ?? e.message)));
    socket.once("end", () => fail(unreachable("it hung up without a greeting")));
    socket.on("data", (bytes) => {
      said += bytes.toString("latin1");
      if (/^SSH-2\.0-/m.test(said)) {
        socket.destroy();
        resolve();
      } else if (said.length > 8_192) fail(unreachable("the program that answers there is not an SSH server"));
    });
  });
}
