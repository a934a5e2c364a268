import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MAX_LIST_BODY_BYTES } from "../../../keyvault/http/body.ts";
import type { CreatedKey } from "../../../keyvault/keys/create.ts";
import { newCertificateId } from "../../../src/ids.ts";
import {
  MAX_CERTS_PER_REVOCATION_LIST,
  type RevocationList,
  verifyRevocationList,
} from "../../../src/protocol/statements/revocation_list.ts";
import { startVault, type TestVault } from "../fixture.ts";
import type { Answer } from "../http/caller_support.ts";

/* The tests use values on both sides of each limit, with a real vault over mutual TLS. */

let vault: TestVault;
let root: CreatedKey;

beforeAll(async () => {
  vault = await startVault();
  root = await vault.makeKey({ tenant: "acc-1", purpose: "account_root", label: "root" });
});
afterAll(() => vault.close());

const post = (kind: string, body: unknown, headers = {}): Promise<Answer> =>
  vault.post(`/v1/keys/${root.key_id}/sign/${kind}`, body, vault.api, headers);
const send = (body: unknown, headers = {}) => post("revocation-list", body, headers);

/** Number of seconds after its expiry during which a certificate must stay on the list. */
const SECONDS_LISTED = 60;

/** Such a list can follow any earlier list, because all earlier certificates have expired. */
function fieldsOf(revoked_certs: unknown) {
  vault.clock.move(SECONDS_LISTED + 1);
  const now = vault.now();
  const expires_at = Array.isArray(revoked_certs) ? revoked_certs.map(() => now) : [];
  return { tenant: "acc-1", updated_at: now, revoked_certs, expires_at };
}
const IDS = Array.from({ length: MAX_CERTS_PER_REVOCATION_LIST + 1 }, newCertificateId);
const ids = (count: number) => IDS.slice(0, count);
const refused = { status: 400, body: { error: { code: "invalid_request" } } };

describe("the number of certificates in a list", () => {
  test.each([0, 1, 1_000, 1_001, MAX_CERTS_PER_REVOCATION_LIST])(
    "may be %d, and all certificates are signed in order",
    async (count) => {
      const fields = fieldsOf(ids(count));
      const { status, body } = await send(fields);
      expect(status).toBe(200);
      const list = body as unknown as RevocationList;
      expect(list.revoked_certs).toEqual(fields.revoked_certs);
      expect(await verifyRevocationList(list, root.public_key)).toBeUndefined();
      const [row] = await vault.home.sql<{ detail: object }>(
        "select detail from audit order by seq desc limit 1",
      );
      expect(row?.detail).toMatchObject({ certificates: String(count) });
    },
  );

  test("may not exceed the maximum: a longer list is refused and recorded", async () => {
    const before = vault.head();
    expect(await send(fieldsOf(ids(MAX_CERTS_PER_REVOCATION_LIST + 1)))).toMatchObject(refused);
    expect(await vault.recordsAfter(before)).toEqual([{ statement: "call", outcome: "invalid_request" }]);
  });
});

describe("the size of a list's body", () => {
  /** Returns a body of exactly this number of bytes. All ids have the maximum length, except the last one. */
  function fill(bytes: number): string {
    const LONGEST = 128;
    const ITEM = LONGEST + '"",'.length + "1767225600,".length;
    const empty = Buffer.byteLength(JSON.stringify(fieldsOf([""])));
    const whole = Math.floor((bytes - empty) / ITEM);
    const rest = bytes - empty - whole * ITEM;
    const text = JSON.stringify(fieldsOf([...Array(whole).fill("x".repeat(LONGEST)), "y".repeat(rest)]));
    expect(Buffer.byteLength(text)).toBe(bytes);
    return text;
  }

  test("may be large enough for the maximum number of the service's own certificates", () => {
    const tenant = "x".repeat(128);
    const body = { ...fieldsOf(ids(MAX_CERTS_PER_REVOCATION_LIST)), tenant };
    expect(Buffer.byteLength(JSON.stringify(body))).toBeLessThanOrEqual(MAX_LIST_BODY_BYTES);
  });

  test.each([{}, { "transfer-encoding": "chunked" }])(
    "may reach the maximum but not exceed it (%o)",
    async (headers) => {
      expect((await send(fill(MAX_LIST_BODY_BYTES), headers)).status).toBe(200);
      const over = await send(fill(MAX_LIST_BODY_BYTES + 1), headers);
      expect(over).toMatchObject(refused);
      expect(JSON.stringify(over.body)).toContain(`more than ${MAX_LIST_BODY_BYTES} bytes`);
    },
  );

  test("may exceed the maximum body size of all other calls", async () => {
    const text = JSON.stringify({ pad: "x".repeat(131_073 - JSON.stringify({ pad: "" }).length) });
    for (const kind of ["challenge", "delegation"]) {
      expect(JSON.stringify((await post(kind, text)).body)).toContain("more than 131072 bytes");
    }
  });
});

describe("the signing of a list", () => {
  const long = () => ids(4_000);

  test("accepts any id of up to 128 characters unchanged, in short and long lists", async () => {
    const odd = ["x", "x".repeat(128), "Zürich-😀", '"\\', "a line separator, escaped: a\u2028b"];
    for (const list of [odd, [...long(), ...odd]]) {
      const { status, body } = await send(fieldsOf(list));
      expect([status, body.revoked_certs]).toEqual([200, list]);
      expect(await verifyRevocationList(body as unknown as RevocationList, root.public_key)).toBeUndefined();
    }
  });

  test.each([
    ["no characters", ""],
    ["129 characters", "x".repeat(129)],
    ["U+0000", "a\u0000"],
    ["U+001F", "\u001f"],
    ["U+007F", "a\u007fb"],
    ["U+0080", "\u0080"],
    ["U+009F", "\u009f"],
    ["a number", 7],
    ["null", null],
    ["a list", ["x"]],
  ])("refuses an id of %s, in short and long lists", async (_, id) => {
    for (const list of [[id], [...long(), id]]) {
      const answer = await send(fieldsOf(list));
      expect(answer).toMatchObject(refused);
      expect(JSON.stringify(answer.body)).toContain("body.revoked_certs");
    }
  });

  test.each([
    ["one expiry time too few", [0]],
    ["one expiry time too many", [0, 0, 0]],
    ["a fraction", [0, 1.5]],
    ["an expiry time before 1970", [0, -1]],
    ["text", [0, "1767225600"]],
    ["null", [0, null]],
    ["a number", 0],
  ])("refuses %s as expiry times", async (_, expires_at) => {
    const answer = await send({ ...fieldsOf(["a", "b"]), expires_at });
    expect(answer).toMatchObject(refused);
    expect(JSON.stringify(answer.body)).toContain("body.expires_at");
  });

  test.each([
    ["a string", "x".repeat(200_000)],
    ["an object", Object.fromEntries(long().map((id) => [id, 1]))],
    ["null", null],
  ])("refuses %s instead of certificates", async (_, value) => {
    expect(await send(fieldsOf(value))).toMatchObject(refused);
  });

  test("reads short and long bodies with the same rules", async () => {
    const compact = () => JSON.stringify(fieldsOf(long()));
    const strict: [string, (text: string) => string | Buffer][] = [
      ["a doubled key", (text) => text.replace("{", '{"tenant":"acc-1",')],
      ["a doubled list", (text) => text.replace("{", '{"revoked_certs":[],')],
      ["an unknown field", (text) => text.replace("{", '{"bytes":"",')],
      ["something after it", (text) => `${text}1`],
      ["a fraction", (text) => text.replace(/"updated_at":(\d+)/, '"updated_at":$1.5')],
      ["a lone surrogate", (text) => text.replace('"cert-', '"\\ud800cert-')],
      [
        "no UTF-8",
        (text) =>
          Buffer.concat([Buffer.from(text.slice(0, -3)), Buffer.from([0xff]), Buffer.from(text.slice(-3))]),
      ],
      ["a byte order mark", (text) => `\ufeff${text}`],
      ["nesting", (text) => text.replace('"cert-', `${"[".repeat(20)}${"]".repeat(20)},"cert-`)],
    ];
    for (const [what, alter] of strict) {
      expect(await send(alter(compact())), what).toMatchObject(refused);
    }
    const free: [string, (text: string) => string][] = [
      ["spaces", (text) => text.replaceAll(",", ", ")],
      ["a fraction of nothing", (text) => text.replace(/"updated_at":(\d+)/, '"updated_at":$1.0')],
      ["another order", (text) => text.replace(/"tenant":"acc-1",(.*)}$/, '$1,"tenant":"acc-1"}')],
      ["escapes that need not be", (text) => text.replaceAll("cert-", "\\u0063ert-")],
    ];
    for (const [what, alter] of free) {
      const text = alter(compact());
      const { status, body } = await send(text);
      expect([status, body.revoked_certs], what).toEqual([200, JSON.parse(text).revoked_certs]);
    }
  });
});
