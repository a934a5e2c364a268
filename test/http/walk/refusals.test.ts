import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { errorCodes } from "../../../src/errors.ts";
import { credentialsOf, type Draft, draftOf, errorOf, send } from "./call.ts";
import { contract } from "./documented.ts";
import { MARKED_NUMBER, MARKER, mutationsOf, STRANGE } from "./mutations.ts";
import type { Operation, SeenAnswer } from "./openapi_document.ts";
import { type Scene, setScene } from "./scene.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();
let scene: Scene;
/** A person whose onboarding is not complete. */
let beginner: Scene;

beforeAll(async () => {
  scene = await setScene(api, { organization: true });
  const client = api.client();
  await client.signIn("beginner@example.test");
  beginner = { ...scene, person: { ...scene.person, client } };
});

/** Codes whose messages name scopes, so that a person sees which scopes the API refused. */
const NAMING_SCOPES = /"code":"(invalid_scopes|ceiling_exceeded|ceiling_widened|scope_not_requested)"/;

/** Sends a draft. Checks that the response is documented and that a refusal repeats nothing from the call. */
async function call(draft: Draft, headers: Draft["headers"]): Promise<SeenAnswer> {
  const answer = await send(api.url, draft, headers);
  expect(contract.violations(draft.operation, answer)).toEqual([]);
  expectSilence(answer);
  return answer;
}

function expectSilence({ status, text, headers }: SeenAnswer): void {
  if (status < 400 || NAMING_SCOPES.test(text)) return;
  const said = `${text} ${JSON.stringify([...headers])}`;
  expect([said.includes(MARKER), said.includes(MARKED_NUMBER), said]).toEqual([false, false, said]);
}

const declares = (operation: Operation, code: keyof typeof errorCodes) =>
  operation.responses[errorCodes[code][0]]?.["x-error-codes"]?.includes(code) ?? false;
const where = (holds: (operation: Operation) => boolean) =>
  contract.operations.filter(holds).map((operation) => [operation.operationId, operation] as const);
const isGuarded = ({ security }: Operation) => security.length > 0;
const isHook = ({ operationId }: Operation) => operationId.startsWith("ext_auth_");

/** Returns whether a 200 answers a malformed question in a batch with `false`, next to the other answers. */
const isOfItems = ({ operationId }: Operation, { status, text }: SeenAnswer) =>
  operationId === "access_evaluations" && status === 200 && text.includes('"decision":false');

describe("operations that require credentials", () => {
  test.each(where((operation) => isGuarded(operation) && !isHook(operation)))(
    "%s returns 401 without credentials",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      expect(errorOf(await call(draft, []))).toMatch(/^401 (auth_required|invalid_api_key)$/);
      const foreign: Draft["headers"] = [
        ["cookie", `service_session=${MARKER}; service_refresh=${MARKER}; service_csrf=${MARKER}`],
        ["x-service-csrf", MARKER],
        ["x-service-api-key", `dpz_00000000_${MARKER}`],
      ];
      const query: Draft["query"] = [[MARKER, MARKER]];
      expect(errorOf(await call({ ...draft, query }, foreign))).toMatch(
        /^401 (auth_required|invalid_api_key)$/,
      );
    },
  );

  test.each(where((operation) => declares(operation, "csrf_failed")))(
    "%s requires the CSRF header",
    async (_, operation) => {
      const choice = operation.security.findIndex((way) => "csrf" in way);
      const credentials = credentialsOf(operation, scene, choice);
      const bare = credentials.filter(([name]) => name !== "x-service-csrf");
      const draft = draftOf(operation, scene);
      expect(errorOf(await call(draft, bare))).toBe("403 csrf_failed");
      expect(errorOf(await call(draft, [...bare, ["x-service-csrf", MARKER]]))).toBe("403 csrf_failed");
    },
  );

  test.each(where((operation) => declares(operation, "onboarding_incomplete")))(
    "%s requires complete onboarding",
    async (_, operation) => {
      const choice = operation.security.findIndex((way) => "session" in way);
      const answer = await call(draftOf(operation, scene), credentialsOf(operation, beginner, choice));
      expect(errorOf(answer)).toBe("403 onboarding_incomplete");
    },
  );
});

/** Returns whether a body counts as absent: `null`, if the operation does not require a body. */
function isAbsent({ requestBody }: Operation, body: unknown): boolean {
  return body === null && requestBody?.required !== true;
}

describe("operations and invalid bodies", () => {
  test.each(where((operation) => operation.requestBody !== undefined))(
    "%s returns 400 for every invalid body",
    async (_, operation) => {
      const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
      const draft = draftOf(operation, scene);
      const credentials = credentialsOf(operation, scene);
      expect(contract.fits(schema, draft.body)).toBe(true);
      const faulty = [
        ...mutationsOf(schema, draft.body),
        ...STRANGE.map((body) => ({ what: `${JSON.stringify(body).slice(0, 40)}`, body })),
      ].filter(({ body }) => !contract.fits(schema, body) && !isAbsent(operation, body));
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
    "%s requires a body",
    async (_, operation) => {
      const { body, ...draft } = draftOf(operation, scene);
      expect(errorOf(await call(draft, credentialsOf(operation, scene)))).toBe("400 invalid_request");
    },
  );

  const MALFORMED: [string, string | Buffer][] = [
    ["not JSON", `{"${MARKER}`],
    ["a bare word", MARKER],
    ["two values", `{"${MARKER}":"${MARKER}"}{}`],
    ["a repeated member", `{"${MARKER}":1,"${MARKER}":2}`],
    ["nested too deeply", `{"${MARKER}":${"[".repeat(5000)}"${MARKER}"${"]".repeat(5000)}}`],
    ["not UTF-8", Buffer.concat([Buffer.from(`{"${MARKER}`), Buffer.from([0xff]), Buffer.from('":1}')])],
    ["a lone surrogate", `{"${MARKER}":"${MARKER}\\ud800"}`],
    ["a NUL in a name", `{"${MARKER}\\u0000":1}`],
    ["over 256 kB", JSON.stringify({ [MARKER]: MARKER.repeat(26_215) })],
  ];
  // Standards of OAuth demand forms, and another form of the refusal.
  const takesForm = ({ operationId }: Operation) => operationId.startsWith("oauth_");
  test.each(where((operation) => operation.method !== "GET" && !isHook(operation) && !takesForm(operation)))(
    "%s refuses a body that is not JSON, whether or not it reads the body",
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
        `text/${MARKER}`,
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

describe("operations and invalid parameters", () => {
  test.each(where((operation) => declares(operation, "not_found")))(
    "%s returns 404 for a malformed id and for an unknown id",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      for (const name of Object.keys(draft.params)) {
        const free = name === "invocation_id" ? [] : ["0".repeat(32), "01980f3e-6b1c-7d52-9a3e-5c1f7e20b846"];
        // Cluster and namespace names are free text, so every value is valid.
        const unknown = ["cluster", "namespace"].includes(name) ? [] : [MARKER, ...free];
        for (const id of ["\0", "%00", "..", "../..", "é", MARKER.repeat(100), ...unknown]) {
          const changed = { ...draft, params: { ...draft.params, [name]: id } };
          const answer = await call(changed, credentialsOf(operation, scene));
          expect([id, answer.status]).toEqual([id, 404]);
        }
      }
    },
  );

  test.each(where(({ parameters }) => parameters.some((parameter) => parameter.in === "query")))(
    "%s refuses a repeated parameter and values that its schema refuses",
    async (_, operation) => {
      const draft = draftOf(operation, scene);
      const credentials = credentialsOf(operation, scene);
      for (const { name, schema } of operation.parameters.filter((parameter) => parameter.in === "query")) {
        const texts = ["", "-1", "0", "1.5", "101", MARKER, "2026-13-01", "\0", MARKER.repeat(60)];
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

  test.each(where(({ requestBody }) => requestBody !== undefined))(
    "%s refuses an unknown content encoding",
    async (_, operation) => {
      const draft: Draft = { ...draftOf(operation, scene), headers: [["content-encoding", MARKER]] };
      expect((await call(draft, credentialsOf(operation, scene))).status).toBe(400);
    },
  );

  test.each(where(isHook))("%s refuses a malformed proof and scope", async (_, operation) => {
    for (const name of ["x-service-proof", "x-service-required-scope"]) {
      const draft: Draft = { ...draftOf(operation, scene), headers: [[name, `${MARKER} ${MARKER}`]] };
      expect((await call(draft, credentialsOf(operation, scene))).status).toBeGreaterThanOrEqual(400);
    }
  });

  const takesKey = ({ parameters }: Operation) => parameters.some(({ name }) => name === "Idempotency-Key");
  const withKey = (operation: Operation, key: string) =>
    call(
      { ...draftOf(operation, scene), headers: [["idempotency-key", key]] },
      credentialsOf(operation, scene),
    );

  test.each(where(takesKey))("%s refuses a malformed Idempotency-Key", async (_, operation) => {
    for (const key of ["", `two ${MARKER}`, MARKER.repeat(26)]) {
      expect(errorOf(await withKey(operation, key))).toBe("400 invalid_request");
    }
  });

  test.each(where((operation) => !takesKey(operation) && !isHook(operation)))(
    "%s says that it ignores an Idempotency-Key, also when it refuses the call",
    async (_, operation) => {
      const refused = { ...draftOf(operation, scene), headers: [["idempotency-key", `two ${MARKER}`]] };
      const { headers } = await call(refused as Draft, []);
      expect(headers.get("idempotency-key-ignored")).toBe("true");
    },
  );
});

describe("a call to a path or method without an operation", () => {
  const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

  test("gets 405 with the allowed methods for a known path, and 404 for an unknown path", async () => {
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

describe("a call with a random body", () => {
  test("gets no refusal that repeats a value from the body", async () => {
    const leaf = fc.constantFrom(MARKER, Number(MARKED_NUMBER), -Number(MARKED_NUMBER), true, null);
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        leaf,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom(MARKER, "type", "id", "scope"), tie("value"), { maxKeys: 3 }),
      ),
    }));
    const taking = contract.operations.filter(({ requestBody }) => requestBody !== undefined);
    const property = fc.asyncProperty(
      fc.constantFrom(...taking),
      fc.nat(),
      value,
      async (operation, place, wrong) => {
        const draft = draftOf(operation, scene);
        const names = Object.keys(draft.body as object);
        const name = names[place % Math.max(names.length, 1)] ?? MARKER;
        const body = { ...(draft.body as object), [name]: wrong };
        expectSilence(await send(api.url, { ...draft, body }, credentialsOf(operation, scene)));
      },
    );
    await fc.assert(property, { numRuns: 200 });
  });
});
