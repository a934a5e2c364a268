import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { errorCodes } from "../../../src/errors.ts";
import { credentialsOf, type Draft, draftOf, errorOf, send } from "./call.ts";
import { contract } from "./documented.ts";
import { mutationsOf, STRANGE } from "./mutations.ts";
import type { Operation, SeenAnswer } from "./openapi_document.ts";
import { type Scene, setScene } from "./scene.ts";
import { startWholeApi, type WholeApi } from "./world.ts";

let api: WholeApi;
let scene: Scene;

beforeAll(async () => {
  api = await startWholeApi();
  scene = await setScene(api, { organization: true });
});
afterAll(() => api.stop());

/** Sends a draft and holds the answer against the document. */
async function call(draft: Draft, headers: Draft["headers"]): Promise<SeenAnswer> {
  const answer = await send(api.url, draft, headers);
  expect(contract.violations(draft.operation, answer)).toEqual([]);
  return answer;
}

const declares = (operation: Operation, code: keyof typeof errorCodes) =>
  operation.responses[errorCodes[code][0]]?.["x-error-codes"]?.includes(code) ?? false;
const where = (holds: (operation: Operation) => boolean) =>
  contract.operations.filter(holds).map((operation) => [operation.operationId, operation] as const);
const isGuarded = ({ security }: Operation) => security.length > 0;
const isHook = ({ operationId }: Operation) => operationId.startsWith("ext_auth_");

/** A question in a batch that is malformed is answered `false` among the others. */
const isOfItems = ({ operationId }: Operation, { status, text }: SeenAnswer) =>
  operationId === "access_evaluations" && status === 200 && text.includes('"decision":false');

describe("without what proves the caller", () => {
  test.each(where((operation) => isGuarded(operation) && !isHook(operation)))(
    "%s is 401",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      expect(errorOf(await call(draft, []))).toMatch(/^401 (auth_required|invalid_api_key)$/);
      const foreign: Draft["headers"] = [
        ["cookie", "service_session=none; service_refresh=none; service_csrf=none"],
        ["x-service-csrf", "none"],
        ["x-service-api-key", "dpz_00000000_none"],
      ];
      expect(errorOf(await call(draft, foreign))).toMatch(/^401 (auth_required|invalid_api_key)$/);
    },
  );

  test.each(where((operation) => declares(operation, "csrf_failed")))(
    "%s needs the CSRF header",
    async (_, operation) => {
      const choice = operation.security.findIndex((way) => "csrf" in way);
      const credentials = credentialsOf(operation, scene, choice);
      const bare = credentials.filter(([name]) => name !== "x-service-csrf");
      const draft = draftOf(operation, scene);
      expect(errorOf(await call(draft, bare))).toBe("403 csrf_failed");
      expect(errorOf(await call(draft, [...bare, ["x-service-csrf", "other"]]))).toBe("403 csrf_failed");
    },
  );

  test.each(where((operation) => declares(operation, "onboarding_incomplete")))(
    "%s needs a complete onboarding",
    async (_, operation) => {
      const client = api.client();
      await client.signIn(`${operation.operationId}@example.test`);
      const choice = operation.security.findIndex((way) => "session" in way);
      const beginner = { ...scene, person: { ...scene.person, client } };
      const answer = await call(draftOf(operation, scene), credentialsOf(operation, beginner, choice));
      expect(errorOf(answer)).toBe("403 onboarding_incomplete");
    },
  );
});

describe("bodies that do not fit", () => {
  test.each(where((operation) => operation.requestBody !== undefined))(
    "%s refuses each with 400",
    async (_, operation) => {
      const own = await setScene(api);
      const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
      const draft = draftOf(operation, own);
      const credentials = credentialsOf(operation, own);
      expect(contract.fits(schema, draft.body)).toBe(true);
      const faulty = [
        ...mutationsOf(schema, draft.body),
        ...STRANGE.map((body) => ({ what: `${JSON.stringify(body).slice(0, 40)}`, body })),
      ].filter(({ body }) => !contract.fits(schema, body));
      expect(faulty.length).toBeGreaterThan(5);
      const taken: string[] = [];
      for (const { what, body } of faulty) {
        const answer = await call({ ...draft, body }, credentials);
        if (answer.status !== 400 && !isOfItems(operation, answer)) taken.push(`${what}: ${errorOf(answer)}`);
      }
      expect(taken).toEqual([]);
    },
  );

  test.each(where(({ requestBody }) => requestBody?.required === true))(
    "%s needs a body",
    async (_, operation) => {
      const { body, ...draft } = draftOf(operation, scene);
      expect(errorOf(await call(draft, credentialsOf(operation, scene)))).toBe("400 invalid_request");
    },
  );

  const MALFORMED: [string, string | Buffer][] = [
    ["no JSON", "{"],
    ["two values", "{}{}"],
    ["a member twice", '{"name":"a","name":"b"}'],
    ["nested too deeply", `{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`],
    ["no UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ["a lone surrogate", '{"name":"\\ud800"}'],
    ["over 256 kB", JSON.stringify({ name: "x".repeat(262_144) })],
  ];
  test.each(where((operation) => operation.method !== "GET" && !isHook(operation)))(
    "%s refuses what is no JSON, whether it takes a body or not",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      const credentials = credentialsOf(operation, scene);
      for (const [what, raw] of MALFORMED) {
        const answer = await call(
          { ...draft, raw, headers: [["content-type", "application/json"]] },
          credentials,
        );
        expect([what, errorOf(answer)]).toEqual([what, "400 invalid_request"]);
      }
    },
  );

  test.each(where(({ requestBody }) => requestBody !== undefined))(
    "%s refuses a body that is not declared as JSON",
    async (_, operation) => {
      const { body, ...draft } = draftOf(operation, scene);
      const raw = JSON.stringify(body);
      const types = [
        undefined,
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
      ];
      for (const type of types) {
        const headers: Draft["headers"] = type === undefined ? [] : [["content-type", type]];
        const answer = await call({ ...draft, raw, headers }, credentialsOf(operation, scene));
        expect([type, errorOf(answer)]).toEqual([type, "400 invalid_request"]);
      }
    },
  );
});

describe("parameters that do not fit", () => {
  test.each(where((operation) => declares(operation, "not_found")))(
    "%s is 404 for what cannot be an id, and for an id of nothing",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      for (const name of Object.keys(draft.params)) {
        const free = name === "invocation_id" ? [] : ["0".repeat(32), "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846"];
        // The name of a cluster and its namespace is whatever the caller says.
        const unknown = ["cluster", "namespace"].includes(name) ? [] : ["none", ...free];
        for (const id of ["\0", "%00", "..", "../..", "é", "x".repeat(1000), ...unknown]) {
          const changed = { ...draft, params: { ...draft.params, [name]: id } };
          const answer = await call(changed, credentialsOf(operation, scene));
          expect([id, answer.status]).toEqual([id, 404]);
        }
      }
    },
  );

  test.each(where(({ parameters }) => parameters.some((parameter) => parameter.in === "query")))(
    "%s refuses values that its schema refuses, and a parameter twice",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      const credentials = credentialsOf(operation, scene);
      for (const { name, schema } of operation.parameters.filter((parameter) => parameter.in === "query")) {
        const texts = ["", "-1", "0", "1.5", "101", "abc", "2026-13-01", "\0", "x".repeat(600)];
        const read = (text: string) =>
          schema.type === "integer" && /^[0-9]+$/.test(text) ? Number(text) : text;
        for (const text of texts.filter((each) => !contract.fits(schema, read(each)))) {
          const answer = await call({ ...draft, query: [[name, text]] }, credentials);
          expect([name, text, errorOf(answer)]).toEqual([name, text, "400 invalid_request"]);
        }
        const twice: Draft["query"] = [
          [name, "1"],
          [name, "1"],
        ];
        expect(errorOf(await call({ ...draft, query: twice }, credentials))).toBe("400 invalid_request");
      }
    },
  );

  const takesKey = ({ parameters }: Operation) => parameters.some(({ name }) => name === "Idempotency-Key");
  const withKey = (operation: Operation, key: string) =>
    call(
      { ...draftOf(operation, scene), headers: [["idempotency-key", key]] },
      credentialsOf(operation, scene),
    );

  test.each(where(takesKey))("%s refuses a malformed Idempotency-Key", async (_, operation) => {
    for (const key of ["", "two words", "x".repeat(256)]) {
      expect(errorOf(await withKey(operation, key))).toBe("400 invalid_request");
    }
  });

  test.each(where((operation) => !takesKey(operation) && !isHook(operation)))(
    "%s refuses any Idempotency-Key",
    async (_, operation) => {
      expect(errorOf(await withKey(operation, "k-1"))).toBe("400 invalid_request");
    },
  );
});

describe("what is no operation", () => {
  const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

  test("other methods of an operation's path are 405 and tell which there are; paths that do not exist are 404", async () => {
    for (const path of new Set(contract.operations.map((operation) => operation.path))) {
      const known = contract.operations.filter((operation) => operation.path === path);
      const [first] = known as [Operation];
      const draft = draftOf(first, scene);
      const own = known.map((one) => one.method);
      const allowed = [...own, ...(own.includes("GET") ? ["HEAD"] : [])].sort();
      for (const method of METHODS.filter((each) => !allowed.includes(each))) {
        const answer = await send(api.url, { ...draft, operation: { ...first, method } }, []);
        expect([path, method, answer.status]).toEqual([path, method, 405]);
        expect(answer.headers.get("allow")).toBe(allowed.join(", "));
      }
      const below = await send(api.url, { ...draft, operation: { ...first, path: `${path}/a/b/c/d/e` } }, []);
      if (!first.path.includes("ext-auth")) expect([path, below.status]).toEqual([path, 404]);
    }
  });
});
