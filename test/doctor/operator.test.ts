import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { folderChecks, operatorChecks } from "../../src/doctor/operator.ts";
import { OPERATOR_TOKEN, startApi, type TestApi } from "../support/api.ts";
import { rowsOf } from "./support.ts";

let api: TestApi;
beforeAll(async () => {
  const trusted = { get: () => undefined, close: async () => undefined };
  api = await startApi({ config: { OPERATOR_TOKEN }, trusted });
});
afterAll(() => api.stop());

const look = (change: Record<string, string> = {}) =>
  rowsOf(
    operatorChecks(),
    { OPERATOR_API_URL: api.operatorUrl, API_URL: api.url, OPERATOR_TOKEN, ...change },
    { roles: ["operator"] },
  );

describe("the check of the operator's access", () => {
  const accessOf = async (change?: Record<string, string>) => (await look(change))["operator's API"];

  test.each([{}, { CLUSTER_ID: "c1" }])(
    "passes with the right token and %j, and records no cluster",
    async (change) => {
      expect(await accessOf(change)).toMatchObject({
        status: "ok",
        detail: `${api.operatorUrl} accepts the operator's token`,
      });
      expect(await api.db("operator_token_cluster")).toEqual([]);
    },
  );

  test.each([{}, { CLUSTER_ID: "c1" }])("fails with another token and %j", async (change) => {
    const row = await accessOf({ ...change, OPERATOR_TOKEN: "x".repeat(40) });
    expect(row).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("refuses the operator's token"),
    });
  });

  test("fails at the port for applications", async () => {
    expect(await accessOf({ OPERATOR_API_URL: api.url })).toMatchObject({
      status: "failed",
      detail: `${api.url} is not the operator's port of the API`,
    });
  });

  test("fails at a closed port", async () => {
    expect(await accessOf({ OPERATOR_API_URL: "http://127.0.0.1:1" })).toMatchObject({
      status: "failed",
      detail: expect.stringContaining("ECONNREFUSED"),
    });
  });
});

test("the URL for applications passes if it accepts connections, and is not decided otherwise", async () => {
  expect((await look())["applications' API"]?.status).toBe("ok");
  expect((await look({ API_URL: "http://127.0.0.1:1" }))["applications' API"]?.status).toBe("skipped");
});

test("the folders pass if they can be used, and name a missing one, and one that is a file", async () => {
  const folder = await mkdtemp(join(tmpdir(), "doctor-folders-"));
  const at = (name: string) => join(folder, name);
  const settings = { MANIFESTS_DIR: at("manifests"), STATUS_DIR: at("status"), SECRETS_DIR: at("secrets") };
  const row = async () =>
    (await rowsOf(folderChecks(), settings, { roles: ["operator"] }))["operator's folders"];
  expect(await row()).toMatchObject({ status: "failed", detail: "MANIFESTS_DIR does not exist" });
  await mkdir(at("manifests"));
  // The operator creates the other folders.
  expect(await row()).toMatchObject({ status: "ok" });
  await writeFile(at("secrets"), "");
  expect(await row()).toMatchObject({ status: "skipped", detail: "SECRETS_DIR is wrong" });
  await rm(folder, { recursive: true });
});
