import { randomUUID } from "node:crypto";
import type { Installation } from "../../src/installation/installation.ts";
import {
  type OpenDeps,
  type OpenInstallation,
  openInstallation,
} from "../../src/installation/open_installation.ts";
import { installationRoutes } from "../../src/installation/routes.ts";
import type { HttpAnswer } from "./http.ts";
import { type Person, type PlatformApi, type PlatformOptions, startPlatformApi } from "./platform_world.ts";

/** The API with the installation's operations. Every read returns fresh data, without a cache. */
export type ServiceApi = PlatformApi & {
  /** Creates an onboarded account of a service administrator. */
  administrator(): Promise<Person>;
  installation: Installation;
  look(part: string): Promise<Seen>;
};

/** Figures of a part of the installation are by name, or by name and subject. */
export type Seen = {
  answer: HttpAnswer;
  state: unknown;
  fault: unknown;
  figures: Record<string, SeenFigure>;
};
export type SeenFigure = { value: unknown; state: unknown; at: unknown };

export type ServiceOptions = Partial<Pick<OpenDeps, "vault" | "certificateFile">>;

export async function administratorOf(api: PlatformApi): Promise<Person> {
  const client = api.client();
  const email = `administrator-${randomUUID()}@example.test`;
  const { account_id, human_id } = await client.onboard(email);
  return { client, accountId: account_id, humanId: human_id, email };
}

/** Returns options that make one address a service administrator's, and the installation. */
export function administered(given: ServiceOptions = {}) {
  const { vault = { health: async () => {} }, certificateFile = "none" } = given;
  let installation: OpenInstallation | undefined;
  const options: Required<Pick<PlatformOptions, "routes" | "isServiceAdministrator">> = {
    isServiceAdministrator: (email) => email.startsWith("administrator-"),
    routes: ({ databaseUrl: url, db, clock, log }) => {
      const parts = { url, clock, log, vault, certificateFile, version: "1.2.3" };
      installation = openInstallation({ ...parts, freshSeconds: 0 });
      return installationRoutes({ installation, db });
    },
  };
  return {
    options,
    installation: {
      read: async (part) => {
        if (installation === undefined) throw new Error("The API is not started");
        return installation.read(part);
      },
    } satisfies Installation,
    close: async () => installation?.close(),
  };
}

export async function startServiceApi(
  options: ServiceOptions & { platform?: PlatformOptions } = {},
): Promise<ServiceApi> {
  const { installation, options: administration, close } = administered(options);
  const api = await startPlatformApi({ ...options.platform, ...administration });
  let looker: Promise<Person> | undefined;

  return {
    ...api,
    administrator: () => administratorOf(api),
    installation,
    async look(part) {
      looker ??= administratorOf(api);
      const { client } = await looker;
      return seenOf(await client.get(`/v1/service/installation/parts/${part}`));
    },
    async stop() {
      await close();
      await api.stop();
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
