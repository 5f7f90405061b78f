// HTTP as bytes and as plain requests. `fetch` sets Host and Origin by itself, so the gate's tests need something lower.

import { request, type IncomingHttpHeaders } from "node:http";
import { connect } from "node:net";

export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  json: any;
}

export interface Ask {
  host?: string;
  port: number;
  path?: string;
  method?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
}

export function ask({
  host = "127.0.0.1",
  port,
  path = "/v1/health",
  method = "GET",
  headers = {},
  body,
}: Ask): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const asking = request({ host, port, path, method, headers, agent: false }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(parts).toString("utf8");
        const isJson = /json/.test(response.headers["content-type"] ?? "");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: isJson && text ? JSON.parse(text) : null,
        });
      });
    });
    asking.on("error", reject);
    asking.end(body);
  });
}

/** Sends bytes, and resolves with every byte that came back when the other side has ended. */
export function raw(port: number, bytes: string | Buffer, host = "127.0.0.1"): Promise<string> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connect(port, host, () => socket.write(bytes));
    socket.setEncoding("latin1");
    socket.on("data", (part: string) => (answer += part));
    socket.on("error", () => socket.destroy());
    socket.on("close", () => resolve(answer));
  });
}

/** Posts a value, or raw bytes. */
export const post = (port: number, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> =>
  ask({
    port,
    path,
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  });
