import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../../support/api.ts";
import { XSS_CORPUS } from "../../support/xss_corpus.ts";
import { markupOf } from "../support/console.ts";
import type { Seen } from "../support/visits.ts";
import { triedViewer } from "./viewer.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const open = (viewer: Seen) => viewer.open(`/console/try?delegation=${viewer.ids.cert}`);

describe("text from untrusted parties on the trial page", () => {
  test("appears escaped in names, reasons, constraints and entered values", async () => {
    const plain = async (text: string) => {
      const safe = text.replaceAll(/\p{Cf}/gu, "");
      const viewer = await triedViewer(api, {
        agent: safe,
        platform: safe,
        constraints: [{ type: "resource_path", resource_id: safe }],
      });
      const page = await open(viewer);
      const denied = await page.send("try", { "context.resource_id": `${safe} ` });
      const refused = await page.send("try", { another_scope: safe });
      await viewer.client.post(`/v1/service/delegations/${viewer.ids.cert}/revoke`, { reason: safe });
      const revoked = await (await open(viewer)).send("try");
      return { page, denied, refused, revoked };
    };
    const quiet = await plain("quiet");
    for (const text of XSS_CORPUS) {
      const safe = text
        .replaceAll(/\p{Cf}/gu, "")
        .trim()
        .slice(0, 80);
      const shown = await plain(safe);
      for (const name of ["page", "denied", "refused", "revoked"] as const) {
        expect([text, name, shown[name].status]).toEqual([text, name, quiet[name].status]);
        expect([text, name, markupOf(shown[name].text)]).toEqual([text, name, markupOf(quiet[name].text)]);
        expect(shown[name].words.replaceAll(/\s+/g, " ")).toContain(safe.replaceAll(/\s+/g, " "));
      }
    }
  });
});
