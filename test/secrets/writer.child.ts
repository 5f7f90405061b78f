// Writes its marks into the store of a home, with one change each.

import { changeStore } from "../../src/secrets/store-file.ts";
import { exclusively } from "../../src/store/file-lock.ts";

const [home = "", who = "", times = "0"] = process.argv.slice(2);
for (let i = 0; i < Number(times); i++) {
  changeStore(home, exclusively, (store) => ({
    ...store,
    marks: { ...(store["marks"] as object | undefined), [`${who}-${i}`]: i },
  }));
}
process.exit(0);
