import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Access, accessOf, curlLines, tryItYourself } from "../../../src/dev/tour/access_file.ts";
import type { TourState } from "../../../src/dev/tour/steps.ts";

type Call = { path: string; key: string | undefined; type: string | undefined; body: unknown };

/** A proof bundle with characters that are special in the shell, sed or printf. */
const BUNDLE = { delegations: ["%s %d \\n \\\\ $HOME `id` $(id) ' \" & / é\u2028 !!"], signature: "a+b/c==" };
const PROOF_REF = "AQAB-_proof";
const CHALLENGE = "Zm9vL2Jhcis=.AAAAAGVx/+8=";

let server: Server;
let calls: Call[];
let spent: boolean;
let connection: Access;

function answer(path: string, body: unknown): [status: number, answer: unknown] {
  if (path === "/v1/service/challenge") {
    return [200, { challenge: CHALLENGE, expires_at: "2026-01-01T00:00:00Z" }];
  }
  if (path === `/v1/service/connections/conn-1/agents/agent-1/present`) {
    const { challenge } = body as { challenge?: string };
    if (challenge !== CHALLENGE) return [400, { error: { code: "invalid_challenge", status: 400 } }];
    return [
      200,
      { proof_bundle: BUNDLE, proof_ref: PROOF_REF, cert_id: "cert-1", expires_at: "2026-01-01T00:00:00Z" },
    ];
  }
  const { proof_ref, proof_bundle } = body as { proof_ref?: unknown; proof_bundle?: unknown };
  if (proof_ref !== PROOF_REF || proof_bundle !== undefined || spent) {
    return [400, { error: { code: "invalid_challenge", status: 400 } }];
  }
  spent = true;
  return [200, { decision: "allow", decision_reason: "authorized" }];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { unreadable: text };
  }
}

beforeEach(async () => {
  calls = [];
  spent = false;
  server = createServer(async (request, response) => {
    const given = await text(request);
    const body = given === "" ? undefined : parsed(given);
    const { "x-service-api-key": key, "content-type": type } = request.headers;
    calls.push({ path: `${request.method} ${request.url}`, key: key?.toString(), type, body });
    const [status, answered] = answer(request.url ?? "", body);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answered));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  connection = {
    base_url: `http://127.0.0.1:${port}`,
    api_key: "dpz_abc-DEF_123",
    connection_id: "conn-1",
    agent_id: "agent-1",
    cert_id: "cert-1",
    scope: "data:read",
    owner_email: "owner@example.test",
  };
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await once(server, "close");
});

async function paste(lines: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)("sh", ["-c", lines.join("\n")], { timeout: 20_000 });
  return stdout;
}

describe("the shell commands to paste", () => {
  test("request a challenge, present it, verify the proof, and print allow", async () => {
    expect(JSON.parse(await paste(curlLines(connection)))).toEqual({
      decision: "allow",
      decision_reason: "authorized",
    });
    const { api_key: key } = connection;
    const type = "application/json";
    expect(calls).toEqual([
      { path: "POST /v1/service/challenge", key, type, body: undefined },
      {
        path: "POST /v1/service/connections/conn-1/agents/agent-1/present",
        key,
        type,
        body: { challenge: CHALLENGE, required_scope: "data:read" },
      },
      {
        path: "POST /v1/service/verify",
        key,
        type,
        body: { required_scope: "data:read", proof_ref: PROOF_REF },
      },
    ]);
  });

  test("fail when they verify the same proof a second time", async () => {
    const lines = curlLines(connection);
    const said = await paste([...lines, ...lines.slice(-1)]);
    expect(
      said
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { decision: "allow", decision_reason: "authorized" },
      { error: { code: "invalid_challenge", status: 400 } },
    ]);
  });

  test.each([
    "custom:a/b&c",
    "custom:it's",
    'custom:"quoted"',
    "custom:back\\slash",
    "custom:$HOME `id` %s",
    "custom:a|b",
  ])("send the scope unchanged: %s", async (scope) => {
    await paste(curlLines({ ...connection, scope }));
    expect(
      calls.map(({ body }) => (body as { required_scope?: string } | undefined)?.required_scope),
    ).toEqual([undefined, scope, scope]);
  });
});

describe("the access data", () => {
  const application = {
    baseUrl: "http://127.0.0.1:1",
    apiKey: "dpz_x",
    connectionId: "conn-1",
    agentId: "agent-1",
  };
  const known = (state: Partial<TourState>) => accessOf("http://127.0.0.1:1", state, "owner@example.test");

  test("names the tour's scope if it was granted, and otherwise a different granted scope", () => {
    const stands = { application, certId: "cert-1" };
    expect(known({ ...stands, granted: ["payments:send", "data:read"] })).toMatchObject({
      scope: "data:read",
    });
    expect(known({ ...stands, granted: ["payments:send"] })).toMatchObject({ scope: "payments:send" });
  });

  test.each([
    ["the start", {}],
    ["the platform", { application: { ...application, agentId: "" } }],
    ["the agent", { application }],
    ["a delegation that is no longer active", { application, certId: "", granted: [] }],
  ])("lacks commands to paste after a tour that reached only %s", (_, state) => {
    const shown = tryItYourself(known(state), "/x").join("\n");
    expect(shown).not.toContain("curl");
    expect(shown).toContain("there is no delegation to try");
    expect(shown).toContain("http://127.0.0.1:1/console");
  });

  test("contains the commands, the API key and the agents after a complete tour", () => {
    const access = known({ application, certId: "cert-1", granted: ["data:read"] });
    const shown = tryItYourself(access, "/x", { javascript: "run-javascript", python: "run-python" });
    expect(shown.filter((line) => line.includes("curl"))).toHaveLength(3);
    expect(shown).toEqual(expect.arrayContaining(["run-javascript", "run-python"]));
    expect(shown.slice(-4)).toEqual([
      expect.stringMatching(/^Console .* http:\/\/127\.0\.0\.1:1\/console .*\/dev\/mailbox\)$/),
      expect.stringMatching(/^API reference +http:\/\/127\.0\.0\.1:1\/docs$/),
      expect.stringMatching(/^Call the API .* \/x\/connection\.json$/),
      expect.stringMatching(/^Stop +Ctrl-C/),
    ]);
  });
});
