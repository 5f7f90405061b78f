import { describe, expect, it } from "vitest";
import { asSvcError, isDiskFull } from "../../src/errors/index.ts";
import { asStoreError } from "../../src/store/database.ts";

describe("a disk without room", () => {
  it.each(["ENOSPC", "EDQUOT", "SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"])(
    "is recognised from the message of every program: %s",
    (code) => {
      const thrown = Object.assign(new Error(code), { code });
      expect(isDiskFull(thrown)).toBe(true);
      expect(asSvcError(thrown)).toMatchObject({ code: "disk_full" });
      expect(asStoreError(thrown, "svc.db")).toMatchObject({ code: "disk_full", data: { path: "svc.db" } });
    },
  );

  it("does not match other failures", () => {
    const thrown = Object.assign(new Error("EIO"), { code: "EIO" });
    expect(isDiskFull(thrown)).toBe(false);
    expect(asSvcError(thrown)).toMatchObject({ code: "internal_error" });
  });
});
