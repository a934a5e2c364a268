import { ADMINISTRATORS, type ApiOptions, type Person, startApi, type TestApi } from "./api.ts";
import type { HttpAnswer } from "./http.ts";

/** The API with service administrators. */
export type ServiceApi = TestApi & {
  /** Signs in a service administrator with a new account, which is onboarded. */
  administrator(): Promise<Person>;
  /** Reads a part of the installation as an administrator. */
  look(part: string): Promise<Seen>;
};

/** The response about a part of the installation. Figures are by name, or by name and subject. */
export type Seen = {
  answer: HttpAnswer;
  state: unknown;
  fault: unknown;
  figures: Record<string, SeenFigure>;
};
export type SeenFigure = { value: unknown; state: unknown; at: unknown };

const unused = new WeakMap<TestApi["db"], string[]>();

/** Signs in a person whose email address is a service administrator's. Each call uses a new address. */
export async function administratorOf(api: TestApi): Promise<Person> {
  const left = unused.get(api.db) ?? [...ADMINISTRATORS];
  unused.set(api.db, left);
  const email = left.pop();
  if (email === undefined) throw new Error("All administrators of the test API are used");
  const client = api.client();
  const { account_id, human_id } = await client.onboard(email);
  return { client, accountId: account_id, humanId: human_id, email };
}

/** Starts this API. */
export async function startServiceApi(options: ApiOptions = {}): Promise<ServiceApi> {
  const api = await startApi(options);
  let looker: Promise<Person> | undefined;

  return {
    ...api,
    administrator: () => administratorOf(api),
    async look(part) {
      looker ??= administratorOf(api);
      const { client } = await looker;
      return seenOf(await client.get(`/v1/service/installation/parts/${part}`));
    },
  };
}

function seenOf(answer: HttpAnswer): Seen {
  if (answer.status !== 200) throw new Error(answer.text);
  const { state, fault, figures } = answer.body as { [name: string]: unknown; figures: Listed[] };
  const named = figures.map((each) => [each.about === null ? each.name : `${each.name} ${each.about}`, each]);
  return { answer, state, fault, figures: Object.fromEntries(named) };
}

type Listed = SeenFigure & { name: string; about: string | null };
