// Sends messages by the user's own SMTP server, with nodemailer. The connection goes to the checked address; TLS is proven for the name.
//
// M1. Port 465 is TLS from the first byte; every other port must offer STARTTLS. Without TLS svc talks only to an address that
//     `allow_private` allows.
// M2. The attempt and its connection end by its signal, whatever the server does. The library ends a connection only when it is idle,
//     so svc opens the connection itself.

import { connect, isIP } from "node:net";
import { createTransport } from "nodemailer";
import { messageOf as wordsOf, SvcError } from "../errors/index.ts";
import { oneLine } from "../domain/terminal-text.ts";
import { textOfMessage } from "./message.ts";
import { isPublicAddress, pinnedAddresses } from "./public-address.ts";
import { saidBy, type Send } from "./sender.ts";

const STEP_MS = 10_000;

export const sendEmail: Send<"email"> = async (message, target, context) => {
  const { host, port, user, from, to, allow_private = false } = target;
  const { secret, signal } = context;
  const [pinned] = await addressesOf(host, allow_private, context).catch((e: unknown) => {
    if (e instanceof SvcError) throw e;
    throw unreachable(context, host, e);
  });
  if (pinned === undefined) throw unreachable(context, host, new Error("the name has no address"));
  const over = new AbortController();
  const transport = createTransport({
    getSocket: (_options, opened) => {
      const socket = connect({ host: pinned.address, port, signal: AbortSignal.any([signal, over.signal]) });
      const refused = (e: Error): void => opened(e, undefined);
      socket.once("error", refused).once("connect", () => {
        socket.off("error", refused).on("error", () => undefined);
        opened(null, { connection: socket });
      });
    },
    host: pinned.address,
    port,
    secure: port === 465,
    requireTLS: port !== 465 && isPublicAddress(pinned.address),
    tls: { ...(isIP(host) ? {} : { servername: host }), minVersion: "TLSv1.2" },
    connectionTimeout: STEP_MS,
    greetingTimeout: STEP_MS,
    socketTimeout: STEP_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(secret === null ? {} : { auth: { user: user ?? from, pass: secret } }),
  });
  const ended = new Promise<never>((_, reject) => {
    const stop = (): void => reject(new Error("it did not answer in time"));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
  ended.catch(() => undefined);
  try {
    await Promise.race([
      transport.sendMail({
        from: { name: "svc", address: from },
        to: to.map((address) => ({ name: "", address })),
        subject: oneLine(message.title, 200),
        text: textOfMessage(message),
        messageId: `<${message.id}@svc.invalid>`,
        headers: { "svc-id": message.id, "auto-submitted": "auto-generated" },
      }),
      ended,
    ]);
  } catch (e) {
    throw unreachable(context, host, e);
  } finally {
    transport.close();
    over.abort();
  }
};

const addressesOf: (
  host: string,
  allowPrivate: boolean,
  context: Parameters<Send<"email">>[2],
) => ReturnType<typeof pinnedAddresses> = (host, allowPrivate, { resolver }) =>
  pinnedAddresses(host, { allowPrivate, ...(resolver ? { resolver } : {}) });

const unreachable = (context: Parameters<Send<"email">>[2], host: string, e: unknown): SvcError =>
  new SvcError(
    "notify_unreachable",
    { target: context.name, why: `${host}: ${saidBy(wordsOf(e), context)}` },
    { cause: e },
  );
