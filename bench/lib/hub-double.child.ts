// The hub double in a separate process, so that only the downloading process is measured. Prints its address; ends with
// its standard input.

import { HubDouble, largeContent } from "../../test/hub/double.ts";

const hub = await new HubDouble().listen();
const commit = hub.commit("bench/model", { "model.safetensors": largeContent(Number(process.argv[2])) });
console.log(JSON.stringify({ url: hub.url, commit }));
process.stdin.resume().on("end", () => process.exit(0));
