import { expect, test } from "vitest";
import { serveLog, type LogFormat, type LogLevel } from "../../src/cli/serve-log.ts";
import type { Io } from "../../src/cli/io.ts";
import { startServer } from "../../src/api/server.ts";
import { PlaneDouble } from "../api/double.ts";
import { ask } from "../api/wire.ts";

function logged(format: LogFormat, level: LogLevel = "info") {
  const lines: string[] = [];
  const io = { err: (line: string) => lines.push(line.trimEnd()) } as unknown as Io;
  return { lines, log: serveLog(io, format, level, "1.2.3") };
}

test("the text format writes each message as one line that is safe for a terminal", () => {
  const { lines, log } = logged("text", "warn");
  log.info("not shown");
  log.warn("a machine \u001b[2J may cost money");
  expect(lines).toEqual(["a machine \\x1b[2J may cost money"]);
});

test("the JSON format writes one object per line, with level, time and version", () => {
  const { lines, log } = logged("json");
  log.error("line one\nline two");
  expect(lines).toHaveLength(1);
  const entry = JSON.parse(lines[0] ?? "");
  expect(entry).toMatchObject({ level: 50, name: "svc", version: "1.2.3", msg: "line one\nline two" });
  expect(Date.parse(entry.time)).toBeGreaterThan(0);
});

test("the JSON log names each request by id, route and status, and contains no text from the caller", async () => {
  const { lines, log } = logged("json", "debug");
  const plane = new PlaneDouble();
  const server = await startServer(plane, {
    host: "127.0.0.1",
    port: 0,
    projectDir: "/",
    dashboardDir: null,
    version: "1.2.3",
    ...(log.requests ? { logger: log.requests } : {}),
  });
  await ask({ port: server.port, path: "/jobs/s3cret?x=s3cret", headers: { "x-note": "s3cret" } });
  await server.close();
  const entries = lines.map((line) => JSON.parse(line));
  expect(entries).toEqual([
    expect.objectContaining({
      level: 20,
      method: "GET",
      route: "/jobs/:id",
      request_id: expect.stringMatching(/^.{12}$/),
    }),
  ]);
  expect(lines.join()).not.toContain("s3cret");
});
