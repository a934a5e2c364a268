import { beforeAll, describe, expect, test } from "vitest";
import { credentialsOf, type Draft, draftOf, errorOf, idsOf, send } from "./call.ts";
import { contract } from "./documented.ts";
import { type DatabaseWatch, watchDatabase } from "./fingerprint.ts";
import { type IdPlace, idPlacesOf, otherwise } from "./isolation.ts";
import type { Operation, SeenAnswer } from "./openapi_document.ts";
import { ASKED_SCOPE, customerScene, SCOPE, type Scene, setScene, shareScenes, spends } from "./scene.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();
const takeScene = shareScenes(api);
let watch: DatabaseWatch;
/** The scene whose objects the attackers try to reach. */
let victim: Scene;
/** A scene of a different account, whose callers attack the victim. */
let stranger: Scene;
/** A scene with a second connection of the victim's account. */
let sibling: Scene;
/** Scenes of two customers of the stranger's platform. The one attacks the other. */
let customer: Scene;
let otherCustomer: Scene;

beforeAll(async () => {
  victim = await setScene(api, { organization: true });
  sibling = await setScene(api, { organization: true, person: victim.person });
  stranger = await setScene(api, { organization: true });
  [customer, otherCustomer] = [await customerScene(api, stranger), await customerScene(api, stranger)];
  watch = await watchDatabase(api.db);
});

const places = contract.operations.flatMap((operation) =>
  idPlacesOf(operation).map((id) => [`${operation.operationId} ${id.place}`, operation, id] as const),
);

/** Returns the id of the scene's object that belongs in this position. */
function idAt({ place, name }: IdPlace, scene: Scene): string {
  if (place.endsWith("subject.id")) return scene.agentId;
  if (place.endsWith("resource.id")) return scene.platform.connectionId;
  return (
    { ...idsOf(scene), org_id: scene.person.accountId, session_id: "theirs", resource_id: "theirs" }[name] ??
    unknown(place)
  );
}

function unknown(place: string): never {
  throw new Error(`${place}: scenes have no such thing; give them one, so that isolation is tested`);
}

async function wellFounded(operation: Operation, scene: Scene, place: string): Promise<Draft> {
  const draft = draftOf(operation, scene);
  const bound = scene.operation();
  switch (operation.operationId) {
    case "present_proof":
      return {
        ...draft,
        body: { challenge: scene.sparedChallenge, cert_id: scene.certId, operation: bound },
      };
    case "verify_proof": {
      const { proof_ref } = await scene.proof(bound);
      return { ...draft, body: { proof_ref, required_scope: SCOPE, operation: bound } };
    }
    case "request_access": {
      const operation = scene.operation(undefined, ASKED_SCOPE);
      const path = `/v1/service/connections/${scene.platform.connectionId}/agents/${scene.agentId}/present`;
      const { body } = await scene.keyed("POST", path, { operation, required_scope: ASKED_SCOPE });
      const asking = scene.asking();
      const denial = { evaluation_id: String(body.evaluation_id) };
      return { ...draft, body: { ...asking, denial, context: { purpose: "Share it", operation } } };
    }
    case "end_accepted_principal": {
      const { humanId } = victim.person;
      await acceptPrincipal(scene, humanId);
      return { ...draft, params: { ...draft.params, human_id: humanId } };
    }
    case "access_evaluation":
      return { ...draft, body: await questionOf(scene) };
    case "access_evaluations": {
      const { action, ...shared } = await questionOf(scene);
      const item = { action, ...(place.includes("evaluations") ? shared : {}) };
      return { ...draft, body: { ...shared, evaluations: [item] } };
    }
    default:
      return draft;
  }
}

/** Accepts a root at the scene's platform. Skips the scene's own root, which cannot be accepted. */
async function acceptPrincipal({ person, platform }: Scene, humanId: string): Promise<void> {
  if (person.humanId === humanId) return;
  const path = `/v1/service/platforms/${platform.platformId}/accepted-principals/${humanId}`;
  const { status } = await person.client.call("PUT", path, { body: { scopes: [SCOPE] } });
  expect(status).toBe(200);
}

const questionOf = async ({ agentId, platform, proof }: Scene) => ({
  subject: { type: "agent", id: agentId },
  action: { name: SCOPE },
  resource: { type: "connection", id: platform.connectionId },
  context: { proof_ref: (await proof()).proof_ref },
});

function withId(draft: Draft, { place, name }: IdPlace, id: string): Draft {
  const [part, ...path] = place.split(".");
  if (part === "path") return { ...draft, params: { ...draft.params, [name]: id } };
  if (part === "query") return { ...draft, query: [[name, id]] };
  return { ...draft, body: changed(draft.body, path, id) };
}

function changed(value: unknown, [name = "", ...rest]: string[], id: string): unknown {
  if (Array.isArray(value)) return value.map((each) => changed(each, [name, ...rest], id));
  const object = (value ?? {}) as Record<string, unknown>;
  return { ...object, [name]: rest.length === 0 ? id : changed(object[name], rest, id) };
}

/** Returns a response in the form that the table of exceptions uses. */
function toldBy(answer: SeenAnswer): string {
  if (answer.status === 404) return "404";
  if (answer.status !== 200) return errorOf(answer);
  const { items, events } = JSON.parse(answer.text);
  if ((items ?? events)?.length === 0) return "nothing";
  return answer.text.includes('"decision":false') ? "false" : "200";
}

const choicesOf = ({ security }: Operation, scene: Scene) =>
  (security.length === 0 ? [{}] : security).flatMap((way, choice) =>
    [sibling, customer].includes(scene) && !("api_key" in way) ? [] : [choice],
  );

/** Ids that both customers have from their platform. */
const SHARED = ["workspace_id", "human_id", "platform_id", "delivery_id", "recovery_id"];

const victimOf = (attacker: Scene) => (attacker === customer ? otherCustomer : victim);

type Attempt = { operation: Operation; id: IdPlace; attacker: Scene; expected: string };

/** Returns an attacker and the credentials for each attempt. The sibling and the customer have only a key. */
const attemptsAt = (operation: Operation, { name }: IdPlace) =>
  [stranger, sibling, customer]
    .filter((attacker) => attacker !== sibling || name !== "workspace_id")
    .filter((attacker) => attacker !== customer || !SHARED.includes(name))
    .flatMap((attacker) => choicesOf(operation, attacker).map((choice) => ({ attacker, choice })));

/** Calls an operation with the victim's id. Everything else belongs to the attacker. */
async function attempt({ operation, id, attacker, expected }: Attempt, credentials: Draft["headers"]) {
  const draft = await wellFounded(operation, attacker, id.place);
  await watch.changes();
  const answer = await send(api.url, withId(draft, id, idAt(id, victimOf(attacker))), credentials);
  expect([contract.violations(operation, answer), toldBy(answer)]).toEqual([[], expected]);
  if (answer.status >= 400) expect(await watch.changes()).toEqual([]);
  return { draft, answer };
}

describe("isolation between accounts", () => {
  test("the list of exceptions names only existing positions of ids", () => {
    const known = places.map(([place]) => place as string);
    expect(Object.keys(otherwise).filter((place) => !known.includes(place))).toEqual([]);
    expect(places.length).toBeGreaterThan(50);
  });

  test.each(places)(
    "the ids of a different account or connection get the same response as unknown ids in %s",
    async (key, operation, id) => {
      const { answers = "404", customer: ofCustomer = answers } = otherwise[key] ?? {};
      for (const { attacker, choice } of attemptsAt(operation, id)) {
        const expected = attacker === customer ? ofCustomer : answers;
        const credentials = credentialsOf(operation, attacker, choice);
        const { draft, answer } = await attempt({ operation, id, attacker, expected }, credentials);
        if (expected !== "404" || !id.place.startsWith("path.")) continue;
        const nothing = id.name === "agent_id" ? "0".repeat(32) : "none";
        expect((await send(api.url, withId(draft, id, nothing), credentials)).text).toBe(answer.text);
        const { params } = draftOf(operation, victimOf(attacker));
        expect(toldBy(await send(api.url, { ...draft, params }, credentials))).toBe("404");
      }
    },
  );

  test.each(places)("the caller's own id is accepted in %s", async (key, operation, id) => {
    const { answers: expected = "404", own: expectedOfOwn } = otherwise[key] ?? {};
    const own = await takeScene({ isSpent: spends(operation) });
    const draft = await wellFounded(operation, own, id.place);
    const isNamed = /\.(session_id|resource_id|operation\.invocation_id)$/.test(id.place);
    const asked = isNamed ? draft : withId(draft, id, idAt(id, own));
    const answer = await send(api.url, asked, credentialsOf(operation, own));
    if (expectedOfOwn !== undefined) {
      expect(toldBy(answer)).toBe(expectedOfOwn);
    } else if (expected === "200") {
      expect(answer.status).toBe(200);
    } else {
      expect(toldBy(answer)).not.toBe(expected);
    }
  });
});
