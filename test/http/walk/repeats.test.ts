import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { credentialsOf, type Draft, draftOf, send } from "./call.ts";
import { contract } from "./documented.ts";
import { type Scene, setScene } from "./scene.ts";
import { startWholeApi, type WholeApi } from "./world.ts";

/** What must never be in an answer, as text and as a number. */
const MARKER = "zqsecretqz";
const DIGITS = "4815162342";

/** Codes whose messages name scopes, so that a person sees which of them is refused. */
const NAMING_SCOPES = ["invalid_scopes", "ceiling_exceeded", "ceiling_widened", "scope_not_requested"];

const RAW = [
  MARKER,
  `{"${MARKER}":1,"${MARKER}":2}`,
  `{"${MARKER}`,
  `{"a":"${MARKER}`,
  `{"a":"${MARKER}\\ud800"}`,
  `{"${MARKER}":"\\u0000"}`,
  `{"${MARKER}\\u0000":1}`,
  `{"${MARKER}":1e${DIGITS}}`,
  `{"n":-0.${DIGITS}e99999}`,
  `{"n":${DIGITS}${DIGITS}}`,
  `{"n":${DIGITS}.${DIGITS}E+${DIGITS}}`,
  `{"${MARKER}":${"[".repeat(40)}"${MARKER}"${"]".repeat(40)}}`,
  `"${MARKER}"`,
  `["${MARKER}"]`,
];

let api: WholeApi;
let scene: Scene;

beforeAll(async () => {
  api = await startWholeApi();
  scene = await setScene(api);
});
afterAll(() => api.stop());

/** Sends a draft; if it is refused, nothing of it is in the answer. */
async function refusesSilently(draft: Draft, headers: Draft["headers"]): Promise<void> {
  const { status, text, headers: seen } = await send(api.url, draft, headers);
  if (status < 400) return;
  if (NAMING_SCOPES.includes(text.startsWith('{"error"') ? JSON.parse(text).error.code : "")) return;
  const told = `${text} ${JSON.stringify([...seen])}`;
  expect([draft.operation.operationId, told.includes(MARKER) || told.includes(DIGITS), told]).toEqual([
    draft.operation.operationId,
    false,
    told,
  ]);
}

const JSON_TYPE: Draft["headers"] = [["content-type", "application/json"]];
const HEADERS = ["idempotency-key", "content-encoding", "x-service-proof", "x-service-required-scope"];
const all = contract.operations
  .filter(({ operationId }) => operationId !== "logout" && operationId !== "refresh_session")
  .map((operation) => [operation.operationId, operation] as const);

/** The same call with one part of it wrong, and the marker in that part. */
function wrongCalls(draft: Draft): Draft[] {
  const body = typeof draft.body === "object" && draft.body !== null ? draft.body : {};
  const values = [MARKER, { [MARKER]: MARKER }, [MARKER], [{ type: MARKER, [MARKER]: MARKER }]];
  const inQuery = draft.operation.parameters.filter((parameter) => parameter.in === "query");
  return [
    ...RAW.map((raw) => ({ ...draft, raw, headers: JSON_TYPE })),
    ...Object.keys(body).flatMap((name) =>
      values.map((value) => ({ ...draft, body: { ...body, [name]: value } })),
    ),
    ...Object.keys(draft.params).map((name) => ({ ...draft, params: { ...draft.params, [name]: MARKER } })),
    ...inQuery.map(({ name }) => ({ ...draft, query: [[name, MARKER]] as Draft["query"] })),
    { ...draft, query: [1, 2].map(() => [MARKER, MARKER]) },
    ...HEADERS.map((name) => ({ ...draft, headers: [[name, `${MARKER} ${MARKER}`]] as Draft["headers"] })),
    { ...draft, raw: MARKER, headers: [["content-type", MARKER]] },
  ];
}

describe("a refusal repeats nothing of what was sent", () => {
  test.each(all)("by %s", { timeout: 120_000 }, async (_, operation) => {
    const draft = draftOf(operation, scene);
    const credentials = credentialsOf(operation, scene);
    for (const wrong of wrongCalls(draft)) await refusesSilently(wrong, credentials);
    await refusesSilently(draft, [
      ["cookie", `service_session=${MARKER}; service_csrf=${MARKER}`],
      ["x-service-csrf", MARKER],
      ["x-service-api-key", MARKER],
    ]);
  });

  test("whatever is in the body", { timeout: 120_000 }, async () => {
    const taking = contract.operations.filter(({ requestBody }) => requestBody !== undefined);
    const leaf = fc.constantFrom(MARKER, Number(DIGITS), -Number(DIGITS), `${MARKER}:${MARKER}`, true, null);
    const { value } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        leaf,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom(MARKER, "type", "id", "scope"), tie("value"), { maxKeys: 3 }),
      ),
    }));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...taking), fc.nat(), value, async (operation, place, wrong) => {
        const draft = draftOf(operation, scene);
        const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
        const names = [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(({ properties }) =>
          Object.keys(properties ?? {}),
        );
        const name = names[place % Math.max(names.length, 1)] ?? MARKER;
        const body = { ...(draft.body as object), [name]: wrong };
        await refusesSilently({ ...draft, body }, credentialsOf(operation, scene));
      }),
      { numRuns: 300 },
    );
  });
});
