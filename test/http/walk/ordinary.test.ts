import { describe, expect, test } from "vitest";
import { credentialsOf, draftOf, errorOf, send } from "./call.ts";
import { contract, published } from "./documented.ts";
import type { Operation } from "./openapi_document.ts";
import { ordinaryCalls } from "./ordinary.ts";
import { shareScenes, spends } from "./scene.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();
const takeScene = shareScenes(api);

const all = contract.operations.map((operation) => [operation.operationId, operation] as const);

/** Returns the statuses of an operation that are not used for errors only. */
function ownStatuses({ responses }: Operation): number[] {
  return Object.entries(responses)
    .filter(([, { "x-error-codes": codes, content }]) => {
      const schema = content?.["application/json"]?.schema;
      return codes === undefined || schema?.anyOf !== undefined;
    })
    .map(([status]) => Number(status));
}

describe("the OpenAPI document", () => {
  test("matches the running API", async () => {
    const withoutServer = (document: Record<string, unknown>) => JSON.parse(JSON.stringify(document));
    expect(withoutServer((await api.client().get("/openapi.json")).body)).toEqual(withoutServer(published));
    expect(Object.keys(ordinaryCalls).sort()).toEqual(all.map(([id]) => id).sort());
  });

  test.each(all)(
    "lists exactly the responses, apart from errors, that %s can return",
    async (id, operation) => {
      const answers = (await ordinaryCalls[id]?.(api, await takeScene({ isSpent: spends(operation) }))) ?? [];
      for (const answer of answers) {
        expect([answer.status, contract.violations(operation, answer)]).toEqual([answer.status, []]);
      }
      expect([...new Set(answers.map(({ status }) => status))].sort()).toEqual(ownStatuses(operation));
    },
  );

  test.each(all)("has examples of %s that match the operation's schemas", (_, operation) => {
    const contents = [operation.requestBody, ...Object.values(operation.responses)].map(
      (part) => part?.content?.["application/json"],
    );
    for (const content of contents.filter((each) => each !== undefined)) {
      expect([content.example, contract.fits(content.schema, content.example)]).toEqual([
        content.example,
        true,
      ]);
    }
    for (const { example, schema } of operation.parameters.filter((parameter) => parameter.in === "path")) {
      expect(contract.fits(schema, example)).toBe(true);
    }
  });

  test.each(all)(
    "has an example request of %s that is well-formed with existing ids",
    async (_, operation) => {
      const scene = await takeScene({ isSpent: spends(operation) });
      const answer = await send(api.url, draftOf(operation, scene), credentialsOf(operation, scene));
      expect(contract.violations(operation, answer)).toEqual([]);
      expect(errorOf(answer)).not.toBe("400 invalid_request");
    },
  );

  test("has a check that reports every response that does not match", () => {
    const operation = contract.operation("get_session");
    const headers = new Headers({ "content-type": "application/json; charset=utf-8" });
    const odd = { status: 200, headers, text: "{}" };
    expect(contract.violations(operation, odd).join()).toMatch(/nosniff|x-content-type-options/);
    expect(contract.violations(operation, odd).join()).toMatch(/X-Request-Id: is missing/);
    expect(contract.violations(operation, odd).join()).toMatch(/body: .*account_id/);
    expect(contract.violations(operation, { ...odd, status: 418 }).join()).toMatch(/418 is not declared/);
    const foreign = '{"error":{"code":"platform_limit","message":"m","status":401}}';
    expect(contract.violations(operation, { ...odd, status: 401, text: foreign }).join()).toMatch(/code/);
  });
});
