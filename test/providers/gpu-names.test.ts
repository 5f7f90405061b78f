// The spellings of GPU names that people use, and the names that svc sends to each provider.

import { describe, expect, test } from "vitest";
import { gpuKey } from "../../src/domain/gpu-name.ts";
import { GPU_CATALOGUE, vramFor } from "../../src/domain/gpus.ts";
import { gpuIds, gpuIdsSold, leastMemoryOf, nearGpus } from "../../src/providers/gpu-names.ts";
import { planFor } from "../../src/providers/cloudvm/machine-types.ts";
import { data, never, orderOf, pod, podhostStub, specOf, thrownBy, type Asked } from "./podhost-stub.ts";
import { offerRow, spec as marketSpec, Stub } from "./market-stub.ts";

const G = "NVIDIA GeForce ";

test.each([
  ["RTX 4090", "rtx-4090", "RTX_4090", "RTX4090", "4090", "NVIDIA GeForce RTX 4090", " geforce rtx4090 "],
  ["T4", "Tesla T4", "tesla-t4", "nvidia-tesla-t4", "NVIDIA T4"],
  ["H100 SXM", "H100-SXM", "h100sxm5", "NVIDIA H100 SXM5"],
  ["RTX 6000 Ada", "RTX6000Ada", "RTX 6000Ada", "NVIDIA RTX 6000 Ada Generation"],
  ["RTX PRO 6000", "RTX-PRO-6000", "RTXPRO6000", "nvidia-rtx-pro-6000"],
  ["RTX PRO 6000 S", "NVIDIA RTX PRO 6000 Blackwell Server Edition"],
  ["RTX PRO 6000 MaxQ", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"],
  ["RTX 4080 SUPER", "RTX 4080S", "rtx4080super", "NVIDIA GeForce RTX 4080 SUPER"],
  ["RTX 3080 Ti", "3080ti", "NVIDIA GeForce RTX 3080TI"],
  ["MI300X", "AMD Instinct MI300X OAM"],
  ["A100 80GB PCIe", "NVIDIA A100 80GB PCIe", "a100-pcie-80g"],
  ["H100", "H-100", "h 100"],
  ["MI300X", "MI-300X", "mi 300x"],
  ["L40S", "L40-S", "L 40S"],
  ["RTX 4070 Ti SUPER", "RTX 4070S Ti", "rtx4070tisuper"],
])("%s is also written %s", (...spellings) => {
  expect(new Set(spellings.map(gpuKey)).size).toBe(1);
});

test("cards with similar names are different cards", () => {
  const names = [
    "A10",
    "A10g",
    "A100",
    "A100X",
    "L4",
    "L40",
    "L40S",
    "RTX 4090",
    "RTX 4090D",
    "RTX A4000",
    "RTX 4000 Ada",
    "TITAN V 12GB",
    "TITAN RTX",
  ];
  names.push(
    "RTX 4080",
    "RTX 4080 SUPER",
    "A6000",
    "RTX 6000 Ada",
    "RTX PRO 6000",
    "H100",
    "H200",
    "B200",
    "B300",
    "B300 MIG 34GB",
  );
  expect(new Set(names.map(gpuKey)).size).toBe(names.length);
});

/** The names in podhost's catalogue of November 2026. */
const SOLD = [
  ["NVIDIA B200", "B200", 180],
  ["NVIDIA B300 SXM6 AC", "B300", 288],
  ["AMD Instinct MI300X OAM", "MI300X", 192],
  ["NVIDIA H200", "H200 SXM", 141],
  ["NVIDIA H100 80GB HBM3", "H100 SXM", 80],
  ["NVIDIA H100 PCIe", "H100 PCIe", 80],
  ["NVIDIA H100 NVL", "H100 NVL", 94],
  ["NVIDIA A100-SXM4-80GB", "A100 SXM", 80],
  ["NVIDIA A100 80GB PCIe", "A100 PCIe", 80],
  ["NVIDIA A100-SXM4-40GB", "A100 SXM 40GB", 40],
  ["NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", 96],
  ["NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 WK", 96],
  ["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 MaxQ", 96],
  ["NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", 48],
  ["NVIDIA RTX A6000", "RTX A6000", 48],
  [`${G}RTX 4080`, "RTX 4080", 16],
  [`${G}RTX 4080 SUPER`, "RTX 4080 SUPER", 16],
  ["NVIDIA L40", "L40", 48],
  ["NVIDIA L40S", "L40S", 48],
  ["Acme X1 Quantum", "X1 Quantum", 64],
  ["unknown", "unknown", 0],
].map(([id, shownAs, memoryGb]) => ({ id: String(id), shownAs: String(shownAs), memoryGb: Number(memoryGb) }));

describe("podhost's own catalogue decides which GPUs are requested", () => {
  test.each<[string, string[]]>([
    ["B200", ["NVIDIA B200"]],
    ["b300", ["NVIDIA B300 SXM6 AC"]],
    ["RTX 4080", [`${G}RTX 4080`]],
    ["RTX4080", [`${G}RTX 4080`]],
    ["H100 SXM", ["NVIDIA H100 80GB HBM3"]],
    ["H100-PCIe", ["NVIDIA H100 PCIe"]],
    ["H100", ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"]],
    ["MI300X", ["AMD Instinct MI300X OAM"]],
    ["A100", ["NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"]],
    ["A100 40GB", ["NVIDIA A100-SXM4-40GB"]],
    ["A100-PCIe", ["NVIDIA A100 80GB PCIe"]],
    ["RTX PRO 6000", SOLD.filter(({ id }) => id.includes("PRO 6000")).map(({ id }) => id)],
    ["RTX PRO 6000 Max-Q", ["NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"]],
    ["RTX6000Ada", ["NVIDIA RTX 6000 Ada Generation"]],
    ["B200 SXM", ["NVIDIA B200"]],
    ["H200 SXM5 141GB", ["NVIDIA H200"]],
    ["H-100 NVL", ["NVIDIA H100 NVL"]],
    ["L40-S", ["NVIDIA L40S"]],
    ["X1 Quantum", ["Acme X1 Quantum"]],
    ["acme x1-quantum", ["Acme X1 Quantum"]],
    ["NVIDIA L40", ["NVIDIA L40"]],
    ["T4", []],
    ["", []],
  ])("%s", (model, ids) => {
    expect(gpuIdsSold("podhost", model, SOLD)).toEqual(ids);
  });

  test("an unknown name fails before any other request, with the nearest rentable names", async () => {
    const gpuTypes = SOLD.map(({ id, shownAs, memoryGb }) => ({ id, displayName: shownAs, memoryInGb: memoryGb }));
    const stub = await podhostStub(() => data({ gpuTypes }));
    const error = await thrownBy(stub.provider.listOffers(specOf({ gpus: "RTX 4081" }), never));
    expect(error.code).toBe("gpus_unsupported");
    expect(error.message).toMatch(/near it: .*RTX ?4080/);
    expect(stub.asked).toHaveLength(1);
  });

  test.each([["rest"], ["graphql"]])("%s: the second page of 10,000 kinds counts", async (api) => {
    const many = Array.from({ length: 10_000 }, (_, i) => ({
      id: `NVIDIA Z${i}`,
      name: `Z${i}`,
      displayName: `Z${i}`,
    }));
    const price = {
      securePrice: 1,
      lowestPrice: { uninterruptablePrice: 1, stockStatus: "High" },
      price: { secure: 1 },
    };
    const wanted = {
      id: "NVIDIA B200",
      name: "B200",
      displayName: "B200",
      memory: 180,
      memoryInGb: 180,
      availability: "HIGH",
      ...price,
    };
    const all = [...many, wanted];
    const answer = ({ path, query, body }: Asked) => {
      if (path === "/graphql")
        return data({ gpuTypes: all.filter(({ id }) => id === (body.variables.filter?.id ?? id)) });
      const at = Number(query.get("cursor") ?? 0);
      const hasNextPage = at + 500 < all.length;
      return {
        json: {
          gpus: all.slice(at, at + 500),
          pagination: { nextCursor: hasNextPage ? `${at + 500}` : null, hasNextPage },
        },
      };
    };
    const stub = await podhostStub(answer, { api });
    const offers = await stub.provider.listOffers(specOf({ gpus: "B200" }), never);
    expect(offers.map(({ extra }) => extra?.["gpuTypeId"])).toEqual(["NVIDIA B200"]);
    expect(stub.asked.length).toBeLessThan(50);
  });

  test("the cheaper variant of an A100 is offered first, unless a variant is named", async () => {
    const gpu = (id: string, displayName: string, securePrice: number) => ({
      id,
      displayName,
      memoryInGb: 80,
      secureCloud: true,
      securePrice,
      maxGpuCount: 8,
      lowestPrice: { uninterruptablePrice: securePrice, stockStatus: "High" },
    });
    const all = [gpu("NVIDIA A100-SXM4-80GB", "A100 SXM", 1.89), gpu("NVIDIA A100 80GB PCIe", "A100 PCIe", 1.64)];
    const stub = await podhostStub(({ body }) =>
      data({ gpuTypes: all.filter(({ id }) => id === (body.variables.filter?.id ?? id)) }),
    );
    const prices = async (gpus: string) =>
      (await stub.provider.listOffers(specOf({ gpus }), never)).map(({ priceMicro }) => priceMicro);
    expect(await prices("A100")).toEqual([1_640_000, 1_890_000]);
    expect(await prices("A100 SXM")).toEqual([1_890_000]);
  });
});

describe("market is searched by its own names", () => {
  test.each<[string, string[]]>([
    ["RTX4080", ["RTX 4080"]],
    ["b200", ["B200"]],
    ["RTX6000Ada", ["RTX 6000Ada"]],
    ["H100-SXM", ["H100 SXM"]],
    ["H100", ["H100 SXM", "H100 PCIE", "H100 NVL"]],
    ["A100", ["A100 SXM4", "A100 PCIE"]],
    ["RTX PRO 6000", ["RTX PRO 6000 S", "RTX PRO 6000 WS", "RTX PRO 6000 MaxQ"]],
    ["Tesla T4", ["Tesla T4"]],
    ["RTX 4060 Ti", ["RTX 4060 Ti"]],
    ["H200 SXM", ["H200"]],
    ["NVIDIA B200 SXM6", ["B200"]],
    ["A-100 PCIe", ["A100 PCIE"]],
  ])("%s, with its list of names and without", async (model, names) => {
    const stub = await new Stub().start();
    try {
      const searched: unknown[] = [];
      stub.routes["POST /api/v0/bundles/"] = ({ body }) => {
        searched.push(body["gpu_name"]);
        return { json: { offers: [offerRow({ gpu_name: names[0], gpu_ram: 200_000 })] } };
      };
      for (const listed of [true, false]) {
        stub.routes["GET /api/v0/gpu_names/unique/"] = () =>
          listed ? { json: { success: true, gpu_names: ["A100X", ...names, "L4"] } } : { status: 500, text: "" };
        expect(await stub.provider().listOffers(marketSpec({ gpus: model }), never)).toHaveLength(1);
      }
      expect(searched).toEqual([{ in: names }, { in: names }]);
    } finally {
      await stub.close();
    }
  });
});

test("cloudvm knows a GPU by every spelling", () => {
  const spec = (gpus: string) => ({ ...specOf({ gpus: "T4" }), gpus });
  for (const name of ["T4", "Tesla T4", "nvidia-tesla-t4", "NVIDIA T4"])
    expect(planFor(spec(name), {}).accelerator).toEqual({ type: "nvidia-tesla-t4", count: 1 });
  for (const name of ["H100 80GB", "H100-SXM", "NVIDIA H100 80GB HBM3", "h100-sxm5-80gb", "H-100"])
    expect(planFor(spec(`${name}:8`), {}).machineType).toBe("a3-highgpu-8g");
  for (const name of ["A100-SXM4-80GB", "A100-80G"])
    expect(planFor(spec(name), {}).accelerator?.type).toBe("nvidia-a100-80gb");
  expect(planFor(spec("h100-80gb-mega:8"), {}).machineType).toBe("a3-megagpu-8g");
  expect(planFor(spec("RTX PRO 6000 Server"), {}).machineType).toBe("g4-standard-48");
});

test.each([
  ["L40S", /rents out no GPU of that name; near it: L4/],
  ["RTX 4090", /rents out no GPU of that name/],
  ["H100-PCIe", /rents out no GPU of that name; near it: H100/],
  ["MI300X", /rents out no GPU of that name/],
])("cloudvm refuses %s, which only others have, before anything is asked", (gpus, words) => {
  expect(() => planFor({ ...specOf({ gpus: "T4" }), gpus }, {})).toThrow(words);
  expect(planFor({ ...specOf({ gpus: "T4" }), gpus }, { machine_type: "n4-next-8g" }).machineType).toBe("n4-next-8g");
});

test("every model of the menu is in the table of its providers' identifiers, or in their own", () => {
  for (const { model, providers } of GPU_CATALOGUE)
    for (const speaker of ["podhost", "market"] as const)
      // A10: the specification lists it, but this provider does not sell it.
      if (providers.includes(speaker) && !(model === "A10" && speaker === "podhost"))
        expect(gpuIds(speaker, model), `${model} at ${speaker}`).not.toEqual([
          model === "A10" ? "" : model.toLowerCase(),
        ]);
  expect(vramFor("NVIDIA GeForce RTX 4080")).toBe(16);
  expect(leastMemoryOf("A100 SXM")).toBe(80);
  expect(nearGpus("podhost", "RTX4080", SOLD)[0]).toMatch(/4080/);
});

test.each([
  ["Tesla V100-SXM2-16GB", "cuda11.8", "11.8"],
  ["AMD Instinct MI300X OAM", "rocm", undefined],
  ["NVIDIA B200", "cu1281", "12.8"],
])("%s gets a default image that it can run", async (gpuTypeId, part, cuda) => {
  const stub = await podhostStub(({ root }) => data({ [root]: pod() }));
  await stub.provider.create(
    { id: "x", priceMicro: 1, extra: { gpuTypeId, gpuCount: "1", cloud: "SECURE" } },
    orderOf(),
  );
  const input = stub.asked[0]?.body.variables.input;
  expect(input?.imageName).toContain(part);
  expect(input?.minCudaVersion).toBe(cuda);
});
