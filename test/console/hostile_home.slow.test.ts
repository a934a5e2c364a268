import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/api.ts";
import { XSS_CORPUS } from "../support/xss_corpus.ts";
import { markupOf } from "./support/console.ts";
import { viewerOf } from "./support/visits.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

describe("the home page", () => {
  test.each(XSS_CORPUS)("escapes text from untrusted parties: %j", async (text) => {
    const unknown = { scope: "custom:orders:refund", denied: "a_reason_without_words" };
    const plain = await (await viewerOf(api, "busy", unknown)).open("/console");
    const hostile = await (await viewerOf(api, "busy", { scope: text, denied: text })).open("/console");
    expect(markupOf(hostile.text)).toEqual(markupOf(plain.text));
  });
});
