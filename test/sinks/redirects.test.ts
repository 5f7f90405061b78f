// Stores that redirect requests.

import { expect, it } from "vitest";
import { fileOf, serve, storeOf, turn } from "./own-server.ts";

it.each(["s3", "gs"] as const)(
  "A store of %s that redirects to another address gets nothing sent there",
  async (scheme) => {
    let elsewhere = 0;
    const other = await serve((_, response) => {
      elsewhere += 1;
      response.end();
    });
    const store = await storeOf(scheme, (request, response) => {
      request.resume();
      response.writeHead(307, { location: `${other}/b/k` }).end();
    });
    await expect(store.upload(fileOf(Buffer.from("x")), turn())).rejects.toMatchObject({
      code: "sink_refused",
      message: expect.stringContaining(`redirects to ${other}`) as string,
    });
    expect(elsewhere).toBe(0);
  },
);

it.each([301, 307, 400])(
  "A bucket of another region is written there after status %i, and at once the next time",
  async (status) => {
    const regions: string[] = [];
    const file = fileOf(Buffer.from("x"));
    const store = await storeOf("s3", (request, response) => {
      request.resume();
      const region = /\/(r|eu-west-9)\/s3\/aws4_request/.exec(request.headers.authorization ?? "")?.[1] ?? "none";
      regions.push(region);
      if (region === "eu-west-9") return void response.setHeader("etag", `"${file.md5.toString("hex")}"`).end();
      response.writeHead(status, { "x-amz-bucket-region": "eu-west-9" }).end();
    });
    await store.upload(file, turn());
    await store.upload(file, turn());
    expect(regions).toEqual(["r", "eu-west-9", "eu-west-9"]);
  },
);

it("A malformed region changes nothing", async () => {
  let asked = 0;
  const store = await storeOf("s3", (request, response) => {
    request.resume();
    asked += 1;
    response.writeHead(307, { "x-amz-bucket-region": "evil.example/x" }).end();
  });
  await expect(store.upload(fileOf(Buffer.from("x")), turn())).rejects.toMatchObject({ code: "sink_refused" });
  expect(asked).toBe(1);
});
